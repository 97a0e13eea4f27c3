"""Storage: the few operations that every multi-step change is built from. Base class and registry.

A table's path says which storage has it: the scheme of a URI, and a path without one lies on the local file
system. Stdlib only, so that a sensor costs milliseconds.
"""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import BinaryIO, NamedTuple

from hoodie.config.key import is_unicode
from hoodie.config.plugins import Plugins
from hoodie.errors import ConfigError, StorageError
from hoodie.storage.pattern import split

#: raises what refuses a file that is about to be made
Check = Callable[[], object] | None


_NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


class FileInfo(NamedTuple):
    """One entry of a listing. `mtime_ms` is epoch milliseconds, `size` bytes (0 for folders), `version` what
    no other content of the file has, where a listing tells it.
    """

    path: str
    name: str
    size: int
    mtime_ms: int
    is_dir: bool
    version: str = ""


class Found(NamedTuple):
    """One file of a source. `folder`: the one that it was found below, "" where the path or the glob is that
    of the file itself. `stamp`, with the size, distinguishes one content of the file from the next;
    `modified_ms` is epoch milliseconds.
    """

    path: str
    folder: str
    size: int
    stamp: int | str
    modified_ms: int


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


class Output(io.BufferedIOBase):
    """A new file that is written, also by Arrow. It is there as a whole, and lasting, once `commit` returned.

    One that is abandoned, or only closed, is no file: a storage that shows files while they are written
    leaves half of one under its name, and the writer deletes it. So readers take from elsewhere, a commit,
    which files count.
    """

    @abstractmethod
    def commit(self) -> None:
        """Finish the file. AlreadyExists of an exclusive one whose name was taken meanwhile."""

    def abandon(self) -> None:
        """End a file that will not be finished; does nothing after `commit`."""
        with contextlib.suppress(OSError, StorageError):
            self.close()


class Storage(ABC):
    """What a table needs from a file system or an object store.

    Paths are absolute, '/'-joined texts, which begin with the scheme where the table's path does. No method
    reads more than it is asked for; only `tree` is recursive. What goes wrong is a FileNotFoundError, an
    AlreadyExists, or another StorageError, which names the path; TableError for what no table may have.

    What survives a power failure: after `write`, `create`, `make_dirs` and the `commit` of an output the
    content, the name and the folders that were made for it. An empty file is a mark only: it, and what
    `delete` took away, are lasting once `sync` of their folder returned, or anything lasting was made in it;
    before that they may be there or not, each for itself. So an instant is completed after the outputs of
    its data files are committed, and after `sync` of the folders it deleted files from (`delete_many`). A
    storage whose access says not to sync leaves all that to the operating system.
    """

    #: how the caller chose that files are used
    access: Access = Access()
    #: the settings that it was opened with, for the storage of a folder that the table names
    options: Mapping[str, str] = _NO_OPTIONS
    #: may any program of this machine open the paths
    local = False
    #: may it be out of reach of a process that has no settings of the call
    remote = False
    #: can a file be replaced on the condition that it is still as it was read (`put_if`)
    conditional = False
    #: does `sweep_partial` make every `create` fail (Fenced) that has entered its `check` in that folder: a
    #: process that first deletes what the check looks at, and then sweeps, finds the file, or it won't come
    fences = False

    @classmethod
    @abstractmethod
    def make(cls, *, uri: str, options: Mapping[str, str]) -> Storage:
        """The storage of the table (or the one file) at a normalized path. It touches nothing else, and
        follows no link, but what `options`, settings of `hoodie.storage.settings`, say.
        """

    @classmethod
    def of_source(cls, *, uri: str, options: Mapping[str, str]) -> Storage:
        """The storage of rows that are to be written, which the caller chose: links may lead anywhere."""
        return cls.make(uri=uri, options=options)

    @abstractmethod
    def list(self, path: str) -> list[FileInfo]:
        """The entries of a folder by name; none of a missing one."""

    def names(self, path: str) -> Collection[str]:
        """The names in a folder, without order, at a fraction of the cost of `list` where that can be."""
        return [item.name for item in self.list(path)]

    def versions(self, path: str) -> Mapping[str, str]:
        """The names in a folder, each with its file's version as of `read_version`; "" where a listing tells
        none.
        """
        return dict.fromkeys(self.names(path), "")

    def tree(self, path: str) -> Collection[FileInfo]:
        """The files below a folder, at any depth, without order; none of a missing one. For small folders:
        one request where a storage lists by prefix.
        """
        found: dict[str, FileInfo] = {}
        folders = [path]
        while folders:
            for item in self.list(folders.pop()):
                if item.is_dir:
                    folders.append(item.path)
                else:
                    found[item.path] = item
        return found.values()

    def tree_within(self, path: str, requests: int, after: str = "") -> Collection[FileInfo] | None:
        """`tree`, of a folder that may be large: of the files whose paths sort after one, if it takes at most
        so many requests; None where it takes more, or where the storage lists folder by folder.
        """
        return None

    def find(self, path: str) -> Sequence[Found]:
        """The files of a source by path: a file, those below a folder, or both for each match of a glob."""
        found = self.info(path)
        if found is not None:
            below = [(item, path) for item in self.tree(path)] if found.is_dir else [(found, "")]
        elif (glob := split(path)) is not None:
            below = [
                (item, "" if match == item.path else match)
                for item in self.tree(glob.folder)
                if (match := glob.match(item.path)) is not None
            ]
        else:
            return []
        each = (
            Found(item.path, folder, item.size, item.version or item.mtime_ms, item.mtime_ms)
            for item, folder in below
        )
        return sorted(each, key=lambda file: file.path)

    def spark_path(self, path: str) -> str | None:
        """The path as file systems of Hadoop spell it, by which Spark itself reads the file; None where there
        is none.
        """
        return None

    def exists(self, path: str) -> bool:
        """Is there a file or folder."""
        return self.info(path) is not None

    def is_file(self, path: str) -> bool:
        """Is there a file, in one request: `exists` may need one more to find that there is no folder."""
        found = self.info(path)
        return found is not None and not found.is_dir

    @abstractmethod
    def info(self, path: str) -> FileInfo | None:
        """The entry of a file or folder, None of a missing one."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """All of a small file (at most MAX_READ_BYTES). Raises FileNotFoundError."""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset` on. Raises FileNotFoundError."""
        with self.open_input(path) as file:
            file.seek(offset)
            return file.read(length)

    @abstractmethod
    def open_input(self, path: str) -> BinaryIO:
        """A file to read and seek in, also by Arrow. Raises FileNotFoundError."""

    def holding(self) -> AbstractContextManager[None]:
        """Inside, what was read to open a file serves its next opening, too, within a bound: where each
        request takes its time, and of files that do not change meanwhile.
        """
        return contextlib.nullcontext()

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Make or replace a file: a reader sees the old content or the new one, whole."""

    @abstractmethod
    def create(self, path: str, data: bytes, check: Check = None) -> None:
        """Make a file: a reader sees its whole content or no file. Raises AlreadyExists when the name is
        taken; of several racing callers one wins.

        `check` is called as late as can be: what it raises leaves no file. See `fences`.
        """

    def create_mark(self, path: str, data: bytes) -> None:
        """As `create`, of a file that says something of a live process: a power failure, which ends that, may
        take it, or its content, away.
        """
        self.create(path, data)

    def read_version(self, path: str) -> tuple[bytes, str]:
        """The content of a small file, and its version, which no other content of it has. Raises
        FileNotFoundError; StorageError where the storage has none (`conditional`).
        """
        raise _unconditional(path)

    def put_if(self, path: str, data: bytes, version: str | None) -> str | None:
        """Make the file (None), or replace it while it has that version. Returns its new version; None where
        the file is there, or has another version by now, or is gone. Raises StorageError, transient where it
        is not known whether it was done.
        """
        raise _unconditional(path)

    @abstractmethod
    def output(self, path: str, *, exclusive: bool = False) -> Output:
        """A data file to write, with its folders. `exclusive`: raises AlreadyExists when the name is taken,
        here, or where a storage can't know that before, at the output's commit; else what has the name is
        replaced.
        """

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file; a missing one is ignored."""

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete files, lastingly, in this order where they are deleted one by one; a failure or a power
        failure before the end may leave any.
        """
        folders: dict[str, None] = {}
        for path in paths:
            self.delete(path)
            folders[path.rpartition("/")[0]] = None
        for folder in folders:
            self.sync(folder)

    @abstractmethod
    def delete_tree(self, path: str) -> None:
        """Delete a folder with all that is in it; a missing one is ignored."""

    def make_dirs(self, path: str) -> None:  # noqa: B027  where there are no folders, none are made
        """Make a folder and those above it, if they are missing."""

    def sync(self, path: str) -> None:  # noqa: B027  what needs none is lasting at once
        """Make what was created and deleted in a folder lasting. A missing folder is ignored."""

    def sweep_partial(self, path: str, of: str = "") -> int:
        """Delete what killed `write` and `create` calls left in a folder, of files whose names begin with
        `of`; returns how many.
        """
        return 0

    def creation(self, folder: str) -> str:
        """By what `create` lets one caller win in a folder, in words; a file is made there and deleted."""
        return "conditional writes"

    def now_ms(self) -> int:
        """Epoch milliseconds by the clock that modification times come from."""
        return int(time.time() * 1000)


#: what `Storage.creation` says where it may hold for the processes of one machine only
LOCKS = "locks and renames"
#: names of unfinished files, which `sweep_partial` deletes, end so in every storage that makes such files
PARTIAL_SUFFIX = ".hoodie-tmp"

#: by the scheme of a table's path
STORAGES = Plugins(
    kind="storage",
    base=Storage,  # type: ignore[type-abstract]
    places={
        "file": "hoodie.storage.local:LocalStorage",
        "s3": "hoodie.storage.objects:S3Storage",
        "gs": "hoodie.storage.objects:GoogleStorage",
        "az": "hoodie.storage.objects:AzureStorage",
        "abfss": "hoodie.storage.objects:AzureAccountStorage",
        "memory": "hoodie.storage.objects:MemoryStorage",
        "hdfs": "hoodie.storage.hdfs:HdfsStorage",
        "webhdfs": "hoodie.storage.hdfs:HdfsStorage",
        "swebhdfs": "hoodie.storage.hdfs:HdfsStorage",
    },
    aliases={"s3": ("s3a",), "gs": ("gcs",), "az": ("azure",), "abfss": ("abfs",)},
)


def normalize(path: str) -> str:
    """`file:/a`, `file:///a`, relative and `~` paths -> absolute path without a trailing slash. The path of
    another scheme keeps it.

    Raises ConfigError for what is no path, and for a scheme that has no storage.
    """
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str) or not text.strip() or "\0" in text or not is_unicode(text):
        raise ConfigError(
            f"path is {path!r}; give the path of a folder as a text, such as '/data/orders'", path=repr(path)
        )
    if text.startswith("file:"):
        text = "/" + text[len("file:") :].lstrip("/")
    elif "://" in text:
        given, _, rest = text.partition("://")
        scheme = STORAGES.name(given.lower())
        if scheme not in STORAGES.places:
            raise ConfigError(
                f"no storage for scheme {given!r} in {text!r}; use a path on a local or mounted file "
                "system, of an object store (s3://, gs://, az://, abfss://), or of HDFS (hdfs://, webhdfs://)",
                path=text,
            )
        return f"{scheme}://{posixpath.normpath(rest)}"
    return os.path.abspath(os.path.expanduser(text))


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Is a path one of the folders, or in one?"""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def storage_for(path: str, options: Mapping[str, str] = _NO_OPTIONS) -> Storage:
    """The storage of the table (or the one file) at `path`; see `Storage.make`."""
    uri = normalize(path)
    storage = STORAGES.load("path", _scheme(uri))(uri=uri, options=options)
    storage.options = dict(options)
    return storage


def source_storage_for(path: str, options: Mapping[str, str] = _NO_OPTIONS) -> Storage:
    """The storage of a source; see `Storage.of_source`."""
    uri = normalize(path)
    return STORAGES.find("path", _scheme(uri)).of_source(uri=uri, options=options)


def _unconditional(path: str) -> StorageError:
    return StorageError(
        f"{path} can't be replaced on a condition: its storage has no versions of files; use one that has, "
        "an object store",
        path=path,
    )


def _scheme(uri: str) -> str:
    return uri.partition("://")[0] if "://" in uri else "file"
