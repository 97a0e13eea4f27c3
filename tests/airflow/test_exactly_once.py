"""The same interval run again after every kind of death: one commit, the right rows."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from airflow_hoodie import publication
from airflow_hoodie.exceptions import HoodieException
from airflow_hoodie.hooks import process_group
from airflow_hoodie.hooks.spark import HoodieSparkSubmitHook
from airflow_hoodie.operators.write import UpsertOperator
from airflow_hoodie.runs import task_token
from airflow_hoodie.table import HoodieTable
from tests.support.faults import wait_for
from tests.support.processes import end_in_time
from tests.support.tiers import full_but

from .conftest import FakeSubmit, guarded

#: the job with the local engine in Spark's place; dies where the file `die` says
JOB = """
    import hoodie, pyarrow.dataset as ds
    import hoodie.pipeline as pipeline
    from hoodie.source.fingerprint import token_metadata
    def death():
        place = os.path.join(os.path.dirname(note), "die")
        found = open(place).read() if os.path.exists(place) else ""
        if found:
            os.remove(place)
        return found
    def hold(*args):
        open(os.path.join(os.path.dirname(note), "holding"), "w").close()
        time.sleep(600)
    when = death()
    if when == "before the commit":
        pipeline.Transaction.commit = lambda *args: os.kill(os.getpid(), 9)
    if when == "held before the commit":
        pipeline.Transaction.commit = hold
    source = request["source"]
    result = hoodie.write_table(ds.dataset(source["path"]), request["table"], operation=request["operation"],
        options={**request["options"], "hoodie.client.heartbeat.interval_in_ms": 1000,
                 "hoodie.client.heartbeat.tolerable.misses": 1},
        extra_metadata=token_metadata(request.get("token", ""), request["operation"], source),
        force=request.get("force", False))
    if when == "after the commit":
        os.kill(os.getpid(), 9)
    if when == "held after the commit":
        hold()
    say("RESULT", result.to_dict())
"""
DAY = datetime(2026, 1, 5, tzinfo=timezone.utc)


def context(day: datetime | None = DAY, run_id: str = "scheduled__1", map_index: int = -1, **run: Any) -> Any:
    task = SimpleNamespace(dag_id="daily", task_id="upsert", map_index=map_index, run_id=run_id)
    details = {"data_interval_start": day, "data_interval_end": day, "logical_date": day, "run_id": run_id}
    return {"ti": task, "dag_run": SimpleNamespace(**{**details, **run})}


@pytest.fixture
def job(fake: FakeSubmit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSubmit:
    monkeypatch.setattr("airflow_hoodie.operators.base.job_script", lambda: tmp_path / "run.py")
    monkeypatch.setattr(UpsertOperator, "template_fields", ())
    return fake.body(JOB)


@pytest.fixture
def table(tmp_path: Path) -> HoodieTable:
    return HoodieTable(name="t", path=str(tmp_path / "t"), record_keys="id", ordering_field="ts")


def source(tmp_path: Path, value: int) -> str:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], "ts": [1, 1], "n": [value, value]}), path)
    return str(path)


def run(job: FakeSubmit, table: HoodieTable, path: str, where: Any = None, **more: Any) -> dict[str, Any]:
    operator = UpsertOperator(
        task_id="upsert",
        table=table,
        source=path,
        master="local[2]",
        spark_binary=str(job.path),
        name="x",
        **more,
    )
    found: dict[str, Any] = operator.execute(where or context())
    return found


def submitted(job: FakeSubmit) -> bool:
    note = Path(f"{job.path}.json")
    found = note.exists()
    note.unlink(missing_ok=True)
    return found


def check(table: HoodieTable, commits: int, value: int) -> None:
    assert len([entry for entry in hoodie.instants(table.path) if entry["action"] == "commit"]) == commits
    assert hoodie.read_table(table.path, meta=False).column("n").to_pylist() == [value, value]


def test_retry_clear_and_backfill(job: FakeSubmit, table: HoodieTable, tmp_path: Path) -> None:
    path = source(tmp_path, 1)
    first = run(job, table, path)
    assert (first["status"], submitted(job)) == ("committed", True)
    for run_id in ("scheduled__1", "backfill__9", "manual__3"):
        again = run(job, table, path, context(run_id=run_id))
        assert (again["status"], again["instant"]) == ("already_committed", first["instant"])
        assert set(again) == set(first)
        assert not submitted(job), "a job was started for nothing"
    check(table, 1, 1)


@pytest.mark.parametrize("when", full_but({"after the commit"}, ["before the commit", "after the commit"]))
def test_a_killed_job_is_repeated_or_found(
    when: str, job: FakeSubmit, table: HoodieTable, tmp_path: Path
) -> None:
    path = source(tmp_path, 1)
    (job.path.parent / "die").write_text(when)
    with pytest.raises(HoodieException):
        run(job, table, path)
    if when == "before the commit":
        time.sleep(3)  # the dead writer's heartbeat runs out
    again = run(job, table, path)
    assert again["status"] == ("committed" if when == "before the commit" else "already_committed")
    check(table, 1, 1)


#: where a worker dies, and what its job does: it is held there until the worker is dead, or goes on
WORKER_DEATHS = {
    "before submit": "",
    "during the job": "held before the commit",
    "after the commit": "held after the commit",
    "before the result": "",
}
#: how the same interval is run again
AGAIN: list[dict[str, Any]] = [
    {"run_id": "scheduled__1"},
    {"run_id": "scheduled__1", "clear_number": 1},
    {"run_id": "backfill__9", "run_type": "backfill"},
    {"run_id": "backfill__10", "run_type": "backfill"},
]


def die(*args: Any, **kwargs: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait_until(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.02)


def killed(where: str, job: FakeSubmit, table: HoodieTable, path: str, run_of: dict[str, Any]) -> None:
    """Run the task in a worker, a process of its own, that is killed at this point."""
    folder = job.path.parent
    (folder / "die").write_text(WORKER_DEATHS[where])
    worker = os.fork()
    if worker == 0:
        worker_only = pytest.MonkeyPatch()
        try:
            end_in_time()
            if where == "before submit":
                worker_only.setattr(HoodieSparkSubmitHook, "submit", die)
            if where == "before the result":
                worker_only.setattr(publication, "record_commit", die)
            run(job, table, path, context(**run_of))
        finally:
            os._exit(1)
    if WORKER_DEATHS[where]:
        wait_for(folder / "holding")
        wait_until(lambda: guarded(job.call()["pid"]), "the guard does not start")
        os.kill(worker, signal.SIGKILL)
    _, status = os.waitpid(worker, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    if WORKER_DEATHS[where]:  # the guard ends what the worker leaves
        (folder / "holding").unlink()
        pid = job.call()["pid"]
        wait_until(lambda: not process_group.members(pid), "the job of a dead worker goes on")
    (folder / "die").unlink(missing_ok=True)


@pytest.mark.parametrize("where", full_but({"during the job", "after the commit"}, WORKER_DEATHS))
def test_five_runs_of_an_interval_whose_worker_is_killed(
    where: str, job: FakeSubmit, table: HoodieTable, tmp_path: Path
) -> None:
    """The first is killed; a retry, a cleared task and two backfills follow."""
    path = source(tmp_path, 1)
    killed(where, job, table, path, AGAIN[0])
    results = [run(job, table, path, context(**run_of)) for run_of in AGAIN]
    found = "committed" if where in ("before submit", "during the job") else "already_committed"
    assert [result["status"] for result in results] == [found, *["already_committed"] * 3]
    assert len({result["instant"] for result in results}) == 1
    check(table, 1, 1)


def test_five_runs_of_which_four_are_killed(job: FakeSubmit, table: HoodieTable, tmp_path: Path) -> None:
    path = source(tmp_path, 1)
    for where, run_of in zip(WORKER_DEATHS, AGAIN, strict=True):
        killed(where, job, table, path, run_of)
    assert run(job, table, path, context(run_id="manual__1"))["status"] == "already_committed"
    check(table, 1, 1)


@pytest.mark.full
def test_days_in_random_order_three_at_once(job: FakeSubmit, table: HoodieTable, tmp_path: Path) -> None:
    """Each day changes rows of the days before; the rows are those of the ordered run."""
    days, ordered = range(1, 7), str(tmp_path / "ordered")
    for day in days:
        rows = pa.table({"id": [f"r{n}" for n in range(day, day + 4)], "ts": [day] * 4, "n": [day] * 4})
        pq.write_table(rows, tmp_path / f"{day}.parquet")
        hoodie.write_table(rows, ordered, options=table.options_for("upsert"))

    def upsert(day: int) -> dict[str, Any]:
        where = context(DAY.replace(day=day), run_id=f"backfill__{day}", run_type="backfill")
        return run(job, table, str(tmp_path / f"{day}.parquet"), where)

    shuffled = [4, 6, 1, 5, 2, 3]
    with ThreadPoolExecutor(3) as workers:
        results = list(workers.map(upsert, shuffled))
    assert [result["status"] for result in results] == ["committed"] * 6
    assert [result["warnings"] for result in results] == [[]] * 6
    stored, expected = (
        hoodie.read_table(place, meta=False).sort_by("id").select(["id", "ts", "n"])
        for place in (table.path, ordered)
    )
    assert stored.equals(expected)
    assert [entry["action"] for entry in hoodie.instants(table.path)] == ["commit"] * 6


def test_what_the_operator_can_not_see_the_job_does(
    job: FakeSubmit, table: HoodieTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs_here: None
) -> None:
    """Two schedulers submit the same interval: both looked before either had committed."""
    path = source(tmp_path, 1)
    first = run(job, table, path, engine="local")
    monkeypatch.setattr("airflow_hoodie.operators.write.committed_before", lambda *_: None)
    again = run(job, table, path, engine="local")
    assert (again["status"], again["instant"]) == ("already_committed", first["instant"])
    check(table, 1, 1)


def test_changed_rows_and_force(job: FakeSubmit, table: HoodieTable, tmp_path: Path, jobs_here: None) -> None:
    run(job, table, source(tmp_path, 1), engine="local")
    changed = run(job, table, source(tmp_path, 2), engine="local")
    assert (changed["status"], "its source changed" in changed["warnings"][0]) == ("committed", True)
    check(table, 2, 2)
    forced = run(job, table, str(tmp_path / "in.parquet"), force=True, engine="local")
    assert forced["status"] == "committed"
    check(table, 3, 2)


@pytest.mark.full
def test_other_runs_of_the_task_are_not_confused(job: FakeSubmit, table: HoodieTable, tmp_path: Path) -> None:
    path = source(tmp_path, 1)
    runs = [context(), context(map_index=1), context(DAY.replace(day=6))]
    instants = {run(job, table, path, where)["instant"] for where in runs}
    assert len(instants) == 3
    assert run(job, table, path, exactly_once=False)["status"] == "committed"
    assert "token" not in job.request()


def test_the_token() -> None:
    assert task_token(context()) == f"daily/upsert/-1/{DAY.isoformat()}/{DAY.isoformat()}"
    none: dict[str, Any] = {"data_interval_start": None, "data_interval_end": None, "logical_date": None}
    assert task_token(context(**none, partition_key="2026-01")) == "daily/upsert/-1/partition=2026-01"
    assert task_token(context(**none)) == "daily/upsert/-1/run=scheduled__1"
    assert task_token({}) == ""
