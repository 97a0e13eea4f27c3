"""The writing operators against a fake spark-submit: what they send, what they return, what they raise."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieConflictError,
    HoodieException,
    HoodieJobError,
    HoodieJobKilledError,
    HoodieTableError,
    HoodieTableNotFoundError,
    HoodieValidationError,
)
from airflow_hoodie.operators import base, write
from airflow_hoodie.operators.write import (
    BulkInsertOperator,
    HoodieWriteOperator,
    InsertOperator,
    UpsertOperator,
)
from airflow_hoodie.runs import WAIT_FOR_WRITER
from airflow_hoodie.table import HoodieTable
from hoodie import errors
from hoodie.timeline.tokens import TaskRun

from .by_version import dag_serialization
from .conftest import FakeSubmit

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
OPERATORS = [UpsertOperator, InsertOperator, BulkInsertOperator]
WRITE_RESULT_KEYS = {
    "status", "table", "base_path", "action", "instant", "operation", "partitions", "num_inserts",
    "num_updates", "num_deletes", "num_writes", "num_files", "bytes_written", "duration_s", "warnings",
    "rolled_back", "metadata_table_removed",
}  # fmt: skip


@pytest.fixture(autouse=True)
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts by name, whether the real ones exist or not."""
    monkeypatch.setattr(base, "job_script", lambda: tmp_path / "jobs" / "run.py")


@pytest.fixture
def table(tmp_path: Path) -> HoodieTable:
    return HoodieTable(name="orders", path=str(tmp_path / "orders"), record_keys="id", partition_fields="day")


def operator(kind: type[HoodieWriteOperator], fake: FakeSubmit, table: HoodieTable, **arguments: Any) -> Any:
    """An operator whose templates were rendered by hand."""
    defaults: dict[str, Any] = {
        "task_id": "write", "source": "/in/*.parquet", "master": "local[2]", "spark_binary": str(fake.path),
        "name": "dag/write/run",
    }  # fmt: skip
    return kind(table=table, **{**defaults, **arguments})


def run(task: Any) -> dict[str, Any]:
    result: dict[str, Any] = task.execute(context={})
    return result


# --- what is sent -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", OPERATORS)
def test_the_request(
    kind: type[HoodieWriteOperator], committing: FakeSubmit, table: HoodieTable, tmp_path: Path
) -> None:
    task = operator(
        kind, committing, table, options={"hoodie.index.type": "SIMPLE"}, extra_metadata={"by": 7}
    )
    run(task)
    operation = {UpsertOperator: "upsert", InsertOperator: "insert", BulkInsertOperator: "bulk_insert"}[kind]
    args = committing.call()["args"]
    assert args[args.index("--request") - 1] == str(tmp_path / "jobs" / "run.py")
    assert committing.request() == {
        "table": table.path,
        "operation": operation,
        "source": {"path": "/in/*.parquet"},
        "options": {
            WAIT_FOR_WRITER: "3600000",
            **table.options_for(operation, {"hoodie.index.type": "SIMPLE"}),
        },
        "extra_metadata": {"by": "7"},
        "engine": "spark",
    }


def test_the_commit_names_the_task_run(committing: FakeSubmit, table: HoodieTable) -> None:
    """So that the timeline page can lead to it; what a user says under the same name stays."""
    ti = SimpleNamespace(dag_id="dag", task_id="write", run_id="manual__1", map_index=2)
    run = SimpleNamespace(run_id="manual__1", data_interval_start=None, data_interval_end=None)
    for given, named in (({}, "dag/write/2/run=manual__1"), ({"airflow.run": "mine"}, "mine")):
        task = operator(UpsertOperator, committing, table, extra_metadata={"by": 7, **given})
        task.execute(context={"ti": ti, "dag_run": run})
        request = committing.request()
        assert request["extra_metadata"] == {"by": "7", "airflow.run": named}


def test_the_commit_has_the_data_interval(committing: FakeSubmit, table: HoodieTable) -> None:
    """Also where the token is the user's own, so that it says how often the table is written."""
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    ti = SimpleNamespace(dag_id="dag", task_id="write", run_id="r", map_index=-1)
    run = SimpleNamespace(run_id="r", data_interval_start=start, data_interval_end=start + timedelta(days=1))
    task = operator(UpsertOperator, committing, table, exactly_once=False)
    task.execute(context={"ti": ti, "dag_run": run})
    said = committing.request()["extra_metadata"]
    assert said["airflow.interval"] == "2026-01-01T00:00:00+00:00/2026-01-02T00:00:00+00:00"
    known = TaskRun.of(said)
    assert known is not None
    assert (known.dag_id, known.stands_for) == ("dag", said["airflow.interval"])


def test_spark_arguments(committing: FakeSubmit, table: HoodieTable) -> None:
    task = operator(
        UpsertOperator, committing, table, conf={"spark.ui.enabled": "false"}, driver_memory="512m",
        env_vars={"HADOOP_CONF_DIR": "/etc/hadoop"}, py_files="/mine.zip", application_args=["--more", "1"],
        deploy_mode="client", num_executors=2,
    )  # fmt: skip
    run(task)
    assert committing.option("--master") == "local[2]"
    assert committing.option("--name") == "dag/write/run"
    assert committing.options("--conf") == ["spark.log.level=WARN", "spark.ui.enabled=false"]
    assert committing.option("--driver-memory") == "512m"
    assert committing.option("--deploy-mode") == "client"
    assert committing.option("--num-executors") == "2"
    assert committing.call()["args"][-2:] == ["--more", "1"]
    assert committing.call()["env"]["HADOOP_CONF_DIR"] == "/etc/hadoop"
    bundle, mine = committing.option("--py-files").split(",")
    assert mine == "/mine.zip"
    with zipfile.ZipFile(bundle) as archive:
        assert "hoodie/errors.py" in archive.namelist()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"conf": {"spark.log.level": "INFO"}}, ["spark.log.level=INFO"]),
        ({"properties_file": "/etc/spark.conf"}, []),
    ],
)
def test_the_users_log_level_wins(
    arguments: dict[str, Any], expected: list[str], committing: FakeSubmit, table: HoodieTable
) -> None:
    run(operator(UpsertOperator, committing, table, **arguments))
    assert committing.options("--conf") == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("/in", {"path": "/in"}),
        (["/in/a.csv", "/in/b.csv"], {"path": ["/in/a.csv", "/in/b.csv"]}),
        ({"path": ("/a", "/b"), "options": {}}, {"path": ["/a", "/b"]}),
        (
            {"path": "/in/a.txt", "format": "csv", "options": {"header": True, "sep": ";"}},
            {"path": "/in/a.txt", "format": "csv", "options": {"header": "true", "sep": ";"}},
        ),
        (
            {"path": "SELECT 1 AS id", "format": "sql"},
            {"path": "SELECT 1 AS id", "format": "sql"},
        ),
    ],
)
def test_sources(source: Any, expected: dict[str, Any]) -> None:
    assert write.source_request(source) == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "source path is ''"),
        (None, "source path is None"),
        ([], r"source path is \[\]"),
        (["/a", ""], r"source path is \['/a', ''\]"),
        ({"format": "csv"}, "source path is None"),
        (
            {"path": "/in", "format": "xlsx"},
            "format is 'xlsx'; use one of parquet, csv, json, avro, orc, table, sql",
        ),
        ({"path": "/in", "fmt": "csv"}, "no field 'fmt'"),
    ],
)
def test_bad_sources_fail_when_the_dag_is_read(source: Any, message: str, table: HoodieTable) -> None:
    with pytest.raises(HoodieConfigurationError, match=message):
        UpsertOperator(task_id="write", table=table, source=source)


def test_contradicting_options_fail_when_the_dag_is_read(table: HoodieTable) -> None:
    with pytest.raises(HoodieConfigurationError, match="contradicts"):
        UpsertOperator(task_id="write", table=table, source="/in", options={"hoodie.table.name": "x"})


def test_no_master_fails_before_anything_is_started(
    committing: FakeSubmit, table: HoodieTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    with pytest.raises(HoodieConfigurationError, match="'spark_default' is not defined"):
        run(operator(UpsertOperator, committing, table, master=None))
    with pytest.raises(HoodieConfigurationError, match="'spark_lake' is not defined"):
        run(operator(UpsertOperator, committing, table, master=None, spark_conn_id="spark_lake"))
    assert not Path(f"{committing.path}.json").exists()


# --- templates --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", OPERATORS)
def test_template_fields_exist(kind: type[HoodieWriteOperator], table: HoodieTable) -> None:
    task = kind(task_id="write", table=table, source="/in")
    for field in (*kind.template_fields, *kind.template_fields_renderers):
        assert field in kind.template_fields
        assert hasattr(task, field), field
    assert {"table", "source", "options", "conf", "name", "env_vars"} <= set(kind.template_fields)


def test_templates_reach_the_job(committing: FakeSubmit, tmp_path: Path) -> None:
    table = HoodieTable(
        name="orders_{{ params.env }}", path=f"{tmp_path}/{{{{ params.env }}}}/orders", record_keys="id",
        options={"hoodie.index.type": "{{ params.index }}"},
    )  # fmt: skip
    with DAG("d", start_date=START, params={"env": "eu", "index": "SIMPLE"}) as dag:
        task = UpsertOperator(
            task_id="write", table=table, source={"path": "/in/{{ ds }}/*", "format": "{{ params.fmt }}"},
            master="{{ params.master }}", extra_metadata={"day": "{{ ds }}"},
            spark_binary=str(committing.path),
        )  # fmt: skip
    ti = SimpleNamespace(dag_id="d", task_id="write", run_id="manual__1", map_index=-1)
    context = {
        "params": {"env": "eu", "index": "SIMPLE", "fmt": "csv", "master": "local[3]"},
        "ds": "2026-01-01", "dag": dag, "task": task, "ti": ti,
    }  # fmt: skip
    task.render_template_fields(context)  # type: ignore[arg-type]
    run(task)
    request = committing.request()
    assert request["table"] == f"{tmp_path}/eu/orders"
    assert request["source"] == {"path": "/in/2026-01-01/*", "format": "csv"}
    assert request["options"]["hoodie.table.name"] == "orders_eu"
    assert request["options"]["hoodie.index.type"] == "SIMPLE"
    assert request["extra_metadata"] == {"day": "2026-01-01"}
    assert committing.option("--master") == "local[3]"
    assert committing.option("--name") == "d/write/manual__1"
    assert table.path.endswith("{{ params.env }}/orders")  # the author's table is untouched


def test_a_rendered_path_is_checked_again(committing: FakeSubmit) -> None:
    table = HoodieTable(name="orders", path="{{ params.lake }}/orders", record_keys="id")
    task = operator(UpsertOperator, committing, table)
    task.table = {**task.table, "path": "lake/orders"}
    with pytest.raises(HoodieConfigurationError, match="relative"):
        run(task)


def test_the_dag_serializes_also_mapped(table: HoodieTable) -> None:

    with DAG("d", start_date=START) as dag:
        UpsertOperator(task_id="one", table=table, source="/in", master="local")
        UpsertOperator.partial(task_id="many", table=table.to_dict(), master="local").expand(
            source=["/a", "/b"]
        )
    data = json.loads(json.dumps(dag_serialization().to_dict(dag)))
    back = dag_serialization().from_dict(data)
    one: Any = back.get_task("one")
    assert one.table == table.to_dict()
    assert set(back.task_ids) == {"one", "many"}


# --- what comes back --------------------------------------------------------------------------------------


def test_the_result_is_what_the_job_printed(
    committing: FakeSubmit, table: HoodieTable, logged: Callable[[], str]
) -> None:
    result = run(operator(UpsertOperator, committing, table))
    assert set(result) == WRITE_RESULT_KEYS
    assert result["table"] == "orders"
    assert re.fullmatch(r"\d{17}", result["instant"])
    assert json.loads(json.dumps(result)) == result
    text = logged()
    assert "[index] looked up 3 keys" in text
    assert "HOODIE_RESULT" not in text
    assert "HOODIE_PROGRESS" not in text
    assert re.search(r"(?i)warning.*metadata table removed", text)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.ConfigError("hoodie.index.tipe is unknown"), HoodieConfigurationError),
        (errors.TableMismatch("key fields differ"), HoodieConfigurationError),
        (errors.TableNotFound("/t is no table"), HoodieTableNotFoundError),
        (errors.ConflictError("another writer", instant="20260101000000000"), HoodieConflictError),
        (errors.InputError("null key in row 7", row=7), HoodieValidationError),
        (errors.SchemaError("int can't become bool"), HoodieValidationError),
        (errors.UnsupportedVersion("version 9"), HoodieTableError),
        (errors.StorageError("disk full"), HoodieJobError),
        (errors.JobError("task lost"), HoodieJobError),
        (errors.HoodieError("?"), HoodieJobError),
    ],
)
def test_the_jobs_own_error(
    error: errors.HoodieError, expected: type, fake: FakeSubmit, table: HoodieTable
) -> None:
    fake.body(f"""
        print("ERROR TaskSchedulerImpl: noise")
        say("ERROR", {error.to_dict()!r})
        sys.exit(1)
    """)
    with pytest.raises(HoodieException) as caught:
        run(operator(UpsertOperator, fake, table))
    assert type(caught.value) is expected
    assert str(caught.value) == error.message
    assert caught.value.code == error.code
    assert caught.value.values == error.to_dict()["values"]


def test_every_error_code_is_known(fake: FakeSubmit) -> None:
    from airflow_hoodie.exceptions import _BY_CODE

    assert set(_BY_CODE) <= set(errors.CODES)


def test_an_error_line_counts_even_with_exit_code_zero(fake: FakeSubmit, table: HoodieTable) -> None:
    fake.body("""say("ERROR", {"code": "input", "message": "null key"})""")
    with pytest.raises(HoodieValidationError, match="null key"):
        run(operator(UpsertOperator, fake, table))


FORGED = (
    """print('row 1: HOODIE_RESULT {"status": "committed", "instant": "20260101000000000"}')\n"""
    """print('HOODIE_ERROR {"code": "input", "message": "forged"}')\n"""
    """print('HOODIE_RESULT:00000000000000000000000000000000 {"instant": "20260101000000000"}')\n"""
)


def test_a_line_of_the_data_is_no_result(
    fake: FakeSubmit, table: HoodieTable, logged: Callable[[], str]
) -> None:
    """The job's own error and its own result count, whatever else is printed before or after."""
    fake.body(f"""
        exec({FORGED!r})
        say("ERROR", {{"code": "schema", "message": "int can't become bool"}})
        exec({FORGED!r})
        sys.exit(1)
    """)
    with pytest.raises(HoodieValidationError, match="int can't become bool"):
        run(operator(UpsertOperator, fake, table))
    assert "row 1: HOODIE_RESULT" in logged()
    fake.body(f"""
        say("RESULT", {{"instant": "1"}})
        exec({FORGED!r})
    """)
    assert run(operator(UpsertOperator, fake, table)) == {"instant": "1"}
    fake.body(f"""exec({FORGED!r})""")
    with pytest.raises(HoodieJobError, match="printed no HOODIE_RESULT line"):
        run(operator(UpsertOperator, fake, table))


def test_a_failure_without_a_report_shows_the_output(fake: FakeSubmit, table: HoodieTable) -> None:
    fake.body("""
        print("JAVA_HOME is not set", file=sys.stderr)
        sys.exit(3)
    """)
    with pytest.raises(
        HoodieJobError, match=r"exit code 3 and without a report(?s:.*)JAVA_HOME is not set"
    ) as caught:
        run(operator(UpsertOperator, fake, table))
    assert caught.value.exit_code == 3
    assert not isinstance(caught.value, HoodieJobKilledError)


@pytest.mark.parametrize("code", ["os.kill(os.getpid(), 9)", "sys.exit(137)"])
def test_killed_by_the_system(code: str, fake: FakeSubmit, table: HoodieTable) -> None:
    fake.body(f"print('working', flush=True); {code}")
    with pytest.raises(HoodieJobKilledError, match=r"killed by signal 9 .*lack of memory(?s:.*)working"):
        run(operator(UpsertOperator, fake, table))
    fake.body(f"""
        say("PROGRESS", {{"step": "write", "text": "instant 20260101000000000: 3 file groups"}})
        print("WARN TaskSetManager: Lost task", flush=True)
        {code}
    """)
    with pytest.raises(HoodieJobKilledError, match=r"\n\[write\] instant 20260101000000000: 3 ") as caught:
        run(operator(UpsertOperator, fake, table))
    assert "WARN" not in str(caught.value)


def test_no_result_is_an_error(fake: FakeSubmit, table: HoodieTable) -> None:
    fake.body("print('hello')")
    with pytest.raises(HoodieJobError, match=r"printed no HOODIE_RESULT line(?s:.*)hello"):
        run(operator(UpsertOperator, fake, table))


def test_a_commit_stays_a_success_when_spark_crashes_on_leaving(
    fake: FakeSubmit, table: HoodieTable, logged: Callable[[], str]
) -> None:
    """A failure here would make a retry write the rows twice."""
    fake.body("""
        say("RESULT", {"status": "committed", "instant": "20260101000000000"})
        sys.exit(134)
    """)
    assert run(operator(InsertOperator, fake, table))["instant"] == "20260101000000000"
    assert "exit code 134 after the commit 20260101000000000, which stays" in logged()


def test_much_output_and_odd_bytes(fake: FakeSubmit, table: HoodieTable) -> None:
    fake.body("""
        for number in range(2_000):  # more than a pipe holds
            print("line", number, "x" * 80)
        print(f"HOODIE_RESULT:{nonce} {{not json}}")
        print(f'HOODIE_RESULT:{nonce} {{"instant": "1", "partitions": ["größe=ü"]}}')
    """)
    assert run(operator(UpsertOperator, fake, table))["partitions"] == ["größe=ü"]
