"""The services that there are: every folder here with a module `service` is one (see CONTRIBUTING.md).

The folders are those of the installed package; no table and no request can add one.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil

import hoodie.services
from hoodie.services.description import Service


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
