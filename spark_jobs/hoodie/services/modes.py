"""What jobs of services with plans have in common: their modes, and which pending plans they execute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from hoodie.errors import ConfigError, ConflictError
from hoodie.services.target import Target
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant

MODES = ("schedule", "execute", "run")
E = TypeVar("E")


def check_mode(mode: str, instant: str | None = None) -> None:
    """Raises ConfigError for an unknown mode, and for an instant in one that does not execute it alone."""
    if mode not in MODES:
        raise ConfigError(f"mode is {mode!r}; use one of {', '.join(MODES)}", mode=mode)
    if instant and mode != "execute":
        raise ConfigError(
            f"instant {instant} is for mode execute, which runs that plan only; leave it out for {mode}",
            instant=instant,
        )


@dataclass(frozen=True)
class PlannedService:
    """`name` is for people; `pending` gives the plans to execute, oldest first. An executed plan is a
    completed instant of the action `completes_as`.
    """

    name: str
    target: Target
    pending: Callable[[Timeline], list[Instant]]
    completes_as: Action

    @property
    def pending_times(self) -> list[str]:
        return [item.time for item in self.pending(self.target.timeline())]

    def wanted(self, instant: str | None) -> tuple[list[Instant], str]:
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

    def run(self, instant: str | None, execute: Callable[[Instant], E]) -> tuple[list[E], str]:
        """Execute what is `wanted`; what was done, and why not more. A plan that somebody else completes
        meanwhile is no error.
        """
        found, reason = self.wanted(instant)
        done: list[E] = []
        for item in found:
            try:
                done.append(execute(item))
            except ConflictError:
                if not self._completed(item.time):
                    raise
                reason = f"{self.name} {item.time} was completed by another process"
        return done, reason

    def _completed(self, time: str) -> bool:
        found = self.target.timeline().filter([self.completes_as], completed=True)
        return any(item.time == time for item in found)
