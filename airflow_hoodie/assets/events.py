"""Commits as asset events: what operators emit and what consumers read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_hoodie.assets.hoodie import asset_uri
from airflow_hoodie.compat.task_sdk import newest_events
from hoodie.timeline.commit_details import COUNTS

if TYPE_CHECKING:
    from airflow.sdk import Asset
    from airflow.sdk.definitions.asset import AssetUriRef

#: Airflow refuses longer partition keys, and a commit is no reason to fail a task
_LONGEST_KEY = 250
#: status of a result that an earlier run brought about
FOUND = "already_committed"
#: so many of the newest events of an asset are looked through for one
_LOOK_BACK = 500
#: what the commits of services are written as, whose results have names of their own
_WRITTEN_AS = {"ttl": "delete_partition"}
_FIELDS = (
    "base_path",
    "instant",
    "completion",
    "action",
    "completion_time",
    "operation",
    "partitions",
    *COUNTS,
)
#: of ingestions that left out files, and of writes with validators
_LISTS = ("bad_files", "validations")


def commits_in(events: Any) -> list[dict[str, Any]]:
    """Commits named by asset events, each once, in the order of the events.

    events: a task's `triggering_asset_events`, or the events of one asset of them. It does not matter whether
    a watcher or an operator emitted an event; events that name no commit are left out. Keys: base_path,
    instant, completion, action, completion_time (of watchers), operation, partitions, num_inserts,
    num_updates, num_deletes, num_writes, num_files, bytes_written. The operation is in lower case, such as
    bulk_insert, also of older events of watchers, which had BULK_INSERT. completion is what `begin` and `end`
    of an incremental query take. Of an event that lacks it, as older ones do, it is the instant, after which
    a query of table versions 8 and 9 gives the commit's rows once more.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for event in _flat(events):
        extra = event.extra or {}
        event = extra.get("payload") if extra.get("from_trigger") else extra
        if isinstance(event, Mapping) and event.get("instant") and event.get("base_path"):
            key = (str(event["base_path"]), str(event["instant"]))
            commit = {name: event.get(name) for name in _FIELDS}
            completion = commit["completion"] or commit["instant"]
            operation = _lower(commit["operation"])
            found.setdefault(key, {**commit, "completion": completion, "operation": operation})
    return list(found.values())


def result_event(result: Mapping[str, Any]) -> dict[str, Any]:
    """Extra of an operator's asset event, from the job's result."""
    event = {name: result[name] for name in _FIELDS if result.get(name) is not None}
    event |= {name: result[name] for name in _LISTS if result.get(name)}
    operation = event.get("operation")
    return event if operation is None else {**event, "operation": _WRITTEN_AS.get(operation, operation)}


def _lower(operation: Any) -> Any:
    return operation.lower() if isinstance(operation, str) else operation


def changed_by(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the result of a restore or a partition TTL says of other rows; None where there was none.

    One that was skipped names the last one, whose task may have died, or failed, without its event.
    """
    if not result.get("instant") or result.get("dry_run"):
        return None
    return {**result, "status": FOUND} if result.get("status") == "skipped" else dict(result)


def record_commit(
    context: Mapping[str, Any],
    outlets: Sequence[Any],
    result: Mapping[str, Any] | None,
    table: str,
) -> list[Any]:
    """Say in the events of a table's assets what a job did; returns the outlets to have an event.

    The asset of the table's partitions, if it is among the outlets, gets one event for each partition, or is
    left out where there is none. All of the table's are left out after a dry run, and where nothing changed,
    for which the result is None; of what an earlier run did, each that has its event, so that a run which
    died between the two has it emitted by the next one. Without outlet events in the context, as in a unit
    test, nothing happens.
    """
    whole, by_partition = asset_uri(table), asset_uri(table, events="partitions")
    if result is None or result.get("status") == "planned":
        return [outlet for outlet in outlets if getattr(outlet, "uri", None) not in (whole, by_partition)]
    events = context.get("outlet_events")
    if events is None or not result.get("instant"):
        return list(outlets)
    kept: list[Any] = []
    for outlet in outlets:
        uri = getattr(outlet, "uri", None)
        if uri in (whole, by_partition) and result.get("status") == FOUND and _is_out(outlet, result):
            continue
        if uri == by_partition:
            keys = [key for key in partition_keys(result.get("partitions") or ()) if len(key) <= _LONGEST_KEY]
            if not keys:
                continue
            events[outlet].add_partitions(keys)
        if uri in (whole, by_partition):
            events[outlet].extra = result_event(result)
        kept.append(outlet)
    return kept


def _is_out(asset: Any, result: Mapping[str, Any]) -> bool:
    """Has the asset an event of what the result names? Older ones than those that are read had theirs."""
    past = newest_events(asset, _LOOK_BACK)
    extras = [event.extra or {} for event in past]
    found = [(extra.get("base_path"), str(extra.get("instant") or "~")) for extra in extras]
    instant = str(result["instant"])
    reached = len(past) < _LOOK_BACK or any(other < instant for _, other in found)
    return (result.get("base_path"), instant) in found or not reached


def partition_keys(partitions: Iterable[str], form: str = "path") -> list[str]:
    """Partition paths as keys of asset events: sorted, each once; "" of an unpartitioned table is none.

    form: "path" as in the table, or "value" without the column names of Hive's style.
    """
    if form == "value":
        partitions = [
            "/".join(level.partition("=")[2] or level for level in path.split("/")) for path in partitions
        ]
    return sorted({path for path in partitions if path})


def with_outlets(outlets: Any, asset: Asset | AssetUriRef) -> list[Any]:
    """Outlets with one more, unless it is there."""
    given = list(outlets) if isinstance(outlets, Collection) and not isinstance(outlets, str) else [outlets]
    given = [outlet for outlet in given if outlet is not None]
    return given if any(getattr(outlet, "uri", None) == asset.uri for outlet in given) else [*given, asset]


def _flat(events: Any) -> Iterable[Any]:
    if isinstance(events, Mapping):
        return [event for found in events.values() for event in found]
    return events or ()
