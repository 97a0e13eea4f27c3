"""CALL: a service by its name, with the fields of its request as named arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any

from hoodie.backend import Backend
from hoodie.errors import ConfigError
from hoodie.progress import ProgressCallback
from hoodie.read.sql_tables import SqlTable
from hoodie.services.registry import Service, public
from hoodie.services.results import ServiceResult
from hoodie.statements.parser import Call
from hoodie.statements.words import table_named


def call(
    statement: Call,
    tables: Mapping[str, SqlTable],
    rows: Mapping[str, Any],
    backend: Backend,
    *,
    extra_metadata: Mapping[str, str],
    dry_run: bool,
    progress: ProgressCallback,
) -> ServiceResult:
    """Raises ConfigError for a service or an argument that there is not."""
    service = public().get(statement.name)
    if service is None:
        raise ConfigError(
            f"there is no service {statement.name}; CALL one of {', '.join(public())}", service=statement.name
        )
    given = dict(statement.arguments)
    name = given.pop("table", None)
    if not isinstance(name, str):
        raise ConfigError(f"CALL {service.name} names no table; write CALL {service.name}(table => 'orders')")
    asked = tables[table_named(name, tables, rows)]
    dry_run = bool(given.pop("dry_run", dry_run))
    _check(service, given)
    if service.needs_engine:
        given |= {"engine": backend.engine, "extra_metadata": extra_metadata}
    elif extra_metadata:
        raise ConfigError(f"CALL {service.name} makes no commit that takes extra metadata; leave it out")
    request = service.request(
        table=asked.ref.uri, options=dict(asked.config.texts), dry_run=dry_run, progress=progress, **given
    )
    return service.run(request)


def _check(service: Service, given: Mapping[str, Any]) -> None:
    own = service.request.own()
    if unknown := sorted(set(given) - set(own)):
        raise ConfigError(
            f"CALL {service.name} has no argument {', '.join(unknown)}; it has "
            f"{', '.join(['table', *own, 'dry_run'])}",
            argument=", ".join(unknown),
        )
    if missing := [name for name, item in own.items() if item.default is MISSING and name not in given]:
        raise ConfigError(f"CALL {service.name} needs {', '.join(missing)}", argument=", ".join(missing))
