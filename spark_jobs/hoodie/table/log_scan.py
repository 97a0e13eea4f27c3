"""Which blocks of a slice's logs count (format.md 8.11; Apache Hudi 0.15.0 AbstractHoodieLogRecordReader).

The scan reads headers, and contents only if the caller needs them. It takes blocks in the order of their
files. Skipped are blocks of a failed, pending or rolled back instant, or of one later than the query's. A
rollback block voids the earlier blocks of its target. Corrupt blocks are counted and skipped. A block of log
compaction replaces the blocks that it merged, at the place of the newest of them. In layout two it is skipped
in a later slice than theirs: the base file of that slice has what they say, and what came after them.

Hudi stops at the first block later than the query's instant, which hides committed blocks after it: those of
a writer that began earlier and ended later. It also hides all blocks after a rollback block whose instant is
later than the newest commit. This scan skips only such a block itself, and rollback blocks count whatever
their instant is.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from hoodie.format.log_block import DATA_TYPES, BlockType, LogBlock
from hoodie.format.log_file import LogFileReader
from hoodie.storage import Storage
from hoodie.table.view import FileSlice, LogFile, TimelineView
from hoodie.timeline.time import REQUESTED, InstantTime

Entry = tuple[LogFile, LogBlock]
#: bytes of the contents of one slice that a reader may keep
SMALL = 8 << 20


@dataclass
class LogStatistics:
    """What a scan read, as the statistics of a compaction report it. `bytes` is the size of the log files.

    `rollback_blocks` counts command blocks, `records` rows in data blocks that were read.
    """

    files: int = 0
    bytes: int = 0
    blocks: int = 0
    corrupt_blocks: int = 0
    rollback_blocks: int = 0
    records: int = 0


@dataclass(frozen=True)
class LogScan:
    """The data and delete blocks that count, oldest first.

    `doubtful`: logs of which not every block is one that the snapshot shows. Their writers failed, or they
    were damaged since. `kept`: contents that were read with the headers, by path and offset, until they are
    taken.
    """

    queue: tuple[Entry, ...]
    statistics: LogStatistics = field(default_factory=LogStatistics)
    doubtful: tuple[LogFile, ...] = ()
    kept: dict[tuple[str, int], bytes] = field(default_factory=dict, repr=False, compare=False)

    @property
    def content_bytes(self) -> int:
        """Bytes of the queue's contents as they are stored."""
        return sum(block.content_length for _, block in self.queue)

    @property
    def instants(self) -> tuple[str, ...]:
        """The instants of the queue's blocks, oldest first, each once."""
        return tuple(dict.fromkeys(instant_of(entry) for entry in self.queue))


def scan_slice(
    storage: Storage,
    file_slice: FileSlice,
    snapshot: TimelineView,
    *,
    from_instant: str | None = None,
    keep: int = 0,
) -> LogScan:
    """The blocks of the slice's logs that `snapshot` shows, of instants later than `from_instant`. So many
    bytes of their contents, `keep`, are read with the headers, so that small logs are opened once.

    Raises TableError for a log file that is damaged beyond what can be skipped.
    """
    queue: list[Entry] = []
    doubtful: list[LogFile] = []
    kept: dict[tuple[str, int], bytes] = {}
    seen = LogStatistics()
    for log in file_slice.logs:
        seen.files += 1
        seen.bytes += log.size
        before, sound = seen.blocks, 0
        for reader, block in _blocks(storage, log):
            seen.blocks += 1
            entry = (log, block)
            if block.type is BlockType.CORRUPT:
                seen.corrupt_blocks += 1
            elif block.type is BlockType.COMMAND:
                seen.rollback_blocks += 1
                sound += block.target_instant is not None
                queue = [other for other in queue if instant_of(other) != block.target_instant]
            elif block.type is BlockType.DELETE or block.type in DATA_TYPES:
                instant = instant_of(entry)
                if snapshot.shows(instant):
                    sound += 1
                    if from_instant is None or REQUESTED.after(instant, from_instant):
                        queue.append(entry)
                        if block.content_length <= keep:
                            keep -= block.content_length
                            kept[log.path, block.offset] = reader.content(block)
        if not sound or sound < seen.blocks - before:
            doubtful.append(log)
    if snapshot.slicing.of_writes:
        there = {log.instant for log in file_slice.logs} | set(map(instant_of, queue))
        queue = [entry for entry in queue if _belongs(entry[1], there)]
    found = tuple(_with_compacted(queue))
    counting = {(log.path, block.offset) for log, block in found}
    return LogScan(found, seen, tuple(doubtful), {place: kept[place] for place in kept if place in counting})


def contents(storage: Storage, scan: LogScan) -> Iterator[tuple[Entry, bytes]]:
    """The blocks that count with their contents, oldest first, read one after the other where the scan has
    not kept them.
    """
    for path, entries in itertools.groupby(scan.queue, lambda entry: entry[0].path):
        with contextlib.ExitStack() as stack:
            reader: LogFileReader | None = None
            for entry in entries:
                content = scan.kept.pop((path, entry[1].offset), None)
                if content is None:
                    reader = reader or stack.enter_context(LogFileReader(storage, path))
                    content = reader.content(entry[1])
                yield entry, content


def instant_of(entry: Entry) -> InstantTime:
    """The deltacommit that wrote a block; blocks from before there were headers are their slice's."""
    log, block = entry
    return block.instant or log.slice


def _blocks(storage: Storage, log: LogFile) -> Iterator[tuple[LogFileReader, LogBlock]]:
    with LogFileReader(storage, log.path) as reader:
        for block in reader.blocks():
            yield reader, block


def _belongs(block: LogBlock, instants: Collection[str]) -> bool:
    """Is a block in the slice of what it merged; `instants` are those of the slice's log files, and of their
    blocks, as files from before an upgrade have other names.
    """
    merged = block.compacted_instants
    return not merged or any(instant in instants for instant in merged)


def _with_compacted(queue: list[Entry]) -> list[Entry]:
    """The queue without blocks that were merged into others, those in the place of the newest of these."""
    compacted = {instant_of(entry) for entry in queue if entry[1].compacted_instants}
    if not compacted:
        return queue
    into: dict[str, str] = {}
    for entry in reversed(queue):  # newest first, since what was merged may have been merged again
        instant = instant_of(entry)
        for merged in entry[1].compacted_instants:
            into[merged] = into.get(instant, instant)
    place: dict[str, int] = {}
    kept: list[tuple[int, Entry]] = []
    for number, entry in enumerate(queue):
        instant = instant_of(entry)
        if instant in compacted:
            place.setdefault(instant, number)
        elif instant in into:
            place[into[instant]] = number
        else:
            kept.append((number, entry))
    for entry in queue:
        instant = instant_of(entry)
        if instant in compacted and instant not in into:
            kept.append((place[instant], entry))
    return [entry for _, entry in sorted(kept, key=lambda item: item[0])]
