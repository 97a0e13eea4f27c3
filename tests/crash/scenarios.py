"""Writes that are made to fail: a table to begin with, a write, and the rows before and after it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from hoodie.engine.local import LocalEngine
from hoodie.errors import ValidationFailed
from hoodie.pipeline import write
from hoodie.services.compaction.run import CompactionResult
from hoodie.services.compaction.run import compact as compaction
from hoodie.services.log_compaction.run import compact_logs as log_compaction
from hoodie.services.request import RewriteRequest
from hoodie.table.settings import WAIT_MS
from hoodie.timeline.tokens import TOKEN_KEY
from hoodie.write.operation import Operation, WriteRequest, WriteResult
from tests.support.faults import Faults, Phase, injected
from tests.support.oracle import Model
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows, without

Row = dict[str, Any]

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.table.name": "flights",
    "hoodie.index.bloom.num_entries": "100",
    # between the size of the large file (eu) and of the others
    "hoodie.parquet.small.file.limit": "5500",
}
#: small logs, so that a slice gets several at once
MOR_OPTIONS = {
    **OPTIONS,
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.logfile.max.size": "1000",
    "hoodie.logfile.data.block.max.size": "1000",
}
#: a change log beside each file that is rewritten
CDC_OPTIONS = {**OPTIONS, "hoodie.table.cdc.enabled": "true"}
#: a lock that expires
LOCK_OPTIONS = {
    **OPTIONS,
    "hoodie.write.lock.provider": "filesystem",
    "hoodie.write.lock.filesystem.expire": "1",
    "hoodie.write.lock.client.num_retries": "2",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "50",
}
#: beside other writers
AT_ONCE_OPTIONS = {**LOCK_OPTIONS, "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
#: beside others without blocking them, since version 8
NON_BLOCKING_OPTIONS = {
    **MOR_OPTIONS,
    **LOCK_OPTIONS,
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
}
LOCK, TAKEOVER = ".hoodie/lock", ".hoodie/.lock.hoodie-tmp"
NO_ROWS: list[Row] = []
GOLDEN_SCHEMA = without(SMALL_SCHEMA, "_hoodie_is_deleted")


def run(
    path: str | Path,
    rows: Sequence[Row],
    operation: Operation = Operation.UPSERT,
    faults: Faults | None = None,
    options: Mapping[str, str] = OPTIONS,
    schema: pa.Schema = SMALL_SCHEMA,
    token: str = "",
    source: Path | None = None,
) -> WriteResult:
    """One write with the local engine, one task at a time, so that the changes come in one order.

    With `source` the rows are first written there, and read from that file.
    """
    engine = LocalEngine(1)
    request = WriteRequest(str(path), operation, options, {TOKEN_KEY: token} if token else {})
    table = as_table(rows, schema)
    if source is not None:
        pq.write_table(table, source)
    with injected(faults or Faults()):
        frame = engine.frame(table if source is None else ds.dataset(source))
        return write(engine, frame, request)


def compact(
    path: str | Path, mode: str, faults: Faults | None = None, more: Mapping[str, str] | None = None
) -> CompactionResult:
    """A compaction with the local engine, one task at a time."""
    due = {"hoodie.compact.inline.max.delta.commits": "1", "hoodie.index.bloom.num_entries": "100"}
    options = {**due, **(more or {})}
    with injected(faults or Faults()):
        return compaction(
            RewriteRequest(table=str(path), mode=mode, options=options, engine=lambda: LocalEngine(1))
        )


def compact_logs(path: str | Path, mode: str, faults: Faults | None = None) -> CompactionResult:
    """The same into logs."""
    due = {"hoodie.log.compaction.blocks.threshold": "1"}
    with injected(faults or Faults()):
        return log_compaction(
            RewriteRequest(table=str(path), mode=mode, options=due, engine=lambda: LocalEngine(1))
        )


def in_region(rows: Sequence[Row], region: str) -> list[Row]:
    return [{**row, "region": region} for row in rows]


#: eu has a file beyond the small-file limit, us and apac small ones, and all rows of `gone` will be deleted
BASE = (
    in_region(small_rows(range(200), 1), "eu")
    + in_region(small_rows(range(1000, 1020), 1), "us")
    + in_region(small_rows(range(2000, 2015), 1), "apac")
    + in_region(small_rows(range(4000, 4002), 1), "gone")
)
#: updates a file, makes one beside it, packs into a small one, deletes, empties a file, makes a partition
CHANGES = (
    in_region(small_rows(range(0, 200, 20), 2), "eu")
    + in_region(small_rows(range(700, 705), 2), "eu")
    + in_region(small_rows(range(1020, 1030), 2), "us")
    + in_region(small_rows(range(2000, 2004), 2, deleted=True), "apac")
    + in_region(small_rows(range(2004, 2006), 2, ts=1), "apac")
    + in_region(small_rows(range(4000, 4002), 2, deleted=True), "gone")
    + in_region(small_rows(range(3000, 3010), 2), "mars")
    + in_region(small_rows(range(3000, 3002), 3), "mars")
)
#: updates a file, and makes a partition
FEW_CHANGES = in_region(small_rows(range(0, 200, 20), 2), "eu") + in_region(
    small_rows(range(3000, 3010), 2), "mars"
)
#: of the merge-on-read table: logs in eu and apac, none in us (which takes inserts) and in gone
LOGGED = in_region(small_rows(range(5, 30), 2), "eu") + in_region(
    small_rows(range(2010, 2012), 2, deleted=True), "apac"
)
MORE = in_region(small_rows(range(5000, 5010), 1), "eu") + in_region(
    small_rows(range(5010, 5020), 1), "venus"
)
#: in one partition, which the statistics of a file tell
VENUS = in_region(small_rows(range(5010, 5020), 1), "venus")


def copy_table(source: str | Path, target: str | Path) -> None:
    """A cheap copy of a table: hard links, which no write changes in place."""
    shutil.copytree(source, target, copy_function=os.link)


class Kit(Protocol):
    """What builds tables to begin with."""

    def golden(self, name: str) -> Path: ...
    def kill(self, scenario: Scenario, path: str | Path, at: int, phase: Phase = ...) -> int: ...


Make = Callable[[Kit, Path], object]


def base(kit: Kit, path: Path) -> None:
    run(path, BASE)


def failed(kit: Kit, path: Path) -> None:
    """Killed when it had written two of its files and half of a third."""
    base(kit, path)
    changes = Faults()
    probe = path.with_name("probe")
    copy_table(path, probe)
    SCENARIOS["upsert"].run(probe, changes)
    shutil.rmtree(probe)
    closing = [number for number, change in enumerate(changes.log, 1) if change.name == "close_output"]
    kit.kill(SCENARIOS["upsert"], path, closing[2], Phase.DURING)


def failed_locked(kit: Kit, path: Path) -> None:
    """As `failed`, and another process left the lock behind."""
    failed(kit, path)
    (path / LOCK).touch()
    age_lock(path)


def age_lock(path: Path) -> None:
    """The lock that a process left, and the mark of one that was taking it over, expire."""
    for name in (LOCK, TAKEOVER):
        if (path / name).exists():
            os.utime(path / name, (1, 1))


def bucketed(kit: Kit, path: Path) -> None:
    run(path, BASE, options=NON_BLOCKING_OPTIONS)
    run(path, LOGGED, options=NON_BLOCKING_OPTIONS)


def mor_base(kit: Kit, path: Path) -> None:
    run(path, BASE, options=MOR_OPTIONS)
    run(path, LOGGED, options=MOR_OPTIONS)


def mor_rows(kit: Kit) -> list[Row]:
    return Model(["id"], ["region"], "ts").upsert(BASE).upsert(LOGGED).rows()


def mor_failed(kit: Kit, path: Path) -> None:
    """Killed in the middle of the last of its log files; base files were written, too."""
    _kill_last(kit, path, "mor_upsert", "close_output", ".log.", Phase.DURING)


def cdc_base(kit: Kit, path: Path) -> None:
    run(path, BASE, options=CDC_OPTIONS)


def cdc_failed(kit: Kit, path: Path) -> None:
    """Killed in the middle of the last of its change logs."""
    _kill_last(kit, path, "cdc_upsert", "close_output", ".cdc", Phase.DURING)


def mor_shared(kit: Kit, path: Path) -> None:
    """Killed before its commit; one of its logs is as on a storage that appends, in a file with others'."""
    _kill_last(kit, path, "mor_upsert", "create", ".deltacommit", Phase.BEFORE)
    marker = min(path.glob(".hoodie/.temp/*/eu/.*.log.*.marker.APPEND"))
    failed = path / "eu" / marker.name.removesuffix(".marker.APPEND")
    shared = next(path.glob("eu/.*.log.1_*"))
    size, whole = shared.stat().st_size, shared.read_bytes() + failed.read_bytes()
    failed.unlink()
    marker.rename(marker.with_name(f"{shared.name}.marker.APPEND"))
    _rewrite(shared, whole)
    commit = max(path.glob(".hoodie/*.deltacommit"))
    told = commit.read_text().replace(f'"fileSizeInBytes" : {size}', f'"fileSizeInBytes" : {len(whole)}')
    _rewrite(commit, told.encode())


def _rewrite(path: Path, data: bytes) -> None:
    """A new file: copies of a table are hard links."""
    path.unlink()
    path.write_bytes(data)


def _kill_last(kit: Kit, path: Path, upsert: str, name: str, part: str, phase: Phase) -> None:
    """An upsert killed at its last change of this kind."""
    scenario = SCENARIOS[upsert]
    assert scenario.make is not None
    scenario.make(kit, path)
    probe, changes = path.with_name("probe"), Faults()
    copy_table(path, probe)
    scenario.run(probe, changes)
    shutil.rmtree(probe)
    found = [n for n, change in enumerate(changes.log, 1) if change.name == name and part in change.path]
    kit.kill(scenario, path, found[-1], phase)


def mor_logs(kit: Kit, path: Path) -> None:
    """Logs in three partitions; all that is in one of them is deleted in its log."""
    mor_base(kit, path)
    run(path, in_region(small_rows(range(4000, 4002), 2, deleted=True), "gone"), options=MOR_OPTIONS)


def mor_planned(kit: Kit, path: Path) -> None:
    """A pending compaction, and a delta commit on top of it."""
    mor_logs(kit, path)
    compact(path, "schedule")
    run(path, in_region(small_rows(range(20, 40), 3), "eu"), options=MOR_OPTIONS)


def logs_planned(kit: Kit, path: Path) -> None:
    """A pending log compaction, and a delta commit after it."""
    mor_logs(kit, path)
    compact_logs(path, "schedule")
    run(path, in_region(small_rows(range(20, 40), 3), "eu"), options=MOR_OPTIONS)


def mor_compacting(kit: Kit, path: Path) -> None:
    """Its execution was killed in the middle of its second file."""
    mor_planned(kit, path)
    probe, changes = path.with_name("probe"), Faults()
    copy_table(path, probe)
    SCENARIOS["execute"].run(probe, changes)
    shutil.rmtree(probe)
    found = [n for n, change in enumerate(changes.log, 1) if change.name == "close_output"]
    kit.kill(SCENARIOS["execute"], path, found[1], Phase.DURING)


def mor_logs_rows(kit: Kit) -> list[Row]:
    return [row for row in mor_rows(kit) if row["region"] != "gone"]


def mor_planned_rows(kit: Kit) -> list[Row]:
    later = in_region(small_rows(range(20, 40), 3), "eu")
    return Model(["id"], ["region"], "ts").upsert(mor_logs_rows(kit)).upsert(later).rows()


def metadata_table(kit: Kit, path: Path) -> None:
    shutil.copytree(kit.golden("mdt_files_only") / "table", path)


def golden_rows(kit: Kit, name: str) -> list[Row]:
    return pq.read_table(kit.golden(name) / "expected" / "snapshot.parquet").to_pylist()


@dataclass(frozen=True, eq=False)
class Scenario:
    """`make` builds the table to begin with, None: there is none. `old`: its rows, None: it can't be read.

    `like` names scenarios that make some of the same changes, and `thorough` ones fail in every way at each.
    """

    name: str
    make: Make | None
    rows: list[Row]
    old: Callable[[Kit], list[Row] | None]
    operation: Operation = Operation.UPSERT
    options: Mapping[str, str] = field(default_factory=lambda: OPTIONS)
    schema: pa.Schema = SMALL_SCHEMA
    like: tuple[str, ...] = field(default=(), kw_only=True)
    thorough: bool = field(default=False, kw_only=True)

    def new(self, kit: Kit) -> list[Row]:
        made = Model(["id"], ["region"], "ts")
        made.upsert(self.old(kit) or [])
        if self.operation is Operation.UPSERT:
            made.upsert(self.rows)
        else:
            made.insert(self.rows)
        return made.rows()

    def run(self, path: str | Path, faults: Faults | None = None) -> WriteResult:
        return run(path, self.rows, self.operation, faults, self.options, self.schema)

    def again(self, path: str | Path, committed: bool) -> WriteResult:
        """The next run: the same upsert; what would add rows twice is not repeated once it was committed."""
        rows = NO_ROWS if committed and self.operation is not Operation.UPSERT else self.rows
        return run(path, rows, self.operation, None, self.options, self.schema)


@dataclass(frozen=True, eq=False)
class Once(Scenario):
    """A write with a token, run again with the same one; a write of others comes after it."""

    def run(self, path: str | Path, faults: Faults | None = None) -> WriteResult:
        return run(path, self.rows, self.operation, faults, self.options, token="dag/task/-1/day")

    def again(self, path: str | Path, committed: bool) -> WriteResult:
        assert self.run(path).status == ("already_committed" if committed else "committed")
        return run(path, NO_ROWS, options=self.options)


@dataclass(frozen=True, eq=False)
class Withdrawn(Scenario):
    """A write that a validator refuses when all its files are there; then there was no such write."""

    def new(self, kit: Kit) -> list[Row]:
        return self.old(kit) or []

    def run(self, path: str | Path, faults: Faults | None = None) -> None:  # type: ignore[override]
        query = "select count(*) from <TABLE_NAME>#-1"
        name = "hoodie.precommit.validators"
        refuse = {name: "single", f"{name}.single.value.sql.queries": query}
        with contextlib.suppress(ValidationFailed):
            run(path, self.rows, self.operation, faults, {**self.options, **refuse}, self.schema)

    def again(self, path: str | Path, committed: bool) -> WriteResult:
        return run(path, NO_ROWS, options=self.options)


@dataclass(frozen=True, eq=False)
class Locked(Scenario):
    """A write with a lock; the next one comes when what the failed one left has expired."""

    def again(self, path: str | Path, committed: bool) -> WriteResult:
        age_lock(Path(path))
        return super().again(path, committed)


@dataclass(frozen=True, eq=False)
class Direct(Scenario):
    """From a Parquet file straight into base files."""

    def run(self, path: str | Path, faults: Faults | None = None) -> WriteResult:
        source = Path(f"{path}.source.parquet")
        return run(path, self.rows, self.operation, faults, self.options, source=source)


@dataclass(frozen=True, eq=False)
class Compaction(Scenario):
    """Changes no row. The next run of any mode schedules and executes."""

    mode: str = "run"
    #: settings of the service
    more: Mapping[str, str] = field(default_factory=dict)

    def new(self, kit: Kit) -> list[Row]:
        return self.old(kit) or []

    def run(self, path: str | Path, faults: Faults | None = None) -> CompactionResult:  # type: ignore[override]
        return compact(path, self.mode, faults, self.more)

    def again(self, path: str | Path, committed: bool) -> CompactionResult:  # type: ignore[override]
        return compact(path, "run", more=self.more)


@dataclass(frozen=True, eq=False)
class LogCompaction(Compaction):
    """As a compaction, of tables of versions 8 and 9. Logs stay logs."""

    def run(self, path: str | Path, faults: Faults | None = None) -> CompactionResult:  # type: ignore[override]
        return compact_logs(path, self.mode, faults)

    def again(self, path: str | Path, committed: bool) -> CompactionResult:  # type: ignore[override]
        return compact_logs(path, "execute")


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario("upsert", base, CHANGES, lambda kit: BASE, thorough=True),
        Scenario(
            "waiting_upsert",
            base,
            CHANGES,
            lambda kit: BASE,
            options={**OPTIONS, WAIT_MS.name: "60000"},
            like=("upsert",),
        ),
        Scenario("first", None, MORE, lambda kit: None, like=("upsert",)),
        Scenario("repair", failed, CHANGES, lambda kit: BASE, like=("upsert",)),
        Locked(
            "locked",
            failed_locked,
            CHANGES,
            lambda kit: BASE,
            options=LOCK_OPTIONS,
            like=("repair", "upsert"),
        ),
        Locked(
            "at_once",
            base,
            CHANGES,
            lambda kit: BASE,
            options=AT_ONCE_OPTIONS,
            like=("upsert",),
        ),
        Locked(
            "non_blocking",
            bucketed,
            CHANGES,
            mor_rows,
            options=NON_BLOCKING_OPTIONS,
            like=("mor_upsert", "at_once"),
        ),
        Withdrawn("withdrawn", base, CHANGES, lambda kit: BASE, like=("upsert",)),
        Withdrawn(
            "mor_withdrawn",
            mor_base,
            CHANGES,
            mor_rows,
            options=MOR_OPTIONS,
            like=("mor_upsert", "withdrawn"),
        ),
        Scenario(
            "metadata_table",
            metadata_table,
            small_rows(range(70, 110, 4), 5),
            lambda kit: golden_rows(kit, "mdt_files_only"),
            options={},
            schema=GOLDEN_SCHEMA,
            like=("upsert",),
        ),
        Scenario("cdc_upsert", cdc_base, CHANGES, lambda kit: BASE, options=CDC_OPTIONS, like=("upsert",)),
        Scenario(
            "cdc_repair",
            cdc_failed,
            CHANGES,
            lambda kit: BASE,
            options=CDC_OPTIONS,
            like=("repair", "cdc_upsert"),
        ),
        Scenario("mor_upsert", mor_base, CHANGES, mor_rows, options=MOR_OPTIONS, like=("upsert",)),
        Scenario(
            "mor_first", None, MORE, lambda kit: None, options=MOR_OPTIONS, like=("first", "mor_upsert")
        ),
        Scenario(
            "mor_repair", mor_failed, CHANGES, mor_rows, options=MOR_OPTIONS, like=("repair", "mor_upsert")
        ),
        Scenario(
            "mor_repair_shared", mor_shared, CHANGES, mor_rows, options=MOR_OPTIONS, like=("mor_repair",)
        ),
        Scenario(
            "mor_insert",
            mor_base,
            MORE,
            mor_rows,
            Operation.INSERT,
            options=MOR_OPTIONS,
            like=("mor_upsert", "first"),
        ),
        Compaction(
            "schedule", mor_logs, NO_ROWS, mor_logs_rows, mode="schedule", like=("upsert",), thorough=True
        ),
        Compaction("execute", mor_planned, NO_ROWS, mor_planned_rows, mode="execute", thorough=True),
        Compaction(
            "execute_again", mor_compacting, NO_ROWS, mor_planned_rows, mode="execute", like=("execute",)
        ),
        LogCompaction("log_compaction", logs_planned, NO_ROWS, mor_planned_rows, mode="execute"),
        Compaction("compact", mor_logs, NO_ROWS, mor_logs_rows, like=("execute", "schedule")),
        Scenario("left", base, in_region(small_rows(range(6000, 6005), 1), "us"), lambda kit: BASE),
        Scenario("right", base, in_region(small_rows(range(7000, 7005), 1), "us"), lambda kit: BASE),
        Scenario("empty", base, NO_ROWS, lambda kit: BASE, like=("upsert",)),
        Scenario("insert", base, MORE, lambda kit: BASE, Operation.INSERT, like=("upsert", "first")),
        Scenario(
            "bulk_insert", base, MORE, lambda kit: BASE, Operation.BULK_INSERT, like=("upsert", "first")
        ),
        Direct("direct", base, VENUS, lambda kit: BASE, Operation.BULK_INSERT, like=("upsert", "first")),
        Once("once", base, MORE, lambda kit: BASE, Operation.INSERT, like=("upsert", "first")),
    )
}
