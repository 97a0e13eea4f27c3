"""Storages of tests: around that of local paths, and one of a scheme of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, BinaryIO, cast

from hoodie.storage import STORAGES, Check, FileInfo, Output, Storage
from hoodie.storage.local import LocalStorage

Wrap = Callable[[Storage], Storage]
_WRAPS: list[Wrap] = []
#: of Behind
DAY_MS = 86_400_000


@contextlib.contextmanager
def registered(scheme: str, cls: type[Storage]) -> Iterator[None]:
    """Paths of the scheme are this storage's inside; processes that are forked there know it, too."""
    places = cast("dict[str, str]", STORAGES.places)
    before = places.get(scheme)
    places[scheme] = f"{cls.__module__}:{cls.__qualname__}"
    try:
        yield
    finally:
        if before is None:
            del places[scheme]
        else:
            places[scheme] = before


@contextlib.contextmanager
def wrapped(wrap: Wrap) -> Iterator[None]:
    """What `wrap` makes of it takes the place of every storage of a local path that is opened inside."""
    _WRAPS.append(wrap)
    try:
        with registered("file", Wrapped):
            yield
    finally:
        _WRAPS.remove(wrap)


class Wrapped(LocalStorage):
    @classmethod
    def make(cls, *, uri: str, options: Mapping[str, str]) -> Storage:  # type: ignore[override]
        storage: Storage = LocalStorage.make(uri=uri, options=options)
        for wrap in _WRAPS:
            storage = wrap(storage)
        return storage


class Delegating(Storage):
    """Passes every call on, through `ask`."""

    def __init__(self, inner: Storage) -> None:
        self.inner = inner
        self.access, self.local, self.fences = inner.access, inner.local, inner.fences
        self.conditional = inner.conditional

    @classmethod
    def make(cls, *, uri: str, options: Mapping[str, str]) -> Storage:
        raise NotImplementedError

    def ask(self, name: str, path: str, *arguments: Any) -> Any:
        if name == "output":
            return self.inner.output(path, exclusive=arguments[0])
        return getattr(self.inner, name)(path, *arguments)

    def list(self, path: str) -> list[FileInfo]:
        found: list[FileInfo] = self.ask("list", path)
        return found

    def names(self, path: str) -> Collection[str]:
        found: Collection[str] = self.ask("names", path)
        return found

    def tree(self, path: str) -> Collection[FileInfo]:
        found: Collection[FileInfo] = self.ask("tree", path)
        return found

    def exists(self, path: str) -> bool:
        return bool(self.ask("exists", path))

    def info(self, path: str) -> FileInfo | None:
        found: FileInfo | None = self.ask("info", path)
        return found

    def read(self, path: str) -> bytes:
        return bytes(self.ask("read", path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return bytes(self.ask("read_range", path, offset, length))

    def open_input(self, path: str) -> BinaryIO:
        return cast("BinaryIO", self.ask("open_input", path))

    def write(self, path: str, data: bytes) -> None:
        self.ask("write", path, data)

    def create(self, path: str, data: bytes, check: Check = None) -> None:
        self.ask("create", path, data, check)

    def read_version(self, path: str) -> tuple[bytes, str]:
        return cast("tuple[bytes, str]", self.ask("read_version", path))

    def put_if(self, path: str, data: bytes, version: str | None) -> str | None:
        return cast("str | None", self.ask("put_if", path, data, version))

    def output(self, path: str, *, exclusive: bool = False) -> Output:
        return cast("Output", self.ask("output", path, exclusive))

    def delete(self, path: str) -> None:
        self.ask("delete", path)

    def delete_tree(self, path: str) -> None:
        self.ask("delete_tree", path)

    def make_dirs(self, path: str) -> None:
        self.ask("make_dirs", path)

    def sync(self, path: str) -> None:
        self.ask("sync", path)

    def sweep_partial(self, path: str, of: str = "") -> int:
        return int(self.ask("sweep_partial", path, of))

    def now_ms(self) -> int:
        return self.inner.now_ms()


class Behind(Delegating):
    """Another machine's: its clock, which modification times come from, is a day behind this one's."""

    def list(self, path: str) -> list[FileInfo]:
        return [_a_day_ago(item) for item in super().list(path)]

    def tree(self, path: str) -> Collection[FileInfo]:
        return [_a_day_ago(item) for item in super().tree(path)]

    def info(self, path: str) -> FileInfo | None:
        found = super().info(path)
        return found and _a_day_ago(found)

    def now_ms(self) -> int:
        return super().now_ms() - DAY_MS


def _a_day_ago(item: FileInfo) -> FileInfo:
    return item._replace(mtime_ms=item.mtime_ms - DAY_MS)
