"""The frames between the steps of a write: rows in blobs, each an Arrow IPC message of about half a MiB.

Rows are converted for Python once; caching, shuffling and sorting blobs costs the JVM a copy of memory
instead of a conversion of every row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from hoodie.codec.arrays import rows_of
from hoodie.engine import Engine, Frame
from hoodie.engine.origin import with_files
from hoodie.errors import CODES, HoodieError

#: kinds of rows in these frames; KEYS are few enough for the driver, MORE_KEYS are not; DELETES are keys
#: whose stored rows are to go whatever they are
ROWS, SUMMARY, ERROR, KEYS, MORE_KEYS, HITS, DELETES = range(7)

#: rows of `partition`, of one file group of it where the index says which one a key belongs to: `group` is
#: its number, "" elsewhere; write, the number of the file-group write, and reducer are set when rows are
#: placed
_COLUMNS: dict[str, pa.DataType] = {
    "kind": pa.int32(),
    "partition": pa.string(),
    "group": pa.string(),
    "reducer": pa.int32(),
    "write": pa.int32(),
    "rows": pa.int64(),
    "payload": pa.binary(),
}
BLOB_SCHEMA = pa.schema(_COLUMNS)

#: rows that were not looked up yet, their keys, and where these were found. `number` counts the blobs of the
#: input task `task`; `digest` is a hash of the blob's keys, so that no answer is used for other rows;
#: `partitions` is a JSON list of the partition paths that the rows' codes stand for
_STAGED: dict[str, pa.DataType] = {
    "kind": pa.int32(),
    "reducer": pa.int32(),
    "task": pa.int32(),
    "number": pa.int32(),
    "digest": pa.string(),
    "partitions": pa.string(),
    "payload": pa.binary(),
}
STAGED_SCHEMA = pa.schema(_STAGED)
#: the columns that identify a blob of staged rows
BLOB_ID = ("task", "number", "digest")

#: less than what a JVM with a heap of one GiB takes for huge, which costs it twice the memory
BLOB_BYTES = 480 << 10
_BATCH_BYTES = 16 << 20
_NOTHING = {pa.int32(): 0, pa.int64(): 0, pa.string(): "", pa.binary(): b""}


def message(kind: int, value: dict[str, Any], schema: pa.Schema = BLOB_SCHEMA) -> pa.RecordBatch:
    """One row of a frame of the schema: the answer of a task (SUMMARY), or its error (ERROR)."""
    row: dict[str, Any] = {field.name: _NOTHING[field.type] for field in schema}
    row |= {"kind": kind, "payload": json.dumps(value).encode()}
    return pa.RecordBatch.from_pylist([row], schema=schema)


def error_message(error: HoodieError, schema: pa.Schema = BLOB_SCHEMA) -> pa.RecordBatch:
    return message(ERROR, with_files(error).to_dict(), schema)


def answers(engine: Engine, frame: Frame) -> list[dict[str, Any]]:
    """The summaries that the tasks of a frame answer; raises the first error that one of them reports."""
    return raise_errors(engine.collect(engine.filter(frame, "kind", (SUMMARY, ERROR))))


def raise_errors(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Parsed payloads of the SUMMARY rows; raises the first error that an executor reported."""
    for row in rows:
        if row["kind"] == ERROR:
            raise error_of(row["payload"])
    return [json.loads(row["payload"]) for row in rows if row["kind"] == SUMMARY]


def error_of(payload: bytes) -> HoodieError:
    """The error of an ERROR row."""
    value = json.loads(payload)
    return CODES.get(value["code"], HoodieError)(value["message"], **value["values"])


def encode_rows(rows: pa.Table) -> Iterator[tuple[bytes, int]]:
    """(IPC message, number of its rows), each of about BLOB_BYTES, until all rows of the table are in one."""
    if rows.num_rows == 0:
        return
    step = rows_of(rows, BLOB_BYTES)
    for start in range(0, rows.num_rows, step):
        piece = rows.slice(start, step).combine_chunks().to_batches()
        for batch in piece:
            yield batch.serialize().to_pybytes(), batch.num_rows


def decode_rows(payload: Any, schema: pa.Schema) -> pa.RecordBatch:
    """Zero-copy view of one blob; `payload` is a binary scalar's buffer."""
    return pa.ipc.read_record_batch(payload, schema)


def decoded(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> Iterator[tuple[dict[str, Any], pa.RecordBatch]]:
    """(the other columns, the rows) of every blob; the rows have this schema."""
    for batch in batches:
        payloads: Any = batch.column("payload")
        for number, row in enumerate(batch.drop_columns(["payload"]).to_pylist()):
            yield row, decode_rows(payloads[number].as_buffer(), schema)


def values(batch: pa.RecordBatch, name: str) -> list[Any]:
    """A column of a batch of blobs as Python values, one for each blob."""
    column: list[Any] = batch.column(name).to_pylist()
    return column


class Blob(NamedTuple):
    """Rows of one partition, or keys (DELETES), as an IPC message; see BLOB_SCHEMA."""

    partition: str
    rows: int
    payload: bytes
    write: int = 0
    reducer: int = 0
    group: str = ""
    kind: int = ROWS


def rows_batch(blobs: Sequence[Blob]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([blob.kind for blob in blobs], pa.int32()),
            pa.array([blob.partition for blob in blobs], pa.string()),
            pa.array([blob.group for blob in blobs], pa.string()),
            pa.array([blob.reducer for blob in blobs], pa.int32()),
            pa.array([blob.write for blob in blobs], pa.int32()),
            pa.array([blob.rows for blob in blobs], pa.int64()),
            pa.array([blob.payload for blob in blobs], pa.binary()),
        ],
        schema=BLOB_SCHEMA,
    )


def in_batches(blobs: Iterable[Blob]) -> Iterator[pa.RecordBatch]:
    """The blobs in batches of about _BATCH_BYTES."""
    held: list[Blob] = []
    size = 0
    for blob in blobs:
        held.append(blob)
        size += len(blob.payload)
        if size >= _BATCH_BYTES:
            yield rows_batch(held)
            held, size = [], 0
    if held:
        yield rows_batch(held)
