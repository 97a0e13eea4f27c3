"""What to run where a table needs a hand: beside each failed, frozen and late entry of the page.

A repair of this package's is a command and the same as an operator. The page has no way to run them: it names
them, and in Airflow it may trigger a DAG (static/repair.js).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hoodie.config.versions import is_writable
from hoodie.serve.tables import ShownTable
from hoodie.table.checkup import remedy_for
from hoodie.text import visible
from hoodie.timeline.freshness import Freshness
from hoodie.timeline.tokens import TaskRun

_OWNER = re.compile(r"process (\d+) on .+")
FAILED, FROZEN, LATE = "failed", "frozen", "late"


def repairs(
    table: ShownTable,
    failed: Iterable[Mapping[str, Any]],
    waiting: Iterable[Mapping[str, Any]],
    fresh: Freshness,
    last: TaskRun | None,
) -> dict[str, Any]:
    """JSON-able: `steps`, each with `kind`, `text` and `command` ("" for none), in the order in which they
    are taken; `maintain`: the `command` and the `operator` that roll failed writes back, finish what is stuck
    and run what is due, "" where a table is read only here, or has no record key.

    `failed` and `waiting` are items of the health; `last`: the task of the last write.
    """
    failed = list(failed)
    writers = [item["writer"] for item in failed if item.get("writer")]
    steps = [*_frozen([*writers, *waiting]), *_failed(table, failed)]
    if fresh.late:
        steps.append(_late(last))
    return {"steps": steps, "maintain": _maintain(table)}


def _frozen(processes: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    owners = dict.fromkeys(item["owner"] for item in processes if item["frozen"])
    for owner in owners:
        known = _OWNER.fullmatch(owner)
        text = f"{owner} is frozen, and would go on later: end it there, then run what follows"
        yield _step(FROZEN, text, f"kill -KILL {known[1]}" if known else "")


def _failed(table: ShownTable, failed: list[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    if failed:
        one = len(failed) == 1
        named = f"{failed[0]['action']} {failed[0]['instant']}" if one else f"{len(failed)} instants"
        text = (
            f"{named} did not end: the next write rolls {'it' if one else 'them'} back, `hoodie services run`"
        )
        yield _step(FAILED, remedy_for(table.table.properties, f"{text} does at once"))


def _late(last: TaskRun | None) -> dict[str, str]:
    if last is None:
        return _step(
            LATE, "no task of Airflow made the last write: look at the program that writes the table"
        )
    text = (
        f"the last write is of {last.dag_id}.{last.task_id}: look at that DAG's newest runs, then trigger one"
    )
    return _step(LATE, text, f"airflow dags trigger {shlex.quote(last.dag_id)}")


def _step(kind: str, text: str, command: str = "") -> dict[str, str]:
    return {"kind": kind, "text": visible(text), "command": visible(command)}


def _maintain(table: ShownTable) -> dict[str, str]:
    props, path = table.table.properties, table.base_path
    if not is_writable(props.version):
        return {"command": "", "operator": ""}
    command = f"hoodie services run {shlex.quote(path)}"
    keys = list(props.record_key_fields)
    described = ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in (("name", props.name), ("path", path), ("record_keys", keys))
    )
    operator = f'MaintenanceOperator(task_id="maintain", table=HoodieTable({described}))' if keys else ""
    return {"command": visible(command), "operator": visible(operator)}
