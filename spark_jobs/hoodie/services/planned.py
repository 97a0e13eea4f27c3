"""The frame of services with plans: a plan is put on the timeline, and pending plans are executed."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from hoodie.engine import Engine
from hoodie.errors import CommitConflict, ConfigError, ConflictError, TableBusy
from hoodie.progress import ProgressCallback, silent
from hoodie.services.results import ServiceResult, about
from hoodie.services.service_table import ServiceTable
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.time import InstantTime

#: of the timeline, while another process archives
_LISTINGS = 5

#: a service's plan
P = TypeVar("P")


class OutdatedPlan(CommitConflict):
    """File groups of the plan were changed after it was made. It can never be executed."""


@dataclass(frozen=True)
class DuePlan(Generic[P]):
    """A plan that is due, or the reason why none is. `bytes`: of the files of the plan, where it is known."""

    plan: P | None
    reason: str = ""
    bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class ScheduledPlan(Generic[P]):
    """What scheduling did; `instant` is None when no plan was made, for the reason that `due` has."""

    due: DuePlan[P]
    instant: Instant | None = None


@dataclass(frozen=True, kw_only=True)
class ExecutedPlan(Generic[P]):
    """One plan that was carried out."""

    instant: str
    plan: P


@dataclass(frozen=True, kw_only=True)
class RewrittenPlan(ExecutedPlan[P]):
    """One plan whose rows were written into new files, and its commit."""

    metadata: CommitMetadata


@dataclass(frozen=True, kw_only=True, repr=False)
class RewriteResult(ServiceResult):
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


#: what a service reports of a plan that it carried out
E = TypeVar("E", bound=ExecutedPlan[Any])


@dataclass
class ServiceRun(Generic[P, E]):
    """What a job did so far. planned: of a dry run, the plans by instant, "" for the one that would be made.
    completed_elsewhere: plans that other processes completed meanwhile.
    """

    scheduled: ScheduledPlan[P]
    executed: list[E] = field(default_factory=list)
    planned: dict[str, P] = field(default_factory=dict)
    completed_elsewhere: set[InstantTime] = field(default_factory=set)
    pending: list[str] = field(default_factory=list)
    reason: str = ""
    seconds: float = 0.0

    @property
    def plans(self) -> dict[str, P]:
        """Those executed, else the one that was made, else those that would be."""
        if self.executed:
            return {each.instant: each.plan for each in self.executed}
        instant, plan = self.scheduled.instant, self.scheduled.due.plan
        if instant is not None and plan is not None:
            return {} if instant.time in self.completed_elsewhere else {instant.time: plan}
        return self.planned


class PlannedService(ABC, Generic[P, E]):
    """One job of a service with plans; a service implements the steps.

    The timeline is listed again after a step that changed it, and by the transactions; the first step has it
    as the table listed it last.
    """

    #: for people, such as "compaction"
    name: ClassVar[str]
    #: the status of a job that executed plans, and the result's field with their instants
    executed_as: ClassVar[str]
    #: the action of the instant that completes a plan
    completes_as: ClassVar[Action]

    def __init__(self, target: ServiceTable, progress: ProgressCallback = silent) -> None:
        self.target = target
        self.progress = progress

    @property
    @abstractmethod
    def requested_as(self) -> Action:
        """The action of a plan."""

    def pending(self, timeline: Timeline) -> list[Instant]:
        """The plans to execute, oldest first."""
        return timeline.filter([self.requested_as], completed=False)

    @abstractmethod
    def read_plan(self, instant: Instant) -> P | None:
        """The plan of a pending instant; None for one that does nothing. Raises TableError."""

    @abstractmethod
    def plan_now(self, timeline: Timeline, now: InstantTime | None) -> DuePlan[P]:
        """What a plan made now contains; `now` is its instant where there is one already."""

    @abstractmethod
    def content(self, plan: P) -> bytes:
        """The requested file of a plan."""

    @abstractmethod
    def execute(self, instant: Instant) -> E | None:
        """Carry a pending plan out; None for one that does nothing, which is gone then.

        Raises ConflictError while another process executes it, or when it is completed.
        """

    def check_scheduled(self, instant: Instant, plan: P) -> None:
        """Called with the table still taken, after the plan's instant is there. What it raises fails the
        job; it has to take the instant away first.
        """

    def run(self, mode: str, instant: InstantTime | None = None, dry_run: bool = False) -> ServiceRun[P, E]:
        """Schedule, execute or both; `dry_run` writes nothing.

        Mode `run` executes what is pending first, as Apache Hudi does, so that the new plan begins with what
        it made. Raises HoodieError; plans that were completed before stay completed.
        """
        started = time.monotonic()
        done: ServiceRun[P, E] = ServiceRun(ScheduledPlan(due=DuePlan(None)))
        if dry_run:
            self._plan_only(mode, instant, done)
        else:
            self._run(mode, instant, done)
        done.pending = [item.time for item in self.pending(self.target.table.timeline)]
        done.seconds = time.monotonic() - started
        return done

    def report(self, done: ServiceRun[P, E], mode: str, dry_run: bool) -> dict[str, Any]:
        """The fields that the results of all these services have."""
        scheduled = done.scheduled.instant.time if done.scheduled.instant else ""
        executed = [each.instant for each in done.executed]
        status = self.executed_as if executed else "scheduled" if scheduled else "skipped"
        if dry_run:
            status = "planned" if done.plans else "skipped"
        return {
            "status": status,
            **about(self.target, dry_run, done.seconds),
            "mode": mode,
            "instant": executed[-1] if executed else scheduled,
            "scheduled": scheduled,
            self.executed_as: executed,
            "pending": done.pending,
            "reason": "" if done.plans else done.reason,
        }

    def _plan_only(self, mode: str, instant: InstantTime | None, done: ServiceRun[P, E]) -> None:
        """The plans that would be executed, and the one that would be made now."""
        if mode != "schedule":
            found, done.reason = self._plans_to_execute(instant)
            plans = {item.time: self.read_plan(item) for item in found}
            done.planned = {time: plan for time, plan in plans.items() if plan is not None}
        if mode != "execute":
            _, due = self._plan_now()
            done.scheduled, done.reason = ScheduledPlan(due=due), due.reason
            if due.plan is not None:
                done.planned[""] = due.plan

    def _run(self, mode: str, instant: InstantTime | None, done: ServiceRun[P, E]) -> None:
        if mode != "schedule":
            found, done.reason = self._plans_to_execute(instant)
            self._execute(found, done)
        if mode != "execute":
            done.scheduled = self.schedule()
            done.reason = done.scheduled.due.reason
            made = done.scheduled.instant
            if made is not None and mode == "run":
                self._execute([made], done)
            elif made is not None:
                self.target.timeline()

    def schedule(self) -> ScheduledPlan[P]:
        """Put a plan on the timeline if one is due; nothing is written when none is. The plan that was made
        before the table was taken is kept where the timeline has not changed since. Raises ConflictError
        while a writer is at work, with nothing changed.
        """
        before, due = self._plan_now()
        if due.plan is None:
            return ScheduledPlan(due=due)

        def content(timeline: Timeline, now: InstantTime) -> bytes | None:
            nonlocal due
            if timeline.instants != before.instants:
                due = self.plan_now(timeline, now)
            return None if due.plan is None else self.content(due.plan)

        with self.target.transaction(self.progress) as transaction:
            instant = transaction.schedule(self.requested_as, content)
            if instant is not None and due.plan is not None:
                self.check_scheduled(instant, due.plan)
            elif transaction.hindrance:
                due = DuePlan(None, transaction.hindrance)
            return ScheduledPlan(due=due, instant=instant)

    def _plan_now(self) -> tuple[Timeline, DuePlan[P]]:
        """By the timeline as it is. Instants that another process archives before they are read are listed
        no more the next time.
        """
        for _ in range(_LISTINGS):
            with contextlib.suppress(FileNotFoundError):
                timeline = self.target.table.timeline
                return timeline, self.plan_now(timeline, None)
            self.target.table.refresh()
        raise TableBusy(
            f"other processes archive instants of {self.target.base_path} faster than a {self.name} can "
            "be planned; run it again",
            path=self.target.base_path,
        )

    def _plans_to_execute(self, instant: InstantTime | None) -> tuple[list[Instant], str]:
        """The pending plans, or that of `instant`, and the reason where nothing comes of them. Raises
        ConfigError for an instant that is no plan.
        """
        found = self.pending(self.target.table.timeline)
        if not instant:
            return found, f"no {self.name} is pending"
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

    def _execute(self, plans: list[Instant], done: ServiceRun[P, E]) -> None:
        """Execute these plans. One that another process completes meanwhile is no error."""
        for item in plans:
            try:
                executed = self.execute(item)
            except ConflictError:
                if not self._completed(item.time):
                    raise
                done.completed_elsewhere.add(item.time)
                done.reason = f"{self.name} {item.time} was completed by another process"
                continue
            if executed is not None:
                done.executed.append(executed)
            else:
                done.reason = f"{self.name} {item.time} had nothing to do and was taken off the timeline"
        if plans:
            self.target.timeline()

    def _completed(self, time: InstantTime) -> bool:
        found = self.target.timeline().filter([self.completes_as], completed=True)
        return any(item.time == time for item in found)


class RewriteService(PlannedService[P, RewrittenPlan[P]]):
    """A service that writes files anew, on an engine that is started when a plan is executed."""

    def __init__(
        self,
        target: ServiceTable,
        engine: Callable[[], Engine],
        progress: ProgressCallback = silent,
    ) -> None:
        super().__init__(target, progress)
        self._engine = engine

    def started(self) -> Engine:
        return self._engine().for_storage(local=self.target.storage.local)

    def schedule(self) -> ScheduledPlan[P]:
        self.progress("schedule", f"{self.name} of {self.target.base_path}")
        return super().schedule()

    def report(self, done: ServiceRun[P, RewrittenPlan[P]], mode: str, dry_run: bool) -> dict[str, Any]:
        return {
            **super().report(done, mode, dry_run),
            "num_files": sum(each.metadata.num_files for each in done.executed),
            "num_writes": sum(each.metadata.num_writes for each in done.executed),
            "bytes_written": sum(each.metadata.bytes_written for each in done.executed),
        }
