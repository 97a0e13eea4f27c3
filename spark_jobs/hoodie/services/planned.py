"""What jobs of services with plans have in common: their modes, how a plan is put on the timeline, and which
pending plans are executed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from hoodie.errors import ConfigError, ConflictError
from hoodie.progress import ProgressCallback
from hoodie.services.results import ServiceResult, about
from hoodie.services.service_table import ServiceTable
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Action, Instant
from hoodie.write.transaction import Transaction

MODES = ("schedule", "execute", "run")
#: a service's plan
P = TypeVar("P")


def check_mode(mode: str, instant: str | None = None) -> None:
    """Raises ConfigError for an unknown mode, and for an instant in one that does not execute it alone."""
    if mode not in MODES:
        raise ConfigError(f"mode is {mode!r}; use one of {', '.join(MODES)}", mode=mode)
    if instant and mode != "execute":
        raise ConfigError(
            f"instant {instant} is for mode execute, which runs that plan only; leave it out for {mode}",
            instant=instant,
        )


@dataclass(frozen=True, kw_only=True)
class PlannedResult(ServiceResult):
    """scheduled: the instant of the plan that was made, "" for none. pending: those of the plans that are
    left. num_files, num_writes, bytes_written: the files that were made, their rows and sizes. files: paths
    in the table that are replaced, by instant of the plan; "" stands for the plan of a dry run.
    """

    mode: str
    scheduled: str
    pending: list[str]
    partitions: list[str]
    num_files: int
    num_writes: int
    bytes_written: int
    files: dict[str, list[str]]


@dataclass(frozen=True)
class DuePlan(Generic[P]):
    """A plan, or why there is none."""

    plan: P | None
    reason: str = ""


@dataclass(frozen=True)
class ScheduledPlan(Generic[P]):
    """What scheduling did; `instant` is "" when it did nothing, for `reason`."""

    instant: str = ""
    plan: P | None = None
    reason: str = ""
    rolled_back: list[str] = field(default_factory=list)
    metadata_table_removed: bool = False


@dataclass(frozen=True)
class ExecutedPlan(Generic[P]):
    """One plan that was carried out."""

    instant: str
    plan: P
    metadata: CommitMetadata
    rolled_back: list[str] = field(default_factory=list)
    metadata_table_removed: bool = False


@dataclass
class ServiceRun(Generic[P]):
    """What a job did so far; of a dry run `planned` only, by instant, "" for the plan that would be made."""

    dry_run: bool
    scheduled: ScheduledPlan[P] = field(default_factory=ScheduledPlan)
    executed: list[ExecutedPlan[P]] = field(default_factory=list)
    planned: dict[str, P] = field(default_factory=dict)
    pending: list[str] = field(default_factory=list)
    reason: str = ""
    seconds: float = 0.0

    @property
    def plans(self) -> dict[str, P]:
        """Those executed, else the one that was made, else those that would be."""
        if self.executed:
            return {each.instant: each.plan for each in self.executed}
        if self.scheduled.instant and self.scheduled.plan:
            return {self.scheduled.instant: self.scheduled.plan}
        return self.planned

    def report(self, target: ServiceTable, mode: str, executed: str) -> dict[str, Any]:
        """The fields that the results of all these jobs have; `executed` is the status of one that did it."""
        scheduled, done = self.scheduled, [each.instant for each in self.executed]
        status = executed if done else "scheduled" if scheduled.instant else "skipped"
        if self.dry_run:
            status = "planned" if self.plans else "skipped"
        removed = (each.metadata_table_removed for each in self.executed)
        return {
            "status": status,
            **about(target, self.dry_run, self.seconds),
            "mode": mode,
            "instant": done[-1] if done else scheduled.instant,
            "scheduled": scheduled.instant,
            executed: done,
            "pending": self.pending,
            "reason": "" if self.plans else self.reason,
            "num_files": sum(each.metadata.num_files for each in self.executed),
            "num_writes": sum(each.metadata.num_writes for each in self.executed),
            "bytes_written": sum(each.metadata.bytes_written for each in self.executed),
            "rolled_back": [
                *scheduled.rolled_back,
                *(time for each in self.executed for time in each.rolled_back),
            ],
            "metadata_table_removed": scheduled.metadata_table_removed or any(removed),
        }


def put_plan(
    target: ServiceTable,
    action: Action,
    plan_now: Callable[[Timeline, str | None], DuePlan[P]],
    content: Callable[[P], bytes],
) -> ScheduledPlan[P]:
    """Put a plan on the timeline if one is due; nothing is written when there is nothing to do.

    `plan_now` is given the timeline, and the new instant where there is one already; `content` is that of the
    requested file. Raises ConflictError while a writer is at work, with nothing changed.
    """
    early = plan_now(target.timeline(), None)
    if early.plan is None:
        return ScheduledPlan(reason=early.reason)
    made = early

    def make(timeline: Timeline, now: str) -> bytes | None:
        nonlocal made
        made = plan_now(timeline, now)
        return None if made.plan is None else content(made.plan)

    with Transaction(target.table, target.config, target.props.timeline_utc) as transaction:
        instant = transaction.schedule(action, make)
        return ScheduledPlan(
            instant.time if instant else "",
            made.plan,
            made.reason,
            list(transaction.rolled_back),
            transaction.metadata_table_removed,
        )


@dataclass(frozen=True)
class PlannedService(Generic[P]):
    """A service's steps, for one job. `name` is for people; `pending` gives the plans to execute, oldest
    first. An executed plan is a completed instant of the action `completes_as`.
    """

    name: str
    target: ServiceTable
    completes_as: Action
    pending: Callable[[Timeline], list[Instant]]
    read_plan: Callable[[Instant], P]
    plan_now: Callable[[], DuePlan[P]]
    schedule: Callable[[], ScheduledPlan[P]]
    execute: Callable[[Instant], ExecutedPlan[P]]

    def work(
        self, mode: str, instant: str | None, dry_run: bool, progress: ProgressCallback
    ) -> ServiceRun[P]:
        """Schedule, execute or both; `dry_run` writes nothing.

        `run` executes what is pending first, as Apache Hudi does, so that the new plan begins with what it
        made. Raises HoodieError; plans that were completed before stay completed.
        """
        started = time.monotonic()
        done: ServiceRun[P] = ServiceRun(dry_run)
        if dry_run:
            self._plan_only(mode, instant, done)
        else:
            self._work(mode, instant, progress, done)
        done.pending = [item.time for item in self.pending(self.target.timeline())]
        done.seconds = time.monotonic() - started
        return done

    def _plan_only(self, mode: str, instant: str | None, done: ServiceRun[P]) -> None:
        """The plans that would be executed, and the one that would be made now."""
        if mode != "schedule":
            found, done.reason = self._wanted(instant)
            done.planned = {item.time: self.read_plan(item) for item in found}
        if mode != "execute":
            made = self.plan_now()
            done.reason = made.reason
            if made.plan is not None:
                done.planned[""] = made.plan

    def _work(self, mode: str, instant: str | None, progress: ProgressCallback, done: ServiceRun[P]) -> None:
        if mode != "schedule":
            self._execute(instant, done)
        if mode != "execute":
            progress("schedule", f"{self.name} of {self.target.base_path}")
            done.scheduled = self.schedule()
            done.reason = done.scheduled.reason
        if mode == "run" and done.scheduled.instant:
            self._execute(done.scheduled.instant, done)

    def _wanted(self, instant: str | None) -> tuple[list[Instant], str]:
        """The pending plans, or that of `instant`; where there is none, why: it is done. Raises ConfigError
        for an instant that is no plan.
        """
        found = self.pending(self.target.timeline())
        if not instant:
            return found, "" if found else f"no {self.name} is pending"
        chosen = [item for item in found if item.time == instant]
        if chosen:
            return chosen, ""
        if self._completed(instant):
            return [], f"{self.name} {instant} is completed already"
        times = ", ".join(item.time for item in found)
        raise ConfigError(
            f"no {self.name} {instant} is pending on {self.target.base_path}; "
            + (f"pending are {times}" if times else "none is, schedule one first"),
            instant=instant,
        )

    def _execute(self, instant: str | None, done: ServiceRun[P]) -> None:
        """Execute what is wanted. A plan that somebody else completes meanwhile is no error."""
        found, reason = self._wanted(instant)
        for item in found:
            try:
                done.executed.append(self.execute(item))
            except ConflictError:
                if not self._completed(item.time):
                    raise
                reason = f"{self.name} {item.time} was completed by another process"
        done.reason = reason or done.reason

    def _completed(self, time: str) -> bool:
        found = self.target.timeline().filter([self.completes_as], completed=True)
        return any(item.time == time for item in found)
