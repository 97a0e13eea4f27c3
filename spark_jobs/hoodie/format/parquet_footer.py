"""Footers of Parquet files, looked at before Arrow parses them (parquet.thrift, "FileMetaData").

A table is untrusted (SECURITY.md). Arrow ends the process on some footers that are damaged when it is asked
about their columns, and on schemas that are nested without end; so what is asked is read here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.codec import thrift
from hoodie.config.limits import MAX_READ_BYTES
from hoodie.engine.parquet_open import Encrypted, parquet_file, refuse_signed, table_types

_MAGIC, _ENCRYPTED, _TAIL, _FIRST_READ = b"PAR1", b"PARE", 8, 1 << 16
_MOST_LEVELS, _MOST_ELEMENTS = 64, 1 << 17
#: fields of FileMetaData and RowGroup
_SCHEMA, _ROW_GROUPS, _COLUMNS, _ROWS = 2, 4, 1, 3
#: fields of SchemaElement: type, its length, repetition, name, children
_ELEMENT: thrift.Wanted = {1: None, 2: None, 3: None, 4: None, 5: None}
_REPEATED = 2
#: field of ColumnChunk, and its: codec, values, bytes decompressed and stored, first page, dictionary
_METADATA = 3
_CHUNK: thrift.Wanted = {4: None, 5: None, 6: None, 7: None, 9: None, 11: None}


class Leaf(NamedTuple):
    """A column without parts. `kind` is Parquet's number of the type, `repeated` whether it is in lists."""

    path: str
    kind: int
    length: int
    repeated: bool


class Chunk(NamedTuple):
    """One column of a row group; `start` is the place of its first page."""

    codec: int
    values: int
    size: int
    stored: int
    start: int


class Footer:
    """One file's footer. Raises ValueError for one that can't be, or has more than MAX_READ_BYTES."""

    def __init__(self, source: Any) -> None:
        """`source` is an Arrow file; the stubs lack its `read_at`."""
        self._source = source
        self.size = size = source.size()
        tail = source.read_at(min(size, _FIRST_READ), max(0, size - _FIRST_READ))
        length = int.from_bytes(tail[-_TAIL:-4], "little")
        if tail[-4:] == _ENCRYPTED:
            raise Encrypted("it is encrypted; write it without encryption")
        if tail[-4:] != _MAGIC or length > size - _TAIL:
            raise ValueError("it does not end as a Parquet file does")
        if length > MAX_READ_BYTES:
            raise ValueError(
                f"its footer has {length:,} bytes, and HOODIE_MAX_READ_BYTES in the environment allows "
                f"{MAX_READ_BYTES:,}"
            )
        whole = length + _TAIL
        self._end: bytes = tail if whole <= len(tail) else source.read_at(whole, size - whole)
        self._groups = self._group_field = 0
        self._chunks: list[tuple[int, list[int]]] | None = None
        try:
            self.leaves = self._leaves(len(self._end) - whole)
        except thrift.Damage:
            raise ValueError("its footer is damaged") from None

    def mentions(self, text: bytes) -> bool:
        """Are these bytes in it: an entry that is not mentioned is not there."""
        return text in self._end

    def metadata(self) -> pq.FileMetaData:
        """As Arrow reads it; of its columns and row groups only the schema may be asked.

        Raises ValueError for a file with encrypted columns, of which Arrow would end the process.
        """
        found = pq.read_metadata(pa.BufferReader(self._end))
        refuse_signed(found, int.from_bytes(self._end[-_TAIL:-4], "little"))
        return found

    def schema(self) -> pa.Schema:
        """The columns in the types that tables have. Raises ValueError, and Arrow's errors."""
        metadata = self.metadata()
        with parquet_file(pa.BufferReader(self._end), metadata=metadata) as file:
            return table_types(file.schema_arrow.remove_metadata(), metadata.schema)

    def read(self, length: int, offset: int) -> bytes:
        """At most so many bytes of the file; the end of it, which is held, is not read again."""
        start = offset - self.size + len(self._end)
        if start >= 0:
            return self._end[start : start + length]
        data: bytes = self._source.read_at(length, offset)
        return data

    def column(self, number: int) -> Iterator[tuple[int, Chunk]]:
        """(rows, the column) of each row group. Raises ValueError."""
        try:
            if self._chunks is None:
                self._chunks = list(self._row_groups())
            for rows, places in self._chunks:
                yield rows, self._chunk(places[number])
        except thrift.Damage:
            raise ValueError("its footer is damaged") from None

    @property
    def rows(self) -> int:
        """Rows of all row groups. Raises ValueError."""
        return sum(rows for rows, _ in self.column(0)) if self.leaves else 0

    def _leaves(self, at: int) -> Sequence[Leaf]:
        field = kind = 0
        while True:
            field, kind, at = thrift.field_at(self._end, at, field)
            if not kind:
                raise thrift.Damage
            if field == _SCHEMA and kind == thrift.LIST:
                leaves, at = self._schema(at)
                self._groups, self._group_field = at, field
                return leaves
            at = thrift.skip(self._end, at, kind)

    def _schema(self, at: int) -> tuple[Sequence[Leaf], int]:
        """The columns, of groups and what they contain, in the order of the file."""
        kind, count, at = thrift.list_at(self._end, at)
        if kind != thrift.STRUCT or not 0 < count <= _MOST_ELEMENTS:
            raise thrift.Damage
        leaves: list[Leaf] = []
        above: list[tuple[str, bool, int]] = []  # path, repeated, children that are to come
        for number in range(count):
            element, at = thrift.struct_at(self._end, at, _ELEMENT)
            children, name = element.get(5, 0), element.get(4, b"")
            if not isinstance(children, int) or not 0 <= children <= count or not isinstance(name, bytes):
                raise thrift.Damage
            path, repeated = "", False
            if number:
                while above and not above[-1][2]:
                    above.pop()
                if not above:
                    raise thrift.Damage
                path, repeated, left = above.pop()
                above.append((path, repeated, left - 1))
                text = name.decode("utf-8", "replace")
                path = f"{path}.{text}" if path else text
                repeated = repeated or element.get(3) == _REPEATED
            if children or not number:
                above.append((path, repeated, children))
            else:
                leaves.append(Leaf(path, _whole(element, 1), _whole(element, 2), repeated))
            if len(above) > _MOST_LEVELS:
                raise ValueError(f"its columns are nested in more than {_MOST_LEVELS} levels")
        return leaves, at

    def _row_groups(self) -> Iterator[tuple[int, list[int]]]:
        """(rows, places of the columns) of each."""
        field, at = self._group_field, self._groups
        while True:
            field, kind, at = thrift.field_at(self._end, at, field)
            if not kind:
                return
            if field == _ROW_GROUPS and kind == thrift.LIST:
                break
            at = thrift.skip(self._end, at, kind)
        kind, count, at = thrift.list_at(self._end, at)
        if count and kind != thrift.STRUCT:
            raise thrift.Damage
        for _ in range(count):
            rows, places, at = self._row_group(at)
            yield rows, places

    def _row_group(self, at: int) -> tuple[int, list[int], int]:
        rows, places, field = -1, list[int](), 0
        while True:
            field, kind, at = thrift.field_at(self._end, at, field)
            if not kind:
                break
            if field == _COLUMNS and kind == thrift.LIST:
                of, count, at = thrift.list_at(self._end, at)
                if of != thrift.STRUCT or count != len(self.leaves):
                    raise thrift.Damage
                for _ in range(count):
                    places.append(at)
                    at = thrift.skip(self._end, at, of)
            elif field == _ROWS:
                rows, at = thrift.integer(self._end, at)
            else:
                at = thrift.skip(self._end, at, kind)
        if rows < 0 or len(places) != len(self.leaves):
            raise thrift.Damage
        return rows, places, at

    def _chunk(self, place: int) -> Chunk:
        field, kind, at = thrift.field_at(self._end, place, 0)
        while field < _METADATA and kind:
            field, kind, at = thrift.field_at(self._end, thrift.skip(self._end, at, kind), field)
        if field != _METADATA or kind != thrift.STRUCT:
            raise thrift.Damage
        found = thrift.begin_of(self._end, at, _CHUNK)
        values, first, dictionary = _whole(found, 5), _whole(found, 9), _whole(found, 11)
        start = dictionary if 0 < dictionary < first else first
        return Chunk(_whole(found, 4), values, _whole(found, 6), _whole(found, 7), start)


def _whole(found: dict[int, Any], field: int) -> int:
    value = found.get(field, 0)
    if isinstance(value, int) and value >= 0:
        return value
    raise thrift.Damage
