"""The log files of a failed delta commit (format.md 13.6): which are deleted, and which get a command block.

A log file with nothing but blocks of the failed instant is deleted. One that holds others' blocks too, as
storages that append make them, stays: a command block in a new log file of its slice takes the blocks back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hoodie.errors import AlreadyExists
from hoodie.format.log_block import BlockType, encode_block, rollback_headers
from hoodie.format.log_file import LogFileReader
from hoodie.format.names import BaseFileName, join
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.table.markers import Marker, MarkerType, place_marker
from hoodie.table.slicing import Slicing, slicing_of
from hoodie.table.view import LogFile, log_files
from hoodie.timeline.models.rollback import RollbackRequest
from hoodie.timeline.time import NO_TIME, InstantTime
from hoodie.write.reconcile import Contents

#: token of the log files that a rollback makes (format.md 5.5)
_TOKEN = "1-0-1"

Slice = tuple[str, str, InstantTime]


@dataclass(frozen=True)
class Suspects:
    """Where blocks of a failed instant may be.

    `files`: log files that its markers name, relative to the table. `groups`: (partition, file id) whose logs
    are all looked into. `partitions`: where slices that the instant began are looked for. `committed`: log
    files that its commit names.
    """

    files: frozenset[str]
    groups: frozenset[tuple[str, str]]
    partitions: tuple[str, ...]
    committed: frozenset[str] = frozenset()

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


def plan_logs(
    table: Table,
    instant: InstantTime,
    suspects: Suspects,
    every_group: bool = False,
    whole: bool = False,
) -> list[RollbackRequest]:
    """What to do with the log files of the instant; `every_group`: look into all logs of the partitions.

    `whole`: the slices that it began go with all their logs, as no commit is left that wrote any.
    """
    requests: list[RollbackRequest] = []
    shared: dict[Slice, dict[str, int]] = {}
    listing, slicing = table.listing(), slicing_of(table.timeline)
    for partition in suspects.partitions:
        for log in log_files(slicing, listing.files, partition):
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
    return sorted(requests, key=lambda item: (item.partition_path, item.file_id or "", item.files_to_delete))


def void_blocks(
    table: Table, rollback: InstantTime, target: InstantTime, request: RollbackRequest
) -> tuple[str, int]:
    """Write the command block that takes back the target's blocks in the request's slice, unless it is there.

    Gives path and size of its file. The file is created whole, so that a kill leaves none or all of it.
    """
    storage, partition, file_id = table.storage, request.partition_path, request.file_id or ""
    slicing, slice_ = slicing_of(table.timeline), request.latest_base_instant or NO_TIME
    logs = _slice(table, slicing, partition, (file_id, slice_))
    for log in logs:
        if _takes_back(storage, log.path, target):
            return log.path, log.size
    name = slicing.new_log(file_id, slice_, rollback, _TOKEN, logs)
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


def _slice(
    table: Table, slicing: Slicing, partition: str, slice_: tuple[str, InstantTime]
) -> Sequence[LogFile]:
    logs = log_files(slicing, table.listing().files, partition)
    return [log for log in logs if (log.file_id, log.slice) == slice_]


def _takes_back(storage: Storage, path: str, target: InstantTime) -> bool:
    with LogFileReader(storage, path) as reader:
        return any(
            block.type is BlockType.COMMAND and block.target_instant == target for block in reader.blocks()
        )
