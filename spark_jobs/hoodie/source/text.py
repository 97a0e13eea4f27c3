"""CSV and JSON files for the local engine: types are inferred from all of a file, and its rows are streamed.

Files are read in blocks of whole records, the first time for the types. A small source is held from then
on; of a large one nothing is, and its blocks are read again where its rows are used.
"""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv

from hoodie.codec.arrays import pc
from hoodie.engine.streams import Stream, widened
from hoodie.errors import ConfigError, InputError
from hoodie.source import Format, Source, SourceFile, json_records, source_files
from hoodie.source.arrow_files import open_text
from hoodie.source.together import grown, union

#: bytes of text that are parsed at once; a longer record is a block of its own
BLOCK_BYTES = 16 << 20
#: bytes of rows of a source that are kept from the first reading
HELD_BYTES = 32 << 20
#: bytes of small files that are one part of a stream
_PART_BYTES = 64 << 20
_ERRORS = (pa.ArrowException, UnicodeDecodeError)


@dataclass(frozen=True)
class TextFile(ABC):
    """One file of a source; the names of its columns, and their types as far as they are known."""

    source: Source
    path: str
    size: int
    known: pa.Schema | None
    names: tuple[str, ...] = ()
    types: tuple[pa.DataType, ...] = ()
    #: records that are left out: where their lines begin and end in the text, ascending
    holes: tuple[tuple[int, int], ...] = ()

    @abstractmethod
    def whole_blocks(self) -> Iterator[bytes]:
        """The text in UTF-8, records that are left out included."""

    def blocks(self) -> Iterator[bytes]:
        """The text in UTF-8 with those records that are read; an empty block is of a text without any."""
        return _without(self.whole_blocks(), self.holes) if self.holes else self.whole_blocks()

    @abstractmethod
    def lines(self, block: bytes) -> list[bytes]:
        """Of a block, with their ends: what may be a record each."""

    @abstractmethod
    def begun(self, first: bytes) -> tuple[TextFile, int]:
        """The file with what its first line says, and the bytes of it that are no records."""

    @abstractmethod
    def checked(self, text: bytes, count: int) -> pa.Table:
        """The rows of `count` lines that are one record each, in the file's types, as `rows` reads them.

        Raises ArrowException for others.
        """

    @abstractmethod
    def inferred(self, block: bytes, first: bool) -> pa.Table:
        """The rows of a block in the types that its values have, where the table's are not known."""

    @abstractmethod
    def settled(self, found: Sequence[pa.Schema]) -> TextFile:
        """The file with the types of all of its blocks, each of which has one of these schemas."""

    @abstractmethod
    def rows(self, block: bytes, first: bool) -> pa.Table:
        """The rows of a block in the file's types."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, kind) for name, kind in zip(self.names, self.types, strict=True)])

    def unreadable(self, error: Exception) -> InputError:
        return replace(self.source, paths=(self.path,)).unreadable(error)

    def open(self) -> Any:
        return open_text(self.source, self.path)


def text_files(source: Source, known: pa.Schema | None) -> list[TextFile]:
    """The files of a CSV or JSON source. Raises InputError, ConfigError."""
    if source.format is Format.JSON:
        return [_JsonFile(source, *file, known) for file in _files(source, "so its columns are unknown")]
    if known is not None and not source.flag("header", True):
        raise ConfigError(
            "a CSV source without header has no column names; add a header line", option="header"
        )
    return [_CsvFile(source, *file, known) for file in _files(source, "without even a header")]


def text_rows(files: Sequence[TextFile]) -> pa.Table | Stream:
    """The rows of one file at least, in types that all of them have.

    Of CSV, types that were inferred from too little, and times of day, become text.
    """
    csv = isinstance(files[0], _CsvFile)
    return _read(files, lambda dtype: pa.string() if csv and _is_odd(dtype) else dtype)


def _files(source: Source, lacks: str) -> Iterator[SourceFile]:
    for file in (file for files in source_files(source).values() for file in files):
        if file.size == 0:
            raise source.no_such(f"{file.path} is empty, {lacks}")
        yield file


def _read(files: Sequence[TextFile], settle: Callable[[pa.DataType], pa.DataType]) -> pa.Table | Stream:
    known: list[TextFile] = []
    held: list[pa.Table] = []
    left = HELD_BYTES
    for file in files:
        try:
            found, rows = _settled(file)
        except _ERRORS as error:
            raise file.unreadable(error) from error
        known.append(found)
        left -= HELD_BYTES + 1 if rows is None else rows.nbytes
        if rows is None or left < 0:
            held.clear()
        else:
            held.append(rows)
    united = union([(file.path, file.schema) for file in known])
    schema = pa.schema([pa.field(field.name, settle(field.type)) for field in united])
    if left >= 0:
        return pa.concat_tables(held, promote_options="permissive").cast(schema)
    return Stream(schema, tuple(_Part(part, united, schema) for part in _parts(known)))


def _settled(file: TextFile) -> tuple[TextFile, pa.Table | None]:
    """The file with the types of all its blocks; its rows, if it is one block."""
    found: dict[pa.Schema, None] = {}
    for block in file.blocks():
        table = file.inferred(block, first=not found)
        if not found:
            names = table.column_names
            if twice := [name for name in names if names.count(name) > 1]:
                raise InputError(f"the source has the column {twice[0]!r} more than once; rename one of them")
            file, only = replace(file, names=tuple(names)), table
        else:
            only = None
        found[table.schema] = None
    file = file.settled(list(found))
    if only is not None and only.schema != file.schema:
        only = file.rows(next(file.blocks()), first=True)
    return file, only


def _parts(files: Sequence[TextFile]) -> Iterator[tuple[TextFile, ...]]:
    """Neighbours together, up to some size."""
    part: list[TextFile] = []
    size = 0
    for file in files:
        if part and size + file.size > _PART_BYTES:
            yield tuple(part)
            part, size = [], 0
        part.append(file)
        size += file.size
    yield tuple(part)


@dataclass(frozen=True)
class _Part:
    files: tuple[TextFile, ...]
    united: pa.Schema
    schema: pa.Schema

    def __call__(self) -> Iterator[pa.RecordBatch]:
        for file in self.files:
            try:
                for number, block in enumerate(file.blocks()):
                    rows = widened(file.rows(block, first=number == 0), self.united)
                    yield from rows.cast(self.schema).to_batches()
            except _ERRORS as error:
                raise file.unreadable(error) from error


def _blocks(file: TextFile, encoding: str, end: Callable[[bytes], int]) -> Iterator[bytes]:
    """Of the text, in UTF-8, cut where `end` finds the end of the last whole record of a part; 0: it has
    none.
    """
    with file.open() as plain:
        text: Any = plain if encoding == "utf8" else pa.transcoding_input_stream(plain, encoding, "utf8")
        left, first = b"", True
        while more := text.read(max(BLOCK_BYTES, len(left))):
            part = left + more
            if cut := end(part):
                yield part[:cut]
                first = False
            left = part[cut:]
        if left or first:
            yield left


def _without(blocks: Iterator[bytes], holes: Sequence[tuple[int, int]]) -> Iterator[bytes]:
    """The blocks without those parts of the text, which are whole lines; at least one block."""
    place, todo, some = 0, list(reversed(holes)), False
    for block in blocks:
        kept, at, end = [], place, place + len(block)
        while todo and todo[-1][0] < end:
            begin, stop = todo.pop()
            kept.append(block[at - place : begin - place])
            at = stop
        kept.append(block[at - place :])
        place, text = end, b"".join(kept)
        if text.strip():
            some = True
            yield text
    if not some:
        yield b""


def _reader(block: bytes) -> Any:
    return pa.BufferReader(block)


def _line_end(text: bytes) -> int:
    return text.rfind(b"\n") + 1 or text.rfind(b"\r") + 1


class _CsvFile(TextFile):
    def whole_blocks(self) -> Iterator[bytes]:
        encoding = self.source.options.get("encoding", "utf8")
        return _blocks(
            self, encoding, _record_end(self._parse) if self._parse.newlines_in_values else _line_end
        )

    def lines(self, block: bytes) -> list[bytes]:
        return block.splitlines(keepends=True)

    def begun(self, first: bytes) -> tuple[TextFile, int]:
        lines = self.lines(first)
        head = next((number for number, line in enumerate(lines) if line.strip(b"\r\n")), 0)
        size = sum(map(len, lines[: head + 1]))
        with pa.csv.open_csv(_reader(first[:size]), self._head(first=True), self._parse) as stream:
            return replace(self, names=tuple(stream.schema.names)), size

    def checked(self, text: bytes, count: int) -> pa.Table:
        """A column that is a timestamp in the table is inferred, and has to be one here, too."""
        if pc.any(self._torn(pa.array(self.lines(text), pa.binary()))).as_py():
            raise pa.ArrowInvalid("a line has a quote that does not end in it")
        rows = self.inferred(text, first=False)
        if rows.num_rows != count:
            raise pa.ArrowInvalid("a line is not one record")
        rows.validate(full=True)
        for item in self.known or ():
            kind = rows.schema.field(item.name).type if item.name in rows.schema.names else pa.null()
            moment = pa.types.is_temporal(kind) or pa.types.is_null(kind)
            if pa.types.is_timestamp(item.type) and not moment:
                raise pa.ArrowInvalid(f"column {item.name!r}: a value is no timestamp")
        return rows

    def _torn(self, lines: Any) -> Any:
        """Mask of the lines that may be parts of one record: an odd number of quotes, of which one is where a
        value begins or ends; others are letters.
        """
        quote, escape = self._parse.quote_char, self._parse.escape_char
        if not quote:
            return pc.equal(pc.binary_length(lines), -1)
        if escape:
            lines = pc.replace_substring(lines, (escape + quote).encode(), b"")
        mark, comma = re.escape(quote), re.escape(self._parse.delimiter)
        odd = pc.bit_wise_and(pc.count_substring(lines, quote), 1)
        edge = pc.match_substring_regex(lines, f"(^|{comma}){mark}|{mark}({comma}|\r|\n|$)")
        return pc.and_(pc.equal(odd, 1), edge)

    def inferred(self, block: bytes, first: bool) -> pa.Table:
        return self._table(block, first, self._given(block, first))

    def settled(self, found: Sequence[pa.Schema]) -> TextFile:
        if len(found) == 1:
            return replace(self, types=tuple(found[0].types))
        types = [_common({schema.types[place] for schema in found}) for place in range(len(self.names))]
        unclear = [name for name, kind in zip(self.names, types, strict=True) if kind is None]
        if unclear:
            looked = self._whole(unclear)
            types = [
                looked.field(name).type if kind is None else kind
                for name, kind in zip(self.names, types, strict=True)
            ]
        return replace(self, types=tuple(kind for kind in types if kind is not None))

    def rows(self, block: bytes, first: bool) -> pa.Table:
        return self._table(block, first, dict(zip(self.names, self.types, strict=True)))

    def _given(self, block: bytes, first: bool) -> dict[str, pa.DataType]:
        """The types that are not inferred."""
        known = (
            {} if self.known is None else {item.name: item.type for item in self.known if _in_csv(item.type)}
        )
        if self.source.flag("inferSchema", True):
            return known
        names = self.names
        if first:
            with pa.csv.open_csv(_reader(block), self._head(first), self._parse) as stream:
                names = tuple(stream.schema.names)
        return {**dict.fromkeys(names, pa.string()), **known}

    def _table(self, block: bytes, first: bool, types: dict[str, pa.DataType]) -> pa.Table:
        return pa.csv.read_csv(_reader(block), self._head(first), self._parse, self._convert(types))

    def _whole(self, names: list[str]) -> pa.Schema:
        """The types of these columns, read at once: Arrow infers a type from all values of a column."""
        convert = self._convert({})
        convert.include_columns = names
        head = self._head(first=True)
        if self.holes:
            return pa.csv.read_csv(_reader(b"".join(self.blocks())), head, self._parse, convert).schema
        head.encoding = self.source.options.get("encoding", "utf8")
        with self.open() as text:
            return pa.csv.read_csv(text, head, self._parse, convert).schema

    def _head(self, first: bool) -> pa.csv.ReadOptions:
        if first:
            return pa.csv.ReadOptions(autogenerate_column_names=not self.source.flag("header", True))
        return pa.csv.ReadOptions(column_names=list(self.names))

    @property
    def _parse(self) -> pa.csv.ParseOptions:
        options = self.source.options
        return pa.csv.ParseOptions(
            delimiter=options.get("sep", options.get("delimiter", ",")),
            quote_char=options.get("quote", '"') or False,
            escape_char=options.get("escape") or False,
            newlines_in_values=self.source.flag("multiLine", False),
        )

    def _convert(self, types: dict[str, pa.DataType]) -> pa.csv.ConvertOptions:
        null = self.source.options.get("nullValue")
        return pa.csv.ConvertOptions(
            column_types=types, null_values=[""] if null is None else ["", null], strings_can_be_null=True
        )


def _record_end(parse: pa.csv.ParseOptions) -> Callable[[bytes], int]:
    """The end of the last record in a text whose values may hold line ends, in quotes.

    A quote is one only where a value begins, else a letter: no end is looked for in a text with such letters.
    """
    if parse.escape_char:
        return lambda text: 0  # a quote may be escaped: the file is one block
    if not parse.quote_char:
        return _line_end
    quote = ord(parse.quote_char)
    before_value = np.frombuffer(f"{parse.delimiter}{parse.quote_char}\r\n".encode(), dtype=np.uint8)

    def end(text: bytes) -> int:
        letters = np.frombuffer(text, dtype=np.uint8)
        ends = np.flatnonzero(letters == ord("\n"))
        quotes = np.flatnonzero(letters == quote)
        begins = quotes[::2]
        begins = begins[begins > (len(codecs.BOM_UTF8) if text.startswith(codecs.BOM_UTF8) else 0)]
        if not np.isin(letters[begins - 1], before_value).all():
            return 0
        outside = ends[np.searchsorted(quotes, ends) % 2 == 0]
        return int(outside[-1]) + 1 if len(outside) else 0

    return end


#: types that Arrow infers, in the order in which it gives up one for the next, that take all values of one
#: another
_WIDER = (
    (pa.int64(), pa.float64()),
    (pa.date32(), pa.timestamp("s"), pa.timestamp("ns")),
    (pa.timestamp("s", "UTC"), pa.timestamp("ns", "UTC")),
)


def _common(types: set[pa.DataType]) -> pa.DataType | None:
    """The type that Arrow infers from values together of which parts have these types; None: it depends."""
    types = types - {pa.null()} or {pa.null()}
    if len(types) == 1:
        return next(iter(types))
    for text in (pa.binary(), pa.string()):
        if text in types:
            return text
    for order in _WIDER:
        if types <= {*order}:
            return max(types, key=order.index)
    return None


def _in_csv(dtype: pa.DataType) -> bool:
    """Timestamps are left to inference, which distinguishes those with a zone from those without."""
    return not (pa.types.is_nested(dtype) or pa.types.is_timestamp(dtype))


def _is_odd(dtype: pa.DataType) -> bool:
    """Inferred from nothing, or a time of day, which no table column can hold: kept as text."""
    return pa.types.is_null(dtype) or pa.types.is_time(dtype)


class _JsonFile(TextFile):
    def whole_blocks(self) -> Iterator[bytes]:
        return _blocks(self, "utf8", lambda text: 0 if json_records.is_one_array(text) else _line_end(text))

    def lines(self, block: bytes) -> list[bytes]:
        ends = block.split(b"\n")
        return [line + b"\n" for line in ends[:-1]] + ends[-1:]

    def begun(self, first: bytes) -> tuple[TextFile, int]:
        if json_records.is_array(first):
            raise pa.ArrowInvalid(
                "with an error table a record is a line, and this text begins with an array"
            )
        return self, len(codecs.BOM_UTF8) if first.startswith(codecs.BOM_UTF8) else 0

    def checked(self, text: bytes, count: int) -> pa.Table:
        """Objects that begin and end with their lines are not split among them."""
        whole = pc.match_substring_regex(pa.array(self.lines(text)), r"(?s)^\s*(\{.*\}\s*)?$")
        if not pc.all(whole).as_py():
            raise pa.ArrowInvalid("a line is no JSON object")
        found = self.settled([self.inferred(text, first=False).schema])
        rows = found.rows(text, first=False)
        if rows.num_rows != count:
            raise pa.ArrowInvalid("a line has more than one JSON object")
        rows.validate(full=True)
        return rows

    def inferred(self, block: bytes, first: bool) -> pa.Table:
        return json_records.inferred(block)

    def settled(self, found: Sequence[pa.Schema]) -> TextFile:
        types = {} if self.known is None else {item.name: item.type for item in self.known}
        parts = [pa.schema([(item.name, _without_times(item.type)) for item in schema]) for schema in found]
        # a column that the table has takes its type, whatever it looks like; its structs may have new fields
        own = [pa.schema([item for item in part if item.name not in types]) for part in parts]
        united = pa.unify_schemas(own, promote_options="permissive")
        names = tuple(dict.fromkeys(name for schema in found for name in schema.names))

        def wanted(name: str) -> pa.DataType:
            if name not in types:
                return _as_text(united.field(name).type)
            seen = [part.field(name).type for part in parts if name in part.names]
            return cast(pa.DataType, grown(types[name], seen, _as_text))

        return replace(self, names=names, types=tuple(map(wanted, names)))

    def rows(self, block: bytes, first: bool) -> pa.Table:
        wanted = self.schema
        flat = pa.schema([item for item in wanted if not _has_map(item.type)])
        asked = pa.schema([pa.field(item.name, _dates_as_text(item.type)) for item in flat])
        rows = json_records.read(block, asked)
        for name in wanted.names:
            if name not in rows.schema.names:
                rows = rows.append_column(name, pa.nulls(rows.num_rows))
        rows = rows.select(wanted.names)
        return rows.cast(
            pa.schema([flat.field(item.name) if item.name in flat.names else item for item in rows.schema])
        )


def _without_times(dtype: pa.DataType) -> pa.DataType:
    """What looks like a time is a text, and so the same in blocks that have others."""
    return _changed(dtype, lambda kind: pa.string() if pa.types.is_timestamp(kind) else kind)


def _as_text(dtype: pa.DataType) -> pa.DataType:
    """JSON has no timestamps: what looks like one is a text, as in Spark; so is a column of nulls."""
    return _changed(dtype, lambda kind: pa.string() if pa.types.is_timestamp(kind) or _is_odd(kind) else kind)


def _dates_as_text(dtype: pa.DataType) -> pa.DataType:
    """The type as which Arrow's JSON reader takes it: it reads no dates, and casts do."""
    return _changed(dtype, lambda kind: pa.string() if pa.types.is_date(kind) else kind)


def _changed(dtype: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with another one for each that is not nested."""
    if pa.types.is_list(dtype):
        return pa.list_(_changed(dtype.value_type, change))
    if pa.types.is_struct(dtype):
        return pa.struct([pa.field(item.name, _changed(item.type, change)) for item in dtype])
    return change(dtype)


def _has_map(dtype: pa.DataType) -> bool:
    return pa.types.is_map(dtype) or any(_has_map(dtype.field(i).type) for i in range(dtype.num_fields))
