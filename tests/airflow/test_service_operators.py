"""The operator of every service: what it asks its job for, what it refuses, its XCom, what it logs.

It follows tests/support/service_entries.py, as the other doors do in tests/contract/test_services.py.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

import airflow_hoodie
from airflow_hoodie import CompactionOperator, HoodieTable, PartitionTTLOperator, SavepointOperator
from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieConflictError,
    HoodieException,
    from_report,
)
from airflow_hoodie.operators import base
from airflow_hoodie.runs import WAIT_FOR_WRITER
from hoodie.services.registry import Service, public
from tests.support.service_entries import ENTRIES
from tests.support.services import Said, copied, follow

from .conftest import FakeSubmit

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
HISTORIES = [(name, each) for name, entry in ENTRIES.items() for each in entry.histories]
WRONG = [
    pytest.param(name, item.given, item.operator, id=f"{name} {dict(item.given)}")
    for name, entry in ENTRIES.items()
    for item in entry.wrong
    if item.operator
]


def table_of(path: str, service: str = "") -> HoodieTable:
    logs = service in ("compact", "log-compact", "cancel")
    return HoodieTable(
        name="orders", path=path, record_keys="id", table_type="MERGE_ON_READ" if logs else "COPY_ON_WRITE"
    )


def made(name: str, table: HoodieTable, given: Mapping[str, Any], **more: Any) -> Any:
    own = {"user": "", "comments": ""} if name == "savepoint" else {}
    kind = getattr(airflow_hoodie, public()[name].operator)
    return kind(task_id=name, table=table, **{**own, **given, **more})


def rendered(task: Any, dag: DAG, **params: Any) -> Any:
    ti = SimpleNamespace(dag_id="orders_dag", task_id=task.task_id, run_id="manual__1", map_index=-1)
    task.render_template_fields({"params": params, "dag": dag, "task": task, "ti": ti})
    return task


def result_fields(service: Service) -> set[str]:
    module = importlib.import_module(service.run.module)  # type: ignore[attr-defined]
    name = getattr(module, service.run.name).__annotations__["return"]  # type: ignore[attr-defined]
    found = vars(module)[name] if isinstance(name, str) else name
    return {item.name for item in fields(found)} - {"files", "voided"}


@pytest.mark.parametrize(("name", "history"), HISTORIES, ids=[" ".join(each) for each in HISTORIES])
def test_the_xcom_and_the_log(
    name: str,
    history: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    logged: Callable[[], str],
    jobs_here: None,
) -> None:
    """On the worker. Steps that change nothing, a retry among them, are no failures."""

    kinds: list[tuple[type, type]] = []

    def by_operator(service: Service, path: str, given: Any, options: Any, dry_run: bool) -> Said:
        properties = Path(path, ".hoodie", "hoodie.properties").read_text()
        table = HoodieTable(
            name="orders",
            path=path,
            record_keys="id",
            table_type="MERGE_ON_READ" if "MERGE_ON_READ" in properties else "COPY_ON_WRITE",
            partition_fields=("region",) if "region" in properties else (),
        )
        engine = {"engine": "local", "extra_metadata": {"by": "test"}} if service.needs_engine else {}
        logged()
        try:
            task = made(service.name, table, given, options=options, wait_for_writer=None, **engine)
            result = task.execute(context={})
        except HoodieException as error:
            kinds.append((type(error), type(from_report({"code": error.code or "configuration"}))))
            return Said(error=(error.code or None, str(error)))
        result = json.loads(json.dumps(result))
        assert set(result) == result_fields(service)
        text = service.text({**result, "files": {}, "voided": []})
        lines = logged()
        assert all(line in lines for line in text.splitlines())
        return Said(result=result, text=text)

    names = {**copied(history.partition(":")[0], tmp_path, tmp_path_factory), "by": "test"}
    steps = [step for step in ENTRIES[name].histories[history] if not step.dry_run]
    follow(name, ENTRIES[name], steps, names, by_operator)
    assert all(raised is known for raised, known in kinds)


@pytest.mark.parametrize("name", ENTRIES)
def test_by_spark_submit(
    name: str, fake: FakeSubmit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: Callable[[], str]
) -> None:
    """Every argument by a template, as of an XCom; the job's answer is the XCom, its summary is logged."""
    service, entry = public()[name], ENTRIES[name]
    monkeypatch.setattr(base, "job_script", lambda: tmp_path / "jobs" / "run.py")
    answer = {"operation": name, "status": "skipped", "reason": "nothing", "table": "orders"}
    fake.body(f'say("RESULT", { ({**answer, "summary": "its text"})!r})')
    texts = {key: value for key, value in entry.given.items() if isinstance(value, str)}
    params = {**texts, "env": "eu", "io": "7"}
    metadata = {"extra_metadata": {"by": 7}} if service.needs_engine else {}
    with DAG("orders_dag", start_date=START, params=params) as dag:
        task = made(
            name,
            table_of(f"{tmp_path}/{{{{ params.env }}}}", name),
            {**entry.given, **{key: f"{{{{ params.{key} }}}}" for key in texts}},
            options={"hoodie.compaction.target.io": "{{ params.io }}"},
            engine="spark",
            master="local[2]",
            spark_binary=str(fake.path),
            **metadata,
        )
    assert rendered(task, dag, **params).execute(context={}) == answer
    assert "its text" in logged()
    args = fake.call()["args"]
    assert args[args.index("--request") - 1] == str(tmp_path / "jobs" / "run.py")
    table = table_of(f"{tmp_path}/eu", name)
    rendered_options = {"hoodie.compaction.target.io": "7"}
    assert fake.request() == {
        "table": table.path,
        "operation": name,
        **entry.given,
        "options": {WAIT_FOR_WRITER: "3600000", **table.options_for(name, rendered_options)},
        **({"extra_metadata": {"by": "7"}, "engine": "spark"} if service.needs_engine else {}),
    }
    for field in (*task.template_fields, *task.template_fields_renderers):
        assert hasattr(task, field), field
    assert {"table", "options", *texts} <= set(task.template_fields)
    assert set(task.template_fields_renderers) <= set(task.template_fields)


@pytest.mark.parametrize(("name", "given", "message"), WRONG)
def test_wrong_arguments(name: str, given: Mapping[str, Any], message: str, fake: FakeSubmit) -> None:
    """When the DAG is read; of a template, when the task runs and before its job is started."""
    with pytest.raises(HoodieConfigurationError, match=message.replace("(", r"\(")):
        made(name, table_of("/t", name), given)
    later = {**given, **{key: "{{ x }}" for key, value in given.items() if isinstance(value, str)}}
    later = later or {"instant": "{{ x }}"}
    if later == given:
        return
    task = made(name, table_of("/t", name), later, master="local[2]", spark_binary=str(fake.path))
    for key in later:
        setattr(task, key, given.get(key))
    with pytest.raises(HoodieConfigurationError, match=message.replace("(", r"\(")):
        task.execute(context={})
    assert not Path(f"{fake.path}.json").exists()


@pytest.mark.parametrize("name", ENTRIES)
def test_options_that_contradict_the_table(name: str) -> None:
    given = {key: value for key, value in ENTRIES[name].given.items() if key != "delete"}
    with pytest.raises(HoodieConfigurationError, match="contradicts"):
        made(name, table_of("/t", name), given, options={"hoodie.table.name": "x"})
    if name not in ("compact", "log-compact", "cluster"):
        with pytest.raises(HoodieConfigurationError, match="engine is 'flink'; use one of local, spark"):
            made(name, table_of("/t", name), given, engine="flink")


@pytest.mark.parametrize("name", ["compact", "log-compact", "cluster"])
def test_a_conflict_is_told_apart_and_a_blank_instant_means_all_plans(name: str, fake: FakeSubmit) -> None:
    fake.body('say("ERROR", {"code": "conflict", "message": "at work", "values": {}}); sys.exit(1)')
    given = {"mode": "execute", "instant": "{{ x }}"}
    task = made(name, table_of("/t", name), given, master="local[2]", spark_binary=str(fake.path))
    task.instant = " "
    with pytest.raises(HoodieConflictError, match="at work"):
        task.execute(context={})
    assert "instant" not in fake.request()


def test_a_table_without_logs_is_not_compacted() -> None:
    with pytest.raises(HoodieConfigurationError, match="'orders' is COPY_ON_WRITE, which has no logs"):
        CompactionOperator(task_id="compact", table=table_of("/t"))


def test_a_savepoint_names_its_task_and_its_run(tmp_path: Path) -> None:
    with DAG("orders_dag", start_date=START) as dag:
        task = SavepointOperator(task_id="save", table=table_of("/t"))
    request = rendered(task, dag).request()
    assert (request["user"], request["comments"]) == ("orders_dag/save", "manual__1")
    assert "instant" not in request


def test_days_of_partitions() -> None:
    request = PartitionTTLOperator(task_id="ttl", table=table_of("/t"), days=30).request()
    assert request["options"]["hoodie.partition.ttl.strategy.days.retain"] == "30"
