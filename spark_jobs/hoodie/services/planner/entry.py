"""A service's entry in the planner; each is in the folder of its service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hoodie.services.request import Request
from hoodie.services.results import ServiceResult
from hoodie.services.service_table import ServiceTable
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action


@dataclass(frozen=True)
class Work:
    """What a result contains of work done or planned, `text` for people, in the infinitive."""

    text: str
    num_files: int
    bytes: int
    instants: list[str] = field(default_factory=list)


class PlannerEntry(ABC):
    """A service as the planner knows it."""

    #: whose pending instants the service finishes
    actions: ClassVar[frozenset[Action]] = frozenset()

    def __init__(self, request: type[Request], run: Callable[[Any], ServiceResult]) -> None:
        self._request = request
        self._run = run

    @property
    def request(self) -> type[Request]:
        """What `run` takes; its own fields have defaults."""
        return self._request

    def run(self, request: Request) -> ServiceResult:
        """The service, or its dry run."""
        return self._run(request)

    @abstractmethod
    def work(self, target: ServiceTable, result: Mapping[str, Any]) -> Work:
        """What a result's dict contains."""

    def why(self, target: ServiceTable, timeline: Timeline) -> str:
        """The numbers on which it depends whether the service is due, for people."""
        return ""

    def not_applicable(self, target: ServiceTable) -> str:
        """The reason why the table never needs the service, "" where it may."""
        return ""

    def skipped_by_default(self, target: ServiceTable) -> str:
        """The reason why the service runs only by its name, although the table might take it; "" where it
        needs no asking.
        """
        return ""
