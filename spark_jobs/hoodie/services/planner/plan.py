"""What each service of a table would do now, with the reason."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Any

from hoodie.errors import ConfigError, HoodieError
from hoodie.services.catalogue import planned
from hoodie.services.planner.activity import Activity, Pending
from hoodie.services.planner.entry import PlannerEntry
from hoodie.services.request import Request, RewriteRequest, ServicesRequest
from hoodie.services.retention import check_retention
from hoodie.services.service_table import ServiceTable
from hoodie.table import properties
from hoodie.table.heartbeat import HeartbeatFile
from hoodie.timeline.instant import WRITE_ACTIONS, Action

#: what no service here finishes, and what to do about it
_OTHERS = {
    Action.LOGCOMPACTION: "run or roll back this log compaction with Apache Hudi",
    Action.SAVEPOINT: "make this savepoint again, or delete it (hoodie savepoint --instant)",
    Action.INDEXING: "hoodie index execute runs this indexing; hoodie index drop --indexes takes it back",
}


@dataclass(frozen=True, kw_only=True)
class ServicePlan:
    """One service of a plan.

    due: whether a run would do something. would: what, for people, "" for nothing. reason: why it is due, or
    why not. instants: pending plans that a run finishes, instants that are archived, or failed writes that
    are rolled back. num_files, bytes: that are merged, deleted, moved or rolled back. pending: instants of
    the service that are not completed, see activity.Pending. error: why no plan can be made, as
    HoodieError.to_dict.
    """

    service: str
    due: bool = False
    would: str = ""
    reason: str
    instants: list[str] = field(default_factory=list)
    num_files: int = 0
    bytes: int = 0
    pending: list[dict[str, Any]]
    error: dict[str, Any] | None = None


@dataclass(frozen=True)
class ServicesPlan:
    """The services of a table, in the order in which they run; `due` names those that would do something.

    writers: live writers, while which nothing is planned or repaired. others: pending instants that none of
    these services finishes, with what to do about them.
    """

    table: str
    base_path: str
    table_type: str
    due: list[str]
    services: list[ServicePlan]
    writers: list[dict[str, Any]]
    others: list[dict[str, Any]]
    duration_s: float
    warnings: list[str]
    status: str = "planned"
    operation: str = "services"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def plan(request: ServicesRequest) -> ServicesPlan:
    """Reads only. Raises HoodieError for wrong settings and where there is no table; the error of a single
    service is in its ServicePlan.
    """
    started = time.monotonic()
    entries = chosen(request.only)
    target = ServiceTable.open(request.table, request.options)
    check_retention(target.config)
    activity = Activity.of(target)
    plans = [_one(name, entry, target, activity, request) for name, entry in entries.items()]
    warnings = list(target.config.warnings)
    if any(item.due for item in plans) and target.props.get(properties.METADATA_PARTITIONS):
        warnings.append("the table's metadata table will be removed, as it can't be kept up to date yet")
    return ServicesPlan(
        table=target.props.name,
        base_path=target.base_path,
        table_type=target.props.table_type.value,
        due=[item.service for item in plans if item.due],
        services=plans,
        writers=[_writer(beat) for beat in activity.writers],
        others=_others(activity),
        duration_s=round(time.monotonic() - started, 3),
        warnings=warnings,
    )


def chosen(only: Collection[str] | None) -> dict[str, PlannerEntry]:
    """The services by name, in their turns; all for None. Raises ConfigError for a name that is none."""
    known = planned()
    names = ", ".join(known)
    if isinstance(only, str) or not (only is None or isinstance(only, Collection)):
        raise ConfigError(f"services are {only!r}; pass a list of names, some of {names}")
    if only is not None:
        if not all(isinstance(name, str) for name in only):
            raise ConfigError(f"services are {only!r}; pass a list of names, some of {names}")
        if unknown := sorted(set(only) - set(known)):
            raise ConfigError(
                f"there is no service {', '.join(unknown)}; use {names}", services=", ".join(unknown)
            )
        if not only:
            raise ConfigError(f"no service is named; use {names}, or leave the names out for all")
    found = {name: service for name, service in known.items() if only is None or name in only}
    return {
        name: service.turn.entry(service.request, service.run)
        for name, service in found.items()
        if service.turn
    }


def left_out(entry: PlannerEntry, target: ServiceTable, pending: list[Pending], named: bool) -> str:
    """The reason why the service does not run now; "" when it does. What is pending is finished, asked for or
    not.
    """
    running = [item for item in pending if item.verdict == "running"]
    if running:
        return f"{running[0].action} {running[0].instant} is being run by {running[0].owner}"
    return entry.not_for(target) or ("" if named or pending else entry.unasked(target))


def request_of(entry: PlannerEntry, target: ServiceTable, asked: ServicesRequest, dry_run: bool) -> Request:
    """What one service is asked in a run of all."""
    given: dict[str, Any] = {
        "table": target.base_path,
        "options": asked.options,
        "dry_run": dry_run,
        "progress": asked.progress,
    }
    if issubclass(entry.request, RewriteRequest):
        given |= {"extra_metadata": target.extra, "engine": asked.engine}
    return entry.request(**given)


def _one(
    name: str, entry: PlannerEntry, target: ServiceTable, activity: Activity, asked: ServicesRequest
) -> ServicePlan:
    pending = activity.pending(entry.actions)
    described = [item.to_dict() for item in pending]
    reason = left_out(entry, target, pending, asked.only is not None)
    if reason:
        return ServicePlan(service=name, reason=reason, pending=described)
    try:
        result = entry.run(request_of(entry, target, asked, dry_run=True)).to_dict()
    except HoodieError as error:
        return ServicePlan(service=name, reason=error.message, pending=described, error=error.to_dict())
    if result["status"] == "skipped":
        return ServicePlan(service=name, reason=result["reason"], pending=described)
    work = entry.work(target, result)
    return ServicePlan(
        service=name,
        due=True,
        would=work.text,
        reason=_why(entry, target, activity, pending),
        instants=work.instants,
        num_files=work.num_files,
        bytes=work.bytes,
        pending=described,
    )


def _why(entry: PlannerEntry, target: ServiceTable, activity: Activity, pending: list[Pending]) -> str:
    found = {
        verdict: [item.instant for item in pending if item.verdict == verdict]
        for verdict in ("stuck", "waiting")
    }
    texts = [f"{', '.join(times)} {verdict}" for verdict, times in found.items() if times]
    return "; ".join([*texts, *filter(None, [entry.why(target, activity.timeline)])])


def _writer(beat: HeartbeatFile) -> dict[str, Any]:
    return {"instant": beat.instant, "owner": beat.owner, "age_s": beat.age_ms // 1000}


def _others(activity: Activity) -> list[dict[str, Any]]:
    mine = {action for entry in chosen(None).values() for action in entry.actions} | WRITE_ACTIONS
    mine |= {Action.ROLLBACK}
    rest = frozenset(Action) - mine
    remedy = "an older run of this package or Apache Hudi has begun it; run it there again"
    return [
        {**item.to_dict(), "remedy": _OTHERS.get(Action(item.action), remedy)}
        for item in activity.pending(rest)
    ]
