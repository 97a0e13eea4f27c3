"""Rows that are read where they are used, as often as that is, and never held as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Stream:
    """Rows of one schema. Each part gives its batches anew whenever it is called, and raises HoodieError
    where it can't be read.
    """

    schema: pa.Schema
    parts: tuple[Callable[[], Iterator[pa.RecordBatch]], ...]

    def to_table(self) -> pa.Table:
        return pa.Table.from_batches([batch for part in self.parts for batch in part()], self.schema)


def widened(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows in a schema that was united of theirs and others: columns that they lack are null."""
    if rows.schema == schema:
        return rows
    try:
        return _in_schema(rows, schema)
    except pa.ArrowInvalid as error:
        for name in rows.column_names:
            try:
                _in_schema(rows.select([name]), pa.schema([schema.field(name)]))
            except pa.ArrowInvalid:
                raise pa.ArrowInvalid(f"column {name!r}: {error}") from error
        raise


def _in_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), rows], promote_options="permissive").cast(schema)
