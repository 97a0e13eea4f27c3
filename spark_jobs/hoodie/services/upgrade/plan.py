"""What a change of the table version will do, and what is in its way. Nothing here changes the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hoodie.config import versions
from hoodie.config.versions import LayoutVersion
from hoodie.errors import ConfigError, TableBusy, TableError
from hoodie.format.names import BaseFileName, LogFileName, join
from hoodie.merge import MERGERS
from hoodie.merge.settings import PAYLOAD_CLASS
from hoodie.metadata.table import EXPRESSION_INDEX, SECONDARY_INDEX, Partition
from hoodie.services.service_table import ServiceTable
from hoodie.services.upgrade.older import COMPLETE_SINCE, missing_properties
from hoodie.services.upgrade.rules import applied, changed, merges_otherwise
from hoodie.storage import FileInfo
from hoodie.table.features import Feature, check_features, features
from hoodie.table.properties import BOOTSTRAP_BASE_PATH, TableProperties, TableType
from hoodie.table.view import FileSlice, file_slices
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant
from hoodie.write.participants.metadata_table import has_metadata_table

_CANCELLED = (Action.LOGCOMPACTION, Action.CLUSTERING, Action.REPLACECOMMIT)
_SHOWN = 5


@dataclass
class Work:
    """What is done, or would be; see run.VersionResult."""

    former: int
    compacted: list[str] = field(default_factory=list)
    cleaned: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    merges_logs: bool = False
    merged_files: int = 0
    merged_bytes: int = 0
    drops_history: bool = False
    deleted_files: int = 0
    deleted_bytes: int = 0
    metadata_partitions: list[str] = field(default_factory=list)
    num_instants: int = 0
    num_archived: int = 0
    properties: dict[str, str | None] = field(default_factory=dict)
    reason: str = ""


def plan(target: ServiceTable, to: int, work: Work) -> None:
    """Sets what is to be done, as the table is now. Raises as `run.upgrade`."""
    props, timeline = target.props, target.timeline()
    check_features(props, "change", "changed in its version", Feature.OTHER_BASE_FILES, Feature.OTHER_MERGING)
    check_features(props, "change", "changed in its version", Feature.OTHER_FORMAT, Feature.UNKNOWN_PROPERTY)
    work.properties = changed_properties(target, to)
    _check_plans(target, timeline)
    work.metadata_partitions = list(props.metadata_partitions)
    if not work.metadata_partitions and has_metadata_table(target.table):
        work.metadata_partitions = [Partition.FILES.value]
    if not rewrites(work.former, to):
        return
    for instant in timeline.pending():
        {Action.COMPACTION: work.compacted, Action.CLEAN: work.cleaned}.get(
            instant.action, work.cancelled if is_plan(target, timeline, instant) else []
        ).append(str(instant.time))
    merged = list(_slices_with_logs(target))
    work.merges_logs = bool(merged)
    work.merged_files = sum(bool(item.base) + len(item.logs) for item in merged)
    work.merged_bytes = sum(item.size for item in merged)
    work.drops_history = _drops_history(target, to, work)
    if work.drops_history:
        _check_savepoints(target, timeline)
        older = list(_older_files(target))
        work.deleted_files, work.deleted_bytes = len(older), sum(item.size for item in older)
    if not changes_layout(work.former, to):
        return
    work.num_instants = len(timeline.instants)
    work.num_archived = sum(1 for _ in target.table.archive.instants())


def rewrites(former: int, to: int) -> bool:
    """Whether files or their merging differ between the versions: up to version 6 only properties do."""
    return max(former, to) > COMPLETE_SINCE


def changed_properties(target: ServiceTable, to: int) -> dict[str, str | None]:
    """The properties that change. Raises ConfigError for a table that can't be of that version here."""
    props = target.props
    if props.texts.get(BOOTSTRAP_BASE_PATH):
        raise ConfigError(
            f"table {props.name!r} was bootstrapped from other files, and its version can't be changed here; "
            "change it with Apache Hudi",
            table=props.name,
        )
    missing = missing_properties(target) if props.version < COMPLETE_SINCE else {}
    named = target.config[PAYLOAD_CLASS]
    changes = changed(props.texts, to, MERGERS.name(named) if named else None, missing)
    later = features(TableProperties(applied(props.texts, changes)))
    for feature in (Feature.OTHER_MERGING, Feature.OTHER_KEYS):
        if feature in later:
            raise ConfigError(
                f"table {props.name!r} would have {later[feature]} in version {to}, which has nothing of the "
                f"kind here; leave it at version {props.version}, or write its rows to a new table",
                table=props.name,
                version=to,
            )
    return changes


def lost_indexes(partitions: Iterable[str], to: int) -> list[str]:
    """Those of a metadata table that version `to` has not, or that need a column to be made again."""
    later = (Partition.PARTITION_STATS.value,) if versions.is_of_layout(to, LayoutVersion.ONE) else ()
    return [name for name in partitions if name.startswith((SECONDARY_INDEX, EXPRESSION_INDEX, *later))]


def _drops_history(target: ServiceTable, to: int, work: Work) -> bool:
    """Whether older slices have logs of which version `to` would make other rows."""
    if merges_otherwise(target.props.texts, work.properties):
        return next(_all_logs(target), None) is not None
    return is_to_six(work.former, to) and next(_later_logs(target), None) is not None


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


def is_plan(target: ServiceTable, timeline: Timeline, instant: Instant) -> bool:
    """Whether a pending instant is a service's that is taken off the timeline."""
    if instant.action is Action.REPLACECOMMIT:
        return timeline.clustering_plan(instant, target.storage) is not None
    return instant.action in _CANCELLED


def changes_layout(former: int, to: int) -> bool:
    """Whether the timelines of the versions lie in different places."""
    return versions.VERSIONS[former].layout is not versions.VERSIONS[to].layout


def is_to_six(former: int, to: int) -> bool:
    """Whether a table comes back to a version whose log files are named for their slice."""
    return changes_layout(former, to) and versions.is_of_layout(to, LayoutVersion.ONE)


def _slices_with_logs(target: ServiceTable) -> Iterator[FileSlice]:
    """The newest slices of which a compaction makes base files."""
    if target.props.table_type is not TableType.MERGE_ON_READ:
        return
    listing = target.table.listing()
    for partition in listing.partitions():
        for group in file_slices(target.table.view, listing.files, partition).values():
            if group[0].logs:
                yield group[0]


def _older_files(target: ServiceTable) -> Iterator[FileInfo]:
    """Files that a clean of all but the newest slices deletes, once logs are merged."""
    listing = target.table.listing()
    for partition in listing.partitions():
        slices = file_slices(target.table.view, listing.files, partition)
        kept = {group[0].base.name for group in slices.values() if group[0].base and not group[0].logs}
        for item in listing.files(partition):
            known = BaseFileName.parse(item.name) or LogFileName.parse(item.name)
            if known is not None and known.file_id in slices and item.name not in kept:
                yield item


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


def check_no_later_logs(target: ServiceTable) -> None:
    """Raises TableError for a log file that version 6 would take for a slice."""
    name = next(_later_logs(target), None)
    if name is not None:
        raise TableError(
            f"{target.base_path} has {name}, which version {COMPLETE_SINCE} would take for a file slice; run "
            "the downgrade again, or hoodie clean",
            path=name,
        )
