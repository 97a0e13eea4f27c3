"""The result of a write, from what its commit says, or from the plan of a dry run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Instant
from hoodie.write.assign.workload import WorkloadProfile
from hoodie.write.operation import PlannedPartition, WriteResult
from hoodie.write.plan import WritePlan
from hoodie.write.transaction import Transaction


def repairs(transactions: Sequence[Transaction]) -> dict[str, Any]:
    """The fields of a result, of a write or a service, with what its transactions repaired first."""
    return {
        "rolled_back": [time for each in transactions for time in each.rolled_back],
        "metadata_table_removed": any(each.metadata_table_removed for each in transactions),
    }


def warned(transactions: Sequence[Transaction]) -> list[str]:
    """What its transactions have to say, each once."""
    return list(dict.fromkeys(text for each in transactions for text in each.warnings))


def committed(
    plan: WritePlan,
    transactions: Sequence[Transaction],
    instant: Instant,
    metadata: CommitMetadata,
    warnings: Sequence[str],
    seconds: float,
) -> WriteResult:
    """`transactions`: those of the attempts of this write. `instant`: the commit as it was completed."""
    return WriteResult(
        status="committed",
        table=plan.table_name,
        base_path=plan.context.base_path,
        action=plan.action.value,
        instant=instant.time,
        completion=instant.incremental_time,
        operation=plan.request.operation.value,
        partitions=metadata.partitions,
        num_inserts=metadata.num_inserts,
        num_updates=metadata.num_updates,
        num_deletes=metadata.num_deletes,
        num_writes=metadata.num_writes,
        num_files=metadata.num_files,
        bytes_written=metadata.bytes_written,
        duration_s=round(seconds, 3),
        warnings=[*plan.config.warnings, *warned(transactions), *warnings],
        **repairs(transactions),
        num_missing=metadata.num_missing,
        num_replaced=metadata.num_replaced,
        num_dropped=metadata.num_dropped,
        validations=metadata.validations,
    )


def planned(
    plan: WritePlan,
    profile: WorkloadProfile,
    partitions: list[PlannedPartition],
    missing: int,
    seconds: float,
) -> WriteResult:
    """Of a dry run. `missing`: keys to delete that are not there, beside those of the profile."""
    return WriteResult(
        status="planned",
        table=plan.table_name,
        base_path=plan.context.base_path,
        action=plan.action.value,
        instant="",
        completion="",
        operation=plan.request.operation.value,
        partitions=[item.partition for item in partitions if item.files or item.replaced_groups],
        num_inserts=sum(item.inserts for item in partitions),
        num_updates=sum(item.updates for item in partitions),
        num_deletes=sum(item.deletes for item in partitions),
        num_writes=sum(item.rows for item in partitions),
        num_files=sum(item.files for item in partitions),
        bytes_written=sum(item.bytes for item in partitions),
        duration_s=round(seconds, 3),
        warnings=[*plan.config.warnings, *profile.warnings],
        num_missing=profile.missing + missing,
        num_replaced=sum(item.replaced_groups for item in partitions),
        num_dropped=profile.dropped,
        num_late=sum(item.late for item in partitions),
        dry_run=True,
        planned=partitions,
    )
