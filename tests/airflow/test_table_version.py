"""A table's version changes between two runs: what DAGs know of it stays, and what waits for it goes on."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG

import hoodie
from airflow_hoodie import (
    CancelOperator,
    CleanOperator,
    CommitEventTrigger,
    CommitSensor,
    DowngradeOperator,
    FreshnessSensor,
    HoodieTable,
    PartitionSensor,
    UpgradeOperator,
    UpsertOperator,
)
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieException
from airflow_hoodie.table import VERSION
from hoodie import service_api
from hoodie.table.handle import Table
from tests.support.tiers import full_but

from .test_exactly_once import context
from .test_triggers import SECONDS, deferred, first_event, revived
from .test_watchers import Store, Triggerer

DAY = datetime(2026, 1, 5, tzinfo=timezone.utc)
#: so that rows of known keys go to logs
NO_SMALL_FILES = {"hoodie.parquet.small.file.limit": "0"}
AUTO = {"hoodie.write.auto.upgrade": "true"}
WAYS = full_but({6}, [pytest.param(6, 9, id="up"), pytest.param(9, 6, id="down")])

#: where a test says nothing, its table is of version 6 before it changes
pytestmark = [pytest.mark.usefixtures("jobs_here"), pytest.mark.table_version(6)]


class Daily:
    """A table that is written by day; each day has a row of its own, and all have one in common."""

    def __init__(self, folder: Path, version: int | None = None, *, ordering: bool = True) -> None:
        self.folder = folder
        self.table = HoodieTable(
            name="orders",
            path=str(folder / "orders"),
            record_keys="id",
            partition_fields="part",
            ordering_field="ts" if ordering else None,
            table_type="MERGE_ON_READ",
            options={**NO_SMALL_FILES, **({VERSION: str(version)} if version else {})},
        )

    def write(self, day: int, **more: Any) -> dict[str, Any]:
        path = self.folder / f"{day}.parquet"
        rows = {"id": ["all", f"day {day}"], "part": ["p", "p"], "ts": [day, day]}
        if not path.exists():  # a file that is written again is another source
            pq.write_table(pa.table(rows), path)
        table = HoodieTable.from_dict({**self.table.to_dict(), "options": NO_SMALL_FILES})
        task = UpsertOperator(task_id="upsert", table=table, source=str(path), engine="local", **more)
        found: dict[str, Any] = task.execute(context(DAY + timedelta(days=day)))
        return found

    def first(self) -> str:
        """The first day, which makes the table of its version; its instant."""
        path = self.folder / "0.parquet"
        pq.write_table(pa.table({"id": ["all"], "part": ["p"], "ts": [0]}), path)
        task = UpsertOperator(task_id="upsert", table=self.table, source=str(path), engine="local")
        return str(task.execute(context(DAY))["instant"])

    def change(self, to: int, **more: Any) -> dict[str, Any]:
        table = HoodieTable.from_dict({**self.table.to_dict(), "options": NO_SMALL_FILES})
        operator: Any = UpgradeOperator if to > self.version else DowngradeOperator
        found: dict[str, Any] = operator(
            task_id="change", table=table, to=to, engine="local", **more
        ).execute(context())
        return found

    def change_in_thread(self, to: int) -> None:
        """As an operator's job does, which works in a main thread alone."""
        change = service_api.upgrade_table if to > self.version else service_api.downgrade_table
        change(self.table.path, str(to))

    @property
    def version(self) -> int:
        return Table.open(self.table.path).properties.version

    def rows(self) -> dict[str, int]:
        found = hoodie.read_table(self.table.path, columns=["id", "ts"]).to_pylist()
        assert len({row["id"] for row in found}) == len(found)
        return {row["id"]: row["ts"] for row in found}

    def commits(self) -> list[str]:
        return [str(item.time) for item in Table.open(self.table.path).timeline.commits()]


@pytest.mark.parametrize(("former", "to"), WAYS)
def test_tokens_are_honoured(tmp_path: Path, former: int, to: int) -> None:
    """Of a task that is cleared, and of one that is to write again all the same."""
    daily = Daily(tmp_path, former)
    daily.first()
    done = daily.write(1)
    assert (daily.change(to)["status"], daily.version) in {("upgraded", 9), ("downgraded", 6)}
    commits = daily.commits()
    again = daily.write(1)
    assert (again["status"], again["instant"]) == ("already_committed", done["instant"])
    assert daily.commits() == commits
    assert daily.write(2)["status"] == "committed"
    assert daily.write(1)["status"] == "already_committed"
    assert daily.rows() == {"all": 2, "day 1": 1, "day 2": 2}
    forced = daily.write(1, force=True)
    assert "written again, asked for by force" in " ".join(forced["warnings"])
    assert daily.rows() == {"all": 2, "day 1": 1, "day 2": 2}


@pytest.mark.parametrize(("former", "to"), WAYS)
def test_days_in_any_order(tmp_path: Path, former: int, to: int) -> None:
    """The newest row of a key stays, whichever day is written after the change."""
    daily = Daily(tmp_path, former)
    daily.first()
    daily.write(3)
    daily.change(to)
    for day in (1, 4, 2):
        assert daily.write(day)["status"] == "committed"
    assert daily.rows() == {"all": 4, **{f"day {day}": day for day in (1, 2, 3, 4)}}


def test_an_older_day_is_refused_where_the_last_one_written_wins(tmp_path: Path) -> None:
    """The day that was written before the upgrade is the later one for what is written after it."""
    daily = Daily(tmp_path, ordering=False)
    daily.first()
    daily.write(3)
    daily.change(9)
    with pytest.raises(
        HoodieException, match=r"later interval .*would undo|would undo what its later interval"
    ):
        daily.write(2)
    assert daily.write(4)["status"] == "committed"
    assert daily.rows()["all"] == 4


@pytest.mark.parametrize(("former", "to"), WAYS)
def test_deferred_sensors_go_on(tmp_path: Path, former: int, to: int) -> None:
    """What the change commits is no commit of rows."""
    daily = Daily(tmp_path, former)
    daily.first()
    last = daily.write(1)["instant"]
    common: dict[str, Any] = {"table": daily.table.path, "deferrable": True, "poke_interval": 0.05}
    waiting = [
        CommitSensor(task_id="commit", after=last, **common),
        PartitionSensor(task_id="partition", partitions=["p"], after=last, **common),
        CommitSensor(task_id="two", after=last, min_commits=2, **common),
    ]
    triggers = [revived(deferred(sensor).trigger) for sensor in waiting]

    async def scenario() -> list[Any]:
        tasks = [asyncio.create_task(first_event(trigger)) for trigger in triggers]
        await asyncio.sleep(0.2)
        await asyncio.to_thread(daily.change_in_thread, to)
        await asyncio.sleep(0.3)
        assert not any(task.done() for task in tasks)
        daily.write(2)
        first = [await asyncio.wait_for(task, SECONDS) for task in tasks[:2]]
        assert not tasks[2].done()
        daily.write(3)
        return [*first, await asyncio.wait_for(tasks[2], SECONDS)]

    events = asyncio.run(scenario())
    commits = [item for item in hoodie.instants(daily.table.path) if item["action"] == "deltacommit"]
    assert [event.payload["value"]["instant"] for event in events[::2]] == [
        item["instant"] for item in commits[-2:]
    ]
    assert CommitSensor(task_id="again", table=daily.table.path, after=last).poke({}).is_done
    fresh = FreshnessSensor(task_id="fresh", table=daily.table.path, max_age=timedelta(hours=1))
    assert fresh.poke({}).is_done


@pytest.mark.parametrize(("former", "to"), WAYS)
def test_watchers_name_each_commit_once(tmp_path: Path, former: int, to: int) -> None:
    """One that runs meanwhile, and one that goes on from what it had stored before."""
    daily, store = Daily(tmp_path, former), Store()
    commits = [daily.first(), daily.write(1)["instant"]]

    def watcher() -> CommitEventTrigger:
        return CommitEventTrigger(table=daily.table.path, poke_interval=0.05, start="earliest")

    async def scenario() -> list[str]:
        triggerer = Triggerer()
        triggerer.run(watcher(), store)
        await triggerer.until(lambda: len(triggerer.stored[0]) == 2)
        triggerer.confirm()
        await triggerer.until(lambda: store.writes > 0)
        await asyncio.to_thread(daily.change_in_thread, to)
        commits.append(daily.write(2)["instant"])
        await triggerer.until(lambda: len(triggerer.stored[0]) == 3)
        await triggerer.stop()
        commits.append(daily.write(3)["instant"])
        later = Triggerer()
        later.run(watcher(), store)
        await later.until(lambda: commits[-1] in later.stored[0])
        await later.stop()
        return [*triggerer.stored[0], *later.stored[0]]

    named = asyncio.run(scenario())
    assert list(dict.fromkeys(named)) == commits
    assert named.count(commits[0]) == named.count(commits[1]) == 1


def test_a_plan_of_before(tmp_path: Path) -> None:
    """The upgrade carries a compaction out, so that there is nothing to cancel, and a cancel says so."""
    daily = Daily(tmp_path)
    daily.first()
    daily.write(1)
    due = {"hoodie.compact.inline.max.delta.commits": 1}
    [plan] = hoodie.compact_table(daily.table.path, mode="schedule", options=due).pending
    assert plan in daily.change(9)["compacted"]
    rows = daily.rows()
    with pytest.raises(HoodieException, match=rf"{plan}.*completed"):
        CancelOperator(task_id="cancel", table=daily.table, instant=plan, engine="local").execute(context())
    assert daily.rows() == rows


def test_a_declared_version(tmp_path: Path) -> None:
    """It is that of a new table; another table's is refused, or upgraded where the options say so."""
    made: dict[str, Any] = {"name": "t", "path": str(tmp_path / "t"), "record_keys": "id"}
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"id": ["a"]}), path)

    def write(table: HoodieTable, day: int = 0) -> Any:
        task = UpsertOperator(task_id="upsert", table=table, source=str(path), engine="local")
        return task.execute(context(DAY + timedelta(days=day)))

    write(HoodieTable(**made))
    nine = HoodieTable(**made, version="9")
    assert HoodieTable.from_dict(nine.to_dict()) == nine
    for refused in (lambda: write(nine, 1), lambda: CleanOperator(task_id="c", table=nine).execute({})):
        with pytest.raises(HoodieConfigurationError, match=r"='9', the table has '6'.*UpgradeOperator"):
            refused()
    done = write(HoodieTable(**made, version=9, options=AUTO), 1)
    assert "the table was upgraded from version 6 to 9 first" in done["warnings"]
    assert write(nine, 2)["status"] == "committed"
    with pytest.raises(HoodieConfigurationError, match=r"='6', the table has '9'.*DowngradeOperator"):
        write(HoodieTable(**made, version=6), 3)
    new = HoodieTable(**{**made, "path": str(tmp_path / "new")}, version=8)
    write(new)
    assert Table.open(new.path).properties.version == 8


def test_the_operators_go_by_the_declared_version(tmp_path: Path) -> None:
    daily = Daily(tmp_path)
    daily.first()
    nine = HoodieTable.from_dict({**daily.table.to_dict(), "version": 9})
    assert UpgradeOperator(task_id="up", table=nine, engine="local").execute(context())["to_version"] == 9
    six = HoodieTable.from_dict({**daily.table.to_dict(), "version": 6})
    assert DowngradeOperator(task_id="down", table=six, engine="local").execute(context())["to_version"] == 6
    with DAG("parsed", schedule=None):
        with pytest.raises(
            HoodieConfigurationError, match=r"to is 6, and HoodieTable 'orders' has version=9"
        ):
            DowngradeOperator(task_id="d", table=nine, to=6)
        with pytest.raises(HoodieConfigurationError, match="to is None; give one of 6, 8, 9"):
            UpgradeOperator(task_id="u", table=daily.table)
    with pytest.raises(HoodieConfigurationError, match="version is 7; use one of 6, 8, 9"):
        HoodieTable(name="t", path="/t", record_keys="id", version=7)


def test_an_upgrade_is_no_event_of_the_table(tmp_path: Path) -> None:
    """Nor is its dry run: rows are the same, and who consumes the table's asset has nothing to do."""
    daily = Daily(tmp_path)
    daily.first()
    told = daily.change(9, dry_run=True)
    assert (told["status"], daily.version) == ("planned", 6)
    assert UpgradeOperator(task_id="up", table=daily.table, to=9).outlets == []
    daily.write(1)
    commits = daily.commits()
    [compaction] = daily.change(9)["compacted"]
    assert daily.commits() == [*commits, compaction]
    assert not CommitSensor(task_id="wait", table=daily.table.path, after=commits[-1]).poke({}).is_done
