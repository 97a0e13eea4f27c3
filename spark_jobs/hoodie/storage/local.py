"""Local (or mounted) file system.

Atomic writes go through a temporary sibling `.<name>.<random>.hoodie-tmp`, synced, which takes the name
(`hoodie.storage.exclusive`; fails if the name is taken) or replaces what has it, then the folder is synced,
and the parents of folders that were made. Hadoop's `.crc` side file of a replaced or deleted file is removed
first, else JVM readers fail on the checksum.

With a `root`, a table's folder, nothing outside it is touched, no link is followed, and files are regular
ones (`hoodie.storage.path_guard`): a pipe or a device would hang the reader or fill its memory.

A temporary that `sweep_partial` took away fails its own write (Fenced) instead of being made anew: a
writer that slept while another one repaired the table can't publish what it had prepared.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import io
import os
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from hoodie.config.key import Config
from hoodie.config.limits import MAX_READ_BYTES
from hoodie.errors import AlreadyExists, Fenced, StorageError, TableError
from hoodie.storage import PARTIAL_SUFFIX, Access, Check, FileInfo, Found, Output, Storage
from hoodie.storage.exclusive import LOCK_SUFFIX, Way, locked, sweep, take
from hoodie.storage.path_guard import Contained, shared, special

TMP_SUFFIX = PARTIAL_SUFFIX
_TREE_ATTEMPTS = 10
_BUFFER = 1 << 16
#: what may be over a little later
_TRANSIENT = frozenset(
    {errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.ETIMEDOUT}
)
#: modification times may be as coarse
_CLOCK_S = 2.0
#: no such file, and no file can be there: a table may name any
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
#: the content and the size of a file, without its times
_sync_data = getattr(os, "fdatasync", os.fsync)


class LocalStorage(Storage):
    """`root`: the table's folder, beyond which nothing is touched but what `access` says."""

    local = True
    fences = True
    conditional = True
    _contained: Contained | None = None
    #: how files are created here, as far as it is known
    _way = Way.LINK
    #: by how much the clock of the file system, maybe another machine's, is ahead of this machine's
    _ahead_ms = 0

    @classmethod
    def make(cls, *, uri: str, options: Mapping[str, str]) -> LocalStorage:
        from hoodie.storage.settings import access

        return cls(uri, access(Config(options)) if options else Access())

    def __init__(self, root: str | None = None, access: Access = Access()) -> None:  # noqa: B008  a tuple
        self.access = access
        if root is not None:
            self._contained = Contained(root, access)

    @classmethod
    def of_source(cls, *, uri: str, options: Mapping[str, str]) -> LocalStorage:
        return cls()

    def find(self, path: str) -> Sequence[Found]:
        matches = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
        files = [(file, match) for match in matches for file in _below(match)]
        return [
            Found(file, match if file != match else "", found.st_size, nanos, nanos // 1_000_000)
            for file, match in files
            for found in [os.stat(file)]
            for nanos in [found.st_mtime_ns]
        ]

    def list(self, path: str) -> list[FileInfo]:
        out: list[FileInfo] = []
        self._check_folder(path)
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    try:
                        found = entry.stat(follow_symlinks=self._contained is None)
                    except FileNotFoundError:
                        continue
                    if stat.S_ISLNK(found.st_mode) and self._follows(entry.path):
                        found = entry.stat()
                    is_dir = stat.S_ISDIR(found.st_mode)
                    if not (is_dir or stat.S_ISREG(found.st_mode)) and self._contained is not None:
                        raise special(entry.path, found.st_mode)
                    size = 0 if is_dir else found.st_size
                    out.append(FileInfo(entry.path, entry.name, size, int(found.st_mtime * 1000), is_dir))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _unlisted(path, error) from error
        out.sort(key=lambda item: item.name)
        return out

    def names(self, path: str) -> Collection[str]:
        self._check_folder(path)
        try:
            return os.listdir(path)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _unlisted(path, error) from error

    def spark_path(self, path: str) -> str | None:
        return path

    def exists(self, path: str) -> bool:
        self._check(path)
        return os.path.exists(path)

    def info(self, path: str) -> FileInfo | None:
        self._check(path)
        try:
            contained = self._contained
            found = os.stat(path, follow_symlinks=contained is None or path == contained.root)
            if stat.S_ISLNK(found.st_mode) and self._follows(path):
                found = os.stat(path)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise _refused(path, "looked at", error) from error
            return None
        is_dir = stat.S_ISDIR(found.st_mode)
        size = 0 if is_dir else found.st_size
        return FileInfo(path, path.rpartition("/")[2], size, int(found.st_mtime * 1000), is_dir)

    def read(self, path: str) -> bytes:
        with _named(path, "read"), self.open_input(path) as file:
            _check_size(path, os.fstat(file.fileno()).st_size)
            return file.read()

    def write(self, path: str, data: bytes) -> None:
        self._check(path)
        with _named(path):
            tmp = self._temporary(path, data)
            _remove(_crc(path))
            try:
                os.replace(tmp, path)
            except FileNotFoundError:
                raise _swept(path) from None
            self.sync(os.path.dirname(path))

    def create(self, path: str, data: bytes, check: Check = None) -> None:
        self._create(path, data, check)

    def create_mark(self, path: str, data: bytes) -> None:
        self._create(path, data, None, sync=False)

    def _create(self, path: str, data: bytes, check: Check, sync: bool = True) -> None:
        self._check(path)
        if not data and check is None:
            self._create_empty(path)
            return
        with _named(path):
            tmp = self._temporary(path, data, sync=sync)
        try:
            if check is not None:
                check()
            with _named(path):
                self._take(tmp, path)
        finally:
            _remove(tmp)
        if sync:
            self.sync(os.path.dirname(path))

    def read_version(self, path: str) -> tuple[bytes, str]:
        return (data := self.read(path)), _version(data)

    def put_if(self, path: str, data: bytes, version: str | None) -> str | None:
        """Callers exclude one another by a lock on a file beside."""
        if version is None:
            try:
                self.create(path, data)
            except AlreadyExists:
                return None
            return _version(data)
        self._check(path)
        with _named(path), contextlib.suppress(FileNotFoundError), locked(path):
            if _version(self.read(path)) == version:
                self.write(path, data)
                return _version(data)
        return None

    def delete(self, path: str) -> None:
        self._check(path)
        with _named(path, "deleted"):
            _remove(_crc(path))
            _remove(path)

    def delete_tree(self, path: str) -> None:
        self._check_folder(path)
        if self._contained is not None:
            self._contained.check_not_root(path)
        if os.path.islink(path):  # one that the caller allows: what it leads to stays
            with _named(path, "deleted"):
                os.unlink(path)
            self.sync(os.path.dirname(path))
            return
        for _ in range(_TREE_ATTEMPTS):
            try:
                shutil.rmtree(path)
            except OSError as error:
                # another process deletes here, or a late task adds a file; anything else is a real failure
                if error.errno == errno.ENOTDIR:
                    raise StorageError(
                        f"{path} is a file where a folder belongs; look what made it, and move it away",
                        path=path,
                    ) from None
                if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                    raise _refused(path, "deleted", error) from error
            if not os.path.lexists(path):
                return
        raise StorageError(
            f"{path} can't be deleted: files keep appearing in it; stop their writer", path=path
        )

    def make_dirs(self, path: str) -> None:
        self._check_folder(path)
        missing: list[str] = []
        folder = path
        while self.access.sync and not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        with _named(path):
            os.makedirs(path, exist_ok=True)
            for made in reversed(missing):
                self.sync(os.path.dirname(made))

    def sync(self, path: str) -> None:
        if not self.access.sync:
            return
        with _named(path, "synced"):
            try:
                folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            except OSError as error:
                if error.errno not in _ABSENT:
                    raise
                return
            try:
                os.fsync(folder)
            except OSError as error:
                if error.errno != errno.EINVAL:  # a file system that can't sync folders
                    raise
            finally:
                os.close(folder)

    def output(self, path: str, *, exclusive: bool = False) -> Output:
        self._check(path)
        self.make_dirs(os.path.dirname(path))
        with _named(path):
            try:
                return _Output(path, self, None if self._contained is None else _regular, exclusive)
            except FileExistsError:
                raise AlreadyExists(f"{path} exists already", path=path) from None

    def open_input(self, path: str) -> BinaryIO:
        self._check(path)
        try:
            return open(path, "rb", opener=None if self._contained is None else _regular)
        except IsADirectoryError:
            raise _folder(path) from None
        except OSError as error:
            if error.errno in _ABSENT:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
            raise _refused(path, "read", error) from error

    def now_ms(self) -> int:
        """This machine's clock, and of a mount that another one serves that one's, as far as the modification
        times of files that were written here show it.
        """
        return int(time.time() * 1000) + self._ahead_ms

    def _check(self, path: str) -> None:
        if self._contained is not None:
            self._contained.check(path)

    def _check_folder(self, path: str) -> None:
        if self._contained is not None:
            self._contained.check_folder(path)

    def _follows(self, path: str) -> bool:
        return self._contained is not None and self._contained.follows(path)

    def sweep_partial(self, path: str, of: str = "") -> int:
        start = f".{of}" if of else ""
        leftovers = [
            name for name in self.names(path) if name.endswith(TMP_SUFFIX) and name.startswith(start)
        ]
        with _named(path, "swept"):
            for name in leftovers:
                if not name.endswith(LOCK_SUFFIX):
                    _remove(os.path.join(path, name))
            swept = [name for name in leftovers if not name.endswith(LOCK_SUFFIX) or sweep(f"{path}/{name}")]
        return len(swept)

    def creation(self, folder: str) -> str:
        probe = f"{folder}/.{uuid.uuid4().hex[:12]}{TMP_SUFFIX}"
        try:
            self.create(probe, b"x")
        finally:
            self.delete(probe)
        return self._way.value

    def _take(self, tmp: str, path: str) -> None:
        try:
            self._way = take(tmp, path, self._way)
        except FileExistsError:
            raise AlreadyExists(f"{path} exists already", path=path) from None
        except FileNotFoundError:
            raise _swept(path) from None

    def _create_empty(self, path: str) -> None:
        with _named(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            except FileExistsError:
                raise AlreadyExists(f"{path} exists already", path=path) from None

    def _temporary(self, path: str, data: bytes, *, sync: bool = True) -> str:
        folder, name = os.path.split(path)
        self.make_dirs(folder)
        tmp = os.path.join(folder, f".{name}.{uuid.uuid4().hex[:12]}{TMP_SUFFIX}")
        try:
            with open(tmp, "wb") as file:
                begun = time.time()
                file.write(data)
                file.flush()
                if sync and self.access.sync:
                    os.fsync(file.fileno())
                ahead = os.fstat(file.fileno()).st_mtime - begun
            late = time.time() - begun + _CLOCK_S
            self._ahead_ms = 0 if -_CLOCK_S <= ahead <= late else int(ahead * 1000)
        except BaseException:
            _remove(tmp)
            raise
        return tmp


class _Output(io.BufferedWriter, Output):
    """A file whose `commit` returns once content and name are on the disk, where the storage syncs."""

    def __init__(
        self, path: str, storage: LocalStorage, opener: Callable[[str, int], int] | None, exclusive: bool
    ) -> None:
        super().__init__(_File(path, opener, exclusive), _BUFFER)
        self._path = path
        self._storage = storage

    def commit(self) -> None:
        if self.closed:
            return
        with _named(self._path):
            try:
                self.flush()
                if self._storage.access.sync:
                    _sync_data(self.fileno())
            finally:
                self.close()
            self._storage.sync(os.path.dirname(self._path))


class _File(io.FileIO):
    """A new file, whose path the errors name."""

    def __init__(self, path: str, opener: Callable[[str, int], int] | None, exclusive: bool) -> None:
        super().__init__(path, "xb" if exclusive else "wb", opener=opener)
        self._path = path

    def write(self, data: Any) -> int:
        with _named(self._path):
            return super().write(data)


@contextlib.contextmanager
def _named(path: str, done: str = "written") -> Iterator[None]:
    """What the file system refuses is a StorageError that names the path; a file to read may be missing."""
    try:
        yield
    except OSError as error:
        if done == "read" and isinstance(error, FileNotFoundError):
            raise
        raise _refused(path, done, error) from error


def _refused(path: str, done: str, error: OSError) -> StorageError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    step = "free some space" if full else "check the file system and its permissions"
    return StorageError(
        f"{path[:500]} can't be {done} ({error.strerror or error}): {step}, then run again",
        path=path,
        errno=error.errno or 0,
        **({"transient": True} if error.errno in _TRANSIENT else {}),
    )


def _below(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)


def _regular(path: str, flags: int) -> int:
    """Opens a regular file; raises TableError for a link, and for a pipe or device without waiting for it."""
    try:
        descriptor = os.open(path, flags & ~os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno in _ABSENT:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise special(path, os.lstat(path).st_mode) from None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise special(path, found.st_mode)
    if flags & os.O_TRUNC:
        if found.st_nlink > 1:
            os.close(descriptor)
            raise shared(path)
        os.ftruncate(descriptor, 0)
    return descriptor


def _version(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _check_size(path: str, size: int) -> None:
    if size > MAX_READ_BYTES:
        raise TableError(
            f"{path} has {size} bytes, and a file that is read whole has at most {MAX_READ_BYTES}; it is "
            "damaged or forged, or HOODIE_MAX_READ_BYTES in the environment must be larger",
            path=path,
            size=size,
        )


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError as error:
        if error.errno in _ABSENT:
            return
        if os.path.isdir(path):
            raise _folder(path) from None
        raise


def _unlisted(path: str, error: OSError) -> StorageError:
    return StorageError(
        f"the folder {path[:500]} can't be listed ({error.strerror or error}): check the file system and its "
        "permissions, then run again",
        path=path,
        errno=error.errno or 0,
    )


def _folder(path: str) -> StorageError:
    return StorageError(
        f"{path} is a folder where a file belongs; look what made it, and move it away", path=path
    )


def _swept(path: str) -> Fenced:
    return Fenced(
        f"another writer swept away the unfinished {path}: it repairs the table right now, or took this "
        "writer for dead; run one writer at a time, then repeat",
        path=path,
    )


def _crc(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.crc")
