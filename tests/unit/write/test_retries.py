"""A write that loses to another one starts again from its staged rows: its source is read once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import pipeline
from hoodie.engine.local import LocalEngine, LocalFrame
from hoodie.engine.streams import Stream
from hoodie.errors import CommitConflict
from hoodie.timeline.active import Timeline
from hoodie.write.operation import Operation, WriteRequest, WriteResult
from tests.support.arrow import arrow_schema
from tests.support.at_once import OPTIMISTIC
from tests.support.processes import forked
from tests.unit.write.support import BUDGET, KEY, NULL_FOR_MISSING, ORDERING, PARTITION

pytestmark = pytest.mark.full

RETRIES = "hoodie.write.num.retries.on.conflict.failures"
INDEX, TYPE = "hoodie.index.type", "hoodie.datasource.write.table.type"
SPILL = "hoodie.memory.spillable.map.path"
AT_ONCE = {
    **OPTIMISTIC,
    KEY: "id",
    PARTITION: "p",
    ORDERING: "v",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
}
MOR = {TYPE: "MERGE_ON_READ"}
BUCKET = {INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
SCHEMA = arrow_schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64()), ("n", pa.int64())])


def rows(value: int, *keys: str, **columns: Any) -> pa.Table:
    """A key's first letter is its partition."""
    every = {"v": value, "n": 7, **columns}
    return pa.table(
        {
            "id": list(keys),
            "p": [key[0] for key in keys],
            **{name: [item] * len(keys) for name, item in every.items()},
        }
    )


class Source:
    """Rows with another value at each reading, as of a function that is not deterministic; `reads` counts."""

    def __init__(self, value: int, *keys: str) -> None:
        self.value = value
        self.keys = keys
        self.reads = 0

    @property
    def stream(self) -> Stream:
        return Stream(SCHEMA, (self._read,))

    def _read(self) -> Iterator[pa.RecordBatch]:
        self.reads += 1
        yield from rows(self.value + self.reads - 1, *self.keys).cast(SCHEMA).to_batches()


class Held(LocalEngine):
    """Knows the frames that are persisted, of its copies too, and how many ever were."""

    def __init__(self) -> None:
        super().__init__(2)
        self.held: list[LocalFrame] = []
        self.persisted: list[LocalFrame] = []

    def persist(self, frame: LocalFrame) -> LocalFrame:
        found = super().persist(frame)
        self.held.append(found)
        self.persisted.append(found)
        return found

    def unpersist(self, frame: LocalFrame) -> None:
        self.held[:] = [other for other in self.held if other is not frame]
        super().unpersist(frame)


class Faster:
    """Other writers that commit before a write does: one in each attempt as long as there are any."""

    def __init__(self, *others: Callable[[], Any]) -> None:
        self.left = list(others)

    def __call__(self, stage: str, text: str) -> None:
        if stage == "commit" and self.left:
            self.left.pop(0)()


def load(
    engine: Held, source: Source, path: str, options: dict[str, Any], operation: str, faster: Faster
) -> WriteResult:
    request = WriteRequest(path, Operation(operation), options)
    return pipeline.write(engine, engine.frame(source.stream), request, faster)


def write(path: str, table: Any, options: dict[str, Any], **more: Any) -> WriteResult:
    return hoodie.write_table(table, path, options=options, **more)


def values(path: str) -> dict[str, int]:
    found = hoodie.read_table(path)
    assert found.num_rows == len(set(found.column("id").to_pylist()))
    return dict(zip(found.column("id").to_pylist(), found.column("v").to_pylist(), strict=True))


def left(path: str) -> list[str]:
    """What failed attempts could leave in the table."""
    meta = Path(path, ".hoodie")
    files = [item.name for folder in (".heartbeat", ".temp") for item in meta.joinpath(folder).glob("*")]
    return [str(item) for item in Timeline.load(path).pending()] + files


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


@pytest.mark.parametrize(
    ("kind", "operation"),
    [
        ({}, "upsert"),
        ({**MOR, INDEX: "GLOBAL_SIMPLE"}, "upsert"),
        ({**MOR, **BUCKET}, "upsert"),
        (MOR, "delete"),
        ({"hoodie.combine.before.insert": "true"}, "insert_overwrite"),
    ],
    ids=["cow", "global", "bucket", "delete", "overwrite"],
)
def test_the_source_is_read_once_over_all_attempts(path: str, kind: dict[str, Any], operation: str) -> None:
    options = {**AT_ONCE, **kind}
    write(path, rows(1, "a1", "a2", "b1"), options)
    expected = {"a1": 1, "a2": 1, "b1": 1}
    source, engine = Source(9, "a1", "a2", "a9", "a9"), Held()
    others = [(2, ("a1", "c1")), (3, ("a2", "b1")), (4, ("a1", "a2", "a3"))]
    faster = Faster(*(partial(write, path, rows(value, *keys), options) for value, keys in others))
    load(engine, source, path, {**options, RETRIES: 3}, operation, faster)
    for value, keys in others:
        expected.update(dict.fromkeys(keys, value))
    if operation == "insert_overwrite":
        expected = {key: value for key, value in expected.items() if key[0] != "a"}
    if operation == "delete":
        expected = {key: value for key, value in expected.items() if key not in source.keys}
    else:
        expected.update(dict.fromkeys(source.keys, 9))
    assert (source.reads, faster.left) == (1, [])
    assert values(path) == expected
    assert (left(path), engine.held) == ([], [])


def test_staged_rows_are_freed_where_a_write_gives_up(path: str) -> None:
    write(path, rows(1, "a1"), AT_ONCE)
    source, engine = Source(9, "a1"), Held()
    faster = Faster(*[lambda: write(path, rows(2, "a1"), AT_ONCE)] * 2)
    with pytest.raises(CommitConflict):
        load(engine, source, path, {**AT_ONCE, RETRIES: 1}, "upsert", faster)
    assert (source.reads, faster.left, values(path)) == (1, [], {"a1": 2})
    assert engine.persisted
    assert (left(path), engine.held) == ([], [])


def test_rows_are_staged_again_for_a_schema_that_another_writer_changed(path: str) -> None:
    options = {**AT_ONCE, NULL_FOR_MISSING: "true"}
    write(path, rows(1, "a1", "b1"), options)
    source, engine = Source(9, "a1", "a2"), Held()
    wider = rows(2, "b1", n=2.5, more="x")
    faster = Faster(lambda: write(path, wider, options), lambda: write(path, rows(3, "a1"), options))
    load(engine, source, path, {**options, RETRIES: 2}, "upsert", faster)
    assert (source.reads, values(path)) == (1, {"a1": 9, "a2": 9, "b1": 2})
    found = hoodie.read_table(path, columns=["id", "n", "more"], meta=False).sort_by("id")
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        ("a1", 7.0, None),
        ("a2", 7.0, None),
        ("b1", 2.5, "x"),
    ]
    assert (left(path), engine.held) == ([], [])


def test_a_first_writer_starts_again_from_its_rows_in_the_table_that_another_one_made(path: str) -> None:
    source, engine = Source(9, "a1", "b1"), Held()
    wider = rows(2, "a1", more="x")
    faster = Faster(lambda: write(path, wider, AT_ONCE))
    load(engine, source, path, {**AT_ONCE, RETRIES: 1, NULL_FOR_MISSING: "true"}, "upsert", faster)
    assert (source.reads, values(path)) == (1, {"a1": 9, "b1": 9})
    assert (left(path), engine.held) == ([], [])


def test_a_process_that_is_killed_between_attempts_leaves_no_rows(path: str, tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    options = {**AT_ONCE, BUDGET: 1 << 16, SPILL: str(spill)}
    keys = [f"a{number}" for number in range(4000)]
    write(path, rows(1, *keys), AT_ONCE)

    def killed() -> None:
        others = Faster(lambda: write(path, rows(2, "a1"), AT_ONCE))

        def progress(stage: str, text: str) -> None:
            if stage == "conflict":
                assert spill.exists()
                os.kill(os.getpid(), signal.SIGKILL)
            others(stage, text)

        source = rows(3, *keys).to_reader(max_chunksize=100)
        write(path, source, {**options, RETRIES: 1}, progress=progress)

    assert forked(killed) == -signal.SIGKILL
    assert os.listdir(spill) == []
    assert values(path) == {**dict.fromkeys(keys, 1), "a1": 2}
    assert left(path) == []
