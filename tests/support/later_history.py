"""A random history of a table of version 8 or 9, written by Apache Hudi 1.2.0; queries after each step.

Hudi's snapshot after a step is the state of that step. Queries of the past are held against these states, and
against what Hudi itself answers of the past.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import StateUnavailable, TableBusy
from hoodie.read.changes import SCHEMA
from hoodie.table.handle import Table
from hoodie.timeline.instant import Action
from hoodie.timeline.time import REQUESTED, InstantTime
from tests.support.changes import ask, changes, images
from tests.support.hudi_client import HudiError, HudiServer
from tests.support.rows import difference
from tests.support.tables import SMALL_SCHEMA, Row, as_table, small_rows, without

MERGE_ON_READ = "MERGE_ON_READ"
#: Hudi says of these nothing that readers have to repeat
IGNORED = ("_hoodie_commit_seqno", "_hoodie_file_name")
FAILS = {
    "hoodie.precommit.validators": "org.apache.hudi.client.validator.SqlQuerySingleResultPreCommitValidator",
    "hoodie.precommit.validators.single.value.sql.queries": "select count(*) from <TABLE_NAME>#-1",
}
CLEANS = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "3"}
ARCHIVES = {
    **CLEANS,
    "hoodie.archive.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.commits.archival.batch": "2",
}
COMPACTS = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
PLANS_COMPACTION = {
    "hoodie.compact.schedule.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
}
COMPACTS_LOGS = {
    "hoodie.log.compaction.enable": "true",
    "hoodie.log.compaction.inline": "true",
    "hoodie.log.compaction.blocks.threshold": "2",
}
CLUSTERS = {
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.plan.strategy.sort.columns": "val",
    "hoodie.datasource.write.row.writer.enable": "false",
}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
#: two writers with one lock: buckets take both, other tables those that write to different file groups
LOCKED = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}
CDC = "hoodie.table.cdc.enabled"
#: Hudi 1.2.0 can't read blocks of changed columns in tables with `_hoodie_is_deleted`, where it looks for the
#: flag in rows that lack it, and in those of buckets, where it runs out of memory
PARTIAL = "hoodie.spark.sql.merge.into.partial.updates"


@dataclass(frozen=True)
class State:
    """A table after a step: Hudi's snapshot, the last instant, when the last one was completed."""

    rows: pa.Table
    requested: InstantTime
    completed: InstantTime


@dataclass
class History:
    """One table; `steps` says what was done and what was found on the way."""

    server: HudiServer
    path: Path
    version: int
    kind: str
    seed: int
    states: list[State] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    completions: dict[InstantTime, InstantTime] = field(default_factory=dict)
    number: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(f"{self.version} {self.kind} {self.seed}")
        self.name = f"t_{self.version}_{self.kind.lower()}_{self.seed}"
        self.buckets = self.kind == MERGE_ON_READ and self.chance.random() < 0.4
        self.cdc = self.chance.random() < 0.4
        self.flagged = self.chance.random() < 0.4
        self.mode = self.chance.choice(["EVENT_TIME_ORDERING", "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
        self.options = {
            "hoodie.table.name": self.name,
            "hoodie.write.table.version": str(self.version),
            "hoodie.datasource.write.table.type": self.kind,
            "hoodie.table.type": self.kind,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "region",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.write.record.merge.mode": self.mode,
            "hoodie.compact.inline": "false",
            "hoodie.index.bloom.num_entries": "200",
            "hoodie.metadata.compact.max.delta.commits": "3",
            "hoodie.merge.allow.duplicate.on.inserts": "false",
            **(BUCKETS if self.buckets else {}),
        }
        if self.cdc:
            self.options[CDC] = "true"
            modes = ["data_before_after", "data_before", "op_key_only"]
            self.options["hoodie.table.cdc.supplemental.logging.mode"] = self.chance.choice(modes)
        chosen = f"{self.mode}{' buckets' * self.buckets}{' cdc' * self.cdc}{' flag' * self.flagged}"
        self.steps.append(f"version {self.version} {self.kind} seed {self.seed} {chosen}")

    # ---- steps

    def actions(self) -> dict[str, tuple[int, Callable[[], None]]]:
        """Name -> how often, and what is done."""
        found: dict[str, tuple[int, Callable[[], None]]] = {
            "upsert": (2, lambda: self.upsert()),
            "delete": (1, lambda: self.upsert("delete")),
            "merge": (3, self.merge_into),
            "overwrite": (1, self.overwrite),
            "clean": (1, lambda: self.upsert(**CLEANS)),
            "archive": (2, lambda: self.upsert(**ARCHIVES)),
            "failed write": (1, self.failed_write),
            "two writers": (1, self.two_writers),
        }
        if not self.buckets:
            found["cluster"] = (1, lambda: self.upsert(**CLUSTERS))
        if self.kind == MERGE_ON_READ:
            found["compact"] = (1, lambda: self.upsert(**COMPACTS))
            found["plan compaction"] = (1, lambda: self.upsert(**PLANS_COMPACTION))
            found["compact logs"] = (1, lambda: self.upsert(**COMPACTS_LOGS))
        return found

    def run(self, each: Callable[[], None]) -> None:
        """All kinds of steps, in a random order; `each` is called after every one."""
        with self.kept():
            self.upsert("insert", ids=range(40))
            self.steps.append("insert")
            self.server.sql(f"create table {self.name} using hudi location '{self.path}'")
            try:
                self.taken()
                each()
                actions = self.actions()
                names = [name for name, (often, _) in actions.items() for _ in range(often)]
                self.chance.shuffle(names)
                for name in names:
                    self.steps.append(name)
                    self.step(actions[name][1])
                    self.taken()
                    each()
            finally:
                self.server.sql(f"drop table if exists {self.name}")

    def step(self, action: Callable[[], None]) -> None:
        """Where Hudi fails the history goes on: with its next write it withdraws what it began."""
        try:
            action()
        except HudiError as error:
            self.steps[-1] += " failed"
            self.count("Hudi failed: " + str(error).splitlines()[-1][:80])

    @contextmanager
    def kept(self) -> Iterator[None]:
        """The session keeps the table's version, which its statements would upgrade otherwise."""
        settings = {"hoodie.write.table.version": str(self.version)}
        if self.buckets:
            settings |= BUCKETS
        if self.flagged or self.buckets:
            settings[PARTIAL] = "false"
        for name, value in settings.items():
            self.server.sql(f"set {name}={value}")
        try:
            yield
        finally:
            self.server.sql("set hoodie.write.table.version=6")
            for name in settings.keys() - {"hoodie.write.table.version"}:
                self.server.sql(f"reset {name}")

    def ids(self) -> list[int]:
        return sorted(self.chance.sample(range(80), self.chance.choice([1, 5, 12, 25])))

    def batch(self, ids: Iterator[int] | range | list[int]) -> list[Row]:
        """Rows of the next version; some batches are late."""
        self.number += 1
        late = self.chance.random() < 0.25
        ts = 1000 * self.number - (2500 if late else 0)
        rows = small_rows(ids, self.number, ts=ts)
        for row in rows:
            gone = self.chance.random()
            row["_hoodie_is_deleted"] = True if gone < 0.05 else None if gone < 0.4 else False
        return rows

    @property
    def schema(self) -> pa.Schema:
        return SMALL_SCHEMA if self.flagged else without(SMALL_SCHEMA, "_hoodie_is_deleted")

    def upsert(self, operation: str = "upsert", ids: Any = None, **more: str) -> None:
        rows = self.batch(self.ids() if ids is None else ids)
        self.put(operation, rows, **more)

    def put(self, operation: str, rows: list[Row], **more: str) -> None:
        mode = "append" if self.states else "overwrite"
        table = as_table(rows, self.schema)
        self.server.write(self.path, table, {**self.options, **more}, operation=operation, mode=mode)

    def merge_into(self) -> None:
        """Rows that are there get some columns; others are inserted, half of the times.

        Not beside changed columns: where Hudi 1.2.0 puts inserts into a small file, it writes rows of changed
        columns to that file as if they had all, so that values are in other columns.
        """
        self.number += 1
        low = self.chance.randrange(70)
        ts = 1000 * self.number - self.chance.choice([0, 0, 2500])
        columns = self.chance.choice([["val"], ["name"], ["val", "name"]])
        sets = ", ".join(f"t.{name} = s.{name}" for name in [*columns, "ts"])
        inserts = "when not matched then insert *" if self.chance.random() < 0.5 else ""
        if self.flagged or self.buckets:
            sets = "*"
        elif self.kind == MERGE_ON_READ:
            inserts = ""
        source = self.merge_source(range(low, low + self.chance.choice([3, 10, 20])), ts)
        self.steps[-1] += f" {columns} {ts}{' insert' * bool(inserts)}"
        self.server.sql(
            f"merge into {self.name} t using ({source}) s on t.id = s.id and t.region = s.region "
            f"when matched then update set {sets} {inserts}"
        )

    def merge_source(self, ids: range, ts: int) -> str:
        rows = [
            f"('{row['id']}', {ts}L, '{row['region']}', cast({self.number * 100 + number} as int), "
            f"'m{self.number}-{number}'{', false' * self.flagged})"
            for number, row in enumerate(small_rows(ids, self.number))
        ]
        names = ", ".join(self.schema.names)
        return f"select * from values {', '.join(rows)} as s({names})"

    def overwrite(self) -> None:
        region = self.chance.randrange(3)
        self.put("insert_overwrite", self.batch(range(100 + region, 130, 3)))

    def failed_write(self) -> None:
        """The next write rolls it back."""
        with pytest.raises(HudiError):
            self.upsert(**FAILS)

    def two_writers(self) -> None:
        """The first begins first and is completed last. They would leave what failed before, and Hudi then
        refuses to roll it back.
        """
        if self.steps[-2] == "failed write":
            self.upsert()
        if self.buckets:
            options = {**LOCKED, "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}
            first, second = self.batch(self.ids()), self.batch(self.ids())
        else:
            options = {**LOCKED, "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
            first, second = (
                self.batch(
                    [number for number in range(40) if number % 3 == region][: self.chance.choice([3, 9])]
                )
                for region in self.chance.sample(range(3), 2)
            )
        pause = 4000 // len(first)
        with self.server.writing(
            self.path, as_table(first, self.schema), {**self.options, **options}, pause=pause
        ):
            self.wait_for_request()
            self.put("upsert", second, **options)
        done = {item.time for item in self.table().timeline.commits()}
        assert len(done - self.completions.keys()) >= 2

    def wait_for_request(self) -> None:
        """Until a write has begun that is not completed yet."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if any(
                not item.completed
                for item in self.table().timeline.filter([Action.COMMIT, Action.DELTACOMMIT])
            ):
                return
            time.sleep(0.05)
        raise AssertionError("the first write did not begin")

    # ---- states

    def table(self) -> Table:
        return Table.open(str(self.path))

    def taken(self) -> None:
        """The state after a step."""
        timeline = self.table().timeline
        done = {item.time: timeline.completion_time(item) for item in timeline.commits()}
        state = State(
            self.server.read(self.path),
            max(done, key=REQUESTED.key),
            max((time for time in done.values() if time), key=REQUESTED.key),
        )
        self.states.append(state)
        for requested, completed in done.items():
            if completed:
                self.completions[requested] = completed

    def same(self, got: pa.Table, expected: pa.Table) -> str | None:
        return difference(got, expected, meta=True, ignore=IGNORED)

    # ---- queries

    def check(self, spark: bool = False) -> None:
        """Every kind of query now, at a random state of the past, and over random spans."""
        self.asked: list[tuple[dict[str, Any], pa.Table]] = []
        self.check_now()
        self.check_as_of()
        for _ in range(2):
            self.check_incremental()
        if self.cdc:
            self.check_changes()
        if spark:
            self.check_spark()

    def ours(self, **query: Any) -> pa.Table | None:
        """None where the state is not there any more."""
        try:
            found: pa.Table = hoodie.read_table(str(self.path), **query)
        except (StateUnavailable, TableBusy) as error:
            self.count(type(error).__name__)
            return None
        self.asked.append((query, found))
        return found

    def theirs(self, **options: str) -> pa.Table | None:
        """None where Hudi gives no answer."""
        try:
            found = self.server.read(self.path, options=options)
        except HudiError as error:
            self.count("Hudi: " + str(error).splitlines()[-1][:80])
            return None
        return found

    @property
    def changed_columns(self) -> bool:
        """Are there logs of changed columns only."""
        whole = self.kind != MERGE_ON_READ or self.flagged or self.buckets
        return not whole and any(step.startswith("merge") for step in self.steps)

    @property
    def cleaned(self) -> bool:
        return any(step.startswith(("clean", "archive")) for step in self.steps)

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def check_now(self) -> None:
        found = self.ours()
        assert found is not None
        self.agree("snapshot", self.same(found, self.states[-1].rows))
        if self.kind == MERGE_ON_READ:
            optimized = self.ours(query="read_optimized")
            theirs = self.theirs(**{"hoodie.datasource.query.type": "read_optimized"})
            assert optimized is not None
            assert theirs is not None
            self.agree("read optimized", self.same(optimized, theirs))

    def check_as_of(self) -> None:
        state = self.chance.choice(self.states)
        found = self.ours(as_of=state.requested)
        theirs = self.theirs(**{"as.of.instant": state.requested})
        if found is None:
            if theirs is not None:
                self.notes.append(f"as of {state.requested}: refused, Hudi: {self.same(theirs, state.rows)}")
            return
        self.count("as of")
        self.agree(f"as of {state.requested}", self.same(found, state.rows))
        if theirs is not None and (text := self.same(found, theirs)):
            self.count("as of: Hudi differs")
            self.notes.append(f"as of {state.requested}: {text}")

    def check_incremental(self) -> None:
        """Rows of the state at the end that commits of the span wrote; so say Hudi's snapshots."""
        ends = self.chance.sample(self.states, min(2, len(self.states)))
        ends.sort(key=lambda state: REQUESTED.key(state.completed))
        end = ends[-1]
        begin = "000" if self.chance.random() < 0.3 or len(ends) < 2 else ends[0].completed
        found = self.ours(begin=begin, end=end.completed)
        span = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": begin,
            "hoodie.datasource.read.end.instanttime": end.completed,
        }
        # Hudi reads the logs of a span without the base files: of changed columns it then makes no rows, or
        # runs out of memory
        theirs = None if self.changed_columns else self.theirs(**span)
        what = f"incremental {begin} {end.completed}"
        if found is None:
            return
        self.count("incremental")
        within = [
            time
            for time, at in self.completions.items()
            if REQUESTED.until(at, end.completed) and (begin == "000" or REQUESTED.after(at, begin))
        ]
        times = end.rows.column("_hoodie_commit_time").to_pylist()
        expected = end.rows.filter(pa.array([time in within for time in times], pa.bool_()))
        self.agree(what, self.same(found, expected))
        if theirs is not None and (text := self.same(found, theirs)):
            # of logs Hudi gives rows that lost, and of files that were cleaned what the newest ones have
            assert self.kind == MERGE_ON_READ or self.cleaned, f"{what}: Hudi has other rows: {text}"
            self.count("incremental: Hudi differs")
            self.notes.append(f"{what}: {text}")

    def check_changes(self) -> None:
        """Changes lead from a state to a later one, and are those of Hudi."""
        ends = self.chance.sample(self.states, min(2, len(self.states)))
        ends.sort(key=lambda state: REQUESTED.key(state.completed))
        begin, end = ends[0], ends[-1]
        try:
            found = changes(ask(str(self.path), begin.completed, end.completed))
        except (StateUnavailable, TableBusy) as error:
            self.count("changes: " + type(error).__name__)
            return
        self.count("changes")
        rest = Counter(images(begin.rows))
        rest.update(json.dumps(after, sort_keys=True) for _, _, _, after in found if after is not None)
        rest.subtract(json.dumps(before, sort_keys=True) for _, _, before, _ in found if before is not None)
        assert +rest == Counter(images(end.rows)), f"{self.steps}: changes {begin.completed} {end.completed}"
        assert not -rest
        source = f"hudi_table_changes('{self.path}', 'cdc', '{begin.completed}', '{end.completed}')"
        try:
            rows = self.server.sql(f"select op, ts_ms, before, after from {source}")
        except HudiError as error:
            self.count("changes: Hudi: " + str(error).splitlines()[-1][:80])
            return
        theirs = changes(pa.Table.from_pylist(rows, schema=SCHEMA))
        if found != theirs:
            self.count("changes: Hudi differs")
            more = [row for row in found if row not in theirs]
            less = [row for row in theirs if row not in found]
            self.notes.append(
                f"changes {begin.completed} {end.completed}: ours {more[:4]}, theirs {less[:4]}"
            )

    def check_spark(self) -> None:
        """The same queries on Spark, in Hudi's session."""
        folder = self.server.work_dir / f"spark-{self.name}-{len(self.states)}"
        asked = [
            (str(self.path), query, str(folder / str(number))) for number, (query, _) in enumerate(self.asked)
        ]
        self.server.program("queries", asked)
        for (query, ours), (_, _, out) in zip(self.asked, asked, strict=True):
            self.agree(f"Spark {query}", self.same(pq.read_table(out), ours))
            self.count("Spark")

    def agree(self, what: str, text: str | None) -> None:
        assert text is None, "\n".join([*self.steps, *self.notes[-3:], what, str(text)])
