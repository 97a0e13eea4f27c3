"""An upgrade or a downgrade of the table version (format.md 15.14; Apache Hudi 1.2.0, UpgradeDowngrade).

1. Failed writes are rolled back. Pending compactions and cleans are carried out. Pending log compactions and
   clusterings are taken off the timeline. Up to version 6 failed writes are all, and step 2 is left out.
2. The logs of a merge-on-read table are merged, by the rules of its version. A clean deletes the older
   slices where the next version would make other rows of their logs. Such a table has a payload class without
   a mode that does the same, or its logs are named for their writes, which version 6 takes for slices.
3. The metadata table is dropped; the next write makes it again. Apache Hudi upgrades it, and drops it where
   it is behind.
4. Instants and properties change (table.version_change), or the properties alone up to version 6 and between
   versions 8 and 9. older.py has what tables below version 6 lack.

Steps 1 and 2 are services of their own, each of them whole or repeated. From step 3 on this process has the
table alone. A kill anywhere is followed by the same call.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hoodie.config.key import Config
from hoodie.errors import ConfigError, TableBusy
from hoodie.metadata.index_definitions import forget_indexes, index_definitions
from hoodie.services.clean.run import clean
from hoodie.services.clean.settings import MAX_COMMITS, POLICY, VERSIONS_RETAINED, Policy
from hoodie.services.compaction.run import compact
from hoodie.services.compaction.settings import MAX_DELTA_COMMITS, STRATEGY, TRIGGER, Strategy, Trigger
from hoodie.services.request import PlannedRequest, RewriteRequest
from hoodie.services.results import ServiceResult, about
from hoodie.services.rollback.run import cancel
from hoodie.services.service_table import ServiceTable
from hoodie.services.upgrade.older import COMPLETE_SINCE, delete_plan_copies
from hoodie.services.upgrade.plan import (
    Work,
    changed_properties,
    changes_layout,
    check_no_later_logs,
    is_plan,
    is_to_six,
    lost_indexes,
    plan,
    rewrites,
)
from hoodie.services.upgrade.service import VersionRequest
from hoodie.table import properties
from hoodie.table.properties import TableType
from hoodie.table.version_change import change_layout, settle
from hoodie.timeline.instant import Action
from hoodie.timeline.placement import VERSION_CHANGE
from hoodie.write.participants.metadata_table import drop_metadata_table
from hoodie.write.settings import TABLE_VERSION


@dataclass(frozen=True, kw_only=True, repr=False)
class VersionResult(ServiceResult):
    """What a change of the table version did, or, with dry_run, would do.

    status: `upgraded`, `downgraded`, `planned` (a dry run), or `skipped`, for `reason`. compacted, cleaned:
    plans that were carried out first; cancelled: plans that were taken off the timeline. merges_logs: all
    logs are merged first, which reads merged_files files of merged_bytes. drops_history: earlier states of
    the table can't be read afterwards, since deleted_files files of deleted_bytes go. metadata_partitions: of
    the metadata table, which is dropped; lost_indexes: those that need their columns to be made
    again, or that the version has not got. num_instants,
    num_archived: instants that were written in another form. properties: those that change, None for one
    that goes.
    """

    from_version: int
    to_version: int
    compacted: list[str]
    cleaned: list[str]
    cancelled: list[str]
    merges_logs: bool
    merged_files: int
    merged_bytes: int
    drops_history: bool
    deleted_files: int
    deleted_bytes: int
    metadata_partitions: list[str]
    lost_indexes: list[str]
    num_instants: int
    num_archived: int
    properties: dict[str, str | None]
    action: str = ""
    operation: str = "upgrade"


def upgrade(request: VersionRequest) -> VersionResult:
    """Change the table version to a later one. Raises HoodieError: ConfigError for a table that can't have
    that version, TableBusy while an instant is pending that is not finished here, ConflictError while another
    process is at work; nothing but the services of step 1 and 2 has changed anything then.
    """
    return _change(request, "upgraded", lambda former, to: former < to)


def downgrade(request: VersionRequest) -> VersionResult:
    """Change the table version to an earlier one; otherwise as `upgrade`."""
    return _change(request, "downgraded", lambda former, to: former > to)


def _change(request: VersionRequest, done: str, moves: Callable[[int, int], bool]) -> VersionResult:
    started, to = time.monotonic(), int(request.to)
    request = replace(request, options=_own_options(request))
    target = ServiceTable.open(request.table, request.options)
    work = Work(target.props.version)
    if not moves(work.former, to):
        work.reason = f"the table has version {work.former}"
        if not request.dry_run:
            _settle(target)
    elif request.dry_run:
        plan(target, to, work)
    else:
        plan(target, to, work)
        work.compacted, work.cleaned, work.cancelled = [], [], []
        _prepare(target, request, work)
        _run(target, request, to, work)
    status = "skipped" if work.reason else "planned" if request.dry_run else done
    common = about(target, request.dry_run, time.monotonic() - started)
    common["metadata_table_removed"] = bool(work.metadata_partitions) and status == done
    return VersionResult(
        status=status,
        from_version=work.former,
        to_version=to,
        compacted=work.compacted,
        cleaned=work.cleaned,
        cancelled=work.cancelled,
        merges_logs=work.merges_logs,
        merged_files=work.merged_files,
        merged_bytes=work.merged_bytes,
        drops_history=work.drops_history,
        deleted_files=work.deleted_files,
        deleted_bytes=work.deleted_bytes,
        metadata_partitions=work.metadata_partitions,
        lost_indexes=lost_indexes(work.metadata_partitions, to),
        num_instants=work.num_instants,
        num_archived=work.num_archived,
        properties=work.properties,
        reason=work.reason,
        operation="upgrade" if done == "upgraded" else "downgrade",
        **common,
    )


def _own_options(request: VersionRequest) -> dict[str, Any]:
    """Without the version that the table's writers ask for, which it has afterwards. Raises ConfigError for
    another one.
    """
    given = Config.of(request.options)
    if given.given(TABLE_VERSION) and given[TABLE_VERSION] != int(request.to):
        raise ConfigError(
            f"{TABLE_VERSION.name}={given[TABLE_VERSION]} contradicts the version {request.to} that was "
            "asked for: writes with this setting would refuse the table. Change it where it is set, then "
            "repeat",
            value=str(given[TABLE_VERSION]),
        )
    names = (TABLE_VERSION.name, *TABLE_VERSION.aliases)
    return {name: value for name, value in request.options.items() if name not in names}


def _prepare(target: ServiceTable, request: VersionRequest, work: Work) -> None:
    """Steps 1 and 2."""
    path, options = target.base_path, dict(request.options)
    with target.transaction(request.progress) as transaction:
        transaction.claim()
    if not rewrites(work.former, int(request.to)):
        return
    timeline = target.timeline()
    for instant in timeline.pending():
        if is_plan(target, timeline, instant):
            cancel(target, instant.time, request.progress)
            work.cancelled.append(str(instant.time))
    if any(item.action is Action.CLEAN for item in timeline.pending()):
        done = clean(PlannedRequest(table=path, mode="execute", options=options, progress=request.progress))
        work.cleaned += done.cleaned
    if target.props.table_type is TableType.MERGE_ON_READ:
        _compact(target, request, work)
    if work.drops_history:
        _clean(target, request, work)
    target.table.reopen(moved=True)


def _compact(target: ServiceTable, request: VersionRequest, work: Work) -> None:
    """Pending compactions, then all logs that are left."""
    options = {
        **request.options,
        TRIGGER.name: Trigger.NUM_COMMITS.value,
        MAX_DELTA_COMMITS.name: "1",
        STRATEGY.name: Strategy.UNBOUNDED.value,
    }
    pending = target.timeline().filter([Action.COMPACTION], completed=False)
    if not pending and not work.merges_logs:
        return
    done = compact(
        RewriteRequest(
            table=target.base_path,
            options=options,
            extra_metadata=request.extra_metadata,
            engine=request.engine,
            progress=request.progress,
        )
    )
    work.compacted += done.compacted


def _clean(target: ServiceTable, request: VersionRequest, work: Work) -> None:
    """All slices but the newest."""
    options = {
        **request.options,
        POLICY.name: Policy.KEEP_LATEST_FILE_VERSIONS.value,
        VERSIONS_RETAINED.name: "1",
        MAX_COMMITS.name: "0",
    }
    done = clean(PlannedRequest(table=target.base_path, options=options, progress=request.progress))
    work.cleaned += done.cleaned


def _run(target: ServiceTable, request: VersionRequest, to: int, work: Work) -> None:
    """Steps 3 and 4."""
    table = target.table
    with target.transaction(request.progress) as transaction:
        transaction.claim(alone=True)
        table.reopen(moved=True)
        if target.props.version != work.former:
            raise TableBusy(
                f"another process changed {target.base_path} to version {target.props.version} meanwhile; "
                "run it again",
                path=target.base_path,
            )
        pending = target.timeline().pending()
        if pending and rewrites(work.former, to):
            raise TableBusy(
                f"{target.base_path} can't change its version while {pending[0]} is pending; run it again",
                path=target.base_path,
                instants=[item.time for item in pending],
            )
        changes = changed_properties(target, to)
        if is_to_six(work.former, to):
            check_no_later_logs(target)
        transaction.check_claim()
        with transaction.publishing():
            request.progress("upgrade", f"version {work.former} to {to} of {target.base_path}")
            _drop_metadata_table(target)
            if work.former < COMPLETE_SINCE:
                delete_plan_copies(target)
            if changes_layout(work.former, to):
                work.num_instants, work.num_archived = change_layout(table, changes)
            else:
                properties.update(table.storage, table.base_path, changes)
            table.reopen(moved=True)
        work.properties = changes


def _drop_metadata_table(target: ServiceTable) -> None:
    table = target.table
    drop_metadata_table(table)
    if table.layout.has_completion_time:
        forget_indexes(table, index_definitions(table))


def _settle(target: ServiceTable) -> None:
    """What a killed change left, of a table that has its version."""
    if not target.timeline().holds(VERSION_CHANGE):
        return
    with target.transaction() as transaction:
        transaction.claim(alone=True)
        if target.timeline().holds(VERSION_CHANGE):
            settle(target.table)
