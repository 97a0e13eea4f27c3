"""The archived timeline of layout two: an LSM tree of Parquet files (format.md 15.11; Apache Hudi 1.2.0
LSMTimeline, ArchivedTimelineLoaderV2). It is read here, not written.

`<min>_<max>_<layer>.parquet` has a row an instant, with the bytes of its completed file and of its plan.
`manifest_<n>` names the files that count, `_version_` the manifest. A merge of files leaves the older ones
for readers that are under way, and then deletes them. Archives of upgraded tables are in no order, inside the
files as well, and the times in the files' names are no bounds there: so neither is relied upon.

Importing this module needs the standard library only; reading instants needs pyarrow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from hoodie.errors import TableError
from hoodie.format.names import instant_time
from hoodie.storage import FileInfo, Storage
from hoodie.timeline.archive.archive import Archive, ArchivedEntry, entry_record
from hoodie.timeline.instant import Action, Instant, State, in_order
from hoodie.timeline.layouts.two import TWO

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_VERSION = "_version_"
_MANIFEST = re.compile(r"manifest_(\d{1,18})", re.ASCII)
_FILE = re.compile(r"\d+_\d+_\d+\.parquet", re.ASCII)
_KEY = ("instantTime", "action")
#: of so many instants the contents are held at once
_BATCH = 100
_Key = tuple[str, str]
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class ArchivedContent:
    """The bytes of an instant's completed file and of its plan; None for what the archive does not have."""

    metadata: bytes | None
    plan: bytes | None


class LsmArchive(Archive):
    """The archived timeline in `folder`; each question reads the files that count then."""

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage = storage
        self._folder = folder

    def instants(self, after: str | None = None, before: str | None = None) -> list[Instant]:
        """By the time of their request; those that are in several files, once."""
        found: set[Instant] = set()
        for group in self._read(_instants_of):
            found.update(item for item in group if item.is_after(after))
        return in_order(item for item in found if before is None or item.is_before(before))

    def entries(self, containing: bytes | None = None) -> Iterator[ArchivedEntry]:
        every = self.instants()
        for at in range(0, len(every), _BATCH):
            for instant, content in self.content(every[at : at + _BATCH]).items():
                record = entry_record(instant, content.metadata or b"", instant.completion, TWO)
                yield ArchivedEntry(instant, instant.completion, record)

    def content(self, instants: Iterable[Instant]) -> dict[Instant, ArchivedContent]:
        """What the files of instants contained; those that are not archived are left out. Raises TableError.

        Each file of the archive is opened once, however many instants there are.
        """
        keys = {instant: (instant.time, instant.comparable_action.value) for instant in instants}
        wanted = frozenset(keys.values())
        found: dict[_Key, ArchivedContent] = {}
        for contents in self._read(lambda file: _contents_of(file, wanted)):
            found = {**contents, **found}
        return {instant: found[key] for instant, key in keys.items() if key in found}

    def files(self) -> list[FileInfo]:
        counting = self._lengths()
        listed = self._storage.list(self._folder)
        return sorted((item for item in listed if item.name in counting), key=lambda item: item.name)

    def _lengths(self) -> Mapping[str, int]:
        """The files that count, by name, with their lengths. Raises TableError when no manifest is readable.

        The manifest is the one that `_version_` names. Writers delete `_version_` before they create it
        again: without it, or without a manifest that it names, the newest readable manifest counts.
        """
        named = self._named()
        files = None if named is None else self._manifest(named)
        if files is not None:
            return files
        numbers = [
            int(match[1])
            for name in self._storage.names(self._folder)
            if (match := _MANIFEST.fullmatch(name))
        ]
        for number in sorted(numbers, reverse=True):
            files = self._manifest(number)
            if files is not None:
                return files
        if not numbers and named is None:
            return {}
        raise TableError(
            f"the archived timeline in {self._folder} has no manifest that can be read; restore the folder "
            "from a copy. Rows are not affected, only the history of the table",
            path=self._folder,
        )

    def _named(self) -> int | None:
        """The number in `_version_`."""
        try:
            text = self._storage.read(f"{self._folder}/{_VERSION}").strip()
        except FileNotFoundError:
            return None
        return int(text) if text.isdigit() else None

    def _manifest(self, number: int) -> dict[str, int] | None:
        """The files that a manifest names; None when it is gone or torn."""
        try:
            value = json.loads(self._storage.read(f"{self._folder}/manifest_{number}"))
            files = {item["fileName"]: item["fileLen"] for item in value["files"]}
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None
        known = all(_FILE.fullmatch(name) and type(length) is int for name, length in files.items())
        return files if known else None

    def _read(self, question: Callable[[pq.ParquetFile], _Answer]) -> Sequence[_Answer]:
        """The answers of all files that count, the newest first. A file that is gone was merged into another
        meanwhile, if the manifest has changed; then all is read again.
        """
        files = self._lengths()
        while True:
            try:
                return [self._ask(name, files[name], question) for name in sorted(files, reverse=True)]
            except FileNotFoundError as error:
                now = self._lengths()
                if now == files:
                    raise TableError(
                        f"the archived timeline in {self._folder} lacks a file that its manifest names "
                        f"({error}); restore it from a copy. Rows are not affected, only the history of the "
                        "table",
                        path=self._folder,
                    ) from None
                files = now

    def _ask(self, name: str, length: int, question: Callable[[pq.ParquetFile], _Answer]) -> _Answer:
        path = f"{self._folder}/{name}"
        with _opened(self._storage, path, length) as file:
            return question(file)


@contextmanager
def _opened(storage: Storage, path: str, length: int) -> Iterator[pq.ParquetFile]:
    """Raises FileNotFoundError; TableError for a file that is damaged, or is not the manifest's."""
    import pyarrow as pa

    from hoodie.engine.parquet_open import parquet_file

    with storage.open_input(path) as source:
        found = source.seek(0, 2)
        source.seek(0)
        if found != length:
            raise _damaged(path, f"it has {found} bytes, and {length} in its manifest")
        try:
            yield parquet_file(source)
        except (FileNotFoundError, TableError):
            raise
        except (pa.ArrowException, LookupError, ValueError, OSError, OverflowError, MemoryError) as error:
            raise _damaged(path, str(error)) from None


def _instants_of(file: pq.ParquetFile) -> list[Instant]:
    columns = file.read(columns=[*_KEY, "completionTime"])
    rows = zip(*(columns[name].to_pylist() for name in (*_KEY, "completionTime")), strict=True)
    return [_instant(time, action, completion) for time, action, completion in rows]


def _instant(time: Any, action: Any, completion: Any) -> Instant:
    try:
        found = Instant(instant_time(time, "instant of the archive"), Action(action), State.COMPLETED)
    except ValueError as error:
        raise TableError(
            f"an archived instant {time!r} has an action that is not known here ({error}); read the archived "
            "timeline with Apache Hudi",
            instant=str(time),
        ) from None
    return replace(found, completion=instant_time(completion, "completion of the archive") or None)


def _contents_of(file: pq.ParquetFile, wanted: Collection[_Key]) -> dict[_Key, ArchivedContent]:
    times, actions = (file.read(columns=[name])[name].to_pylist() for name in _KEY)
    keys: list[tuple[Any, Any]] = list(zip(times, actions, strict=True))
    rows = {key: row for row, key in enumerate(keys) if key in wanted}
    if not rows:
        return {}
    columns = file.read(columns=["metadata", "plan"])
    return {
        key: ArchivedContent(columns["metadata"][row].as_py(), columns["plan"][row].as_py())
        for key, row in rows.items()
    }


def _damaged(path: str, why: str) -> TableError:
    return TableError(
        f"archive file {path} is damaged ({why}); restore it from a copy. Rows are not affected, only the "
        "history of the table",
        path=path,
    )
