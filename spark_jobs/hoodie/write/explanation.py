"""What a write would do and cost: value types, of which nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hoodie.table.pending import BusyGroups
from hoodie.timeline.instant import Action
from hoodie.timeline.time import REQUESTED
from hoodie.write.cost import WriteCost
from hoodie.write.index_costs import IndexAdvice, IndexCost
from hoodie.write.operation import PlannedPartition
from hoodie.write.plan import WritePlan
from hoodie.write.prepared import Prepared
from hoodie.write.settings import MAX_AMPLIFICATION
from hoodie.write.workload import FileGroupWrite


@dataclass(frozen=True, kw_only=True)
class PendingConflict:
    """A pending service that works on file groups which the write touches.

    groups: how many. effect: `appended` (of a compaction: updates go to logs beside it), `rolled_back` (the
    write rolls the plan back first, as its settings ask), or `refused` (so is the write).
    """

    instant: str
    action: str
    groups: int
    effect: str


@dataclass(frozen=True, kw_only=True)
class WriteExplanation:
    """What a write would do; bytes are estimates of the plan.

    partitions: what each would get. num_inserts, num_updates, num_deletes, num_missing, num_dropped: rows, as
    of a WriteResult. new_groups, rewritten_groups, appended_groups, replaced_groups: file groups that are
    made, that get a new base file, that get a log file, that go out of sight. changed_bytes: of the rows, or
    of those that a delete takes; rewritten_bytes: of stored rows that are written again; written_bytes: of
    all files that are written; write_amplification: written for each byte changed. max_write_amplification:
    the limit of the settings, 0 for none. refused: why the write would fail, "" where it would not.
    indexes: what each index needs to find the keys of these rows; index: that of the settings, "" where the
    operation looks no keys up.
    """

    table: str
    base_path: str
    operation: str
    action: str
    num_rows: int
    num_inserts: int
    num_updates: int
    num_deletes: int
    num_missing: int
    num_dropped: int
    partitions: list[PlannedPartition]
    new_groups: int
    rewritten_groups: int
    appended_groups: int
    replaced_groups: int
    changed_bytes: int
    rewritten_bytes: int
    written_bytes: int
    write_amplification: float
    max_write_amplification: float
    index: str
    indexes: list[IndexCost]
    advice: IndexAdvice
    conflicts: list[PendingConflict]
    refused: str
    duration_s: float
    warnings: list[str]
    status: str = "explained"

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def conflicts(
    busy: BusyGroups, groups: Sequence[tuple[str, str]], rolled_back: Sequence[str]
) -> list[PendingConflict]:
    """Of the (partition path, file id) that a write touches; `rolled_back`: the plans that it takes back."""
    touched: dict[tuple[str, Action], int] = {}
    for group in groups:
        if (instant := busy.get(group)) is not None:
            touched[instant.time, instant.action] = touched.get((instant.time, instant.action), 0) + 1

    def effect(time: str, action: Action) -> str:
        if action is Action.COMPACTION:
            return "appended"
        return "rolled_back" if time in rolled_back else "refused"

    return [
        PendingConflict(instant=str(time), action=action.value, groups=count, effect=effect(time, action))
        for (time, action), count in sorted(touched.items(), key=lambda item: REQUESTED.key(item[0][0]))
    ]


def explanation(
    plan: WritePlan,
    rows: Prepared,
    partitions: list[PlannedPartition],
    costs: tuple[str, list[IndexCost], IndexAdvice],
    found: list[PendingConflict],
    refused: str,
    seconds: float,
) -> WriteExplanation:
    """`costs`: the index of the settings, what each costs, the advice."""
    profile, writes = rows.profile, rows.assignment.writes
    cost = WriteCost.of(plan, writes)
    index, indexes, advice = costs
    return WriteExplanation(
        table=plan.table_name,
        base_path=plan.context.base_path,
        operation=plan.request.operation.value,
        action=plan.action.value,
        num_rows=profile.rows + profile.missing + profile.dropped,
        num_inserts=sum(item.inserts for item in partitions),
        num_updates=sum(item.updates for item in partitions),
        num_deletes=sum(item.deletes for item in partitions),
        num_missing=profile.missing,
        num_dropped=profile.dropped,
        partitions=partitions,
        new_groups=sum(write.slice is None for write in writes),
        rewritten_groups=sum(map(_rewrites, writes)),
        appended_groups=sum(write.append for write in writes),
        replaced_groups=sum(item.replaced_groups for item in partitions),
        changed_bytes=cost.changed_bytes,
        rewritten_bytes=cost.rewritten_bytes,
        written_bytes=cost.written_bytes,
        write_amplification=round(cost.amplification, 2),
        max_write_amplification=plan.config[MAX_AMPLIFICATION],
        index=index,
        indexes=indexes,
        advice=advice,
        conflicts=found,
        refused=refused,
        duration_s=round(seconds, 3),
        warnings=[*plan.config.warnings, *profile.warnings],
    )


def _rewrites(write: FileGroupWrite) -> bool:
    return write.slice is not None and not write.append
