"""Secrets of operators, connections and requests: found by hoodie.mask, passed to Airflow's own masker, and
handed to a process in files that only this user reads, as `ps` must not show them.

Such a file, or a folder of rows, is gone when its user is done with it. A process that is killed leaves it;
the lock on it is free then, and the next call deletes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from airflow.sdk.log import mask_secret

from airflow_hoodie.exceptions import HoodieConfigurationError
from hoodie.mask import Mask, holds_secret

_ATTEMPTS = 10


def hide(*values: Any) -> Mask:
    """A mask that knows the secrets in these values.

    Airflow's masker gets them too, for what it shows of this task: logs, rendered templates, lineage.
    """
    mask = Mask(*values)
    for secret in mask.known:
        if "{{" not in secret:
            mask_secret(secret)
    return mask


def any_secret(value: Any, name: str = "") -> bool:
    """Do mappings, lists and texts hold a secret; `name` is what the value is called."""
    if isinstance(value, Mapping):
        return any(any_secret(item, str(key)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return any(any_secret(item, name) for item in value)
    return isinstance(value, str) and holds_secret(name, value)


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


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A folder of mode 0700, deleted afterwards with what is in it. Raises HoodieConfigurationError."""
    folder = _folder()
    _sweep(folder)
    for _ in range(_ATTEMPTS):
        path = Path(tempfile.mkdtemp(dir=folder))
        held = os.open(path, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        if path.is_dir():  # else swept before it was locked
            break
        os.close(held)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(held)


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
    """Delete the files and folders whose process is gone."""
    for path in folder.iterdir():
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if stat.S_ISDIR(os.fstat(file).st_mode):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
        except OSError:  # in use, or another process swept it
            continue
        finally:
            os.close(file)
