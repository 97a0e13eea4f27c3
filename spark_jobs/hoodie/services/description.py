"""What there is to say of a table service: one description, in the folder of the service.

Its job, its command, its turn in the planner and its line in docs/services.md follow from it. The standard
library is all that descriptions need; what carries a service out is imported when it is called.
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
    entry: Callable[[Service], PlannerEntry]


@dataclass(frozen=True, kw_only=True)
class Service:
    """One service of a table.

    name: of its job (`hoodie/jobs/<name>.py`) and its command. doc: what it does, in one line. request: what
    it is asked. run: carries it out, with such a request. text: its result, as a dict, for people. turn: in
    the planner, None where that leaves it out. function, operator: what calls it in Python and in Airflow.
    public: has it a job and a command, or is the planner alone to run it.
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
        """Is its work distributed, on Spark or on the local engine?"""
        return issubclass(self.request, RewriteRequest)
