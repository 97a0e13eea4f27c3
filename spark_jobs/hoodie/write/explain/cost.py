"""What a write costs in bytes, by its file-group writes: before a byte is written.

What a write would do, as its first pass found: the answer of a dry run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from hoodie.config.cores import usable_cores
from hoodie.errors import TooCostly
from hoodie.format.meta_fields import RECORD_KEY, with_meta, without_meta
from hoodie.read.file_slice import read_slice
from hoodie.read.log_merge import SliceContext
from hoodie.read.log_merger import table_merger
from hoodie.table.handle import Table
from hoodie.table.skeleton import open_base
from hoodie.table.view import FileSlice
from hoodie.write.assign.bulk_insert import COMPRESSION
from hoodie.write.assign.workload import FileGroupWrite, WorkloadProfile
from hoodie.write.files.rehearsal import Effect, GroupCount
from hoodie.write.input.write_input import WriteInput
from hoodie.write.operation import PlannedPartition
from hoodie.write.plan import WritePlan
from hoodie.write.settings import MAX_AMPLIFICATION


@dataclass(frozen=True, kw_only=True)
class WriteCost:
    """About the bytes of a write.

    changed_bytes: of its rows as files will contain them; of a delete, of the rows that go. new_bytes: what
    these rows add to files. rewritten_bytes: of the base files whose other rows are written again.
    """

    changed_bytes: int
    new_bytes: int
    rewritten_bytes: int

    @classmethod
    def of(cls, plan: WritePlan, writes: Iterable[FileGroupWrite]) -> WriteCost:
        changed = new = rewritten = 0
        for write in writes:
            new += new_bytes(write)
            rewritten += rewritten_bytes(write)
            brings = plan.context.operation.brings_rows
            changed += new_bytes(write) if brings else write.rows * plan.record_size
        return cls(changed_bytes=changed, new_bytes=new, rewritten_bytes=rewritten)

    @property
    def written_bytes(self) -> int:
        return self.new_bytes + self.rewritten_bytes

    @property
    def amplification(self) -> float:
        """Bytes written for each byte that changes; 1 where no base file is rewritten."""
        if not self.rewritten_bytes:
            return 1.0
        return self.written_bytes / max(1, self.changed_bytes)


def new_bytes(write: FileGroupWrite) -> int:
    """About what the rows of a write add to its file; logs are not compressed."""
    return write.bytes if write.append else write.bytes // COMPRESSION


def rewritten_bytes(write: FileGroupWrite) -> int:
    return 0 if write.append or write.base is None else write.base.size


def keep_within_limit(rows: WriteInput) -> None:
    """Plan a write that costs no more than the settings allow. Raises TooCostly where there is none.

    Where updates are appended to logs only the inserts that fill small files rewrite any: they get new files
    instead.
    """
    plan = rows.plan
    limit = plan.config[MAX_AMPLIFICATION]
    if not limit:
        return
    cost = WriteCost.of(plan, rows.assignment.writes)
    if cost.amplification > limit and plan.context.logs is not None:
        rows.profile.packs = False
        cost = WriteCost.of(plan, rows.assignment.writes)
    if cost.amplification > limit:
        raise TooCostly(
            f"the write would write about {cost.written_bytes:,} bytes to change {cost.changed_bytes:,}, "
            f"{cost.amplification:,.1f} for each, and {MAX_AMPLIFICATION.name} is {limit:g}; nothing was "
            "written. Collect more rows for one write, raise the limit, or keep the rows in a MERGE_ON_READ "
            "table, which appends them to logs (`hoodie explain` shows the file groups)",
            amplification=round(cost.amplification, 1),
            limit=limit,
            written_bytes=cost.written_bytes,
            changed_bytes=cost.changed_bytes,
        )


def planned_partitions(
    table: Table,
    plan: WritePlan,
    profile: WorkloadProfile,
    writes: Sequence[FileGroupWrite],
    groups: Sequence[GroupCount],
) -> list[PlannedPartition]:
    """By partition path. `groups`: what the write does to each file group. Counts the rows that are replaced,
    by the footers of base files, or, of slices with logs, by reading them; nothing is written.
    """
    totals: defaultdict[str, Counter[str]] = defaultdict(Counter)
    untouched = {(group.partition, group.file_id) for group in groups if group.effect is Effect.NOTHING}
    for group in groups:
        total = totals[group.partition]
        for name in ("inserts", "updates", "deletes", "late", "rows", "compared"):
            total[name] += getattr(group, name)
        total["files"] += group.effect is not Effect.NOTHING
    for write in writes:
        no_file = write.slice is None and not plan.context.operation.brings_rows
        if not no_file and (write.partition, write.file_id) not in untouched:
            totals[write.partition]["bytes"] += new_bytes(write) + rewritten_bytes(write)
    replaced = _rows(table, plan, [found for group in profile.replaced.values() for found in group])
    return [
        PlannedPartition(
            partition,
            replaced_groups=len(profile.replaced.get(partition, ())),
            replaced_rows=replaced[partition],
            replaced_bytes=sum(found.size for found in profile.replaced.get(partition, ())),
            **totals[partition],
        )
        for partition in sorted({*_changed(totals), *profile.replaced})
    ]


def _changed(totals: Mapping[str, Counter[str]]) -> list[str]:
    """The partitions with a new file, or with late rows alone."""
    return [partition for partition, total in totals.items() if total["files"] or total["late"]]


def _rows(table: Table, plan: WritePlan, slices: Sequence[FileSlice]) -> Counter[str]:
    """Rows that queries find in the slices, by partition."""
    context = _reading(table, plan) if any(found.logs for found in slices) else None

    def count(found: FileSlice) -> tuple[str, int]:
        if found.logs and context is not None:
            rows = read_slice(table.storage, found, context, [RECORD_KEY])
            return found.partition, sum(some.num_rows for some in rows)
        if found.base is None:
            return found.partition, 0
        with open_base(table.storage, found.base, None) as reader:
            return found.partition, reader.rows

    total = Counter[str]()
    with ThreadPoolExecutor(usable_cores()) as pool:
        for partition, rows in pool.map(count, slices):
            total[partition] += rows
    return total


def _reading(table: Table, plan: WritePlan) -> SliceContext:
    """As queries read the table: a write without rows has a schema of its own."""
    columns = without_meta(plan.table_schema.columns or plan.context.schema)
    merger = table_merger(table.properties, plan.config, columns)
    return replace(
        plan.context.slices,
        schema=with_meta(columns),
        merger=merger,
        ordering=table.properties.precombine_field,
    )
