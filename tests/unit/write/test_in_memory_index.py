"""INMEMORY: the table of SIMPLE, by keys that the process holds, whatever others do to the table."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import random
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hoodie
from hoodie.codec.hashing import murmur
from hoodie.errors import HoodieError, StorageError
from hoodie.format.base_file import BaseFileReader
from hoodie.index.in_memory import index, memory
from hoodie.index.in_memory.memory import FileKeys, SoughtKeys, key_memory
from hoodie.index.locations import LOOK_UP
from hoodie.table.log_scan import scan_slice
from hoodie.table.view import FileSlice
from hoodie.timeline.store import create_instant
from hoodie.timeline.time import InstantTime
from tests.support.properties import examples
from tests.support.tiers import crossed_but

KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ")
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    # several files a partition
    "hoodie.copyonwrite.record.size.estimate": "1000",
    "hoodie.parquet.max.file.size": "20000",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
}
#: what creates the completed instant of a commit
PUBLISHES = "hoodie.write.commit.create_instant"
IN_MEMORY = {**OPTIONS, "hoodie.index.type": "INMEMORY"}
SIMPLE = {**OPTIONS, "hoodie.index.type": "SIMPLE"}
ALL_TABLES = crossed_but(
    {"COPY_ON_WRITE-9", "MERGE_ON_READ-6"},
    {kind: kind for kind in KINDS},
    {str(version): version for version in (6, 8, 9)},
)
SCHEMA = pa.schema(
    {"id": pa.string(), "ts": pa.int64(), "region": pa.string(), "val": pa.int64()}  # type: ignore[arg-type]
)


def of(kind: str, version: int) -> dict[str, str]:
    return {
        "hoodie.datasource.write.table.type": kind,
        "hoodie.write.table.version": str(version),
    }


def rows(keys: Any, ts: int) -> pa.Table:
    made = [{"id": f"k{key:04d}", "ts": ts, "region": f"r{key % 2}", "val": key * 1000 + ts} for key in keys]
    return pa.Table.from_pylist(made, SCHEMA)


def shown(table: Path | str) -> list[tuple[Any, ...]]:
    found = hoodie.read_table(str(table)).select(["region", "id", "ts", "val"]).to_pylist()
    return sorted(tuple(row.values()) for row in found)


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    key_memory().forget()
    yield
    key_memory().forget()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of base files whose keys are read, and of slices whose logs the index reads."""
    found: list[str] = []
    keys = BaseFileReader.record_keys

    def read(self: BaseFileReader, *args: Any) -> Any:
        found.append(self.path.rpartition("/")[2])
        return keys(self, *args)

    def scans(storage: Any, slice_: FileSlice, *args: Any, **more: Any) -> Any:
        found.append(slice_.file_id)
        return scan_slice(storage, slice_, *args, **more)

    monkeypatch.setattr(BaseFileReader, "record_keys", read)
    monkeypatch.setattr(index, "scan_slice", scans)
    return found


@pytest.mark.parametrize(("kind", "version"), ALL_TABLES)
def test_own_commits_are_followed_without_a_look_at_their_files(
    tmp_path: Path, reads: list[str], kind: str, version: int
) -> None:
    table = str(tmp_path / "t")
    options = {**IN_MEMORY, **of(kind, version)}
    hoodie.write_table(rows(range(60), 1), table, options=options)
    hoodie.write_table(rows(range(50, 70), 2), table, options=options)
    hoodie.write_table(rows(range(3), 3), table, operation="delete", options=options)
    del reads[:]
    done = hoodie.write_table(rows(range(3, 40), 4), table, options=options)
    assert (done.num_updates, done.num_inserts) == (37, 0)
    done = hoodie.write_table(rows(range(38, 72), 5), table, options=options)
    assert (done.num_updates, done.num_inserts) == (32, 2)
    assert reads == []
    assert {row[1]: row[2] for row in shown(table)} == {
        f"k{key:04d}": 4 if key < 38 else 5 for key in range(3, 72)
    }


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_others_have_changed_is_read_again(tmp_path: Path, reads: list[str], kind: str) -> None:
    table = str(tmp_path / "t")
    options = {**IN_MEMORY, **of(kind, 9)}
    hoodie.write_table(rows(range(80), 1), table, options=options)
    hoodie.write_table(rows(range(80), 2), table, options=options)
    added = hoodie.write_table(rows(range(80, 90), 3), table, operation="insert", options=SIMPLE)
    new = {str(path.name) for path in Path(table).glob(f"r*/*{added.instant}*.parquet")}
    del reads[:]
    done = hoodie.write_table(rows(range(70, 100), 4), table, options=options)
    assert (done.num_updates, done.num_inserts) == (20, 10)
    assert set(reads) == new


def test_a_commit_that_fails_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = str(tmp_path / "t")
    hoodie.write_table(rows(range(40), 1), table, options=IN_MEMORY)
    hoodie.write_table(rows(range(40), 2), table, options=IN_MEMORY)

    def fails(*_: Any, **__: Any) -> None:
        raise StorageError("no room", path=table)

    with monkeypatch.context() as patched:
        patched.setattr(PUBLISHES, fails)
        with pytest.raises(HoodieError):
            hoodie.write_table(rows(range(20, 60), 3), table, options=IN_MEMORY)
    done = hoodie.write_table(rows(range(30, 60), 4), table, options=IN_MEMORY)
    assert (done.num_updates, done.num_inserts) == (10, 20)
    assert {row[1]: row[2] for row in shown(table)} == {
        f"k{key:04d}": 2 if key < 30 else 4 for key in range(60)
    }


def test_a_table_made_anew_at_the_same_path(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    for size in (50, 20):
        hoodie.write_table(rows(range(size), 1), table, options=IN_MEMORY)
        done = hoodie.write_table(rows(range(10, 60), 2), table, options=IN_MEMORY)
        assert (done.num_updates, done.num_inserts) == (size - 10, 60 - size)
        shutil.rmtree(table)


def test_threads_write_tables_of_one_name(tmp_path: Path) -> None:
    def write(number: int) -> None:
        table = str(tmp_path / str(number) / "t")
        for ts in range(1, 5):
            hoodie.write_table(rows(range(number * 5, 40 + ts), ts), table, options=IN_MEMORY)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        assert {row[1]: row[2] for row in shown(tmp_path / str(number) / "t")} == {
            f"k{key:04d}": 4 for key in range(number * 5, 44)
        }


def test_keys_beyond_the_bound_are_read_by_each_write(tmp_path: Path, reads: list[str]) -> None:
    table, limit = str(tmp_path / "t"), 1500
    options = {**IN_MEMORY, "hoodie.memory.index.max.size": str(limit)}
    hoodie.write_table(rows(range(400), 1), table, options=options)
    for ts in (2, 3):
        del reads[:]
        done = hoodie.write_table(rows(range(380, 390 + 10 * ts), ts), table, options=options)
        assert len(reads) > 5
        (warning,) = done.warnings
        assert f"hoodie.memory.index.max.size={limit} has no room for the keys of" in warning
        assert "as with the index SIMPLE" in warning
        assert key_memory().nbytes <= limit
    assert len(shown(table)) == 420


def test_what_is_no_longer_used_makes_room(tmp_path: Path) -> None:
    options = {**IN_MEMORY, "hoodie.memory.index.max.size": "1500"}
    for name in ("a", "b"):
        hoodie.write_table(rows(range(60), 1), str(tmp_path / name), options=options)
    assert not hoodie.write_table(rows(range(60), 2), str(tmp_path / "a"), options=options).warnings
    warned = [
        bool(hoodie.write_table(rows([1, 2], ts), str(tmp_path / "b"), options=options).warnings)
        for ts in range(2, 16)
    ]
    assert warned[0]
    assert not warned[-1]
    assert key_memory().nbytes <= 1500


def test_keys_that_only_a_log_has(tmp_path: Path) -> None:
    """As tables of Flink have them."""
    table = tmp_path / "t"
    options = {**IN_MEMORY, **of("MERGE_ON_READ", 9), "hoodie.datasource.write.partitionpath.field": ""}
    hoodie.write_table(rows((1, 2), 1), str(table), options=options)
    hoodie.write_table(rows((1,), 2), str(table), options=options)
    (base,) = table.glob("*.parquet")
    base.unlink()
    options |= {"hoodie.write.verify.files": "false"}
    for ts in (3, 4):
        done = hoodie.write_table(rows((1, 3), ts), str(table), options=options)
        assert (done.num_updates, done.num_inserts) == ((1, 1) if ts == 3 else (2, 0))
    reading = {"hoodie.read.verify.files": "false"}
    found = hoodie.read_table(str(table), options=reading).select(["id", "ts"]).to_pylist()
    assert sorted(row["id"] for row in found) == ["k0001", "k0003"]
    done = hoodie.write_table(rows((1,), 5), str(table), operation="delete", options=options)
    assert (done.num_deletes, done.num_missing) == (1, 0)
    done = hoodie.write_table(rows((1, 3), 6), str(table), options=options)
    assert hoodie.read_table(str(table), options=reading).num_rows == 2


@pytest.mark.parametrize("bits", [0, 3, 32])
def test_keys_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    def weak(keys: Any, seed: int) -> Any:
        return (murmur(keys, seed).view(np.uint32) & np.uint32((1 << bits) - 1)).view(np.int32)

    monkeypatch.setattr(memory, "murmur", weak)
    rng = random.Random(bits)
    for _ in range(examples(60)):
        texts = [f"{'é' * rng.randrange(3)}{rng.randrange(60)}" for _ in range(rng.randrange(80))]
        more = [f"n{number}" for number in range(rng.randrange(4))]
        held = FileKeys(pa.array(texts, pa.string())).followed_by(pa.array(more, pa.string()))
        asked = list({f"{rng.randrange(60)}" for _ in range(rng.randrange(1, 40))} | {"n0", "n9"})
        places, found = held.find(SoughtKeys(pa.array(asked, pa.string())))
        every = [*texts, *more]
        expected = {
            key: LOOK_UP if every.count(key) > 1 else every.index(key) for key in asked if key in every
        }
        assert {asked[place]: row for place, row in zip(places, found, strict=True)} == expected
        assert held.keys.to_pylist() == every


def test_the_index_is_of_one_process() -> None:
    """A fork of it, as Airflow's workers are, begins with nothing, and with a lock that is free."""
    key = key_memory().token
    child = os.fork()
    if child == 0:
        os._exit(0 if key_memory().token != key and not key_memory().nbytes else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def work(name: str, table: str, arguments: dict[str, Any], ends: str) -> tuple[int, ...]:
    """One step in a process that holds keys; `ends`: it is killed before or behind the publishing."""
    if ends:

        def killed(*args: Any, **more: Any) -> Any:
            if ends == "behind":
                create_instant(*args, **more)
            os._exit(9)

        setattr(importlib.import_module("hoodie.write.commit"), "create_instant", killed)  # noqa: B010
    done = getattr(hoodie, name)(path=table, **arguments)
    return tuple(getattr(done, field, 0) for field in ("num_inserts", "num_updates", "num_deletes"))


class Processes:
    """Two processes that go on from step to step, unless they are killed."""

    def __init__(self) -> None:
        self.pools = [self._pool(), self._pool()]

    def run(self, number: int, *step: Any) -> tuple[int, ...] | None:
        """None: the process was killed."""
        try:
            return self.pools[number].submit(work, *step).result(120)
        except BrokenProcessPool:
            self.pools[number] = self._pool()
            return None

    def close(self) -> None:
        for pool in self.pools:
            pool.shutdown()

    def _pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


class Histories:
    """The same steps on two tables: of INMEMORY in one of two processes, of SIMPLE here."""

    def __init__(self, folder: Path, kind: str, version: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.table, self.twin = str(folder / "t"), str(folder / "twin")
        self.of = of(kind, version)
        if self.random.random() < 0.5:
            self.of["hoodie.memory.index.max.size"] = "3000"
        self.of["hoodie.parquet.small.file.limit"] = self.random.choice(["0", "15000"])
        self.kind, self.ts = kind, 0
        self.commits: list[tuple[str, str]] = []
        self.savepoint: tuple[str, str] | None = None
        self.steps: list[str] = []
        self.processes = Processes()

    def run(self, steps: int) -> None:
        self.write("upsert", range(60), number=0)
        kinds = ["upsert"] * 9 + ["delete"] * 2
        kinds += ["insert", "insert_overwrite", "delete_partition", "rollback", "savepoint", "restore"]
        kinds += ["compact", "cluster", "simple", "anew"]
        for _ in range(steps):
            kind, number = self.random.choice(kinds), self.random.randrange(2)
            self.steps.append(f"{kind} in {number}")
            self.step(kind, number)
            assert shown(self.table) == shown(self.twin), self.steps
        self.processes.close()

    def step(self, kind: str, number: int) -> None:
        some = self.random.sample(range(90), self.random.choice((1, 6, 25)))
        ends = self.random.choice([""] * 6 + ["before", "behind"])
        if kind in ("upsert", "delete"):
            self.write(kind, some, number, ends=ends)
        elif kind == "simple":
            self.write("upsert", some, number, kind="SIMPLE")
        elif kind == "insert":
            self.write(kind, [1000 + self.ts * 10 + place for place in range(3)], number)
        elif kind == "insert_overwrite":
            self.write(kind, [key for key in some if key % 2] or [1], number)
        elif kind == "delete_partition":
            self.both(number, "delete_partitions", {"partitions": ["r1"]})
        elif kind == "rollback" and self.commits and self.last() == self.commits[-1]:
            self.each(number, "rollback_table", [{"instant": time} for time in self.commits.pop()])
        elif kind == "savepoint":
            self.both(number, "savepoint_table", {})
            self.savepoint, self.commits = self.last(), []  # which a savepoint keeps from being rolled back
        elif kind == "restore" and self.savepoint:
            self.each(number, "restore_table", [{"instant": InstantTime(time)} for time in self.savepoint])
            self.commits = []
        elif kind == "compact" and self.kind == "MERGE_ON_READ":
            self.both(number, "compact_table", {"options": {**SIMPLE, **self.of}})
        elif kind == "cluster":
            more = {"hoodie.clustering.plan.strategy.small.file.limit": "100000000"}
            self.both(number, "cluster_table", {"options": {**SIMPLE, **self.of, **more}})
        elif kind == "anew":
            self.commits, self.savepoint = [], None
            shutil.rmtree(self.table)
            shutil.rmtree(self.twin)
            self.write("upsert", range(40), number)

    def write(self, operation: str, keys: Any, number: int, kind: str = "INMEMORY", ends: str = "") -> None:
        self.ts += 1
        arguments = {"rows": rows(keys, self.ts), "operation": operation}
        options = {**OPTIONS, **self.of}
        named = {**arguments, "options": {**options, "hoodie.index.type": kind}}
        before = hoodie.instants(self.table) if self.commits else []
        found = self.processes.run(number, "write_table", self.table, named, ends)
        assert found is not None or ends, "the process died"
        if found is None and ends == "before":
            return
        simple = {**arguments, "options": {**options, "hoodie.index.type": "SIMPLE"}}
        twin = work("write_table", self.twin, simple, "")
        assert found in (None, twin), self.steps
        assert len(hoodie.instants(self.table)) >= len(before)
        self.commits.append(self.last())

    def both(self, number: int, name: str, arguments: dict[str, Any]) -> None:
        self.each(number, name, [arguments, arguments])

    def each(self, number: int, name: str, arguments: list[dict[str, Any]]) -> None:
        assert self.processes.run(number, name, self.table, arguments[0], "") is not None
        work(name, self.twin, arguments[1], "")

    def last(self) -> tuple[str, str]:
        first, second = (hoodie.instants(table)[-1]["instant"] for table in (self.table, self.twin))
        return str(first), str(second)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", KINDS)
def test_random_histories_in_two_processes(tmp_path: Path, kind: str, version: int, seed: int) -> None:
    Histories(tmp_path, kind, version, seed).run(30)
