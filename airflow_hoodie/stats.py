"""Figures of what operators committed, in Airflow's own metrics: StatsD, Datadog or OpenTelemetry, as its
section `[metrics]` says. The names are in docs/airflow.md.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow_hoodie.compat.task_sdk import airflow_stats

log = logging.getLogger(__name__)

#: statuses of results that committed nothing in this try
_NOTHING = frozenset({"planned", "skipped", "nothing_new", "already_committed", "shown", "failed"})
#: counters, and the fields of results that they count
_COUNTERS = {
    "rows_inserted": ("num_inserts",),
    "rows_updated": ("num_updates",),
    "rows_deleted": ("num_deletes",),
    "rows_written": ("num_writes",),
    "bad_rows": ("num_bad_rows",),
    "files": ("num_files",),
    "bytes": ("bytes_written", "bytes"),
}
_OTHER = re.compile(r"[^a-z0-9_]+")


def committed(result: Mapping[str, Any], *, timed: bool = True) -> None:
    """Of a job's result: of a write, a service, or several. What committed nothing has no figures.

    `timed`: False for a result that does not know its duration.
    """
    services = result.get("services")
    if isinstance(services, Mapping):
        for each in services.values():
            if isinstance(each, Mapping):
                committed({"table": result.get("table"), **each})
        return
    if not result.get("instant") or result.get("status") in _NOTHING:
        return
    operation, table = str(result.get("operation")), str(result.get("table"))
    counts = {name: _first(result, fields) for name, fields in _COUNTERS.items()}
    _send(operation, table, counts, float(result.get("duration_s") or 0) if timed else None)


def increment(operation: str, table: str, name: str) -> None:
    """One more of what is neither a row nor a file, such as a conflict."""
    _send(operation, table, {name: 1})


def _send(operation: str, table: str, counts: Mapping[str, int], seconds: float | None = None) -> None:
    """What is 0 is left out. No metric is worth a task: errors are logged."""
    prefix, tags = f"hoodie.{_OTHER.sub('_', operation.lower())}", {"table": table}
    try:
        stats = airflow_stats()
        if seconds is not None:
            stats.timing(f"{prefix}.duration", timedelta(seconds=seconds), tags=tags)
        for name, count in counts.items():
            if count:
                stats.incr(f"{prefix}.{name}", count, tags=tags)
    except Exception as error:  # noqa: BLE001  the commit is there, whatever Airflow's metrics are
        log.warning("no metrics of %s: %s", prefix, error)


def _first(result: Mapping[str, Any], fields: tuple[str, ...]) -> int:
    found = next((result[name] for name in fields if isinstance(result.get(name), int)), 0)
    return int(found)
