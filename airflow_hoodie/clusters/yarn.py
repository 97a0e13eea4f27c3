"""YARN, by the REST API of its ResourceManager (/ws/v1/cluster/apps, Apache Hadoop's documentation)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from airflow_hoodie.clusters import ClusterManager, State, Status
from airflow_hoodie.clusters.rest import ask, shown, unreachable
from airflow_hoodie.exceptions import HoodieConfigurationError

#: field of a Spark connection's extra; the Spark provider has the same one
ADDRESS = "yarn_resourcemanager_webapp_address"
_TAGS = "spark.yarn.tags"
_STATES = {"FAILED": State.FAILED, "KILLED": State.KILLED}


class Yarn(ClusterManager):
    """A ResourceManager.

    :param address: `http://host:8088`, or several separated by commas, of which one is active.
    """

    NAME = "YARN"

    def __init__(self, address: str) -> None:
        self._given = address
        named = [one.strip().rstrip("/") for one in address.split(",") if one.strip()]
        self._addresses = [one if "://" in one else f"http://{one}" for one in named]
        if not self._addresses:
            raise HoodieConfigurationError(
                "the address of YARN's ResourceManager is not known, so applications can't be watched; "
                f'add {{"{ADDRESS}": "http://host:8088"}} to the extra of the Spark connection'
            )

    def place(self) -> dict[str, str]:
        return {"address": self._given}

    def conf(self, tag: str, given: Mapping[str, Any]) -> dict[str, str]:
        tags = ",".join([tag, *([str(given[_TAGS])] if given.get(_TAGS) else [])])
        return {"spark.yarn.submit.waitAppCompletion": "false", _TAGS: tags}

    def log_command(self, application_id: str) -> str:
        return f"yarn logs -applicationId {application_id}"

    def find(self, tag: str) -> str | None:
        answer = self._ask("GET", f"apps?applicationTags={quote(tag)}")
        apps = ((answer or {}).get("apps") or {}).get("app") or []
        found = max(apps, key=lambda app: int(app.get("startedTime") or 0), default=None)
        return str(found["id"]) if found else None

    def status(self, application_id: str) -> Status:
        answer = self._ask("GET", f"apps/{quote(application_id)}")
        if answer is None:
            return Status(State.UNKNOWN)
        app = answer.get("app") or {}
        state, final = str(app.get("state")), str(app.get("finalStatus"))
        if state == "FINISHED":
            found = State.SUCCEEDED if final == "SUCCEEDED" else _STATES.get(final, State.FAILED)
        else:
            found = _STATES.get(state, State.RUNNING)
        return Status(found, shown(app.get("diagnostics")))

    def ui(self, application_id: str) -> str:
        """By YARN's proxy: the Spark UI, then what the application left, its history or YARN's page of it."""
        answer = self._ask("GET", f"apps/{quote(application_id)}") or {}
        found = str((answer.get("app") or {}).get("trackingUrl") or "")
        return found if found.startswith(("http://", "https://")) else ""

    def kill(self, application_id: str) -> None:
        self._ask("PUT", f"apps/{quote(application_id)}/state", {"state": "KILLED"})

    def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any] | None:
        """The answer of the first address that gives one; None for an application that it does not know."""
        failures = []
        for address in self._addresses:
            try:
                return self._one(method, f"{address}/ws/v1/cluster/{path}", body)
            except (OSError, ValueError) as error:  # those of requests are among them
                failures.append(f"{address}: {shown(error)}")
        advice = f"is it running, and is {ADDRESS} of the Spark connection right?"
        raise unreachable("YARN's ResourceManager", failures, advice)

    def _one(self, method: str, url: str, body: Any) -> dict[str, Any] | None:
        """Raises OSError or ValueError for what may pass. A ResourceManager on standby leads to the other."""
        status, found = ask(method, url, self.TIMEOUT_S, json=body)
        if status == 404:
            return None
        if status >= 400:
            raise HoodieConfigurationError(
                f"YARN's ResourceManager refuses {method} {url} with HTTP {status}; a "
                "ResourceManager that asks for Kerberos is not supported: use deploy mode client"
            )
        return found
