"""Pending compaction plans, executed: ours and Apache Hudi's, while writers go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hoodie.engine import Engine
from hoodie.errors import ConfigError, JobError, TableError
from hoodie.format.base_file import BaseFileFormat
from hoodie.format.meta_fields import OPERATION as OPERATION_COLUMN
from hoodie.format.meta_fields import with_meta, without_meta
from hoodie.format.schema import from_avro, record_full_name, to_avro_text
from hoodie.read.log_merge import SliceContext
from hoodie.read.spill import MERGE_BUDGET, SPILL_PATH
from hoodie.read.table_view import table_merger
from hoodie.services.compaction.task import CompactionContext, CompactSlices
from hoodie.services.target import Target
from hoodie.table.features import ROWS, refuse
from hoodie.table.properties import TableType
from hoodie.table.table_schema import schema_text
from hoodie.table.view import Snapshot
from hoodie.timeline.active import Timeline, instant_path
from hoodie.timeline.commit import SCHEMA_KEY, CommitMetadata, WriteStat
from hoodie.timeline.compaction_plan import CompactionPlan
from hoodie.timeline.instant import Action, Instant, State
from hoodie.write.staged import ERROR, STAGED_SCHEMA, SUMMARY, raise_errors
from hoodie.write.transaction import Transaction

#: Hudi's WriteOperationType of a compaction
OPERATION = "COMPACT"


@dataclass(frozen=True)
class Executed:
    """One compaction that was completed."""

    instant: str
    plan: CompactionPlan
    metadata: CommitMetadata
    rolled_back: list[str] = field(default_factory=list)
    metadata_table_removed: bool = False


def check(target: Target) -> None:
    """Raises ConfigError for a table that can't be compacted, or not by us."""
    props = target.props
    if props.table_type is not TableType.MERGE_ON_READ:
        raise ConfigError(
            f"table {props.name!r} is {props.table_type.value}, which has no logs to compact; compaction is "
            f"for {TableType.MERGE_ON_READ.value} tables",
            table=props.name,
        )
    refuse(props, "compact", "compacted", *ROWS)


def pending(timeline: Timeline) -> list[Instant]:
    """Compactions to execute, oldest first."""
    return timeline.filter([Action.COMPACTION], completed=False)


def execute(
    engine: Engine, target: Target, instant: Instant, progress: Callable[[str, str], None]
) -> Executed:
    """Run a pending compaction to its commit, beginning anew where an earlier run failed.

    Raises ConflictError while another process executes it or when it has been completed; an error leaves the
    plan pending and no new file.
    """
    storage, base_path = target.storage, target.base_path
    plan = read_plan(target, instant)
    with Transaction(storage, base_path, target.config, target.props.timeline_utc) as transaction:
        transaction.resume(instant, plan.partitions)
        context = _context(target, instant.time)
        logs = sum(len(operation.log_files) for operation in plan.operations)
        progress("compact", f"instant {instant.time}: {len(plan.operations)} file slices, {logs} log files")
        stats = _stats(engine, CompactSlices(context, plan.operations))
        progress("commit", f"instant {instant.time}")
        extra = {**(plan.extra_metadata or {}), **target.extra, SCHEMA_KEY: context.avro_schema}
        metadata = transaction.commit(stats, OPERATION, extra)
        return Executed(
            instant.time,
            plan,
            metadata,
            list(transaction.rolled_back),
            transaction.metadata_table_removed,
        )


def read_plan(target: Target, instant: Instant) -> CompactionPlan:
    """Raises TableError for a plan that is torn or gone."""
    path = instant_path(target.base_path, instant.with_state(State.REQUESTED))
    try:
        return CompactionPlan.from_bytes(target.storage.read(path))
    except FileNotFoundError:
        raise TableError(
            f"compaction {instant.time} has no plan: {path} is missing; restore it, or roll the compaction "
            "back with Apache Hudi",
            path=path,
        ) from None


def _context(target: Target, instant: str) -> CompactionContext:
    config, timeline = target.config, target.timeline()
    text = schema_text(timeline, target.storage, target.props)
    if text is None:
        raise TableError(f"no commit of {target.base_path} tells the table's schema", path=target.base_path)
    stored = from_avro(text)
    if OPERATION_COLUMN in stored.names:
        raise TableError(
            f"{target.base_path} keeps a change log ({OPERATION_COLUMN}), which is not supported; compact it "
            "with Apache Hudi",
            path=target.base_path,
        )
    schema = without_meta(stored)
    slices = SliceContext(
        schema=with_meta(schema),
        snapshot=Snapshot.of(timeline, target.storage),
        merger=table_merger(target.props, config, schema),
        ordering=target.props.precombine_field,
        budget=config[MERGE_BUDGET],
        spill_path=config[SPILL_PATH] or "",
    )
    avro_schema = to_avro_text(schema, target.props.name, full_name=record_full_name(text))
    return CompactionContext(target.base_path, instant, avro_schema, BaseFileFormat.of(config), slices)


def _stats(engine: Engine, task: CompactSlices) -> dict[str, list[WriteStat]]:
    """One slice a task; write statistics by partition."""
    stats: dict[str, list[WriteStat]] = {}
    count = len(task.operations)
    if not count:
        return stats
    frame = engine.map_batches(engine.tasks(count), task, STAGED_SCHEMA)
    answers = raise_errors(engine.collect(frame, (SUMMARY, ERROR)))
    if len(answers) != count:
        raise JobError(
            f"{count} file slices were to be compacted, {len(answers)} tasks answered", slices=count
        )
    for answer in answers:
        stat = WriteStat.from_dict(answer)
        stats.setdefault(stat.partition_path or "", []).append(stat)
    return stats
