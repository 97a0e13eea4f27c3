"""What a rollback does with the log files of a delta commit: one class a layout (format.md 13.6, 15.10).

Layout one: a log file with nothing but blocks of the failed instant is deleted. One that holds others' blocks
too, as storages that append make them, stays: a command block in a new log file of its slice voids them.
Layout two: a log file holds the blocks of the instant in its name, and is deleted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from hoodie.config.versions import LayoutVersion
from hoodie.errors import AlreadyExists, TableError
from hoodie.format.log_block import BlockType, encode_block, rollback_headers
from hoodie.format.log_file import LogFileReader
from hoodie.format.names import BaseFileName, LogFileName, instant_time, join
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.table.listing import FileListing
from hoodie.table.markers import Marker, MarkerType, place_marker
from hoodie.table.slicing import LAYOUT_ONE, slicing_of
from hoodie.table.view import LogFile, log_files
from hoodie.timeline.commit import CommitMetadata, WriteStat
from hoodie.timeline.models.rollback import RollbackRequest
from hoodie.timeline.time import NO_TIME, InstantTime

#: token of the log files that a rollback makes (format.md 5.5)
_TOKEN = "1-0-1"

Slice = tuple[str, str, InstantTime]
#: (partition path, file id) of file groups whose logs are looked into
Groups = Collection[tuple[str, str]]
#: sizes by path
Sizes = dict[str, int]


@dataclass(frozen=True)
class Suspects:
    """Where blocks of a failed instant may be.

    `files`: log files that its markers name, relative to the table. `groups`: (partition, file id) whose logs
    are all looked into. `partitions`: where slices that the instant began are looked for. `committed`: log
    files that its commit names. `planned`: files that the rollback deletes already.
    """

    files: frozenset[str]
    groups: frozenset[tuple[str, str]]
    partitions: tuple[str, ...]
    committed: frozenset[str] = frozenset()
    planned: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, markers: Iterable[Marker], groups: Iterable[tuple[str, str]], partitions: Iterable[str]
    ) -> Suspects:
        """Before HUDI-1517 markers of logs named the slice's base file: its file group is suspect then."""
        files: set[str] = set()
        more: set[tuple[str, str]] = set()
        for marker in markers:
            if marker.type is not MarkerType.APPEND:
                continue
            partition, _, name = marker.file.rpartition("/")
            base = BaseFileName.parse(name)
            if base is None:
                files.add(marker.file)
            else:
                more.add((partition, base.file_id))
        folders = {file.rpartition("/")[0] for file in files} | {partition for partition, _ in more}
        return cls(frozenset(files), frozenset(more.union(groups)), tuple(sorted(folders.union(partitions))))


class LogUndo(Protocol):
    """How what an instant wrote to log files is taken back."""

    def plan(
        self,
        table: Table,
        instant: InstantTime,
        suspects: Suspects,
        every_group: bool = False,
        whole: bool = False,
    ) -> list[RollbackRequest]:
        """What to do with the log files of the instant; `every_group`: look into all logs of the partitions.

        `whole`: the slices that it began go with all their logs, as no commit is left that wrote any.
        """

    def plan_written(
        self, table: Table, instant: InstantTime, written: CommitMetadata
    ) -> list[RollbackRequest]:
        """The same by what the instant's own file names, before the first log file; no file is opened."""

    def void(
        self, table: Table, there: FileListing, at: InstantTime, target: InstantTime, request: RollbackRequest
    ) -> Sizes:
        """Void the target's blocks in the log files that a request names, by a rollback `at` an instant.

        `there` lists the logs of its slice. Gives the log files that this makes. Raises TableError where the
        layout has no such request.
        """

    def is_of(self, storage: Storage, path: str, instant: InstantTime) -> bool:
        """May a log file be deleted that a marker of the instant names: nobody else's blocks are in it."""

    def logs_of(
        self, table: Table, instant: InstantTime, partitions: Iterable[str], groups: Groups
    ) -> Iterator[str]:
        """Log files with blocks of this instant only, relative to the table: of slices that it began, and of
        the file groups in `groups`.
        """


def log_undo(table: Table, *, marked: bool = True) -> LogUndo:
    """That of the table's layout; `marked`: see VoidBlocks."""
    return VoidBlocks(marked) if table.store.layout.version is LayoutVersion.ONE else DeleteLogs()


@dataclass(frozen=True)
class VoidBlocks:
    """Of layout one. `marked`: log files have markers, and an instant writes once, so that one command block
    voids it. In a metadata table neither is so: a deltacommit is written again at the instant of one that was
    rolled back.
    """

    marked: bool = True

    def plan(
        self,
        table: Table,
        instant: InstantTime,
        suspects: Suspects,
        every_group: bool = False,
        whole: bool = False,
    ) -> list[RollbackRequest]:
        requests: list[RollbackRequest] = []
        shared: dict[Slice, Sizes] = {}
        listing = table.listing()
        for partition in suspects.partitions:
            for log in log_files(LAYOUT_ONE, listing.files, partition):
                path = join(partition, log.name)
                named, committed = path in suspects.files, path in suspects.committed
                began = log.slice == instant
                if not (
                    named or committed or began or every_group or (partition, log.file_id) in suspects.groups
                ):
                    continue
                if whole and began:
                    requests.append(RollbackRequest(partition, log.file_id, log.slice, (log.path,)))
                    continue
                found = Contents.of(table.storage, log.path, instant)
                if (named or began or found.mine) and found.disposable(named):
                    requests.append(RollbackRequest(partition, log.file_id, log.slice, (log.path,)))
                elif found.mine:
                    shared.setdefault((partition, log.file_id, log.slice), {})[log.name] = log.size
        for key, blocks in shared.items():
            requests.append(RollbackRequest(*key, log_blocks_to_delete=blocks))
        return sorted(
            requests, key=lambda item: (item.partition_path, item.file_id or "", item.files_to_delete)
        )

    def plan_written(
        self, table: Table, instant: InstantTime, written: CommitMetadata
    ) -> list[RollbackRequest]:
        requests: list[RollbackRequest] = []
        for partition, stats in written.partition_to_write_stats.items():
            for stat in stats:
                slice_ = _written_slice(stat)
                if stat.file_id and slice_:
                    # without a name the plan says that the file group has blocks to void
                    path = join(table.base_path, stat.path or partition)
                    blocks = {path: max(1, stat.total_write_bytes)}
                    requests.append(RollbackRequest(partition, stat.file_id, slice_, (), blocks))
        return requests

    def void(
        self, table: Table, there: FileListing, at: InstantTime, target: InstantTime, request: RollbackRequest
    ) -> Sizes:
        """Writes a command block to the request's slice, unless it is there."""
        storage, partition, file_id = table.storage, request.partition_path, request.file_id or ""
        slice_ = request.latest_base_instant or NO_TIME
        found = log_files(LAYOUT_ONE, there.files, partition)
        logs = [log for log in found if (log.file_id, log.slice) == (file_id, slice_)]
        for log in logs if self.marked else ():
            if _takes_back(storage, log.path, target):
                return {log.path: log.size}
        name = LAYOUT_ONE.new_log(file_id, slice_, at, _TOKEN, logs)
        data = b"".join(
            bytes(piece) for piece in encode_block(BlockType.COMMAND, rollback_headers(at, target))
        )
        while True:
            relative = join(partition, str(name))
            if self.marked:
                place_marker(storage, table.base_path, at, Marker(relative, MarkerType.APPEND))
            path = join(table.base_path, relative)
            with contextlib.suppress(AlreadyExists):
                self._create(storage, path, data)
                return {path: len(data)}
            name = name.following

    def is_of(self, storage: Storage, path: str, instant: InstantTime) -> bool:
        return Contents.of(storage, path, instant).disposable(named=True)

    def logs_of(
        self, table: Table, instant: InstantTime, partitions: Iterable[str], groups: Groups
    ) -> Iterator[str]:
        listing = table.listing()
        for partition in partitions:
            for log in log_files(LAYOUT_ONE, listing.files, partition):
                began = log.slice == instant
                if began or (partition, log.file_id) in groups:
                    found = Contents.of(table.storage, log.path, instant)
                    if (began or found.mine) and found.disposable(named=False):
                        yield join(partition, log.name)

    def _create(self, storage: Storage, path: str, data: bytes) -> None:
        """The file is created whole, so that a kill leaves none or all of it. In a metadata table, which
        nobody sweeps of what a kill leaves, the block may be torn, and readers pass over it.
        """
        if self.marked:
            storage.create(path, data)
            return
        sink = storage.output(path, exclusive=True)
        try:
            sink.write(data)
            sink.commit()
        except BaseException:
            sink.abandon()
            raise


class DeleteLogs:
    """Of layout two. Log files have CREATE markers there, whose files a rollback deletes as it does base
    files; `plan` finds those without.
    """

    def plan(
        self,
        table: Table,
        instant: InstantTime,
        suspects: Suspects,
        every_group: bool = False,
        whole: bool = False,
    ) -> list[RollbackRequest]:
        return [
            RollbackRequest(partition, log.file_id, instant, (log.path,))
            for partition, log in self._logs(table, instant, suspects.partitions)
            if join(partition, log.name) not in suspects.planned
        ]

    def plan_written(
        self, table: Table, instant: InstantTime, written: CommitMetadata
    ) -> list[RollbackRequest]:
        partitions = tuple(written.partition_to_write_stats)
        return self.plan(table, instant, Suspects(frozenset(), frozenset(), partitions))

    def void(
        self, table: Table, there: FileListing, at: InstantTime, target: InstantTime, request: RollbackRequest
    ) -> Sizes:
        raise TableError(
            f"the plan of rollback {at} of {table.base_path} asks for command blocks, which tables of "
            f"this version do not get; delete the plan, {at}.rollback.*, and roll {target} back again",
            instant=at,
        )

    def is_of(self, storage: Storage, path: str, instant: InstantTime) -> bool:
        name = LogFileName.parse(path.rpartition("/")[2])
        return name is not None and name.instant == instant

    def logs_of(
        self, table: Table, instant: InstantTime, partitions: Iterable[str], groups: Groups
    ) -> Iterator[str]:
        for partition, log in self._logs(table, instant, partitions):
            yield join(partition, log.name)

    def _logs(
        self, table: Table, instant: InstantTime, partitions: Iterable[str]
    ) -> Iterator[tuple[str, LogFile]]:
        listing, slicing = table.listing(), slicing_of(table.timeline)
        for partition in partitions:
            for log in sorted(log_files(slicing, listing.files, partition), key=lambda log: log.name):
                if log.instant == instant:
                    yield partition, log


@dataclass(frozen=True)
class Contents:
    """Whose blocks a log file holds: `mine` are data and deletes of one instant, `others` is all else that
    can be read. `damaged`: readers fail on its bytes (a power failure leaves such files); a torn end is no
    damage.
    """

    mine: bool = False
    others: bool = False
    damaged: bool = False

    @classmethod
    def of(cls, storage: Storage, path: str, instant: InstantTime) -> Contents:
        """Reads headers only. A file that is not there holds nothing."""
        found = {True: False, False: False}
        try:
            with LogFileReader(storage, path) as reader:
                for block in reader.blocks():
                    if block.type is not BlockType.CORRUPT:
                        found[block.type is not BlockType.COMMAND and block.instant == instant] = True
        except FileNotFoundError:
            return cls()
        except TableError:
            return cls(found[True], found[False], damaged=True)
        return cls(found[True], found[False])

    def disposable(self, named: bool) -> bool:
        """May the file be deleted? Damaged ones only where a marker of the instant has `named` them."""
        return not self.others and (named or not self.damaged)


def here(base_path: str, partition: str, path: str) -> str:
    """The plan's file in this table: plans hold absolute paths, and a copied table is elsewhere."""
    return join(base_path, partition, path.rpartition("/")[2])


def _written_slice(stat: WriteStat) -> InstantTime | None:
    """The base instant of the slice whose log was written to; None for a base file."""
    if stat.path is None:
        return None if stat.is_new_file_group else instant_time(stat.prev_commit, "prevCommit")
    name = LogFileName.parse(stat.file_name)
    return LAYOUT_ONE.slice_of(name) if name else None


def _takes_back(storage: Storage, path: str, target: InstantTime) -> bool:
    with LogFileReader(storage, path) as reader:
        return any(
            block.type is BlockType.COMMAND and block.target_instant == target for block in reader.blocks()
        )
