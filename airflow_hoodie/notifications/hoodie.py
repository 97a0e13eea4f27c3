"""What a failed task of a table says, handed to a channel that Airflow has: a notifier, or a function."""

from __future__ import annotations

import copy
import html
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, cast

from airflow.providers.common.compat.sdk import AirflowException, AirflowSensorTimeout
from airflow.sdk import BaseNotifier

from airflow_hoodie.arguments import fields_of, is_later
from airflow_hoodie.commits import TableReader
from airflow_hoodie.conditions import Commits
from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieConflictError,
    HoodieException,
    HoodieTransformError,
)
from airflow_hoodie.hooks.hoodie import located
from airflow_hoodie.links.hoodie import timeline_url
from airflow_hoodie.table import HoodieTable
from hoodie.errors import HoodieError
from hoodie.mask import masked
from hoodie.text import period, visible
from hoodie.timeline.freshness import Freshness

if TYPE_CHECKING:
    from airflow.sdk import Context

#: what a message may be about
FAILURE, CONFLICT, LATE = "failure", "conflict", "late"
KINDS = (FAILURE, CONFLICT, LATE)

_ROWS = "the rows or the schema have to change; a retry finds the same"
_TABLE = "look at the table: hoodie doctor --table {path}"
_AGAIN = "nothing was committed; run the task again"
_NEXT = {
    "configuration": "correct the setting or argument that the error names; a retry finds the same",
    "transform": "correct the function of transform; the log has the traceback of its error",
    "table_mismatch": "the task's options contradict the table's own; correct them",
    "source_not_found": "the source has no files yet; run the task again when they are there",
    "input": _ROWS,
    "schema": _ROWS,
    "duplicate_key": _ROWS,
    "validation": "a quality gate failed and the write was withdrawn; look at the rows of the source",
    "too_costly": "look what the write costs: hoodie explain, or raise hoodie.write.max.amplification",
    "table_not_found": "no table is at {path}; correct the path, or run what makes the table first",
    "out_of_order": "a later interval is written already; look whether this one is to be repeated at all",
    "not_retained": "ask for a later state; this one is cleaned or archived",
    "table_busy": "another writer is at work; wait for it, or give the task more time (wait_for_writer)",
    "lock_timeout": "wait for the process that holds the lock, which the error names, or end it",
    "conflict": _AGAIN,
    "commit_conflict": _AGAIN,
    "fenced": f"the writer was taken for dead, and its write undone; {_AGAIN}",
    "commit_unknown": "look whether the commit is on the timeline before the rows are written again",
    "service": "the rows are committed; run the service that failed again (MaintenanceOperator)",
    "storage": "look at the storage that the error names, then run the task again",
    "job": "look at the log of the task, then run it again",
}


class HoodieNotifier(BaseNotifier):
    """Composes a message about a failed task of a table and hands it to a channel of Airflow.

    For `on_failure_callback` and `on_retry_callback` of a task, or of all tasks by `default_args`. The kind
    of the message is `conflict` for a HoodieConflictError, `late` for a sensor of this provider that timed
    out, else `failure`.

    The message is a dict: kind, title, text and html (all of it for people), table, base_path, instant, code
    (docs/errors.md), error, next_step, dag_id, task_id, run_id, map_index, try_number, links (addresses by
    name: log, timeline, commit, Spark UI); of a late table also last_commit and freshness, whose age_ms and
    usual_ms are milliseconds since that and between writes. What is unknown is "" or None. Secrets are hidden
    as in logs.

    :param channel: a notifier of Airflow, whose templated fields find the message as `hoodie`
        (`{{ hoodie.title }}`), or a function that is called with the message.
    :param kinds: messages of other kinds are not sent: one notifier may page for a late table, another one
        log conflicts.
    :param table: HoodieTable, its dict form or its path, for a task that is no operator or sensor of this
        provider. Default: the task's.
    """

    def __init__(
        self,
        channel: BaseNotifier | Callable[[dict[str, Any]], Any],
        *,
        kinds: Collection[str] = KINDS,
        table: HoodieTable | Mapping[str, Any] | str | None = None,
    ) -> None:
        super().__init__()
        if not callable(channel):
            raise HoodieConfigurationError(
                f"channel is {channel!r}; pass a notifier, such as SmtpNotifier(to=...), or a function"
            )
        wanted = {kinds} if isinstance(kinds, str) else set(kinds)
        if not wanted or not wanted <= set(KINDS):
            raise HoodieConfigurationError(f"kinds are {kinds!r}; name some of {', '.join(KINDS)}")
        self.channel = channel
        self.kinds = frozenset(wanted)
        self.table = table

    def notify(self, context: Context) -> None:
        found = message(context, self.table)
        if found["kind"] not in self.kinds:
            self.log.info("No message: %s is none of %s", found["kind"], ", ".join(sorted(self.kinds)))
        elif isinstance(self.channel, BaseNotifier):
            # it renders its fields in place, once and for all
            copy.copy(self.channel)(cast("Context", {**context, "hoodie": found}))
        else:
            self.channel(found)


def message(context: Mapping[str, Any], table: Any = None) -> dict[str, Any]:
    """The message of HoodieNotifier about the task whose callback has this context."""
    ti: Any = context.get("ti")
    task: Any = getattr(ti, "task", None) or context.get("task")
    error = context.get("exception")
    named = table if table is not None else getattr(task, "table", None)
    name, path = _named(named)
    kind = _kind(error, task)
    code = error.code if isinstance(error, HoodieException) else ""
    values = error.values if isinstance(error, HoodieException) else {}
    result = getattr(task, "result", None) or {}
    instant = str(values.get("instant") or result.get("instant") or "")
    run: Any = context.get("dag_run")
    found: dict[str, Any] = {
        "kind": kind,
        "table": name,
        "base_path": path,
        "instant": instant,
        "code": code,
        "error": _text(error),
        "next_step": _next_step(kind, code, path, error),
        "dag_id": getattr(ti, "dag_id", None) or getattr(run, "dag_id", None) or "",
        "task_id": getattr(ti, "task_id", None) or "",
        "run_id": getattr(ti, "run_id", None) or getattr(run, "run_id", None) or "",
        "map_index": getattr(ti, "map_index", -1),
        "try_number": getattr(ti, "try_number", None),
        "links": _links(ti, task, path, instant),
    }
    if kind == LATE:
        found["last_commit"], found["freshness"] = _last_commit(named)
    found["title"] = _title(found)
    found["text"] = _lines(found)
    found["html"] = _html(found)
    return found


def _kind(error: Any, task: Any) -> str:
    if isinstance(error, HoodieConflictError):
        return CONFLICT
    # TimelineSensor has a kind of condition; its module is not imported for other tasks
    if isinstance(error, AirflowSensorTimeout) and getattr(task, "condition_kind", None):
        return LATE
    return FAILURE


def _text(error: Any) -> str:
    if error is None:
        return ""
    name = "" if isinstance(error, (HoodieException, str)) else f"{type(error).__name__}: "
    return visible(masked(f"{name}{error}"))


def _named(table: Any) -> tuple[str, str]:
    """Name and path, "" for what is not known."""
    if table is None or is_later(table):
        return "", ""
    found = fields_of(table)
    path = str(found.get("path") or "") if isinstance(found, Mapping) else str(found)
    name = str(found.get("name") or "") if isinstance(found, Mapping) else ""
    return name or path.rstrip("/").rpartition("/")[2], path


def _next_step(kind: str, code: str, path: str, error: Any) -> str:
    if kind == LATE:
        return "look at the DAG that writes the table; the timeline shows its last commits and running writes"
    if isinstance(error, HoodieTransformError) and error.transient:
        return "look whether what the transform calls answers, then run the task again"
    step = _NEXT.get(code) or (_TABLE if code else _NEXT["job"])
    return step.format(path=path or "the table's path")


def _links(ti: Any, task: Any, path: str, instant: str) -> dict[str, str]:
    links = {"log": str(getattr(ti, "log_url", None) or "")}
    if path:
        links["timeline"] = timeline_url(path)
        links["commit"] = timeline_url(path, instant) if instant else ""
    links["Spark UI"] = str(getattr(task, "spark_ui", None) or "")
    return {name: url for name, url in links.items() if url}


def _last_commit(table: Any) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The last commit of rows, as CommitSensor's XCom, and the table's freshness; None without one."""
    try:
        reader = TableReader(*located(table))
        timeline = reader.poll()
        hit = Commits().find(reader, timeline)
        fresh = Freshness.of(timeline, reader.details, reader.storage.now_ms())
    except (HoodieError, AirflowException, OSError):
        return None, None
    return (hit.to_dict(), fresh.to_dict()) if hit else (None, None)


def _title(found: Mapping[str, Any]) -> str:
    table = found["table"] or "a table"
    task = f"{found['dag_id']}.{found['task_id']}".strip(".")
    if found["kind"] == LATE:
        return f"{table} is late: {task}"
    if found["kind"] == CONFLICT:
        return f"Conflict of writers on {table}: {task}"
    return f"{task} failed on {table}" if found["base_path"] else f"{task} failed"


def _rows(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the message lists, with its labels."""
    last = found.get("last_commit")
    if found["kind"] == LATE:
        commit = f"{last['instant']}, completed {last['completion_time']}" if last else "none is known"
        commit += _rhythm(found.get("freshness") or {})
    number = f", try {found['try_number']}" if found["try_number"] else ""
    mapped = f", map index {found['map_index']}" if found["map_index"] >= 0 else ""
    rows = [
        ("Table", found["base_path"]),
        ("Run", f"{found['run_id']}{mapped}{number}"),
        ("Instant", found["instant"]),
        ("Last commit", commit if found["kind"] == LATE else ""),
        ("Error", f"{found['error']} [{found['code']}]" if found["code"] else found["error"]),
        ("Next", found["next_step"]),
    ]
    return [(label, text) for label, text in rows if text]


def _rhythm(fresh: Mapping[str, Any]) -> str:
    age, usual = fresh.get("age_ms"), fresh.get("usual_ms")
    known = [f"{period(age)} ago"] if age is not None else []
    return "".join(f"; {text}" for text in [*known, *([f"usually every {period(usual)}"] if usual else [])])


def _lines(found: Mapping[str, Any]) -> str:
    links = [(name[0].upper() + name[1:], url) for name, url in found["links"].items()]
    return "\n".join([found["title"], *(f"{label}: {text}" for label, text in [*_rows(found), *links])])


def _html(found: Mapping[str, Any]) -> str:
    rows = [f"<li>{label}: {html.escape(text)}</li>" for label, text in _rows(found)]
    links = [
        f'<li><a href="{html.escape(url)}">{html.escape(name[0].upper() + name[1:])}</a></li>'
        for name, url in found["links"].items()
    ]
    return f"<p><b>{html.escape(found['title'])}</b></p><ul>{''.join([*rows, *links])}</ul>"
