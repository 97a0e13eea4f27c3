"""HoodieNotifier, called by Airflow's own task runner after tasks that failed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowSensorTimeout
from airflow.sdk import BaseNotifier

import hoodie
from airflow_hoodie import FreshnessSensor, HoodieNotifier, HoodieTable, UpsertOperator
from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieConflictError,
    HoodieException,
    HoodieJobKilledError,
    from_report,
)
from airflow_hoodie.notifications.hoodie import message
from hoodie.config.key import Config
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table, TableRef
from hoodie.write.transaction import Transaction

DAG = """
    import json
    from datetime import datetime, timedelta, timezone
    from airflow.sdk import DAG, BaseNotifier, task
    from airflow_hoodie import FreshnessSensor, HoodieNotifier, HoodieTable, RollbackOperator

    ORDERS = HoodieTable(name="orders", path={path!r}, record_keys="id")

    def note(kind, text):
        with open({notes!r}, "a") as file:
            file.write(json.dumps([kind, text]) + "\\n")

    class Channel(BaseNotifier):
        template_fields = ("subject",)

        def __init__(self, subject):
            super().__init__()
            self.subject = subject

        def notify(self, context):
            note("notifier", self.subject)

    both = [HoodieNotifier(Channel("{{{{ hoodie.kind }}}}: {{{{ hoodie.title }}}} ({{{{ run_id }}}})")),
            HoodieNotifier(lambda found: note("function", found))]
    late = HoodieNotifier(lambda found: note("late", found["kind"]), kinds=["late"])

    with DAG("orders", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
             default_args={{"on_failure_callback": [*both, late]}}):
        RollbackOperator(task_id="busy", table=ORDERS, instant={instant!r}, wait_for_writer=0)
        FreshnessSensor(task_id="fresh", table=ORDERS, max_age=0.001, timeout=0.01, poke_interval=0.01)

        @task(on_failure_callback=HoodieNotifier(both[1].channel, table=ORDERS), on_retry_callback=late)
        def other():
            raise ValueError("<no> password=hunter2")

        other()
"""


@pytest.mark.full
def test_airflow_calls_it(load_dag: Callable[[str], Any], tmp_path: Path) -> None:
    path, notes = str(tmp_path / "orders"), tmp_path / "notes"
    table = HoodieTable(name="orders", path=path, record_keys="id")
    hoodie.write_table(pa.table({"id": ["a"]}), path, options=table.options_for("upsert"))
    [instant] = [item["instant"] for item in hoodie.instants(path)]
    dag = load_dag(DAG.format(path=path, notes=str(notes), instant=instant))
    with Transaction(Table(TableRef(path), LocalStorage()), Config.of({}), True) as writer:
        writer.begin()
        run = dag.test()
    assert str(run.state) == "failed"
    noted = [json.loads(line) for line in notes.read_text().splitlines()]
    assert sorted(text for kind, text in noted if kind == "notifier") == [
        f"conflict: Conflict of writers on orders: orders.busy ({run.run_id})",
        f"late: orders is late: orders.fresh ({run.run_id})",
    ]
    assert [text for kind, text in noted if kind == "late"] == ["late"]
    found = {text["task_id"]: text for kind, text in noted if kind == "function"}
    assert set(found) == {"busy", "fresh", "other"}
    busy = found["busy"]
    assert (busy["kind"], busy["code"], busy["base_path"]) == ("conflict", "table_busy", path)
    assert "another writer is at work" in busy["error"]
    assert "wait_for_writer" in busy["next_step"]
    assert f"hoodie/?table={path.replace('/', '%2F')}" in busy["links"]["timeline"]
    assert "Next: another writer is at work; wait for it" in busy["text"]
    assert found["fresh"]["last_commit"]["instant"] == instant
    assert f"Last commit: {instant}, completed " in found["fresh"]["text"]
    assert found["fresh"]["freshness"]["age_ms"] >= 0
    assert "ms ago" not in found["fresh"]["text"]
    assert " s ago\n" in found["fresh"]["text"]
    other = found["other"]
    assert (other["kind"], other["table"], other["code"]) == ("failure", "orders", "")
    assert other["error"] == "ValueError: <no> password=******"
    assert "&lt;no&gt;" in other["html"]


def ti(task: Any) -> Any:
    run = {"dag_id": "d", "run_id": "r", "map_index": 2, "try_number": 3, "log_url": "http://x/log"}
    return SimpleNamespace(task_id=task.task_id, task=task, **run)


def test_what_a_message_says() -> None:
    table = HoodieTable(name="orders", path="/lake/orders", record_keys="id")
    task = UpsertOperator(task_id="t", table=table, source="/in.csv", master="local[2]")
    report = {
        "code": "commit_conflict",
        "message": "20260101 came first",
        "values": {"instant": "20260101"},
    }
    found = message({"ti": ti(task), "exception": from_report(report)})
    assert found["links"]["commit"].endswith("?table=%2Flake%2Forders&instant=20260101")
    assert found["text"].splitlines() == [
        "Conflict of writers on orders: d.t",
        "Table: /lake/orders",
        "Run: r, map index 2, try 3",
        "Instant: 20260101",
        "Error: 20260101 came first [commit_conflict]",
        "Next: nothing was committed; run the task again",
        "Log: http://x/log",
        f"Timeline: {found['links']['timeline']}",
        f"Commit: {found['links']['commit']}",
    ]
    late = FreshnessSensor(task_id="s", table="/lake/nothing", max_age=1)
    found = message({"ti": ti(late), "exception": AirflowSensorTimeout("timed out")})
    assert (found["kind"], found["last_commit"], found["table"]) == ("late", None, "nothing")
    assert "Last commit: none is known" in found["text"]
    assert message({"ti": ti(task), "exception": AirflowSensorTimeout("")})["kind"] == "failure"
    killed = message({"ti": ti(task), "exception": HoodieJobKilledError("killed")})
    assert killed["kind"] == "failure"
    assert killed["next_step"] == "look at the log of the task, then run it again"
    torn = message({"ti": ti(task), "exception": HoodieException("torn", code="torn_properties")})
    assert torn["next_step"] == "look at the table: hoodie doctor --table /lake/orders"
    nothing = message({})
    assert (nothing["kind"], nothing["error"], nothing["table"]) == ("failure", "", "")


def test_a_channel_is_rendered_for_each_message() -> None:
    sent = []

    class Channel(BaseNotifier):
        template_fields = ("subject",)

        def __init__(self) -> None:
            super().__init__()
            self.subject = "{{ hoodie.error }}"

        def notify(self, context: Any) -> None:
            sent.append(self.subject)

    notifier = HoodieNotifier(Channel(), kinds="conflict")
    for text in ("one", "two"):
        notifier({"exception": HoodieConflictError(text)})
    notifier({"exception": HoodieException("three")})
    assert sent == ["one", "two"]


def test_what_is_wrong_fails_when_the_dag_is_read() -> None:
    with pytest.raises(HoodieConfigurationError, match="pass a notifier"):
        HoodieNotifier("#channel")  # type: ignore[arg-type]
    for kinds in ("later", [], ["late", "never"]):
        with pytest.raises(HoodieConfigurationError, match="name some of failure, conflict, late"):
            HoodieNotifier(print, kinds=kinds)
