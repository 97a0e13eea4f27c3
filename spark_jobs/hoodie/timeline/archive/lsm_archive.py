"""The archived timeline of layout two: an LSM tree of Parquet files (format.md 15.11; Apache Hudi 1.2.0
LSMTimeline, LSMTimelineWriter, ArchivedTimelineLoaderV2).

`<min>_<max>_<layer>.parquet` has a row an instant, with the bytes of its completed file and of its plan.
`manifest_<n>` names the files that count, `_version_` the manifest. A merge of files leaves the older ones
for readers that are under way, and then deletes them. Archives of upgraded tables are in no order, inside the
files as well, and the times in the files' names are no bounds there: so neither is relied upon.

Every change makes 1. a Parquet file, 2. the next manifest, which names all files that count, 3. `_version_`,
anew. A kill leaves what no manifest that counts names, and `recover` deletes it.

Importing this module needs the standard library only; reading instants needs pyarrow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from hoodie.config.limits import MAX_BLOCK_BYTES
from hoodie.errors import TableError
from hoodie.format.names import instant_time
from hoodie.storage import FileInfo, Storage
from hoodie.timeline.archive.archive import ArchivedEntry, ArchivedState, WrittenArchive, entry_record
from hoodie.timeline.instant import Action, Instant, State, in_order
from hoodie.timeline.layouts.two import TWO
from hoodie.timeline.time import InstantTime

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from hoodie.format.parquet_guard import Pages

_VERSION = "_version_"
_NUMBER = re.compile(rb"\d{1,18}")
_MANIFEST = re.compile(r"manifest_(\d{1,18})", re.ASCII)
_FILE = re.compile(r"\d+_\d+_\d+\.parquet", re.ASCII)
_KEY = ("instantTime", "action")
#: of so many instants the contents are held at once; rows that are decoded at a time, at most
_BATCH, _ROWS = 100, 1024
#: so many files of a layer become one of the next (hoodie.timeline.compaction.batch.size)
_MERGED = 10
#: readers that are under way have one of the last manifests
_KEPT_MANIFESTS = 3
#: actions whose plan is archived
_PLANNED = frozenset({Action.CLEAN, Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING})
_TEXT = ["null", {"type": "string", "avro.java.string": "String"}]
_AVRO_SCHEMA = {
    "type": "record",
    "name": "HoodieLSMTimelineInstant",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        *(
            {"name": name, "type": _TEXT, "default": None}
            for name in ("instantTime", "completionTime", "action")
        ),
        *({"name": name, "type": ["null", "bytes"], "default": None} for name in ("metadata", "plan")),
        {"name": "version", "type": "int", "default": 1},
    ],
}
_Key = tuple[str, str]
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class ArchivedContent:
    """The bytes of an instant's completed file and of its plan; None for what the archive does not have."""

    metadata: bytes | None
    plan: bytes | None


class LsmArchive(WrittenArchive):
    """The archived timeline in `folder`; each question reads the files that count then."""

    always_merged = True

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage = storage
        self.folder = folder

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
        listed = self._storage.list(self.folder)
        return sorted((item for item in listed if item.name in counting), key=lambda item: item.name)

    def newest(self) -> frozenset[Instant]:
        """Of the files of layer 0: a run deletes the instants from the timeline before it merges files."""
        files = self._lengths()
        names = [name for name in files if _layer(name) == 0]
        return frozenset(item for name in names for item in self._known(name, files[name], _instants_of))

    def append(
        self, states: Iterable[ArchivedState], batch: int, attempts: int | None = None
    ) -> tuple[str, int]:
        rows = _rows(states)
        if not rows:
            return "", 0
        times = [row["instantTime"] for row in rows]
        name = f"{min(times)}_{max(times)}_0.parquet"
        files = dict(self._lengths())
        if name in files:  # of a run that was killed
            return name, files[name]
        return name, self._add(name, _encoded([_table(rows)]), files)

    def is_unmerged(self, limit: int, least: int) -> bool:
        return self._due(self._lengths()) is not None

    def is_unfinished(self) -> bool:
        return bool(self._left_over())

    def merge(self, limit: int, least: int) -> list[str]:
        """Files of one layer become one of the next, as many as Apache Hudi takes; nothing else counts."""
        merged: list[str] = []
        while (due := self._due(self._lengths())) is not None:
            layer, names = due
            files = dict(self._lengths())
            tables = [self._known(name, files[name], _whole) for name in names]
            bounds = [name.split("_")[:2] for name in names]
            made = f"{min(low for low, _ in bounds)}_{max(high for _, high in bounds)}_{layer + 1}.parquet"
            for name in names:
                del files[name]
            self._add(made, _encoded(tables), files)
            merged += names
        if merged:
            self._forget(len(merged) // _MERGED)
        return merged

    def recover(self) -> None:
        self._storage.delete_many([f"{self.folder}/{name}" for name in self._left_over()])

    def _add(self, name: str, data: bytes, files: dict[str, int]) -> int:
        """A file beside those that go on to count; its size."""
        storage, path = self._storage, f"{self.folder}/{name}"
        storage.delete_many([path])
        storage.create(path, data)
        files[name] = len(data)
        number = max(self._numbers(), default=0)
        counting = self._counting(number)
        if counting is not None and counting < number:  # of a run that was killed
            storage.delete_many([f"{self.folder}/manifest_{number}"])
            number = counting
        listed = [{"fileName": each, "fileLen": files[each]} for each in sorted(files)]
        manifest = json.dumps({"files": listed}, indent=2).encode()
        storage.create(f"{self.folder}/manifest_{number + 1}", manifest)
        version = f"{self.folder}/{_VERSION}"
        storage.delete_many([version])
        storage.create(version, str(number + 1).encode())
        return len(data)

    def _due(self, files: Collection[str]) -> tuple[int, list[str]] | None:
        """A layer with so many files that some of them are due to be merged, and their names."""
        layers: dict[int, list[str]] = {}
        for name in sorted(files):
            layers.setdefault(_layer(name), []).append(name)
        return next(
            ((layer, names[:_MERGED]) for layer, names in sorted(layers.items()) if len(names) >= _MERGED),
            None,
        )

    def _forget(self, merges: int) -> None:
        """Manifests of the past go, but for the last ones, and files that none of those names."""
        kept = sorted(self._numbers())[-(_KEPT_MANIFESTS + merges) :]
        named = set[str]().union(*(self._manifest(number) or {} for number in kept))
        gone = [f"manifest_{number}" for number in self._numbers() if number not in kept]
        names = self._storage.names(self.folder)
        gone += [name for name in names if _FILE.fullmatch(name) and name not in named]
        self._storage.delete_many([f"{self.folder}/{name}" for name in gone])

    def _left_over(self) -> list[str]:
        """What killed runs left: files that no manifest names, and a manifest that never counted."""
        names = self._storage.names(self.folder)
        if not names:
            return []
        numbers = _manifest_numbers(names)
        newest = max(numbers, default=0)
        counting = self._counting(newest)
        void = {number for number in numbers if counting is not None and number > counting}
        named = set[str]().union(*(self._manifest(number) or {} for number in numbers if number not in void))
        found = [name for name in names if _FILE.fullmatch(name) and name not in named]
        return [*found, *(f"manifest_{number}" for number in sorted(void))]

    def _counting(self, newest: int) -> int | None:
        """The number of the manifest that counts; None where there is none."""
        named = self._named()
        return newest or None if named is None or self._manifest(named) is None else named

    def _numbers(self) -> list[int]:
        return _manifest_numbers(self._storage.names(self.folder))

    def _lengths(self) -> Mapping[str, int]:
        """The files that count, by name, with their lengths. Raises TableError when no manifest is readable.

        The manifest is the one that `_version_` names. Writers delete `_version_` before they create it
        again: without it, or without a manifest that it names, the newest readable manifest counts.
        """
        named = self._named()
        files = None if named is None else self._manifest(named)
        if files is not None:
            return files
        numbers = self._numbers()
        for number in sorted(numbers, reverse=True):
            files = self._manifest(number)
            if files is not None:
                return files
        if not numbers and named is None:
            return {}
        raise TableError(
            f"the archived timeline in {self.folder} has no manifest that can be read; restore the folder "
            "from a copy. Rows are not affected, only the history of the table",
            path=self.folder,
        )

    def _named(self) -> int | None:
        """The number in `_version_`."""
        try:
            text = self._storage.read(f"{self.folder}/{_VERSION}").strip()
        except FileNotFoundError:
            return None
        return int(text) if _NUMBER.fullmatch(text) else None

    def _manifest(self, number: int) -> dict[str, int] | None:
        """The files that a manifest names; None when it is gone or torn."""
        try:
            value = json.loads(self._storage.read(f"{self.folder}/manifest_{number}"))
            files = {item["fileName"]: item["fileLen"] for item in value["files"]}
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        known = all(
            isinstance(name, str) and _FILE.fullmatch(name) and type(length) is int
            for name, length in files.items()
        )
        return files if known else None

    def _read(self, question: Callable[[_File], _Answer]) -> Sequence[_Answer]:
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
                    raise self._lacking(error) from None
                files = now

    def _known(self, name: str, length: int, question: Callable[[_File], _Answer]) -> _Answer:
        """For the archiver, beside which no other one merges files."""
        try:
            return self._ask(name, length, question)
        except FileNotFoundError as error:
            raise self._lacking(error) from None

    def _lacking(self, error: FileNotFoundError) -> TableError:
        return TableError(
            f"the archived timeline in {self.folder} lacks a file that its manifest names ({error}); restore "
            "it from a copy. Rows are not affected, only the history of the table",
            path=self.folder,
        )

    def _ask(self, name: str, length: int, question: Callable[[_File], _Answer]) -> _Answer:
        path = f"{self.folder}/{name}"
        with _opened(self._storage, path, length) as file:
            return question(file)


def _manifest_numbers(names: Iterable[str]) -> list[int]:
    return [int(match[1]) for name in names if (match := _MANIFEST.fullmatch(name))]


def _layer(name: str) -> int:
    return int(name.removesuffix(".parquet").rpartition("_")[2])


@dataclass(frozen=True)
class _File:
    """A file of the archive; its footer and the pages that it names are checked before Arrow reads them."""

    parquet: pq.ParquetFile
    pages: Pages

    def rows(self, *columns: str) -> Iterator[tuple[Any, ...]]:
        """The values of columns, row by row. Memory: those of some rows."""
        step = self.pages.batch_rows(columns, _ROWS)
        for batch in self.parquet.iter_batches(step, columns=list(columns), use_threads=False):
            yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)


@contextmanager
def _opened(storage: Storage, path: str, length: int) -> Iterator[_File]:
    """Raises FileNotFoundError; TableError for a file that is damaged, or is not the manifest's."""
    import pyarrow as pa

    from hoodie.engine.parquet_open import parquet_file
    from hoodie.format.parquet_guard import Footer, Pages

    opened: Any = storage.open_input(path)
    with pa.PythonFile(opened, "r") as source:
        found = source.size()
        if found != length:
            raise _damaged(path, f"it has {found} bytes, and {length} in its manifest")
        try:
            footer = Footer(source)
            parquet = parquet_file(source, metadata=footer.metadata(), pre_buffer=False)
            if parquet.metadata.num_rows > found:
                raise ValueError(f"{parquet.metadata.num_rows:,} rows in {found:,} bytes")
            yield _File(parquet, Pages(footer))
        except (FileNotFoundError, TableError):
            raise
        except (
            pa.ArrowException,
            LookupError,
            ValueError,
            TypeError,
            OSError,
            OverflowError,
            MemoryError,
        ) as error:
            raise _damaged(path, str(error)) from None


def _rows(states: Iterable[ArchivedState]) -> list[dict[str, Any]]:
    """A record for each completed instant, with its plan, by the time of the request."""
    found: dict[tuple[InstantTime, Action], dict[str, Any]] = {}
    for state, data, changed in states:
        row = found.setdefault((state.time, state.comparable_action), {"plan": None})
        if state.completed:
            row |= {
                "instantTime": str(state.time),
                "completionTime": str(state.completion or changed),
                "action": state.action.value,
                "metadata": data,
            }
        elif state.state is State.REQUESTED and state.action in _PLANNED:
            row["plan"] = data
    rows = [row for row in found.values() if "action" in row]
    return sorted(rows, key=lambda row: row["instantTime"])


def _schema() -> pa.Schema:
    import pyarrow as pa

    texts = [pa.field(name, pa.string()) for name in ("instantTime", "completionTime", "action")]
    contents = [pa.field(name, pa.binary()) for name in ("metadata", "plan")]
    fields: list[Any] = [*texts, *contents, pa.field("version", pa.int32(), nullable=False)]
    about: Any = {"parquet.avro.schema": json.dumps(_AVRO_SCHEMA), "writer.model.name": "avro"}
    return pa.schema(fields, metadata=about)


def _table(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist([{**row, "version": 1} for row in rows], schema=_schema())


def _whole(file: _File) -> pa.Table:
    names = _schema().names[:-1]
    return _table(dict(zip(names, row, strict=True)) for row in file.rows(*names))


def _encoded(tables: Sequence[pa.Table]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.concat_tables(tables)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="gzip", store_schema=False, row_group_size=max(1, table.num_rows))
    return bytes(sink.getvalue())


def _instants_of(file: _File) -> list[Instant]:
    return [_instant(*row) for row in file.rows(*_KEY, "completionTime")]


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


def _contents_of(file: _File, wanted: Set[_Key]) -> dict[_Key, ArchivedContent]:
    if wanted.isdisjoint(file.rows(*_KEY)):
        return {}
    found: dict[_Key, ArchivedContent] = {}
    size = 0
    for time, action, metadata, plan in file.rows(*_KEY, "metadata", "plan"):
        if (time, action) not in wanted:
            continue
        if not all(isinstance(item, (bytes, type(None))) for item in (metadata, plan)):
            raise TypeError(f"what it has of instant {time} is no bytes")
        size += len(metadata or b"") + len(plan or b"")
        if size > MAX_BLOCK_BYTES:
            raise ValueError(
                f"{len(wanted)} of its instants have more than {MAX_BLOCK_BYTES:,} bytes; "
                "HOODIE_MAX_BLOCK_BYTES in the environment must be larger to read them"
            )
        found[time, action] = ArchivedContent(metadata, plan)
    return found


def _damaged(path: str, why: str) -> TableError:
    return TableError(
        f"archive file {path} is damaged ({why}); restore it from a copy. Rows are not affected, only the "
        "history of the table",
        path=path,
    )
