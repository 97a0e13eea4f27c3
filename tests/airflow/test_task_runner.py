"""Events that rows' changes emit, and arguments that other tasks return, in Airflow's own task runner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from airflow.sdk.execution_time.context import OutletEventAccessors

import hoodie
from airflow_hoodie import (
    ArchiveOperator,
    CancelOperator,
    CleanOperator,
    ClusteringOperator,
    CompactionOperator,
    HoodieTable,
    IndexOperator,
    MaintenanceOperator,
    PartitionTTLOperator,
    RestoreOperator,
    RollbackOperator,
    SavepointOperator,
)
from airflow_hoodie.assets.hoodie import asset_uri
from airflow_hoodie.hooks.local import HoodieLocalHook
from hoodie.backend.local import LocalBackend
from hoodie.jobs import _main
from hoodie.progress import silent
from hoodie.write.transaction import Transaction

HEAD = """
    from datetime import datetime, timezone
    from airflow.sdk import DAG, task
    from airflow_hoodie import *

    PATH = {path!r}
    ORDERS = HoodieTable(name="orders", path=PATH, record_keys="id", partition_fields="day")
    LOCAL = {{"engine": "local", "source": {source!r}}}
    START = datetime(2026, 1, 1, tzinfo=timezone.utc)
    FIRST, DROPPED = ("{{{{ ti.xcom_pull('" + name + "')['instant'] }}}}" for name in ("first", "drop"))

"""
CHANGES = """
    with DAG("changes", schedule=[ORDERS.asset], start_date=START):
        first = UpsertOperator(task_id="first", table=ORDERS, token="one", **LOCAL)
        again = UpsertOperator(task_id="again", table=ORDERS, token="one", **LOCAL)
        more = InsertOperator(task_id="more", table=ORDERS, token="two", **LOCAL)
        drop = DeletePartitionOperator(task_id="drop", table=ORDERS, partitions="1")
        undo = RollbackOperator(task_id="undo", table=ORDERS, instant=DROPPED)
        twice = RollbackOperator(task_id="twice", table=ORDERS, instant=DROPPED)
        back = RestoreOperator(task_id="back", table=ORDERS, instant=FIRST)
        first >> again >> more >> drop >> undo >> twice >> back
"""
ARGUMENTS = """
    with DAG("arguments", schedule=[ORDERS.asset], start_date=START):
        @task
        def table():
            return ORDERS.to_dict()

        @task
        def settings():
            return {{"hoodie.index.type": "SIMPLE"}}

        @task
        def by():
            return "me"

        me, where = by(), table()
        write = UpsertOperator(
            task_id="write", table=where, options=settings(), extra_metadata={{"by": me}}, **LOCAL)
        one = InsertOperator(
            task_id="one", table=where, options={{"hoodie.index.type": me}}, **LOCAL)
        write >> one
"""


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs without processes of their own."""

    def run(hook: Any, request: Mapping[str, Any]) -> dict[str, Any]:
        with LocalBackend.started() as backend:
            return _main.run(backend, _main.parse_request(request, hook._job), silent)

    monkeypatch.setattr(HoodieLocalHook, "run", run)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "orders")


@pytest.fixture
def dag(load_dag: Callable[[str], Any], tmp_path: Path, path: str) -> Callable[[str], Any]:
    (tmp_path / "in.csv").write_text("id,day\na,1\nb,2\n")
    return lambda text: load_dag((HEAD + text).format(path=path, source=str(tmp_path / "in.csv")))


def events(run_id: str, path: str) -> dict[str, list[dict[str, Any]]]:
    """Extras of the table's events by the task that emitted them."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    found: dict[str, list[dict[str, Any]]] = {}
    with create_session() as session:
        query = select(AssetEvent).join(AssetEvent.asset)
        query = query.where(AssetEvent.source_run_id == run_id, AssetModel.uri == asset_uri(path))
        for event in session.scalars(query):
            found.setdefault(str(event.source_task_id), []).append(dict(event.extra))
    return found


def test_what_changes_rows_emits_one_event(dag: Callable[[str], Any], path: str) -> None:
    """A commit that was found emits none, nor does a rollback of what was rolled back."""
    run = dag(CHANGES).test()
    results = {ti.task_id: ti.xcom_pull(task_ids=ti.task_id) for ti in run.get_task_instances()}
    assert {name: result["status"] for name, result in results.items()} == {
        "first": "committed",
        "again": "already_committed",
        "more": "committed",
        "drop": "committed",
        "undo": "rolled_back",
        "twice": "skipped",
        "back": "restored",
    }
    found = events(run.run_id, path)
    assert Counter({name: len(extras) for name, extras in found.items()}) == dict.fromkeys(
        ("first", "more", "drop", "undo", "back"), 1
    )
    for name, action in (("drop", "replacecommit"), ("undo", "rollback"), ("back", "restore")):
        [extra] = found[name]
        assert (extra["action"], extra["instant"]) == (action, results[name]["instant"])
        assert extra["partitions"] == results[name]["partitions"]


def test_an_event_that_was_not_emitted_is_made_up_for(
    dag: Callable[[str], Any], path: str, tmp_path: Path
) -> None:
    """Its task was killed between the commit and its end."""
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.table.name": "orders",
    }
    source = {"path": str(tmp_path / "in.csv")}
    request = {"table": path, "source": source, "options": options, "token": "one"}
    with LocalBackend.started() as backend:
        made = _main.run(backend, _main.parse_request(request, "upsert"), silent)
    text = """
    with DAG("late_event", schedule=[ORDERS.asset], start_date=START):
        UpsertOperator(task_id="again", table=ORDERS, token="one", **LOCAL)
"""
    for number in (1, 0):
        run = dag(text).test()
        [ti] = run.get_task_instances()
        assert ti.xcom_pull(task_ids="again")["status"] == "already_committed"
        found = [extra["instant"] for extras in events(run.run_id, path).values() for extra in extras]
        assert found == [made["instant"]] * number


@pytest.mark.full
def test_a_restore_that_maintenance_finishes_emits_one_event(
    dag: Callable[[str], Any], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another service fails the first try, whose events Airflow drops; a cleared task emits none again."""
    table = HoodieTable(name="orders", path=path, record_keys="id", partition_fields="day")
    options = table.options_for("upsert", {"hoodie.index.bloom.num_entries": 100})
    for number in range(3):
        hoodie.write_table(pa.table({"id": ["a"], "day": ["1"], "n": [number]}), path, options=options)
    first = hoodie.instants(path)[0]["instant"]
    with monkeypatch.context() as dying:
        dying.setattr(Transaction, "roll_back", Mock(side_effect=OSError("the worker dies")))
        with pytest.raises(OSError, match="the worker dies"):
            hoodie.restore_table(path, first)
    text = """
    with DAG("maintained", schedule=None, start_date=START):
        MaintenanceOperator(task_id="m", table=ORDERS, engine="local")
"""
    with monkeypatch.context() as failing:
        failing.setattr("hoodie.services.clean.run.clean", Mock(side_effect=OSError("no space left")))
        run = dag(text).test()
    assert (str(run.state), events(run.run_id, path)) == ("failed", {})
    found = []
    for _ in range(3):
        run = dag(text).test()
        assert str(run.state) == "success"
        found.append(events(run.run_id, path).get("m", []))
    [extra], *later = found
    assert later == [[], []]
    [restored] = [item["instant"] for item in hoodie.instants(path) if item["action"] == "restore"]
    assert (extra["action"], extra["instant"], extra["partitions"]) == ("restore", restored, ["1"])


@pytest.mark.full
def test_a_partition_ttl_emits_one_event(dag: Callable[[str], Any], path: str) -> None:
    """Also where a run without Airflow deleted the partition, as a task does that dies afterwards."""
    table = HoodieTable(name="orders", path=path, record_keys="id", partition_fields="day")
    options = table.options_for("upsert", {"hoodie.index.bloom.num_entries": 100})
    hoodie.write_table(pa.table({"id": list("abc"), "day": list("123")}), path, options=options)
    text = """
    with DAG("expiring", schedule=None, start_date=START):
        PartitionTTLOperator(task_id="ttl", table=ORDERS, days=30,
            options={{"hoodie.partition.ttl.management.strategy.type": "KEEP_BY_CREATION_TIME"}})
"""
    found = []
    for old in ("", "1", "", "2"):
        if old:
            Path(path, old, ".hoodie_partition_metadata").write_text("commitTime=20200101000000000\n")
        if old == "2":
            creation = {"hoodie.partition.ttl.management.strategy.type": "KEEP_BY_CREATION_TIME"}
            hoodie.expire_partitions(
                path, options={**creation, "hoodie.partition.ttl.strategy.days.retain": 30}
            )
        run = dag(text).test()
        assert str(run.state) == "success"
        found.append([extra["partitions"] for extra in events(run.run_id, path).get("ttl", [])])
    assert found == [[], [["1"]], [], [["2"]]]
    assert hoodie.read_table(path, meta=False).column("day").to_pylist() == ["3"]


def test_arguments_that_other_tasks_return(dag: Callable[[str], Any], path: str) -> None:
    parsed = dag(ARGUMENTS)
    assert parsed.get_task("write").upstream_task_ids == {"table", "settings", "by"}
    run = parsed.test()
    states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
    assert states == {
        "table": "success",
        "settings": "success",
        "by": "success",
        "write": "success",
        "one": "failed",
    }
    [commit] = [hoodie.instants(path)[0]]
    assert commit["action"] == "commit"
    assert list(events(run.run_id, path)) == ["write"]


def test_a_dry_run_changes_nothing(path: str) -> None:
    """Of every service; what it would do is done without `dry_run`."""
    table = HoodieTable(name="orders", path=path, record_keys="id", table_type="MERGE_ON_READ")
    few = {"hoodie.compact.inline.max.delta.commits": 1, "hoodie.index.bloom.num_entries": 100}
    for number in range(3):
        rows = pa.table({"id": ["a"], "n": [number]})
        hoodie.write_table(rows, path, options=table.options_for("upsert", few))
    first, _, last = [item["instant"] for item in hoodie.instants(path)]
    local = {"engine": "local", "options": few}
    services: dict[str, tuple[type[Any], dict[str, Any]]] = {
        "compact": (CompactionOperator, local),
        "maintain": (MaintenanceOperator, {**local, "services": "compaction"}),
        "cluster": (ClusteringOperator, {"engine": "local"}),
        "clean": (CleanOperator, {"options": {"hoodie.cleaner.commits.retained": 1}}),
        "archive": (ArchiveOperator, {}),
        "index": (IndexOperator, {"mode": "create", "indexes": "files"}),
        "ttl": (PartitionTTLOperator, {"days": 1}),
        "save": (SavepointOperator, {"user": "me", "comments": ""}),
        "undo": (RollbackOperator, {"instant": last}),
        "back": (RestoreOperator, {"instant": first}),
    }
    before = files(path)
    statuses = {}
    for name, (kind, given) in services.items():
        task = kind(task_id=name, table=table, dry_run=True, **given)
        outlets = OutletEventAccessors()
        statuses[name] = task.execute({"outlet_events": outlets})["status"]
        assert task.outlets == []
        assert files(path) == before
    skipped = {name for name, status in statuses.items() if status == "skipped"}
    assert skipped <= {"cluster", "clean", "archive", "ttl"}
    assert set(statuses.values()) <= {"planned", "skipped"}
    plan = hoodie.compact_table(path, mode="schedule", options=few).scheduled
    for dry_run, status in ((True, "planned"), (False, "cancelled")):
        task = CancelOperator(task_id="cancel", table=table, instant=plan, dry_run=dry_run)
        assert task.execute({})["status"] == status


def files(path: str) -> dict[str, int]:
    return {str(file): file.stat().st_size for file in Path(path).rglob("*") if file.is_file()}
