"""The table services: every folder here with a module `service` is one, and that module describes it (see
CONTRIBUTING.md). The folders are those of the installed package; no table and no request can add one.

A service's job, its command, its turn in the planner and its line in docs/services.md follow from its
description. Descriptions need the standard library only; what carries a service out is imported when it is
called.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import hoodie.services
from hoodie.services.request import Request

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

    name: of its job. command: of its command, "" for the same name. doc: what it does, in one line. request:
    the class of its requests. run: carries a request out. text: formats a result's dict for people. turn: its
    turn in the planner, None where the planner leaves it out. function, operator: its names in the Python API
    and in Airflow. public: False for a service without a job and a command, which only the planner runs.
    """

    name: str
    doc: str
    request: type[Request]
    run: Callable[[Any], ServiceResult]
    text: Callable[[dict[str, Any]], str]
    turn: Turn | None = None
    function: str = ""
    operator: str = ""
    command: str = ""
    public: bool = True

    @property
    def needs_engine(self) -> bool:
        """Whether its work is distributed, on Spark or on the local engine."""
        return any(item.name == "engine" for item in fields(self.request))


@functools.cache
def services() -> dict[str, Service]:
    """All of them by name, those of the planner first, in their turns."""
    found = [_described(item.name) for item in pkgutil.iter_modules(hoodie.services.__path__) if item.ispkg]
    known = [service for service in found if service is not None]
    known.sort(key=lambda item: (item.turn.number if item.turn else 1000, item.name))
    return {service.name: service for service in known}


def public() -> dict[str, Service]:
    """Those with a job and a command."""
    return {name: service for name, service in services().items() if service.public}


def planned() -> dict[str, Service]:
    """Those of the planner by the name that it has for them, in their turns."""
    return {service.turn.name: service for service in services().values() if service.turn}


def _described(folder: str) -> Service | None:
    name = f"{hoodie.services.__name__}.{folder}.service"
    if importlib.util.find_spec(name) is None:
        return None
    service = importlib.import_module(name).SERVICE
    assert isinstance(service, Service), name
    return service
