"""The services of a table, in the order in which they run.

First what was begun and has failed is finished or undone, then what rewrites files, then the cleaner, which
takes what the others have replaced, and the archiver last, which waits for the cleaner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hoodie.engine import Engine
from hoodie.engine.local import LocalEngine
from hoodie.format.names import join
from hoodie.progress import ProgressCallback, silent
from hoodie.services.archive import policy as archive_policy
from hoodie.services.archive.run import archive
from hoodie.services.archive.settings import MAX_COMMITS as ARCHIVE_MAX_COMMITS
from hoodie.services.clean.policy import Retention
from hoodie.services.clean.run import clean
from hoodie.services.clustering import trigger as clustering_trigger
from hoodie.services.clustering.run import ClusteringResult, cluster
from hoodie.services.clustering.settings import ASYNC as CLUSTER_ASYNC
from hoodie.services.clustering.settings import INLINE as CLUSTER_INLINE
from hoodie.services.clustering.settings import SCHEDULE_INLINE as CLUSTER_SCHEDULE_INLINE
from hoodie.services.compaction import trigger as compaction_trigger
from hoodie.services.compaction.run import CompactionResult, compact
from hoodie.services.planner.repair import finish_restore, repair
from hoodie.services.request import PlannedRequest, Request, RewriteRequest
from hoodie.services.results import ServiceResult
from hoodie.services.service_table import ServiceTable
from hoodie.table.properties import TableType
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action


@dataclass(frozen=True)
class Call:
    """What a service is called with. `engine` makes one when there is work for it: Spark starts slowly."""

    path: str
    options: Mapping[str, Any]
    dry_run: bool
    progress: ProgressCallback = silent
    engine: Callable[[], Engine] = LocalEngine
    extra_metadata: Mapping[str, str] = field(default_factory=dict)

    def rewrite(self, dry_run: bool) -> RewriteRequest:
        return RewriteRequest(
            table=self.path,
            options=self.options,
            dry_run=dry_run,
            progress=self.progress,
            extra_metadata=self.extra_metadata,
            engine=self.engine,
        )


@dataclass(frozen=True)
class Work:
    """What a result tells of work done or planned, `text` for people, in the infinitive."""

    text: str
    num_files: int
    bytes: int
    instants: list[str] = field(default_factory=list)


def _nothing(*_: Any) -> str:
    return ""


@dataclass(frozen=True)
class Service:
    """One line of the registry.

    run: the service, or its dry run. work: what a result's dict says. why: for people, on which numbers it
    depends whether it is due. actions: whose pending instants it finishes. not_for: why a table never needs
    it, "" where it may. unasked: why it runs only by its name, although the table might take it; "" where it
    needs no asking.
    """

    name: str
    run: Callable[[Call], ServiceResult]
    work: Callable[[ServiceTable, Mapping[str, Any]], Work]
    why: Callable[[ServiceTable, Timeline], str]
    actions: frozenset[Action] = frozenset()
    not_for: Callable[[ServiceTable], str] = _nothing
    unasked: Callable[[ServiceTable], str] = _nothing


def _restore(call: Call) -> ServiceResult:
    return finish_restore(call.path, call.options, call.dry_run, call.progress)


def _restore_work(target: ServiceTable, result: Mapping[str, Any]) -> Work:
    undone = [item["instant"] for item in result["undone"]]
    text = f"take the table back to {result['restored_to']}, {_count(len(undone), 'instant')}"
    return Work(text, result["num_files"], result["bytes"], undone)


def _repair(call: Call) -> ServiceResult:
    return repair(call.path, call.options, call.dry_run, call.progress)


def _repair_work(target: ServiceTable, result: Mapping[str, Any]) -> Work:
    failed = [item["instant"] for item in result["failed"]]
    parts = [f"roll back {_count(len(failed), 'failed write')}"] if failed else []
    left = [_count(len(result[name]), name[:-1]) for name in ("markers", "heartbeats") if result[name]]
    parts += [f"sweep what is left of {' and '.join(left)}"] if left else []
    return Work(", ".join(parts), result["num_files"], result["bytes"], failed)


def _compact(call: Call) -> CompactionResult:
    planned = compact(call.rewrite(dry_run=True))
    if call.dry_run or planned.status == "skipped":
        return planned
    return compact(call.rewrite(dry_run=False))


def _compact_work(target: ServiceTable, result: Mapping[str, Any]) -> Work:
    logs, slices = result["num_log_files"], result["num_slices"]
    text = f"merge {_count(logs, 'log file')} of {_count(slices, 'file slice')}" if slices else ""
    return Work(text, logs, result["log_bytes"], [instant for instant in result["files"] if instant])


def _compact_why(target: ServiceTable, timeline: Timeline) -> str:
    return compaction_trigger.due(timeline, target.config, target.next_time(timeline)).reason


def _no_logs(target: ServiceTable) -> str:
    if target.props.table_type is TableType.MERGE_ON_READ:
        return ""
    return f"a {target.props.table_type.value} table has no logs"


def _cluster(call: Call) -> ClusteringResult:
    planned = cluster(call.rewrite(dry_run=True))
    if call.dry_run or planned.status == "skipped":
        return planned
    return cluster(call.rewrite(dry_run=False))


def _cluster_work(target: ServiceTable, result: Mapping[str, Any]) -> Work:
    text = f"rewrite {_count(result['num_replaced'], 'file group')} as {result['num_outputs']}"
    storage, base_path = target.storage, target.base_path
    files = [join(base_path, file) for group in result["files"].values() for file in group]
    read = sum(info.size for info in map(storage.info, files) if info)
    return Work(text, len(files), read, [instant for instant in result["files"] if instant])


def _cluster_why(target: ServiceTable, timeline: Timeline) -> str:
    return clustering_trigger.due(timeline, target.storage, target.config).reason


def _unasked_clustering(target: ServiceTable) -> str:
    """It rewrites a whole table, which not every table wants."""
    switches = (CLUSTER_INLINE, CLUSTER_SCHEDULE_INLINE, CLUSTER_ASYNC)
    if any(target.config[switch] for switch in switches):
        return ""
    return f"nobody asks for it: name the service, or set {CLUSTER_ASYNC.name}"


def _clean(call: Call) -> ServiceResult:
    return clean(
        PlannedRequest(table=call.path, options=call.options, dry_run=call.dry_run, progress=call.progress)
    )


def _clean_work(target: ServiceTable, result: Mapping[str, Any]) -> Work:
    files, partitions = result["num_files"], len(result["partitions"])
    text = f"delete {_count(files, 'file')} in {_count(partitions, 'partition')}" if files else ""
    return Work(text, files, result["bytes"], [instant for instant in result["files"] if instant])


def _clean_why(target: ServiceTable, timeline: Timeline) -> str:
    return Retention.of(target.config, 0, target.props.timeline_utc).text


def _archive(call: Call) -> ServiceResult:
    return archive(
        Request(table=call.path, options=call.options, dry_run=call.dry_run, progress=call.progress)
    )


def _archive_work(target: ServiceTable, result: Mapping[str, Any]) -> Work:
    instants = [item["instant"] for item in result["archived"]]
    text = "mend archive files" if result["mended"] else "merge archive files"
    text = f"archive {_count(len(instants), 'instant')}" if instants else text
    return Work(text, result["num_files"], result["bytes"], instants)


def _archive_why(target: ServiceTable, timeline: Timeline) -> str:
    return archive_policy.counts(timeline, target.config[ARCHIVE_MAX_COMMITS])


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


SERVICES = (
    Service("restore", _restore, _restore_work, _nothing, frozenset({Action.RESTORE})),
    Service("repair", _repair, _repair_work, _nothing),
    Service(
        "compaction",
        _compact,
        _compact_work,
        _compact_why,
        frozenset({Action.COMPACTION}),
        not_for=_no_logs,
    ),
    Service(
        "clustering",
        _cluster,
        _cluster_work,
        _cluster_why,
        frozenset({Action.REPLACECOMMIT}),
        unasked=_unasked_clustering,
    ),
    Service("clean", _clean, _clean_work, _clean_why, frozenset({Action.CLEAN})),
    Service("archive", _archive, _archive_work, _archive_why),
)
NAMES = tuple(service.name for service in SERVICES)
