"""What every engine does alike, whatever the columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from hoodie.engine import Engine
from hoodie.engine.files import FileFrame
from hoodie.engine.task import Task
from tests.support.arrow import arrow_schema

SCHEMA = arrow_schema(
    [("kind", pa.int32()), ("place", pa.string()), ("file", pa.string()), ("bucket", pa.int32())]
)
BLOBS = arrow_schema([("bucket", pa.int32()), ("value", pa.binary())])
#: pairs that are the same when they are put together without care
PAIRS = [("a", ""), ("", "a"), ("a\n", "b"), ("a", "\nb"), ("1:a", "é"), ("𝄞", "1:"), ("none", "such")]


def rows(batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
    """Of each number a row a pair, its kind the number."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            found = [{"kind": number, "place": place, "file": file, "bucket": -1} for place, file in PAIRS]
            yield pa.RecordBatch.from_pylist(found, SCHEMA)


def answered(batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
    """Of the numbers 1 and 2 a row for each place, whose file is the answer."""
    for number in (number for batch in batches for number in batch.column(0).to_pylist() if number):
        places = sorted({place for place, _ in PAIRS}, reverse=True)
        found = [{"kind": number, "place": place, "file": f"{number} of {place}"} for place in places]
        yield pa.RecordBatch.from_pylist([{**row, "bucket": number % 2} for row in found], SCHEMA)


def numbers(batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
    """In each partition the buckets of its rows, one behind the other."""
    found = [number for batch in batches for number in batch.column("bucket").to_pylist()]
    if found:
        row = {"kind": len(found), "place": repr(found), "file": task.token, "bucket": 0}
        yield pa.RecordBatch.from_pylist([row], SCHEMA)


def check_verbs(engine: Engine, folder: Path) -> None:
    def collected(frame: Any) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in engine.collect(frame))

    every = engine.persist(engine.map_batches(engine.tasks(4), rows, SCHEMA))
    assert engine.schema(every).names == SCHEMA.names
    assert [row["bucket"] for row in engine.collect(every)] == [-1] * 28
    chosen = engine.filter(every, "kind", (1, 3, 9))
    assert {row["kind"] for row in engine.collect(chosen)} == {1, 3}
    assert engine.collect(engine.filter(every, "kind", ())) == []

    table = pa.table(
        {
            "place": [place for place, _ in PAIRS[:-1]],
            "file": [file for _, file in PAIRS[:-1]],
            "bucket": pa.array(range(6), pa.int32()),
            "reducer": pa.array([1, 0, 1, 0, 1, 0], pa.int32()),
        }
    )
    joined = engine.left_join(chosen, table, ("place", "file"))
    found = {(row["place"], row["file"]): (row["bucket"], row["reducer"]) for row in engine.collect(joined)}
    assert found == {pair: (row, (row + 1) % 2) for row, pair in enumerate(PAIRS[:-1])} | {
        PAIRS[-1]: (None, None)
    }

    _check_attach(engine, every)
    known = engine.filter(joined, "bucket", range(6))
    shuffled = engine.map_batches(engine.shuffle(known, "reducer", 2, "bucket"), numbers, SCHEMA)
    assert [row[:2] for row in collected(shuffled)] == [
        (6, "[0, 0, 2, 2, 4, 4]"),
        (6, "[1, 1, 3, 3, 5, 5]"),
    ]
    tokens = [row[2] for row in collected(shuffled)]
    assert len(set(tokens)) == 2
    engine.unpersist(every)
    _check_rows_and_blobs(engine)
    _check_scan(engine, folder)


def _check_attach(engine: Engine, every: Any) -> None:
    """Both have several partitions, in another order."""
    others = engine.shuffle(engine.map_batches(engine.tasks(3), answered, SCHEMA), "bucket", 2, "kind")
    for few in (True, False):
        found = engine.attach(every, others, ("kind", "place"), "file", "answer", few)
        answers = {(row["kind"], row["place"], row["file"]): row["answer"] for row in engine.collect(found)}
        assert answers == {
            (number, place, file): f"{number} of {place}" if number in (1, 2) else None
            for number in range(4)
            for place, file in PAIRS
        }


def blobs(batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
    """Of each number five large values and an empty one."""
    for number in (str(number) for batch in batches for number in batch.column(0).to_pylist()):
        found = [{"bucket": place, "value": number.encode() * 50_000} for place in range(5)]
        yield pa.RecordBatch.from_pylist([*found, {"bucket": 5, "value": b""}], BLOBS)


def lengths(batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
    """Of each value a row with its length."""
    for batch in batches:
        assert batch.schema.names == BLOBS.names
        values: list[Any] = batch.column(1).to_pylist()
        sizes = [{"bucket": len(value), "value": value[:1] * 20_000} for value in values]
        yield pa.RecordBatch.from_pylist(sizes, BLOBS)


def _check_rows_and_blobs(engine: Engine) -> None:
    """Steps of both are given, and answer, the rows that there are."""
    with engine.batches(rows=True, blobs=True):
        large = engine.map_batches(engine.tasks(3), blobs, BLOBS)
        found = engine.map_batches(engine.shuffle(large, "bucket", 6, "bucket"), lengths, BLOBS)
        answers = engine.collect(engine.filter(found, "bucket", (0, 50_000)))
    assert (
        sorted((row["bucket"], len(row["value"])) for row in answers)
        == [(0, 0)] * 3 + [(50_000, 20_000)] * 15
    )


def _check_scan(engine: Engine, folder: Path) -> None:
    rows = pa.table({"bucket": pa.array(range(10), pa.int32()), "other": ["x"] * 10})
    pq.write_table(rows, folder / "verbs.parquet", row_group_size=4)
    files = FileFrame.of(ds.dataset(folder / "verbs.parquet"))
    assert files is not None
    scanned = engine.scan(files)
    assert engine.files(scanned) == files
    assert engine.schema(scanned) == rows.schema
    answers = engine.collect(engine.map_batches(scanned, numbers, SCHEMA))
    assert sum(row["kind"] for row in answers) == 10
    assert engine.files(engine.tasks(1)) is None
