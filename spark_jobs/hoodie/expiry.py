"""Partition TTL: one delete of partitions, which the table's state chooses (services.ttl).

It is a write like every delete of partitions: the same commit, crash safety, gates and hooks. The choice is
made by the state that the commit replaces, and again where another writer came between, so that no row goes
that was written meanwhile. Files stay until the cleaner takes them, those of savepoints while these are
there.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any

from hoodie.backend.choice import backend_of
from hoodie.errors import ConfigError
from hoodie.pipeline import write
from hoodie.services.request import Request
from hoodie.services.results import about
from hoodie.services.service_table import ServiceTable
from hoodie.services.ttl.plan import Chooser, Expired, NothingExpired
from hoodie.services.ttl.result import TtlResult
from hoodie.services.ttl.settings import DAYS, STRATEGY
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Action, Instant
from hoodie.write.operation import Operation, WriteRequest, WriteResult

#: extra metadata of the commits that a run made: its strategy
TTL_KEY = "hoodie_ttl"


def expire(request: Request) -> TtlResult:
    """Delete the partitions whose time is over, by one commit; nothing to delete is no commit.

    Raises HoodieError: ConfigError without `hoodie.partition.ttl.strategy.days.retain`, TableNotFound,
    ConflictError where another writer or a pending service is in the way.
    """
    started = time.monotonic()
    target = ServiceTable.open(request.table, request.options)
    if target.config[DAYS] <= 0:
        raise ConfigError(
            f"{DAYS.name} is {target.config[DAYS]}; say how many days a partition lives, 1 or more",
            **{DAYS.name: target.config[DAYS]},
        )
    if not target.props.partition_fields:
        return _skipped(target, request, "the table has no partitions", started)
    chooser = Chooser(
        target.storage, target.base_path, target.config, target.props.timeline_utc, target.storage.now_ms()
    )
    try:
        written = _written(target, request, chooser)
    except NothingExpired:
        return _skipped(target, request, f"no partition is older than {target.config[DAYS]} days", started)
    found = chooser.found
    fields = about(target, request.dry_run, time.monotonic() - started)
    fields["warnings"] = list(dict.fromkeys([*fields["warnings"], *written.warnings]))
    fields |= {
        "rolled_back": written.rolled_back,
        "metadata_table_removed": written.metadata_table_removed,
    }
    return TtlResult(
        status="planned" if request.dry_run else "deleted",
        instant=written.instant,
        completion=written.completion,
        reason="",
        partitions=sorted(found.partitions),
        **_common(target, found),
        **fields,
    )


def _written(target: ServiceTable, request: Request, chooser: Chooser) -> WriteResult:
    asked = WriteRequest(
        target.base_path,
        Operation.DELETE_PARTITION,
        request.options,
        {TTL_KEY: target.config[STRATEGY].value},
        dry_run=request.dry_run,
        choose=chooser,
    )
    return write(backend_of(None).engine(), None, asked, request.progress)


def _skipped(target: ServiceTable, request: Request, reason: str, started: float) -> TtlResult:
    found = _last(target, target.timeline())
    instant, metadata = found or (None, None)
    return TtlResult(
        status="skipped",
        instant=instant.time if instant else "",
        completion=instant.incremental_time if instant else "",
        reason=reason,
        partitions=metadata.partitions if metadata else [],
        **_common(target, Expired(since={}, left=0, bytes=0, groups=0)),
        **about(target, request.dry_run, time.monotonic() - started),
    )


def _common(target: ServiceTable, found: Expired) -> dict[str, Any]:
    return {
        "strategy": target.config[STRATEGY].value,
        "days": target.config[DAYS],
        "num_partitions": len(found.since),
        "since": {path: _iso(moment) for path, moment in found.since.items()},
        "num_replaced": found.groups,
        "bytes": found.bytes,
        "left": found.left,
    }


def _last(target: ServiceTable, timeline: Timeline) -> tuple[Instant, CommitMetadata] | None:
    """The newest commit of a run on the active timeline."""
    for instant in reversed(timeline.filter([Action.REPLACECOMMIT], completed=True)):
        try:
            metadata = timeline.commit(instant, target.storage)
        except FileNotFoundError:
            continue  # archived since the listing
        if TTL_KEY in metadata.extra_metadata:
            return instant, metadata
    return None


def _iso(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, tz=timezone.utc).isoformat(timespec="seconds")
