"""IngestOperator: the request, and runs of a DAG on Airflow's task runner with jobs of the local engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from airflow_hoodie import HoodieTable, IngestOperator
from airflow_hoodie.exceptions import HoodieConfigurationError

from .test_dag import states

DAG_FILE = """
    from datetime import datetime, timezone
    from airflow.sdk import DAG, task
    from airflow_hoodie import HoodieTable, IngestOperator

    EVENTS = HoodieTable(name="events", path={folder!r} + "/events", record_keys="id")

    with DAG("ingest", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
        ingest = IngestOperator(
            task_id="ingest", table=EVENTS, source={folder!r} + "/in", operation="insert", engine="local",
            max_files=2, skip_if_empty=True,
        )

        @task
        def after(result):
            return result["files_left"]

        after(ingest.output)
"""


def land(folder: Path, *names: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    for number, name in enumerate(names):
        path = folder / "in" / f"{name}.parquet"
        pq.write_table(pa.table({"id": [name]}), path)
        os.utime(path, (number + 1, number + 1))


@pytest.mark.full
def test_runs_take_new_files_and_are_skipped_without(load_dag: Callable[[str], Any], tmp_path: Path) -> None:
    from .test_mapped import asset_events

    land(tmp_path, "a", "b", "c")
    dag = load_dag(DAG_FILE.format(folder=str(tmp_path)))
    found = []
    for day in (1, 2, 3):
        run = dag.test(logical_date=datetime(2026, 1, day, tzinfo=timezone.utc))
        found.append((states(run), sum(asset_events(run.run_id).values())))
    done = {"ingest": "success", "after": "success"}
    assert found == [(done, 1), (done, 1), ({"ingest": "skipped", "after": "skipped"}, 0)]
    rows = hoodie.read_table(str(tmp_path / "events"))
    assert sorted(rows["id"].to_pylist()) == ["a", "b", "c"]
    assert len(hoodie.instants(str(tmp_path / "events"))) == 2


def made(**arguments: Any) -> IngestOperator:
    table = HoodieTable(name="t", path="/lake/t", record_keys="id")
    return IngestOperator(**{"task_id": "ingest", "table": table, "source": "/in", **arguments})


def test_the_request() -> None:
    task = made(max_bytes="2m", lookback=timedelta(minutes=1), start_after=0, operation="bulk_insert")
    task.resolve()
    request = task.request()
    assert {name: request[name] for name in ("operation", "write_operation", "source")} == {
        "operation": "ingest",
        "write_operation": "bulk_insert",
        "source": {"path": "/in"},
    }
    assert (request["max_bytes"], request["lookback_s"], request["start_after"]) == (2 << 20, 60.0, 0)
    assert "max_files" not in request


@pytest.mark.parametrize(
    "given",
    [
        {"error_table": "/lake/errors", "max_bad_rows": 5},
        {
            "options": {"hoodie.errortable.enable": True, "hoodie.errortable.base.path": "/lake/errors"},
            "max_bad_rows": 5,
        },
    ],
)
def test_the_error_table_is_named_by_a_path_or_by_settings(given: dict[str, Any]) -> None:
    task = made(**given)
    task.resolve()
    request = task.request()
    assert (request["error_table"], request["max_bad_rows"]) == ("/lake/errors", 5)
    assert "hoodie.errortable.enable" not in request["options"]
    assert task.auto_choice().engine == "local"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"operation": "delete"}, "operation is 'delete'; use one of upsert"),
        ({"max_files": 0}, "max_files is 0"),
        ({"max_bytes": "x"}, "max_bytes is 'x'"),
        ({"lookback": -1}, "lookback is -1"),
        ({"start_after": "yesterday"}, "start_after is 'yesterday'"),
        ({"source": {"path": "/in", "format": "sql"}}, "takes files"),
        ({"error_table": "errors"}, "table path 'errors' is relative"),
        ({"max_bad_rows": 5}, "max_bad_rows bounds an error table"),
        ({"options": {"hoodie.errortable.enable": True}}, "needs hoodie.errortable.base.path"),
    ],
)
def test_what_is_wrong_is_said_when_the_dag_is_read(given: dict[str, Any], message: str) -> None:
    with pytest.raises(HoodieConfigurationError, match=message):
        made(**given)


def test_an_empty_source_is_no_reason_for_spark(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    task = made(source=str(tmp_path / "in"), engine="auto")
    task.resolve()
    assert task.auto_choice().engine == "local"
    task.check_before_spark({"path": str(tmp_path / "in")})


def test_files_that_were_left_out_are_in_the_event(tmp_path: Path, jobs_here: None) -> None:
    from airflow_hoodie.assets.events import result_event

    land(tmp_path, "a")
    (tmp_path / "in" / "b.parquet").write_text("no Parquet")
    table = HoodieTable(name="t", path=str(tmp_path / "t"), record_keys="id")
    task = made(table=table, source=str(tmp_path / "in"), engine="local", max_bad_files=1)
    result = task.execute({})
    assert result_event(result)["bad_files"] == result["bad_files"]
    assert result["bad_files"][0]["file"] == str(tmp_path / "in" / "b.parquet")
    with pytest.raises(HoodieConfigurationError, match="max_bad_files is 0; give a whole number, 1 or more"):
        made(max_bad_files=0)
