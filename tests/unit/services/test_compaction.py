"""Compaction of tables that we wrote, on the local engine: plans, what they make, and what comes between."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.errors import ConfigError, ConflictError, TableError
from hoodie.format.base_file import BaseFileReader, footer_of
from hoodie.services.compaction.run import CompactionResult
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table, TableRef
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.compaction import CompactionPlan
from hoodie.timeline.time import InstantTime
from hoodie.write.transaction import Transaction
from tests.support.faults import Faults, InjectedFault, injected
from tests.support.rows import assert_same_rows
from tests.support.stores import instant_file, store_at, timeline_at
from tests.support.tables import FULL_SCHEMA, full_rows, small_rows
from tests.support.tiers import full_but
from tests.unit.write.support import BLOCK_SIZE, BUDGET, OPTIONS, Pair, Templates, listing

T = TypeVar("T")
STORAGE = LocalStorage()
MOR = {**OPTIONS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
ALWAYS = {"hoodie.compact.inline.max.delta.commits": 1}


def logged(path: Path) -> Pair:
    """Three partitions, each a base file and two logs: updates, late rows, deletes."""
    pair = Pair(path, MOR)
    pair.write(small_rows(range(60), 1))
    pair.write(small_rows(range(20, 50), 2) + small_rows(range(5), 2, ts=1))
    pair.write(small_rows(range(40, 55), 3, deleted=True) + small_rows(range(10, 12), 3))
    return pair


@pytest.fixture
def table(tmp_path: Path, templates: Templates) -> Pair:
    return templates.copy(tmp_path / "t", logged)


def compact(pair: Pair, mode: str = "run", **more: Any) -> CompactionResult:
    options = {**ALWAYS, **more.pop("options", {})}
    return hoodie.compact_table(str(pair.path), mode=mode, options=options, **more)


def timeline(pair: Pair) -> Timeline:
    return Timeline.load(str(pair.path), STORAGE)


def states(pair: Pair) -> list[str]:
    return [f"{item.action.value} {item.state.name.lower()}" for item in timeline(pair)]


def plan_of(pair: Pair, instant: str) -> CompactionPlan:
    return CompactionPlan.from_bytes(instant_file(pair.path, instant, "compaction.requested").read_bytes())


def commit_of(pair: Pair, instant: str) -> CommitMetadata:
    return timeline(pair).commit(next(item for item in timeline(pair).commits() if item.time == instant))


def read_optimized(pair: Pair) -> pa.Table:
    rows: pa.Table = hoodie.read_table(str(pair.path), query="read_optimized")
    return rows


def litter(pair: Pair) -> list[str]:
    folders = (pair.path / ".hoodie/.temp", pair.path / ".hoodie/.heartbeat")
    found = [path for folder in folders if folder.exists() for path in folder.iterdir()]
    return [str(path) for path in (*found, *pair.path.rglob("*.hoodie-tmp"))]


# --- scheduling --------------------------------------------------------------------------------------------


def test_not_due_writes_nothing(table: Pair) -> None:
    before = listing(table.path)
    for mode in ("schedule", "run"):
        result = hoodie.compact_table(str(table.path), mode=mode)
        assert (result.status, result.scheduled, result.compacted) == ("skipped", "", [])
        assert result.reason.startswith("no compaction is due: 3 of 5 delta commits since 2")
    assert listing(table.path) == before


def test_nothing_to_compact_writes_nothing(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", MOR)
    pair.write(small_rows(range(10), 1))
    before = listing(pair.path)
    result = compact(pair)
    assert (result.status, result.reason) == ("skipped", "no file slice has log files")
    assert compact(pair, "execute").reason == "no compaction is pending"
    assert listing(pair.path) == before


def test_a_plan(table: Pair) -> None:
    result = compact(table, "schedule", extra_metadata={"by": "me"})
    assert (result.status, result.instant, result.compacted) == ("scheduled", result.scheduled, [])
    assert result.pending == [result.scheduled]
    assert states(table)[-1] == "compaction requested"
    plan = plan_of(table, result.scheduled)
    assert plan.extra_metadata == {"by": "me"}
    first = timeline(table).instants[0].time
    assert {item.base_instant for item in plan.operations} == {first}
    planned = {f"{item.partition_path}/{name}" for item in plan.operations for name in item.log_names}
    assert planned == {
        str(path.relative_to(table.path))
        for path in table.path.rglob(".*.log.*")
        if ".hoodie/" not in str(path)
    }
    assert (result.num_slices, result.num_log_files) == (len(plan.operations), len(planned))
    assert result.log_bytes == sum((table.path / name).stat().st_size for name in planned)
    table.check("scheduled")
    again = compact(table, "schedule")
    assert again.status == "skipped"
    assert again.reason == "no file slice has log files that are in no pending plan"
    assert again.pending == [result.scheduled]


def test_a_live_writer_is_a_conflict_that_changes_nothing(table: Pair) -> None:
    with Transaction(
        Table(TableRef(str(table.path)), STORAGE), Config.of({}), False, Action.DELTACOMMIT
    ) as writer:
        writer.begin()
        before = states(table)
        with pytest.raises(ConflictError, match="another writer is at work"):
            compact(table, "schedule")
        assert states(table) == before
    assert compact(table, "schedule").status == "scheduled"


def test_a_failed_write_is_rolled_back_before_the_plan(table: Pair) -> None:
    failed = "20200101000000000"
    for state in (State.REQUESTED, State.INFLIGHT):
        store_at(table.path).create(Instant(InstantTime(failed), Action.DELTACOMMIT, state))
    result = compact(table)
    assert result.rolled_back == [failed]
    assert result.compacted
    table.check("compacted")


# --- execution ---------------------------------------------------------------------------------------------


def test_what_a_compaction_makes(table: Pair) -> None:
    before = hoodie.read_table(str(table.path))
    first = timeline(table).instants[0].time
    result = compact(table)
    (instant,) = result.compacted
    assert (result.status, result.scheduled, result.pending) == ("compacted", instant, [])
    table.check("compacted")
    assert litter(table) == []
    metadata = commit_of(table, instant)
    assert (metadata.compacted, metadata.operation_type) == (True, "COMPACT")
    assert json.loads(str(metadata.extra_metadata["schema"]))["name"] == "t_record"
    assert (result.num_files, result.num_writes) == (3, before.num_rows)
    updates = deletes = records = 0
    for stat in metadata.write_stats:
        assert stat.prev_commit == first
        path = table.path / str(stat.path)
        assert stat.file_size_in_bytes == stat.total_write_bytes == path.stat().st_size
        assert stat.num_writes == pq.ParquetFile(path).metadata.num_rows
        assert (stat.total_log_files_compacted, stat.total_corrupt_log_block, stat.num_inserts) == (2, 0, 0)
        assert stat.total_log_blocks >= 2
        updates, deletes = updates + stat.num_update_writes, deletes + stat.num_deletes
        records += stat.total_log_records
        footer = footer_of(STORAGE, str(path))
        keys: list[Any] = pq.ParquetFile(path).read(["_hoodie_record_key"]).column(0).to_pylist()
        assert (footer["hoodie_min_record_key"], footer["hoodie_max_record_key"]) == (min(keys), max(keys))
        with BaseFileReader(STORAGE, str(path)) as reader:
            bloom = reader.bloom()
        assert bloom is not None
        assert bloom.might_contain(pa.array(keys)).all()
    assert (updates, deletes) == (20 + 2, 15)
    assert records >= 30


def test_rows_keep_their_commit_time_and_sequence_number(table: Pair) -> None:
    names = ["_hoodie_record_key", "_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_partition_path"]
    before = hoodie.read_table(str(table.path), columns=names)
    compact(table)
    after = hoodie.read_table(str(table.path), columns=[*names, "_hoodie_file_name"])
    assert_same_rows(after.select(names), before, meta=True)
    assert len(set(after["_hoodie_commit_time"].to_pylist())) > 1
    for partition, name in set(
        zip(after["_hoodie_partition_path"].to_pylist(), after["_hoodie_file_name"].to_pylist(), strict=True)
    ):
        assert (table.path / partition / name).exists()


def test_writers_go_on_between_schedule_and_execute(table: Pair) -> None:
    planned = compact(table, "schedule").scheduled
    at_plan = table.model.table(table.schema)
    result = table.write(small_rows(range(10, 45), 4) + small_rows(range(50, 53), 4))
    assert result.warnings == []
    table.write(small_rows(range(30, 35), 5, deleted=True) + small_rows(range(200, 210), 5))
    done = compact(table, "execute")
    assert done.compacted == [planned]
    table.check("executed")
    compacted = read_optimized(table).filter(pa.compute.field("_hoodie_commit_time") <= planned)
    assert_same_rows(compacted, at_plan)
    table.write(small_rows(range(0, 220, 7), 6))
    assert compact(table).compacted
    table.check("compacted again")
    assert_same_rows(read_optimized(table), table.model.table(table.schema))


def test_writers_go_on_while_a_plan_is_executed(table: Pair) -> None:
    planned = compact(table, "schedule").scheduled
    with executing(table, planned):
        table.write(small_rows(range(10, 45), 4))
        later = compact(table, "schedule")
        assert later.reason == "all 3 file slices with logs are in pending plans already"
    assert compact(table, "execute").compacted == [planned]
    table.check("executed")


@contextmanager
def executing(pair: Pair, instant: str) -> Iterator[Transaction]:
    """Another process at work on the plan, which then fails."""
    planned = Instant(InstantTime(instant), Action.COMPACTION, State.REQUESTED)
    with Transaction(Table(TableRef(str(pair.path)), STORAGE), Config.of({}), False) as other:
        other.resume(planned, plan_of(pair, instant).partitions)
        yield other


def test_a_live_second_executor_is_a_conflict(table: Pair) -> None:
    planned = compact(table, "schedule").scheduled
    with executing(table, planned):
        for mode in ("execute", "run"):
            with pytest.raises(ConflictError, match=f"compaction {planned}"):
                compact(table, mode)
    assert compact(table, "execute").compacted == [planned]


def test_an_executor_taken_for_dead_can_not_publish(table: Pair) -> None:
    planned = compact(table, "schedule").scheduled
    with executing(table, planned) as sleeper:
        (table.path / ".hoodie/.heartbeat" / planned).unlink()
        assert compact(table, "execute").compacted == [planned]
        with pytest.raises(ConflictError, match="taken over"):
            sleeper.commit({}, "COMPACT", {})
    table.check("once")
    assert litter(table) == []
    assert commit_of(table, planned).num_files == 3


@pytest.mark.parametrize(
    "where", full_but({"close_output", "create"}, ["open_output", "close_output", "create"])
)
def test_a_failed_execution_leaves_the_plan_and_is_begun_anew(table: Pair, where: str) -> None:
    planned = compact(table, "schedule").scheduled
    table.write(small_rows(range(3), 4))
    before = {path.name for path in table.path.rglob("*.parquet")}
    probe = Faults()
    fail_at(probe, where)
    with injected(probe), pytest.raises(InjectedFault):
        compact(table, "execute")
    assert {path.name for path in table.path.rglob("*.parquet")} == before
    assert [item.time for item in timeline(table).filter([Action.COMPACTION])] == [planned]
    table.check("failed")
    assert compact(table, "execute").compacted == [planned]
    table.check("executed")
    assert litter(table) == []


def fail_at(faults: Faults, operation: str) -> None:
    """The first change of this kind to a data file, or to the completed instant, fails; later ones work."""
    inner = faults.run

    def run(name: str, path: str, call: Callable[[], T], half: Callable[[], None] | None = None) -> T:
        wanted = path.endswith(".commit") if operation == "create" else path.endswith(".parquet")
        if name == operation and wanted and not faults.tripped:
            faults.tripped = True
            raise InjectedFault(f"{name} {path}")
        return inner(name, path, call, half)

    faults.once = True
    faults.run = run  # type: ignore[method-assign]


def test_what_a_killed_execution_left_is_removed(table: Pair) -> None:
    planned = compact(table, "schedule").scheduled
    (timeline_at(table.path) / f"{planned}.compaction.inflight").touch()
    entry = plan_of(table, planned).operations[0]
    half = table.path / entry.partition_path / f"{entry.file_id}_9-9-9_{planned}.parquet"
    half.write_bytes(b"PAR1")
    table.check("killed")
    table.write(small_rows(range(3), 4))
    assert half.exists(), "a writer leaves it to who executes the plan"
    compact(table, "execute")
    assert not half.exists()
    table.check("executed")


def test_several_plans_are_executed_oldest_first_or_one_of_them(table: Pair) -> None:
    times = []
    for number in range(3):
        table.write(small_rows(range(300 + number * 10, 310 + number * 10), 1), "bulk_insert")
        table.write(small_rows(range(300 + number * 10, 310 + number * 10), 2))
        times.append(compact(table, "schedule").scheduled)
    assert all(times)
    one = compact(table, "execute", instant=times[1])
    assert (one.compacted, one.pending) == ([times[1]], [times[0], times[2]])
    rest = compact(table, "execute")
    assert rest.compacted == [times[0], times[2]]
    table.check("executed")
    again = compact(table, "execute", instant=times[0])
    assert (again.status, again.reason) == ("skipped", f"compaction {times[0]} is completed already")


def test_run_executes_what_is_pending_first(table: Pair) -> None:
    planned = compact(table, "schedule").scheduled
    table.write(small_rows(range(10), 4))
    result = compact(table)
    assert result.compacted == [planned, result.scheduled]
    assert_same_rows(read_optimized(table), table.model.table(table.schema))


def test_an_instant_that_is_not_pending(table: Pair) -> None:
    with pytest.raises(
        ConfigError, match=r"no compaction 20200101000000000 is pending .*; none is, schedule"
    ):
        compact(table, "execute", instant="20200101000000000")
    planned = compact(table, "schedule").scheduled
    with pytest.raises(ConfigError, match=f"pending are {planned}"):
        compact(table, "execute", instant=timeline(table).instants[0].time)
    with pytest.raises(ConfigError, match="is for mode execute"):
        compact(table, "run", instant=planned)
    with pytest.raises(ConfigError, match="mode is 'all'; use one of schedule, execute, run"):
        compact(table, "all")


def test_a_file_of_the_plan_that_is_gone_is_an_error(table: Pair) -> None:
    planned = compact(table, "schedule").scheduled
    entry = plan_of(table, planned).operations[0]
    (table.path / entry.partition_path / entry.log_names[0]).unlink()
    with pytest.raises(TableError, match="is in the plan of a compaction and is not there"):
        compact(table, "execute")
    assert compact_pending(table) == [planned]


def compact_pending(pair: Pair) -> list[str]:
    return [str(item.time) for item in timeline(pair).filter([Action.COMPACTION], completed=False)]


# --- what is in the slices ---------------------------------------------------------------------------------


def test_a_slice_without_a_row_left(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", MOR)
    pair.write(small_rows(range(10), 1))
    pair.write(small_rows(range(10), 2, deleted=True))
    result = compact(pair)
    assert (result.num_writes, result.num_slices) == (0, result.num_files)
    pair.check("empty")
    pair.write(small_rows(range(5, 15), 3))
    assert compact(pair).reason == "no file slice has log files"
    pair.check("again")


def test_every_type_and_null(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", MOR, FULL_SCHEMA)
    rows = full_rows(range(60), 1)
    hoodie.write_table(as_stored(rows), str(pair.path), options=pair.options)
    hoodie.write_table(as_stored(full_rows(range(30, 90), 2)), str(pair.path), options=pair.options)
    hoodie.write_table(
        as_stored(full_rows(range(50, 70), 3, deleted=True)), str(pair.path), options=pair.options
    )
    before = hoodie.read_table(str(pair.path))
    assert compact(pair).compacted
    assert_same_rows(hoodie.read_table(str(pair.path)), before)


def as_stored(rows: Sequence[dict[str, Any]]) -> pa.Table:
    from tests.support.tables import as_table

    return as_table(rows, FULL_SCHEMA)


def test_a_column_added_in_the_logs_and_after_the_plan(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    first = pa.table({"id": ["a", "b", "c"], "region": ["eu"] * 3, "ts": [1, 1, 1]})
    hoodie.write_table(first, path, options=MOR)
    second = pa.table({"id": ["b"], "region": ["eu"], "ts": [2], "n": [5]})
    hoodie.write_table(second, path)
    hoodie.compact_table(path, mode="schedule", options=ALWAYS)
    hoodie.write_table(pa.table({"id": ["c"], "region": ["eu"], "ts": [3], "n": [6], "m": ["x"]}), path)
    hoodie.compact_table(path, mode="execute")
    rows = hoodie.read_table(path, meta=False).sort_by("id")
    assert rows.select(["id", "ts", "n", "m"]).to_pylist() == [
        {"id": "a", "ts": 1, "n": None, "m": None},
        {"id": "b", "ts": 2, "n": 5, "m": None},
        {"id": "c", "ts": 3, "n": 6, "m": "x"},
    ]


def test_more_than_the_memory_budget_is_spilled_and_row_groups_are_cut(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", {**MOR, "hoodie.datasource.write.partitionpath.field": ""}, partition=())
    pair.write(small_rows(range(3000), 1))
    pair.write(small_rows(range(500, 3000), 2))
    small = {
        BUDGET: 1 << 16,
        BLOCK_SIZE: 1 << 16,
        "hoodie.memory.spillable.map.path": str(tmp_path / "spill"),
    }
    result = compact(pair, options=small)
    pair.check("compacted")
    (path,) = [str(stat.path) for stat in commit_of(pair, result.instant).write_stats]
    assert pq.ParquetFile(pair.path / path).metadata.num_row_groups > 3
    assert list((tmp_path / "spill").iterdir()) == []


# --- what can't be compacted, settings ---------------------------------------------------------------------


def test_a_copy_on_write_table_has_no_logs(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", OPTIONS)
    pair.write(small_rows(range(3), 1))
    with pytest.raises(ConfigError, match="'t' is COPY_ON_WRITE, which has no logs to compact"):
        compact(pair)


def test_settings_are_checked_first(table: Pair) -> None:
    with pytest.raises(ConfigError, match=r"hoodie\.compaction\.target\.io='much'"):
        compact(table, options={"hoodie.compaction.target.io": "much"})
    with pytest.raises(ConfigError, match=r"did you mean 'hoodie\.compaction\.strategy'"):
        compact(table, options={"hoodie.compaction.strategi": "unbounded"})
    with pytest.raises(hoodie.errors.TableMismatch, match="contradict"):
        compact(table, options={"hoodie.datasource.write.recordkey.field": "name"})


def test_the_strategy_decides(table: Pair) -> None:
    table.write(small_rows(range(0, 60, 3), 4))
    some = compact(
        table, options={"hoodie.compaction.strategy": "bounded_io", "hoodie.compaction.target.io": 1}
    )
    assert 0 < some.num_slices <= 3
    none = compact(table, options={"hoodie.compaction.logfile.size.threshold": 1 << 30})
    assert none.status == "skipped"


# --- inline ------------------------------------------------------------------------------------------------


def test_inline_compaction_after_a_write(table: Pair) -> None:
    inline: dict[str, Any] = {
        "hoodie__compact__inline": True,
        "hoodie__compact__inline__max__delta__commits": 5,
    }
    assert table.write(small_rows(range(3), 4), **inline).warnings == []
    assert "commit completed" not in states(table)
    result = table.write(small_rows(range(6), 5), **inline)
    assert (result.status, result.action, result.warnings) == ("committed", "deltacommit", [])
    assert states(table)[-1] == "commit completed"
    assert timeline(table).instants[-1].is_after(result.instant)
    assert_same_rows(read_optimized(table), table.model.table(table.schema))


def test_inline_scheduling_after_a_write(table: Pair) -> None:
    inline: dict[str, Any] = {
        "hoodie__compact__schedule__inline": True,
        "hoodie__compact__inline__max__delta__commits": 1,
    }
    table.write(small_rows(range(3), 4), **inline)
    (planned,) = compact_pending(table)
    table.write(small_rows(range(100, 103), 1), "bulk_insert")
    table.write(small_rows(range(100, 103), 5), **inline)
    assert compact_pending(table) == [planned], "one at a time"
    assert compact(table, "execute").compacted == [planned]
    table.check("executed")


def test_what_fails_inline_is_a_warning_of_a_write_that_stays(table: Pair) -> None:
    planned = compact(table, "schedule").scheduled
    with executing(table, planned):
        result = table.write(small_rows(range(3), 4), hoodie__compact__inline=True)
    (warning,) = result.warnings
    assert warning.startswith(
        "the rows are committed, but the inline compaction failed: another process is at work"
    )
    assert result.status == "committed"


def test_inline_settings_mean_nothing_for_copy_on_write(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", {**OPTIONS, "hoodie.compact.inline": True, **ALWAYS})
    assert pair.write(small_rows(range(3), 1)).warnings == []
