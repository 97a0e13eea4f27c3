"""The rows of a table that have the values of other rows, as where a table is joined to them by its keys.

A task reads of a base file without logs the columns of these values first, and then the row groups that have
such rows. Statistics and indexes rule files out as for a predicate. Of more than a few values they are asked
for the range only, that of each partition where the values are of few partitions.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from hoodie.codec.arrays import array
from hoodie.engine.packing import together
from hoodie.read.binding import Predicate
from hoodie.read.file_slice import read_slice
from hoodie.read.log_merge import SliceContext
from hoodie.read.partition_values import PathColumns
from hoodie.read.predicate import FALSE, And, Comparison, Constant, Field, In, Literal, LiteralKind, Node, Or
from hoodie.read.pruning import row_groups
from hoodie.storage import Storage
from hoodie.table.view import FileSlice

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute

#: values of a column that statistics and indexes are asked for one by one
_FEW = 10_000
#: values of the column with the fewest for which rows are kept apart, and statistics asked apart
_APART, _ASKED_APART = 1_000, 50
#: rows that are compared at once: each call of the kernel hashes the values
_COMPARED_BYTES = 64 << 20


def takes(kind: pa.DataType) -> bool:
    """Types of which equal values are equal for Spark, too, and of which bounds are known."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_signed_integer(kind) or types.is_date32(kind))


@dataclass(frozen=True)
class Among:
    """Rows of values by the column, without nulls, in the column's type, which `takes` takes. A row of the
    table is wanted if it has the values of one of them. Picklable.

    `apart`: the values of the column `by`, each once; the rows with number n of them begin at `starts[n]`.
    One value, and no column, where no column has few values.
    """

    values: Mapping[str, pa.Array[Any]]
    by: str | None
    apart: pa.Array[Any]
    starts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: pa.Table) -> Among:
        """Of rows without nulls, some of which may be there twice."""
        values = {name: _joined(rows.column(name)) for name in rows.column_names}
        sizes = {name: pc.count_distinct(column).as_py() for name, column in values.items()}
        by = min(sizes, key=lambda name: sizes[name])
        if len(values) == 1 or sizes[by] > _APART:
            return cls(values, None, pa.nulls(1), np.array([0, rows.num_rows]))
        codes: Any = values[by].dictionary_encode()
        numbers = codes.indices.to_numpy()
        order = array(np.argsort(numbers, kind="stable"))
        starts = np.cumsum([0, *np.bincount(numbers, minlength=len(codes.dictionary))])
        ordered = {name: column.take(order) for name, column in values.items()}
        return cls(ordered, by, codes.dictionary, starts)

    def bound(self, schema: pa.Schema) -> Node:
        every = self._condition(schema, 0, len(self.apart))
        if self.by is None or not 1 < len(self.apart) <= _ASKED_APART:
            return every
        return And((every, Or(tuple(self._condition(schema, at, at + 1) for at in range(len(self.apart))))))

    def _condition(self, schema: pa.Schema, first: int, end: int) -> Node:
        """Of the rows with some of the values of `by`."""
        start, stop = int(self.starts[first]), int(self.starts[end])
        parts = {name: column.slice(start, stop - start) for name, column in self.values.items()}
        if self.by is not None:
            parts[self.by] = self.apart.slice(first, end - first)
        return And(tuple(_condition(schema.field(name), values) for name, values in parts.items()))

    def columns(self, schema: pa.Schema) -> list[str]:
        return [name for name in schema.names if name in self.values]

    def mask(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """Which rows may be wanted. Others have values of several rows with the same value of `by`."""
        sets: Mapping[str, Any] = self.values
        if self.by is not None:
            there = pc.index_in(pc.unique(rows.column(self.by)), value_set=self.apart).drop_null().to_numpy()
            sets = {
                name: pa.chunked_array(
                    [column.slice(self.starts[at], self.starts[at + 1] - self.starts[at]) for at in there],
                    column.type,
                )
                for name, column in self.values.items()
            }
            sets = {**sets, self.by: self.apart}
        every = [pc.is_in(rows.column(name), value_set=values) for name, values in sets.items()]
        found: npt.NDArray[np.bool_] = functools.reduce(pc.and_, every).to_numpy()
        return found


def _joined(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _condition(field: pa.Field[Any], values: pa.Array[Any]) -> Node:
    if not len(values):
        return Constant(FALSE)
    kind, column = LiteralKind.NUMBER, Field((field.name,), field.type)
    if pa.types.is_string(field.type):
        kind = LiteralKind.TEXT
    elif pa.types.is_date32(field.type):
        kind, values = LiteralKind.DATE, values.cast(pa.int32())
    if len(values) <= _FEW:
        members = frozenset(values.to_pylist())
        return In(column, (), sorted=tuple(sorted(members)), members=members)
    ends = pc.min_max(values).as_py()
    low, high = Literal(kind, ends["min"]), Literal(kind, ends["max"])
    return And((Comparison(">=", column, low), Comparison("<=", column, high)))


@dataclass(frozen=True)
class Every:
    """A predicate that is true where all of these are."""

    predicates: tuple[Predicate, ...]

    def bound(self, schema: pa.Schema) -> Node:
        return And(tuple(each.bound(schema) for each in self.predicates))

    def columns(self, schema: pa.Schema) -> list[str]:
        wanted = {name for each in self.predicates for name in each.columns(schema)}
        return [name for name in schema.names if name in wanted]


@dataclass(frozen=True)
class SliceRows:
    """Reads slices of a table. Picklable."""

    context: SliceContext
    path_columns: PathColumns

    def tables(
        self, storage: Storage, item: FileSlice, names: Sequence[str], among: Among | None
    ) -> Iterator[pa.Table]:
        """The rows of a slice in these columns; those that are wanted. Raises TableError."""
        if among is None:
            yield from self._read(storage, item, names)
            return
        columns = self.context.schema.names
        read = [name for name in columns if name in names or name in among.values]
        look = _Look(self, storage, item, among)
        for rows in _filtered(self._read(storage, item, read, look), look, among):
            yield rows.select(list(names))

    def _read(
        self, storage: Storage, item: FileSlice, names: Sequence[str], groups: Any = None
    ) -> Iterator[pa.Table]:
        schema = pa.schema([self.context.schema.field(name) for name in names])
        stored = self.path_columns.stored(item.partition, names)
        for rows in read_slice(storage, item, self.context, stored, groups, ordered=False):
            yield self.path_columns.put(rows, item.partition, schema)


class _Look:
    """Chooses the row groups of a base file by a look at their values. `mask` then says which of the rows
    that follow are wanted; None where the slice has logs, or is otherwise put together.
    """

    def __init__(self, rows: SliceRows, storage: Storage, item: FileSlice, among: Among) -> None:
        self._rows, self._storage, self._item, self._among = rows, storage, item, among
        self.mask: npt.NDArray[np.bool_] | None = None

    def __call__(self, footer: pq.FileMetaData) -> list[int]:
        context, among = self._rows.context, self._among
        possible = list(range(footer.num_row_groups))
        if context.evolution is None:
            node = among.bound(context.schema)
            possible = row_groups(node, self._rows.path_columns, self._item, footer)
        alone, names = replace(self._item, logs=()), among.columns(context.schema)
        found = self._rows._read(self._storage, alone, names, lambda _: possible)
        masks = [
            among.mask(pa.concat_tables(group))
            for group in together(found, lambda rows: rows.nbytes, _COMPARED_BYTES)
        ]
        every = np.concatenate([np.zeros(0, dtype=np.bool_), *masks])
        ends = np.cumsum([footer.row_group(number).num_rows for number in possible])
        parts = dict(zip(possible, np.split(every, ends[:-1]), strict=True)) if possible else {}
        hits = {number: part for number, part in parts.items() if part.any()}
        self.mask = np.concatenate([np.zeros(0, dtype=np.bool_), *hits.values()])
        return list(hits)


def _filtered(found: Iterator[pa.Table], look: _Look, among: Among) -> Iterator[pa.Table]:
    start = 0

    def size(rows: pa.Table) -> int:
        return rows.nbytes if look.mask is None else _COMPARED_BYTES

    for group in together(found, size, _COMPARED_BYTES):
        rows = pa.concat_tables(group)
        mask = among.mask(rows) if look.mask is None else look.mask[start : start + rows.num_rows]
        start += rows.num_rows
        if mask.any():
            yield rows.filter(pa.array(mask))
