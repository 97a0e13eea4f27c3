"""A storage of a scheme of its own, `objects://bucket/key`, that works as object stores do.

There are no folders, only names with slashes; an object is there whole or not at all, from one moment to the
next; nothing is renamed, and no unfinished file is ever left behind. Objects are files in a folder that the
environment names, so that forked and spawned processes see the same ones, and a killed process leaves
what it had put. In a spawned process, importing this module and `stored` makes the scheme known.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from hoodie.errors import AlreadyExists, StorageError
from hoodie.storage import Check, FileInfo, Output, Storage
from tests.support.storages import registered

SCHEME = "objects"
_FOLDER = "HOODIE_TEST_OBJECTS"
_UNFINISHED = ".unfinished"


@contextlib.contextmanager
def stored(folder: Path) -> Iterator[str]:
    """Objects are kept in this folder inside; gives the URI of a bucket."""
    before = os.environ.get(_FOLDER)
    os.environ[_FOLDER] = str(folder)
    try:
        with registered(SCHEME, Objects):
            yield f"{SCHEME}://bucket"
    finally:
        if before is None:
            del os.environ[_FOLDER]
        else:
            os.environ[_FOLDER] = before


class Objects(Storage):
    def __init__(self, root: Path) -> None:
        self._root = root

    @classmethod
    def make(cls, *, uri: str, options: Mapping[str, str]) -> Objects:
        return cls(Path(os.environ[_FOLDER]))

    def list(self, path: str) -> list[FileInfo]:
        place = self._place(path)
        names = sorted(os.listdir(place)) if place.is_dir() else []
        found = (self.info(f"{path}/{name}") for name in names)
        return [item for item in found if item is not None]

    def info(self, path: str) -> FileInfo | None:
        place = self._place(path)
        if place.is_dir():
            some = any(names for _, _, names in os.walk(place))
            return FileInfo(path, place.name, 0, 0, True) if some else None
        try:
            found = place.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return FileInfo(path, place.name, found.st_size, int(found.st_mtime * 1000), False)

    def read(self, path: str) -> bytes:
        with self.open_input(path) as source:
            return source.read()

    def open_input(self, path: str) -> BinaryIO:
        place = self._place(path)
        if place.is_dir():
            raise FileNotFoundError(path)
        return place.open("rb")

    def write(self, path: str, data: bytes) -> None:
        self._put(path, data, os.replace)

    def create(self, path: str, data: bytes, check: Check = None) -> None:
        if check is not None:
            check()
        self._put(path, data, os.link)

    def output(self, path: str, *, exclusive: bool = False) -> Output:
        if exclusive and self.info(path) is not None:
            raise AlreadyExists(f"{path} exists already", path=path)
        return _Upload(self, path, exclusive)

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self._place(path).unlink()

    def delete_tree(self, path: str) -> None:
        shutil.rmtree(self._place(path), ignore_errors=True)

    def _put(self, path: str, data: bytes, put: Callable[[Path, Path], None]) -> None:
        place = self._place(path)
        unfinished = self._root / _UNFINISHED / uuid.uuid4().hex
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(data)
        try:
            put(unfinished, place)
        except FileExistsError:
            raise AlreadyExists(f"{path} exists already", path=path) from None
        finally:
            unfinished.unlink(missing_ok=True)

    def _place(self, path: str) -> Path:
        scheme, _, key = path.partition("://")
        if scheme != SCHEME or ".." in key.split("/"):
            raise StorageError(f"{path} is no object", path=path)
        return self._root / key


class _Upload(io.BytesIO, Output):
    def __init__(self, storage: Objects, path: str, exclusive: bool) -> None:
        super().__init__()
        self._path, self._put = path, storage.create if exclusive else storage.write

    def commit(self) -> None:
        self._put(self._path, self.getvalue())
        self.close()
