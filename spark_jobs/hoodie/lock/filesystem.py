"""A lock that is a file of the table's storage; Apache Hudi's FileSystemBasedLockProvider.

`.hoodie/lock`, or `lock` in a folder of its own, is there while the lock is held, and is created exclusively.
Its content has Apache Hudi's form: the time, the thread, and lines about it, one of them with a token, by
which the holder recognizes its own file. (Apache Hudi's file is empty on a local file system and on HDFS;
Hudi reads the content only to log it.) A lock expires when its file has not been modified for the time that
is set.

Apache Hudi 0.15.0 deletes the file when its wait has timed out and it closes, also a file of another process.
So a holder checks right before it publishes that the file is its own (`held`).
"""

from __future__ import annotations

import contextlib
import json
import posixpath
import threading
import uuid

from hoodie.config.key import Config
from hoodie.errors import AlreadyExists, ConfigError, ConflictError, HoodieError
from hoodie.lock import Holder, Lease, LockProvider, time_of
from hoodie.lock.settings import FILESYSTEM_EXPIRE, FILESYSTEM_PATH
from hoodie.storage import PARTIAL_SUFFIX, FileInfo, Storage, is_below, storage_for
from hoodie.table.handle import Table
from hoodie.timeline.active import meta_path

_NAME = "lock"
#: created exclusively, too: of several processes that find an expired lock one removes the lock. A process
#: that is killed meanwhile leaves this file as an unfinished one, which the next writer sweeps
_TAKEOVER = f".{_NAME}{PARTIAL_SUFFIX}"
_READ_BYTES = 1 << 16


class FilesystemLock(LockProvider):
    waits = False
    advice = (
        "; if its process is gone, delete that file, or have such locks taken over with "
        f"{FILESYSTEM_EXPIRE.name} (minutes)"
    )

    def __init__(self, *, table: Table, config: Config) -> None:
        super().__init__(table=table, config=config)
        folder = config[FILESYSTEM_PATH] or meta_path(table.base_path)
        _check_same_storage(folder, table.base_path)
        self._takeover = f"{folder}/{_TAKEOVER}"
        own = is_below(folder, [table.base_path])
        self._file = LockFile(
            storage=table.storage if own else storage_for(folder, table.ref.storage_options),
            path=f"{folder}/{_NAME}",
            expire_s=config[FILESYSTEM_EXPIRE] * 60.0,
        )
        self.expires_s = self._file.expire_s or None

    @property
    def name(self) -> str:
        return self._file.path

    def try_acquire(self) -> Lease | None:
        file = self._file
        info = file.storage.info(file.path)
        if info is not None and not (file.expired(info) and self._remove_expired()):
            return None
        return file.create()

    def holder(self) -> Holder | None:
        return self._file.holder()

    def _remove_expired(self) -> bool:
        """Delete the expired file; False while another process does so."""
        file = self._file
        try:
            file.storage.create(self._takeover, b"")
        except AlreadyExists:
            info = file.storage.info(self._takeover)
            if info is not None and file.expired(info):  # its process was killed
                file.storage.delete(self._takeover)
            return False
        try:
            now = file.storage.info(file.path)
            if now is not None and file.expired(now):
                file.storage.delete(file.path)
                file.storage.sweep_partial(posixpath.dirname(file.path), of=_NAME)
        finally:
            file.storage.delete(self._takeover)
        return True


class LockFile:
    """The file of the lock. `expire_s` 0: it never expires."""

    def __init__(self, *, storage: Storage, path: str, expire_s: float) -> None:
        self.storage = storage
        self.path = path
        self.expire_s = expire_s

    def expired(self, info: FileInfo) -> bool:
        return self.expire_s > 0 and self.storage.now_ms() - info.mtime_ms > self.expire_s * 1000

    def create(self) -> Lease | None:
        """The lease of the new file; None where the name was taken meanwhile."""
        token = uuid.uuid4().hex
        holder = Holder.this_process()
        content = _content(holder, token)
        try:
            self.storage.create(self.path, content)
        except (AlreadyExists, ConflictError):  # a writer that repairs the table sweeps unfinished files
            if self.read() != content:
                return None
        except BaseException:
            with contextlib.suppress(OSError, HoodieError):  # it may have been created in spite of the error
                self.delete(content)
            raise
        return _Lease(self, holder, token, content)

    def read(self) -> bytes | None:
        """None where there is no file."""
        try:
            return self.storage.read_range(self.path, 0, _READ_BYTES)
        except FileNotFoundError:
            return None

    def delete(self, content: bytes) -> None:
        """Delete the file that has this content."""
        if self.read() == content:
            self.storage.delete(self.path)

    def holder(self) -> Holder | None:
        content, info = self.read(), self.storage.info(self.path)
        if content is None or info is None:
            return None
        try:
            found = json.loads(content)
            lines = [str(line).partition(": ") for line in found["lockStacksInfo"]]
            values = {name: value for name, _, value in lines}
            return Holder.found(
                process=values.get("process") or f"thread {found['lockThreadName']}",
                host=values.get("host", ""),
                since=found["lockCreateTime"],
            )
        except (ValueError, TypeError, KeyError, RecursionError):
            return Holder(since=time_of(info.mtime_ms))


class _Lease(Lease):
    def __init__(self, file: LockFile, holder: Holder, token: str, content: bytes) -> None:
        super().__init__(holder=holder, token=token)
        self.lasts_s = file.expire_s or None
        self._file = file
        self._content = content
        self._released = False

    @property
    def held(self) -> bool:
        return not self._released and self._file.read() == self._content

    def renew(self) -> None:
        if self.held:
            self._file.storage.write(self._file.path, self._content)

    def release(self) -> None:
        if not self._released:
            self._file.delete(self._content)
        self._released = True


def _check_same_storage(folder: str, base_path: str) -> None:
    """Raises ConfigError for a folder of another storage: writers that reach the table may not reach it."""
    if folder.rpartition("://")[0] != base_path.rpartition("://")[0]:
        raise ConfigError(
            f"{FILESYSTEM_PATH.name}={folder} is on another storage than the table {base_path}; use a folder "
            "there, or leave this out",
            setting=FILESYSTEM_PATH.name,
            value=folder,
        )


def _content(holder: Holder, token: str) -> bytes:
    """As Apache Hudi's LockInfo."""
    found = {
        "lockCreateTime": holder.since,
        "lockThreadName": threading.current_thread().name,
        "lockStacksInfo": [f"process: {holder.process}", f"host: {holder.host}", f"token: {token}"],
    }
    return json.dumps(found, indent=2).encode()
