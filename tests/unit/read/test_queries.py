"""Snapshot, read-optimized, incremental and time travel queries, and what they refuse."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.codec.avro import write_record
from hoodie.errors import ConfigError, StateUnavailable, TableBusy, TableError
from hoodie.read.query import Query, QueryType
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.time import InstantTime
from tests.support.stores import after, publish, store_at, timeline_at
from tests.unit.read.support import GROUP, STORAGE, LogTable, Row, data, deletes, moment
from tests.unit.write.support import PLAIN, plain

HOLES = "hoodie.read.timeline.holes.resolution.policy"
EVENT_TIME = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"


def row(key: str, ts: int, a: str) -> Row:
    return {"key": key, "ts": ts, "a": a, "b": None, "c": None, "_hoodie_is_deleted": None}


@pytest.fixture
def cow(tmp_path: Path) -> tuple[str, list[str]]:
    """Three commits: a, b; b and c; a again, later but of an older time."""
    path = str(tmp_path / "cow")
    batches = [
        [("a", 5, "a1"), ("b", 1, "b1")],
        [("b", 2, "b2"), ("c", 2, "c2")],
        [("c", 3, "c3"), ("a", 4, "late")],
    ]
    return path, [hoodie.write_table(plain(*rows), path, options=PLAIN).instant for rows in batches]


@pytest.fixture
def mor(tmp_path: Path) -> LogTable:
    """A base file of x and y; then x updated; y deleted and z inserted; x again, of an older time, and w."""
    table = LogTable(tmp_path / "mor", EVENT_TIME)
    table.base_file([row("x", 1, "x1"), row("y", 1, "y1")])
    for number in (2, 3, 4):
        table.instant(number)
    table.log(data(2, [row("x", 5, "x2")]))
    table.log(data(3, [row("z", 1, "z3")]), deletes(3, ["y"]))
    table.log(data(4, [row("x", 2, "late"), row("w", 1, "w4")]))
    return table


def answer(path: str, value: str, **query: Any) -> list[str]:
    return sorted(hoodie.read_table(path, columns=[value], **query)[value].to_pylist())


# --- copy on write -----------------------------------------------------------------------------------


def test_incremental_of_copy_on_write(cow: tuple[str, list[str]]) -> None:
    path, instants = cow
    first, second, third = (after(path, instant) for instant in instants)
    assert answer(path, "val", begin=first) == ["b2", "c3"]
    assert answer(path, "val", begin=first, end=second) == ["b2", "c2"]
    assert answer(path, "val", begin=second) == ["c3"]
    assert answer(path, "val", begin=third) == []
    for earliest in ("000", "earliest"):
        assert answer(path, "val", begin=earliest) == ["a1", "b2", "c3"]
        assert answer(path, "val", begin=earliest, end=first) == ["a1", "b1"]
    assert answer(path, "val", begin=first, where="id > 'b'") == ["c3"]


def test_time_travel_of_copy_on_write(cow: tuple[str, list[str]]) -> None:
    path, (first, second, third) = cow
    assert answer(path, "val", as_of=first) == ["a1", "b1"]
    assert answer(path, "val", as_of=second, query="time_travel") == ["a1", "b2", "c2"]
    assert answer(path, "val", as_of=second, where="ts = 2") == ["b2", "c2"]
    assert answer(path, "val", as_of=third) == answer(path, "val") == answer(path, "val", as_of="9999-12-31")
    seconds = f"{second[:4]}-{second[4:6]}-{second[6:8]} {second[8:10]}:{second[10:12]}:{second[12:14]}"
    assert answer(path, "val", as_of=f"{seconds}.{second[14:]}") == ["a1", "b2", "c2"]
    assert answer(path, "val", query="read_optimized") == ["a1", "b2", "c3"]


def test_columns_of_their_time(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    first = hoodie.write_table(plain(("a", 1, "x")), path, options=PLAIN).instant
    wider = plain(("b", 1, "y")).append_column("more", [[1]])
    hoodie.write_table(wider, path, options=PLAIN)
    assert "more" not in hoodie.read_table(path, as_of=first).column_names
    assert hoodie.read_table(path, begin="000", end=after(path, first), meta=False).to_pylist() == [
        {"id": "a", "ts": 1, "val": "x", "more": None}
    ]


def test_what_was_replaced_is_seen_before_only(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    first = hoodie.write_table(plain(("a", 1, "old")), path, options=PLAIN).instant
    (group,) = hoodie.file_groups(path)
    time = str(int(first) + 1)
    replaced = ReplaceCommitMetadata(partition_to_replace_file_ids={"": (group["file_id"],)})
    publish(path, Instant(InstantTime(time), Action.REPLACECOMMIT, State.COMPLETED), replaced)
    last = hoodie.write_table(plain(("a", 2, "new")), path, options=PLAIN).instant
    assert answer(path, "val") == ["new"]
    assert answer(path, "val", as_of=first) == ["old"]
    assert answer(path, "val", as_of=time) == []
    since, until = after(path, first), after(path, last)
    assert answer(path, "val", begin=since) == answer(path, "val", begin="000") == ["new"]
    assert answer(path, "val", begin="000", end=since) == ["old"]
    assert answer(path, "val", begin=after(path, time), end=until) == ["new"]


# --- merge on read -----------------------------------------------------------------------------------


def test_queries_of_merge_on_read(mor: LogTable) -> None:
    path = mor.path
    assert answer(path, "a") == ["w4", "x2", "z3"]
    assert answer(path, "a", query="read_optimized") == ["x1", "y1"]
    assert answer(path, "a", as_of=moment(1)) == ["x1", "y1"]
    assert answer(path, "a", as_of=moment(3)) == ["x2", "z3"]
    assert answer(path, "a", begin=moment(1)) == ["w4", "x2", "z3"]
    assert answer(path, "a", begin=moment(1), end=moment(2)) == ["x2"]
    assert answer(path, "a", begin=moment(2), end=moment(3)) == ["z3"]
    assert answer(path, "a", where="key > 'w'") == ["x2", "z3"]
    assert answer(path, "a", begin=moment(2), where="ts = 1 AND b IS NULL") == ["w4", "z3"]


def test_an_older_row_in_a_log_is_no_change(mor: LogTable) -> None:
    """Merged with what was stored before the period, it changes nothing, as in copy-on-write tables."""
    assert answer(mor.path, "a", begin=moment(3)) == ["w4"]


def test_commit_time_ordering_needs_no_base_file_for_a_period(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t")
    name = table.base_file([row("x", 9, "x1"), row("y", 9, "y1")])
    table.instant(2)
    table.log(data(2, [row("x", 1, "x2")]), deletes(2, ["y"]))
    assert answer(table.path, "a") == ["x2"]
    (Path(table.path) / name).write_bytes(b"nobody looks at it")
    assert answer(table.path, "a", begin=moment(1)) == ["x2"]


def test_a_tiny_budget_gives_the_same_rows(mor: LogTable, tmp_path: Path) -> None:
    rows = [row(f"k{number}", 1, "x" * 100) for number in range(3000)]
    mor.log(data(5, rows))
    mor.instant(5)
    options = {
        "hoodie.memory.merge.max.size": 1 << 16,
        "hoodie.memory.spillable.map.path": str(tmp_path / "spill"),
    }
    got = answer(mor.path, "key", options=options)
    assert got == answer(mor.path, "key")
    assert len(got) == 3003
    assert list((tmp_path / "spill").iterdir()) == []


def test_a_pending_compaction(mor: LogTable) -> None:
    """Rows written after it was planned are in logs of its instant; they are read on top of the old slice."""
    operation = {"partitionPath": "", "fileId": GROUP, "baseInstantTime": moment(1)}
    plan = write_record("HoodieCompactionPlan", {"operations": [operation], "version": 2})
    store_at(mor.path).create(Instant(InstantTime(moment(5)), Action.COMPACTION, State.REQUESTED), plan)
    mor.instant(6)
    mor.base = 5
    mor.log(data(6, [row("x", 6, "x6")]), version=1)
    assert answer(mor.path, "a") == ["w4", "x6", "z3"]
    assert answer(mor.path, "a", query="read_optimized") == ["x1", "y1"]
    assert answer(mor.path, "a", as_of=moment(4)) == ["w4", "x2", "z3"]
    assert answer(mor.path, "a", begin=moment(4)) == ["x6"]


def test_the_payload_class_of_the_table_merges_its_logs(tmp_path: Path) -> None:
    for payload, expected in ((None, "late"), (EVENT_TIME, "x1")):
        table = LogTable(tmp_path / str(payload), payload)
        table.base_file([row("x", 5, "x1")])
        table.instant(2)
        table.log(data(2, [row("x", 1, "late")]))
        assert answer(table.path, "a") == [expected]


def test_an_unknown_payload_class(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", "com.example.Mine")
    table.base_file([row("x", 5, "x1")])
    assert answer(table.path, "a") == ["x1"]
    table.log(data(0, [row("x", 1, "late")]))
    with pytest.raises(ConfigError, match=r"'com.example.Mine' is no payload known here"):
        answer(table.path, "a")
    assert answer(table.path, "a", query="read_optimized") == ["x1"]
    with pytest.raises(ConfigError, match=r"merged by com.example.Mine; leave it out"):
        answer(table.path, "a", options={"hoodie.datasource.write.payload.class": "event_time"})


def test_logs_without_record_keys(mor: LogTable) -> None:
    properties.update(STORAGE, mor.path, {properties.POPULATE_META_FIELDS: "false"})
    with pytest.raises(TableError, match="has log files and keeps no record keys"):
        answer(mor.path, "a")
    assert answer(mor.path, "a", query="read_optimized") == ["x1", "y1"]


def test_a_change_log(mor: LogTable) -> None:
    fields = [{"name": name, "type": ["null", "string"]} for name in ("_hoodie_operation", "key")]
    schema = {"type": "record", "name": "t", "fields": fields}
    store_at(mor.path).create(
        Instant(InstantTime(moment(5)), Action.DELTACOMMIT, State.COMPLETED),
        CommitMetadata(extra_metadata={"schema": json.dumps(schema)}).to_json(),
    )
    with pytest.raises(TableError, match="has log files and keeps a change log"):
        answer(mor.path, "key")


# --- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"query": "nope"},
            "unknown query 'nope'; use one of snapshot, read_optimized, incremental, time_tr",
        ),
        ({"query": "incremental"}, "an incremental query needs begin"),
        ({"query": "time_travel"}, "a time travel query needs as_of"),
        ({"end": "20240101000000000"}, "an incremental query needs begin"),
        ({"query": "snapshot", "begin": "000"}, "begin belongs to a query of type incremental, not snapshot"),
        ({"query": "read_optimized", "as_of": "2024-01-01"}, "as_of belongs to a query of type time_travel"),
        ({"begin": "000", "as_of": "2024-01-01"}, "as_of belongs to a query of type time_travel, not incr"),
        ({"begin": "2024-01-02", "end": "2024-01-01"}, "begin 2024-01-02 is later than end 2024-01-01"),
        ({"as_of": "yesterday"}, "as_of 'yesterday' is no point in time; write an instant"),
        ({"as_of": "2024-13-01"}, "is no point in time"),
        ({"begin": "2024"}, "is no point in time"),
        ({"as_of": "20240101"}, "is no point in time"),
        ({"as_of": "99999999999999999"}, "is no point in time"),
    ],
)
def test_queries_that_make_no_sense(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Query.of(**given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("20240102030405", "20240102030405000", "20240102030405999"),
        ("20240102030405678", "20240102030405678", "20240102030405678"),
        ("2024-01-02", "20240102000000000", "20240102000000000"),
        ("2024-01-02 03:04:05", "20240102030405000", "20240102030405999"),
        ("2024-01-02T03:04:05.678", "20240102030405678", "20240102030405678"),
    ],
)
def test_points_in_time(text: str, begin: str, end: str) -> None:
    """A time without milliseconds includes its second, at either end."""
    assert Query.of(begin=text, end=text) == Query(
        QueryType.INCREMENTAL, InstantTime(begin), InstantTime(end)
    )
    assert Query.of(as_of=text) == Query(QueryType.TIME_TRAVEL, as_of=InstantTime(end))


def test_names_of_queries_are_forgiving() -> None:
    assert Query.of("Read-Optimized").type is QueryType.READ_OPTIMIZED
    assert Query.of().type is QueryType.SNAPSHOT


def test_before_the_first_commit(cow: tuple[str, list[str]]) -> None:
    path, (first, *_) = cow
    with pytest.raises(StateUnavailable, match=f"begins with commit {first}; ask for that time") as caught:
        hoodie.read_table(path, as_of="2001-01-01")
    assert caught.value.values["earliest"] == first
    assert answer(path, "val", begin="2001-01-01") == ["a1", "b2", "c3"]


@pytest.mark.table_version(6)
def test_a_begin_before_what_was_archived(cow: tuple[str, list[str]]) -> None:
    path, (first, second, _) = cow
    for state in State:
        LocalStorage().delete(f"{path}/.hoodie/{ONE.name(Instant(InstantTime(first), Action.COMMIT, state))}")
    (Path(path) / ".hoodie" / "archived" / ".commits_.archive.1_1-0-1").write_bytes(b"")
    for begin in (first, "2001-01-01"):
        with pytest.raises(
            StateUnavailable, match=f"begins with commit {second}; older commits are archived"
        ):
            hoodie.read_table(path, begin=begin)
    assert answer(path, "val", begin=second) == ["c3"]
    assert answer(path, "val", begin="earliest") == ["a1", "b2", "c3"]


def test_what_the_cleaner_took(cow: tuple[str, list[str]]) -> None:
    path, (first, second, third) = cow
    cleaned = {
        "startCleanTime": str(int(third) + 1),
        "timeTakenInMillis": 1,
        "totalFilesDeleted": 1,
        "earliestCommitToRetain": second,
        "lastCompletedCommitTimestamp": third,
        "partitionMetadata": {},
    }
    clean = Instant(InstantTime(str(int(third) + 1)), Action.CLEAN, State.COMPLETED)
    store_at(path).create(clean, write_record("HoodieCleanMetadata", cleaned))
    with pytest.raises(StateUnavailable, match=f"files are complete from {second} on"):
        hoodie.read_table(path, as_of=first)
    assert answer(path, "val", as_of=second) == ["a1", "b2", "c2"]
    assert answer(path, "val", begin="000") == ["a1", "b2", "c3"]
    # the state of a savepoint stays, whatever the cleaner says
    store_at(path).create(Instant(InstantTime(first), Action.SAVEPOINT, State.COMPLETED))
    assert answer(path, "val", as_of=first) == ["a1", "b1"]


def test_files_that_the_cleaner_took_without_saying_until_when(cow: tuple[str, list[str]]) -> None:
    """Where a number of versions is kept."""
    path, (first, second, third) = cow
    plan = {"earliestInstantToRetain": None, "policy": "KEEP_LATEST_FILE_VERSIONS"}
    clean = Instant(InstantTime(str(int(third) + 1)), Action.CLEAN, State.INFLIGHT)
    data_ = write_record("HoodieCleanerPlan", {**plan, "filesToBeDeletedPerPartition": {}})
    store_at(path).create(clean.with_state(State.REQUESTED), data_)
    assert answer(path, "val", as_of=first) == ["a1", "b1"]
    (gone,) = Path(path).glob(f"*_{first}.parquet")
    gone.unlink()
    queries: list[dict[str, Any]] = [{"as_of": first}, {"begin": "000", "end": after(path, first)}]
    for query in queries:
        with pytest.raises(StateUnavailable, match=f"before what the cleaner kept: {gone.name} is gone"):
            hoodie.read_table(path, **query)
    assert answer(path, "val", as_of=second) == ["a1", "b2", "c2"]


# --- writes in flight --------------------------------------------------------------------------------


def test_a_write_in_flight_before_a_commit(mor: LogTable) -> None:
    """Its rows may come later, so what is answered now would not be answered then."""
    STORAGE.delete(f"{mor.path}/.hoodie/{moment(3)}.deltacommit")
    mor.instant(3, State.INFLIGHT)
    queries: list[dict[str, Any]] = [{"begin": "000"}, {"begin": moment(1)}]
    queries += [{"as_of": moment(4)}, {"as_of": "2024-01-02"}]
    for query in queries:
        with pytest.raises(TableBusy, match=rf"write {moment(3)} is in flight.*commits up to {moment(2)}"):
            hoodie.read_table(mor.path, **query)
    options = {HOLES: "BLOCK"}
    assert answer(mor.path, "a", begin=moment(1), options=options) == ["x2"]
    assert answer(mor.path, "a", as_of=moment(4), options=options) == ["x2", "y1"]
    assert answer(mor.path, "a", begin=moment(1), end=moment(2)) == ["x2"]
    assert answer(mor.path, "a", as_of=moment(2)) == ["x2", "y1"]
    assert answer(mor.path, "a") == ["w4", "x2", "y1"]


def test_a_write_in_flight_at_the_very_time(mor: LogTable) -> None:
    """It is part of what was asked for."""
    STORAGE.delete(f"{mor.path}/.hoodie/{moment(3)}.deltacommit")
    mor.instant(3, State.INFLIGHT)
    queries: list[dict[str, Any]] = [{"as_of": moment(3)}, {"begin": moment(1), "end": moment(3)}]
    for query in queries:
        with pytest.raises(TableBusy, match=rf"write {moment(3)} is in flight"):
            hoodie.read_table(mor.path, **query)
    assert answer(mor.path, "a", as_of=moment(3), options={HOLES: "BLOCK"}) == ["x2", "y1"]


def test_the_newest_write_in_flight_is_no_hole(mor: LogTable) -> None:
    mor.instant(9, State.REQUESTED)
    assert answer(mor.path, "a", begin=moment(3)) == ["w4"]
    assert answer(mor.path, "a", as_of=moment(4)) == ["w4", "x2", "z3"]
    with pytest.raises(TableBusy, match=f"write {moment(9)} is in flight"):
        hoodie.read_table(mor.path, as_of="2024-01-02")


def test_pending_clustering_is_no_hole(mor: LogTable) -> None:
    plan: dict[str, Any] = {
        "clusteringPlan": {"inputGroups": [], "strategy": None, "extraMetadata": None, "version": 1}
    }
    request = write_record("HoodieRequestedReplaceMetadata", {"operationType": "CLUSTER", **plan})
    time = moment(3)[:-3] + "299"
    store_at(mor.path).create(Instant(InstantTime(time), Action.REPLACECOMMIT, State.REQUESTED), request)
    assert Timeline.load(mor.path, STORAGE).pending()
    assert answer(mor.path, "a", begin=moment(3)) == ["w4"]


def test_an_unknown_policy(mor: LogTable) -> None:
    with pytest.raises(ConfigError, match="expected one of BLOCK, FAIL"):
        hoodie.read_table(mor.path, begin="000", options={HOLES: "USE_TRANSITION_TIME"})


# --- the beginning of the timeline -------------------------------------------------------------------


def test_cleans_older_than_all_commits_hide_no_archived_commit(cow: tuple[str, list[str]]) -> None:
    """Apache Hudi archives cleans apart from commits, so that older ones may be left."""
    path, (first, *_) = cow
    for file in timeline_at(path).glob(f"{first}*"):
        file.unlink()
    store_at(path).create(Instant(InstantTime("20010101000000000"), Action.CLEAN, State.COMPLETED))
    store_at(path).create(Instant(InstantTime("20010101000000001"), Action.ROLLBACK, State.COMPLETED))
    (file,) = Path(path).glob(f"*_{first}.parquet")
    for other in Path(path).glob("*.parquet"):
        if other != file:
            other.unlink()
    unverified = {"hoodie.read.verify.files": "false"}
    assert answer(path, "val", options=unverified) == ["a1", "b1"]


def test_a_commit_with_a_savepoint_may_be_older_than_archived_ones(cow: tuple[str, list[str]]) -> None:
    path, (first, second, third) = cow
    store_at(path).create(Instant(InstantTime(first), Action.SAVEPOINT, State.COMPLETED))
    assert Timeline.load(path, STORAGE).first_time == second
    for instant in (second, third):
        store_at(path).create(Instant(InstantTime(instant), Action.SAVEPOINT, State.COMPLETED))
    assert Timeline.load(path, STORAGE).first_time == first


# --- while it is read --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"query": "read_optimized"},
        {"begin": moment(2)},
        {"as_of": moment(2), "meta": False},
        {"where": "ts > 1", "columns": ["key", "ts"]},
        {"where": "ts > 100"},
        {"begin": moment(2), "where": "key = 'x'"},
    ],
)
def test_batches_hold_the_rows_of_the_table(mor: LogTable, query: dict[str, Any]) -> None:
    reader = hoodie.read_batches(mor.path, **query)
    whole = hoodie.read_table(mor.path, **query)
    assert reader.schema == whole.schema
    assert reader.read_all().to_pylist() == whole.to_pylist()


def test_batches_are_refused_before_they_are_read(mor: LogTable) -> None:
    for wrong in ({"where": "nothing > 1"}, {"columns": ["nothing"]}, {"query": "fastest"}):
        with pytest.raises(ConfigError, match=r"nothing|fastest"):
            hoodie.read_batches(mor.path, **wrong)


def test_a_damaged_file_is_told_when_it_is_reached(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    options = PLAIN | {"hoodie.datasource.write.partitionpath.field": "val"}
    hoodie.write_table(plain(("a", 1, "p1"), ("b", 1, "p2")), path, options=options)
    [file] = Path(path, "p2").glob("*.parquet")
    file.write_bytes(b"PAR1 no file PAR1")
    with pytest.raises(TableError, match=file.name):
        hoodie.read_batches(path)
    batches = iter(hoodie.read_batches(path, options={"hoodie.read.verify.files": "false"}))
    assert next(batches).num_rows == 1
    with pytest.raises(TableError, match=file.name):
        next(batches)


def test_memory_holds_a_few_batches(tmp_path: Path) -> None:
    """While one waits for more, and to the end: three of forty file slices are read at a time."""
    path, rows = str(tmp_path / "t"), 30000
    table = pa.table(
        {
            "id": [f"{number:08d}" for number in range(rows)],
            "ts": pa.repeat(1, rows),
            "val": [f"p{number % 40}" for number in range(rows)],
            "text": [f"{number:01000d}" for number in range(rows)],
        }
    )
    options = PLAIN | {"hoodie.datasource.write.partitionpath.field": "val"}
    hoodie.write_table(table, path, options=options)
    del table
    before, most, found = pa.total_allocated_bytes(), 0, 0
    for batch in hoodie.read_batches(path):
        if not found:
            time.sleep(0.2)  # a reader that reads all ahead has the time to do so
        found += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    assert found == rows
    del batch
    before = pa.total_allocated_bytes()
    whole = hoodie.read_table(path)
    assert most < (pa.total_allocated_bytes() - before) * 0.4
    assert whole.num_rows == rows


def test_a_program_may_end_before_its_reader(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    options = PLAIN | {"hoodie.datasource.write.partitionpath.field": "val"}
    hoodie.write_table(plain(*[(str(n), 1, f"p{n}") for n in range(9)]), path, options=options)
    program = (
        "import hoodie, hoodie.read.arrow as arrow\n"
        "arrow._READ_AHEAD = 0\n"
        f"batches = iter(hoodie.read_batches({path!r}))\n"
        "print(next(batches).num_rows)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "1\n"
