"""What a rollback does with the log files of a delta commit: one class a layout (format.md 13.6, 15.10).

Layout one: a log file with nothing but blocks of the failed instant is deleted. One that holds others' blocks
too, as storages that append make them, stays: a command block in a new log file of its slice voids them.
Layout two: a log file holds the blocks of the instant in its name, and is deleted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from hoodie.config.versions import LayoutVersion
from hoodie.errors import AlreadyExists, TableError
from hoodie.format.log_block import BlockType, encode_block, rollback_headers
from hoodie.format.log_file import LogFileReader
from hoodie.format.names import BaseFileName, LogFileName, join
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.table.markers import Marker, MarkerType, place_marker
from hoodie.table.slicing import LAYOUT_ONE, slicing_of
from hoodie.table.view import LogFile, log_files
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

    def void(
        self, table: Table, rollback: InstantTime, target: InstantTime, request: RollbackRequest
    ) -> tuple[Sizes, Sizes]:
        """Void the target's blocks in the log files that a request names. Gives the log files that this makes
        and those that have the blocks. Raises TableError where the layout has no such request.
        """

    def is_of(self, storage: Storage, path: str, instant: InstantTime) -> bool:
        """May a log file be deleted that a marker of the instant names: nobody else's blocks are in it."""

    def logs_of(
        self, table: Table, instant: InstantTime, partitions: Iterable[str], groups: Groups
    ) -> Iterator[str]:
        """Log files with blocks of this instant only, relative to the table: of slices that it began, and of
        the file groups in `groups`.
        """


def log_undo(table: Table) -> LogUndo:
    """That of the table's layout."""
    return VoidBlocks() if table.store.layout.version is LayoutVersion.ONE else DeleteLogs()


class VoidBlocks:
    """Of layout one."""

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

    def void(
        self, table: Table, rollback: InstantTime, target: InstantTime, request: RollbackRequest
    ) -> tuple[Sizes, Sizes]:
        path, size = self._command(table, rollback, target, request)
        found: Sizes = {}
        for log, planned in (request.log_blocks_to_delete or {}).items():
            info = table.storage.info(here(table.base_path, request.partition_path, log))
            # plans of Apache Hudi may have stubs instead of sizes
            found[log] = planned if info is None or info.is_dir else info.size
        return {path: size}, found

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

    def _command(
        self, table: Table, rollback: InstantTime, target: InstantTime, request: RollbackRequest
    ) -> tuple[str, int]:
        """Write the command block that voids the target's blocks in the request's slice, unless it is there.

        Gives path and size of its file. The file is created whole, so that a kill leaves none or all of it.
        """
        storage, partition, file_id = table.storage, request.partition_path, request.file_id or ""
        slice_ = request.latest_base_instant or NO_TIME
        logs = _slice(table, partition, file_id, slice_)
        for log in logs:
            if _takes_back(storage, log.path, target):
                return log.path, log.size
        name = LAYOUT_ONE.new_log(file_id, slice_, rollback, _TOKEN, logs)
        data = b"".join(
            bytes(piece) for piece in encode_block(BlockType.COMMAND, rollback_headers(rollback, target))
        )
        while True:
            relative = join(partition, str(name))
            place_marker(storage, table.base_path, rollback, Marker(relative, MarkerType.APPEND))
            path = join(table.base_path, relative)
            with contextlib.suppress(AlreadyExists):
                storage.create(path, data)
                return path, len(data)
            name = name.following


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

    def void(
        self, table: Table, rollback: InstantTime, target: InstantTime, request: RollbackRequest
    ) -> tuple[Sizes, Sizes]:
        raise TableError(
            f"the plan of rollback {rollback} of {table.base_path} asks for command blocks, which tables of "
            f"this version do not get; delete the plan, {rollback}.rollback.*, and roll {target} back again",
            instant=rollback,
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


def _slice(table: Table, partition: str, file_id: str, slice_: InstantTime) -> Sequence[LogFile]:
    logs = log_files(LAYOUT_ONE, table.listing().files, partition)
    return [log for log in logs if (log.file_id, log.slice) == (file_id, slice_)]


def _takes_back(storage: Storage, path: str, target: InstantTime) -> bool:
    with LogFileReader(storage, path) as reader:
        return any(
            block.type is BlockType.COMMAND and block.target_instant == target for block in reader.blocks()
        )
