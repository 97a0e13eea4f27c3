"""One instant in full: its files on the timeline, what it did to partitions and files, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hoodie.errors import HoodieError, TableError
from hoodie.format.names import LogFileName
from hoodie.serve.instants import Summaries, show
from hoodie.serve.tables import ShownTable
from hoodie.timeline.active import Timeline
from hoodie.timeline.archive.archive import ArchivedEntry
from hoodie.timeline.commit import (
    SCHEMA_KEY,
    VALIDATIONS_KEY,
    CommitMetadata,
    ReplaceCommitMetadata,
    WriteStat,
)
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, State

#: partitions and files that are listed; the totals count all
MAX_LISTED = 1000

Record = Mapping[str, Any]


@dataclass
class Contents:
    """What the page shows of an instant's metadata. `partitions` and `files` are rows for its tables."""

    facts: list[tuple[str, str]] = field(default_factory=list)
    partitions: list[dict[str, Any]] = field(default_factory=list)
    files: list[dict[str, Any]] = field(default_factory=list)
    extra_metadata: dict[str, str | None] = field(default_factory=dict)
    #: outcomes of validators
    validations: list[dict[str, Any]] = field(default_factory=list)
    schema: str | None = None
    #: nothing of it is done yet
    planned: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {
            "facts": [list(fact) for fact in self.facts],
            "partition_rows": self.partitions[:MAX_LISTED],
            "partitions_total": len(self.partitions),
            "files": self.files[:MAX_LISTED],
            "files_total": len(self.files),
            "extra_metadata": self.extra_metadata,
            "validations": self.validations[:MAX_LISTED],
            "schema": self.schema,
            "planned": self.planned,
        }


def active_details(
    table: ShownTable, summaries: Summaries, time: str, action: str | None
) -> dict[str, Any] | None:
    """An instant of the active timeline; None when there is none. `action` distinguishes those of one time.

    `problem` says what can't be read of it.
    """
    timeline = table.timeline()
    instant = _choose(timeline.instants, time, action)
    if instant is None:
        return None
    out = show(table, timeline, summaries, instant, table.beats()).to_dict()
    try:
        contents, problem = _read(table, timeline, instant), None
    except HoodieError as error:
        contents, problem = Contents(), error.message
    except FileNotFoundError:
        return None  # archived or rolled back since
    _add_completion(contents, instant)
    return {
        **out,
        **contents.to_dict(),
        "problem": problem,
        "timeline_files": _state_files(table, timeline, instant),
    }


def archived_details(
    table: ShownTable, summaries: Summaries, time: str, action: str | None
) -> dict[str, Any] | None:
    """An instant of the archived timeline. Raises as Summaries.archived does."""
    found = {item.instant: item for item in summaries.archived(table)}
    instant = _choose(list(found), time, action)
    if instant is None:
        return None
    contents, problem = Contents(), None
    try:
        for entry in table.archive.entries():
            if entry.instant == instant:
                contents = _of_entry(entry)
                break
    except TableError as error:
        problem = error.message
    _add_completion(contents, instant)
    return {**found[instant].to_dict(), **contents.to_dict(), "problem": problem, "timeline_files": []}


def _add_completion(contents: Contents, instant: Instant) -> None:
    """Where names have it: queries of a span take it as `begin` and `end` there."""
    if instant.completion is not None:
        contents.facts.append(("completion time", instant.completion))


def _choose(instants: Iterable[Instant], time: str, action: str | None) -> Instant | None:
    """A savepoint has the time of its commit, which goes first."""
    found = [i for i in instants if i.time == time and (action is None or i.action.value == action)]
    return min(found, key=lambda instant: instant.action is Action.SAVEPOINT, default=None)


def _state_files(table: ShownTable, timeline: Timeline, instant: Instant) -> list[dict[str, Any]]:
    """The instant's files on the timeline: name, size, modification time in epoch milliseconds."""
    layout = timeline.layout
    actions = {instant.action, instant.comparable_action, *layout.plans_of(instant.action)}
    states = [Instant(instant.time, action, state) for state in State for action in sorted(actions)]
    states.insert(2, Instant(instant.time, Action.COMMIT, State.INFLIGHT))
    names = [layout.name(state) for state in [*states, instant]]
    found = []
    for name in dict.fromkeys(names):
        known = layout.parse(name)
        info = (
            table.storage.info(f"{table.base_path}/{layout.folder}/{name}")
            if name in timeline.mtimes
            else None
        )
        if known is not None and info is not None and known.comparable_action is instant.comparable_action:
            found.append({"name": name, "size": info.size, "changed_ms": info.mtime_ms})
    return found


def _read(table: ShownTable, timeline: Timeline, instant: Instant) -> Contents:
    """Raises TableError, FileNotFoundError, and HoodieError without fastavro."""
    path = timeline.path(instant)
    if instant.action in COMMIT_ACTIONS and (instant.completed or instant.action is not Action.REPLACECOMMIT):
        data = table.storage.read(path)
        return _commit(timeline.parse_state(instant, data), planned=not instant.completed)
    if instant.completed:
        known = _COMPLETED.get(instant.action)
        return known[1](_record(known[0], table.storage.read(path))) if known else Contents()
    plan = _PLANS.get(instant.action)
    if plan is None:
        return Contents()
    requested = timeline.path(instant.with_state(State.REQUESTED))
    data = table.storage.read(requested)
    return plan[1](_record(plan[0], data)) if data else Contents()


def _of_entry(entry: ArchivedEntry) -> Contents:
    commit, record = entry.commit, entry.metadata
    if commit is not None:
        return _commit(commit, planned=not entry.instant.completed)
    known = (_COMPLETED if entry.instant.completed else _PLANS).get(entry.instant.action)
    return known[1](record) if known is not None and record is not None else Contents()


def _record(model: str, data: bytes) -> Record:
    from hoodie.codec.avro import read_record

    return read_record(model, data)


# What each action says ----------------------------------------------------------------------------


def _commit(commit: CommitMetadata, planned: bool) -> Contents:
    """Of an unfinished write, what it planned."""
    out = Contents(planned=planned)
    replaced: Mapping[str, tuple[str, ...]] = {}
    if isinstance(commit, ReplaceCommitMetadata):
        replaced = commit.partition_to_replace_file_ids
    for partition in sorted({*commit.partition_to_write_stats, *replaced}):
        stats = commit.partition_to_write_stats.get(partition, ())
        written = [stat for stat in stats if stat.path is not None]
        out.partitions.append(
            {
                "partition": partition,
                "inserts": sum(stat.num_inserts for stat in stats),
                "updates": sum(stat.num_update_writes for stat in stats),
                "deletes": sum(stat.num_deletes for stat in stats),
                "rows": sum(stat.num_writes for stat in stats),
                "files": len(written),
                "bytes": sum(stat.total_write_bytes for stat in stats),
                "replaced": len(replaced.get(partition, ())),
            }
        )
        out.files += [_file(partition, stat) for stat in written]
    extra = dict(commit.extra_metadata)
    out.schema = extra.pop(SCHEMA_KEY, None) or None
    out.validations = commit.validations
    if out.validations:
        del extra[VALIDATIONS_KEY]
    out.extra_metadata = extra
    errors = sum(stat.total_write_errors for stat in commit.write_stats)
    if errors:
        out.facts.append(("rows with errors", f"{errors:,}"))
    return out


def _file(partition: str, stat: WriteStat) -> dict[str, Any]:
    """`size` is the file's length after the write; of a log file only `written` bytes may be new."""
    name = stat.file_name
    return {
        "partition": partition,
        "name": name,
        "kind": "log" if LogFileName.parse(name) else "base",
        "file_group": stat.file_id,
        "rows": stat.num_writes,
        "size": stat.file_size_in_bytes,
        "written": stat.total_write_bytes,
        "previous": None if stat.is_new_file_group else stat.prev_commit,
    }


def _clean(record: Record) -> Contents:
    out = Contents(
        facts=[
            ("files deleted", f"{record['totalFilesDeleted']:,}"),
            ("kept from", record["earliestCommitToRetain"] or "the beginning"),
        ]
    )
    for partition, item in sorted(record["partitionMetadata"].items()):
        deleted, failed = item["successDeleteFiles"], item["failedDeleteFiles"]
        out.partitions.append({"partition": partition, "deleted": len(deleted), "failed": len(failed)})
    return out


def _clean_plan(record: Record) -> Contents:
    files = record.get("filePathsToBeDeletedPerPartition") or {}
    earliest = record.get("earliestInstantToRetain") or {}
    out = Contents(planned=True, facts=[("policy", record["policy"])])
    if earliest:
        out.facts.append(("keeps from", earliest["timestamp"]))
    out.partitions = [
        {"partition": partition, "deleted": len(items)} for partition, items in sorted(files.items())
    ]
    return out


def _rollback(record: Record) -> Contents:
    names = [f"{item['commitTime']} {item['action']}" for item in record.get("instantsRollback") or ()]
    out = Contents(
        facts=[
            ("rolled back", ", ".join(names or record["commitsRollback"])),
            ("files deleted", f"{record['totalFilesDeleted']:,}"),
        ]
    )
    for partition, item in sorted(record["partitionMetadata"].items()):
        deleted, failed = item["successDeleteFiles"], item["failedDeleteFiles"]
        out.partitions.append({"partition": partition, "deleted": len(deleted), "failed": len(failed)})
    return out


def _rollback_plan(record: Record) -> Contents:
    target = record["instantToRollback"] or {}
    named = f"{target.get('commitTime', '')} {target.get('action', '')}".strip()
    return Contents(planned=True, facts=[("rolls back", named or "nothing")])


def _restore(record: Record) -> Contents:
    undone = ", ".join(record["instantsToRollback"])
    return Contents(facts=[("rolled back", undone or "nothing: no commit was newer")])


def _savepoint(record: Record) -> Contents:
    facts = [("by", record["savepointedBy"]), ("comment", record["comments"])]
    out = Contents(facts=[(name, text) for name, text in facts if text])
    out.partitions = [
        {"partition": partition, "files": len(item["savepointDataFile"])}
        for partition, item in sorted(record["partitionMetadata"].items())
    ]
    return out


def _compaction_plan(record: Record) -> Contents:
    logs: dict[str, list[int]] = {}
    for item in record.get("operations") or ():
        logs.setdefault(item["partitionPath"] or "", []).append(len(item["deltaFilePaths"] or ()))
    out = Contents(planned=True, facts=[("file slices", f"{sum(map(len, logs.values())):,}")])
    out.partitions = [
        {"partition": partition, "slices": len(counts), "logs": sum(counts)}
        for partition, counts in sorted(logs.items())
    ]
    return out


def _clustering_plan(record: Record) -> Contents:
    plan = record.get("clusteringPlan") or {}
    out = Contents(planned=True, facts=[("operation", str(record.get("operationType") or "").lower())])
    slices: dict[str, int] = {}
    for group in plan.get("inputGroups") or ():
        for item in group["slices"] or ():
            partition = item["partitionPath"] or ""
            slices[partition] = slices.get(partition, 0) + 1
    out.partitions = [{"partition": name, "slices": count} for name, count in sorted(slices.items())]
    return out


_Reader = tuple[str, Callable[[Record], Contents]]
_COMPLETED: Mapping[Action, _Reader] = {
    Action.CLEAN: ("HoodieCleanMetadata", _clean),
    Action.ROLLBACK: ("HoodieRollbackMetadata", _rollback),
    Action.RESTORE: ("HoodieRestoreMetadata", _restore),
    Action.SAVEPOINT: ("HoodieSavepointMetadata", _savepoint),
}
_PLANS: Mapping[Action, _Reader] = {
    Action.CLEAN: ("HoodieCleanerPlan", _clean_plan),
    Action.ROLLBACK: ("HoodieRollbackPlan", _rollback_plan),
    Action.COMPACTION: ("HoodieCompactionPlan", _compaction_plan),
    Action.LOGCOMPACTION: ("HoodieCompactionPlan", _compaction_plan),
    Action.REPLACECOMMIT: ("HoodieRequestedReplaceMetadata", _clustering_plan),
    Action.CLUSTERING: ("HoodieRequestedReplaceMetadata", _clustering_plan),
}
