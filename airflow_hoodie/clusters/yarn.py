"""YARN, by the REST API of its ResourceManager (/ws/v1/cluster/apps, Apache Hadoop's documentation)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from airflow_hoodie.clusters import ClusterManager, State, Status
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieJobError
from hoodie.text import visible

#: field of a Spark connection's extra; the Spark provider has the same one
ADDRESS = "yarn_resourcemanager_webapp_address"
_TAGS = "spark.yarn.tags"
_STATES = {"FAILED": State.FAILED, "KILLED": State.KILLED}
_SHOWN = 500


class Yarn(ClusterManager):
    """A ResourceManager.

    :param address: `http://host:8088`, or several separated by commas, of which one is active.
    """

    def __init__(self, address: str) -> None:
        named = [one.strip().rstrip("/") for one in address.split(",") if one.strip()]
        self._addresses = [one if "://" in one else f"http://{one}" for one in named]
        if not self._addresses:
            raise HoodieConfigurationError(
                "the address of YARN's ResourceManager is not known, so applications can't be watched; "
                f'add {{"{ADDRESS}": "http://host:8088"}} to the extra of the Spark connection'
            )

    @staticmethod
    def conf(tag: str, given: Mapping[str, Any]) -> dict[str, str]:
        tags = ",".join([tag, *([str(given[_TAGS])] if given.get(_TAGS) else [])])
        return {"spark.yarn.submit.waitAppCompletion": "false", _TAGS: tags}

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
        return Status(found, visible(str(app.get("diagnostics") or "").strip())[:_SHOWN])

    def kill(self, application_id: str) -> None:
        self._ask("PUT", f"apps/{quote(application_id)}/state", {"state": "KILLED"})

    def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any] | None:
        """The answer of the first address that gives one; None for an application that it does not know."""
        failures = []
        for address in self._addresses:
            try:
                return self._one(method, f"{address}/ws/v1/cluster/{path}", body)
            except (OSError, ValueError) as error:  # those of requests are among them
                failures.append(f"{address}: {visible(str(error))[:_SHOWN]}")
        raise HoodieJobError(
            f"YARN's ResourceManager is unreachable ({'; '.join(failures)}); is it running, and is {ADDRESS} "
            "of the Spark connection right?",
            code="unreachable",
        )

    def _one(self, method: str, url: str, body: Any) -> dict[str, Any] | None:
        """Raises OSError or ValueError for what may pass. A ResourceManager on standby leads to the other."""
        import requests

        answer = requests.request(
            method, url, json=body, headers={"Accept": "application/json"}, timeout=self.TIMEOUT_S
        )
        if answer.status_code == 404:
            return None
        if answer.status_code in (400, 401, 403):
            raise HoodieConfigurationError(
                f"YARN's ResourceManager refuses {method} {url} with HTTP {answer.status_code}; a "
                "ResourceManager that asks for Kerberos is not supported: use deploy mode client"
            )
        if answer.status_code >= 300:
            raise ValueError(f"HTTP {answer.status_code}")
        found = answer.json()
        if not isinstance(found, dict):
            raise ValueError("the answer is no JSON object")
        return found
