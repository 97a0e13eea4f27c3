"""HFiles, version 3, as Apache Hudi and HBase write them: sorted keys with values, in blocks (format.md 9).

    data blocks, among them leaf indexes | meta blocks | intermediate indexes
    | what is read on opening: root index, index of meta blocks, file info | trailer

What is in them is in `hfile_block`, `hfile_cells`, `hfile_index` and `hfile_trailer`; `hfile_writer` writes
them. Not read: other codecs than gzip and none, encoded or encrypted blocks, tags, HBase's own bloom filters.

The bytes are not trusted: sizes are checked before anything is read or decompressed, blocks have the keys
that their index says, and what does not fit is a TableError that names the file and the block.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import BinaryIO, TypeAlias

import pyarrow as pa

from hoodie.config.limits import MAX_BLOCK_BYTES, MAX_READ_BYTES
from hoodie.errors import TableError
from hoodie.format.hfile_block import HEADER, Block, Damage, Kind, decode_block
from hoodie.format.hfile_cells import decode_cells
from hoodie.format.hfile_index import IndexEntry, decode_leaf, decode_meta, decode_root
from hoodie.format.hfile_query import Keys, Query, Ranges, end_of
from hoodie.format.hfile_trailer import TRAILER_BYTES, Trailer, decode_info
from hoodie.storage import Storage

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
            hits = self._hits(query, self._root, None, self._trailer.levels)
            for group in _neighbours(hits):
                yield from self._cells(group)

    def _hits(
        self, query: Query, entries: list[IndexEntry], limit: bytes | None, levels: int
    ) -> Iterator[_Hit]:
        firsts = [entry.key for entry in entries]
        for number, wanted in query.hits(firsts, limit):
            behind = end_of(firsts, number, limit)
            if levels == 1:
                yield entries[number], behind, wanted
            else:
                below = self._index(entries[number], behind, levels - 1)
                yield from self._hits(wanted, below, behind, levels - 1)

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
