"""Every index gives the same table: random batches, several files a partition, both against a dictionary."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.errors import ConfigError, InputError
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.index import Index, Scope
from hoodie.index.locations import LOOK_UP, KeySearch, Locations
from hoodie.merge.commit_time import CommitTime
from hoodie.read.file_slice import read_slice
from hoodie.read.log_merge import SliceContext
from hoodie.table.handle import Table, TableRef
from hoodie.table.participant import Commit, CommitParticipant
from hoodie.table.skeleton import open_base
from hoodie.table.view import FileSlice
from hoodie.timeline.instant import Instant
from hoodie.write.operation import Operation
from tests.support.arrow import arrow_schema
from tests.support.hbase.server import HBase
from tests.support.properties import FAST
from tests.support.record_index import FEW_GROUPS, OF_EACH
from tests.support.rows import assert_same_rows
from tests.support.tiers import full_but

SCHEMA = arrow_schema([("id", pa.string()), ("ts", pa.int64()), ("region", pa.string()), ("val", pa.int64())])
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    # many small files, so that a key has several candidates
    "hoodie.copyonwrite.record.size.estimate": 1000,
    "hoodie.parquet.max.file.size": 60000,
    "hoodie.parquet.small.file.limit": 0,
    "hoodie.index.bloom.num_entries": 100,
    "hoodie.index.bloom.fpp": 0.2,
}


class Everywhere(Index):
    """A toy whose scope is the table: it reads the slices of every partition."""

    scope = Scope.TABLE
    partitions: ClassVar[set[str]] = set()

    def __init__(self, *, config: Config) -> None: ...

    def locate(self, table: TableRef, slices: Sequence[FileSlice], keys: pa.Array[Any]) -> Locations:
        Everywhere.partitions = {slice_.partition for slice_ in slices}
        search = KeySearch(keys)
        for number, slice_ in enumerate(slices):
            assert slice_.base is not None
            with open_base(table.storage(), slice_.base, None) as reader:
                search.look(reader, number)
        return search.locations()


class Merged(Index):
    """A toy that sees logs, and knows in which file a key is but not in which row."""

    sees_logs = True

    def __init__(self, *, config: Config) -> None: ...

    def locate(self, table: TableRef, slices: Sequence[FileSlice], keys: pa.Array[Any]) -> Locations:
        opened = Table(table)
        context = SliceContext(
            schema=pa.schema([(RECORD_KEY, pa.string())]),
            snapshot=opened.view,
            merger=CommitTime(None),
            ordering=None,
            budget=1 << 20,
            spill_path="",
        )
        found = []
        for number, slice_ in enumerate(slices):
            stored = pa.concat_tables(read_slice(opened.storage, slice_, context, [RECORD_KEY]))
            known = set(stored.column(RECORD_KEY).to_pylist())
            mine = [place for place, key in enumerate(keys.to_pylist()) if key in known]
            found.append((number, np.array(mine, np.int32), np.full(len(mine), LOOK_UP, np.int32)))
        return Locations.of(found)


class Tagging(Everywhere):
    """Inserts go to their keys, too."""

    scope = Scope.PARTITION

    def requires_tagging(self, operation: Operation) -> bool:
        return operation in (Operation.UPSERT, Operation.DELETE, Operation.INSERT)


class Greedy(Tagging):
    def requires_tagging(self, operation: Operation) -> bool:
        return True


class Lazy(Tagging):
    def requires_tagging(self, operation: Operation) -> bool:
        return False


class Wrong(Tagging):
    def locate(self, table: TableRef, slices: Sequence[FileSlice], keys: pa.Array[Any]) -> Locations:
        return Locations.of([(len(slices), np.zeros(1, np.int32), np.zeros(1, np.int32))])


class Noting(CommitParticipant):
    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def begin(self, table: Table) -> None:
        self.notes.append("begin")

    def prepare(self, commit: Commit) -> None:
        self.notes.append(f"prepare {commit.instant.action.value}")
        if "fail" in self.notes:
            raise InputError("the index is not there")

    def undo(self, table: Table, instant: Instant) -> None:
        self.notes.append("undo")


class Outside(Everywhere):
    """One that changes something outside with every commit."""

    notes: ClassVar[list[str]] = []

    def participant(self, table: Table) -> CommitParticipant:
        return Noting(Outside.notes)


def own(cls: type) -> dict[str, str]:
    return {"hoodie.index.class": f"{__name__}:{cls.__name__}"}


INDEXES: dict[str, dict[str, Any]] = {
    "SIMPLE": {"hoodie.index.type": "SIMPLE"},
    "BLOOM": {"hoodie.index.type": "BLOOM"},
    "BLOOM without ranges": {
        "hoodie.index.type": "BLOOM",
        "hoodie.bloom.index.prune.by.ranges": False,
    },
    "GLOBAL_SIMPLE": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "GLOBAL_SIMPLE without moves": {
        "hoodie.index.type": "GLOBAL_SIMPLE",
        "hoodie.simple.index.update.partition.path": False,
    },
    "GLOBAL_BLOOM": {"hoodie.index.type": "GLOBAL_BLOOM"},
    "GLOBAL_BLOOM without moves": {
        "hoodie.index.type": "GLOBAL_BLOOM",
        "hoodie.bloom.index.update.partition.path": False,
    },
    "BUCKET": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 4},
    "CONSISTENT_HASHING": {
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
        "hoodie.bucket.index.num.buckets": 4,
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    },
    "HBASE": {"hoodie.hbase.index.update.partition.path": True},
    "HBASE without moves": {"hoodie.index.hbase.get.batch.size": 7, "hoodie.index.hbase.rollback.sync": True},
    "RECORD_INDEX": {
        **FEW_GROUPS,
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.record.index.update.partition.path": True,
    },
    "RECORD_INDEX without moves": {**FEW_GROUPS, "hoodie.index.type": "RECORD_INDEX"},
    "RECORD_LEVEL_INDEX": {**OF_EACH, "hoodie.index.type": "RECORD_LEVEL_INDEX"},
    "INMEMORY": {"hoodie.index.type": "INMEMORY"},
    "scope TABLE": own(Everywhere),
    "sees logs": own(Merged),
}


#: what a test of an index needs beside its name: a server of HBase takes seconds to start
NAMES = [pytest.param(name, marks=[pytest.mark.full] if name.startswith("HBASE") else []) for name in INDEXES]


def options_of(index: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings of an index; an empty one, where it is outside of the table."""
    if not index.startswith("HBASE"):
        return {**OPTIONS, **INDEXES[index]}
    hbase: HBase = request.getfixturevalue("hbase")
    return {**OPTIONS, **hbase.new_table(), **INDEXES[index]}


#: of random rows: different keys, rows of a batch at most, and batches
KEYS, ROWS, BATCHES = (1000, 300, 3) if FAST else (2000, 600, 4)


def _batch(rng: random.Random, version: int) -> list[dict[str, Any]]:
    keys = [rng.randrange(KEYS) for _ in range(rng.randrange(1, ROWS))]
    return [
        {
            "id": f"{'日本' if key % 17 == 0 else ''}k{key * 7919 % KEYS:05d}",
            "ts": rng.randrange(1000),
            "region": f"r{key % 3}",
            "val": rng.randrange(10**6) + version,
        }
        for key in keys
    ]


def _apply(model: dict[tuple[str, str], dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    for row in rows:
        key = (row["region"], row["id"])
        if key not in model or model[key]["ts"] <= row["ts"]:
            model[key] = row


@pytest.fixture(params=full_but({"on the driver"}, ["on the driver", "by tasks"]))
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the index is asked; the answers are the same."""
    if request.param == "by tasks":
        monkeypatch.setattr("hoodie.write.input.stage.DRIVER_KEY_BYTES", 0)
        monkeypatch.setattr("hoodie.write.tagging.tag._UNIT_BYTES", 1000)
    return str(request.param)


#: no key changes its partition here; an index of one's own and one that sees logs have tests below
ALIKE = {
    "GLOBAL_BLOOM without moves",
    "GLOBAL_SIMPLE without moves",
    "RECORD_INDEX without moves",
    "scope TABLE",
    "sees logs",
}
CASES = [
    pytest.param(seed, *name.values, marks=[pytest.mark.full] if name.values[0] in ALIKE else name.marks)
    for name in NAMES
    for seed in range(3 if name.values[0] in ("SIMPLE", "BLOOM") else 1)
]


@pytest.mark.parametrize(("seed", "index"), full_but({0}, CASES))
def test_random_upserts_and_deletes(
    tmp_path: Path, way: str, index: str, seed: int, request: pytest.FixtureRequest
) -> None:
    rng = random.Random(seed)
    options = options_of(index, request)
    model: dict[tuple[str, str], dict[str, Any]] = {}
    for version in range(BATCHES):
        rows = _batch(rng, version)
        _apply(model, rows)
        table = pa.Table.from_pylist(rows, SCHEMA)
        hoodie.write_table(table, str(tmp_path / "t"), options=options)
    gone = {(row["region"], row["id"]): row for row in _batch(rng, 4)}
    result = hoodie.write_table(
        pa.Table.from_pylist(list(gone.values()), SCHEMA),
        str(tmp_path / "t"),
        operation="delete",
        options=options,
    )
    if index == "CONSISTENT_HASHING":  # logs take deletes without a look at what is stored
        assert result.num_deletes + result.num_missing == len(gone)
    else:
        assert result.num_deletes == len(model.keys() & gone)
        assert result.num_missing == len(gone.keys() - model)
    expected = pa.Table.from_pylist([row for key, row in model.items() if key not in gone], SCHEMA)
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), expected)
    groups = hoodie.file_groups(str(tmp_path / "t"))
    assert len(groups) > 6, "the test means to have several files in a partition"


@pytest.mark.parametrize("index", full_but({"BLOOM", "CONSISTENT_HASHING"}, NAMES))
def test_the_same_file_groups_are_chosen_both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str, request: pytest.FixtureRequest
) -> None:
    rng = random.Random(7)
    options, base = options_of(index, request), tmp_path / "base"
    for version in range(3):
        rows = pa.Table.from_pylist(_batch(rng, version), SCHEMA)
        hoodie.write_table(rows, str(base), operation="upsert" if version else "insert", options=options)
    last = pa.concat_tables([rows, pa.Table.from_pylist(_batch(rng, 3), SCHEMA)])
    found = []
    for way in (16 << 20, 0):
        monkeypatch.setattr("hoodie.write.input.stage.DRIVER_KEY_BYTES", way)
        monkeypatch.setattr("hoodie.write.tagging.tag._UNIT_BYTES", 1000)
        table = tmp_path / str(way)
        shutil.copytree(base, table)
        before = {group["file_id"] for group in hoodie.file_groups(str(table))}
        hoodie.write_table(last, str(table), options=options)
        groups: dict[str, set[tuple[Any, ...]]] = {}
        for row in hoodie.read_table(str(table), meta=True).to_pylist():
            file_id = row["_hoodie_file_name"].partition("_")[0]
            name = file_id if file_id in before else f"new in {row['region']}"
            groups.setdefault(name, set()).add((row["id"], row["ts"], row["val"]))
        found.append(groups)
    assert found[0] == found[1]
    assert len(found[0]) > 3


def _rows(*rows: tuple[str, str, int]) -> pa.Table:
    made = [{"id": key, "ts": value, "region": region, "val": value} for key, region, value in rows]
    return pa.Table.from_pylist(made, SCHEMA)


def _values(table: Path) -> dict[tuple[str, str], int]:
    rows = hoodie.read_table(str(table), options={"hoodie.read.verify.files": "false"}).to_pylist()
    return {(row["region"], row["id"]): row["val"] for row in rows}


def test_an_index_of_ones_own_moves_records_between_partitions(tmp_path: Path) -> None:
    table, options = tmp_path / "t", {**OPTIONS, **own(Everywhere)}
    hoodie.write_table(_rows(("a", "eu", 1), ("b", "us", 1)), str(table), options=options)
    moved = _rows(("a", "us", 2), ("c", "us", 2))
    result = hoodie.write_table(moved, str(table), options=options)
    assert Everywhere.partitions == {"eu", "us"}
    assert (result.num_inserts, result.num_updates, result.num_deletes) == (2, 0, 1)
    assert _values(table) == {("us", "a"): 2, ("us", "b"): 1, ("us", "c"): 2}
    gone = hoodie.write_table(_rows(("a", "eu", 3)), str(table), operation="delete", options=options)
    assert (gone.num_deletes, gone.num_missing) == (1, 0)
    assert _values(table) == {("us", "b"): 1, ("us", "c"): 2}


def test_an_index_that_sees_logs_updates_keys_that_only_a_log_has(tmp_path: Path) -> None:
    """As tables of Flink have them; the writer asks the index what it sees, and refuses none of these."""
    table = tmp_path / "t"
    options = {**OPTIONS, **own(Merged), "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    hoodie.write_table(_rows(("a", "eu", 1), ("b", "eu", 1)), str(table), options=options)
    hoodie.write_table(_rows(("a", "eu", 2)), str(table), options=options)
    (base,) = table.glob("eu/*.parquet")
    base.unlink()
    options |= {"hoodie.write.verify.files": "false"}
    hoodie.write_table(_rows(("a", "eu", 3), ("c", "eu", 3)), str(table), options=options)
    assert _values(table) == {("eu", "a"): 3, ("eu", "c"): 3}
    gone = hoodie.write_table(_rows(("a", "eu", 4)), str(table), operation="delete", options=options)
    assert (gone.num_deletes, gone.num_missing) == (1, 0)
    assert _values(table) == {("eu", "c"): 3}


def test_inserts_go_to_their_keys_where_the_index_says_so(tmp_path: Path) -> None:
    table = tmp_path / "t"
    hoodie.write_table(_rows(("a", "eu", 1)), str(table), options=OPTIONS)
    for index, count in ((Everywhere, 2), (Tagging, 2)):
        options = {**OPTIONS, **own(index), "hoodie.merge.allow.duplicate.on.inserts": False}
        name = "b" if index is Everywhere else "a"
        hoodie.write_table(_rows((name, "eu", 9)), str(table), operation="insert", options=options)
        assert len(hoodie.file_groups(str(table))) == count
    assert _values(table) == {("eu", "a"): 9, ("eu", "b"): 9}


@pytest.mark.parametrize(
    ("index", "operation", "message"),
    [
        (Greedy, "bulk_insert", r"answers requires_tagging\(BULK_INSERT\) with True, which is not supported"),
        (Lazy, "upsert", r"answers requires_tagging\(UPSERT\) with False, which is not supported"),
        (Lazy, "delete", r"answers requires_tagging\(DELETE\) with False"),
        (Wrong, "upsert", "the index Wrong located keys outside of what it was asked"),
    ],
)
def test_what_the_writer_does_not_do_for_an_index_is_refused(
    tmp_path: Path, index: type[Index], operation: str, message: str
) -> None:
    table = tmp_path / "t"
    hoodie.write_table(_rows(("a", "eu", 1)), str(table), options=OPTIONS)
    new = _rows(("a", "eu", 2), ("b", "eu", 2))
    with pytest.raises(ConfigError, match=message):
        hoodie.write_table(new, str(table), operation=operation, options={**OPTIONS, **own(index)})
    assert (_values(table), len(hoodie.instants(str(table)))) == ({("eu", "a"): 1}, 1)


def test_the_metadata_file_of_a_partition_comes_back(tmp_path: Path) -> None:
    """Readers look for a partition by it; who takes it away takes the rows out of sight."""
    table = tmp_path / "t"
    hoodie.write_table(_rows(("a", "eu", 1), ("b", "us", 1)), str(table), options=OPTIONS)
    (table / "eu" / ".hoodie_partition_metadata").unlink()
    assert _values(table) == {("us", "b"): 1}
    hoodie.write_table(_rows(("a", "eu", 2)), str(table), options=OPTIONS)
    assert _values(table) == {("eu", "a"): 2, ("us", "b"): 1}


def test_an_index_takes_part_in_commits(tmp_path: Path) -> None:
    """Those of writes and services whose settings name it; it hears of what it prepared in vain."""
    table, options = tmp_path / "t", {**OPTIONS, **own(Outside)}
    Outside.notes.clear()
    hoodie.write_table(_rows(("a", "eu", 1)), str(table), operation="bulk_insert", options=options)
    assert Outside.notes == ["begin", "prepare commit"]
    Outside.notes[:] = ["fail"]
    with pytest.raises(InputError, match="the index is not there"):
        hoodie.write_table(_rows(("a", "eu", 2)), str(table), options=options)
    assert Outside.notes == ["fail", "begin", "prepare commit", "undo"]
    assert _values(table) == {("eu", "a"): 1}
