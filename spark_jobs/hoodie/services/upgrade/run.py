"""An upgrade or a downgrade of the table version (format.md 15.14; Apache Hudi 1.2.0, UpgradeDowngrade).

1. Failed writes are rolled back. Pending compactions and cleans are carried out. Pending log compactions and
   clusterings are taken off the timeline.
2. The logs of a merge-on-read table are merged, by the rules of its version. A clean deletes the older
   slices where the next version would make other rows of their logs. Such a table has a payload class without
   a mode that does the same, or its logs are named for their writes, which version 6 takes for slices.
3. The metadata table is dropped; the next write makes it again. Apache Hudi upgrades it, and drops it where
   it is behind.
4. Instants and properties change (table.version_change), or the properties alone between versions 8 and 9.

Steps 1 and 2 are services of their own, each of them whole or repeated. From step 3 on this process has the
table alone. A kill anywhere is followed by the same call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hoodie.config import versions
from hoodie.config.versions import LayoutVersion
from hoodie.errors import ConfigError, TableBusy, TableError, UnsupportedVersion
from hoodie.format.names import BaseFileName, LogFileName, join
from hoodie.merge import MERGERS
from hoodie.merge.settings import PAYLOAD_CLASS
from hoodie.metadata.index_definitions import forget_indexes, index_definitions
from hoodie.services.clean.run import clean
from hoodie.services.clean.settings import MAX_COMMITS, POLICY, VERSIONS_RETAINED, Policy
from hoodie.services.compaction.run import compact
from hoodie.services.compaction.settings import MAX_DELTA_COMMITS, STRATEGY, TRIGGER, Strategy, Trigger
from hoodie.services.request import PlannedRequest, RewriteRequest
from hoodie.services.results import ServiceResult, about
from hoodie.services.rollback.run import cancel
from hoodie.services.service_table import ServiceTable
from hoodie.services.upgrade.rules import applied, changed, merges_otherwise
from hoodie.services.upgrade.service import VersionRequest
from hoodie.storage import FileInfo
from hoodie.table import properties
from hoodie.table.features import Feature, check_features
from hoodie.table.properties import BOOTSTRAP_BASE_PATH, TableProperties, TableType
from hoodie.table.version_change import change_layout, settle
from hoodie.table.view import file_slices
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.placement import VERSION_CHANGE
from hoodie.write.participants.metadata_table import drop_metadata_table

_OLDEST = 6

_CANCELLED = (Action.LOGCOMPACTION, Action.CLUSTERING, Action.REPLACECOMMIT)
_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class VersionResult(ServiceResult):
    """What a change of the table version did, or, with dry_run, would do.

    status: `upgraded`, `downgraded`, `planned` (a dry run), or `skipped`, for `reason`. compacted, cleaned:
    plans that were carried out first; cancelled: plans that were taken off the timeline. merges_logs: all
    logs are merged first; drops_history: earlier states of the table can't be read afterwards.
    metadata_partitions: of the metadata table, which is dropped. num_instants, num_archived: instants that
    were written in another form. properties: those that change, None for one that goes.
    """

    from_version: int
    to_version: int
    compacted: list[str]
    cleaned: list[str]
    cancelled: list[str]
    merges_logs: bool
    drops_history: bool
    metadata_partitions: list[str]
    num_instants: int
    num_archived: int
    properties: dict[str, str | None]
    action: str = ""
    operation: str = "upgrade"


@dataclass
class _Work:
    """What is done, or would be; see VersionResult."""

    former: int
    compacted: list[str] = field(default_factory=list)
    cleaned: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    merges_logs: bool = False
    drops_history: bool = False
    metadata_partitions: list[str] = field(default_factory=list)
    num_instants: int = 0
    num_archived: int = 0
    properties: dict[str, str | None] = field(default_factory=dict)
    reason: str = ""


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
    started = time.monotonic()
    target, to = ServiceTable.open(request.table, request.options), int(request.to)
    work = _Work(target.props.version)
    _check_version(target, to)
    if not moves(work.former, to):
        work.reason = f"the table has version {work.former}"
        if not request.dry_run:
            _settle(target)
    elif request.dry_run:
        _plan(target, to, work)
    else:
        _plan(target, to, work)
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
        drops_history=work.drops_history,
        metadata_partitions=work.metadata_partitions,
        num_instants=work.num_instants,
        num_archived=work.num_archived,
        properties=work.properties,
        reason=work.reason,
        operation="upgrade" if done == "upgraded" else "downgrade",
        **common,
    )


def _check_version(target: ServiceTable, to: int) -> None:
    former = target.props.version
    if not versions.is_writable(to):
        raise UnsupportedVersion(
            f"{target.base_path} would have table version {to}, which is read here and not written yet: "
            f"upgrade it with Apache Hudi (call upgrade_table(table => '{target.props.name}', to_version => "
            f"'{versions.VERSIONS[to].name}'))",
            path=target.base_path,
            version=to,
        )
    if former < _OLDEST:
        raise UnsupportedVersion(
            f"{target.base_path} has table version {former}, and tables change their version here from "
            f"{_OLDEST} on: write to it once with Apache Hudi 0.15.0, which upgrades it to {_OLDEST}",
            path=target.base_path,
            version=former,
        )


def _plan(target: ServiceTable, to: int, work: _Work) -> None:
    """What is to be done, as the table is now. Raises as `upgrade`."""
    props, timeline = target.props, target.timeline()
    check_features(props, "change", "changed in its version", Feature.OTHER_BASE_FILES, Feature.OTHER_MERGING)
    check_features(props, "change", "changed in its version", Feature.OTHER_FORMAT, Feature.UNKNOWN_PROPERTY)
    work.properties = _properties(target, to)
    _check_plans(target, timeline)
    for instant in timeline.pending():
        {Action.COMPACTION: work.compacted, Action.CLEAN: work.cleaned}.get(
            instant.action, work.cancelled if _is_plan(target, timeline, instant) else []
        ).append(str(instant.time))
    work.merges_logs = any(True for _ in _logs(target))
    work.drops_history = _drops_history(target, to, work)
    work.metadata_partitions = list(props.metadata_partitions)
    if work.drops_history:
        _check_savepoints(target, timeline)
    if not _changes_layout(work.former, to):
        return
    work.num_instants = len(timeline.instants)
    work.num_archived = sum(1 for _ in target.table.archive.instants())


def _drops_history(target: ServiceTable, to: int, work: _Work) -> bool:
    """Whether older slices have logs of which version `to` would make other rows."""
    if merges_otherwise(target.props.texts, work.properties):
        return next(_all_logs(target), None) is not None
    return _is_to_six(work.former, to) and next(_later_logs(target), None) is not None


def _properties(target: ServiceTable, to: int) -> dict[str, str | None]:
    """The properties that change. Raises ConfigError for a table that can't be of that version here."""
    props = target.props
    if props.texts.get(BOOTSTRAP_BASE_PATH):
        raise ConfigError(
            f"table {props.name!r} was bootstrapped from other files, and its version can't be changed here; "
            "change it with Apache Hudi",
            table=props.name,
        )
    named = target.config[PAYLOAD_CLASS]
    changes = changed(props.texts, to, MERGERS.name(named) if named else None)
    check_features(
        TableProperties(applied(props.texts, changes)),
        "change",
        f"handled in version {to}",
        Feature.OTHER_MERGING,
        Feature.OTHER_KEYS,
    )
    return changes


def _check_plans(target: ServiceTable, timeline: Timeline) -> None:
    """Raises TableBusy for pending instants that neither a repair nor a service of step 1 ends."""
    waiting = [item for item in timeline.pending() if item.action in (Action.INDEXING, Action.RESTORE)]
    if waiting:
        named = ", ".join(map(str, waiting[:_SHOWN]))
        raise TableBusy(
            f"{target.base_path} can't change its version while these are pending: {named}. Finish an "
            "indexing with hoodie index execute, or take it back with hoodie index drop; finish a restore "
            "with hoodie restore",
            path=target.base_path,
            instants=[item.time for item in waiting],
        )


def _is_plan(target: ServiceTable, timeline: Timeline, instant: Instant) -> bool:
    """Whether a pending instant is a service's that is taken off the timeline."""
    if instant.action is Action.REPLACECOMMIT:
        return timeline.clustering_plan(instant, target.storage) is not None
    return instant.action in _CANCELLED


def _prepare(target: ServiceTable, request: VersionRequest, work: _Work) -> None:
    """Steps 1 and 2."""
    path, options = target.base_path, dict(request.options)
    with target.transaction(request.progress) as transaction:
        transaction.claim()
    timeline = target.timeline()
    for instant in timeline.pending():
        if _is_plan(target, timeline, instant):
            cancel(target, instant.time, request.progress)
            work.cancelled.append(str(instant.time))
    if any(item.action is Action.CLEAN for item in timeline.pending()):
        done = clean(PlannedRequest(table=path, mode="execute", options=options, progress=request.progress))
        work.cleaned += done.cleaned
    if target.props.table_type is TableType.MERGE_ON_READ:
        _compact(target, request, work)
    if work.drops_history:
        _clean(target, request, work)
    target.table.reopen()


def _compact(target: ServiceTable, request: VersionRequest, work: _Work) -> None:
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


def _clean(target: ServiceTable, request: VersionRequest, work: _Work) -> None:
    """All slices but the newest."""
    options = {
        **request.options,
        POLICY.name: Policy.KEEP_LATEST_FILE_VERSIONS.value,
        VERSIONS_RETAINED.name: "1",
        MAX_COMMITS.name: "0",
    }
    done = clean(PlannedRequest(table=target.base_path, options=options, progress=request.progress))
    work.cleaned += done.cleaned


def _run(target: ServiceTable, request: VersionRequest, to: int, work: _Work) -> None:
    """Steps 3 and 4."""
    table = target.table
    with target.transaction(request.progress) as transaction:
        transaction.claim(alone=True)
        table.reopen()
        if target.props.version != work.former:
            raise TableBusy(
                f"another process changed {target.base_path} to version {target.props.version} meanwhile; "
                "run it again",
                path=target.base_path,
            )
        timeline = target.timeline()
        if pending := timeline.pending():
            raise TableBusy(
                f"{target.base_path} can't change its version while {pending[0]} is pending; run it again",
                path=target.base_path,
                instants=[item.time for item in pending],
            )
        changes = _properties(target, to)
        if _is_to_six(work.former, to):
            _check_no_later_logs(target)
        transaction.check_claim()
        with transaction.publishing():
            request.progress("upgrade", f"version {work.former} to {to} of {target.base_path}")
            _drop_metadata_table(target)
            if _changes_layout(work.former, to):
                work.num_instants, work.num_archived = change_layout(table, changes)
            else:
                properties.update(table.storage, table.base_path, changes)
            table.reopen()
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


def _changes_layout(former: int, to: int) -> bool:
    return versions.VERSIONS[former].layout is not versions.VERSIONS[to].layout


def _is_to_six(former: int, to: int) -> bool:
    return _changes_layout(former, to) and versions.is_of_layout(to, LayoutVersion.ONE)


def _logs(target: ServiceTable) -> Iterator[str]:
    """Log files of the newest slices."""
    if target.props.table_type is not TableType.MERGE_ON_READ:
        return
    listing = target.table.listing()
    for partition in listing.partitions():
        for group in file_slices(target.table.view, listing.files, partition).values():
            yield from (join(partition, log.name) for log in group[0].logs)


def _all_logs(target: ServiceTable, later: bool = False) -> Iterator[str]:
    """Log files of any slice, that are not change logs; `later`: those alone whose names have no base file's
    instant.
    """
    if target.props.table_type is not TableType.MERGE_ON_READ:
        return
    listing = target.table.listing()
    for partition in listing.partitions():
        items = listing.files(partition)
        bases = {(base.file_id, base.instant) for base in map(_base, items) if base is not None}
        for item in items:
            log = LogFileName.parse(item.name)
            if log is None or log.cdc:
                continue
            if not later or (log.file_id, log.instant) not in bases:
                yield join(partition, item.name)


def _later_logs(target: ServiceTable) -> Iterator[str]:
    """Logs that version 6 would take for slices of their own."""
    return _all_logs(target, later=True)


def _base(item: FileInfo) -> BaseFileName | None:
    return BaseFileName.parse(item.name)


def _check_savepoints(target: ServiceTable, timeline: Timeline) -> None:
    saved = timeline.filter([Action.SAVEPOINT], completed=True)
    if saved:
        raise ConfigError(
            f"{target.base_path} has savepoint {saved[0].time}, and its logs would be read "
            f"otherwise in that version; delete it first: hoodie savepoint --table {target.base_path} "
            f"--instant {saved[0].time} --delete",
            instant=saved[0].time,
        )


def _check_no_later_logs(target: ServiceTable) -> None:
    name = next(_later_logs(target), None)
    if name is not None:
        raise TableError(
            f"{target.base_path} has {name}, which version {_OLDEST} would take for a file slice; run the "
            "downgrade again, or hoodie clean",
            path=name,
        )
