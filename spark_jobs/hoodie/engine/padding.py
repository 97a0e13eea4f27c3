"""Rows that take as much of a batch as their bytes do, where batches have a number of rows.

Spark cuts batches by rows. In one plan some have thousands of small rows, and others blobs of which some tens
fill the memory: a blob is followed by rows without a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from hoodie.engine.task import BatchFunction, Task

#: the column that says which rows were added
PAD = "_hoodie_pad"
#: rows of a batch, and bytes that a row is taken for: together 64 MiB
BATCH_ROWS = 8192
_ROW_BYTES = 8 << 10

#: the stubs refuse plain values where the kernels take them
_pc: Any = pyarrow.compute


def padded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, each followed by as many rows as its binary values are long."""
    sizes = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        if pa.types.is_binary(column.type):
            sizes += _pc.fill_null(_pc.binary_length(column), 0).to_numpy()
    copies = 1 + sizes // _ROW_BYTES
    rows = np.repeat(np.arange(batch.num_rows), copies)
    pads = np.ones(len(rows), dtype=np.bool_)
    pads[np.cumsum(copies) - copies] = False
    if pads.any():
        every: Any = pa.array(rows)
        own: Any = pa.array(rows, mask=pads)
        columns = [column.take(own if pa.types.is_binary(column.type) else every) for column in batch.columns]
        batch = pa.RecordBatch.from_arrays(columns, schema=batch.schema)
    return batch.append_column(pa.field(PAD, pa.int32()), pa.array(pads.astype(np.int32)))


def unpadded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that `padded` was given."""
    pads, batch = batch.column(PAD), batch.drop_columns([PAD])
    return batch.filter(_pc.equal(pads, 0)) if _pc.any(_pc.equal(pads, 1)).as_py() else batch


@dataclass(frozen=True)
class Padding:
    """A batch function whose rows are padded, and those that it is given, too, if `both`."""

    function: BatchFunction
    both: bool

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        yield from map(padded, self.function(map(unpadded, batches) if self.both else batches, task))
