"""What most DAGs of tables have in common, of a few arguments: a task group of one table, DAGs of many.

hoodie_table_group(ORDERS, "/landing/{{ ds }}/*.parquet")    in a DAG
dags_of_tables("tables.yaml")                                in a DAG file
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, TaskGroup

from airflow_hoodie.arguments import nearest
from airflow_hoodie.compat.task_sdk import cron_intervals
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.operators.ingest import IngestOperator
from airflow_hoodie.operators.maintenance import MaintenanceOperator
from airflow_hoodie.operators.services import HiveSyncOperator
from airflow_hoodie.operators.write import (
    BulkInsertOperator,
    DeleteOperator,
    InsertOperator,
    InsertOverwriteOperator,
    UpsertOperator,
)
from airflow_hoodie.sensors.commit import CommitSensor
from airflow_hoodie.table import HoodieTable

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

_WRITES: Mapping[str, Callable[..., BaseOperator]] = {
    "upsert": UpsertOperator,
    "insert": InsertOperator,
    "bulk_insert": BulkInsertOperator,
    "insert_overwrite": InsertOverwriteOperator,
    "delete": DeleteOperator,
    "ingest": IngestOperator,
}
_OF_GROUP = ("operation", "write", "wait", "maintenance", "sync")
_OF_CONFIG = ("defaults", "tables")
#: names of cron texts, and texts that name another schedule
_PRESETS = (*("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@quarterly", "@yearly", "@annually"),)
_NOT_TIMED = ("@once", "@continuous")
#: what a task or a DAG may be given wrongly
_WRONG = (TypeError, ValueError)


def hoodie_table_group(
    table: HoodieTable | Mapping[str, Any],
    source: Any,
    *,
    group_id: str | None = None,
    operation: str = "upsert",
    write: Mapping[str, Any] | None = None,
    wait: Mapping[str, Any] | None = None,
    maintenance: bool | Mapping[str, Any] = True,
    sync: bool | Mapping[str, Any] = False,
    default_args: Mapping[str, Any] | None = None,
) -> TaskGroup:
    """The tasks of one table, in a group of the DAG at hand: a write, then `wait`, `maintenance` and `sync`,
    each if it is asked for. Raises HoodieConfigurationError that names the table and the task.

    :param table: HoodieTable or its dict form.
    :param source: as of the operator that writes.
    :param group_id: default: the table's name.
    :param operation: `upsert`, `insert`, `bulk_insert`, `insert_overwrite`, `delete`, or `ingest`
        (IngestOperator); also the id of the task that writes.
    :param write: further arguments of that operator.
    :param wait: arguments of a CommitSensor, for a table that others write, too. None: nothing is waited for.
    :param maintenance: MaintenanceOperator, which runs the services that are due, or its arguments. The write
        then leaves out its inline services (`services="off"`), unless `write` says otherwise.
    :param sync: HiveSyncOperator, or its arguments.
    :param default_args: arguments of all of these tasks, such as `engine`, `retries` or `pool`.
    """
    if operation not in _WRITES:
        raise HoodieConfigurationError(
            f"operation is {operation!r}; use one of {', '.join(_WRITES)}{nearest(operation, _WRITES)}"
        )
    target = HoodieTable.of(table)
    own: dict[str, Any] = {"services": "off"} if maintenance else {}
    steps: list[tuple[str, Callable[..., BaseOperator], Mapping[str, Any] | None]] = [
        (operation, _WRITES[operation], {"source": source, **own, **_asked("write", write)}),
        ("wait", CommitSensor, None if wait is None else _asked("wait", wait)),
        ("maintenance", MaintenanceOperator, _asked_for("maintenance", maintenance)),
        ("sync", HiveSyncOperator, _asked_for("sync", sync)),
    ]
    shared: Any = dict(default_args or {})
    group = TaskGroup(group_id or _id(target.name), default_args=shared)
    with group:
        before: BaseOperator | None = None
        for name, kind, given in steps:
            if given is None:
                continue
            task = _made(target, name, kind, given)
            if before is not None:
                before >> task
            before = task
    return group


def dags_of_tables(config: Mapping[str, Any] | str | Path) -> dict[str, DAG]:
    """A DAG for each table of a description, by its id; in a DAG file Airflow finds them by itself.

    `config` is a mapping, or the path of a YAML file, with `tables`: by name what HoodieTable takes, `source`
    and what else `hoodie_table_group` takes, and `dag`: arguments of the DAG, whose `schedule` as cron text
    has data intervals in UTC. `defaults` has the same for all tables. Raises HoodieConfigurationError for
    what it does not know, with its place.
    """
    read = _read(config) if isinstance(config, (str, Path)) else config
    where = str(config) if isinstance(config, (str, Path)) else "config"
    _check_keys(where, _mapping(where, read), _OF_CONFIG)
    tables = _mapping(f"{where}: tables", read.get("tables"))
    if not tables:
        raise HoodieConfigurationError(f"{where}: tables are none; name at least one")
    defaults = _mapping(f"{where}: defaults", read.get("defaults") or {})
    _check_keys(f"{where}: defaults", defaults, _keys())
    found: dict[str, DAG] = {}
    for name, given in tables.items():
        place = f"{where}: table {name!r}"
        _check_keys(place, _mapping(place, given), _keys())
        dag = _dag(place, str(name), _merged(defaults, given))
        if dag.dag_id in found:
            raise HoodieConfigurationError(f"{place}: the DAG {dag.dag_id!r} is there twice; give a dag_id")
        found[dag.dag_id] = dag
    return found


def _dag(place: str, name: str, given: Mapping[str, Any]) -> DAG:
    if "source" not in given:
        raise HoodieConfigurationError(f"{place} has no source; say where its rows come from")
    of_dag = dict(_mapping(f"{place}: dag", given.get("dag") or {}))
    _check_keys(f"{place}: dag", of_dag, sorted(set(inspect.signature(DAG).parameters) - {"self"}))
    of_table = {key: value for key, value in given.items() if key in _of_table()}
    try:
        table = HoodieTable.from_dict({"name": name, **of_table})
        with DAG(**{"dag_id": _id(name), **of_dag, **_times(of_dag)}) as dag:
            hoodie_table_group(
                table, given["source"], **{key: value for key, value in given.items() if key in _OF_GROUP}
            )
    except HoodieConfigurationError as error:
        raise HoodieConfigurationError(f"{place}: {error.message}") from None
    except _WRONG as error:
        raise HoodieConfigurationError(f"{place}: the DAG can't be made: {error}") from None
    return dag


def _made(
    table: HoodieTable, name: str, kind: Callable[..., BaseOperator], given: Mapping[str, Any]
) -> BaseOperator:
    from airflow.providers.common.compat.sdk import AirflowException

    try:
        return kind(**{"task_id": name, "table": table, **given})
    except HoodieConfigurationError as error:
        raise HoodieConfigurationError(f"task {name!r} of table {table.name!r}: {error.message}") from None
    except (*_WRONG, AirflowException) as error:
        why = " ".join(str(error).split())
        raise HoodieConfigurationError(f"task {name!r} of table {table.name!r}: {why}") from None


def _asked(name: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if given is None else dict(_mapping(name, given))


def _asked_for(name: str, given: Any) -> dict[str, Any] | None:
    """Arguments of a task; None where it is not wanted."""
    if given is None or given is False:
        return None
    return {} if given is True else dict(_mapping(name, given))


def _of_table() -> list[str]:
    return [item.name for item in fields(HoodieTable)]


def _keys() -> list[str]:
    return sorted({*_of_table(), *_OF_GROUP, "source", "dag"})


def _check_keys(place: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    for key in given:
        if key not in known:
            raise HoodieConfigurationError(
                f"{place} has no key {key!r}{nearest(str(key), known)}; there are {', '.join(known)}"
            )


def _mapping(place: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise HoodieConfigurationError(f"{place} is {given!r}; give a mapping of names to values")
    return given


def _merged(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given goes before the defaults, in mappings key by key."""
    merged = dict(defaults)
    for key, value in given.items():
        before = merged.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping) and key != "source"
        merged[key] = _merged(before, value) if both and before is not None else value
    return merged


def _times(of_dag: Mapping[str, Any]) -> dict[str, Any]:
    """Dates of YAML as moments in UTC; cron text as a timetable with data intervals."""
    changed: dict[str, Any] = {}
    for key in ("start_date", "end_date"):
        value = of_dag.get(key)
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        if isinstance(value, datetime):
            changed[key] = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
    schedule = of_dag.get("schedule")
    if isinstance(schedule, str) and schedule.strip() not in _NOT_TIMED:
        changed["schedule"] = cron_intervals(_cron(schedule.strip()))
    return changed


def _cron(text: str) -> str:
    """Raises HoodieConfigurationError for what is neither cron text nor the name of one."""
    if text in _PRESETS:
        return text
    from croniter import CroniterError, croniter

    why = "it needs five fields: minute, hour, day of the month, month, day of the week"
    if not text.startswith("@") and len(text.split()) in (5, 6):
        try:
            croniter(text)
        except CroniterError as error:
            why = str(error)
        else:
            return text
    raise HoodieConfigurationError(
        f"schedule is {text!r}, which is no cron text ({why}){nearest(text, _PRESETS)}; write such as "
        f"'30 6 * * *', or one of {', '.join((*_PRESETS, *_NOT_TIMED))}"
    )


def _id(name: str) -> str:
    """A name as Airflow takes it for ids."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def _read(path: str | Path) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Refuses a key that a mapping has twice, of which YAML's own takes the last."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [item.value for item, _ in node.value]
            for key in keys:
                if keys.count(key) > 1 and key != "<<":
                    raise HoodieConfigurationError(
                        f"{path}, line {node.start_mark.line + 1}: the key {key!r} is there twice; "
                        "leave one out"
                    )
            return super().construct_mapping(node, deep)

    try:
        with open(path, encoding="utf-8") as file:
            return yaml.load(file, Loader)
    except OSError as error:
        raise HoodieConfigurationError(f"can't read {path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise HoodieConfigurationError(f"{path} is no YAML: {' '.join(str(error).split())}") from None
