"""Links of a task: its table's timeline, the commit it made, and the Spark UI of its job.

Airflow's servers know a task's links only as XComs, which the task leaves: the timeline's when it starts, the
Spark UI's as soon as the job says where it is, and its history's when that ends, all of them at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlencode, urljoin

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseOperatorLink

#: where the provider's page of timelines is (airflow_hoodie.plugins), below Airflow's own address
PAGE = "hoodie/"


def timeline_url(path: str, instant: str | None = None, action: str | None = None) -> str:
    """Address of the page that shows a table's timeline, or one instant of it (hoodie.serve)."""
    base = conf.get("api", "base_url", fallback=None) or "/"
    query = {"table": path, "instant": instant, "action": action if instant else None}
    text = urlencode({name: value for name, value in query.items() if value})
    return urljoin(base.rstrip("/") + "/", f"{PAGE}?{text}")


def history_url(application: Mapping[str, Any], server: str | None) -> str:
    """Address of an application that has ended, on the history server; "" where none shows it.

    application: what the job said of it: `application_id`, `event_log`, and `history_server` of its settings.
    server: that of the connection, which counts more.
    """
    server = server or application.get("history_server")
    if not server or not application.get("event_log"):
        return ""
    base = str(server) if "://" in str(server) else f"http://{server}"
    return f"{base.rstrip('/')}/history/{application['application_id']}/"


class TimelineLink(BaseOperatorLink):
    """The table's timeline."""

    name: ClassVar[str] = "Hudi timeline"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return timeline_url(operator.table["path"])


class CommitLink(BaseOperatorLink):
    """The instant that the task committed, or found committed; empty without one."""

    name: ClassVar[str] = "Hudi commit"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        result = operator.result or {}
        instant = result.get("instant")
        path = result.get("base_path") or operator.table["path"]
        return timeline_url(path, instant, result.get("action")) if instant else ""


class SparkUILink(BaseOperatorLink):
    """The Spark UI of the running job, of an ended one its history; empty where there is none."""

    name: ClassVar[str] = "Spark UI"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return str(operator.spark_ui or "")


LINKS: tuple[BaseOperatorLink, ...] = (TimelineLink(), CommitLink(), SparkUILink())
#: of tasks that are known to start no Spark
WITHOUT_SPARK = LINKS[:2]
