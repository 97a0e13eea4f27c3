"""A sync with Hive's metastore on request (hoodie.sync.hive)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from hoodie.errors import HoodieError
from hoodie.services.results import ServiceResult, about
from hoodie.services.service_table import ServiceTable
from hoodie.services.sync.service import SyncRequest
from hoodie.sync.hive.run import Synced, sync
from hoodie.sync.settings import DATABASE, IGNORE_EXCEPTIONS, URIS


@dataclass(frozen=True, kw_only=True)
class SyncResult(ServiceResult):
    """What a sync did, or, with dry_run, would do.

    status: `synced`, `planned` (a dry run), or `skipped`, for `reason`. entries, requests, change_requests:
    as hoodie.sync.hive.run.Synced.
    """

    entries: list[dict[str, Any]]
    requests: int
    change_requests: int
    action: str = "sync"
    operation: str = "sync"


def sync_service(request: SyncRequest) -> SyncResult:
    """Sync; raises HoodieError as hoodie.sync.hive.run.sync, or warns of it where the settings say so."""
    started = time.monotonic()
    named = {URIS.name: request.metastore, DATABASE.name: request.database}
    options = {**request.options, **{name: text for name, text in named.items() if text}}
    target = ServiceTable.open(request.table, options)
    try:
        done = sync(target.table, target.config, dry_run=request.dry_run, progress=request.progress)
    except HoodieError as error:
        if not target.config[IGNORE_EXCEPTIONS]:
            raise
        done = Synced(reason=f"the sync failed ({IGNORE_EXCEPTIONS.name}=true)", warnings=[error.message])
    given = about(target, request.dry_run, time.monotonic() - started)
    return SyncResult(
        status="skipped" if done.reason else "planned" if request.dry_run else "synced",
        entries=done.entries,
        requests=done.requests,
        change_requests=done.change_requests,
        reason=done.reason,
        **{**given, "warnings": [*given["warnings"], *done.warnings]},
    )
