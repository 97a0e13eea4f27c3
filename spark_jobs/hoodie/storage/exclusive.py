"""Gives a finished temporary file a name that no other file may have. If several callers race, one succeeds.

Mounts of object stores and of shares often lack the first ways, so they are tried one after the other:

LINK    a hard link. It fails if the name exists.
RENAME  Linux' rename that replaces nothing.
LOCK    an ordinary rename after a check that the name is free, both under a lock on the file
        `.<name>.lock.hoodie-tmp` in the same folder.

Each way makes the name visible with its whole content or not at all. About LOCK:
- The system releases the lock of a process that dies. The next caller takes the file over, and `sweep`
  deletes it. `sweep` leaves a lock that is held: its holder can't publish without its temporary.
- The file system decides whether processes of other machines see the lock.
- All callers for one name must use this module. An empty file that is created under its own name at once
  excludes only other such files.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import fcntl
import os
import random
import time
from collections.abc import Iterator

from hoodie.errors import StorageError
from hoodie.storage import LOCKS, PARTIAL_SUFFIX

LOCK_SUFFIX = f".lock{PARTIAL_SUFFIX}"
_WAIT_S = 30.0
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
#: what file systems say that do not have hard links, renames with flags, or locks
_UNSUPPORTED = frozenset(
    {
        errno.EPERM,
        errno.EACCES,
        errno.EINVAL,
        errno.ENOSYS,
        errno.ENOTSUP,
        errno.EOPNOTSUPP,
        errno.EXDEV,
        errno.EMLINK,
        errno.ENOLCK,
    }
)


class Way(enum.Enum):
    LINK = "hard links"
    RENAME = "renames that replace nothing"
    LOCK = LOCKS


def take(temporary: str, path: str, way: Way = Way.LINK) -> Way:
    """Give the temporary's content the name; returns the way that worked, `way` or one after it.

    The temporary may be there still afterwards. Raises FileExistsError where the name is taken,
    FileNotFoundError where the temporary is gone, StorageError where the file system has none of the ways.
    """
    if way is Way.LINK:
        try:
            os.link(temporary, path)
            return way
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    if way is not Way.LOCK:
        try:
            _rename_new(temporary, path)
            return Way.RENAME
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    with locked(path):
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        os.rename(temporary, path)
    return Way.LOCK


def sweep(lock: str) -> bool:
    """Delete what a killed caller left of a lock; False where it is held, or gone."""
    with contextlib.suppress(FileNotFoundError), _held(lock, os.O_RDWR) as held:
        if held:
            os.unlink(lock)
        return held
    return False


def _rename_new(temporary: str, path: str) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), path)
    source, target = os.fsencode(temporary), os.fsencode(path)
    if libc.renameat2(_AT_FDCWD, source, _AT_FDCWD, target, _RENAME_NOREPLACE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Only one caller, of those that use this for the path, is inside. Raises StorageError after a while."""
    folder, name = os.path.split(path)
    lock = os.path.join(folder, f".{name}{LOCK_SUFFIX}")
    deadline = time.monotonic() + _WAIT_S
    while True:
        with _held(lock, os.O_RDWR | os.O_CREAT) as held:
            if held:
                try:
                    yield
                finally:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(lock)
                return
        if time.monotonic() > deadline:
            raise StorageError(
                f"{path} can't be created: another process has been at it for {_WAIT_S:g} s; see what it "
                "does, then run again",
                path=path,
                transient=True,
            )
        time.sleep(random.uniform(0.001, 0.01))


@contextlib.contextmanager
def _held(lock: str, flags: int) -> Iterator[bool]:
    """Whether the lock is this caller's, and still on the file that has the name."""
    descriptor = os.open(lock, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.path.samestat(os.fstat(descriptor), os.lstat(lock))
        except (BlockingIOError, FileNotFoundError):
            held = False
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            raise StorageError(
                f"{lock}: the file system has no hard links, no renames that replace nothing and no locks, "
                "so two writers could both create one file; put the table on another file system",
                path=lock,
            ) from error
        yield held
    finally:
        os.close(descriptor)
