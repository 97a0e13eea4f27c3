"""Each file that may have the keys of a write is opened once for them, whatever the input partitions."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hoodie
from hoodie import pipeline
from hoodie.engine.local import LocalEngine, LocalFrame
from hoodie.errors import JobError
from hoodie.write.assign import inserts
from hoodie.write.operation import Operation, WriteRequest, WriteResult
from tests.support.opened import OPTIONS as NOTED
from tests.support.opened import opened
from tests.support.requests import counted
from tests.support.tiers import crossed_but, full_but

ROWS, FILES = 1200, 12
OPTIONS: dict[str, Any] = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.index.bloom.num_entries": 200,
    "hoodie.parquet.small.file.limit": 0,
}


def rows(time: int, count: int = ROWS) -> pa.Table:
    """In an order in which neighbours are of different partitions; keys beyond ROWS are new."""
    numbers = np.random.default_rng(time).permutation(count)
    return pa.table(
        {
            "id": [f"k{number:06d}" for number in numbers],
            "region": [f"r{number % FILES:02d}" for number in numbers],
            "ts": [time] * count,
        }
    )


def written(table: Path, frame: LocalFrame, operation: Operation, **options: Any) -> WriteResult:
    request = WriteRequest(str(table), operation, {**OPTIONS, **options})
    return pipeline.write(LocalEngine(2), frame, request)


def in_partitions(found: pa.Table, count: int) -> LocalFrame:
    step = -(-found.num_rows // count)

    def source(start: int) -> Callable[[], Iterator[pa.RecordBatch]]:
        return lambda: iter(found.slice(start, step).to_batches())

    return LocalFrame(found.schema, [source(number * step) for number in range(count)])


WAYS = {"on the driver": "on the driver", "by tasks": "by tasks"}
TASKS = pytest.mark.parametrize("way", full_but({"by tasks"}, WAYS), indirect=True)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "by tasks":
        monkeypatch.setattr("hoodie.write.input.stage.DRIVER_KEY_BYTES", 0)
    return str(request.param)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve partitions of one file each."""
    path = tmp_path_factory.mktemp("made") / "t"
    hoodie.write_table(rows(1), str(path), operation="bulk_insert", options=OPTIONS)
    return path


@pytest.fixture
def table(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "t"))


@pytest.mark.parametrize(
    ("way", "count", "index"),
    crossed_but(
        {"on the driver-16-SIMPLE", "by tasks-16-BLOOM"},
        WAYS,
        {str(count): count for count in (1, 16, 64)},
        {"SIMPLE": "SIMPLE", "BLOOM": "BLOOM"},
    ),
    indirect=["way"],
)
def test_opens_of_candidate_files(table: Path, way: str, count: int, index: str) -> None:
    with counted(str(table)) as requests:
        options = {"hoodie.index.type": index}
        done = written(table, in_partitions(rows(2, ROWS + 60), count), Operation.UPSERT, **options)
    assert (done.num_updates, done.num_inserts) == (ROWS, 60)
    reads = Counter(path for name, path, _ in requests.calls if name == "open_input")
    # its keys, and its rows when it is merged
    assert sorted(reads.values()) == [2] * FILES
    lists = [path for name, path, _ in requests.calls if name == "list" and path.startswith("/r")]
    assert sorted(lists) == [f"/r{number:02d}" for number in range(FILES)], "each partition is listed once"


@TASKS
def test_files_of_one_partition_are_shared_among_tasks(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that several of them have goes to all of them, as a delete does."""
    monkeypatch.setattr("hoodie.write.tagging.tag._UNIT_BYTES", 1)
    table, plain = tmp_path / "t", {**OPTIONS, "hoodie.datasource.write.partitionpath.field": ""}
    for time in range(1, 5):
        hoodie.write_table(rows(time, 50), str(table), operation="insert", options=plain)
    options = {**NOTED, "hoodie.datasource.write.partitionpath.field": ""}
    done = written(table, in_partitions(rows(5, 60), 7), Operation.UPSERT, **options)
    assert (done.num_updates, done.num_inserts) == (200, 10)
    assert sorted(Counter(opened(table)).values()) == [1] * 4
    found = hoodie.read_table(str(table)).to_pylist()
    assert Counter(row["ts"] for row in found) == {5: 210}
    gone = written(table, in_partitions(rows(6, 70), 7), Operation.DELETE, **options)
    assert (gone.num_deletes, gone.num_missing) == (210, 10)
    assert hoodie.read_table(str(table)).num_rows == 0


@TASKS
def test_rows_that_are_staged_again_are_not_mixed_up(
    table: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an executor is lost, and its tasks read an input that comes in another order."""
    placed = inserts.PlaceTagged._locations

    def other(self: inserts.PlaceTagged, row: dict[str, Any]) -> Any:
        return placed(self, {**row, "digest": "0" * 32, "hits": None})

    monkeypatch.setattr(inserts.PlaceTagged, "_locations", other)
    with pytest.raises(JobError, match="the input changes when it is read again"):
        written(table, in_partitions(rows(2), 3), Operation.UPSERT)
    assert len(hoodie.instants(str(table))) == 1


@TASKS
def test_keys_beyond_what_a_task_holds(table: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoodie.write.tagging.locate.LOCATED_BYTES", 1000)
    done = written(table, in_partitions(rows(2, ROWS + 60), 5), Operation.UPSERT, **NOTED)
    assert (done.num_updates, done.num_inserts) == (ROWS, 60)
    gone = written(table, in_partitions(rows(3, 100), 5), Operation.DELETE, **NOTED)
    assert (gone.num_deletes, gone.num_missing) == (100, 0)


@pytest.mark.parametrize(
    ("way", "policy"),
    crossed_but({"on the driver-fail", "by tasks-drop"}, WAYS, {"drop": "drop", "fail": "fail"}),
    indirect=["way"],
)
def test_keys_that_are_stored_are_left_out_or_refused(table: Path, way: str, policy: str) -> None:
    options = {"hoodie.datasource.insert.dup.policy": policy, "hoodie.combine.before.insert": True}
    frame = in_partitions(rows(2, ROWS + 60), 16)
    if policy == "drop":
        done = written(table, frame, Operation.INSERT, **options)
        assert (done.num_inserts, done.num_dropped) == (60, ROWS)
        return
    with pytest.raises(hoodie.errors.DuplicateKey, match="100 of 105 rows have a key that the table has"):
        written(table, frame, Operation.INSERT, **options)
