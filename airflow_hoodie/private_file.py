"""A file that only this user reads, for what a process needs and `ps` must not show.

It is gone when its user is done with it. A process that is killed leaves it; the lock on it is free then, and
the next call deletes it. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from airflow_hoodie.exceptions import HoodieConfigurationError

_ATTEMPTS = 10


@contextlib.contextmanager
def private_file(data: bytes, suffix: str) -> Iterator[Path]:
    """A file of mode 0600 with this content, deleted afterwards. Raises HoodieConfigurationError."""
    folder = _folder()
    _sweep(folder)
    for _ in range(_ATTEMPTS):
        file, name = tempfile.mkstemp(suffix, dir=folder)  # mode 0600
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file).st_nlink:  # else swept before it was locked
            break
        os.close(file)
    try:
        with open(file, "wb", closefd=False) as out:
            out.write(data)
        yield Path(name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        os.close(file)


def _folder() -> Path:
    """`<temporary folder>/hoodie-jobs-<uid>`, of this user and closed to others."""
    folder = Path(tempfile.gettempdir(), f"hoodie-jobs-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError as error:
        raise HoodieConfigurationError(
            f"can't make {folder} for the requests of jobs ({error.strerror}); set TMPDIR to a folder that "
            "this worker may write to"
        ) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise HoodieConfigurationError(
            f"{folder} is no folder of this user that is closed to others, but requests of jobs may hold "
            "secrets; remove it"
        )
    return folder


def _sweep(folder: Path) -> None:
    """Delete the files whose process is gone."""
    for path in folder.iterdir():
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        except OSError:  # in use, or another process swept it
            continue
        finally:
            os.close(file)
