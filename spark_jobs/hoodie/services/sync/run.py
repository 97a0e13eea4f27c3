"""A sync with a catalog on request (hoodie.sync.hive)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from hoodie.errors import ConfigError, HoodieError
from hoodie.services.results import ServiceResult, about
from hoodie.services.service_table import ServiceTable
from hoodie.services.sync.service import SyncRequest
from hoodie.sync.hive.catalog import catalog
from hoodie.sync.hive.run import Synced, sync
from hoodie.sync.settings import DATABASE, IGNORE_EXCEPTIONS, TOOL, URIS, Tool


@dataclass(frozen=True, kw_only=True, repr=False)
class SyncResult(ServiceResult):
    """What a sync did, or, with dry_run, would do.

    status: `synced`, `planned` (a dry run), or `skipped`, for `reason`. catalog, entries, requests,
    change_requests: as hoodie.sync.hive.run.Synced.
    """

    catalog: str
    entries: list[dict[str, Any]]
    requests: int
    change_requests: int
    action: str = "sync"
    operation: str = "sync"


def sync_service(request: SyncRequest) -> SyncResult:
    """Sync; raises HoodieError as hoodie.sync.hive.run.sync, or warns of it where the settings say so."""
    started = time.monotonic()
    target = ServiceTable.open(request.table, {**request.options, **_named(request)}, reads=True)
    if request.metastore and not _is_glue(request) and target.config[TOOL] is not Tool.HIVE:
        raise ConfigError(
            f"{request.metastore} is the address of a metastore, and {TOOL.name} asks for "
            f"{catalog(target.config).title}; leave one of them out",
            setting=TOOL.name,
            value=request.metastore,
        )
    try:
        done = sync(target.table, target.config, dry_run=request.dry_run, progress=request.progress)
    except HoodieError as error:
        if not target.config[IGNORE_EXCEPTIONS]:
            raise
        title = catalog(target.config).title
        done = Synced(
            catalog=title, reason=f"the sync failed ({IGNORE_EXCEPTIONS.name}=true)", warnings=[error.message]
        )
    given = about(target, request.dry_run, time.monotonic() - started)
    return SyncResult(
        status="skipped" if done.reason else "planned" if request.dry_run else "synced",
        catalog=done.catalog,
        entries=done.entries,
        requests=done.requests,
        change_requests=done.change_requests,
        reason=done.reason,
        **{**given, "warnings": [*given["warnings"], *done.warnings]},
    )


def _named(request: SyncRequest) -> dict[str, str]:
    """The settings that arguments stand for."""
    where = TOOL.name if _is_glue(request) else URIS.name
    named = {where: request.metastore, DATABASE.name: request.database}
    return {name: text for name, text in named.items() if text}


def _is_glue(request: SyncRequest) -> bool:
    return (request.metastore or "").strip().lower() == Tool.GLUE.value
