"""The frame that travels between the steps of a write: rows as opaque Arrow blobs.

Whole rows cross into Python once, are tagged and cut by file group, and from there on move as IPC
messages of up to a few MiB, so that caching, shuffling and sorting them costs the JVM a memory copy
instead of a conversion of every row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hoodie.engine import Engine, Frame
from hoodie.errors import CODES, HoodieError

#: kinds of rows in a staged frame
ROWS, SUMMARY, ERROR = 0, 1, 2

#: rows of `partition` that go to the file group `file_id` ("": new records) of `stored_partition`, which is
#: another one only for an index whose scope is the table; write (the number of the file-group write) and
#: reducer are set when the rows are placed
_COLUMNS: dict[str, pa.DataType] = {
    "kind": pa.int32(),
    "partition": pa.string(),
    "stored_partition": pa.string(),
    "file_id": pa.string(),
    "reducer": pa.int32(),
    "write": pa.int32(),
    "rows": pa.int64(),
    "payload": pa.binary(),
}
BLOB_SCHEMA = pa.schema(_COLUMNS)

#: what a write task answers: one row a file (SUMMARY) or an error
BLOB_BYTES = 4 << 20


def blob_batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=BLOB_SCHEMA)


def blob_row(
    kind: int, payload: bytes, *, partition: str = "", file_id: str = "", rows: int = 0
) -> dict[str, Any]:
    return {
        "kind": kind,
        "partition": partition,
        "stored_partition": partition,
        "file_id": file_id,
        "reducer": 0,
        "write": 0,
        "rows": rows,
        "payload": payload,
    }


def message(kind: int, value: dict[str, Any]) -> pa.RecordBatch:
    return blob_batch([blob_row(kind, json.dumps(value).encode())])


def error_message(error: HoodieError) -> pa.RecordBatch:
    return message(ERROR, error.to_dict())


def answers(engine: Engine, frame: Frame) -> list[dict[str, Any]]:
    """The summaries that the tasks of a frame answer; raises the first error that one of them reports."""
    return raise_errors(engine.collect(engine.filter(frame, "kind", (SUMMARY, ERROR))))


def raise_errors(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Parsed payloads of the SUMMARY rows; raises the first error that an executor reported."""
    for row in rows:
        if row["kind"] == ERROR:
            value = json.loads(row["payload"])
            raise CODES.get(value["code"], HoodieError)(value["message"], **value["values"])
    return [json.loads(row["payload"]) for row in rows]


def encode_rows(rows: pa.Table) -> Iterator[tuple[bytes, int]]:
    """(IPC message, number of rows) pieces of a table, each around BLOB_BYTES."""
    if rows.num_rows == 0:
        return
    step = max(1, int(rows.num_rows * BLOB_BYTES / max(BLOB_BYTES, rows.nbytes)))
    for start in range(0, rows.num_rows, step):
        piece = rows.slice(start, step).combine_chunks().to_batches()
        for batch in piece:
            yield batch.serialize().to_pybytes(), batch.num_rows


def decode_rows(payload: Any, schema: pa.Schema) -> pa.RecordBatch:
    """Zero-copy view of one blob; `payload` is a binary scalar's buffer."""
    return pa.ipc.read_record_batch(payload, schema)


def values(batch: pa.RecordBatch, name: str) -> list[Any]:
    """A column of a staged batch as Python values: one a blob, not one a row of data."""
    column: list[Any] = batch.column(name).to_pylist()
    return column


class Blob(NamedTuple):
    """Rows of one group (see BLOB_SCHEMA) as an IPC message."""

    partition: str
    stored_partition: str
    file_id: str
    rows: int
    payload: bytes


def rows_batch(blobs: Sequence[Blob]) -> pa.RecordBatch:
    count = len(blobs)
    zeros = pa.array(np.zeros(count, dtype=np.int32))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(count, ROWS, dtype=np.int32)),
            pa.array([blob.partition for blob in blobs], pa.string()),
            pa.array([blob.stored_partition for blob in blobs], pa.string()),
            pa.array([blob.file_id for blob in blobs], pa.string()),
            zeros,
            zeros,
            pa.array([blob.rows for blob in blobs], pa.int64()),
            pa.array([blob.payload for blob in blobs], pa.binary()),
        ],
        schema=BLOB_SCHEMA,
    )
