"""Filters that an engine hands to a scan, as Arrow's expressions."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs

from hoodie.engine.parquet_open import parquet_format
from hoodie.read.bounds import Bounds, Lookup
from hoodie.read.predicate import Field, Node, Opaque

#: the stubs give it no arguments
_in_memory: Any = ds.InMemoryDataset
_FORMAT = parquet_format()
_NOWHERE = pyarrow.fs.LocalFileSystem()


@dataclass(frozen=True)
class ArrowFilter:
    """An expression on the columns of a table."""

    expression: Any

    def columns(self, schema: pa.Schema) -> list[str]:
        """The columns that it looks at: without one of them it is no expression on the others."""
        return self._among(schema, schema.names)

    def bound(self, schema: pa.Schema) -> Node:
        names = self.columns(schema)
        fields = tuple(Field((name,), schema.field(name).type) for name in names)
        return Opaque(fields, functools.partial(self._may_hold, schema, fields))

    def _among(self, schema: pa.Schema, names: Sequence[str]) -> list[str]:
        """Those of these names that it looks at, which are few: names that it holds without are left out
        together.
        """
        if not names or self._holds_without(schema, frozenset(names)):
            return []
        if len(names) == 1:
            return list(names)
        middle = len(names) // 2
        return [*self._among(schema, names[:middle]), *self._among(schema, names[middle:])]

    def _holds_without(self, schema: pa.Schema, names: frozenset[str]) -> bool:
        rest = pa.schema([field for field in schema if field.name not in names])
        try:
            _in_memory(rest.empty_table()).scanner(filter=self.expression)
        except (pa.ArrowException, LookupError):
            return False
        return True

    def _may_hold(self, schema: pa.Schema, fields: tuple[Field, ...], lookup: Lookup) -> bool:
        """Arrow says whether the bounds exclude it, as it does for statistics of Parquet. Opens no file."""
        known = [_known(field, lookup(field.path)) for field in fields]
        facts = [fact for fact in known if fact is not None]
        if not facts:
            return True
        fact = functools.reduce(lambda one, other: one & other, facts)
        fragment = _FORMAT.make_fragment("-", _NOWHERE, partition_expression=fact)
        rows = ds.FileSystemDataset([fragment], schema, _FORMAT, _NOWHERE)
        return any(True for _ in rows.get_fragments(filter=self.expression))


def _known(field: Field, bounds: Bounds) -> Any:
    """Bounds as an expression that is true of all rows; None for none."""
    column: Any = ds.field(field.path[0])
    if not bounds.values:
        return column.is_null()
    if bounds.nan:
        return None
    low, high = _scalar(bounds.low, field.type), _scalar(bounds.high, field.type)
    if bounds.exact and low is not None and not bounds.nulls:
        return column == low
    facts = ([] if low is None else [column >= low]) + ([] if high is None else [column <= high])
    if not facts:
        return None
    fact = functools.reduce(lambda one, other: one & other, facts)
    return fact | column.is_null() if bounds.nulls else fact


def _scalar(value: Any, kind: pa.DataType) -> Any:
    """A bound in the column's type; None where it has none."""
    if value is None:
        return None
    types = pa.types
    try:
        if types.is_date32(kind):
            return pa.scalar(value, pa.int32()).cast(kind)
        if types.is_timestamp(kind):
            return pa.scalar(value, pa.timestamp("us", kind.tz)).cast(kind)
        plain = types.is_string(kind) or types.is_boolean(kind) or types.is_integer(kind)
        if plain or types.is_floating(kind) or (types.is_decimal(kind) and isinstance(value, Decimal)):
            return pa.scalar(value, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        pass
    return None
