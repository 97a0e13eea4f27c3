"""The description of a table service, one in the folder of each.

Its job, its command, its turn in the planner and its line in docs/services.md follow from it. Descriptions
need the standard library only; what carries a service out is imported when it is called.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hoodie.services.request import Request, RewriteRequest

if TYPE_CHECKING:
    from hoodie.services.planner.entry import PlannerEntry
    from hoodie.services.results import ServiceResult


@dataclass(frozen=True)
class Lazy:
    """A function of a module that is imported when it is called."""

    module: str
    name: str

    def load(self) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(importlib.import_module(self.module), self.name)
        return found

    def __call__(self, *args: Any) -> Any:
        return self.load()(*args)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A service's turn in a run of all services: lower numbers first. `name` is the planner's for it."""

    number: int
    name: str
    entry: Callable[[type[Request], Callable[[Any], ServiceResult]], PlannerEntry]


@dataclass(frozen=True, kw_only=True)
class Service:
    """One service of a table.

    name: of its job and its command. doc: what it does, in one line. request: the class of its requests. run:
    carries a request out. text: formats a result's dict for people. turn: its turn in the planner, None where
    the planner leaves it out. function, operator: its names in the Python API and in Airflow. public: False
    for a service without a job and a command, which only the planner runs.
    """

    name: str
    doc: str
    request: type[Request]
    run: Callable[[Any], ServiceResult]
    text: Callable[[dict[str, Any]], str]
    turn: Turn | None = None
    function: str = ""
    operator: str = ""
    public: bool = True

    @property
    def needs_engine(self) -> bool:
        """Whether its work is distributed, on Spark or on the local engine."""
        return issubclass(self.request, RewriteRequest)
