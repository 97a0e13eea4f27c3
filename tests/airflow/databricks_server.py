"""A stand-in for a workspace of Databricks: the answers of its Jobs API 2.2, which it documents. Each run
installs the wheel that it was submitted with into a folder of its own, and runs the job.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.http_server import Server, serving

from .detached import Answering
from .machines import Machines, Platform, kill


@dataclass
class Workspace(Platform):
    """`lost`: submissions whose answers will be lost. `page`: runs of one list. `states`: of runs that tests
    put into one.
    """

    engine: str = "databricks"
    cancelled: set[int] = field(default_factory=set)
    states: dict[int, dict[str, Any]] = field(default_factory=dict)
    lost: int = 0
    page: int = 1

    def submit(self, given: dict[str, Any]) -> int:
        """The id of the run, which a token has once."""
        tokens = [run["idempotency_token"] for run in self.described]
        if given["idempotency_token"] in tokens:
            return tokens.index(given["idempotency_token"])
        assert set(given) == {"run_name", "idempotency_token", "tasks"}
        assert len(given["idempotency_token"]) <= 64
        [task] = given["tasks"]
        assert ("new_cluster" in task) != ("existing_cluster_id" in task)
        script, conf = task["spark_python_task"], task.get("new_cluster", {}).get("spark_conf", {})
        wheel = next(library["whl"] for library in task["libraries"] if "whl" in library)
        self.described.append(given)
        self.machines.start(script["python_file"], script["parameters"], wheel, conf)
        return len(self.described) - 1

    def view(self, number: int) -> dict[str, Any]:
        code = self.machines.jobs[number].poll()
        if number in self.states:
            state = self.states[number]
        elif code is None:
            state = {"life_cycle_state": "RUNNING", "state_message": ""}
        elif number in self.cancelled:
            state = {
                "life_cycle_state": "TERMINATED",
                "result_state": "CANCELED",
                "state_message": "Cancelled.",
            }
        elif code == 0:
            state = {"life_cycle_state": "TERMINATED", "result_state": "SUCCESS", "state_message": ""}
        else:
            text = "Task hoodie failed with message: Workload failed, see run output for details."
            state = {"life_cycle_state": "TERMINATED", "result_state": "FAILED", "state_message": text}
        return {
            "job_id": 900 + number,
            "run_id": number,
            "run_name": self.described[number]["run_name"],
            "run_type": "SUBMIT_RUN",
            "run_page_url": f"https://workspace.example/#job/{900 + number}/run/{number}",
            "state": state,
            "tasks": [{"run_id": 5000 + number, "task_key": "hoodie", "state": state}],
        }

    def listed(self, start: int) -> dict[str, Any]:
        runs = [self.view(number) for number in reversed(range(len(self.described)))]
        found = {"runs": runs[start : start + self.page], "has_more": start + self.page < len(runs)}
        return {**found, **({"next_page_token": str(start + self.page)} if found["has_more"] else {})}

    def output(self, run_id: int) -> dict[str, Any]:
        lines = self.machines.log(self.machines.jobs[run_id - 5000])
        return {"metadata": {}, "error": lines[-1] if lines else ""}


@contextlib.contextmanager
def databricks(machines: Machines, uploads: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    cluster = {"spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "num_workers": 2}
    volume = Path(uploads).with_name("volume")
    volume.symlink_to(uploads)  # its path in the workspace is not that on workers
    workspace = Workspace(
        machines, options={"uploads": uploads, "uploads_path": str(volume), "new_cluster": cluster}
    )
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")  # for jobs

    class Handler(Answering):
        def do_POST(self) -> None:
            given, path = self.body(), self.path
            if path == "/api/2.2/jobs/runs/submit":
                run_id = workspace.submit(given)
                if workspace.lost:
                    workspace.lost -= 1
                    self.close_connection = True
                    return
                self.answer(200, {"run_id": run_id})
            else:
                assert path == "/api/2.2/jobs/runs/cancel"
                if self.known(given["run_id"]):
                    if machines.jobs[given["run_id"]].poll() is None:
                        kill(machines.jobs[given["run_id"]])
                        workspace.cancelled.add(given["run_id"])
                    self.answer(200, {})

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            given = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if parts.path == "/api/2.2/jobs/runs/list":
                assert (given["run_type"], given["limit"]) == ("SUBMIT_RUN", "25")
                self.answer(200, workspace.listed(int(given.get("page_token", 0))))
            elif parts.path == "/api/2.2/jobs/runs/get-output":
                self.answer(200, workspace.output(int(given["run_id"])))
            else:
                assert parts.path == "/api/2.2/jobs/runs/get"
                if self.known(int(given["run_id"])):
                    self.answer(200, workspace.view(int(given["run_id"])))

        def known(self, run_id: int) -> bool:
            found = run_id < len(workspace.described)
            if not found:
                code, text = "INVALID_PARAMETER_VALUE", f"Run {run_id} does not exist."
                self.answer(400, {"error_code": code, "message": text})
            return found

        def answer(self, status: int, value: Any) -> None:
            if self.headers["Authorization"] != "Bearer planted-login":
                status, value = 403, {"error_code": "403", "message": "Invalid access token."}
            super().answer(503 if workspace.broken else status, value)

    with serving(Server(Handler)) as address:
        host, _, port = address.partition(":")
        connection = {
            "conn_type": "databricks", "host": host, "port": int(port), "schema": "http",
            "password": "planted-login",
        }  # fmt: skip
        monkeypatch.setenv("AIRFLOW_CONN_DATABRICKS_DEFAULT", json.dumps(connection))
        yield workspace
