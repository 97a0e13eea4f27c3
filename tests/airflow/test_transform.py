"""`transform=` of the operators with a source: what is asked of the job, and what is another write."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.definitions.retry_policy import RetryAction

from airflow_hoodie import HoodieTable, InsertOverwriteOperator, UpsertOperator
from airflow_hoodie.engines import missing_packages
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieTransformError
from airflow_hoodie.hooks.local import HoodieLocalHook
from airflow_hoodie.job_output import JobOutput
from airflow_hoodie.notifications.hoodie import message
from airflow_hoodie.retries import HoodieRetryPolicy
from hoodie.backend.local import LocalBackend
from hoodie.jobs._main import parse_request, run
from hoodie.progress import silent

TEXT = "select id, upper(id) as name from source"


def made(folder: Path, **given: Any) -> UpsertOperator:
    table = HoodieTable(name="t", path=str(folder / "t"), record_keys="id")
    task = UpsertOperator(task_id="upsert", table=table, source=str(folder / "rows.csv"), token="t", **given)
    task.resolve()
    return task


def test_a_retry_finds_the_commit_of_the_same_text_only(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id\na\n")
    task = made(tmp_path, transform=TEXT)
    assert task.request()["transform"] == TEXT
    result = run(LocalBackend(), parse_request(task.request(), "upsert"), silent)
    assert result["status"] == "committed"
    again = task.done_before({})
    assert again is not None
    assert again["instant"] == result["instant"]
    for other in (None, TEXT + " limit 1"):
        assert made(tmp_path, transform=other).done_before({}) is None


def test_what_is_no_text_is_refused() -> None:
    table = HoodieTable(name="t", path="/lake/t", record_keys="id")
    for wrong in ("  ", 3):
        with pytest.raises(HoodieConfigurationError, match=r"transform is .*; give one SELECT"):
            InsertOverwriteOperator(task_id="t", table=table, source="/in", transform=wrong)


def test_a_function_is_known_by_its_name_and_source_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.csv").write_text("id\na\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "cleaning_in_a_dag.py"
    module.write_text("def same(batch):\n    return batch\n")
    from importlib import import_module

    task = made(tmp_path, transform=import_module("cleaning_in_a_dag").same)
    assert task.transform == task.request()["transform"] == "cleaning_in_a_dag:same"
    assert run(LocalBackend(), parse_request(task.request(), "upsert"), silent)["status"] == "committed"
    assert task.done_before({}) is not None
    module.write_text("def same(batch):\n    return batch.slice(0)\n")
    assert task.done_before({}) is None
    for wrong in (None, TEXT, "cleaning_in_a_dag:other"):
        module.write_text("def same(batch):\n    return batch\n\ndef other(batch):\n    return batch\n")
        assert made(tmp_path, transform=wrong).done_before({}) is None


@pytest.mark.full
def test_a_local_job_finds_the_module_that_its_worker_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.csv").write_text("id\na\nb\n")
    (tmp_path / "cleaning_in_dags.py").write_text("def first(batch):\n    return batch.slice(0, 1)\n")
    monkeypatch.syspath_prepend(tmp_path)
    task = made(tmp_path, transform="cleaning_in_dags:first", engine="local")
    result = HoodieLocalHook("upsert").run({**task.request(), "engine": "local"})
    assert (result["status"], result["num_inserts"]) == ("committed", 1)


def test_a_function_of_the_dag_file_is_refused() -> None:
    def inner(batch: Any) -> Any:
        return batch

    table = HoodieTable(name="t", path="/lake/t", record_keys="id")
    for wrong in (inner, lambda batch: batch):
        with pytest.raises(HoodieConfigurationError, match=r"<locals>.*move it out of the DAG file"):
            UpsertOperator(task_id="t", table=table, source="/in", transform=wrong)
    task = UpsertOperator(task_id="t", table=table, source="/in", transform="no.such:f", token="t")
    task.resolve()
    with pytest.raises(HoodieConfigurationError, match=r"no\.such:f is not found here"):
        task.done_before({})


def test_an_error_of_the_function_reaches_the_task_and_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: Callable[[], str]
) -> None:
    """With file, line and traceback, from a job in a process of its own; what a retry makes of it."""
    (tmp_path / "rows.csv").write_text("id\na\n")
    module = tmp_path / "asking_in_dags.py"
    module.write_text(
        "def rates(rows):\n    raise ConnectionError('rates: no answer')\n\ndef f(rows):\n    rates(rows)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    task = made(tmp_path, transform="asking_in_dags:f", engine="local")
    request = {**task.request(), "engine": "local"}
    with pytest.raises(HoodieTransformError) as caught:
        HoodieLocalHook("upsert").run(request)
    place = f"(in rates, {module}, line 2)"
    assert f"asking_in_dags:f raised ConnectionError: rates: no answer {place}" in str(caught.value)
    assert (caught.value.code, caught.value.transient) == ("transform", True)
    said = logged()
    assert f'  File "{module}", line 5, in f' in said
    assert f'  File "{module}", line 2, in rates' in said
    assert HoodieRetryPolicy().evaluate(caught.value, 1, 5).action is RetryAction.RETRY
    found = message({"exception": caught.value})
    assert found["next_step"].startswith("look whether what the transform calls answers")
    module.write_text("def f(batch):\n    return {}['rate']\n")
    with pytest.raises(HoodieTransformError, match=r"KeyError: 'rate' \(in f, .*, line 2\)$") as caught:
        HoodieLocalHook("upsert").run(request)
    assert HoodieRetryPolicy().evaluate(caught.value, 1, 5).action is RetryAction.FAIL
    found = message({"exception": caught.value})
    assert (found["code"], found["next_step"][:32]) == ("transform", "correct the function of transfor")


def test_a_traceback_begins_no_line_of_another_and_has_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    output = JobOutput(logging.getLogger("job"))
    trace = "Traceback\n  File\x1b[2J\nKeyError: password=abc"
    report = {"code": "transform", "message": "m", "values": {"traceback": trace}}
    with caplog.at_level("INFO"):
        assert output.take(f"HOODIE_ERROR {json.dumps(report)}")
    assert [record.getMessage() for record in caplog.records] == [
        "The job failed: m", "Traceback", "  File\\x1b[2J", "KeyError: password=******",
    ]  # fmt: skip


def test_a_local_job_needs_duckdb_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "duckdb" else object())
    assert missing_packages({}) == []
    assert missing_packages({}, TEXT) == ["duckdb"]
    assert missing_packages({}, "cleaning:orders") == []
