"""All services of a table: what each would do now and why, the run of each in order, and its result.

The plan also has the processes at work on the table, and the pending instants that no process works on.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from hoodie.config import versions
from hoodie.errors import ConfigError, HoodieError, JobError
from hoodie.services.planner.entry import PlannerEntry
from hoodie.services.registry import planned
from hoodie.services.request import Request, RewriteRequest, ServicesRequest
from hoodie.services.results import ServiceResult, about
from hoodie.services.service_table import ServiceTable, check_retention
from hoodie.shown import Shown
from hoodie.table.heartbeat import HeartbeatFile, read_heartbeats
from hoodie.table.settings import INTERVAL_MS, TOLERABLE_MISSES
from hoodie.text import nearest
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import WRITE_ACTIONS, Action, Instant, Kind, State
from hoodie.timeline.time import InstantTime


@dataclass(frozen=True)
class Pending:
    """An instant that is not completed.

    state: requested or inflight. verdict: `running` (its process lives), `stuck` (begun, without a live
    heartbeat; cleans have no heartbeat, but running one twice is safe) or `waiting` (not begun). age_s: since
    its newest file was written. owner: the process that is, or was, at work on it, "" when unknown.
    """

    instant: InstantTime
    action: str
    state: str
    verdict: str
    age_s: int
    owner: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Activity:
    """The heartbeats of a table at one moment, `now_ms` by the storage's clock, and its timeline, which was
    read after them.
    """

    timeline: Timeline
    live: Mapping[InstantTime, HeartbeatFile]
    dead: Mapping[InstantTime, HeartbeatFile]
    plans: frozenset[InstantTime]
    now_ms: int

    @classmethod
    def of(cls, target: ServiceTable) -> Activity:
        interval, misses = target.config[INTERVAL_MS], target.config[TOLERABLE_MISSES]
        beats = read_heartbeats(target.table)
        live = {beat.instant: beat for beat in beats if beat.alive(interval, misses)}
        dead = {beat.instant: beat for beat in beats if beat.instant not in live}
        timeline = target.timeline()
        plans = frozenset(item.time for item in timeline.pending() if _is_plan(timeline, target, item))
        return cls(timeline, live, dead, plans, target.storage.now_ms())

    @property
    def writers(self) -> list[HeartbeatFile]:
        """Live writers: while one is at work nothing can be planned or repaired."""
        return [beat for beat in self.live.values() if not beat.service and beat.instant not in self.plans]

    def pending(self, actions: frozenset[Action]) -> list[Pending]:
        """Pending instants of these actions, oldest first; of replacecommits the clusterings only."""
        return [
            self._of(instant)
            for instant in self.timeline.filter(actions, completed=False)
            if instant.time in self.plans or instant.action not in WRITE_ACTIONS
        ]

    def _of(self, instant: Instant) -> Pending:
        written = self.timeline.changed_ms(instant)
        age = max(0, self.now_ms - written) if written is not None else 0
        beat = self.live.get(instant.time) or self.dead.get(instant.time)
        verdict = "waiting"
        if instant.time in self.live:
            verdict = "running"
        elif instant.state is State.INFLIGHT:
            verdict = "stuck"
        return Pending(
            instant.time,
            instant.action.value,
            instant.state.name.lower(),
            verdict,
            age // 1000,
            beat.owner if beat else "",
        )


def _is_plan(timeline: Timeline, target: ServiceTable, instant: Instant) -> bool:
    """Whether the pending instant has a plan: then it is a service's, and no failed write."""
    return timeline.kind(instant, target.storage) is not Kind.WRITE


#: what no service here finishes, and what to do about it
_OTHERS = {
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


@dataclass(frozen=True, repr=False)
class ServicesPlan(Shown):
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
    target = ServiceTable.open(request.table, request.options, dry_run=True)
    check_retention(target.config)
    activity = Activity.of(target)
    plans = [_planned(name, entry, target, activity, request) for name, entry in entries.items()]
    return ServicesPlan(
        table=target.props.name,
        base_path=target.base_path,
        table_type=target.props.table_type.value,
        due=[item.service for item in plans if item.due],
        services=plans,
        writers=[_writer(beat) for beat in activity.writers],
        others=_others(target, activity),
        duration_s=round(time.monotonic() - started, 3),
        warnings=[*target.config.warnings, *target.warnings],
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
            near = nearest(unknown[0], known)
            raise ConfigError(
                f"there is no service {', '.join(unknown)}; use {names}{near}", services=", ".join(unknown)
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
    return entry.not_applicable(target) or ("" if named or pending else entry.skipped_by_default(target))


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


def _planned(
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


def _others(target: ServiceTable, activity: Activity) -> list[dict[str, Any]]:
    mine = {action for entry in chosen(None).values() for action in entry.actions} | WRITE_ACTIONS
    mine |= {Action.ROLLBACK}
    rest = frozenset(Action) - mine
    remedy = "an older run of this package or Apache Hudi has begun it; run it there again"
    known = _OTHERS if versions.is_writable(target.props.version) else {}
    return [
        {**item.to_dict(), "remedy": known.get(Action(item.action), remedy)}
        for item in activity.pending(rest)
    ]


@dataclass(frozen=True, kw_only=True, repr=False)
class ServicesResult(ServiceResult):
    """What the services of a table did, or, with dry_run, would do.

    status: `done`, `planned` (a dry run), `skipped` (no service had anything to do) or `failed` (one of them
    did; the others ran all the same). done, skipped, failed: names of services; those that a dry run plans
    are `done`. services: each one's result by name, in the order in which they ran; of one that failed its
    status `failed`, the reason, and `error`, as HoodieError.to_dict.
    """

    done: list[str]
    skipped: list[str]
    failed: list[str]
    services: dict[str, dict[str, Any]]
    mode: str = "run"
    action: str = "services"
    operation: str = "services"


def run(request: ServicesRequest) -> ServicesResult:
    """Run the services that are due, or those of them that the request names.

    Raises HoodieError for wrong settings and where there is no table; the error of a service is in the
    result, and the next ones run all the same.
    """
    started = time.monotonic()
    entries = chosen(request.only)
    target = ServiceTable.open(
        request.table, request.options, request.extra_metadata, dry_run=request.dry_run
    )
    check_retention(target.config)
    results: dict[str, dict[str, Any]] = {}
    for name, entry in entries.items():
        pending = Activity.of(target).pending(entry.actions)
        reason = left_out(entry, target, pending, request.only is not None)
        asked = request_of(entry, target, request, request.dry_run)
        results[name] = _skipped(reason) if reason else _one(entry, asked)
    return _result(target, request.dry_run, results, time.monotonic() - started)


def _one(entry: PlannerEntry, request: Request) -> dict[str, Any]:
    try:
        return entry.run(request).to_dict()
    except HoodieError as error:
        return _failed(error)
    except OSError as error:
        return _failed(JobError(f"{error.filename or 'storage'}: {error.strerror or error}"))
    except Exception as error:  # noqa: BLE001  whatever it is, the other services have their turn
        traceback.print_exc()
        return _failed(JobError(f"{type(error).__name__}: {error}"))


def _skipped(reason: str) -> dict[str, Any]:
    return {"status": "skipped", "reason": reason, "warnings": []}


def _failed(error: HoodieError) -> dict[str, Any]:
    return {"status": "failed", "reason": error.message, "warnings": [], "error": error.to_dict()}


def _result(
    target: ServiceTable, dry_run: bool, results: dict[str, dict[str, Any]], seconds: float
) -> ServicesResult:
    def named(*statuses: str) -> list[str]:
        return [name for name, result in results.items() if result["status"] in statuses]

    failed, skipped = named("failed"), named("skipped")
    done = [name for name in results if name not in failed and name not in skipped]
    reasons = [f"{name}: {results[name]['reason']}" for name in failed or (skipped if not done else [])]
    instants = [results[name].get("instant", "") for name in done]
    return ServicesResult(
        status="failed" if failed else "skipped" if not done else "planned" if dry_run else "done",
        instant=next((instant for instant in reversed(instants) if instant), ""),
        reason="; ".join(reasons),
        done=done,
        skipped=skipped,
        failed=failed,
        services=results,
        **{
            **about(target, dry_run, seconds),
            "warnings": _unique(results, "warnings"),
            "rolled_back": _unique(results, "rolled_back"),
            "metadata_table_removed": any(item.get("metadata_table_removed") for item in results.values()),
        },
    )


def _unique(results: Mapping[str, Mapping[str, Any]], name: str) -> list[str]:
    return list(dict.fromkeys(item for result in results.values() for item in result.get(name) or ()))
