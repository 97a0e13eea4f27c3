"""What a write reads and changes, as the check of conflicts among writers at once needs it
(concurrency.conflict_resolution).
"""

from __future__ import annotations

from hoodie.concurrency.conflict_resolution import ConflictChecker
from hoodie.concurrency.read_set import ReadSet
from hoodie.concurrency.settings import NEW_KEYS
from hoodie.index import PlacingIndex, Scope
from hoodie.table.handle import Table
from hoodie.timeline.commit import SCHEMA_KEY
from hoodie.write.assign.workload import WorkloadProfile
from hoodie.write.operation import Operation
from hoodie.write.plan import WritePlan
from hoodie.write.settings import PARTITIONS_TO_DELETE


def conflict_checker(table: Table, plan: WritePlan, profile: WorkloadProfile) -> ConflictChecker:
    """The checker of one attempt at a write, before it takes its instant."""
    context = plan.context
    operation = context.operation
    replaced = {(partition, name) for partition, names in profile.replaced_ids.items() for name in names}
    listed: dict[str, dict[str, str]] = {partition: {} for partition in (*profile.listed, *profile.absent)}
    for partition, slices in (*profile.slices.items(), *profile.replaced.items()):
        found = {
            item.file_id: item.instant if item.base is None else item.base.instant
            for item in slices
            if item.base is not None or not context.looks_up
        }
        listed.setdefault(partition, {}).update(found)
    return ConflictChecker(
        table,
        begin=plan.timeline,
        planned={group for group in profile.changed if group[1]} | replaced,
        listed=listed,
        whole=operation is Operation.INSERT_OVERWRITE_TABLE,
        bucket_number=context.index.number if isinstance(context.index, PlacingIndex) else None,
        schema=plan.extra_metadata[SCHEMA_KEY],
        token=plan.request.token,
        new_keys=plan.config[NEW_KEYS]
        and (context.looks_up or (operation.replaces and operation.brings_rows)),
        reads=_read_set(plan, profile),
    )


def _read_set(plan: WritePlan, profile: WorkloadProfile) -> ReadSet:
    context, derived = plan.context, plan.request.derived
    operation = context.operation
    deleted = operation is Operation.DELETE_PARTITION
    asked = (plan.request.partitions or plan.config[PARTITIONS_TO_DELETE] or ()) if deleted else ()
    keys_missed = profile.missing and not isinstance(context.index, PlacingIndex)
    of_statement = derived is not None and derived.read is not None
    return ReadSet(
        table=of_statement or operation is Operation.INSERT_OVERWRITE_TABLE,
        derived=of_statement,
        replaced=frozenset(
            {*profile.replaced, *profile.absent, *profile.partitions} if operation.replaces else ()
        ),
        patterns=tuple(name for name in asked if "*" in name),
        missed=frozenset(profile.listed if keys_missed else ()),
        excluding=frozenset(profile.dropped_in),
        new={place: rows for (place, file_id), (rows, _) in profile.groups.items() if not file_id}
        if context.tags and context.looks_up
        else {},
        everywhere=context.index is not None and context.index.scope is Scope.TABLE,
    )
