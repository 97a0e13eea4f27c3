"""Are the files of a query's slices there, as long as their commits say?"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from hoodie.errors import StateUnavailable
from hoodie.format.names import join
from hoodie.metadata.queries import MetadataTableUnavailable
from hoodie.metadata.table import MetadataTable
from hoodie.read.settings import VERIFY_FILES, VERIFY_WRITTEN
from hoodie.storage import Storage
from hoodie.table.committed_files import (
    SMALLEST,
    UNKNOWN,
    CommittedFile,
    CommittedFiles,
    FileMismatch,
    refuse,
)
from hoodie.table.handle import Table
from hoodie.table.rolled_back import published_rolled_back, rolled_back_instants
from hoodie.table.view import FileSlice, Listing, TimelineView, merged_slices
from hoodie.timeline.active import Timeline
from hoodie.timeline.time import REQUESTED

#: (partition path, file id)
Groups = Collection[tuple[str, str]]
#: the query's partitions, its file groups (None: all of them), and whether it reads base files only
Asked = tuple[Collection[str], Groups | None, bool]


def sound(table: Table, snapshot: TimelineView, slices: Sequence[FileSlice], asked: Asked | None) -> bool:
    """False where files are gone that were cleaned since the timeline was loaded: look again, the table's
    timeline is listed again.

    `asked` None looks for empty base files only. Raises TableError for files that are missing or damaged.
    """
    wrong, timeline = _empty(slices), table.timeline
    if asked is not None:
        wrong += _confirmed(CommittedFiles.of(table), snapshot, slices, asked)
    if wrong and table.refresh().instants != timeline.instants:
        return False
    _refuse(timeline, table.storage, wrong, f"; {VERIFY_FILES.name}=false reads what is left")
    return True


def check_agreement(
    table: Table,
    snapshot: TimelineView,
    slices: Sequence[FileSlice],
    asked: Asked | None,
    wanted: Callable[[Sequence[str]], Sequence[str]],
) -> None:
    """Raises MetadataTableUnavailable where slices that the metadata table lists lack files that commits
    name, or have them in other sizes. None is as for `sound`; `wanted` picks the partitions that the query
    looks at.
    """
    if asked is None:
        return
    partitions, groups, bases_only = asked
    committed = CommittedFiles.of(table)
    if groups is None:
        named = committed.partitions(snapshot)
        partitions = [*partitions, *wanted(sorted(named.difference(partitions)))]
    wrong = _lacking(committed, snapshot, slices, (partitions, groups, bases_only))
    if wrong:
        raise MetadataTableUnavailable(f"it disagrees with the commits ({wrong[0]})")


@contextlib.contextmanager
def agreeing(metadata: MetadataTable | None) -> Iterator[None]:
    """Takes what is missing of a table's past for a fault of the metadata table, if that was asked."""
    try:
        yield
    except StateUnavailable as error:
        if metadata is None:
            raise
        raise MetadataTableUnavailable(error.message) from None


def check_undamaged(
    committed: CommittedFiles, snapshot: TimelineView, listing: Listing, groups: Groups
) -> None:
    """Raises TableError where latest slices of these groups lack files: what is made of the rest would stand
    for the whole, and the gap would not be seen any more.
    """
    partitions = sorted({partition for partition, _ in groups})
    slices = [item for partition in partitions for item in merged_slices(snapshot, listing, partition)]
    asked = (partitions, frozenset(groups), False)
    _refuse(committed.timeline, committed.storage, _confirmed(committed, snapshot, slices, asked))


def check_no_gaps(
    table: Table, timeline: Timeline, snapshot: TimelineView, slices: Mapping[str, Sequence[FileSlice]]
) -> None:
    """Raises TableError where the latest slices of these partitions, as they were listed, lack files. Files
    that have lost bytes say so themselves when they are opened.

    Refuses nothing where the `timeline` has changed since: the write is planned again then.
    """
    committed = CommittedFiles(timeline=timeline, storage=table.storage, properties=table.properties)
    latest = committed.latest(snapshot, frozenset(slices))
    found = committed.mismatches(latest, [item for group in slices.values() for item in group])
    wrong = [item for item in found if item.size is None]
    if not wrong or table.refresh().instants != timeline.instants:
        return
    wrong = [item for item in wrong if committed.confirms(item)]
    _refuse(timeline, table.storage, wrong, f"; {VERIFY_WRITTEN.name}=false writes on top of what is left")


def _refuse(timeline: Timeline, storage: Storage, wrong: Sequence[FileMismatch], otherwise: str = "") -> None:
    """Raises TableError for damage, and TableBusy where a process that was rolled back has published its
    commit: its files are gone, and it takes the commit back once it looks (hoodie.write.commit).
    """
    instants = {item.file.instant for item in wrong}
    if instants and instants <= rolled_back_instants(storage, timeline):
        raise published_rolled_back(timeline.base_path, min(instants, key=REQUESTED.key))
    refuse(timeline.base_path, wrong, otherwise)


def _confirmed(
    committed: CommittedFiles, snapshot: TimelineView, slices: Sequence[FileSlice], asked: Asked
) -> list[FileMismatch]:
    return [item for item in _lacking(committed, snapshot, slices, asked) if committed.confirms(item)]


def _lacking(
    committed: CommittedFiles, snapshot: TimelineView, slices: Sequence[FileSlice], asked: Asked
) -> list[FileMismatch]:
    """Files that the snapshot's commits name, and that the slices found lack. Opens no data file."""
    partitions, groups, bases_only = asked
    latest = committed.latest(snapshot, frozenset(partitions))
    if groups is not None:
        latest = {group: files for group, files in latest.items() if group in groups}
    return list(committed.mismatches(latest, slices, bases_only))


def _empty(slices: Sequence[FileSlice]) -> list[FileMismatch]:
    """Base files that are too short for Parquet, whatever wrote them."""
    bases = [item.base for item in slices if item.base is not None and item.base.size < SMALLEST]
    return [
        FileMismatch(
            CommittedFile(
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
