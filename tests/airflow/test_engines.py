"""engine="local" and engine="auto": writes in a process of the worker, with the rows and commits of Spark."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG

import hoodie
from airflow_hoodie import engines
from airflow_hoodie.assets.events import result_event
from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieJobError,
    HoodieJobKilledError,
    HoodieSourceNotFoundError,
    HoodieValidationError,
)
from airflow_hoodie.hooks import process_group
from airflow_hoodie.hooks.local import HoodieLocalHook
from airflow_hoodie.job_output import JobOutput
from airflow_hoodie.operators import base
from airflow_hoodie.operators.maintenance import MaintenanceOperator
from airflow_hoodie.operators.services import (
    CleanOperator,
    ClusteringOperator,
    CompactionOperator,
    LogCompactionOperator,
)
from airflow_hoodie.operators.write import (
    BulkInsertOperator,
    DeleteOperator,
    DeletePartitionOperator,
    InsertOperator,
    InsertOverwriteOperator,
    UpsertOperator,
)
from airflow_hoodie.table import HoodieTable
from tests.support.later_tables import new_tables_of

from .conftest import FakeSubmit
from .test_exactly_once import JOB, context
from .test_operators import WRITE_RESULT_KEYS

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.fixture
def table(tmp_path: Path) -> HoodieTable:
    return HoodieTable(
        name="orders",
        path=str(tmp_path / "orders"),
        record_keys="id",
        partition_fields="day",
        ordering_field="ts",
    )


def source(folder: Path, ids: str, value: int, day: str = "2026-01-01") -> str:
    path = folder / f"{ids}{value}.parquet"
    rows = {"id": list(ids), "day": [day] * len(ids), "ts": [value] * len(ids), "n": [value] * len(ids)}
    pq.write_table(pa.table(rows), path)
    return str(path)


def stored(table: HoodieTable) -> dict[str, int]:
    rows = hoodie.read_table(table.path, columns=["id", "n"])
    return dict(sorted(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True)))


def run(task: Any, where: Any = None) -> dict[str, Any]:
    result: dict[str, Any] = task.execute(context=where or {})
    return json.loads(json.dumps(result))  # type: ignore[no-any-return]


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)


# --- what a local job does --------------------------------------------------------------------------------


def test_every_write_without_spark(
    table: HoodieTable, tmp_path: Path, no_spark: None, jobs_here: None
) -> None:
    def write(kind: Any, **more: Any) -> dict[str, Any]:
        return run(kind(task_id="write", table=table, engine="local", **more))

    first = write(BulkInsertOperator, source=source(tmp_path, "ab", 1))
    assert set(first) > WRITE_RESULT_KEYS
    assert (first["operation"], first["num_inserts"]) == ("bulk_insert", 2)
    write(InsertOperator, source=source(tmp_path, "c", 2))
    upserted = write(UpsertOperator, source=source(tmp_path, "bd", 3))
    assert (upserted["num_updates"], upserted["num_inserts"]) == (1, 1)
    assert stored(table) == {"a": 1, "b": 3, "c": 2, "d": 3}
    planned = write(UpsertOperator, source=source(tmp_path, "a", 9), dry_run=True)
    assert (planned["status"], planned["num_updates"]) == ("planned", 1)
    with pytest.raises(HoodieValidationError, match=r"hoodie.write.max.amplification is 1\.5"):
        write(UpsertOperator, source=source(tmp_path, "a", 9), max_write_amplification=1.5)
    assert stored(table) == {"a": 1, "b": 3, "c": 2, "d": 3}
    write(DeleteOperator, source=source(tmp_path, "a", 4))
    assert stored(table) == {"b": 3, "c": 2, "d": 3}
    write(InsertOverwriteOperator, source=source(tmp_path, "e", 5))
    assert stored(table) == {"e": 5}
    write(UpsertOperator, source=source(tmp_path, "f", 6, day="2026-01-02"))
    write(DeletePartitionOperator, partitions="2026-01-01")
    assert stored(table) == {"f": 6}
    write(InsertOverwriteOperator, source=source(tmp_path, "g", 7), whole_table=True)
    assert stored(table) == {"g": 7}


def test_compaction_and_clustering_without_spark(tmp_path: Path, no_spark: None, jobs_here: None) -> None:
    table = HoodieTable(
        name="t", path=str(tmp_path / "t"), record_keys="id", partition_fields="day", ordering_field="ts",
        table_type="MERGE_ON_READ", options={"hoodie.compact.inline.max.delta.commits": 1},
    )  # fmt: skip
    for value in (1, 2):
        run(UpsertOperator(task_id="w", table=table, engine="auto", source=source(tmp_path, "ab", value)))
    compacted = run(CompactionOperator(task_id="c", table=table, engine="auto"))
    assert len(compacted["compacted"]) == 1
    assert run(ClusteringOperator(task_id="c", table=table, engine="local"))["operation"] == "cluster"
    swept = run(MaintenanceOperator(task_id="m", table=table, engine="auto"))
    assert (swept["operation"], swept["failed"]) == ("services", [])
    assert stored(table) == {"a": 2, "b": 2}


def test_errors_are_those_of_spark_jobs(table: HoodieTable, tmp_path: Path) -> None:
    bad = tmp_path / "bad.parquet"
    rows = {"id": pa.array([None], pa.string()), "day": ["2026-01-01"], "ts": [1]}
    pq.write_table(pa.table(rows), bad)
    with pytest.raises(HoodieValidationError, match="null"):
        run(UpsertOperator(task_id="w", table=table, engine="local", source=str(bad)))


@pytest.mark.parametrize("engine", ["local", "spark", "auto"])
def test_what_is_wrong_fails_before_a_process_starts(
    engine: str, committing: FakeSubmit, table: HoodieTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: str, **more: Any) -> None:
        given = source(tmp_path, "a", 1)
        task = UpsertOperator(
            task_id="w", table={**table.to_dict(), "path": path}, engine=engine, master="local[2]",
            spark_binary=str(committing.path), name="n", **{"source": given, **more},
        )  # fmt: skip
        run(task)

    monkeypatch.setattr(HoodieLocalHook, "_command", lambda self: [str(committing.path)])
    with pytest.raises(HoodieConfigurationError, match=r"unknown setting 'hoodie\.bad'"):
        write(table.path, options={"hoodie.bad": 1})
    with pytest.raises(HoodieConfigurationError, match="ftp"):
        write("ftp://host/t")
    if engine != "local":
        monkeypatch.delenv("HADOOP_CONF_DIR")
        Path(table.path).mkdir()
        for none in ("/in/none", "/in/*.none", [f"{tmp_path}/empty"], {"path": "/in/none", "format": "csv"}):
            with pytest.raises(HoodieSourceNotFoundError, match="no such source: /"):
                write(table.path, source=none)
    assert not Path(f"{committing.path}.json").exists()


# --- what is wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"engine": "flink"}, "engine is 'flink'; use one of local, spark, auto"),
        ({"engine": None}, "engine is None"),
        (
            {"engine": "local", "conf": {"spark.ui.enabled": "false"}, "driver_memory": "1g"},
            "starts no Spark, so conf, driver_memory would have no effect",
        ),
        ({"engine": "local", "py_files": "mine.zip"}, "py_files would have no effect; leave it out"),
        ({"local_max_size": "much"}, "local_max_size is 'much'; give bytes, or a text such as 512m or 2g"),
        ({"local_memory": "2 g"}, "local_memory is '2 g'"),
    ],
)
def test_what_is_wrong_fails_when_the_dag_is_read(
    arguments: dict[str, Any], message: str, table: HoodieTable
) -> None:
    with pytest.raises(HoodieConfigurationError, match=message):
        UpsertOperator(task_id="w", table=table, source="/in", **arguments)


def test_where_spark_runs_is_no_matter_of_a_local_job(
    table: HoodieTable, tmp_path: Path, jobs_here: None
) -> None:
    task = UpsertOperator(
        task_id="w", table=table, source=source(tmp_path, "a", 1), engine="local", master="yarn",
        spark_conn_id="none", spark_binary="/none", name="n",
    )  # fmt: skip
    assert run(task)["status"] == "committed"


def test_a_rendered_engine(table: HoodieTable, tmp_path: Path, jobs_here: None) -> None:
    with DAG("d", start_date=START, params={"engine": "local"}) as dag:
        task = UpsertOperator(
            task_id="w", table=table, source=source(tmp_path, "a", 1), engine="{{ params.engine }}"
        )
    ti: Any = SimpleNamespace(dag_id="d", task_id="w", run_id="manual__1", map_index=-1)
    where: Any = {"params": {"engine": "local"}, "dag": dag, "task": task, "ti": ti}
    task.render_template_fields(where)
    assert run(task)["status"] == "committed"
    task.engine = "flink"
    with pytest.raises(HoodieConfigurationError, match="engine is 'flink'"):
        run(task)


def test_a_worker_without_the_packages(
    table: HoodieTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_spark: None
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyarrow" else find(name))
    common: dict[str, Any] = {"task_id": "w", "table": table, "source": source(tmp_path, "a", 1)}
    with pytest.raises(HoodieConfigurationError, match=r"no pyarrow.*pip install pyarrow"):
        run(UpsertOperator(**common, engine="local"))
    with pytest.raises(
        HoodieConfigurationError,
        match=r"takes Spark: this worker has no pyarrow .*pip install pyarrow.* 'spark_default' is not",
    ):
        run(UpsertOperator(**common, engine="auto"))


def test_a_quality_gate_needs_duckdb(
    table: HoodieTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "duckdb" else find(name))
    gated = HoodieTable(**{**table.to_dict(), "options": {"hoodie.precommit.validators": "single"}})
    path = source(tmp_path, "a", 1)
    with pytest.raises(HoodieConfigurationError, match=r"no duckdb.*pip install duckdb"):
        run(UpsertOperator(task_id="w", table=gated, source=path, engine="local"))
    assert choice(UpsertOperator(task_id="w", table=gated, source=path, engine="auto"))[0] == "spark"
    assert choice(UpsertOperator(task_id="w", table=table, source=path, engine="auto"))[0] == "local"


def test_outcomes_of_validators_are_in_the_result_and_the_event(
    table: HoodieTable, tmp_path: Path, jobs_here: None
) -> None:
    """And those of one that fails in the task's exception."""
    asked = "hoodie.precommit.validators"
    query = "select count(*) from <TABLE_NAME>"

    def write(expected: int) -> dict[str, Any]:
        options = {asked: "single", f"{asked}.single.value.sql.queries": f"{query}#{expected}"}
        path = source(tmp_path, "ab", 1)
        return run(UpsertOperator(task_id="w", table=table, source=path, engine="local", options=options))

    with pytest.raises(HoodieValidationError, match="expected 3, found 2") as caught:
        write(3)
    (failed,) = json.loads(str(caught.value.values["validations"]))
    assert (failed["query"], failed["passed"], failed["found"]) == (query, False, "2")
    result = write(2)
    (passed,) = result["validations"]
    assert (passed["query"], passed["passed"], passed["found"]) == (query, True, "2")
    assert result_event(result)["validations"] == [passed]


# --- exactly once, whatever the engine --------------------------------------------------------------------


@pytest.fixture
def spark(fake: FakeSubmit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Arguments of a job that is submitted, to a fake spark-submit that writes."""
    monkeypatch.setattr(base, "job_script", lambda: tmp_path / "run.py")
    fake.body(JOB)
    return {"engine": "spark", "master": "local[2]", "spark_binary": str(fake.path), "name": "x"}


@pytest.mark.parametrize(
    ("local_first", "seen"),
    [
        pytest.param(True, True, marks=pytest.mark.full),
        (True, False),
        pytest.param(False, False, marks=pytest.mark.full),
    ],
)
def test_a_retry_on_the_other_engine_finds_the_commit(
    local_first: bool,
    seen: bool,
    spark: dict[str, Any],
    table: HoodieTable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The operator finds it, and, where it can't look, the job."""
    monkeypatch.setattr(UpsertOperator, "template_fields", ())
    path = source(tmp_path, "ab", 1)
    both = [{"engine": "local"}, spark] if local_first else [spark, {"engine": "local"}]
    if not seen:
        monkeypatch.setattr("airflow_hoodie.operators.write.committed_before", lambda *_: None)
    results = [
        run(UpsertOperator(task_id="upsert", table=table, source=path, **arguments), context())
        for arguments in both
    ]
    assert [result["status"] for result in results] == ["committed", "already_committed"]
    assert results[0]["instant"] == results[1]["instant"]
    assert set(results[0]) == set(results[1])
    assert len(hoodie.instants(table.path)) == 1
    assert stored(table) == {"a": 1, "b": 1}


#: put before the job: it is held when it is about to publish
HELD = """
import time
from hoodie.write.transaction import Transaction
Transaction.commit = lambda *args: (print("holding", flush=True), time.sleep(600))
"""


def killed_while_writing(task: Any, monkeypatch: pytest.MonkeyPatch, kill: Callable[[int], None]) -> None:
    """Runs the task up to its commit; `kill` gets the job's process id."""
    command, take = HoodieLocalHook._command, JobOutput.take
    holding = threading.Event()

    def held(self: HoodieLocalHook) -> list[str]:
        python, flag, boot, *rest = command(self)
        return [python, flag, boot.replace("runpy.run", f"exec({HELD!r}); runpy.run"), *rest]

    def watch(self: JobOutput, line: str) -> bool:
        if line == "holding":
            holding.set()
        return take(self, line)

    def wait() -> None:
        assert holding.wait(90)
        kill(task._last_hook._process.pid)

    with monkeypatch.context() as patched:
        patched.setattr(HoodieLocalHook, "_command", held)
        patched.setattr(JobOutput, "take", watch)
        killer = threading.Thread(target=wait)
        killer.start()
        try:
            run(task, context())
        finally:
            killer.join()


QUICK = {"hoodie.client.heartbeat.interval_in_ms": 1000, "hoodie.client.heartbeat.tolerable.misses": 1}


@pytest.mark.full
def test_a_killed_task_withdraws_its_write(
    spark: dict[str, Any], table: HoodieTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM; the retry, on the other engine, makes the one commit."""
    monkeypatch.setattr(UpsertOperator, "template_fields", ())
    common: dict[str, Any] = {"task_id": "upsert", "table": table, "source": source(tmp_path, "ab", 1)}
    task = UpsertOperator(**common, engine="auto", kill_grace_seconds=20)
    with pytest.raises(HoodieJobKilledError, match="because the task was"):
        killed_while_writing(task, monkeypatch, lambda pid: task.on_kill())
    assert hoodie.instants(table.path) == []
    assert run(UpsertOperator(**common, **spark), context())["status"] == "committed"
    assert stored(table) == {"a": 1, "b": 1}


def test_an_execution_timeout_ends_the_job(
    table: HoodieTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow raises in the middle of the job; the exception passes once nothing is left of it."""
    from airflow.sdk.exceptions import AirflowTaskTimeout
    from airflow.sdk.execution_time import timeout

    pids: list[int] = []

    def kill(pid: int) -> None:
        pids.append(pid)
        time.sleep(0.5)  # a signal just before the main thread reads would wait for the job's next line
        os.kill(os.getpid(), signal.SIGALRM)

    task = UpsertOperator(task_id="upsert", table=table, source=source(tmp_path, "a", 1), engine="local")
    guard: Any = timeout.TimeoutPosix
    with pytest.raises(AirflowTaskTimeout), guard(seconds=600):
        killed_while_writing(task, monkeypatch, kill)
    assert process_group.members(pids[0]) == []
    assert hoodie.instants(table.path) == []


def test_the_system_kills_a_job_of_auto(
    spark: dict[str, Any],
    table: HoodieTable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    logged: Callable[[], str],
) -> None:
    """As for lack of memory: Spark takes over, rolls the rest back and makes the one commit."""
    monkeypatch.setattr(UpsertOperator, "template_fields", ())
    arguments: dict[str, Any] = {
        "task_id": "upsert", "table": table, "source": source(tmp_path, "ab", 1), "options": QUICK,
    }  # fmt: skip

    def kill(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)

    task = UpsertOperator(**arguments, **{**spark, "engine": "auto"})
    killed_while_writing(task, monkeypatch, kill)
    assert task.result is not None
    assert task.result["status"] == "committed"
    assert "engine='auto' submits the job to Spark" in logged()
    assert [item["instant"] for item in hoodie.instants(table.path) if item["action"] == "commit"] == [
        task.result["instant"]
    ]
    assert stored(table) == {"a": 1, "b": 1}


@pytest.mark.full
def test_a_job_stays_within_its_memory(table: HoodieTable, tmp_path: Path) -> None:
    """It fails with what to do, and leaves nothing."""
    first = hoodie.write_table(
        pa.table({"id": ["a"], "day": ["d"], "ts": [1], "n": [1]}),
        table.path,
        options=table.options_for("upsert"),
    )
    path = tmp_path / "big.parquet"
    count = 400_000
    rows = {"id": [f"{n:064}" for n in range(count)], "day": ["2026-01-01"] * count, "ts": range(count)}
    rows["n"] = rows["ts"]
    pq.write_table(pa.table(rows), path)
    task = UpsertOperator(
        task_id="w", table=table, source=str(path), engine="local", local_memory="160m",
    )  # fmt: skip
    with pytest.raises(HoodieJobError, match=r"ran out of memory.*or run it on Spark") as error:
        run(task)
    assert error.value.values["out_of_memory"] is True
    assert [item["instant"] for item in hoodie.instants(table.path)] == [first.instant]
    assert stored(table) == {"a": 1}


# --- what auto takes --------------------------------------------------------------------------------------


def choice(task: Any) -> tuple[str, str]:
    found = task.auto_choice()
    return found.engine, found.why


def test_auto_on_both_sides_of_the_limit(
    spark: dict[str, Any], table: HoodieTable, tmp_path: Path, logged: Callable[[], str], jobs_here: None
) -> None:
    path = source(tmp_path, "ab", 1)
    size = os.path.getsize(path)
    common = {**spark, "task_id": "w", "table": table, "engine": "auto"}
    run(UpsertOperator(**common, source=path, local_max_size=size))
    assert not Path(f"{spark['spark_binary']}.json").exists()
    assert "engine='auto' takes local: " in logged()
    run(UpsertOperator(**common, source=source(tmp_path, "ab", 2), local_max_size=size - 1))
    assert Path(f"{spark['spark_binary']}.json").exists()
    assert f"engine='auto' takes spark: {size / 1024:.1f} KiB of source files" in logged()
    assert stored(table) == {"a": 2, "b": 2}


def test_auto_looks_at_the_last_commits(table: HoodieTable, tmp_path: Path) -> None:
    """A small source whose rows lie in large files is no small job."""
    rows = pa.table({"id": [f"{n}" for n in range(20_000)], "day": ["d"] * 20_000, "ts": range(20_000)})
    for operation in ("bulk_insert", "upsert"):
        hoodie.write_table(rows, table.path, operation=operation, options=table.options_for(operation))
    path = source(tmp_path, "ab", 1)
    common: dict[str, Any] = {"task_id": "w", "table": table, "source": path, "engine": "auto"}
    assert choice(UpsertOperator(**common))[0] == "local"
    engine, why = choice(UpsertOperator(**common, local_max_size="64k"))
    assert engine == "spark"
    assert "written by the last such commits; the limit is 64.0 KiB" in why
    assert choice(InsertOperator(**common, local_max_size="64k"))[0] == "local"


def test_auto_of_a_log_compaction_goes_by_the_last_ones(tmp_path: Path) -> None:
    inline = {"hoodie.log.compaction.inline": "true", "hoodie.log.compaction.blocks.threshold": "1"}
    table = HoodieTable(
        name="t", path=str(tmp_path / "t"), record_keys="id", table_type="MERGE_ON_READ", options=inline
    )
    rows = pa.table({"id": [f"{n}" for n in range(2_000)], "n": range(2_000)})
    common: dict[str, Any] = {"task_id": "c", "table": table, "engine": "auto", "local_max_size": "4k"}
    with new_tables_of(9):
        for _ in range(2):
            assert choice(LogCompactionOperator(**common))[0] == "local"
            hoodie.write_table(rows, table.path, options=table.options_for("upsert"))
        for kind in (LogCompactionOperator, MaintenanceOperator):
            assert choice(kind(**common))[0] == "spark"
        assert choice(CompactionOperator(**common))[0] == "local"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"path": "SELECT 1 AS id", "format": "sql"}, "the local engine has no sql source"),
        ("ftp://host/rows.parquet", "the local engine can't read ftp://host/rows.parquet"),
        ({"path": "/in.csv", "options": {"dateFormat": "dd"}}, "source has no option dateFormat"),
        ("/none/*.parquet", "neither the table nor its source is on this machine"),
    ],
)
def test_auto_leaves_to_spark_what_only_spark_reads(given: Any, why: str, table: HoodieTable) -> None:
    engine, because = choice(UpsertOperator(task_id="w", table=table, source=given, engine="auto"))
    assert engine == "spark"
    assert why in because


def test_auto_of_compressed_text_and_of_tables(table: HoodieTable, tmp_path: Path) -> None:
    (tmp_path / "rows.csv.gz").write_bytes(b"x" * 1000)
    common: dict[str, Any] = {"task_id": "w", "table": table, "engine": "auto", "local_max_size": 5000}
    assert choice(UpsertOperator(**common, source=str(tmp_path / "rows.csv.gz")))[0] == "spark"
    (tmp_path / "rows.csv").write_bytes(b"x" * 1000)
    assert choice(UpsertOperator(**common, source=str(tmp_path / "rows.csv")))[0] == "local"
    options = {"hoodie.datasource.write.recordkey.field": "id"}
    stored = pa.table({"id": [f"{number**3:x}" for number in range(1000)]})
    hoodie.write_table(stored, str(tmp_path / "from"), options=options)
    rows = {"path": str(tmp_path / "from"), "format": "table"}
    assert choice(UpsertOperator(**common, source=rows))[0] == "spark"
    assert choice(UpsertOperator(**{**common, "local_max_size": "1g"}, source=rows))[0] == "local"


def test_auto_of_services(table: HoodieTable, tmp_path: Path) -> None:
    assert choice(CleanOperator(task_id="c", table=table, engine="auto"))[0] == "local"
    assert (
        choice(MaintenanceOperator(task_id="m", table=table, engine="auto", local_max_size=0))[0] == "local"
    )


def test_auto_says_what_to_do_without_spark(table: HoodieTable, tmp_path: Path, no_spark: None) -> None:
    task = UpsertOperator(
        task_id="w", table=table, source=source(tmp_path, "a", 1), engine="auto", local_max_size=1
    )
    with pytest.raises(
        HoodieConfigurationError,
        match=r"takes Spark: .* of source files; the limit is 1 bytes\. Spark connection 'spark_default' is",
    ):
        run(task)


@pytest.mark.parametrize(
    ("text", "size"), [("512m", 512 << 20), ("2G", 2 << 30), ("64kb", 64 << 10), (7, 7), ("1t", 1 << 40)]
)
def test_sizes(text: Any, size: int) -> None:
    assert engines.size_of("x", text) == size


# --- in a DAG ---------------------------------------------------------------------------------------------

DAG_SOURCE = """
    from datetime import datetime, timezone
    from airflow.sdk import DAG
    from airflow_hoodie import *

    T = HoodieTable(name="orders", path={table!r}, record_keys="id", partition_fields="day",
                    ordering_field="ts")
    START = datetime(2026, 1, 1, tzinfo=timezone.utc)

    with DAG("engines_{name}", schedule=None, start_date=START, default_args={{"engine": "local"}}):
        first = UpsertOperator(task_id="first", table=T, source={one!r})
        sized = UpsertOperator(task_id="sized", table=T, source={one!r}, engine="auto")
        mapped = UpsertOperator.partial(task_id="mapped", table=T, max_active_tis_per_dagrun=1).expand_kwargs(
            [{{"source": {two!r}}}, {{"source": {three!r}, "engine": "auto"}}])
        clean = CleanOperator(task_id="clean", table=T)
        first >> sized >> mapped >> clean
"""


@pytest.mark.full
def test_a_dag_of_local_tasks(
    load_dag: Callable[[str], Any], table: HoodieTable, tmp_path: Path, no_spark: None
) -> None:
    """By Airflow's own task runner: default_args, mapped tasks, XComs, events."""
    paths = [source(tmp_path, ids, value) for ids, value in (("ab", 1), ("bc", 2), ("d", 3))]
    text = DAG_SOURCE.format(
        table=table.path, one=paths[0], two=paths[1], three=paths[2], name=f"p{os.getpid()}"
    )
    finished = load_dag(text).test(logical_date=START)
    tasks = finished.get_task_instances()
    assert {str(task.state) for task in tasks} == {"success"}
    assert stored(table) == {"a": 1, "b": 2, "c": 2, "d": 3}
    instants = {entry["instant"] for entry in hoodie.instants(table.path) if entry["action"] == "commit"}
    pulled = [task.xcom_pull(task_ids=task.task_id, map_indexes=task.map_index) for task in tasks]
    assert {value["instant"] for value in pulled if value["operation"] == "upsert"} == instants
    assert len(instants) == 4
