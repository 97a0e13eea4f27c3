"""Storage protocol: the few operations every multi-step change is built from.

Paths are absolute '/'-joined texts. Implementations: `hoodie.storage.local`. No method reads more than
it is asked for; only `tree` is recursive. Stdlib only, so that a sensor costs milliseconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from typing import BinaryIO, NamedTuple, Protocol

from hoodie.config.key import is_unicode
from hoodie.errors import ConfigError, StorageError


class FileInfo(NamedTuple):
    """One entry of a listing. `mtime_ms` is epoch milliseconds, `size` bytes (0 for folders)."""

    path: str
    name: str
    size: int
    mtime_ms: int
    is_dir: bool


class Access(NamedTuple):
    """How a table's files are used, as the caller chose: the table itself has no say in it.

    `sync`: what is written survives a power failure (see Storage). `folders`: real paths of folders outside
    the table, whose files are used as its own where a link or a bootstrap leads there.
    """

    sync: bool = True
    folders: tuple[str, ...] = ()

    def admits(self, path: str) -> bool:
        """Does a path, through whatever links, lie in one of the folders?"""
        return bool(self.folders) and is_below(os.path.realpath(path), self.folders)


class Storage(Protocol):
    """What a table needs from a file system.

    `write` and `create` are atomic: a reader sees the whole content or none of it.
    `create` raises AlreadyExists when the path is taken; of several racing callers one wins.
    `delete` and `delete_tree` ignore a missing path. `list` and `names` of a missing folder are empty;
    `names` has no order and looks at no entry, so that it costs a fraction of `list`.
    `read` raises FileNotFoundError. `open_output` creates parent folders and is not atomic: use it only
    for files that nobody looks at before a later commit (data files).

    What survives a power failure: after `write`, `create`, `make_dirs` and the `close` of an output
    the content, the name and the folders that were made for it. An empty file is a mark only: it, and what
    `delete` took away, are lasting once `sync` of their folder returned, or anything lasting was made in it;
    before that they may be there or not, each for itself. So a commit is created after its data files are
    closed, and after `sync` of the folders it deleted files from (`delete_all`). A storage whose access says
    not to sync leaves all that to the operating system.

    What the file system refuses to write (a full disk, no permission) is a StorageError that names the path.
    """

    access: Access

    def list(self, path: str) -> list[FileInfo]: ...
    def names(self, path: str) -> Collection[str]: ...
    def tree(self, path: str) -> Collection[FileInfo]:
        """The files below a folder, at any depth, without order; none of a missing one. For small folders:
        one request where a storage lists by prefix.
        """
        ...

    def exists(self, path: str) -> bool: ...
    def info(self, path: str) -> FileInfo | None: ...
    def read(self, path: str) -> bytes: ...
    def read_range(self, path: str, offset: int, length: int) -> bytes: ...
    def write(self, path: str, data: bytes) -> None: ...
    def create(self, path: str, data: bytes) -> None: ...
    def delete(self, path: str) -> None: ...
    def delete_tree(self, path: str) -> None: ...
    def make_dirs(self, path: str) -> None: ...
    def open_output(self, path: str) -> BinaryIO: ...
    def open_input(self, path: str) -> BinaryIO: ...
    def sync(self, path: str) -> None:
        """Make what was created and deleted in a folder lasting. A missing folder is ignored."""
        ...

    def sweep_partial(self, path: str) -> int:
        """Delete what killed `write`/`create` calls left in a folder; returns how many."""
        ...


#: names of unfinished files, which `sweep_partial` deletes, end so in every storage that makes such files
PARTIAL_SUFFIX = ".hoodie-tmp"

#: tests put a wrapper here (fault injection); called with the storage that `storage_for` chose
WRAPPERS: list[Callable[[Storage], Storage]] = []


def normalize(path: str) -> str:
    """`file:/a`, `file:///a`, relative and `~` paths -> absolute path without a trailing slash.

    Raises ConfigError for what is no path, StorageError for a scheme that has no implementation yet.
    """
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str) or not text.strip() or "\0" in text or not is_unicode(text):
        raise ConfigError(
            f"path is {path!r}; give the path of a folder as a text, such as '/data/orders'", path=repr(path)
        )
    if text.startswith("file:"):
        text = "/" + text[len("file:") :].lstrip("/")
    elif "://" in text:
        scheme = text.split("://", 1)[0]
        raise StorageError(
            f"no storage for scheme {scheme!r} in {text!r}; use a path on a local or mounted file system",
            path=text,
        )
    return os.path.abspath(os.path.expanduser(text))


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Is a path one of the folders, or in one?"""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def delete_all(storage: Storage, paths: Iterable[str]) -> None:
    """Delete files, in this order, lastingly; a power failure before the end may bring back any."""
    folders: dict[str, None] = {}
    for path in paths:
        storage.delete(path)
        folders[path.rpartition("/")[0]] = None
    for folder in folders:
        storage.sync(folder)


def storage_for(path: str, access: Access = Access()) -> Storage:  # noqa: B008  a tuple
    """The storage of the table (or the one file) at `path`: it touches nothing else, and follows no link, but
    what `access` says.
    """
    from hoodie.storage.local import LocalStorage

    storage: Storage = LocalStorage(normalize(path), access)
    for wrap in WRAPPERS:
        storage = wrap(storage)
    return storage
