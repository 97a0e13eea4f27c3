"""Footers and page headers of Parquet files, checked before Arrow parses them (parquet.thrift,
"FileMetaData", "PageHeader"). A table is untrusted (SECURITY.md).

- **Footers**: Arrow ends the process on some damaged footers when a caller reads their columns, and on
  schemas that are nested without end. So this module reads the columns itself.
- **Pages**: few bytes can stand for many. A page of zeros compresses to nothing, one long text in a
  dictionary is every row's, a list of a billion equal values is a run. The page headers have the
  decompressed size and the number of values. From them follows the number of rows that can be decoded at a
  time within BATCH_BYTES.
- **Refused**: a page, or a list column of a row group, beyond MAX_BLOCK_BYTES.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.codec import thrift
from hoodie.config.limits import MAX_BLOCK_BYTES, MAX_READ_BYTES
from hoodie.engine.parquet_open import Encrypted, check_not_signed, parquet_file, table_types

_MAGIC, _ENCRYPTED, _TAIL, _FIRST_READ = b"PAR1", b"PARE", 8, 1 << 16
_MOST_LEVELS, _MOST_ELEMENTS = 64, 1 << 17
#: of a footer whose parts are remembered
_KNOWN_BYTES = 1 << 15
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
        self._footer = self._end[-whole:]
        self._parts = (_known_parts if whole <= _KNOWN_BYTES else _Parts)(self._footer)
        self.leaves = self._parts.leaves

    def mentions(self, text: bytes) -> bool:
        """Are these bytes in it: an entry that is not mentioned is not there."""
        return text in self._end

    def metadata(self) -> pq.FileMetaData:
        """As Arrow reads it; of its columns and row groups only the schema may be asked.

        Raises ValueError for a file with encrypted columns, of which Arrow would end the process.
        """
        found = pq.read_metadata(pa.BufferReader(self._end))
        check_not_signed(found, int.from_bytes(self._end[-_TAIL:-4], "little"))
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
            for rows, places in self._parts.row_groups:
                yield rows, self._parts.chunk(places[number])
        except thrift.Damage:
            raise ValueError("its footer is damaged") from None

    @property
    def rows(self) -> int:
        """Rows of all row groups. Raises ValueError."""
        return sum(rows for rows, _ in self.column(0)) if self.leaves else 0


#: how the last footers begin, up to their columns: files of a table have the same
_SCHEMAS = deque[tuple[bytes, Sequence[Leaf]]](maxlen=8)


class _Parts:
    """What a footer says: `leaves`, and where the columns of its row groups are. Raises ValueError, and
    Damage where row groups are looked at.
    """

    def __init__(self, footer: bytes) -> None:
        self._data = footer
        self._groups = 0
        known = next((item for item in list(_SCHEMAS) if footer.startswith(item[0])), None)
        try:
            if known is None:
                self.leaves = self._leaves(0)
                if self._groups <= _KNOWN_BYTES:
                    _SCHEMAS.append((footer[: self._groups], self.leaves))
            else:
                self.leaves, self._groups = known[1], len(known[0])
        except thrift.Damage:
            raise ValueError("its footer is damaged") from None

    @cached_property
    def row_groups(self) -> Sequence[tuple[int, list[int]]]:
        """(rows, places of the columns) of each."""
        return list(self._row_groups())

    def _leaves(self, at: int) -> Sequence[Leaf]:
        field = kind = 0
        while True:
            field, kind, at = thrift.field_at(self._data, at, field)
            if not kind:
                raise thrift.Damage
            if field == _SCHEMA and kind == thrift.LIST:
                leaves, self._groups = self._schema(at)
                return leaves
            at = thrift.skip(self._data, at, kind)

    def _schema(self, at: int) -> tuple[Sequence[Leaf], int]:
        """The columns, of groups and what they contain, in the order of the file."""
        kind, count, at = thrift.list_at(self._data, at)
        if kind != thrift.STRUCT or not 0 < count <= _MOST_ELEMENTS:
            raise thrift.Damage
        leaves: list[Leaf] = []
        above: list[tuple[str, bool, int]] = []  # path, repeated, children that are to come
        for number in range(count):
            element, at = thrift.struct_at(self._data, at, _ELEMENT)
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
        field, at = _SCHEMA, self._groups
        while True:
            field, kind, at = thrift.field_at(self._data, at, field)
            if not kind:
                return
            if field == _ROW_GROUPS and kind == thrift.LIST:
                break
            at = thrift.skip(self._data, at, kind)
        kind, count, at = thrift.list_at(self._data, at)
        if count and kind != thrift.STRUCT:
            raise thrift.Damage
        for _ in range(count):
            rows, places, at = self._row_group(at)
            yield rows, places

    def _row_group(self, at: int) -> tuple[int, list[int], int]:
        rows, places, field = -1, list[int](), 0
        while True:
            field, kind, at = thrift.field_at(self._data, at, field)
            if not kind:
                break
            if field == _COLUMNS and kind == thrift.LIST:
                of, count, at = thrift.list_at(self._data, at)
                if of != thrift.STRUCT or count != len(self.leaves):
                    raise thrift.Damage
                for _ in range(count):
                    places.append(at)
                    at = thrift.skip(self._data, at, of)
            elif field == _ROWS:
                rows, at = thrift.integer(self._data, at)
            else:
                at = thrift.skip(self._data, at, kind)
        if rows < 0 or len(places) != len(self.leaves):
            raise thrift.Damage
        return rows, places, at

    def chunk(self, place: int) -> Chunk:
        field, kind, at = thrift.field_at(self._data, place, 0)
        while field < _METADATA and kind:
            field, kind, at = thrift.field_at(self._data, thrift.skip(self._data, at, kind), field)
        if field != _METADATA or kind != thrift.STRUCT:
            raise thrift.Damage
        found = thrift.begin_of(self._data, at, _CHUNK)
        numbers = [found.get(field, 0) for field in _CHUNK]
        if {*map(type, numbers)} != {int} or min(numbers) < 0:
            raise thrift.Damage
        codec, values, size, stored, first, dictionary = numbers
        return Chunk(codec, values, size, stored, dictionary if 0 < dictionary < first else first)


#: a write opens a file for its keys, and again for its rows
_known_parts = lru_cache(64)(_Parts)


def _whole(found: dict[int, Any], field: int) -> int:
    value = found.get(field, 0)
    if isinstance(value, int) and value >= 0:
        return value
    raise thrift.Damage


#: decoded rows that are held at a time, save where one row is more
BATCH_BYTES = 1 << 27
MAX_PAGE_BYTES = MAX_BLOCK_BYTES // 4
#: what the longest text of a dictionary may add to a batch before it is looked for, and among how many
_LITTLE, _MOST_TEXTS = BATCH_BYTES // 16, 1 << 20
_MOST_ROWS = 1 << 16
_HEADER_BYTES, _MAX_HEADER_BYTES = 1 << 8, 1 << 20
#: old releases of parquet-mr did not count the header of a dictionary (PARQUET-816)
_PADDING = 100
#: where a header has the number of values and the encoding, by the kind of page
_DICTIONARY = 2
_COUNTED = {0: (5, 1, 2), _DICTIONARY: (7, 1, 2), 3: (8, 1, 4)}
_HEADER: thrift.Wanted = {
    1: None,
    2: None,
    3: None,
    **{place: {count: None, encoding: None} for place, count, encoding in _COUNTED.values()},
}
_CODED, _DELTA_BYTE_ARRAY = frozenset({2, 8}), 7
#: Parquet's numbers of types
_TEXT, _FIXED = 6, 7
#: bytes of a value in Arrow, with its validity; of a text those of its offset
_WIDTHS = {0: 2, 1: 5, 4: 5, _TEXT: 5}
#: of codecs; that of the old framing of LZ4 is not here
_CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
_UNCOMPRESSED = 0


class _Page(NamedTuple):
    """`size` is that of the decompressed page; its `stored` bytes begin at `start`."""

    dictionary: bool
    values: int
    size: int
    encoding: int
    start: int
    stored: int


@dataclass
class _Bytes:
    """Bytes of a value of a column chunk: `shared` where it is in the file once for any number of rows, `own`
    where it is there by itself, at the densest page.
    """

    values: int = 0
    shared: int = 0
    own: float = 0.0


class Pages:
    """The pages of one Parquet file."""

    def __init__(self, footer: Footer) -> None:
        self._footer = footer
        self._widths: dict[int, float] = {}

    def batch_rows(self, columns: Sequence[str] | None, most: int) -> int:
        """How many rows of these columns (None: all) to decode at a time: one at least, at most `most`.

        Raises ValueError for pages that can't be, and for those that are too large.
        """
        width = sum(self._width(number) for number in self._chosen(columns))
        return max(1, min(most, int(BATCH_BYTES / max(1.0, width))))

    def size(self, column: str) -> int:
        """Decompressed bytes of a column's pages, as the footer says. Raises ValueError."""
        numbers = self._chosen([column])
        return sum(chunk.size for number in numbers for _, chunk in self._footer.column(number))

    def _chosen(self, columns: Sequence[str] | None) -> Iterator[int]:
        wanted = None if columns is None else tuple(f"{name}." for name in columns)
        for number, leaf in enumerate(self._footer.leaves):
            if wanted is None or f"{leaf.path}.".startswith(wanted):
                yield number

    def _width(self, number: int) -> float:
        """Bytes that a row of this column may have in a batch of many."""
        found = self._widths.get(number)
        if found is None:
            leaf = self._footer.leaves[number]
            groups = self._footer.column(number)
            found = max((self._group_width(leaf, rows, chunk) for rows, chunk in groups), default=0.0)
            self._widths[number] = found
        return found

    def _group_width(self, leaf: Leaf, rows: int, chunk: Chunk) -> float:
        found = self._bytes(leaf, chunk)
        width = found.shared + found.own
        if not leaf.repeated:
            if found.values != rows:
                raise ValueError(f"column {leaf.path} has {found.values:,} values in {rows:,} rows")
            return width
        size = int(width * found.values)
        if size > MAX_BLOCK_BYTES:
            raise _too_large(f"column {leaf.path} has {found.values:,} values in lists", size)
        return size / max(1, rows)

    def _bytes(self, leaf: Leaf, chunk: Chunk) -> _Bytes:
        found = _Bytes()
        coded: _Page | None = None
        texts = 0  # bytes of the dictionary, where it is used
        for page in self._pages(chunk):
            if page.size > MAX_PAGE_BYTES:
                raise _too_large(f"column {leaf.path} has a page", page.size, 4)
            if page.dictionary:
                coded = page
                continue
            found.values += page.values
            if leaf.kind != _TEXT:
                continue
            if page.encoding in _CODED:
                texts = coded.size if coded else 0
            elif page.encoding == _DELTA_BYTE_ARRAY:
                found.shared = max(found.shared, page.size)
            else:
                found.own = max(found.own, page.size / max(1, page.values))
        if coded is not None and texts * min(found.values, _MOST_ROWS) > _LITTLE:
            texts = self._longest(coded, chunk.codec)
        found.shared = max(found.shared, texts)
        found.own += leaf.length + 1 if leaf.kind == _FIXED else _WIDTHS.get(leaf.kind, 9)
        return found

    def _pages(self, chunk: Chunk) -> Iterator[_Page]:
        at, end = chunk.start, chunk.start + chunk.stored + _PADDING
        values, wanted = 0, chunk.values
        while at < end and values < wanted:
            page = self._page(at)
            if page.encoding >= 0:
                values += 0 if page.dictionary else page.values
                yield page
            at = page.start + page.stored
        if values != wanted:
            raise ValueError(f"{values} values are in a column that has {wanted}")

    def _page(self, at: int) -> _Page:
        """The page at an offset; of another kind than data and dictionaries without encoding (-1)."""
        header, start = self._header(at)
        kind, size, stored = header.get(1), header.get(2), header.get(3)
        if not (isinstance(size, int) and isinstance(stored, int) and size >= 0 and stored >= 0):
            raise ValueError(f"the page at byte {at} has impossible sizes")
        if kind not in _COUNTED:
            return _Page(False, 0, size, -1, start, stored)
        place, count, encoding = _COUNTED[kind]
        data: Any = header.get(place)
        if not isinstance(data, dict) or not isinstance(data.get(count), int) or data[count] < 0:
            raise ValueError(f"the page at byte {at} does not say how many values it has")
        values, code = data[count], data.get(encoding, 0)
        return _Page(kind == _DICTIONARY, values, size, code, start, stored)

    def _header(self, at: int) -> tuple[dict[int, Any], int]:
        length = _HEADER_BYTES
        while True:
            data = self._footer.read(length, at)
            try:
                header, end = thrift.struct_at(data, 0, _HEADER)
                return header, at + end
            except thrift.Damage:
                if len(data) < length or length >= _MAX_HEADER_BYTES:
                    raise ValueError(f"no page begins at byte {at}") from None
                length *= 16

    def _longest(self, page: _Page, codec: int) -> int:
        """Bytes of the longest text in a dictionary, or more."""
        data = self._footer.read(page.stored, page.start)
        try:
            if codec in _CODECS:
                unpack: Any = pa.decompress
                data = unpack(data, decompressed_size=page.size, codec=_CODECS[codec], asbytes=True)
            elif codec != _UNCOMPRESSED:
                return page.size
        except (pa.ArrowException, OSError):
            return page.size
        if page.values > _MOST_TEXTS:
            return page.size
        length_at, at, longest = struct.Struct("<I").unpack_from, 0, 0
        try:
            for _ in range(page.values):
                (length,) = length_at(data, at)
                at += 4 + length
                if length > longest:
                    longest = length
        except struct.error:
            return page.size
        return min(longest, page.size)


def _too_large(what: str, size: int, share: int = 1) -> ValueError:
    needed = f"HOODIE_MAX_BLOCK_BYTES in the environment must be {size * share:,} at least to read it"
    return ValueError(f"{what} of {size:,} bytes; {needed}")
