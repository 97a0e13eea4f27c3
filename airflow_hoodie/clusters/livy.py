"""Apache Livy, by its REST API of batches, through the hook of Airflow's provider.

A batch has the job's tag in its name, by which it is found. Livy has its credentials and its address from
the Airflow connection, and takes settings of Spark but for the master and the deploy mode, which are its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException

from airflow_hoodie.clusters import State, Status
from airflow_hoodie.clusters.platform import Platform, Submission, connection_named, provider
from airflow_hoodie.clusters.rest import last_shown, shown, unreachable
from airflow_hoodie.exceptions import HoodieConfigurationError

_STATES = {
    "success": State.SUCCEEDED,
    "dead": State.FAILED,
    "error": State.FAILED,
    "killed": State.KILLED,
}
#: batches of one answer; answers that are read to find one
_PAGE, _PAGES = 100, 100


@dataclass(frozen=True, kw_only=True)
class Livy(Platform):
    """A server.

    `livy_conn_id`: a connection of type `livy`. `proxy_user`, `queue`: as Livy has them. `endpoint_prefix`:
    of the server's paths.
    """

    livy_conn_id: str = "livy_default"
    proxy_user: str | None = None
    queue: str | None = None
    endpoint_prefix: str | None = None

    NAME: ClassVar[str] = "Livy"
    PROVIDER: ClassVar[str] = "apache-airflow-providers-apache-livy"
    PROVIDER_MODULE: ClassVar[str] = "airflow.providers.apache.livy"
    EXTRA: ClassVar[str] = "livy"

    def submit(self, job: Submission) -> str:
        given: dict[str, Any] = {
            "file": job.script,
            "name": job.label(120),
            "args": list(job.arguments),
            "pyFiles": [job.package, *job.py_files],
            "files": list(job.files),
            "archives": list(job.archives),
            "jars": list(job.jars),
            "conf": dict(job.conf),
            "proxyUser": self.proxy_user,
            "queue": self.queue,
        }
        answer = self._ask("POST", "batches", {name: item for name, item in given.items() if item})
        number = (answer or {}).get("id")
        if number is None:
            raise self._unreachable("its answer names no batch")
        return str(number)

    def find(self, tag: str) -> str | None:
        for page in range(_PAGES):
            answer = self._ask("GET", f"batches?from={page * _PAGE}&size={_PAGE}") or {}
            found = answer.get("sessions") or []
            for batch in reversed(found):
                if str(batch.get("name") or "").startswith(tag):
                    return str(batch.get("id"))
            if len(found) < _PAGE:
                break
        return None

    def status(self, application_id: str) -> Status:
        batch = self._ask("GET", f"batches/{application_id}")
        if batch is None:
            return Status(State.UNKNOWN)
        state = str(batch.get("state"))
        found = _STATES.get(state, State.RUNNING)
        return Status(found, _said(state, batch) if found is State.FAILED else "")

    def ui(self, application_id: str) -> str:
        batch = self._ask("GET", f"batches/{application_id}") or {}
        found = str((batch.get("appInfo") or {}).get("sparkUiUrl") or "")
        return found if found.startswith(("http://", "https://")) else ""

    def kill(self, application_id: str) -> None:
        self._ask("DELETE", f"batches/{application_id}")

    def label(self, application_id: str) -> str:
        return f"Livy's batch {application_id}"

    def log_command(self, application_id: str) -> str:
        return f"GET /batches/{application_id}/log of Livy"

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """The answer; None for a batch that Livy does not know."""
        livy = provider(Livy, "airflow.providers.apache.livy.hooks.livy")
        with connection_named(Livy, self.livy_conn_id):
            hook = livy.LivyHook(
                livy_conn_id=self.livy_conn_id,
                extra_options={"check_response": False, "timeout": self.TIMEOUT_S},
                endpoint_prefix=self.endpoint_prefix,
            )
            try:
                endpoint = f"{hook.endpoint_prefix}/{path}"
                answer = hook.run_method(endpoint, method, json.dumps(body) if body is not None else None)
                status = answer.status_code
                found = answer.json() if status < 300 and answer.content else {}
            except AirflowNotFoundException:
                raise
            except (OSError, ValueError, AirflowException) as error:  # those of requests are among them
                raise self._unreachable(str(shown(error))) from error
        if status == 404 and method != "POST":
            return None
        if status >= 500 or not isinstance(found, dict):
            raise self._unreachable(f"HTTP {status} {last_shown(answer.text)}")
        if status >= 300:
            raise HoodieConfigurationError(
                f"Livy refuses {method} /{path} with HTTP {status}: {last_shown(answer.text)}; correct the "
                f"arguments of the task, or the connection {self.livy_conn_id!r}"
            )
        return found

    def _unreachable(self, failure: str) -> Exception:
        advice = f"is it running, and is the connection {self.livy_conn_id!r} right?"
        return unreachable("Livy", [failure], advice)


def _said(state: str, batch: Mapping[str, Any]) -> str:
    """Livy's word for the end, and the last lines of spark-submit's log."""
    lines = [str(line).strip() for line in batch.get("log") or []]
    return f"{state}: {last_shown(' | '.join(line for line in lines if line))}"
