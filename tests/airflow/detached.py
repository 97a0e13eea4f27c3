"""Tasks whose jobs outlive them, without Airflow's scheduler and triggerer; and one in deploy mode cluster
without a cluster: its spark-submit is a script that tells a server of it.
"""

from __future__ import annotations

import asyncio
import http.server
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models.trigger import Trigger
from airflow.providers.common.compat.sdk import TaskDeferred

import hoodie
from airflow_hoodie import HoodieTable
from airflow_hoodie.operators.write import UpsertOperator
from airflow_hoodie.triggers.application import ApplicationTrigger
from hoodie.timeline.tokens import FINGERPRINT_KEY, TOKEN_KEY

from .timelines import WrittenTimeline

TOKEN = "dag/write/-1/run=manual__1"
_SECONDS = 20
#: that a real job takes at most
OF_JOBS = 400
_SUBMIT = """\
#!{python}
import json, os, signal, sys, urllib.request
{begins}
args = sys.argv[1:]
conf = dict(args[n + 1].split("=", 1) for n, arg in enumerate(args) if arg == "--conf")
if "--properties-file" in args:
    lines = open(args[args.index("--properties-file") + 1]).read().splitlines()
    conf.update(line.split("=", 1) for line in lines if line.count("="))
files = args[args.index("--files") + 1].split(",") if "--files" in args else []
shipped = [name for name in files if "@" + os.path.basename(name) == args[args.index("--request") + 1]]
call = {{"args": args, "conf": conf, "request": json.load(open(shipped[0])) if shipped else None,
         "python": os.environ.get("PYSPARK_DRIVER_PYTHON")}}
json.dump(call, open({note!r}, "w"))
request = urllib.request.Request({address!r}, json.dumps(conf).encode(), method="POST")
urllib.request.urlopen(request).close()
{ends}
"""


class Answering(http.server.BaseHTTPRequestHandler):
    """A handler whose answers are JSON."""

    def body(self) -> Any:
        """Of the request; None where it has none."""
        content = self.rfile.read(int(self.headers["Content-Length"] or 0))
        return json.loads(content) if content else None

    def answer(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class Store(dict[str, Any]):
    """Airflow's task_state_store, of one task."""

    set = dict.__setitem__


def context_of(store: Store, pushed: list[tuple[str, Any]] | None = None) -> Any:
    """Airflow's context of the task `write`, whose state this is; `pushed` notes its XComs."""
    noted = [] if pushed is None else pushed
    ti = SimpleNamespace(dag_id="dag", task_id="write", run_id="manual__1", map_index=-1)
    ti.xcom_push = lambda key, value: noted.append((key, value))
    run = SimpleNamespace(run_id="manual__1", data_interval_start=None, data_interval_end=None)
    return {"ti": ti, "dag_run": run, "task_state_store": store}


@dataclass(kw_only=True)
class DetachedTask:
    """A task whose tries share Airflow's state; `call` is the last command line of spark-submit.

    `address`: of a server that is told, by POST, of the settings of each submission. `begins` and `ends`:
    statements of Python with which spark-submit does.
    """

    address: str
    timeline: WrittenTimeline
    folder: Path
    store: Store = field(default_factory=Store)
    pushed: list[tuple[str, Any]] = field(default_factory=list)
    begins: str = ""
    ends: str = ""

    def submitter(self) -> str:
        """Path of spark-submit."""
        script = self.folder / "spark-submit"
        note = str(self.folder / "call.json")
        parts = {"python": sys.executable, "note": note, "begins": self.begins, "ends": self.ends}
        script.write_text(_SUBMIT.format(address=self.address, **parts))
        script.chmod(0o755)
        return str(script)

    def operator(self, **arguments: Any) -> UpsertOperator:
        table = HoodieTable(name="orders", path=self.timeline.path, record_keys="id")
        defaults: dict[str, Any] = {
            "task_id": "write", "table": table, "source": "/in/*.parquet", "deferrable": True,
            "spark_binary": self.submitter(), "name": "dag/write/run", "poll_interval": 0.05,
        }  # fmt: skip
        return UpsertOperator(**{**defaults, **arguments})

    @property
    def context(self) -> Any:
        return context_of(self.store, self.pushed)

    def deferred(self, **arguments: Any) -> TaskDeferred:
        with pytest.raises(TaskDeferred) as caught:
            self.operator(**arguments).execute(self.context)
        return caught.value

    def resumed(self, deferral: TaskDeferred) -> dict[str, Any]:
        """The trigger's event, and the task's end in another process."""
        event = run(deferral.trigger)
        assert deferral.method_name == "execute_complete"
        return self.operator().execute_complete(self.context, event)

    @property
    def submitted(self) -> bool:
        """Did spark-submit run since the last `forget`?"""
        return (self.folder / "call.json").exists()

    def forget(self) -> None:
        (self.folder / "call.json").unlink()

    def call(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.folder / "call.json").read_text())
        return value

    def commit(self) -> str:
        """What the job on the cluster does."""
        return self.timeline.commit(extra={TOKEN_KEY: TOKEN, FINGERPRINT_KEY: "of-the-cluster"})


@dataclass
class Tries:
    """A task whose tries share Airflow's state. Its operators run a real job."""

    table: HoodieTable
    store: Store = field(default_factory=Store)
    pushed: list[tuple[str, Any]] = field(default_factory=list)

    def operator(self, **arguments: Any) -> Any:
        raise NotImplementedError

    @property
    def context(self) -> Any:
        return context_of(self.store, self.pushed)

    def deferred(self, **arguments: Any) -> Any:
        """A try; its trigger."""
        with pytest.raises(TaskDeferred) as caught:
            self.operator(**arguments).execute(self.context)
        assert caught.value.method_name == "execute_complete"
        return caught.value.trigger

    def resumed(self, trigger: Any, **arguments: Any) -> dict[str, Any]:
        """The trigger's event, and the task's end in another process."""
        event = run(trigger, OF_JOBS)
        found: dict[str, Any] = self.operator(**arguments).execute_complete(self.context, event)
        return found

    def done(self, **arguments: Any) -> dict[str, Any]:
        return self.resumed(self.deferred(**arguments), **arguments)

    def commits(self) -> int:
        found = hoodie.instants(self.table.path)
        return sum((item["action"], item["state"]) == ("commit", "completed") for item in found)

    def rows(self) -> dict[str, int]:
        found = hoodie.read_table(self.table.path, columns=["id", "n"]).to_pylist()
        return {row["id"]: row["n"] for row in found}


def revived(trigger: Any) -> ApplicationTrigger:
    """The trigger as another process makes it from Airflow's database."""
    classpath, kwargs = trigger.serialize()
    assert classpath == "airflow_hoodie.triggers.application.ApplicationTrigger"
    again = ApplicationTrigger(**Trigger._decrypt_kwargs(Trigger(classpath, kwargs).encrypted_kwargs))
    again.timeout_after = trigger.timeout_after
    return again


def run(trigger: Any, seconds: float = _SECONDS) -> Any:
    """Payload of the event of the trigger, in the triggerer."""

    async def first() -> Any:
        async for event in revived(trigger).run():
            return event.payload
        raise AssertionError("the trigger ended without an event")

    return asyncio.run(asyncio.wait_for(first(), seconds))


def killed(trigger: Any) -> None:
    """A person ends the task while it waits."""
    asyncio.run(asyncio.wait_for(revived(trigger).on_kill(), OF_JOBS))
