"""A lock that is a file replaced by conditional writes; Apache Hudi 1.x's StorageBasedLockProvider.

`.hoodie/.locks/table_lock.json` says who has the lock, and until when: an owner that does not renew it before
has lost it. The file is never deleted: a released lock says so (`expired`). Apache Hudi has this lock on S3
and GCS.

Times are the storage's, where it has a clock of its own. A holder that slept, or whose clock is wrong, looks
right before it publishes whether the file is its own (`held`).
"""

from __future__ import annotations

import json
import posixpath
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hoodie.config.key import Config
from hoodie.errors import ConfigError, ConflictError
from hoodie.lock import Holder, Lease, LockProvider, time_of
from hoodie.lock.settings import PROVIDER, STORAGE_RENEW_S, STORAGE_VALID_S
from hoodie.storage import Storage
from hoodie.timeline.active import meta_path

if TYPE_CHECKING:
    from hoodie.table.handle import Table

_NAME = ".locks/table_lock.json"
#: an owner's clock may be behind by this much, as Apache Hudi has it
_DRIFT_MS = 500
#: Apache Hudi's least, and how many renewals fit into it
_LEAST_S, _RENEWALS = 10, 10


class StorageLock(LockProvider):
    advice = f". The lock of a process that is gone is free at the end of {STORAGE_VALID_S.name}"

    def __init__(self, *, table: Table, config: Config) -> None:
        super().__init__(table=table, config=config)
        valid, renew = config[STORAGE_VALID_S], config[STORAGE_RENEW_S]
        if valid < _LEAST_S or valid < _RENEWALS * renew:
            raise ConfigError(
                f"{STORAGE_VALID_S.name}={valid} must be at least {_LEAST_S} and {_RENEWALS} times "
                f"{STORAGE_RENEW_S.name}={renew}, as Apache Hudi has it; set one of them otherwise",
                setting=STORAGE_VALID_S.name,
                value=valid,
            )
        if not table.storage.conditional:
            raise ConfigError(
                f"{PROVIDER.name}={config[PROVIDER]} needs a storage with conditional writes, which that of "
                f"{table.base_path} has not; use another lock provider",
                setting=PROVIDER.name,
                value=str(config[PROVIDER]),
            )
        self.expires_s = float(valid)
        self._file = _LockFile(
            storage=table.storage,
            path=f"{meta_path(table.base_path)}/{_NAME}",
            valid_s=float(valid),
            renew_s=float(renew),
        )

    @property
    def name(self) -> str:
        return self._file.path

    def try_acquire(self) -> Lease | None:
        file = self._file
        found = file.read()
        if found is not None and found.valid(file.storage.now_ms()):
            return None
        if found is not None and not found.expired:  # its owner may have died while it replaced the file
            file.storage.sweep_partial(posixpath.dirname(file.path))
        holder, token = Holder.this_process(), str(uuid.uuid4())
        owner = holder.owner(token)
        version = file.replace(owner, None if found is None else found.version)
        return None if version is None else _Lease(file, holder, token, owner, version)

    def holder(self) -> Holder | None:
        found = self._file.read()
        if found is None or found.expired:
            return None
        holder = Holder.of_owner(found.owner)
        until = "" if holder.since else f", until {time_of(found.valid_until)}"
        return replace(holder, process=holder.process + until)


@dataclass(frozen=True, kw_only=True)
class _Content:
    """What the file says. `version`: of the file; `valid_until`: epoch milliseconds."""

    expired: bool
    valid_until: int
    owner: str
    version: str

    def valid(self, now_ms: int) -> bool:
        return not self.expired and now_ms <= self.valid_until + _DRIFT_MS


@dataclass(frozen=True, kw_only=True)
class _LockFile:
    storage: Storage
    path: str
    valid_s: float
    renew_s: float

    def read(self) -> _Content | None:
        """None where there is none, and for content that Apache Hudi could not read either but its version:
        it has no owner.
        """
        try:
            data, version = self.storage.read_version(self.path)
        except FileNotFoundError:
            return None
        try:
            found: Any = json.loads(data)
            expired, until, owner = found["expired"], found["validUntil"], found["owner"]
            if isinstance(expired, bool) and isinstance(until, int) and 0 <= until < 1 << 48:
                return _Content(expired=expired, valid_until=until, owner=str(owner), version=version)
        except (ValueError, TypeError, KeyError, RecursionError):
            pass
        return _Content(expired=True, valid_until=0, owner="", version=version)

    def replace(self, owner: str, version: str | None, expired: bool = False) -> str | None:
        """The new version; None where the file is not of the given one any more."""
        until = self.storage.now_ms() + int(self.valid_s * 1000)
        content = {"expired": expired, "validUntil": until, "owner": owner}
        data = json.dumps(content, separators=(",", ":")).encode()
        try:
            return self.storage.put_if(self.path, data, version)
        except ConflictError:  # a process that takes the lock over swept the unfinished file
            return None


class _Lease(Lease):
    def __init__(self, file: _LockFile, holder: Holder, token: str, owner: str, version: str) -> None:
        super().__init__(holder=holder, token=token)
        self.lasts_s = file.valid_s
        self.renewed_s = file.renew_s
        self._file = file
        self._owner = owner
        self._version = version
        self._released = False

    @property
    def held(self) -> bool:
        found = None if self._released else self._file.read()
        if found is None or found.owner != self._owner or found.expired:
            return False
        return self._file.storage.now_ms() < found.valid_until

    def renew(self) -> None:
        found = None if self._released else self._file.read()
        if found is not None and found.owner == self._owner and not found.expired:
            self._file.replace(self._owner, found.version)

    def release(self) -> None:
        """A renewal may come between the look and the change."""
        while not self._released:
            found = self._file.read()
            if found is None or found.owner != self._owner or found.expired:
                break
            if self._file.replace(self._owner, found.version, expired=True) is not None:
                break
        self._released = True
