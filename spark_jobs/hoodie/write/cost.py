"""What a write costs in bytes, by its file-group writes: before a byte is written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hoodie.errors import TooCostly
from hoodie.write.bulk import COMPRESSION
from hoodie.write.plan import WritePlan
from hoodie.write.prepared import Prepared
from hoodie.write.settings import MAX_AMPLIFICATION
from hoodie.write.workload import FileGroupWrite


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


def keep_within_limit(rows: Prepared) -> None:
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
