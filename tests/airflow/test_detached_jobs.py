"""Services and ingestions in deploy mode cluster: what the job did, or why it failed, is left in the table.

YARN's ResourceManager is a server with recorded answers, and the cluster's job runs in this process. What is
the same for writes with a token is in test_deferring.py.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException, TaskDeferred

import hoodie
from airflow_hoodie import HoodieTable
from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieConflictError,
    HoodieException,
    HoodieJobError,
    HoodieJobKilledError,
    HoodieTableError,
    HoodieTableNotFoundError,
    from_report,
)
from airflow_hoodie.job_results import JobResult
from airflow_hoodie.operators.ingest import IngestOperator
from airflow_hoodie.operators.maintenance import MaintenanceOperator
from airflow_hoodie.operators.services import CleanOperator, CompactionOperator
from airflow_hoodie.operators.undo import RollbackOperator
from airflow_hoodie.operators.write import UpsertOperator
from hoodie.backend.local import LocalBackend
from hoodie.backend.spark import SparkBackend
from hoodie.config.key import Config
from hoodie.errors import StorageError
from hoodie.jobs import _main
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table, TableRef
from hoodie.timeline import job_reports
from hoodie.timeline.job_reports import JobReport, StoredReport
from hoodie.write.transaction import Transaction

from .detached import DetachedTask
from .resource_manager import APP, ResourceManager, connect, running
from .timelines import WrittenTimeline

SETTINGS = {
    "hoodie.compact.inline.max.delta.commits": 1,
    "hoodie.cleaner.commits.retained": 1,
    "hoodie.index.bloom.num_entries": 100,
}


class Died(BaseException):
    """The process, at once."""


@dataclass(kw_only=True)
class Task(DetachedTask):
    """A task of the operator `kind` on a table. `printed`: the last job's HOODIE_RESULT or HOODIE_ERROR."""

    yarn: ResourceManager
    table: HoodieTable
    shown: Callable[[], str]
    kind: type[Any] = CleanOperator
    arguments: dict[str, Any] = field(default_factory=dict)
    printed: dict[str, Any] = field(default_factory=dict)

    def operator(self, **arguments: Any) -> Any:
        defaults: dict[str, Any] = {
            "task_id": "write", "table": self.table, "engine": "spark", "deferrable": True, "name": "n",
            "options": SETTINGS, "spark_binary": self.submitter(), "poll_interval": 0.05,
        }  # fmt: skip
        return self.kind(**{**defaults, **self.arguments, **arguments})

    def work(self) -> int:
        """What the cluster does: runs the job to its end; its exit code."""
        request = json.dumps(self.call()["request"])
        code = _main.main(self.kind.job, ["--request", request])
        last = self.shown().splitlines()[-1]
        self.printed = json.loads(last[last.index("{") :])
        self.printed.pop("summary", None)  # is logged
        self.yarn.end("FINISHED", "SUCCEEDED" if code == 0 else "FAILED")
        return code

    def done(self) -> dict[str, Any]:
        """One try: deferred, run on the cluster, resumed."""
        deferral = self.deferred()
        self.work()
        return self.resumed(deferral)

    @property
    def tag(self) -> str:
        return str(self.store["hoodie_submission"]["tag"])

    @property
    def report(self) -> Path:
        """Of the last submission."""
        return Path(self.table.path, ".hoodie/.aux/airflow-results", f"{self.tag}.json")

    def reports(self) -> list[str]:
        return sorted(path.name for path in self.report.parent.glob("*"))

    def instants(self, action: str) -> list[str]:
        found = hoodie.instants(self.table.path)
        return [str(item["instant"]) for item in found if item["action"] == action]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table in which a clean has something to do."""
    table = HoodieTable(name="orders", path=str(tmp_path_factory.mktemp("written")), record_keys="id")
    options = {**table.options_for("upsert", SETTINGS), "hoodie.clean.automatic": "false"}
    for number in range(3):
        hoodie.write_table(pa.table({"id": ["a"], "n": [number]}), table.path, options=options)
    return Path(table.path)


@pytest.fixture
def task(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Task]:
    """Of a clean."""
    table = HoodieTable(name="orders", path=str(tmp_path / "orders"), record_keys="id")
    shutil.copytree(written, table.path)
    monkeypatch.setattr(SparkBackend, "started", LocalBackend.started)
    with running() as yarn:
        connect(yarn, tmp_path, monkeypatch)
        yield Task(
            yarn=yarn, table=table, shown=lambda: capsys.readouterr().out, address=yarn.address,
            timeline=WrittenTimeline(table.path), folder=tmp_path,
        )  # fmt: skip


def ingesting(task: Task, *names: str) -> Task:
    """An ingestion of these files into a table that is not there yet."""
    folder = task.folder / "in"
    folder.mkdir(exist_ok=True)
    for name in names:
        pq.write_table(pa.table({"id": [name]}), folder / f"{name}.parquet")
    task.kind, task.arguments = IngestOperator, {"source": str(folder), "operation": "insert"}
    task.table = HoodieTable(name="events", path=str(task.folder / "events"), record_keys="id")
    return task


def compacting(task: Task) -> Task:
    task.kind = CompactionOperator
    task.table = HoodieTable(
        name="logs", path=str(task.folder / "logs"), record_keys="id", table_type="MERGE_ON_READ"
    )
    for number in range(2):
        options = task.table.options_for("upsert", {"hoodie.index.bloom.num_entries": 100})
        hoodie.write_table(pa.table({"id": ["a"], "n": [number]}), task.table.path, options=options)
    return task


def maintaining(task: Task) -> Task:
    task.kind = MaintenanceOperator
    return task


# --- a job ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prepared", "status"),
    [
        pytest.param(lambda task: task, "cleaned", id="clean"),
        pytest.param(compacting, "compacted", id="compact", marks=pytest.mark.full),
        pytest.param(maintaining, "done", id="services", marks=pytest.mark.full),
        pytest.param(lambda task: ingesting(task, "a", "b"), "committed", id="ingest"),
    ],
)
def test_the_result_is_that_of_the_job(prepared: Callable[[Task], Task], status: str, task: Task) -> None:
    task = prepared(task)
    deferral = task.deferred()
    assert task.call()["request"]["result_tag"] == task.tag
    assert task.call()["conf"]["spark.yarn.tags"] == task.tag
    assert task.work() == 0
    assert task.reports() == [f"{task.tag}.json"]
    result = task.resumed(deferral)
    assert result == task.printed
    assert (result["status"], result["base_path"]) == (status, task.table.path)
    assert task.reports() == []


@pytest.mark.full
def test_a_dry_run(task: Task) -> None:
    """Of a write with a token, too: it makes no commit that could be found."""
    task.arguments = {"dry_run": True}
    assert task.done()["status"] == "planned"
    assert task.instants("clean") == []
    source = task.folder / "a.parquet"
    pq.write_table(pa.table({"id": ["b"], "n": [1]}), source)
    task.kind, task.arguments = UpsertOperator, {"dry_run": True, "source": str(source)}
    assert task.done() == task.printed
    assert (task.printed["status"], len(task.instants("commit"))) == ("planned", 3)


def test_the_error_is_that_of_the_job(task: Task) -> None:
    """As in client mode, where it is printed."""
    task.kind, task.arguments = RollbackOperator, {"instant": "20200101000000000", "options": {}}
    deferral = task.deferred()
    assert task.work() == 1
    expected = from_report(task.printed)
    with pytest.raises(type(expected)) as caught:
        task.resumed(deferral)
    assert type(caught.value) is not HoodieJobError
    assert (caught.value.message, caught.value.code) == (expected.message, expected.code)
    assert caught.value.values == expected.values
    assert task.reports() == []


@pytest.mark.full
def test_a_service_that_failed_fails_the_task(task: Task) -> None:
    maintaining(task).arguments = {"wait_for_writer": 0, "services": "clean"}
    deferral = task.deferred()
    with Transaction(Table(TableRef(task.table.path), LocalStorage()), Config.of({}), True) as writer:
        writer.begin()
        assert task.work() == 0
    with pytest.raises(HoodieConflictError, match="clean of orders: another writer"):
        task.resumed(deferral)
    assert ("return_value", task.printed) in task.pushed
    assert task.reports() == []
    assert task.done()["done"] == ["clean"], "the next try runs the services again"


@pytest.mark.full
def test_an_ingestion_without_a_new_file_is_skipped(task: Task) -> None:
    ingesting(task).arguments["skip_if_empty"] = True
    with pytest.raises(AirflowSkipException):
        task.done()
    assert task.reports() == []


def test_no_table_no_job(task: Task) -> None:
    path = task.folder / "none"
    with pytest.raises(HoodieTableNotFoundError, match="is no Hudi table"):
        task.operator(table=HoodieTable(name="none", path=str(path), record_keys="id")).execute(task.context)
    assert not task.submitted
    assert not path.exists()


def test_a_success_without_a_result_is_an_error(task: Task) -> None:
    deferral = task.deferred()
    task.yarn.end("FINISHED", "SUCCEEDED")
    with pytest.raises(HoodieJobError, match=rf"{APP} succeeded, but the table has no result of it.*same"):
        task.resumed(deferral)


@pytest.mark.full
def test_the_job_outlives_a_table_that_takes_no_report(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it did is done, and a cluster would only do it again."""

    def full(*_: Any) -> None:
        raise StorageError("no space")

    monkeypatch.setattr(StoredReport, "write", full)
    task.deferred()
    assert task.work() == 0
    assert task.printed["status"] == "cleaned"


# --- deaths -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [pytest.param(False, marks=pytest.mark.full), True])
def test_a_job_that_dies_at_its_end(after: bool, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its report is written the next try runs it again; after it the work is done."""
    write = StoredReport.write

    def dying(*given: Any) -> None:
        if after:
            write(*given)
        raise Died

    deferral = task.deferred()
    with monkeypatch.context() as death:
        death.setattr(StoredReport, "write", dying)
        with pytest.raises(Died):
            task.work()
    task.yarn.end("FAILED", "FAILED", "exit code 137")
    if after:
        assert task.resumed(deferral)["status"] == "cleaned"
    else:
        with pytest.raises(HoodieJobError, match="failed: exit code 137"):
            task.resumed(deferral)
        assert task.done()["status"] == "skipped"
    assert len(task.instants("clean")) == 1


def test_a_driver_that_is_started_again_finds_its_result(task: Task) -> None:
    """YARN does that where a driver ends badly; the second one finds no new file."""
    deferral = ingesting(task, "a").deferred()
    for _ in range(2):
        assert task.work() == 0
        assert task.printed["status"] == "committed"
    assert task.resumed(deferral)["num_inserts"] == 1
    assert len(task.instants("commit")) == 1


@pytest.mark.parametrize(
    ("step", "after", "again"),
    [
        pytest.param("read", False, False, marks=pytest.mark.full),
        pytest.param("read", True, False, marks=pytest.mark.full),
        ("delete", False, False),
        pytest.param("delete", True, True, marks=pytest.mark.full),
    ],
)
def test_a_worker_that_dies_with_the_result(
    step: str, after: bool, again: bool, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next try has the result, and runs no job; what was deleted, Airflow had nearly stored."""
    real = getattr(StoredReport, step)

    def dying(*given: Any) -> None:
        if after:
            real(*given)
        death.setattr(StoredReport, "delete", dead)  # nothing is done any more
        raise Died

    def dead(*_: Any) -> None:
        raise Died

    deferral = task.deferred()
    task.work()
    task.forget()
    with monkeypatch.context() as death:
        death.setattr(StoredReport, step, dying)
        with pytest.raises(Died):
            task.resumed(deferral)
    if again:
        assert task.done()["status"] == "skipped"
    else:
        assert task.operator().execute(task.context) == task.printed
        assert not task.submitted
    assert (task.reports(), len(task.instants("clean"))) == ([], 1)


@pytest.mark.full
def test_a_report_that_can_not_be_read_is_left_to_the_next_try(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise StorageError("the storage is out of reach", transient=True)

    deferral = task.deferred()
    task.work()
    with monkeypatch.context() as outage:
        outage.setattr(StoredReport, "read", broken)
        with pytest.raises(HoodieException, match="out of reach"):
            task.resumed(deferral)
    assert task.operator().execute(task.context) == task.printed


@pytest.mark.full
def test_a_retry_runs_again_what_failed(task: Task) -> None:
    """The error of the first try, which no task has read, goes."""
    task.kind, task.arguments = RollbackOperator, {"instant": "20200101000000000", "options": {}}
    task.deferred()
    assert task.work() == 1
    first = task.report
    assert first.exists()
    task.arguments["instant"] = task.instants("commit")[-1]
    assert task.done()["status"] == "rolled_back"
    assert not first.exists()


@pytest.mark.full
def test_a_task_that_was_killed_says_so(task: Task) -> None:
    """Whatever its job said before."""
    task.kind, task.arguments = RollbackOperator, {"instant": "20200101000000000", "options": {}}
    deferral = task.deferred()
    task.work()
    task.yarn.end("KILLED", "KILLED")
    with pytest.raises(HoodieJobKilledError):
        task.resumed(deferral)


@pytest.mark.full
def test_a_write_with_a_token_finds_its_commit_and_not_a_result(task: Task) -> None:
    """It may have been rolled back since: the next try writes again."""
    source = task.folder / "a.parquet"
    pq.write_table(pa.table({"id": ["b"], "n": [1]}), source)
    task.kind, task.arguments = UpsertOperator, {"source": str(source)}
    task.deferred()
    task.work()
    first, instant = task.report, task.printed["instant"]
    hoodie.rollback_table(task.table.path, instant)
    result = task.done()
    assert (result["status"], result["instant"] > instant) == ("committed", True)
    assert (first.exists(), task.reports()) == (False, [])


# --- a table is not trusted -------------------------------------------------------------------------------

TAG = "hoodie-0123"
SOUND = {"status": "cleaned", "table": "orders", "operation": "clean"}
ERROR = {"code": "input", "message": "x", "values": {}}
FORGED: list[Any] = [
    b"{",
    b"[]",
    b'{"tag": "hoodie-0123", "result": ' + b"[" * 100_000,
    b'{"tag": "hoodie-0123", "error": {"code": "a", "message": "a\\ud800", "values": {}}}',
    {"tag": "hoodie-0124", "result": {}},
    {"result": {"base_path": "/elsewhere"}},
    {"result": {"status": 1}},
    {"result": {"duration_s": float("nan")}},
    {"result": {"partitions": [7]}},
    {"result": {"num_files": "many"}},
    {"result": {"cleaned": 5}},
    {"result": {"services": {"clean": {"status": "failed"}}, "done": [], "failed": ["clean"]}},
    {"result": {"services": ["clean"], "done": [], "failed": []}},
    {"error": {**ERROR, "message": ["x"]}},
    {"error": {**ERROR, "values": {"a": {}}}},
    {"result": {}, "error": ERROR},
]


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    kept = JobResult(path=str(tmp_path), options={}, tag=TAG)
    folder = tmp_path / ".hoodie/.aux/airflow-results"
    folder.mkdir(parents=True)

    def read(value: Any) -> Any:
        sound = {**SOUND, "base_path": str(tmp_path)}
        if isinstance(value, dict):
            own = {"result": {**sound, **value["result"]}} if "result" in value else {}
            value = json.dumps({"tag": TAG, **value, **own}).encode()
        (folder / f"{TAG}.json").write_bytes(value)
        return kept.read()

    assert read({"result": {}}).result["status"] == "cleaned"
    assert read({"error": ERROR}).error == ERROR
    for value in FORGED:
        with pytest.raises(HoodieTableError, match="result of a job"):
            read(value)


@pytest.mark.full
def test_a_forged_result_does_not_keep_the_next_try_from_its_job(task: Task) -> None:
    deferral = task.deferred()
    StoredReport(path=task.table.path, options={}, tag=task.tag).write(
        JobReport(result={"status": "cleaned"})
    )
    task.yarn.end("FINISHED", "SUCCEEDED")
    with pytest.raises(HoodieTableError, match="no result of a job on this table"):
        task.resumed(deferral)
    assert task.reports() == []
    assert task.done()["status"] == "cleaned"


@pytest.mark.full
def test_a_worker_that_may_not_delete_takes_no_result_twice(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise StorageError("no right to delete")

    monkeypatch.setattr(StoredReport, "delete", refused)
    assert task.done()["status"] == "cleaned"
    assert len(task.reports()) == 1
    assert task.done()["status"] == "skipped", "a cleared task runs its job again"


@pytest.mark.full
def test_a_large_file_is_refused(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_reports, "MAX_BYTES", 100)
    with pytest.raises(HoodieTableError, match="has at most 100"):
        task.done()


# --- what is refused --------------------------------------------------------------------------------------


def test_what_can_not_be_deferred(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HoodieConfigurationError, match=r"hides the driver's output.*deferrable=True"):
        task.operator(deferrable=False).execute(task.context)
    assert not task.submitted
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    with pytest.raises(TaskDeferred):
        task.operator(deferrable=None).execute(task.context)
