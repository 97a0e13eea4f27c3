"""HFiles, version 3, as Apache Hudi and HBase write them: sorted keys with values, in blocks (format.md 9).

    data blocks, among them leaf indexes | meta blocks | intermediate indexes
    | what is read on opening: root index, index of meta blocks, file info | trailer

An index (format.md 9.4) has the place of each block, and the key with which it begins:

    root, meta      per block: offset int64 | stored int32 | length of the key, Hadoop's vint | key
    leaf,           blocks int32 | place of each entry behind these, and their end, int32 each | per block:
    intermediate    offset int64 | stored int32 | key

- The trailer counts the entries of the root and of the meta index. Keys are those of cells, of meta blocks
  their names. With several levels the root lists indexes, and the leaf indexes list data blocks.
- A look-up takes keys, or ranges of keys, and finds the blocks that can have them.
- `hfile_block` has the blocks, the file info and the trailer, `hfile_cells` the cells. `hfile_writer`
  writes.
- Not read: other codecs than gzip and none, encoded or encrypted blocks, tags, HBase's own bloom filters.
- The bytes are untrusted. Sizes are checked before anything is read or decompressed, and blocks must have
  the keys of their index. Anything else is a TableError that names the file and the block.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import struct
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa

from hoodie.codec.arrays import pc
from hoodie.config.limits import MAX_BLOCK_BYTES, MAX_READ_BYTES
from hoodie.errors import TableError
from hoodie.format.hfile_block import (
    HEADER,
    TRAILER_BYTES,
    Block,
    Damage,
    Kind,
    Trailer,
    decode_block,
    decode_info,
)
from hoodie.format.hfile_cells import decode_cells, full_key, row_of
from hoodie.storage import Storage

#: from the first key to before the second; None: to the end
Range: TypeAlias = tuple[bytes, bytes | None]


class Query(ABC):
    """Keys that are wanted. Cells come sorted, and are given sorted."""

    @abstractmethod
    def matching_blocks(self, firsts: Sequence[bytes], limit: bytes | None) -> Iterator[tuple[int, Query]]:
        """(number of a block, what is wanted of it), in order. Block i holds keys from `firsts[i]` to before
        that of the next one; the last one to before `limit`.
        """

    @abstractmethod
    def pick(self, cells: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The wanted ones of some cells; no empty batches."""


class Keys(Query):
    def __init__(self, keys: Iterable[bytes]) -> None:
        """An iterable, or an array of binary, in any order."""
        given: Any = keys if isinstance(keys, pa.Array) else pa.array(list(keys), pa.binary())
        distinct = pc.unique(given)
        self._keys: Any = distinct.take(pc.sort_indices(distinct))

    @classmethod
    def _of(cls, keys: Any) -> Keys:
        made = cls.__new__(cls)
        made._keys = keys
        return made

    def matching_blocks(self, firsts: Sequence[bytes], limit: bytes | None) -> Iterator[tuple[int, Query]]:
        keys = self._keys
        at = _count_before(keys, firsts[0]) if firsts else len(keys)
        while at < len(keys):
            block = bisect_right(firsts, keys[at].as_py()) - 1
            end = end_of(firsts, block, limit)
            stop = len(keys) if end is None else _count_before(keys, end)
            if stop == at:
                return
            yield block, Keys._of(keys[at:stop])
            at = stop

    def pick(self, cells: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        found = cells.filter(pc.is_in(cells.column(0), value_set=self._keys))
        if found.num_rows:
            yield found


class Ranges(Query):
    def __init__(self, ranges: Iterable[Range]) -> None:
        """In any order; where they overlap, cells are given once."""
        self._ranges: list[Range] = []
        for start, stop in sorted(ranges, key=lambda item: item[0]):
            if stop is not None and stop <= start:
                continue
            if self._ranges and _reaches(self._ranges[-1][1], start):
                start, before = self._ranges.pop()
                stop = None if before is None or stop is None else max(before, stop)
            self._ranges.append((start, stop))

    @classmethod
    def of_prefixes(cls, prefixes: Iterable[bytes]) -> Ranges:
        return cls((prefix, _behind(prefix)) for prefix in prefixes)

    def matching_blocks(self, firsts: Sequence[bytes], limit: bytes | None) -> Iterator[tuple[int, Query]]:
        last, ranges = -1, list[Range]()
        for start, stop in self._ranges:
            first = max(0, bisect_right(firsts, start) - 1)
            behind = len(firsts) if stop is None else bisect_left(firsts, stop)
            for block in range(first, behind):
                end = end_of(firsts, block, limit)
                if end is not None and start >= end:
                    continue
                if block != last and ranges:
                    yield last, Ranges(ranges)
                    ranges = []
                last = block
                ranges.append((start, stop))
        if ranges:
            yield last, Ranges(ranges)

    def pick(self, cells: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        keys = cells.column(0)
        for start, stop in self._ranges:
            first = _count_before(keys, start)
            behind = cells.num_rows if stop is None else _count_before(keys, stop)
            if behind > first:
                yield cells.slice(first, behind - first)


def end_of(firsts: Sequence[bytes], block: int, limit: bytes | None) -> bytes | None:
    """The first key behind a block; see `Query.hits`."""
    return firsts[block + 1] if block + 1 < len(firsts) else limit


def _reaches(stop: bytes | None, start: bytes) -> bool:
    return stop is None or stop >= start


def _behind(prefix: bytes) -> bytes | None:
    """The least of the keys that are greater than all that begin so; None where there is none."""
    short = prefix.rstrip(b"\xff")
    return short[:-1] + bytes([short[-1] + 1]) if short else None


def _count_before(keys: Any, key: bytes) -> int:
    return bisect_left(range(len(keys)), key, key=lambda place: keys[place].as_py())


_ENTRY = struct.Struct(">qi")
_INT = struct.Struct(">i")
#: what HBase adds to a root above others: offset, size and entry of the middle key
_MIDDLE = 16


@dataclass(frozen=True)
class IndexEntry:
    """A block; the keys in it are not before `key`, which may be a shortened one."""

    offset: int
    stored: int
    key: bytes


def decode_root(content: bytes, count: int, levels: int) -> list[IndexEntry]:
    """Raises Damage, as all of these."""
    entries, at = _listed(content, count, row_of)
    if len(content) - at not in ((0,) if levels == 1 else (0, _MIDDLE)):
        raise Damage(f"an index has more than its {count} entries")
    return _sorted(entries)


def decode_meta(content: bytes, count: int) -> list[IndexEntry]:
    entries, at = _listed(content, count, bytes)
    if at != len(content):
        raise Damage(f"the index of meta blocks has more than its {count} entries")
    return entries


def decode_leaf(content: bytes, place: int) -> list[IndexEntry]:
    """A leaf or an intermediate index; `place` is its block's, for errors."""
    count = _INT.unpack_from(content)[0] if len(content) >= _INT.size else -1
    begin = _INT.size * (count + 2)
    if not 0 < count <= len(content) // _ENTRY.size or begin > len(content):
        raise Damage(f"the index at {place} has no {count} entries")
    bounds = [begin + bound for (bound,) in _INT.iter_unpack(content[_INT.size : begin])]
    if bounds[0] != begin or bounds[-1] != len(content):
        raise Damage(f"the index at {place} has other entries than it lists")
    entries = []
    for start, end in itertools.pairwise(bounds):
        if end - start < _ENTRY.size:
            raise Damage(f"the index at {place} has other entries than it lists")
        offset, stored = _ENTRY.unpack_from(content, start)
        entries.append(IndexEntry(offset, stored, row_of(content[start + _ENTRY.size : end])))
    return _sorted(entries)


def encode_root(entries: Iterable[IndexEntry]) -> bytes:
    return b"".join(_encoded(entry, full_key(entry.key)) for entry in entries)


def encode_meta(entries: Iterable[IndexEntry]) -> bytes:
    return b"".join(_encoded(entry, entry.key) for entry in entries)


def encode_leaf(entries: Sequence[IndexEntry]) -> bytes:
    parts = [_ENTRY.pack(entry.offset, entry.stored) + full_key(entry.key) for entry in entries]
    bounds = [0]
    for part in parts:
        bounds.append(bounds[-1] + len(part))
    return b"".join([struct.pack(f">{len(bounds) + 1}i", len(parts), *bounds), *parts])


def _encoded(entry: IndexEntry, key: bytes) -> bytes:
    return _ENTRY.pack(entry.offset, entry.stored) + _vint(len(key)) + key


def _listed(content: bytes, count: int, key_of: Callable[[bytes], bytes]) -> tuple[list[IndexEntry], int]:
    """(so many entries, where they end)"""
    if not 0 <= count <= len(content) // _ENTRY.size:
        raise Damage(f"an index of {len(content)} bytes has no {count} entries")
    entries, at = [], 0
    for _ in range(count):
        if at + _ENTRY.size > len(content):
            raise Damage("an index is cut")
        offset, stored = _ENTRY.unpack_from(content, at)
        length, at = _read_vint(content, at + _ENTRY.size)
        if not 0 <= length <= len(content) - at:
            raise Damage("a key of an index is cut")
        entries.append(IndexEntry(offset, stored, key_of(content[at : at + length])))
        at += length
    return entries, at


def _sorted(entries: list[IndexEntry]) -> list[IndexEntry]:
    for one, other in itertools.pairwise(entries):
        if other.key <= one.key or other.offset < one.offset + one.stored:
            raise Damage(f"an index is not sorted at {other.key!r}")
    return entries


def _vint(number: int) -> bytes:
    """As Hadoop writes a number that is not negative."""
    if number < 128:
        return bytes([number])
    size = -(-number.bit_length() // 8)
    return bytes([144 - size]) + number.to_bytes(size, "big")


def _read_vint(data: bytes, at: int) -> tuple[int, int]:
    """(a number, where it ends); -1 for a negative one"""
    if at >= len(data):
        raise Damage("a number is cut")
    first = data[at] - 256 if data[at] > 127 else data[at]
    if first >= -112:
        return first, at + 1
    if first < -120:
        return -1, at
    end = at + 1 - 112 - first
    if end > len(data):
        raise Damage("a number is cut")
    return int.from_bytes(data[at + 1 : end], "big"), end


#: bytes of the end of a file that are read on opening; mostly they are all that is needed then
_TAIL = 1 << 16
#: neighbouring blocks are read together, at most so many bytes
_TOGETHER = 8 << 20
#: (a data block, the first key behind it, what is wanted of it)
_Hit: TypeAlias = "tuple[IndexEntry, bytes | None, Query]"


class HFileReader:
    """One HFile. A context manager; not for threads.

    Opening reads the end of the file, once where that holds all indexes of the root. A look-up reads the
    blocks that can hold the keys, and the indexes above them, each once; blocks that follow one another
    together. Cells come as batches of `hfile_cells.CELLS`, sorted by key; equal keys in the order they were
    written. Memory: a few blocks, and the indexes that were read.

    Raises TableError for damaged bytes, FileNotFoundError when there is no such file.
    """

    def __init__(self, source: BinaryIO, name: str) -> None:
        """`name` is for errors; the reader closes the source."""
        self.name = name
        self._source = source
        self._children: dict[int, list[IndexEntry]] = {}
        self._index_bytes = 0
        try:
            with self._refusing():
                self._open()
        except BaseException:
            source.close()
            raise

    @classmethod
    def open(cls, storage: Storage, path: str) -> HFileReader:
        return cls(storage.open_input(path), path)

    @classmethod
    def of_bytes(cls, data: bytes | memoryview, name: str) -> HFileReader:
        """An HFile inside of something else, a log block for example."""
        return cls(io.BytesIO(data), name)

    def __enter__(self) -> HFileReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._source.close()

    @property
    def entries(self) -> int:
        """Cells in the file, as its trailer says; a scan to the end finds so many, or fails."""
        return self._trailer.cells

    @property
    def info(self) -> Mapping[bytes, bytes]:
        """File info: texts of the writer by name."""
        return self._info

    def scan(self, start: bytes = b"", stop: bytes | None = None) -> Iterator[pa.RecordBatch]:
        """The cells from the key `start` on, to before `stop`."""
        count = 0
        for batch in self._look_up(Ranges([(start, stop)])):
            count += batch.num_rows
            yield batch
        if not start and stop is None and count != self.entries:
            with self._refusing():
                raise Damage(f"{count} cells where the trailer says {self.entries}")

    def get(self, keys: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        """The cells with these keys."""
        return self._look_up(Keys(keys))

    def get_prefixes(self, prefixes: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        """The cells whose keys begin with one of these."""
        return self._look_up(Ranges.of_prefixes(prefixes))

    def meta(self, name: bytes) -> bytes | None:
        """A meta block, the bloom filter for example; None: there is none."""
        with self._refusing():
            for entry in self._meta:
                if entry.key == name:
                    data = self._bytes(entry.offset, entry.stored, self._trailer.load_on_open)
                    return self._decoded(data, entry.offset, Kind.META, MAX_READ_BYTES).content
        return None

    def _look_up(self, query: Query) -> Iterator[pa.RecordBatch]:
        with self._refusing():
            matching = self._matching_blocks(query, self._root, None, self._trailer.levels)
            for group in _neighbours(matching):
                yield from self._cells(group)

    def _matching_blocks(
        self, query: Query, entries: list[IndexEntry], limit: bytes | None, levels: int
    ) -> Iterator[_Hit]:
        firsts = [entry.key for entry in entries]
        for number, wanted in query.matching_blocks(firsts, limit):
            behind = end_of(firsts, number, limit)
            if levels == 1:
                yield entries[number], behind, wanted
            else:
                below = self._index(entries[number], behind, levels - 1)
                yield from self._matching_blocks(wanted, below, behind, levels - 1)

    def _index(self, entry: IndexEntry, behind: bytes | None, levels: int) -> list[IndexEntry]:
        """The entries of an index, which is a leaf where `levels` is 1."""
        found = self._children.get(entry.offset)
        if found is None:
            kind = Kind.LEAF_INDEX if levels == 1 else Kind.INTERMEDIATE_INDEX
            left = MAX_READ_BYTES - self._index_bytes
            data = self._bytes(entry.offset, entry.stored, self._trailer.load_on_open)
            content = self._decoded(data, entry.offset, kind, left).content
            self._index_bytes += len(content)
            found = decode_leaf(content, entry.offset)
            last = found[-1]
            outside = found[0].key < entry.key or (behind is not None and last.key >= behind)
            if outside or last.offset + last.stored > entry.offset:
                raise Damage(f"the index at {entry.offset} has other blocks than the one above it says")
            self._children[entry.offset] = found
        return found

    def _cells(self, group: list[_Hit]) -> Iterator[pa.RecordBatch]:
        first, last = group[0][0], group[-1][0]
        size = last.offset + last.stored - first.offset
        data = self._bytes(first.offset, size, self._trailer.load_on_open)
        for entry, behind, wanted in group:
            at = entry.offset - first.offset
            block = self._decoded(data[at : at + entry.stored], entry.offset, Kind.DATA, MAX_BLOCK_BYTES)
            cells = decode_cells(block.content, entry.offset)
            keys = cells.column(0)
            if keys[0].as_py() < entry.key or (behind is not None and keys[-1].as_py() >= behind):
                raise Damage(f"the block at {entry.offset} has other keys than its index says")
            yield from wanted.pick(cells)

    def _open(self) -> None:
        self._size = size = self._source.seek(0, io.SEEK_END)
        end = size - TRAILER_BYTES
        if end < 0:
            raise Damage(f"it has {size} bytes, fewer than a trailer")
        begin = max(0, size - _TAIL)
        tail = self._bytes(begin, size - begin, size)
        self._trailer = trailer = Trailer.parse(bytes(tail[end - begin :]))
        start = trailer.load_on_open
        if start > end:
            raise Damage("its index begins behind its end")
        if end - start > MAX_READ_BYTES:
            raise Damage(
                f"its indexes have {end - start:,} bytes, and HOODIE_MAX_READ_BYTES in the environment "
                f"allows {MAX_READ_BYTES:,}"
            )
        whole = self._bytes(start, begin - start, size) if start < begin else memoryview(b"")
        section = memoryview(bytes(whole) + bytes(tail[max(0, start - begin) : end - begin]))
        at, contents = 0, []
        for kind in (Kind.ROOT_INDEX, Kind.ROOT_INDEX, Kind.FILE_INFO):
            if kind is Kind.FILE_INFO and trailer.info != start + at:
                raise Damage(f"its file info is not at {trailer.info}, as its trailer says")
            block = self._decoded(section[at:], start + at, kind, MAX_READ_BYTES, exact=False)
            contents.append(block.content)
            at += block.stored
        self._root = decode_root(contents[0], trailer.data_entries, trailer.levels)
        self._meta = decode_meta(contents[1], trailer.meta_entries)
        self._info = decode_info(contents[2])

    def _decoded(self, data: memoryview, place: int, kind: Kind, most: int, exact: bool = True) -> Block:
        return decode_block(data, place, kind, self._trailer.compression, most, exact)

    def _bytes(self, offset: int, length: int, end: int) -> memoryview:
        """Bytes that lie before `end`."""
        if offset < 0 or length < 0 or offset + length > end:
            raise Damage(f"there is no block of {length} bytes at {offset} in its {self._size} bytes")
        self._source.seek(offset)
        data = self._source.read(length)
        if len(data) != length:
            raise Damage(f"it became shorter than {self._size} bytes")
        return memoryview(data)

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except Damage as error:
            raise TableError(
                f"{self.name} is no HFile that can be read: {error}; restore the file from a copy",
                path=self.name,
            ) from None


def _neighbours(hits: Iterable[_Hit]) -> Iterator[list[_Hit]]:
    """The hits in groups of blocks that follow one another in the file."""
    group: list[_Hit] = []
    size = end = 0
    for hit in hits:
        entry = hit[0]
        if entry.stored < HEADER.size:
            raise Damage(f"there is no block of {entry.stored} bytes at {entry.offset}")
        if group and (entry.offset != end or size + entry.stored > _TOGETHER):
            yield group
            group, size = [], 0
        group.append(hit)
        size += entry.stored
        end = entry.offset + entry.stored
    if group:
        yield group
