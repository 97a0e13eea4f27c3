"""What rollbacks change in files, by their plans."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hoodie.format.names import join
from hoodie.table.handle import Table
from hoodie.timeline.models.rollback import RollbackPlan


@dataclass(frozen=True)
class RollbackReport:
    """`files` to delete, and log files of which command blocks void some blocks: paths in the table.

    `bytes` is the size of the files that are there.
    """

    partitions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    voided: tuple[str, ...] = ()
    bytes: int = 0

    @classmethod
    def of(cls, table: Table, plans: Iterable[RollbackPlan]) -> RollbackReport:
        files: set[str] = set()
        voided: set[str] = set()
        partitions: set[str] = set()
        for request in (request for plan in plans for request in plan.requests):
            partition = request.partition_path
            files.update(join(partition, _name(path)) for path in request.files_to_delete)
            voided.update(join(partition, _name(path)) for path in request.log_blocks_to_delete or ())
            partitions.add(partition)
        found = (table.storage.info(join(table.base_path, path)) for path in files)
        size = sum(item.size for item in found if item is not None)
        return cls(tuple(sorted(partitions)), tuple(sorted(files)), tuple(sorted(voided - files)), size)


def merged(works: Iterable[RollbackReport]) -> RollbackReport:
    """Of several rollbacks, each as of its own time."""
    every = list(works)
    files = {name for work in every for name in work.files}
    return RollbackReport(
        tuple(sorted({name for work in every for name in work.partitions})),
        tuple(sorted(files)),
        tuple(sorted({name for work in every for name in work.voided} - files)),
        sum(work.bytes for work in every),
    )


def _name(path: str) -> str:
    return path.rpartition("/")[2]
