"""Writes HFiles (see `hfile`), block by block, as HBase does: Apache Hudi reads them with HBase's reader
(0.15.0) and with its own (1.x).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Ints, pc, whole
from hoodie.errors import InputError
from hoodie.format.hfile import IndexEntry, encode_leaf, encode_meta, encode_root
from hoodie.format.hfile_block import (
    CELL_VERSION,
    GREATEST_VERSION,
    HEADER,
    LEVEL,
    TRAILER_BYTES,
    Checksum,
    Compression,
    Kind,
    Trailer,
    encode_block,
    encode_info,
)
from hoodie.format.hfile_cells import (
    CELL_OVERHEAD,
    CELLS,
    KEY_END,
    MAX_KEY,
    ascending,
    encode_cells,
    full_key,
)

#: uncompressed bytes of a data block, as Apache Hudi has it
BLOCK_BYTES = 1 << 20
#: cells are gathered to so many blocks before these are cut
_GATHERED = 8


class Sink(Protocol):
    def write(self, data: Any, /) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class HFileOptions:
    """`index_bytes`: an index of more bytes is cut into leaf indexes, which HBase's reader and that of Apache
    Hudi 1.x know; None: never. `created_ms`: time in the file, which no reader uses. `level` is gzip's.
    """

    compression: Compression = Compression.GZIP
    checksum: Checksum = Checksum.CRC32C
    block_bytes: int = BLOCK_BYTES
    index_bytes: int | None = None
    created_ms: int = 0
    level: int = LEVEL


@dataclass
class _Sums:
    """What the trailer and the file info say of all cells."""

    cells: int = 0
    keys: int = 0
    values: int = 0
    last: bytes = b""
    index_bytes: int = 0
    all_bytes: int = TRAILER_BYTES
    first_data: int = -1
    last_data: int = 0


@dataclass
class _Level:
    """Entries of the index that is being gathered."""

    entries: list[IndexEntry] = field(default_factory=list)
    size: int = 0

    def add(self, entry: IndexEntry) -> None:
        self.entries.append(entry)
        self.size += 16 + 2 + len(entry.key) + len(KEY_END)


class HFileWriter:
    """Writes one HFile to a sink, which the caller makes and commits. Not for threads.

    Memory: the cells of a few blocks, and the index.
    """

    def __init__(self, sink: Sink, options: HFileOptions = HFileOptions()) -> None:
        self._sink = sink
        self._options = options
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._sums = _Sums()
        self._place = 0
        self._previous: dict[Kind, int] = {}
        self._metas: list[IndexEntry] = []
        self._leaf = _Level()
        self._leaves: list[IndexEntry] = []

    def append(self, keys: Any, values: Any) -> None:
        """Adds cells: two arrays, binary or string, without nulls. Keys come sorted as unsigned bytes, also
        across calls; equal keys keep their order. ValueError where they are not, InputError for a key that is
        too long.
        """
        columns = [whole(column).cast(pa.binary()) for column in (keys, values)]
        cells = pa.record_batch(columns, schema=CELLS)
        if not cells.num_rows:
            return
        keys = cells.column(0)
        if keys.null_count or cells.column(1).null_count:
            raise ValueError("cells have no nulls")
        if not ascending(keys) or keys[0].as_py() < self._sums.last:
            raise ValueError("the keys of an HFile are written in their order")
        longest = pc.max(pc.binary_length(keys)).as_py()
        if longest > MAX_KEY:
            raise InputError(
                f"a key has {longest:,} bytes, and one of an HFile, such as an index is made of, at most "
                f"{MAX_KEY:,}; make the record key shorter",
                size=longest,
            )
        self._sums.last = keys[-1].as_py()
        self._pending.append(cells)
        self._pending_bytes += cells.nbytes
        if self._pending_bytes > _GATHERED * self._options.block_bytes:
            self._write_cells(finished=False)

    def append_meta(self, name: bytes, content: bytes) -> None:
        """Adds a meta block; no cells can follow."""
        self._write_cells(finished=True)
        place, stored = self._write(Kind.META, content)
        self._metas.append(IndexEntry(place, stored, name))

    def finish(self, info: Mapping[bytes, bytes]) -> int:
        """Writes the indexes, the file info with these entries, and the trailer; returns the file's size."""
        self._write_cells(finished=True)
        sums, metas = self._sums, sorted(self._metas, key=lambda entry: entry.key)
        root, levels = self._top()
        content = encode_root(root)
        load_on_open = self._write_index(Kind.ROOT_INDEX, content)[0]
        self._write(Kind.ROOT_INDEX, encode_meta(metas))
        place, _ = self._write(Kind.FILE_INFO, encode_info({**self._about(), **info}))
        trailer = Trailer(
            info=place,
            load_on_open=load_on_open,
            index_bytes=sums.index_bytes,
            all_bytes=sums.all_bytes,
            data_entries=len(root),
            meta_entries=len(metas),
            cells=sums.cells,
            levels=levels,
            first_data=sums.first_data,
            last_data=sums.last_data,
            compression=self._options.compression,
        )
        self._sink.write(trailer.to_bytes())
        return self._place + TRAILER_BYTES

    def _about(self) -> dict[bytes, bytes]:
        sums, each = self._sums, max(1, self._sums.cells)
        return {
            CELL_VERSION: (1).to_bytes(4, "big"),
            GREATEST_VERSION: bytes(8),
            b"hfile.AVG_KEY_LEN": (sums.keys // each).to_bytes(4, "big"),
            b"hfile.AVG_VALUE_LEN": (sums.values // each).to_bytes(4, "big"),
            b"hfile.CREATE_TIME_TS": self._options.created_ms.to_bytes(8, "big"),
            **({b"hfile.LASTKEY": full_key(sums.last)} if sums.cells else {}),
        }

    def _write_cells(self, finished: bool) -> None:
        """Writes the pending cells; unless `finished`, those of the last block stay."""
        if not self._pending:
            return
        pending = pa.Table.from_batches(self._pending)
        cells = pa.record_batch([whole(column) for column in pending.columns], schema=CELLS)
        keys, values = cells.column(0), cells.column(1)
        lengths = [np.asarray(pc.binary_length(column)).astype(np.int64) for column in (keys, values)]
        cuts = _cuts(keys, lengths[0] + lengths[1] + CELL_OVERHEAD, self._options.block_bytes)
        if not finished:
            cuts.pop()
        for start, stop in zip([0, *cuts], cuts, strict=False):
            joined: Any = encode_cells(keys[start:stop], values[start:stop])
            bounds = joined.buffers()[1:]
            ends = np.frombuffer(bounds[0], np.int32)[joined.offset : joined.offset + stop - start + 1]
            content = bounds[1].slice(int(ends[0]), int(ends[-1] - ends[0])).to_pybytes()
            self._write_data(content, keys[start].as_py())
            self._sums.cells += stop - start
            self._sums.keys += int(lengths[0][start:stop].sum()) + (stop - start) * (2 + len(KEY_END))
            self._sums.values += int(lengths[1][start:stop].sum())
        done = cuts[-1] if cuts else 0
        rest = cells.slice(done)
        self._pending = [rest] if rest.num_rows else []
        self._pending_bytes = rest.nbytes if rest.num_rows else 0

    def _write_data(self, content: bytes, first: bytes) -> None:
        if self._options.index_bytes is not None and self._leaf.size > self._options.index_bytes:
            self._end_leaf()
        place, stored = self._write(Kind.DATA, content)
        if self._sums.first_data < 0:
            self._sums.first_data = place
        self._sums.last_data = place
        self._leaf.add(IndexEntry(place, stored, first))

    def _end_leaf(self) -> None:
        entries, self._leaf = self._leaf.entries, _Level()
        place, stored = self._write_index(Kind.LEAF_INDEX, encode_leaf(entries))
        self._leaves.append(IndexEntry(place, stored, entries[0].key))

    def _top(self) -> tuple[list[IndexEntry], int]:
        """(entries of the root, levels)"""
        if not self._leaves:
            return self._leaf.entries, 1
        most = self._options.index_bytes or 0
        self._end_leaf()
        entries, levels = self._leaves, 2
        while True:
            groups: list[_Level] = [_Level()]
            for entry in entries:
                if groups[-1].size > most and len(groups[-1].entries) > 1:
                    groups.append(_Level())
                groups[-1].add(entry)
            if len(groups) == 1:
                return entries, levels
            above = []
            for group in groups:
                place, stored = self._write_index(Kind.INTERMEDIATE_INDEX, encode_leaf(group.entries))
                above.append(IndexEntry(place, stored, group.entries[0].key))
            entries, levels = above, levels + 1

    def _write_index(self, kind: Kind, content: bytes) -> tuple[int, int]:
        """As `_write`; HBase counts an index apart."""
        self._sums.index_bytes += len(content)
        self._sums.all_bytes -= HEADER.size + len(content)
        return self._write(kind, content)

    def _write(self, kind: Kind, content: bytes) -> tuple[int, int]:
        """(place, bytes in the file) of the block."""
        previous = self._previous.get(kind, -1)
        options = self._options
        data = encode_block(kind, content, previous, options.compression, options.checksum, options.level)
        place = self._previous[kind] = self._place
        self._sink.write(data)
        self._place += len(data)
        self._sums.all_bytes += HEADER.size + len(content)
        return place, len(data)


def _cuts(keys: Any, sizes: Ints, most: int) -> list[int]:
    """Where blocks end: before the cell that would make more than `most` bytes of it, but never between equal
    keys. One step a block.
    """
    ends = np.cumsum(sizes)
    new = np.flatnonzero(np.asarray(pc.not_equal(keys[1:], keys[:-1]))) + 1
    bounds = np.append(new, len(sizes))
    cuts, start = list[int](), 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        start = int(bounds[np.searchsorted(bounds, stop)])
        cuts.append(start)
    return cuts
