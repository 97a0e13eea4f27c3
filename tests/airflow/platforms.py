"""Stand-ins for platforms: servers with their documented answers, which run each job that they are given as
a process of this machine, by the files that the job was submitted with.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import subprocess
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from airflow_hoodie.clusters.platform import find_platform
from airflow_hoodie.operators.write import UpsertOperator
from tests.support.http_server import Server, serving

from .databricks_server import databricks
from .dataproc_server import dataproc
from .detached import Answering, Tries
from .machines import Machines, Platform, kill

# --- Livy -------------------------------------------------------------------------------------------------


@dataclass
class LivyServer(Platform):
    """Livy 0.8, by its documentation of batches; it lets in who has the connection's login."""

    engine: str = "livy"
    deleted: set[int] = field(default_factory=set)

    def view(self, number: int) -> dict[str, Any]:
        job = self.machines.jobs[number]
        code = job.poll()
        state = "running" if code is None else "success" if code == 0 else "dead"
        log = ["stdout: ", *self.machines.log(job)[-10:], "\nstderr: ", "\nYARN Diagnostics: "]
        return {
            "id": number,
            "name": self.described[number].get("name"),
            "owner": None,
            "proxyUser": None,
            "state": state,
            "appId": f"application_1784000000000_{number:04d}",
            "appInfo": {"driverLogUrl": None, "sparkUiUrl": f"http://livy:8088/proxy/{number}/"},
            "log": log,
        }


@contextlib.contextmanager
def livy(machines: Machines, uploads: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[LivyServer]:
    server = LivyServer(machines, options={"uploads": uploads})
    allowed = "Basic " + base64.b64encode(b"airflow:planted-login").decode()

    class Handler(Answering):
        def do_POST(self) -> None:
            given = self.body()
            known = {"file", "name", "args", "pyFiles", "files", "archives", "jars", "conf", "proxyUser"}
            assert set(given) <= {*known, "queue"}
            server.described.append(given)
            machines.start(given["file"], given["args"], given["pyFiles"][0], given.get("conf", {}))
            self.answer(201, server.view(len(machines.jobs) - 1))

        def do_GET(self) -> None:
            name = self.path.partition("/batches")[2]
            here = [item for item in range(len(machines.jobs)) if item not in server.deleted]
            if name.startswith("?"):
                start, size = (int(item) for item in re.findall(r"\d+", name))
                found = [server.view(number) for number in here[start : start + size]]
                self.answer(200, {"from": start, "total": len(here), "sessions": found})
            elif int(name[1:]) in here:
                self.answer(200, server.view(int(name[1:])))
            else:
                self.answer(404, {"msg": f"Session '{name[1:]}' not found."})

        def do_DELETE(self) -> None:
            number = int(self.path.rpartition("/")[2])
            if number in server.deleted or number >= len(machines.jobs):
                self.answer(404, {"msg": f"Session '{number}' not found."})
                return
            kill(machines.jobs[number])
            server.deleted.add(number)
            self.answer(200, {"msg": "deleted"})

        def answer(self, status: int, value: Any) -> None:
            if self.headers["Authorization"] != allowed:
                status, value = 401, {"msg": "who are you?"}
            super().answer(503 if server.broken else status, value)

    with serving(Server(Handler)) as address:
        host, _, port = address.partition(":")
        connection = {
            "conn_type": "livy", "host": host, "port": int(port), "login": "airflow",
            "password": "planted-login",
        }  # fmt: skip
        monkeypatch.setenv("AIRFLOW_CONN_LIVY_DEFAULT", json.dumps(connection))
        yield server


# --- EMR --------------------------------------------------------------------------------------------------

ACCOUNT, REGION = "123456789012", "eu-west-1"


@dataclass
class Amazon(Platform):
    """Moto, which keeps what it is told, and the processes that it lacks, by the ids of their jobs."""

    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "broken":  # nothing listens there
            connect_amazon("http://127.0.0.1:9" if value else None)
        super().__setattr__(name, value)

    def start(self, job_id: str, words: Sequence[str], conf: Mapping[str, str]) -> None:
        script, *arguments = words
        package = conf["spark.submit.pyFiles"].split(",")[0]
        self.running[job_id] = self.machines.start(script, arguments, package, conf)

    def ended(self, job_id: str) -> bool | None:
        """How its process has ended; None while it runs."""
        code = self.running[job_id].poll()
        return None if code is None else code == 0


def connect_amazon(endpoint: str | None) -> None:
    extra = {"region_name": REGION, **({"endpoint_url": endpoint} if endpoint else {})}
    connection = {"conn_type": "aws", "login": "planted-key", "password": "planted-login", "extra": extra}
    os.environ["AIRFLOW_CONN_AWS_DEFAULT"] = json.dumps(connection)


@contextlib.contextmanager
def emr(machines: Machines, uploads: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Amazon]:
    """Steps run at once; CancelSteps, which moto has not, is answered as Amazon documents it."""
    import boto3
    from moto import mock_aws
    from moto.core.responses import ActionResult
    from moto.emr.models import ElasticMapReduceBackend
    from moto.emr.responses import ElasticMapReduceResponse

    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", "{}")  # is restored in the end
    connect_amazon(None)
    add, describe = ElasticMapReduceBackend.add_job_flow_steps, ElasticMapReduceBackend.describe_step

    def added(self: Any, job_flow_id: str, steps: list[dict[str, Any]]) -> Any:
        found = add(self, job_flow_id, steps)
        server.described.append(steps)
        for step in found:
            assert step.jar == "command-runner.jar"
            words, conf = list(step.args), dict[str, str]()
            assert words[:3] == ["spark-submit", "--deploy-mode", "client"]
            words = words[3:]
            while words[0].startswith("--"):
                if words[0] == "--conf":
                    conf |= [words[1].split("=", 1)]
                words = words[2:]
            server.start(step.id, words, conf)
            step.state = "RUNNING"
        return found

    def described(self: Any, cluster_id: str, step_id: str) -> Any:
        step: Any = describe(self, cluster_id, step_id)
        if step is not None and step.state == "RUNNING" and (ended := server.ended(step_id)) is not None:
            step.state = "COMPLETED" if ended else "FAILED"
            step.last_state_change_reason = None if ended else "Unknown Error."
        return step

    def cancelled(self: Any) -> ActionResult:
        [step_id] = self._get_param("StepIds")
        assert self._get_param("StepCancellationOption") == "TERMINATE_PROCESS"
        step = described(self.backend, self._get_param("ClusterId"), step_id)
        runs = step is not None and step.state == "RUNNING"
        if runs:
            kill(server.running[step_id])
            step.state = "CANCELLED"
        status = {"Status": "SUBMITTED"} if runs else {"Status": "FAILED", "Reason": "Step is not running."}
        return ActionResult({"CancelStepsInfoList": [{"StepId": step_id, **status}]})

    monkeypatch.setattr(ElasticMapReduceBackend, "add_job_flow_steps", added)
    monkeypatch.setattr(ElasticMapReduceBackend, "describe_step", described)
    monkeypatch.setattr(ElasticMapReduceResponse, "cancel_steps", cancelled, raising=False)
    with mock_aws():
        client = boto3.client("emr", REGION)
        machine = {"InstanceCount": 1, "MasterInstanceType": "m5.large", "KeepJobFlowAliveWhenNoSteps": True}
        cluster = client.run_job_flow(Name="lake", Instances=machine, JobFlowRole="jobs", ServiceRole="emr")
        server = Amazon(machines, "emr", {"uploads": uploads, "job_flow_id": cluster["JobFlowId"]})
        yield server


@contextlib.contextmanager
def emr_serverless(machines: Machines, uploads: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Amazon]:
    from moto import mock_aws
    from moto.emrserverless.models import EMRServerlessBackend, emrserverless_backends

    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", "{}")  # is restored in the end
    connect_amazon(None)
    start, get = EMRServerlessBackend.start_job_run, EMRServerlessBackend.get_job_run
    cancel = EMRServerlessBackend.cancel_job_run

    def started(self: Any, **given: Any) -> Any:
        run = start(self, **given)
        server.described.append(given)
        driver = given["job_driver"]["sparkSubmit"]
        [defaults] = given["configuration_overrides"]["applicationConfiguration"]
        assert defaults["classification"] == "spark-defaults"
        words = [driver["entryPoint"], *driver["entryPointArguments"]]
        server.start(run.id, words, defaults["properties"])
        run.state = "RUNNING"
        return run

    def got(self: Any, application_id: str, job_run_id: str) -> Any:
        run = get(self, application_id, job_run_id)
        if run.state == "RUNNING" and (ended := server.ended(job_run_id)) is not None:
            run.state = "SUCCESS" if ended else "FAILED"
            run.state_details = None if ended else "Job failed, please check complete logs."
        return run

    def cancelled(self: Any, application_id: str, job_run_id: str) -> Any:
        if got(self, application_id, job_run_id).state == "RUNNING":
            kill(server.running[job_run_id])
            cancel(self, application_id, job_run_id)
        return application_id, job_run_id

    monkeypatch.setattr(EMRServerlessBackend, "start_job_run", started)
    monkeypatch.setattr(EMRServerlessBackend, "get_job_run", got)
    monkeypatch.setattr(EMRServerlessBackend, "cancel_job_run", cancelled)
    with mock_aws():
        names = ("client_token", "initial_capacity", "maximum_capacity", "auto_start_configuration")
        application = emrserverless_backends[ACCOUNT][REGION].create_application(
            name="lake", release_label="emr-7.1.0", application_type="SPARK", tags={},
            auto_stop_configuration="", network_configuration=None, **dict.fromkeys(names, ""),
        )  # fmt: skip
        role = f"arn:aws:iam::{ACCOUNT}:role/jobs"
        options = {"uploads": uploads, "application_id": application.id, "execution_role_arn": role}
        server = Amazon(machines, "emr-serverless", options)
        yield server


MAKERS: dict[str, Any] = {
    "livy": livy,
    "emr": emr,
    "emr-serverless": emr_serverless,
    "databricks": databricks,
    "dataproc": dataproc,
}
#: those whose packages are in this environment: Google's are in one of their own
HERE = [name for name in MAKERS if find_spec(find_platform(name).PROVIDER_MODULE)]


# --- tasks ------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Task(Tries):
    """A daily upsert. The table is empty before; each day has a file."""

    platform: Platform
    folder: Path
    day: int = 0
    arguments: dict[str, Any] = field(default_factory=dict)

    def next_day(self, text: str) -> None:
        """`text`: a CSV."""
        self.day += 1
        self.store.clear()
        self.source.write_text(textwrap.dedent(text))

    @property
    def source(self) -> Path:
        return self.folder / f"day-{self.day}.csv"

    def operator(self, **arguments: Any) -> Any:
        defaults: dict[str, Any] = {
            "task_id": "write", "table": self.table, "source": str(self.source), "name": "n",
            "engine": self.platform.engine, "engine_options": self.platform.options, "poll_interval": 0.1,
            "token": f"day {self.day}",
        }  # fmt: skip
        return UpsertOperator(**{**defaults, **self.arguments, **arguments})

    def left(self) -> list[str]:
        """Files that jobs left for tasks, and tasks for jobs."""
        aux = Path(self.table.path, ".hoodie/.aux")
        folders = [aux / "airflow-results", aux / "airflow-rows", self.folder / "uploads/requests"]
        return [path.name for folder in folders for path in folder.glob("*")]
