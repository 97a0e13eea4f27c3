"""CSV and JSON files for the local engine: types are inferred from all of a file, and its rows are streamed.

Files are read in blocks of whole records, the first time for the types. A small source is held from then
on; of a large one nothing is, and its blocks are read again where its rows are used.
"""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import pyarrow as pa

from hoodie.codec.arrays import pc
from hoodie.config.cores import usable_cores
from hoodie.engine.origin import note
from hoodie.engine.streams import Stream, widened
from hoodie.errors import InputError
from hoodie.format.map_keys import has_map
from hoodie.source import Source, json_records
from hoodie.source.arrow_files import open_text
from hoodie.source.folders import FolderColumn, check_not_twice
from hoodie.source.together import grown, union

#: bytes of text that are parsed at once; a longer record is a block of its own
BLOCK_BYTES = 16 << 20
#: bytes of rows of a source that are kept from the first reading
HELD_BYTES = 32 << 20
#: rows of them that are a batch, and a part of a stream at least
_HELD_ROWS = 65536
#: bytes of small files that are one part of a stream
_PART_BYTES = 64 << 20
_ERRORS = (pa.ArrowException, UnicodeDecodeError, EOFError)


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
    #: columns in the names of the folders of its path
    folders: tuple[FolderColumn, ...] = ()

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

    def vet(self, block: bytes, line: int) -> None:  # noqa: B027  formats whose reader does it need none
        """Raises InputError for a text that is not one of the format, naming the line; `line` is that of the
        block.
        """

    def named(self, error: pa.ArrowException, block: bytes, first: bool, line: int) -> pa.ArrowException:
        """The error of `inferred` with the place of the value; `line` is that of the block."""
        return error

    def kinds(self, block: bytes, rows: pa.Table, first: bool) -> pa.Schema:
        """What `settled` needs to know of a block, of which these are the inferred rows."""
        return rows.schema

    def agreed(self, files: list[TextFile]) -> list[TextFile]:
        """The files of a source in the types that they have in common."""
        return files

    def full(self, rows: pa.Table) -> pa.Table:
        """Rows of the file with the columns of its folders."""
        for folder in self.folders:
            rows = rows.append_column(folder.name, folder.values(rows.num_rows))
        return rows

    @property
    def full_schema(self) -> pa.Schema:
        return pa.schema([*self.schema, *(pa.field(folder.name, folder.type) for folder in self.folders)])

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raises InputError, with the file, where it can't be read as what it should be."""
        try:
            yield
        except _ERRORS as error:
            raise self.unreadable(error) from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise self.unreadable(f"it is damaged or cut off ({error})") from error

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, kind) for name, kind in zip(self.names, self.types, strict=True)])

    def unreadable(self, error: Exception | str) -> InputError:
        return replace(self.source, paths=(self.path,)).unreadable(error)

    def open(self) -> Any:
        return open_text(self.source, self.path)


def text_rows(files: Sequence[TextFile]) -> Stream:
    """The rows of one file at least, in types that all of them have.

    Types that were inferred from nothing become text.
    """
    known: list[TextFile] = []
    held: list[pa.Table] = []
    left = HELD_BYTES
    for file in files:
        with file.reading():
            found, rows = settled(file)
        known.append(found)
        left -= HELD_BYTES + 1 if rows is None else rows.nbytes
        if rows is None or left < 0:
            held.clear()
        else:
            held.append(rows)
    known = known[0].agreed(known)
    united = union([(file.path, file.full_schema) for file in known])
    schema = pa.schema([pa.field(field.name, null_as_text(field.type)) for field in united])
    if left >= 0:
        whole = [
            (file.path, _in_types(file, rows, united).cast(schema))
            for file, rows in zip(known, held, strict=True)
        ]
        return Stream(schema, tuple(_held(whole)))
    return Stream(schema, tuple(_Part(part, united, schema) for part in _parts(known)))


def settled(file: TextFile) -> tuple[TextFile, pa.Table | None]:
    """The file with the types of all its blocks; its rows, in some types, if it is one block."""
    found: dict[pa.Schema, None] = {}
    line, only = 1, None
    for block in file.blocks():
        first = not file.names
        file.vet(block, line)
        try:
            table = file.inferred(block, first)
        except pa.ArrowException as error:
            raise file.named(error, block, first, line) from error
        if not found:
            check_not_twice(file.path, table.column_names, [folder.name for folder in file.folders])
            file, only = replace(file, names=tuple(table.column_names)), table
        else:
            only = None
        found[file.kinds(block, table, first)] = None
        line += block.count(b"\n")
    return file.settled(list(found)), only


def _in_types(file: TextFile, rows: pa.Table, united: pa.Schema) -> pa.Table:
    """The rows of a file that is one block in the types that all files have in the end."""
    with file.reading():
        if rows.schema != file.schema:
            block = next(file.blocks())
            try:
                rows = file.rows(block, first=True)
            except pa.ArrowException as error:
                raise file.named(error, block, True, 1) from error
        return widened(file.full(rows), united)


def _held(files: Sequence[tuple[str, pa.Table]]) -> Iterator[_Held]:
    """The rows of files, parted for the cores of the machine."""
    step = max(_HELD_ROWS, -(-sum(rows.num_rows for _, rows in files) // usable_cores()))
    part: list[tuple[str, pa.Table]] = []
    left = step
    for path, rows in files:
        while rows.num_rows:
            part.append((path, rows.slice(0, left)))
            rows, left = rows.slice(left), left - part[-1][1].num_rows
            if not left:
                yield _Held(tuple(part))
                part, left = [], step
    if part:
        yield _Held(tuple(part))


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
class _Held:
    """Rows of files, by their paths."""

    files: tuple[tuple[str, pa.Table], ...]

    def __call__(self) -> Iterator[pa.RecordBatch]:
        for path, rows in self.files:
            note(path)
            yield from rows.to_batches(max_chunksize=_HELD_ROWS)


@dataclass(frozen=True)
class _Part:
    files: tuple[TextFile, ...]
    united: pa.Schema
    schema: pa.Schema

    def __call__(self) -> Iterator[pa.RecordBatch]:
        for file in self.files:
            note(file.path)
            line = 1
            with file.reading():
                for number, block in enumerate(file.blocks()):
                    try:
                        rows = file.rows(block, first=number == 0)
                    except pa.ArrowException as error:
                        raise file.named(error, block, number == 0, line) from error
                    yield from widened(file.full(rows), self.united).cast(self.schema).to_batches()
                    line += block.count(b"\n")


def text_blocks(file: TextFile, encoding: str, end: Callable[[bytes], int]) -> Iterator[bytes]:
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


def line_end(text: bytes) -> int:
    return text.rfind(b"\n") + 1 or text.rfind(b"\r") + 1


#: a line that is an object, or blank
_OBJECT = r"(?s)^\s*(\{.*\}\s*)?$"


class JsonFile(TextFile):
    def whole_blocks(self) -> Iterator[bytes]:
        return text_blocks(
            self, "utf8", lambda text: 0 if json_records.is_one_array(text) else line_end(text)
        )

    def lines(self, block: bytes) -> list[bytes]:
        ends = block.split(b"\n")
        return [line + b"\n" for line in ends[:-1]] + ends[-1:]

    def begun(self, first: bytes) -> tuple[TextFile, int]:
        if json_records.is_array(first):
            raise pa.ArrowInvalid("with an error table a record is a line; this text begins with an array")
        return self, len(codecs.BOM_UTF8) if first.startswith(codecs.BOM_UTF8) else 0

    def checked(self, text: bytes, count: int) -> pa.Table:
        """Objects that begin and end with their lines are not split among them."""
        whole = pc.match_substring_regex(pa.array(self.lines(text)), _OBJECT)
        if not pc.all(whole).as_py():
            raise pa.ArrowInvalid("a line is no JSON object")
        found = self.settled([self.inferred(text, first=False).schema])
        [found] = self.agreed([found])
        rows = found.rows(text, first=False)
        if rows.num_rows != count:
            raise pa.ArrowInvalid("a line has more than one JSON object")
        rows.validate(full=True)
        return rows

    def named(self, error: pa.ArrowException, block: bytes, first: bool, line: int) -> pa.ArrowException:
        """The line is the last of the least lines that can't be read."""
        lines = self.lines(block)
        if not pc.all(pc.match_substring_regex(pa.array(lines, pa.binary()), _OBJECT)).as_py():
            return error  # records of several lines
        good, bad = 0, len(lines)
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (good, middle) if self._wrong(b"".join(lines[:middle])) else (middle, bad)
        last = lines[bad - 1]
        said = self._wrong(b"".join(lines[:bad])) or str(error)
        alone = (
            (name, replace(self, names=(name,), types=(kind,))._wrong(last))
            for name, kind in zip(self.names, self.types, strict=bool(self.types))
        )
        column, why = next((found for found in alone if found[1]), ("", ""))
        said = f"column {column!r}: {why}" if column and "olumn" not in said else said
        return pa.ArrowInvalid(f"line {line + bad - 1}: {said}")

    def _wrong(self, text: bytes) -> str:
        """Why these lines can't be read; "" where they can."""
        try:
            self.rows(text, first=False) if self.types else self.inferred(text, first=False)
        except pa.ArrowException as error:
            said = str(error).strip().splitlines() or [type(error).__name__]
            return re.sub(r" in row \d+$", "", said[0].removeprefix("JSON parse error: "))
        return ""

    def vet(self, block: bytes, line: int) -> None:
        if block.isascii():
            return
        try:
            codecs.utf_8_decode(block, "strict", True)
        except UnicodeDecodeError as error:
            place = line + block.count(b"\n", 0, error.start)
            value = block[error.start : error.start + 1].hex()
            raise self.unreadable(f"line {place}: the text is not UTF-8 (byte 0x{value})") from None

    def inferred(self, block: bytes, first: bool) -> pa.Table:
        rows = json_records.inferred(block)
        json_records.check_not_rounded(rows, block, self.known.names if self.known is not None else ())
        return rows

    def settled(self, found: Sequence[pa.Schema]) -> TextFile:
        types = {} if self.known is None else {item.name: item.type for item in self.known}
        parts = [pa.schema([(item.name, _without_times(item.type)) for item in schema]) for schema in found]
        # a column that the table has takes its type, whatever it looks like; its structs may have new fields
        own = [pa.schema([item for item in part if item.name not in types]) for part in parts]
        united = pa.unify_schemas(own, promote_options="permissive")
        names = tuple(dict.fromkeys(name for schema in found for name in schema.names))

        def type_of(name: str) -> pa.DataType:
            if name not in types:
                return cast(pa.DataType, united.field(name).type)
            seen = [part.field(name).type for part in parts if name in part.names]
            return cast(pa.DataType, grown(types[name], seen, _as_text))

        return replace(self, names=names, types=tuple(map(type_of, names)))

    def agreed(self, files: list[TextFile]) -> list[TextFile]:
        """What has nulls alone in one file has the type of the others, or text."""
        try:
            united = pa.unify_schemas([file.schema for file in files], promote_options="permissive")
        except pa.ArrowException:
            return files  # whoever unites them says what does not fit
        types = {field.name: field.type for field in united}
        return [
            replace(
                file,
                types=tuple(
                    _filled(kind, types[name]) for name, kind in zip(file.names, file.types, strict=True)
                ),
            )
            for file in files
        ]

    def rows(self, block: bytes, first: bool) -> pa.Table:
        wanted = self.schema
        flat = pa.schema([item for item in wanted if not has_map(item.type)])
        asked = pa.schema([pa.field(item.name, _dates_as_text(item.type)) for item in flat])
        rows = json_records.read(block, asked)
        json_records.check_not_rounded(rows, block, self.known.names if self.known is not None else ())
        for name in wanted.names:
            if name not in rows.schema.names:
                rows = rows.append_column(name, pa.nulls(rows.num_rows))
        rows = rows.select(wanted.names)
        return rows.cast(
            pa.schema([flat.field(item.name) if item.name in flat.names else item for item in rows.schema])
        )


def _filled(dtype: Any, others: Any) -> Any:
    """The type with that of others for each that was inferred from nothing."""
    if pa.types.is_null(dtype):
        return null_as_text(others)
    if pa.types.is_struct(dtype) and pa.types.is_struct(others):
        return pa.struct(
            [field.with_type(_filled(field.type, others.field(field.name).type)) for field in dtype]
        )
    if pa.types.is_list(dtype) and pa.types.is_list(others):
        return pa.list_(dtype.value_field.with_type(_filled(dtype.value_type, others.value_type)))
    return dtype


def null_as_text(dtype: pa.DataType) -> pa.DataType:
    """What was inferred from nothing is a text, at any depth."""
    return _changed(dtype, lambda kind: pa.string() if pa.types.is_null(kind) else kind)


def _without_times(dtype: pa.DataType) -> pa.DataType:
    """What looks like a time is a text, and so the same in blocks that have others."""
    return _changed(
        dtype, lambda kind: pa.string() if pa.types.is_timestamp(kind) or pa.types.is_time(kind) else kind
    )


def _as_text(dtype: pa.DataType) -> pa.DataType:
    """JSON has no timestamps: what looks like one is a text, as in Spark; so is a column of nulls."""
    return _changed(dtype, lambda kind: pa.string() if pa.types.is_timestamp(kind) or _is_odd(kind) else kind)


def _dates_as_text(dtype: pa.DataType) -> pa.DataType:
    """The type as which Arrow's JSON reader takes it: it reads no dates, and casts do."""
    return _changed(dtype, lambda kind: pa.string() if pa.types.is_date(kind) else kind)


def _is_odd(dtype: pa.DataType) -> bool:
    """Inferred from nothing, or a time of day, which no table column can hold: kept as text."""
    return pa.types.is_null(dtype) or pa.types.is_time(dtype)


def _changed(dtype: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with another one for each that is not nested."""
    if pa.types.is_list(dtype):
        return pa.list_(dtype.value_field.with_type(_changed(dtype.value_type, change)))
    if pa.types.is_struct(dtype):
        return pa.struct([item.with_type(_changed(item.type, change)) for item in dtype])
    return change(dtype)
