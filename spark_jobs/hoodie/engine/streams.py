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
