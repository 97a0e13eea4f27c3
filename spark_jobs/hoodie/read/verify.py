"""Are the files of a query's slices there, as long as their commits say?"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hoodie.config.key import bool_key
from hoodie.format.names import join
from hoodie.storage import Storage
from hoodie.table.properties import TableProperties
from hoodie.table.view import FileSlice, Snapshot
from hoodie.table.written import SMALLEST, UNKNOWN, WrittenFile, Wrong, confirmed, latest_written, wrong_in
from hoodie.timeline.active import Timeline

VERIFY_FILES = bool_key(
    "hoodie.read.verify.files",
    True,
    "Hold the files that a query is going to read against the commits of the active timeline, and fail where "
    "one is missing or has lost bytes; false reads what is left.",
    group="read",
)

#: (partition path, file id)
Groups = Collection[tuple[str, str]]


def lacking(
    timeline: Timeline,
    storage: Storage,
    props: TableProperties,
    snapshot: Snapshot,
    slices: Sequence[FileSlice],
    asked: tuple[Collection[str], Groups | None, bool],
) -> list[Wrong]:
    """Files that the snapshot's commits name, and that the slices found lack.

    `asked` are the query's partitions, its file groups (None: all of them), and whether it reads base files
    only. Opens no data file.
    """
    partitions, groups, bases_only = asked
    latest = latest_written(timeline, storage, snapshot, frozenset(partitions))
    if groups is not None:
        latest = {group: files for group, files in latest.items() if group in groups}
    wrong = list(wrong_in(latest, slices, bases_only))
    return [item for item in wrong if confirmed(timeline, storage, props, item)] if wrong else []


def empty(slices: Sequence[FileSlice]) -> list[Wrong]:
    """Base files that are too short for Parquet, whatever wrote them."""
    bases = [item.base for item in slices if item.base is not None and item.base.size < SMALLEST]
    return [
        Wrong(
            WrittenFile(
                base.partition,
                base.file_id,
                join(base.partition, base.name),
                base.name,
                base.instant,
                base.instant,
                False,
                UNKNOWN,
                0,
            ),
            base.size,
        )
        for base in bases
    ]
