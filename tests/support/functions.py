"""Transforms that tests name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from hoodie.codec.arrays import pc


def doubled(batch: pa.RecordBatch) -> pa.Table | None:
    """Rows with an `n`, which is doubled, and its text."""
    rows = pa.Table.from_batches([batch]).filter(pc.field("n").is_valid())
    number = pc.multiply(rows["n"], 2)
    return pa.table({"id": rows["id"], "n": number, "text": number.cast(pa.string())})


def needs_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Raises for a batch without any."""
    first = batch.column("n")[0].as_py()
    return pa.RecordBatch.from_pydict({"id": batch.column("id"), "n": [first] * batch.num_rows})


def nothing(batch: pa.RecordBatch) -> None:
    """No rows."""


def wrong(batch: pa.RecordBatch) -> Any:
    return batch.to_pydict()


def unreachable(batch: pa.RecordBatch) -> Any:
    """As what asks a service for rates, by a library that raises an error of its own."""
    try:
        raise ConnectionRefusedError(111, "refused")
    except OSError as error:
        raise RuntimeError("rates:\nno answer") from error


def fails(batch: pa.RecordBatch) -> Any:
    raise ValueError("no such country")


class Made:
    @staticmethod
    def same(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch


alias = doubled
number = 3
