"""The token of a task's write, by which a retry, a cleared task or a second run finds its commit.

DAG, task, map index and what the run stands for: its data interval, else its partition key, else its logical
date. A run that stands for none of them (an asset-triggered one) is known by its run id, which retries and
clearing keep.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hoodie.config.key import Config
from hoodie.errors import HoodieError, TableNotFound
from hoodie.source.fingerprint import fingerprint
from hoodie.storage.settings import options_of
from hoodie.table.handle import Table, TableRef
from hoodie.timeline.token_store import TokenStore
from hoodie.timeline.tokens import RUN_KEY, TaskRun, TokenCommit


def task_token(context: Mapping[str, Any]) -> str:
    """`dag/task/map index/interval` of the running task; "" outside of a run."""
    if "ti" not in context or "dag_run" not in context:
        return ""
    task, run = context["ti"], context["dag_run"]
    return "/".join(
        [task.dag_id, task.task_id, str(getattr(task, "map_index", -1)), _stands_for(context, run)]
    )


def run_metadata(context: Mapping[str, Any]) -> dict[str, str]:
    """Extra metadata that names the task run, for the timeline page; none outside of a run."""
    if "ti" not in context or "dag_run" not in context:
        return {}
    task = context["ti"]
    index = getattr(task, "map_index", -1)
    return {RUN_KEY: TaskRun(task.dag_id, task.task_id, index, context["dag_run"].run_id).text()}


def committed_before(
    path: str, token: str, operation: str, source: Mapping[str, Any], options: Mapping[str, str] | None = None
) -> TokenCommit | None:
    """The token's commit, if it was of the same source, as far as this machine sees it; None for no table.

    `options`: the table's, of which those of its storage count.
    """
    try:
        found = commit_of(path, token, options)
    except HoodieError:
        return None  # the job says what is wrong
    return (
        found if found is not None and found.fingerprint == fingerprint(operation, source, options) else None
    )


def commit_of(path: str, token: str, options: Mapping[str, str] | None = None) -> TokenCommit | None:
    """The token's commit, of any source; None for no table. Raises HoodieError where it can't be read."""
    try:
        table = Table(TableRef.of(path, Config.of(options_of(options or {}))))
        return TokenStore(table.timeline, table.storage).find(token)
    except TableNotFound:
        return None


def _stands_for(context: Mapping[str, Any], run: Any) -> str:
    start, end = getattr(run, "data_interval_start", None), getattr(run, "data_interval_end", None)
    if start is not None and end is not None:
        return f"{_text(start)}/{_text(end)}"
    key = context.get("partition_key") or getattr(run, "partition_key", None)
    if key:
        return f"partition={key}"
    date = getattr(run, "logical_date", None)
    return _text(date) if date is not None else f"run={run.run_id}"


def _text(moment: datetime) -> str:
    return moment.isoformat()
