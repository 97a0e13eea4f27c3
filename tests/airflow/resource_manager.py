"""YARN's ResourceManager, a server with recorded answers, and Airflow's connection to it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.http_server import Server, serving

from .detached import Answering

APP = "application_1784000000000_0007"
#: as Hadoop 3.3 answers, shortened
REPORT = {
    "id": APP, "user": "airflow", "name": "dag/write/run", "queue": "default", "state": "RUNNING",
    "finalStatus": "UNDEFINED", "progress": 10.0, "trackingUI": "ApplicationMaster", "diagnostics": "",
    "trackingUrl": f"http://resource-manager:8088/proxy/{APP}/",
    "applicationType": "SPARK", "applicationTags": "", "startedTime": 1784000000123, "finishedTime": 0,
}  # fmt: skip


@dataclass
class ResourceManager:
    """`apps` are those that it knows; `broken`: so many requests get HTTP 503 first, as `status` says;
    `accepted` is called with each new one."""

    address: str = ""
    apps: dict[str, dict[str, Any]] = field(default_factory=dict)
    killed: list[str] = field(default_factory=list)
    broken: int = 0
    status: int = 503
    accepted: Callable[[], Any] = lambda: None

    def add(self, **fields: Any) -> None:
        self.apps[fields.get("id", APP)] = {**REPORT, **fields}

    def end(self, state: str, final: str, said: str = "") -> None:
        self.apps[APP].update(state=state, finalStatus=final, diagnostics=said)


@contextlib.contextmanager
def running() -> Iterator[ResourceManager]:
    manager = ResourceManager()

    class Handler(Answering):
        def do_GET(self) -> None:
            _, _, name = self.path.partition("/ws/v1/cluster/apps")
            if name.startswith("?applicationTags="):
                tag = name.partition("=")[2]
                found = [app for app in manager.apps.values() if tag in app["applicationTags"].split(",")]
                self.answer(200, {"apps": {"app": found} if found else None})
            elif name[1:] in manager.apps:
                self.answer(200, {"app": manager.apps[name[1:]]})
            else:
                self.answer(404, {"RemoteException": {"exception": "NotFoundException"}})

        def do_PUT(self) -> None:
            name = self.path.split("/")[-2]
            assert self.body() == {"state": "KILLED"}
            manager.killed.append(name)
            self.answer(202, {"state": "ACCEPTED"})

        def do_POST(self) -> None:
            """What a submission makes of the script's command line; not of YARN."""
            manager.add(applicationTags=self.body()["spark.yarn.tags"])
            manager.accepted()
            self.answer(200, {})

        def answer(self, status: int, value: Any) -> None:
            if manager.broken:
                manager.broken -= 1
                status = manager.status
            super().answer(status, value)

    with serving(Server(Handler)) as address:
        manager.address = f"http://{address}"
        yield manager


def connect(yarn: ResourceManager, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's Spark connection; nothing on this machine says which Python the cluster has."""
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": yarn.address}
    connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
