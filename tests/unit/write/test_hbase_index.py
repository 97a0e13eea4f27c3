"""The HBASE index: what it enters, how it follows a table that changes without it, and how it fails."""

from __future__ import annotations

import contextlib
import copy
import itertools
import os
import pickle
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.errors import ConfigError, HoodieError, InputError, StorageError
from hoodie.index import index_for
from hoodie.index.hbase.client import Client
from hoodie.timeline.active import Timeline
from tests.conftest import require
from tests.contract.test_index import OPTIONS, SCHEMA
from tests.support.faults import Change, die_at
from tests.support.hbase.memory import MemoryHBase
from tests.support.processes import forked
from tests.support.tiers import crossed_but, full_but

try:
    import happybase  # noqa: F401
except ModuleNotFoundError:
    HAPPYBASE = False
else:
    HAPPYBASE = True

MOVES = {"hoodie.hbase.index.update.partition.path": True}
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
MANUAL = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
ONE_FILE = {"hoodie.parquet.max.file.size": 100_000_000}
TYPES: dict[str, dict[str, Any]] = {"copy-on-write": {}, "merge-on-read": MERGE_ON_READ}
#: what HBase is asked for does not depend on the type of the table
MOSTLY = pytest.mark.parametrize("kind", crossed_but({"merge-on-read"}, TYPES))


@pytest.fixture
def hbase() -> Iterator[MemoryHBase]:
    require(HAPPYBASE, "no happybase; scripts/setup installs it")
    with MemoryHBase() as server:
        yield server


def _rows(*rows: tuple[str, str, int]) -> pa.Table:
    made = [{"id": key, "ts": value, "region": region, "val": value} for key, region, value in rows]
    return pa.Table.from_pylist(made, SCHEMA)


class Written:
    """A table that is written with the index."""

    def __init__(self, path: Path, hbase: MemoryHBase, **more: Any) -> None:
        self.path = str(path)
        self.options = {**OPTIONS, **MANUAL, **hbase.options, **more}
        self.plain = {**OPTIONS, **MANUAL, **more}

    def write(self, *rows: tuple[str, str, int], operation: str = "upsert", **more: Any) -> Any:
        return self.write_by(self.options | more, *rows, operation=operation)

    def write_by(
        self, options: dict[str, Any], *rows: tuple[str, str, int], operation: str = "upsert"
    ) -> Any:
        return hoodie.write_table(_rows(*rows), self.path, operation=operation, options=options)

    def die(self, *rows: tuple[str, str, int], operation: str = "upsert", **more: Any) -> None:
        """A write that ends when it is to publish."""

        def published(change: Change) -> bool:
            name = change.path.rpartition("/")[2]
            return (
                change.name == "create"
                and name.endswith(("commit", "deltacommit"))
                and "inflight" not in name
            )

        die_at(Path(self.path), lambda path: self.write(*rows, operation=operation, **more), published)

    def values(self) -> dict[str, list[tuple[str, int]]]:
        """(partition, value) by key: a key that is there twice has two."""
        found: dict[str, list[tuple[str, int]]] = {}
        for row in hoodie.read_table(self.path, meta=True).to_pylist():
            found.setdefault(row["id"], []).append((row["_hoodie_partition_path"], row["val"]))
        return found


@MOSTLY
def test_entries_are_those_of_apache_hudi(tmp_path: Path, hbase: MemoryHBase, kind: dict[str, Any]) -> None:
    """An update leaves the entry as it is, as in Apache Hudi; a delete takes it out."""
    table = Written(tmp_path / "t", hbase, **kind)
    first = table.write(("a", "eu", 1), ("b", "us", 1)).instant
    ids = {group["partition"]: group["file_id"] for group in hoodie.file_groups(table.path)}
    entries = {"a": (first, ids["eu"], "eu"), "b": (first, ids["us"], "us")}
    assert hbase.places() == entries
    result = table.write(("a", "eu", 2), ("c", "eu", 2))
    assert (result.num_updates, result.num_inserts) == (1, 1)
    assert {key: hbase.places()[key] for key in "ab"} == entries
    assert hbase.places()["c"][0] == result.instant
    gone = table.write(("a", "eu", 3), ("x", "eu", 3), operation="delete")
    assert (gone.num_deletes, gone.num_missing) == (1, 1)
    assert set(hbase.places()) == {"b", "c"}
    assert table.values() == {"b": [("us", 1)], "c": [("eu", 2)]}


@pytest.mark.parametrize(
    ("kind", "moves"),
    crossed_but({"copy-on-write-moves", "merge-on-read-stays"}, TYPES, {"moves": True, "stays": False}),
)
def test_a_record_whose_partition_changes(
    tmp_path: Path, hbase: MemoryHBase, kind: dict[str, Any], moves: bool
) -> None:
    table = Written(tmp_path / "t", hbase, **kind, **dict.fromkeys(MOVES, moves))
    table.write(("a", "eu", 1), ("b", "eu", 1))
    result = table.write(("a", "us", 2))
    assert (result.num_deletes, result.num_inserts, result.num_updates) == ((1, 1, 0) if moves else (0, 0, 1))
    home = "us" if moves else "eu"
    assert (hbase.places()["a"][2], table.values()["a"]) == (home, [(home, 2)])
    table.write(("a", "us", 3))
    assert table.values() == {"a": [(home, 3)], "b": [("eu", 1)]}


@pytest.mark.parametrize(
    ("kind", "sync"),
    crossed_but({"copy-on-write-sync", "merge-on-read-left"}, TYPES, {"sync": True, "left": False}),
)
def test_a_write_that_is_not_published_moves_and_deletes_nothing(
    tmp_path: Path, hbase: MemoryHBase, kind: dict[str, Any], sync: bool
) -> None:
    """Its entries are there, and the next write finds where the records still are; also twice."""
    table = Written(tmp_path / "t", hbase, **kind, **MOVES)
    table.options["hoodie.index.hbase.rollback.sync"] = sync
    table.write(("a", "eu", 1), ("b", "eu", 1), ("c", "us", 1))
    before = hbase.places()
    for _ in range(2):
        table.die(("a", "us", 2), ("new", "us", 2))
        assert (hbase.places() == before) == sync, "they are withdrawn when the storage is dead, too"
        table.die(("b", "eu", 2), operation="delete")
    result = table.write(("a", "us", 3), ("b", "eu", 3), ("new", "us", 3))
    assert (result.num_updates, result.num_deletes, result.num_inserts) == (1, 1, 2)
    expected = {"a": [("us", 3)], "b": [("eu", 3)], "c": [("us", 1)], "new": [("us", 3)]}
    assert table.values() == expected


def test_what_a_killed_process_left_to_do_is_done_by_the_next_one(
    tmp_path: Path, hbase: MemoryHBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill behind the publishing leaves the entries of deleted keys, and those that were kept."""
    table = Written(tmp_path / "t", hbase, **MOVES)
    table.write(("a", "eu", 1), ("b", "eu", 1))
    with monkeypatch.context() as patch:
        patch.setattr("hoodie.index.hbase.follow.Following.published", lambda self, commit: None)
        table.write(("a", "eu", 2), operation="delete")
    assert set(hbase.places()) == {"a", "b"}
    with monkeypatch.context() as patch:
        patch.setattr("hoodie.index.hbase.follow.Following.published", lambda self, commit: None)
        table.write(("b", "us", 3))
    assert b"_s:before_file_name" in hbase.rows[b"b"]
    assert table.write(("a", "us", 4)).num_inserts == 1
    assert hbase.places()["a"][2] == "us"
    assert b"_s:before_file_name" not in hbase.rows[b"b"]
    assert table.values() == {"a": [("us", 4)], "b": [("us", 3)]}


@pytest.mark.parametrize(
    ("kind", "sync"),
    crossed_but({"copy-on-write-left", "merge-on-read-sync"}, TYPES, {"sync": True, "left": False}),
)
def test_a_write_that_is_withdrawn_moves_nothing(
    tmp_path: Path, hbase: MemoryHBase, kind: dict[str, Any], sync: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HBase fails once it has the entries: nothing is rolled back, as the write itself undoes what it did."""
    table = Written(tmp_path / "t", hbase, **kind, **MOVES)
    table.options["hoodie.index.hbase.rollback.sync"] = sync
    table.write(("a", "eu", 1), ("b", "us", 1))
    before = hbase.places()
    written = hbase.mutateRows

    def fail(name: bytes, batches: list[Any], attributes: Any) -> None:
        if any(batch.row.startswith(b"\0") for batch in batches):
            raise hbase._types.IOError(message=b"busy")
        written(name, batches, attributes)

    for region in ("us", "apac"):
        with monkeypatch.context() as patch:
            patch.setattr(hbase, "mutateRows", fail)
            with pytest.raises(StorageError, match="could not write the index"):
                table.write(("a", region, 2), ("new", region, 2))
        assert (hbase.places() == before) == sync
    assert len(hoodie.instants(table.path)) == 1
    result = table.write(("a", "apac", 3), ("new", "us", 3))
    assert (result.num_inserts, result.num_deletes) == (2, 1)
    assert table.values() == {"a": [("apac", 3)], "b": [("us", 1)], "new": [("us", 3)]}


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES.values(), ids=list(TYPES))
def test_a_kill_before_or_after_any_request(
    tmp_path: Path, hbase: MemoryHBase, kind: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Written(tmp_path / "made", hbase, **kind, **MOVES)
    table.write(("a", "eu", 1), ("b", "eu", 1), ("c", "us", 1))
    entered = copy.deepcopy(hbase.rows)
    requests = Client._requests
    states = [table.values()]
    for step in itertools.count():
        killed = Written(tmp_path / str(step), hbase, **kind, **MOVES)
        shutil.copytree(table.path, killed.path)
        hbase.rows = copy.deepcopy(entered)

        def work(killed: Written = killed, step: int = step) -> None:
            left = itertools.count(step, -1)

            @contextlib.contextmanager
            def counted(client: Client, *what: Any) -> Iterator[None]:
                if next(left) == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                with requests(client, *what):
                    yield
                if next(left) == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

            monkeypatch.setattr(Client, "_requests", counted)
            killed.write(("a", "us", 2), ("n", "us", 2), ("c", "us", 2))
            killed.write(("b", "eu", 3), ("c", "us", 3), operation="delete")

        ended = forked(work)
        found = killed.values()
        if found not in states:
            states.append(found)
        killed.write(*[(key, "apac", 9) for key in found])
        assert killed.values() == {key: [("apac", 9)] for key in found}, step
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
    before = {"a": [("eu", 1)], "b": [("eu", 1)], "c": [("us", 1)]}
    moved = {"a": [("us", 2)], "b": [("eu", 1)], "c": [("us", 2)], "n": [("us", 2)]}
    assert states == [before, moved, {key: moved[key] for key in "an"}]
    assert step > 20


def _by_another_index(table: Written) -> None:
    table.write_by(table.plain, ("a", "eu", 5), ("n", "us", 5))
    table.write_by(table.plain, ("b", "eu", 5), operation="delete")


def _bulk_insert(table: Written) -> None:
    table.write_by(table.plain, ("n", "us", 5), operation="bulk_insert")


def _cluster(table: Written) -> None:
    few = {"hoodie.clustering.plan.strategy.small.file.limit": "100000000"}
    assert hoodie.cluster_table(table.path, options=few).clustered


def _compact(table: Written) -> None:
    hoodie.compact_table(table.path, options={"hoodie.compact.inline.max.delta.commits": "1"})


def _roll_back(table: Written) -> None:
    """Of a commit that had moved and deleted records."""
    table.write(("a", "us", 5), ("m", "us", 5))
    hoodie.rollback_table(table.path, hoodie.instants(table.path)[-1]["instant"])
    table.write(("b", "eu", 5), operation="delete")
    hoodie.rollback_table(table.path, hoodie.instants(table.path)[-1]["instant"])


def _restore(table: Written) -> None:
    point = hoodie.instants(table.path)[-1]["instant"]
    table.write(("a", "us", 5))
    table.write(("a", "apac", 6), ("b", "us", 6))
    table.write(("c", "us", 7), ("a", "us", 7), operation="delete")
    hoodie.restore_table(table.path, point)


def _overwrite_and_back(table: Written) -> None:
    point = hoodie.instants(table.path)[-1]["instant"]
    table.write(("a", "apac", 5), operation="insert_overwrite_table")
    table.write(("a", "us", 6))
    hoodie.restore_table(table.path, point)


CHANGES = [_by_another_index, _bulk_insert, _cluster, _roll_back, _restore, _overwrite_and_back]
#: a bulk insert is another write without the index, and one of these restores, too
KEPT = [_by_another_index, _cluster, _roll_back, _overwrite_and_back]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        *[(change, MERGE_ON_READ) for change in [*KEPT, _compact]],
        *[
            pytest.param(change, MERGE_ON_READ, marks=pytest.mark.full)
            for change in CHANGES
            if change not in KEPT
        ],
        *[pytest.param(change, {}, marks=pytest.mark.full) for change in CHANGES],
    ],
)
def test_a_table_that_changed_without_the_index(
    tmp_path: Path, hbase: MemoryHBase, kind: dict[str, Any], change: Any
) -> None:
    table = Written(tmp_path / "t", hbase, **kind, **MOVES)
    table.write(("a", "eu", 1), ("b", "eu", 1), ("c", "us", 1))
    table.write(("c", "us", 2), ("d", "us", 2), ("a", "eu", 2))
    change(table)
    known = table.values()
    assert all(len(places) == 1 for places in known.values())
    table.write(*[(key, "apac", 9) for key in known])
    assert table.values() == {key: [("apac", 9)] for key in known}
    gone = table.write(*[(key, "", 9) for key in known], operation="delete")
    assert (gone.num_deletes, gone.num_missing) == (len(known), 0)
    assert known.keys().isdisjoint(hbase.places())


@MOSTLY
def test_a_table_that_hbase_knows_nothing_of(
    tmp_path: Path, hbase: MemoryHBase, kind: dict[str, Any]
) -> None:
    """One of another index; and the index's table in HBase emptied, or another one."""
    table = Written(tmp_path / "t", hbase, **kind, **MOVES)
    table.write_by(table.plain, ("a", "eu", 1), ("b", "eu", 1), ("c", "us", 1))
    table.write_by(table.plain, ("a", "eu", 2), ("b", "eu", 2), operation="delete" if kind else "upsert")
    known = set(table.values())
    table.write(("c", "eu", 3))
    assert set(hbase.places()) == known
    hbase.rows.clear()
    table.write(("c", "us", 4))
    assert set(hbase.places()) == known
    assert table.values()["c"] == [("us", 4)]
    asked = len(hbase.requests)
    table.write(("c", "us", 5))
    assert len(hbase.requests) - asked < 12, "it is up to date"


def test_forged_entries_lead_nowhere(tmp_path: Path, hbase: MemoryHBase) -> None:
    """Of keys that the table does not have: they are new, whatever HBase says."""
    table = Written(tmp_path / "t", hbase)
    first = table.write(("a", "eu", 1)).instant.encode()
    place = next(item for item in hoodie.file_groups(table.path) if item["partition"] == "eu")
    file_id = place["file_id"].encode()
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/f-0_0-0-0_1.parquet").write_text("precious")
    forged = [
        (b"../victim", b"f-0", first),
        (b"eu", b"../../victim/f-0", first),
        (b"eu", file_id, b"../../victim"),
        (b"eu", file_id, first),
        (b"\xff\xfe", b"\0", b"\xff"),
        (b"e" * (1 << 20), b"f" * (1 << 20), b"9" * 5000),
        (b"", b"", b""),
    ]
    for number, (partition, name, instant) in enumerate(forged):
        cells = {b"_s:partition_path": partition, b"_s:file_name": name, b"_s:commit_ts": instant}
        before = {b"_s:before_" + column.removeprefix(b"_s:"): value for column, value in cells.items()}
        row = {column: [(1, value)] for column, value in (cells | before).items()}
        hbase.rows[f"n{number}".encode()] = row
    new = [(f"n{number}", "us", 2) for number in range(len(forged))]
    done = table.write(*new, ("a", "eu", 3))
    assert (done.num_inserts, done.num_updates) == (len(forged), 1)
    assert table.values() == {"a": [("eu", 3)], **{key: [("us", 2)] for key, *_ in new}}
    assert [path.read_text() for path in (tmp_path / "victim").iterdir()] == ["precious"]


def test_marks_of_archived_instants_go(tmp_path: Path, hbase: MemoryHBase) -> None:
    table = Written(tmp_path / "t", hbase)
    table.options |= {"hoodie.keep.min.commits": 3, "hoodie.keep.max.commits": 4}
    table.options |= {"hoodie.archive.automatic": "true", "hoodie.cleaner.commits.retained": 2}
    table.options |= {"hoodie.clean.automatic": "true"}
    for version in range(9):
        table.write(("a", "eu", version))
    marks = [key for key in hbase.rows if key.startswith(b"\0")]
    assert 0 < len(marks) <= 6
    assert table.values() == {"a": [("eu", 8)]}


def test_keys_of_any_text(tmp_path: Path, hbase: MemoryHBase) -> None:
    keys = ["日本", "a:b,c", " ", "\U0001d11e", "x" * 5000]
    table = Written(tmp_path / "t", hbase)
    table.write(*[(key, "eu", 1) for key in keys])
    assert table.write(*[(key, "us", 2) for key in keys]).num_updates == len(keys)
    assert set(hbase.places()) == set(keys)
    with pytest.raises(InputError, match=r"a record key of 40000 bytes, 'z+'…, can't be a row key of HBase"):
        table.write(("z" * 40_000, "eu", 1))
    assert len(hoodie.instants(table.path)) == 2


def test_keys_are_asked_for_in_batches(tmp_path: Path, hbase: MemoryHBase) -> None:
    table = Written(tmp_path / "t", hbase)
    table.options |= {"hoodie.index.hbase.get.batch.size": 40, "hoodie.index.hbase.put.batch.size": 25}
    table.options |= ONE_FILE
    rows = [(f"k{number}", "eu", 1) for number in range(100)]
    table.write(*rows)
    assert [count for what, count in hbase.requests if what == "put" and count > 1] == [25] * 4
    hbase.requests.clear()
    table.write(*rows)
    assert [count for what, count in hbase.requests if what == "get" and count > 2] == [40, 40, 20]


def test_autocompute_writes_what_the_region_servers_may_be_given(
    tmp_path: Path, hbase: MemoryHBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("hoodie.index.hbase.client.time.sleep", waits.append)
    monkeypatch.setattr(hbase, "servers", 3)
    table = Written(tmp_path / "t", hbase)
    table.options |= {
        **ONE_FILE,
        "hoodie.index.hbase.put.batch.size.autocompute": True,
        "hoodie.index.hbase.max.qps.per.region.server": 20,
        "hoodie.index.hbase.qps.fraction": 0.5,
    }
    table.write(*[(f"k{number}", "eu", 1) for number in range(70)])
    assert [count for what, count in hbase.requests if what == "put" and count > 1] == [30, 30, 10]
    assert sum(wait > 0.5 for wait in waits) == 2, "the marks that follow wait for ten rows"


def test_an_index_is_pickled_to_executors(hbase: MemoryHBase) -> None:
    index: Any = index_for(Config.of(hbase.options))
    assert pickle.loads(pickle.dumps(index)) == index


def test_rows_that_are_there_are_dropped_or_refused(tmp_path: Path, hbase: MemoryHBase) -> None:
    table = Written(tmp_path / "t", hbase, **MERGE_ON_READ)
    table.write(("a", "eu", 1), ("b", "eu", 1))
    table.write(("b", "eu", 2), operation="delete")
    drop = {"hoodie.datasource.write.insert.drop.duplicates": True}
    table.write(("a", "us", 3), ("b", "us", 3), ("c", "us", 3), operation="insert", **drop)
    assert table.values() == {"a": [("eu", 1)], "b": [("us", 3)], "c": [("us", 3)]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"hoodie.index.hbase.thrift.host": ""},
            r"needs hoodie\.index\.hbase\.thrift\.host; set it to the host",
        ),
        (
            {"hoodie.index.hbase.thrift.host": "", "hoodie.index.hbase.zkquorum": "zk1,zk2"},
            r"thrift\.host: hoodie\.index\.hbase\.zkquorum is for HBase's Java client",
        ),
        ({"hoodie.index.hbase.table": ""}, r"needs hoodie\.index\.hbase\.table; set it to the table"),
        ({"hoodie.index.hbase.thrift.port": "0"}, "must be from 1 to 65535"),
        ({"hoodie.index.hbase.thrift.transport": "http"}, "expected one of BUFFERED, FRAMED"),
        ({"hoodie.index.hbase.qps.fraction": "1.5"}, "greater than 0, and at most 1"),
        ({"hoodie.index.hbase.get.batch.size": "0"}, "must be at least 1"),
        ({"hoodie.index.hbase.security.authentication": "kerberos"}, "without Kerberos"),
    ],
)
def test_settings_that_do_not_lead_to_hbase(tmp_path: Path, options: dict[str, str], message: str) -> None:
    given = {"hoodie.index.type": "HBASE", "hoodie.index.hbase.table": "index"}
    given |= {"hoodie.index.hbase.thrift.host": "127.0.0.1", **options}
    with pytest.raises(ConfigError, match=message):
        hoodie.write_table(_rows(("a", "eu", 1)), str(tmp_path / "t"), options={**OPTIONS, **given})
    assert not (tmp_path / "t").exists()


def test_zookeeper_beside_a_thrift_server_has_no_effect(tmp_path: Path, hbase: MemoryHBase) -> None:
    table = Written(tmp_path / "t", hbase)
    result = table.write(("a", "eu", 1), **{"hoodie.index.hbase.zkquorum": "zk1"})
    assert any("without effect here: hoodie.index.hbase.zkquorum" in text for text in result.warnings)


def test_a_table_that_hbase_does_not_have(tmp_path: Path, hbase: MemoryHBase) -> None:
    table = Written(tmp_path / "t", hbase)
    with pytest.raises(ConfigError, match=r"has no table 'other' .* create 'other', '_s'"):
        table.write(("a", "eu", 1), **{"hoodie.index.hbase.table": "other"})
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("operation", full_but({"upsert"}, ["upsert", "insert", "delete"]))
def test_a_server_that_is_not_there(tmp_path: Path, hbase: MemoryHBase, operation: str) -> None:
    table = Written(tmp_path / "t", hbase)
    table.write(("a", "eu", 1))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(
        StorageError, match=rf"127\.0\.0\.1:{port} could not connect .* Check that it runs"
    ) as error:
        table.write(("a", "eu", 2), operation=operation, **{"hoodie.index.hbase.thrift.port": port})
    assert error.value.transient
    assert error.value.values["port"] == port
    assert (len(hoodie.instants(table.path)), Timeline.load(table.path).pending()) == (1, [])
    table.write(("a", "eu", 3))
    assert table.values() == {"a": [("eu", 3)]}


def test_a_server_that_does_not_answer(tmp_path: Path, hbase: MemoryHBase) -> None:
    table = Written(tmp_path / "t", hbase)
    table.write(("a", "eu", 1))
    hbase.sleeps = 30
    began = time.monotonic()
    with pytest.raises(StorageError, match=r"no answer within 300 ms, see .*zk\.session_timeout_ms"):
        table.write(("a", "eu", 2), **{"hoodie.index.hbase.zk.session_timeout_ms": "300"})
    assert time.monotonic() - began < 20
    hbase.sleeps = 0
    assert (len(hoodie.instants(table.path)), Timeline.load(table.path).pending()) == (1, [])


def test_a_server_that_fails_before_the_commit_is_published(
    tmp_path: Path, hbase: MemoryHBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Written(tmp_path / "t", hbase)
    table.write(("a", "eu", 1))

    def fail(*args: object) -> None:
        raise hbase._types.IOError(message=b"org.apache.hadoop.hbase.RegionTooBusyException: busy\n\tat x")

    with monkeypatch.context() as patch:
        patch.setattr(hbase, "mutateRows", fail)
        with pytest.raises(
            StorageError, match=r"could not write the index \('index'\): .*RegionTooBusy.*: busy\. "
        ):
            table.write(("a", "eu", 2), ("b", "eu", 2))
    assert table.values() == {"a": [("eu", 1)]}
    assert Timeline.load(table.path).pending() == []
    table.write(("a", "us", 3), ("b", "eu", 3))
    assert table.values() == {"a": [("eu", 3)], "b": [("eu", 3)]}


def test_a_server_that_is_none_of_hbase(tmp_path: Path) -> None:
    require(HAPPYBASE, "no happybase; scripts/setup installs it")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            for _ in range(2):
                connection, _ = server.accept()
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 20)
                    time.sleep(0.2)

        thread = threading.Thread(target=answer)
        thread.start()
        options = {"hoodie.index.type": "HBASE", "hoodie.index.hbase.table": "index"}
        options |= {"hoodie.index.hbase.thrift.host": "127.0.0.1"}
        with pytest.raises(StorageError, match=r"thrift\.protocol are its own"):
            hoodie.write_table(
                _rows(("a", "eu", 1)),
                str(tmp_path / "t"),
                options={
                    **OPTIONS,
                    **options,
                    "hoodie.index.hbase.thrift.port": server.getsockname()[1],
                    "hoodie.index.hbase.zk.session_timeout_ms": 2000,
                },
            )
        thread.join()


def test_the_library_is_asked_for_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "happybase", None)
    options = {"hoodie.index.type": "HBASE", "hoodie.index.hbase.table": "index"}
    options |= {"hoodie.index.hbase.thrift.host": "127.0.0.1"}
    with pytest.raises(HoodieError, match="pip install happybase where the driver and the executors"):
        hoodie.write_table(_rows(("a", "eu", 1)), str(tmp_path / "t"), options={**OPTIONS, **options})
    assert not (tmp_path / "t").exists()
