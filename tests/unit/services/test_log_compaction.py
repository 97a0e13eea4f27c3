"""Log compaction of tables of versions 8 and 9: it changes no row, whatever was written before and after."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import CommitConflict, ConfigError, TableError
from hoodie.format.log_block import LogBlock
from hoodie.format.log_file import LogFileReader
from hoodie.services.compaction.run import CompactionResult
from hoodie.storage.local import LocalStorage
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, Kind, State
from hoodie.timeline.models.compaction import CompactionPlan
from hoodie.timeline.time import InstantTime
from tests.support.later_tables import new_tables_of
from tests.support.metadata import disagreements
from tests.support.properties import rounds
from tests.support.tiers import full_but
from tests.unit.write.support import listing

STORAGE = LocalStorage()
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
}
BY_TIME = {**OPTIONS, "hoodie.datasource.write.precombine.field": "ts"}
DUE = {"hoodie.log.compaction.blocks.threshold": "1"}
COMPACT = {"hoodie.compact.inline.max.delta.commits": "1"}
PARTIAL = {**BY_TIME, "hoodie.datasource.write.payload.class": "partial_update"}
MODES: dict[str, dict[str, str]] = {
    "event time": BY_TIME,
    "commit time": OPTIONS,
    "nulls filled": PARTIAL,
    "two ordering fields": {**OPTIONS, "hoodie.datasource.write.precombine.field": "ts,n"},
    "an own delete marker": {
        **BY_TIME,
        "hoodie.payload.delete.field": "op",
        "hoodie.payload.delete.marker": "D",
    },
}
COLUMNS: dict[str, pa.DataType] = {
    "id": pa.string(),
    "p": pa.string(),
    "ts": pa.int64(),
    "n": pa.int64(),
    "text": pa.string(),
    "op": pa.string(),
    "_hoodie_is_deleted": pa.bool_(),
}
SCHEMA, LATEST = pa.schema(COLUMNS), list(COLUMNS)


@pytest.fixture(autouse=True)
def _version(request: pytest.FixtureRequest) -> Iterator[None]:
    version: int = getattr(request, "param", 9)
    with new_tables_of(version):
        yield


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def some_rows(draw: random.Random, count: int, deletes: float = 0.15) -> list[dict[str, Any]]:
    return [
        {
            "id": f"{key}",
            "p": "ab"[key % 2],
            "ts": draw.randrange(6),
            "n": draw.randrange(3),
            "text": draw.choice([None, "x", "y", f"z{draw.randrange(99)}"]),
            "op": draw.choice(["I", "U", "U", "D" if deletes else "U"]),
            "_hoodie_is_deleted": draw.random() < deletes,
        }
        for key in draw.sample(range(12), count)
    ]


def write(path: str, given: list[dict[str, Any]], options: dict[str, Any], operation: str = "upsert") -> str:
    return hoodie.write_table(
        pa.Table.from_pylist(given, SCHEMA), path, operation=operation, options=options
    ).instant


def logs(path: str, count: int = 5, options: dict[str, Any] = BY_TIME) -> None:
    """A base file in each of two partitions, and logs of updates in one of them."""
    draw = random.Random(1)
    write(path, [{**row, "op": "I", "_hoodie_is_deleted": False} for row in some_rows(draw, 12)], options)
    for number in range(count):
        row = {"id": str(number * 2), "p": "a", "ts": 9 + number, "n": 0, "text": f"v{number}", "op": "U"}
        write(path, [{**row, "_hoodie_is_deleted": False}], options)


def compact_logs(path: str, mode: str = "run", **more: Any) -> CompactionResult:
    return hoodie.log_compact_table(path, mode=mode, options={**DUE, **more.pop("options", {})}, **more)


def rows(path: str, columns: list[str] | None = None, **query: Any) -> list[Any]:
    found = hoodie.read_table(path, **query)
    found = found if columns is None else found.select(columns)
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def timeline(path: str) -> Timeline:
    return Timeline.load(path, STORAGE)


def plan_of(path: str, instant: str) -> CompactionPlan:
    asked = Instant(InstantTime(instant), Action.LOGCOMPACTION, State.REQUESTED)
    return CompactionPlan.from_bytes(timeline(path).read(asked, STORAGE))


def blocks_of(path: str, instant: str) -> list[LogBlock]:
    found = []
    for file in sorted(Path(path).rglob(f".*_{instant}.log.*")):
        if ".hoodie" not in file.relative_to(path).parts:
            with LogFileReader(STORAGE, str(file)) as reader:
                found += list(reader.blocks())
    return found


# --- rows --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("_version", [pytest.param(8, marks=pytest.mark.full), 9], indirect=True)
@pytest.mark.parametrize("mode", full_but({"event time", "nulls filled"}, MODES))
def test_random_histories(path: str, mode: str, tmp_path: Path) -> None:
    """One table is log compacted now and then, its twin is not; both have the same rows all the time.

    Deletes have ordering values in every other history. A writer that finds one of each in the logs takes the
    one with a value for the last word on late rows, even where it came after the other and changed nothing.
    """
    twin, options, draw = str(tmp_path / "twin"), MODES[mode], random.Random(mode)
    compacted = 0
    for turn in range(rounds(4)):
        for number in range(9):
            by_rows = bool(turn % 2)
            given, operation = some_rows(draw, draw.randrange(1, 12), 0.15 * by_rows), "upsert"
            if number and not by_rows and draw.random() < 0.25:
                operation, given = "delete", given[:3]
            for table in (path, twin):
                write(table, given, options, operation)
            if draw.random() < 0.5:
                before, shown = rows(path), timeline(path).last_commit
                done = compact_logs(path)
                compacted += len(done.compacted)
                assert rows(path) == before, "every column, those of Hudi too"
                assert shown is not None
                assert rows(path, as_of=shown.time) == before
            if draw.random() < 0.15:
                for table in (path, twin):
                    hoodie.compact_table(table, options=COMPACT)
            assert rows(path, LATEST) == rows(twin, LATEST)
        for table in (path, twin):
            hoodie.compact_table(table, options=COMPACT)
        assert rows(path, LATEST) == rows(twin, LATEST)
        for table in (path, twin):
            shutil.rmtree(table)
    assert compacted


@pytest.mark.parametrize("blocks", ["avro", "parquet"])
def test_small_blocks_and_a_small_budget(path: str, blocks: str) -> None:
    options = {
        **BY_TIME,
        "hoodie.logfile.data.block.format": blocks,
        "hoodie.logfile.data.block.max.size": "30000",
        "hoodie.logfile.max.size": "50000",
        "hoodie.memory.merge.max.size": "65536",
    }
    draw = random.Random(2)
    for _ in range(6):
        write(path, [{**row, "text": draw.randbytes(9000).hex()} for row in some_rows(draw, 12)], options)
    before = rows(path)
    result = compact_logs(path, options=options)
    assert result.num_files > 2, "a file of each partition would do, but for its maximum size"
    assert len(blocks_of(path, result.instant)) > result.num_files
    assert rows(path) == before


# --- plans, and what they make -----------------------------------------------------------------------------


def test_a_plan_and_its_commit(path: str) -> None:
    """As Apache Hudi 1.2.0 has them: tests/interop/test_log_compaction.py."""
    logs(path)
    before = [item.time for item in timeline(path).commits()]
    made = compact_logs(path, "schedule", extra_metadata={"by": "me"})
    plan = plan_of(path, made.scheduled)
    (operation,) = plan.operations
    assert plan.strategy is not None
    assert plan.strategy.compactor_class == (
        "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"
    )
    assert (plan.preserve_metadata, plan.extra_metadata) == (True, {"by": "me"})
    assert (operation.partition_path, operation.base_instant, len(operation.log_names)) == ("a", before[0], 5)
    assert hoodie.plan_services(path).others == []
    done = compact_logs(path, "execute")
    assert (done.status, done.compacted, done.pending) == ("compacted", [made.scheduled], [])
    assert (done.num_slices, done.num_log_files, done.num_files, done.num_writes) == (1, 5, 1, 5)
    now = timeline(path)
    commit = now.last_commit
    assert commit is not None
    assert (commit.time, commit.action) == (made.scheduled, Action.DELTACOMMIT)
    assert now.kind(commit) is Kind.LOG_COMPACTION
    metadata = now.commit(commit, STORAGE)
    assert (metadata.operation_type, metadata.compacted) == ("LOG_COMPACT", True)
    assert metadata.extra_metadata["by"] == "me"
    (stat,) = metadata.partition_to_write_stats["a"]
    assert (stat.prev_commit, stat.log_version, stat.num_writes) == (before[0], 1, 5)
    assert (stat.total_log_files_compacted, stat.total_log_blocks, stat.num_inserts) == (5, 5, 0)
    (block,) = blocks_of(path, commit.time)
    assert block.compacted_instants == tuple(before[1:])
    assert not {5, 8} & set(block.headers), "no positions of records"


def test_deletes_are_kept(path: str) -> None:
    logs(path)
    write(path, [{"id": "0", "p": "a", "ts": 99, "n": 0}], BY_TIME, "delete")
    write(path, [{"id": "2", "p": "a", "ts": 99, "n": 0, "_hoodie_is_deleted": True}], BY_TIME)
    before = rows(path)
    assert not {"0", "2"} & {row["id"] for row in before}
    instant = compact_logs(path).instant
    kinds = [block.type.name for block in blocks_of(path, instant)]
    assert kinds == ["AVRO_DATA", "DELETE", "DELETE"], "of keys with an ordering value, and without one"
    assert rows(path) == before
    late = {"id": "2", "p": "a", "ts": 50, "n": 0, "text": "late", "_hoodie_is_deleted": False}
    write(path, [late], BY_TIME)
    assert rows(path) == before, "the delete is newer"


def test_what_is_due(path: str) -> None:
    logs(path, 3)
    reason = hoodie.log_compact_table(path).reason
    assert reason.startswith("no log compaction is due: 4 of 5 delta commits since 2")
    result = compact_logs(path, options={"hoodie.log.compaction.blocks.threshold": "4"})
    assert result.reason == (
        "none of 1 file slice with logs has 4 log blocks to compact (hoodie.log.compaction.blocks.threshold)"
    )
    three = {"hoodie.log.compaction.blocks.threshold": "3"}
    first = compact_logs(path, options=three)
    assert first.num_log_files == 3
    write(path, [{"id": "4", "p": "a", "ts": 99, "n": 0}], BY_TIME)
    write(path, [{"id": "4", "p": "a", "ts": 100, "n": 0}], BY_TIME)
    second = compact_logs(path, options=three)
    assert second.num_log_files == 6, "those that were compacted before stay in the slice"
    (block,) = blocks_of(path, second.instant)
    assert (len(block.compacted_instants), block.compacted_instants[0]) == (3, first.instant)
    assert hoodie.log_compact_table(path).reason.startswith("no log compaction is due: 1 of 5 delta commits")


def test_the_planner(path: str) -> None:
    logs(path)

    def planned(**options: str) -> dict[str, Any]:
        found = hoodie.plan_services(path, options=options).services
        return next(vars(item) for item in found if item.service == "log_compaction")

    assert (planned()["due"], planned()["reason"]) == (False, "hoodie.log.compaction.enable is off")
    on = {"hoodie.log.compaction.enable": "true", "hoodie.compact.inline.max.delta.commits": "99"}
    due = planned(**on)
    assert (due["due"], due["would"]) == (True, "merge 5 log files of 1 file slice into one log a slice")
    assert due["reason"].startswith("6 of 5 delta commits since 2")
    before = rows(path)
    ran = hoodie.run_services(path, options=on)
    assert (ran.status, ran.services["log_compaction"]["status"]) == ("done", "compacted")
    assert rows(path) == before


def test_inline(path: str) -> None:
    inline = {**BY_TIME, "hoodie.log.compaction.inline": "true"}
    logs(path, 4, inline)
    assert [item.action for item in timeline(path).commits()] == [Action.DELTACOMMIT] * 5
    write(path, [{"id": "0", "p": "a", "ts": 99, "n": 0}], inline)
    last = timeline(path).last_commit
    assert last is not None
    assert timeline(path).kind(last) is Kind.LOG_COMPACTION


def test_what_is_refused(path: str, tmp_path: Path) -> None:
    old = str(tmp_path / "old")
    logs(path, 1)
    write(old, some_rows(random.Random(1), 3), {**OPTIONS, "hoodie.write.table.version": "6"})
    with pytest.raises(ConfigError, match=r"is of version 6, in which readers of Apache Hudi 0\.15\.0"):
        compact_logs(old)
    found = hoodie.plan_services(old, options={"hoodie.log.compaction.enable": "true"}).services
    (entry,) = (item for item in found if item.service == "log_compaction")
    assert entry.reason.startswith("the table is of version 6")
    cow = str(tmp_path / "cow")
    write(
        cow,
        some_rows(random.Random(1), 3),
        {**OPTIONS, "hoodie.datasource.write.table.type": "COPY_ON_WRITE"},
    )
    with pytest.raises(ConfigError, match="which has no logs to compact"):
        compact_logs(cow)


# --- other services ----------------------------------------------------------------------------------------


def test_a_compaction_merges_what_it_made(path: str) -> None:
    logs(path)
    before = rows(path, LATEST)
    compact_logs(path)
    write(path, [{"id": "0", "p": "a", "ts": 99, "n": 0, "text": "new"}], BY_TIME)
    hoodie.compact_table(path, options=COMPACT)
    found = {row["id"]: row for row in rows(path, LATEST)}
    assert found.pop("0")["text"] == "new"
    assert [row for row in before if row["id"] != "0"] == list(found.values())


@pytest.mark.parametrize("action", ["compact", "cluster"])
def test_no_plan_takes_a_group_of_another(path: str, action: str) -> None:
    logs(path)
    before = rows(path, LATEST)
    if action == "compact":
        hoodie.compact_table(path, mode="schedule", options=COMPACT)
    else:
        hoodie.cluster_table(path, mode="schedule")
    assert compact_logs(path).status == "skipped"
    run = {"compact": hoodie.compact_table, "cluster": hoodie.cluster_table}[action]
    assert run(path, mode="execute").pending == []
    assert rows(path, LATEST) == before


@pytest.mark.parametrize("ended", [False, True])
def test_a_plan_that_a_compaction_passed_is_taken_off_the_timeline(path: str, ended: bool) -> None:
    """What it would make were older than the base file of the compaction."""
    logs(path)
    planned = compact_logs(path, "schedule").scheduled
    write(path, [{"id": "0", "p": "a", "ts": 99, "n": 0, "text": "new"}], BY_TIME)
    write(path, [{"id": "2", "p": "a", "ts": 99, "n": 0}], BY_TIME, "delete")
    before = rows(path, LATEST)
    hoodie.compact_table(path, mode="run" if ended else "schedule", options=COMPACT)
    result = compact_logs(path, "execute")
    assert (result.status, result.pending) == ("skipped", [])
    assert result.reason == f"log compaction {planned} had nothing to do and was taken off the timeline"
    assert blocks_of(path, planned) == []
    assert rows(path, LATEST) == before
    hoodie.compact_table(path, mode="execute")
    assert rows(path, LATEST) == before


def test_what_ends_after_a_compaction_was_planned_stands_for_nothing(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log compaction that takes no lock, as Hudi may, ends late: readers skip what it made."""
    logs(path)
    compact_logs(path, "schedule")
    write(path, [{"id": "0", "p": "a", "ts": 99, "n": 0, "text": "new"}], BY_TIME)
    write(path, [{"id": "2", "p": "a", "ts": 99, "n": 0}], BY_TIME, "delete")
    before = rows(path, LATEST)
    from hoodie.services.log_compaction import execute

    monkeypatch.setattr(execute, "_check_unchanged", lambda *_: None)
    steps = iter([lambda: hoodie.compact_table(path, options=COMPACT)])

    def beside(step: str, _: str) -> None:
        if step == "commit":
            next(steps)()

    assert compact_logs(path, "execute", progress=beside).status == "compacted"
    assert rows(path, LATEST) == before
    write(path, [{"id": "4", "p": "a", "ts": 99, "n": 0, "text": "newer"}], BY_TIME)
    hoodie.compact_table(path, options=COMPACT)
    found = {row["id"]: row for row in rows(path, LATEST)}
    assert found["4"]["text"] == "newer"
    assert found.pop("4")
    assert [row for row in before if row["id"] != "4"] == list(found.values())


def test_a_compaction_that_comes_while_it_is_carried_out_is_a_conflict(path: str) -> None:
    logs(path)
    before = rows(path, LATEST)

    def beside(step: str, _: str) -> None:
        if step == "commit":
            hoodie.compact_table(path, mode="schedule", options=COMPACT)

    compact_logs(path, "schedule")
    with pytest.raises(CommitConflict, match="was not published: file slices of it were comp"):
        compact_logs(path, "execute", progress=beside)
    assert rows(path, LATEST) == before
    assert compact_logs(path, "execute").pending == []
    assert rows(path, LATEST) == before


def test_cancel_and_rollback(path: str) -> None:
    logs(path)
    before, files = rows(path), set(Path(path).rglob("*"))
    planned = compact_logs(path, "schedule").scheduled
    with pytest.raises(TableError, match=r"pending logcompaction .* was planned on top of it"):
        hoodie.rollback_table(path, timeline(path).commits()[-1].time)
    assert hoodie.cancel_plan(path, planned).status == "cancelled"
    assert compact_logs(path, "execute").reason == "no log compaction is pending"
    done = compact_logs(path).instant
    assert rows(path) == before
    assert hoodie.rollback_table(path, done).status == "rolled_back"
    assert rows(path) == before
    data = {file for file in Path(path).rglob("*") if ".hoodie" not in file.parts}
    assert data == {file for file in files if ".hoodie" not in file.parts}
    assert compact_logs(path).status == "compacted"
    assert rows(path) == before


def test_clean_and_archive(path: str) -> None:
    """The logs that it read stay with their slice, and a query of the past reads them."""
    logs(path)
    first, shown = timeline(path).commits()[2].time, None
    then = rows(path, as_of=first)
    for number in range(3):
        shown = compact_logs(path).instant or shown
        write(path, [{"id": "0", "p": "a", "ts": 99 + number, "n": 0}], BY_TIME)
        assert hoodie.clean_table(path, options={"hoodie.cleaner.commits.retained": "1"}).files == {}
    assert rows(path, as_of=first) == then
    before = rows(path, LATEST)
    hoodie.compact_table(path, options=COMPACT)
    for number in range(4):
        write(path, [{"id": "2", "p": "a", "ts": 199 + number, "n": 0}], BY_TIME)
    few = {
        "hoodie.cleaner.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.compact.inline.trigger.strategy": "TIME_ELAPSED",
    }
    assert hoodie.clean_table(path, options=few).num_files == 12
    assert shown is not None
    assert blocks_of(path, shown) == []
    assert hoodie.archive_table(path, options=few).status == "archived"
    archived = [item for item in hoodie.instants(path, archived=True) if item["instant"] == shown]
    assert archived
    assert [row for row in rows(path, LATEST) if row["id"] != "2"] == [
        row for row in before if row["id"] != "2"
    ]


def test_the_metadata_table_knows_its_logs(path: str) -> None:
    options = {
        **BY_TIME,
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.record.index.enable": "true",
    }
    logs(path, options=options)
    before = rows(path)
    assert compact_logs(path, options=options).status == "compacted"
    assert disagreements(path) == []
    assert rows(path, options={"hoodie.metadata.enable": "true"}) == before
    found = hoodie.read_table(path, where="ts >= 12", options={"hoodie.enable.data.skipping": "true"})
    assert found.num_rows == sum(row["ts"] >= 12 for row in before) > 0
    write(path, [{"id": "0", "p": "a", "ts": 199, "n": 0}], options)
    assert disagreements(path) == []


def test_incremental_queries_pass_over_it(path: str) -> None:
    logs(path)
    commits = timeline(path).commits()
    span: dict[str, Any] = {"query": "incremental", "begin": commits[2].completion or commits[2].time}
    before = rows(path, **span)
    assert before
    compact_logs(path)
    assert rows(path, **span) == before
    write(path, [{"id": "0", "p": "a", "ts": 99, "n": 0}], BY_TIME)
    last = timeline(path).commits()[-2]
    assert [row["id"] for row in rows(path, query="incremental", begin=last.completion)] == ["0"]


def test_a_table_that_nothing_is_done_to_is_not_changed(path: str) -> None:
    logs(path)
    before = listing(Path(path))
    assert compact_logs(path, dry_run=True).status == "planned"
    assert hoodie.log_compact_table(path, options={"hoodie.log.compaction.blocks.threshold": "9"}).reason
    assert compact_logs(path, "execute").reason == "no log compaction is pending"
    assert listing(Path(path)) == before


def test_queries_of_changes_pass_over_it(path: str) -> None:
    kept = {**BY_TIME, "hoodie.table.cdc.enabled": "true"}
    logs(path, options=kept)
    write(path, [{"id": "0", "p": "a", "ts": 99, "n": 0}], kept, "delete")

    def changes() -> list[str]:
        cdc = {"hoodie.datasource.query.incremental.format": "cdc"}
        return sorted(
            map(str, hoodie.read_table(path, query="incremental", begin="earliest", options=cdc).to_pylist())
        )

    before = changes()
    assert len(before) > 12
    assert compact_logs(path, options=kept).status == "compacted"
    assert changes() == before
    write(path, [{"id": "2", "p": "a", "ts": 99, "n": 0, "text": "new"}], kept)
    (change,) = set(changes()) - set(before)
    assert "v1" in change, "what the merged log has of the key, as it was before"
    assert "new" in change


def test_a_clustering_reads_what_it_made(path: str) -> None:
    logs(path)
    before = rows(path, LATEST)
    compact_logs(path)
    assert hoodie.cluster_table(path).status == "clustered"
    assert rows(path, LATEST) == before
