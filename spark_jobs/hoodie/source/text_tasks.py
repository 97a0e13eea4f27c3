"""CSV and JSON on Spark: Spark reads the lines of the files, its tasks parse them as the local engine does.

Spark's own readers would take other texts for CSV and JSON, and other values for numbers and times. No
pyspark import.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, dropwhile, groupby
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import pc
from hoodie.engine.streams import widened
from hoodie.errors import HoodieError
from hoodie.source import Format, Source
from hoodie.source.csv_file import CsvFile, Dialect
from hoodie.source.folders import FolderColumn
from hoodie.source.rejected_records import BadRows, Required
from hoodie.source.text import JsonFile, TextFile, settled
from hoodie.source.validation import Screen
from hoodie.storage import normalize

#: what is asked of Spark's reader of text
LINES = (
    "cast(value as binary) as value",
    "_metadata.file_path as file",
    "_metadata.file_block_start as start",
)
#: what `Look` gives of each part of a file that Spark reads at once
LOOKED = "file string, start bigint, names array<string>, types binary, error string"
_FIELDS: dict[str, pa.DataType] = {
    "file": pa.string(),
    "start": pa.int64(),
    "names": pa.list_(pa.string()),
    "types": pa.binary(),
    "error": pa.string(),
}
_LOOKED = pa.schema(_FIELDS)


class _Text(NamedTuple):
    """Whole lines of a part of a file, which begins at that byte."""

    file: str
    start: int
    lines: Any

    def joined(self) -> bytes:
        whole = pa.ListArray.from_arrays(pa.array([0, len(self.lines)], pa.int32()), self.lines)
        text: bytes = pc.binary_join(whole, b"\n")[0].as_py()
        return text

    def block(self, dialect: Dialect) -> bytes:
        text = self.joined()
        return (text if dialect.encoding == "utf-8" else text.decode(dialect.encoding).encode()) + b"\n"


def _texts(batches: Iterable[pa.RecordBatch]) -> Iterator[_Text]:
    for batch in batches:
        if not batch.num_rows:
            continue
        files, starts = batch.column(1), batch.column(2).to_numpy()
        places = files.dictionary_encode().indices.to_numpy()
        ends = np.flatnonzero((np.diff(places) != 0) | (np.diff(starts) != 0)) + 1
        for begin, end in zip([0, *ends], [*ends, batch.num_rows], strict=True):
            lines = batch.column(0).slice(begin, end - begin)
            yield _Text(files[int(begin)].as_py(), int(starts[begin]), lines)


@dataclass(frozen=True)
class CsvPart(CsvFile):
    """A part of a file that Spark reads at once."""

    start: int = 0
    texts: Iterable[_Text] = ()

    def whole_blocks(self) -> Iterator[bytes]:
        blocks = (text.block(self.dialect) for text in self.texts)
        yield from dropwhile(lambda block: not block.strip(b"\r\n"), blocks)

    def begun(self, first: bytes) -> tuple[TextFile, int]:
        return (self, 0) if self.start else super().begun(first)

    def without_header(self) -> CsvPart:
        """The later part of a file, which has no header, with some names."""
        texts = iter(self.texts)
        for text in texts:
            if (block := text.block(self.dialect)).strip(b"\r\n"):
                return replace(self, texts=chain([text], texts), names=self.numbered(block))
        return replace(self, texts=())


@dataclass(frozen=True)
class JsonPart(JsonFile):
    """As `CsvPart`; blank lines are no text."""

    start: int = 0
    texts: Iterable[_Text] = ()

    def whole_blocks(self) -> Iterator[bytes]:
        for text in self.texts:
            block = text.joined() + b"\n"
            if block.strip():
                yield block

    def settled(self, found: Sequence[pa.Schema]) -> TextFile:
        return super().settled(found) if found else self


_Part = TypeVar("_Part", CsvPart, JsonPart)


def _parts(batches: Iterable[pa.RecordBatch], part: _Part, screened: bool) -> Iterator[_Part]:
    for (path, start), texts in groupby(_texts(batches), lambda text: (text.file, text.start)):
        # those that are screened are read more than once
        lines = list(texts) if screened else texts  # noqa: B031  one of them
        yield replace(part, path=path, start=start, texts=lines)


def _empty(source: Source, known: pa.Schema | None) -> Any:
    kind = CsvPart if source.format is Format.CSV else JsonPart
    return kind(source, "", 0, known)


def local_path(uri: str) -> str:
    """The file's name as this package lists it."""
    try:
        return normalize(unquote(uri))
    except HoodieError:
        return uri


def _screened(part: _Part) -> tuple[_Part, BadRows, bool]:
    """Without the lines that can't be read; are there others?"""
    screen = Screen(part, Required(), BadRows(1 << 62))
    screen.run()
    return replace(part, holes=tuple(screen.holes)), screen.bad, screen.records > 0


@dataclass(frozen=True)
class Look:
    """Names and types of the columns in each part of a file, or why it can't be read."""

    source: Source
    known: pa.Schema | None
    screened: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        empty = _empty(self.source, self.known)
        for part in _parts(batches, empty, self.screened):
            item: dict[str, Any] = {"file": part.path, "start": part.start}
            part = replace(part, path=local_path(part.path))
            try:
                with part.reading():
                    found = self._looked(part)
                    if isinstance(part, CsvPart) and not part.start and not found.names:
                        raise pa.ArrowInvalid("it has no header")
                if not found.names:
                    continue  # blank lines
                item |= {"names": list(found.names), "types": found.schema.serialize().to_pybytes()}
            except HoodieError as error:
                item["error"] = error.message
            yield pa.RecordBatch.from_pylist([item], _LOOKED)

    def _looked(self, part: CsvPart | JsonPart) -> TextFile:
        if isinstance(part, JsonPart):
            part, _, some = _screened(part) if self.screened else (part, None, True)
            return settled(part)[0] if some else part
        if part.start:
            part = part.without_header()
            if self.screened:
                part = replace(part, texts=list(part.texts))
        if self.screened:
            part, _, _ = _screened(part)
        return settled(part)[0]


@dataclass(frozen=True)
class Vet:
    """Why parts of files are no text of the encoding; nothing of others."""

    source: Source

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in _parts(batches, CsvPart(self.source, "", 0, None), screened=False):
            item: dict[str, Any] = {"file": part.path, "start": part.start}
            part, line = replace(part, path=local_path(part.path)), 1
            try:
                with part.reading():
                    for block in part.whole_blocks():
                        part.vet(block, line)
                        line += block.count(b"\n")
            except HoodieError as error:
                yield pa.RecordBatch.from_pylist([item | {"error": error.message}], _LOOKED)


class Columns(NamedTuple):
    """Of a file."""

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    folders: tuple[FolderColumn, ...]


@dataclass(frozen=True)
class Rows:
    """The rows in a schema. `bad`: the columns for the file of a row and for the text of a line that can't be
    read; else that is an error.
    """

    source: Source
    known: pa.Schema | None
    files: Mapping[str, Columns]
    schema: pa.Schema
    bad: tuple[str, str] | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        empty = _empty(self.source, self.known)
        for part in _parts(batches, empty, self.bad is not None):
            columns = self.files.get(part.path, Columns((), (), ()))
            file = replace(part, folders=columns.folders)
            lines: Sequence[str] = ()
            if self.bad is not None:
                named = replace(file, names=columns.names) if part.start else file
                file, found, some = _screened(named)
                lines = [item["record"] for item in found.items]
            else:
                some = True
            if some:
                yield from self._good(replace(file, names=columns.names, types=columns.types), part.path)
            if lines:
                assert self.bad is not None
                yield from self._batches(pa.table({self.bad[1]: pa.array(lines, pa.string())}), part.path)

    def _good(self, file: CsvPart | JsonPart, path: str) -> Iterator[pa.RecordBatch]:
        line = 1
        with replace(file, path=local_path(path)).reading():
            for number, block in enumerate(file.blocks()):
                first = number == 0 and not file.start
                try:
                    rows = file.full(file.rows(block, first))
                except pa.ArrowException as error:
                    raise file.named(error, block, first, line) from error
                yield from self._batches(rows, path)
                line += block.count(b"\n")

    def _batches(self, rows: pa.Table, path: str) -> Iterator[pa.RecordBatch]:
        if self.bad is not None:
            rows = rows.append_column(self.bad[0], pa.repeat(pa.scalar(path), rows.num_rows))
        own = pa.schema([self.schema.field(name) for name in rows.schema.names])
        yield from widened(rows.cast(own), self.schema).to_batches()
