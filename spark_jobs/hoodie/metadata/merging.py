"""The records of a file slice of a metadata table as a compaction writes them: base file and logs merged.

Of files, what records of a key say is added up, and a name that was deleted goes (see `files`). Of the other
partitions the last record of a key counts; a delete block takes the records before it.

The base file is streamed; memory: the records of the slice's logs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Ints, pc, whole
from hoodie.codec.arrow_avro import decode_values
from hoodie.errors import TableError
from hoodie.format.hfile import HFileReader
from hoodie.format.hfile_cells import CELLS
from hoodie.format.hfile_records import KEY_FIELD, cells_of, decode_rows, field_names, schema_of
from hoodie.metadata.partitions.bloom_filters import FILTER
from hoodie.metadata.partitions.column_stats import STATS, TIGHT
from hoodie.metadata.partitions.files import ALL, FILES, TYPE_OF_FILES, TYPE_OF_LIST, live_names
from hoodie.metadata.partitions.record_index import RECORD
from hoodie.metadata.partitions.secondary_index import SECONDARY
from hoodie.metadata.record_schema import check_columns, is_current, whole_records
from hoodie.metadata.table import EXPRESSION_INDEX, SECONDARY_INDEX, Partition

_TYPE = "type"
_ENTRY = pa.struct([pa.field("size", pa.int64(), False), pa.field("isDeleted", pa.bool_(), False)])
_CHANGES = pa.schema([CELLS.field(0), pa.field("value", pa.binary())])
#: the column of HoodieMetadataRecord that a partition uses
FIELDS = {
    Partition.FILES: FILES,
    Partition.COLUMN_STATS: STATS,
    Partition.BLOOM_FILTERS: FILTER,
    Partition.RECORD_INDEX: RECORD,
    Partition.PARTITION_STATS: STATS,
}


def fields_of(partition: str) -> tuple[str, ...]:
    """The columns of HoodieMetadataRecord that a partition uses; none for one that is not written here."""
    if partition.startswith(EXPRESSION_INDEX):
        return STATS, FILTER
    if partition.startswith(SECONDARY_INDEX):
        return (SECONDARY,)
    found = FIELDS.get(Partition(partition))
    return () if found is None else (found,)


class Changes(ABC):
    """What logs change, by key. `keys` are sorted, each once."""

    keys: Any

    def key(self, place: int) -> bytes:
        found: bytes = self.keys[place].as_py()
        return found

    @abstractmethod
    def merged(self, start: int, stop: int, old: pa.RecordBatch) -> pa.RecordBatch:
        """The cells of some of the keys; `old` are those that the base file has of them."""


class LastRecords(Changes):
    """The last record of each key; one that was deleted has no value."""

    def __init__(self, cells: Sequence[pa.RecordBatch | Any]) -> None:
        """Batches of CELLS, and arrays of keys that were deleted, oldest first."""
        table = pa.Table.from_batches([_change(item) for item in cells], _CHANGES)
        keys: Any = whole(table.column(0))
        order = np.asarray(pc.sort_indices(keys))
        keys = keys.take(pa.array(order))
        last = np.append(_starts(keys)[1:], len(keys)) - 1 if len(keys) else np.empty(0, np.int64)
        self.keys = keys.take(pa.array(last))
        self._values: Any = whole(table.column(1)).take(pa.array(order[last]))

    def merged(self, start: int, stop: int, old: pa.RecordBatch) -> pa.RecordBatch:
        keys, values = self.keys[start:stop], self._values[start:stop]
        there = values.is_valid()
        return pa.record_batch([keys.filter(there), values.filter(there)], schema=CELLS)


class Statistics(LastRecords):
    """As `LastRecords`. Apache Hudi adds up what several records say of a column in one file, unless it was
    deleted between them; they are of storages that append to files, which are not written here, so that such
    records are a TableError.
    """

    def __init__(self, cells: Sequence[pa.RecordBatch | Any], schema: str) -> None:
        """`schema`: of the records in the cells."""
        super().__init__(cells)
        self._schema = schema
        records = [item for item in cells if isinstance(item, pa.RecordBatch)]
        table = pa.Table.from_batches(records, CELLS)
        keys: Any = whole(table.column(0))
        counts: Any = pc.value_counts(keys)
        several = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        again = table.filter(pc.is_in(keys, value_set=several))
        #: keys whose first record deletes what was there, of those with several
        self._begun_anew: list[bytes] = []
        live: dict[bytes, bool] = {}
        found: Any = whole(again.column(0))
        for key, there in zip(
            found.to_pylist(), self._are_live(whole(again.column(1))).to_pylist(), strict=True
        ):
            if key not in live and not there:
                self._begun_anew.append(key)
            if live.get(key) and there:
                raise _several()
            live[key] = there

    def merged(self, start: int, stop: int, old: pa.RecordBatch) -> pa.RecordBatch:
        new = super().merged(start, stop, old)
        both = pc.is_in(old.column(0), value_set=new.column(0).filter(self._are_live(new.column(1))))
        anew: Any = pa.array(self._begun_anew, pa.binary())
        added = pc.and_(both, pc.invert(pc.is_in(old.column(0), value_set=anew)))
        if pc.any(self._are_live(old.column(1).filter(added))).as_py():
            raise _several()
        return new

    def _are_live(self, values: Any) -> Any:
        """Which of some statistics were not deleted."""
        records: Any = whole(decode_values(values, self._schema, [STATS]).column(STATS))
        return pc.invert(records.field("isDeleted"))


def check_tight(cells: Iterable[pa.RecordBatch | Any], schema: str) -> None:
    """Raises TableError for statistics of a partition in logs that Apache Hudi adds to earlier ones. It
    writes such where there are no statistics of columns. `schema`: of the records in the cells.
    """
    for item in cells:
        if isinstance(item, pa.RecordBatch):
            records: Any = whole(decode_values(item.column(1), schema, [STATS]).column(STATS))
            if not pc.all(pc.or_(records.field(TIGHT), records.field("isDeleted"))).as_py():
                raise TableError(
                    "the metadata table has statistics of a partition that widen earlier ones; remove its "
                    "partition partition_stats (hoodie index drop --indexes partition_stats)"
                )


def _several() -> TableError:
    return TableError(
        "the metadata table has several statistics of one column in one file, as Apache Hudi writes "
        "them on HDFS; remove its partition column_stats with Apache Hudi, or the metadata table"
    )


class FileNames(Changes):
    """Names of files, and of partitions."""

    def __init__(self, rows: Sequence[pa.Table], schema: str) -> None:
        """Tables with KEY_FIELD and FILES, oldest first; `schema` is that of cells."""
        self._schema = schema
        found = pa.concat_tables(rows)
        order = pc.sort_indices(whole(found.column(KEY_FIELD)).cast(pa.binary()))
        self._rows = found.take(order)
        keys: Any = whole(self._rows.column(KEY_FIELD)).cast(pa.binary())
        self._starts = _starts(keys)
        self.keys = keys.take(pa.array(self._starts))

    def merged(self, start: int, stop: int, old: pa.RecordBatch) -> pa.RecordBatch:
        if start == stop:
            return old
        end = int(self._starts[stop]) if stop < len(self.keys) else self._rows.num_rows
        new = self._rows.take(np.arange(int(self._starts[start]), end))
        columns = [KEY_FIELD, FILES]
        before = decode_rows([old], self._schema, columns)
        keys: Any = self.keys[start:stop].cast(pa.string())
        return _cells_of_files(keys, pa.concat_tables([before, new.select(columns)]), self._schema)


def merge(
    base: HFileReader | None, changes: Changes, partition: Partition, schema: str
) -> Iterator[pa.RecordBatch]:
    """The cells of a new base file, in the order of their keys, whose values have the `schema`."""
    at, count = 0, len(changes.keys)
    for cells in _base_cells(base, partition, schema):
        keys: Any = cells.column(0)
        end = bisect_right(range(count), keys[-1].as_py(), lo=at, key=changes.key)
        touched = pc.is_in(keys, value_set=changes.keys[at:end])
        new = changes.merged(at, end, cells.filter(touched))
        yield _sorted(cells.filter(pc.invert(touched)), new)
        at = end
    if at < count:
        yield changes.merged(at, count, _no_cells())


def _base_cells(base: HFileReader | None, partition: Partition, schema: str) -> Iterator[pa.RecordBatch]:
    if base is None:
        return
    text = schema_of(base)
    for cells in base.scan():
        yield cells if is_current(text, schema) else recoded(cells, text, partition, schema)


def recoded(cells: pa.RecordBatch, schema_text: str, partition: Partition, schema: str) -> pa.RecordBatch:
    """Cells of another release's schema with values of `schema`."""
    there = frozenset(field_names(schema_text))
    names = [name for name in (KEY_FIELD, _TYPE, *fields_of(partition)) if name in there]
    rows = decode_rows([cells], schema_text, names)
    check_columns(rows, names)
    return cells_of(whole_records(rows, schema), schema)


def _cells_of_files(keys: Any, rows: pa.Table, schema: str) -> pa.RecordBatch:
    """A record for each of the keys, with the names that the rows, in their order, leave."""
    found = live_names(rows)
    owners = np.asarray(pc.index_in(found[0], value_set=keys)).astype(np.int64)
    order = np.argsort(owners, kind="stable")
    counts = np.bincount(owners, minlength=len(keys))
    offsets: Any = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    names, sizes = (column.take(order) for column in found[1:])
    live: Any = pa.array(np.zeros(len(order), np.bool_))
    entries = pa.StructArray.from_arrays([sizes, live], fields=list(_ENTRY))
    types = np.where(np.asarray(pc.equal(keys, ALL)), TYPE_OF_LIST, TYPE_OF_FILES)
    columns: dict[str, Any] = {
        KEY_FIELD: keys,
        _TYPE: pa.array(types, pa.int32()),
        FILES: pa.MapArray.from_arrays(offsets, names, entries),
    }
    return cells_of(whole_records(pa.table(columns), schema), schema)


def _change(item: pa.RecordBatch | Any) -> pa.RecordBatch:
    if isinstance(item, pa.RecordBatch):
        return pa.record_batch(item.columns, schema=_CHANGES)
    nothing: Any = pa.nulls(len(item), pa.binary())
    return pa.record_batch([item.cast(pa.binary()), nothing], schema=_CHANGES)


def _sorted(*parts: pa.RecordBatch) -> pa.RecordBatch:
    cells = pa.Table.from_batches([part for part in parts if part.num_rows], CELLS)
    order = pc.sort_indices(cells.column(0))
    columns = [whole(column) for column in cells.take(order).columns]
    return pa.record_batch(columns, schema=CELLS)


def _no_cells() -> pa.RecordBatch:
    nothing: Any = pa.array([], pa.binary())
    return pa.record_batch([nothing, nothing], schema=CELLS)


def _starts(keys: Any) -> Ints:
    """Where each of sorted keys begins."""
    if not len(keys):
        return np.empty(0, np.int64)
    new: Ints = np.flatnonzero(np.asarray(pc.not_equal(keys[1:], keys[:-1]))) + 1
    return np.append(0, new)
