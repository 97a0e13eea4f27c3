"""PartitionRelayOperator: from the commits of a table to events of the partitions that they changed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk import Asset, BaseOperator

from airflow_hoodie.arguments import table_path
from airflow_hoodie.assets.events import commits_in, partition_keys, with_outlets
from airflow_hoodie.assets.hoodie import asset_uri, partition_asset
from airflow_hoodie.compat.task_sdk import inlet_events
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.table import HoodieTable
from hoodie.storage import normalize

if TYPE_CHECKING:
    from airflow.sdk import Context

#: so many of the newest events of the partitions are read: the last run's, and this one's if it was cleared
_LOOK_BACK = 1000
#: so many of the newest relayed commits are remembered by name
_REMEMBERED = 100


class PartitionRelayOperator(BaseOperator):
    """Emits one event for each partition that a table's commits have changed since the last relay.

    Watchers of Airflow can't emit events with a partition key, tasks can. Put the task into a DAG that is
    scheduled on the table's commits (`schedule=[table.commits()]`); a DAG scheduled with
    `PartitionedAssetTimetable(assets=table.partitions)` then runs once for each partition, its
    `{{ partition_key }}`.

    Airflow may start one run for several events and name only the first of them as its trigger, so the task
    reads all events of the commits' asset that no earlier run relayed. An event that is delivered twice is
    relayed once. The emitted events record what was relayed; Airflow stores them with the success of the
    task, so the task runs in one DAG run at a time. A cleared run relays the same commits again. Without
    new partitions the task is skipped.

    The XCom `return_value` is {"instants", "partitions"}, of a dry run `dry_run`, too. Other arguments are
    BaseOperator's.

    :param table: HoodieTable, its dict form, or the table's path; no template.
    :param commits: the asset whose events are read. Default: `table.commits()`.
    :param keys: `path` emits partition paths as in the table (day=2026-01-01), `value` emits them without
        column names.
    :param dry_run: emit nothing. The log and the result say which commits and partitions would be relayed,
        and the next run relays them.
    :param max_active_tis_per_dag: 1, for the reason above.
    """

    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any] | str,
        commits: Asset | None = None,
        keys: Literal["path", "value"] = "path",
        dry_run: bool = False,
        max_active_tis_per_dag: int = 1,
        **kwargs: Any,
    ) -> None:
        asset = partition_asset(table)
        # a reference: the asset declared again, with other watchers, would take those of the first away
        uri = asset_uri(table, events="commits") if commits is None else commits.uri
        self.commits = Asset.ref(uri=uri)
        # no parameters of their own: Airflow would give a mapped task their defaults as inlets and outlets
        kwargs["inlets"] = with_outlets(with_outlets(kwargs.get("inlets"), self.commits), asset)
        kwargs["outlets"] = with_outlets(kwargs.get("outlets"), asset)
        super().__init__(max_active_tis_per_dag=max_active_tis_per_dag, **kwargs)
        if keys not in ("path", "value"):
            raise HoodieConfigurationError(f"keys is {keys!r}; use 'path' or 'value'")
        self.table = table_path(table)
        self.keys = keys
        #: operators of Airflow have a method `dry_run`
        self.only_planned = dry_run

    def execute(self, context: Context) -> dict[str, Any]:
        asset = partition_asset(self.table)
        inlets = self._inlet_events(context, asset)
        past: Any = list(inlets[asset].ascending(False).limit(_LOOK_BACK))
        memories = [event.extra["relayed"] for event in past if "relayed" in (event.extra or {})]
        memory: Mapping[str, Any] = max(memories, key=_age, default={})
        own = [event for event in past if event.source_run_id == context["run_id"]]
        if own:
            keys = sorted({event.partition_key for event in own if event.partition_key})
            extra: dict[str, Any] = {**own[0].extra, "relayed": memory}
        else:
            keys, extra = self._news(context, inlets[self.commits], memory)
        if self.only_planned:
            self.outlets = [outlet for outlet in self.outlets if getattr(outlet, "uri", None) != asset.uri]
            self.log.info(
                "%d partitions changed by %d commits would get an event: %s; nothing was emitted",
                *(len(keys), len(extra["instants"]), ", ".join(keys)),
            )
            return {"instants": extra["instants"], "partitions": keys, "dry_run": True}
        outlet = context["outlet_events"][asset]
        outlet.add_partitions(keys)
        outlet.extra = extra
        self.log.info("%d partitions changed by %d commits", len(keys), len(extra["instants"]))
        return {"instants": extra["instants"], "partitions": keys}

    def _inlet_events(self, context: Context, asset: Asset) -> Mapping[Any, Any]:
        """Airflow collects a mapped task's events before the task is made and has inlets of its own."""
        collected: Mapping[Any, Any] = context["inlet_events"]
        return collected if asset in collected else inlet_events(self.inlets)

    def _news(
        self, context: Context, events: Any, memory: Mapping[str, Any]
    ) -> tuple[list[str], dict[str, Any]]:
        """Keys and extra of the events to emit. Raises AirflowSkipException where there are none.

        `memory` is {"since", "instants"}: every event since then is of a commit that was relayed or that is
        to be, and the relayed ones are named.
        """
        since = memory.get("since") or self._beginning(context)
        relayed = list(memory.get("instants", ()))
        found = list(events.after(since)) if since else []
        base_path = normalize(self.table)
        found = [event for event in found if _commit(event).get("base_path") == base_path]
        commits = {commit["instant"]: commit for commit in commits_in(found)}
        new = [commit for instant, commit in commits.items() if instant not in relayed]
        keys = partition_keys((path for commit in new for path in commit["partitions"] or ()), self.keys)
        if not keys:
            raise AirflowSkipException(f"{len(new)} new commits, no partition that is not relayed yet")
        instants: list[Any] = [commit["instant"] for commit in new]
        kept = [*(name for name in relayed if name in commits), *instants][-_REMEMBERED:]
        # from the first event on after which there is none of a commit that is remembered no more
        *_, first = itertools.takewhile(lambda event: _commit(event)["instant"] in kept, reversed(found))
        extra = {
            "base_path": base_path,
            "instants": instants,
            "relayed": {"since": first.timestamp.isoformat(), "instants": kept},
        }
        return keys, extra

    def _beginning(self, context: Context) -> str | None:
        """Time of the first event that triggered the first run; a manual run has none."""
        triggering: Any = context.get("triggering_asset_events") or {}
        times = [event.timestamp for events in triggering.values() for event in events]
        return min(times).isoformat() if times else None


def _age(memory: Mapping[str, Any]) -> tuple[datetime, int]:
    return datetime.fromisoformat(memory["since"]), len(memory["instants"])


def _commit(event: Any) -> dict[str, Any]:
    """The commit that an event names, {} if none."""
    return next(iter(commits_in([event])), {})
