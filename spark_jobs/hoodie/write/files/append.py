"""Updates and deletes of one file slice, appended to its logs: data blocks, then delete blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import array, column, halved, whole
from hoodie.config.limits import MAX_BLOCK_BYTES
from hoodie.format.base_file import sequence_numbers
from hoodie.format.log_block import POSITIONS_BASE, RECORD_POSITIONS, BlockType
from hoodie.format.log_data import encode_data_block
from hoodie.format.log_delete import DeleteRecords, encode_delete_block
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.format.record_positions import encode_positions
from hoodie.read.key_join import Bools, Part
from hoodie.table.view import FileSlice
from hoodie.timeline.time import InstantTime
from hoodie.write.context import LEADING, STORED_ROW, WriteContext
from hoodie.write.files.cdc import LogFiles, PartialSchema
from hoodie.write.files.late_records import Verdict, stored_rows

#: Avro bytes of a row beside its columns: commit time, sequence number, partition path, file name, length
_META_BYTES = 128
#: encoding a block needs its rows, their columns as bytes and the block
_COPIES = 4


@dataclass
class Append:
    """One append of one task. `written`: rows of data blocks, counted from where the task's numbers go on."""

    context: WriteContext
    instant: InstantTime
    task: int
    slice: FileSlice
    logs: LogFiles
    first_number: int
    written: int = 0

    def run(self, parts: Sequence[Part], verdicts: Sequence[Verdict]) -> None:
        """Log what is not outdated. All deletes go behind all rows, as Apache Hudi has them."""
        for part, verdict in zip(parts, verdicts, strict=True):
            for mask, schema in self._updates(verdict):
                for piece in self._pieces(self.context.unflagged(filtered(part.rows, mask))):
                    self._log_rows(piece, schema)
        for part, verdict in zip(parts, verdicts, strict=True):
            for piece in self._pieces(filtered(part.rows, verdict.deletes)):
                self._log_deletes(piece)

    def delete(self, parts: Sequence[Part]) -> None:
        """Log deletes of the parts' keys that win whatever is stored: they have no ordering value."""
        for part in parts:
            keys = pa.table({RECORD_KEY: part.keys, STORED_ROW: stored_rows(part)})
            for piece in self._pieces(keys):
                self._log_keys(*self._positioned(piece), ())

    def _updates(self, verdict: Verdict) -> Iterator[tuple[Bools, PartialSchema | None]]:
        """The rows that are logged whole, and those of which the columns of a schema are."""
        assert self.context.logs is not None
        partial, updates = self.context.logs.partial, verdict.updates
        if partial is None:
            yield updates, None
            return
        yield updates & verdict.logged, None
        yield updates & ~verdict.logged, partial

    def _pieces(self, rows: pa.Table) -> Iterator[pa.Table]:
        assert self.context.logs is not None
        return block_pieces(rows, self.context.logs.block_size, self.context.merge_budget)

    def _positioned(self, rows: pa.Table) -> tuple[pa.Table, dict[int, str]]:
        """The rows of a block in the order of their positions in the base file, and the headers with these.

        Rows as they come, and no headers, where a position is unknown or occurs twice. Apache Hudi reads the
        i-th record as that of the i-th position, if the slice has this base file still, else by its key.
        """
        base, format_ = self.slice.base, self.context.logs
        assert format_ is not None
        named = format_.positions and self.context.snapshot.slicing.of_writes
        if base is None or base.skeleton or not named:
            return rows, {}
        positions = rows.column(STORED_ROW).to_numpy()
        if positions.min() < 0:
            return rows, {}
        if not (np.diff(positions) > 0).all():
            order = np.argsort(positions)
            positions = positions[order]
            if not np.diff(positions).all():
                return rows, {}
            rows = rows.take(array(order))
        return rows, {RECORD_POSITIONS: encode_positions(positions), POSITIONS_BASE: base.instant}

    def _log_rows(self, rows: pa.Table, partial: PartialSchema | None) -> None:
        """A data block. Log records have the file id for a file name (format.md 6.1). Statistics are those
        of the whole rows: Apache Hudi leaves out a slice none of whose files matches a predicate.
        """
        count, format_ = rows.num_rows, self.context.logs
        assert format_ is not None
        rows, headers = self._positioned(rows)
        columns: list[Any] = [
            pa.repeat(self.instant, count),
            sequence_numbers(self.instant, self.task, self.first_number + self.written, count),
            rows.column(RECORD_KEY),
            pa.repeat(self.slice.partition, count),
            pa.repeat(self.slice.file_id, count),
            *rows.columns[LEADING:],
        ]
        table = pa.Table.from_arrays(columns, schema=self.context.file_schema)
        schema, written = format_.avro_schema, table
        if partial is not None:
            schema, written = partial.avro_schema, table.select(partial.names)
            headers = {**partial.headers, **headers}
        content = encode_data_block(written, schema, format_.block, format_.codec)
        self.logs.append(format_.block, content, table, headers=headers)
        self.written += count

    def _log_deletes(self, rows: pa.Table) -> None:
        assert self.context.logs is not None
        rows, headers = self._positioned(rows)
        self._log_keys(rows, headers, [column(rows, path) for path in self.context.logs.ordering])

    def _log_keys(self, rows: pa.Table, headers: dict[int, str], ordering: Sequence[Any]) -> None:
        content = delete_content(self.slice.partition, rows, ordering)
        nothing = self.context.file_schema.empty_table()
        self.logs.append(BlockType.DELETE, content, nothing, deletes=rows.num_rows, headers=headers)


def block_pieces(rows: pa.Table, block_size: int, budget: int) -> Iterator[pa.Table]:
    """Rows of one block each; `budget`: bytes of memory that encoding may take."""
    if rows.num_rows == 0:
        return
    limit = min(block_size, budget // _COPIES, MAX_BLOCK_BYTES // 2)
    step = max(1, int(limit / (rows.nbytes / rows.num_rows + _META_BYTES)))
    for start in range(0, rows.num_rows, step):
        yield from halved(rows.slice(start, step), limit + limit // 2, _META_BYTES)


def delete_content(partition: str, rows: pa.Table, ordering: Sequence[Any]) -> bytes:
    """The content of a delete block of these rows' keys with their values of the ordering fields; without any
    the deletes win whatever is stored.
    """
    keys: Any = whole(rows.column(RECORD_KEY))
    values: Any = [_as_number(column) for column in ordering]
    one = values[0] if len(values) == 1 else None
    if len(values) > 1:
        one = pa.StructArray.from_arrays(
            [*map(whole, values)], [str(number) for number in range(len(values))]
        )
    partitions: Any = pa.repeat(partition, len(keys))
    return encode_delete_block(DeleteRecords(keys, partitions, one))


def _as_number(values: Any) -> Any:
    """Dates as the numbers that records hold: Apache Hudi 1.2.0 fails to compare a DateWrapper with one."""
    return values.cast(pa.int32()) if pa.types.is_date(values.type) else values


def filtered(rows: pa.Table, mask: Bools) -> pa.Table:
    return rows if mask.all() else rows.filter(pa.array(mask))
