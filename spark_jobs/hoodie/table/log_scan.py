"""Which blocks of a slice's logs count (format.md 8.11; Apache Hudi 0.15.0 AbstractHoodieLogRecordReader).

Headers are read, contents are not. Blocks are taken in the order of their files. One that the snapshot does
not show (its instant failed, is in flight, was rolled back, or is later than the query's) is left out; a
rollback block takes back the earlier blocks of its target; corrupt ones are counted and left out; a block of
log compaction stands in for the blocks that went into it, in the place of the newest of them.

Hudi stops at the first block later than the query's instant, which hides committed blocks behind it: those of
a writer that began earlier and ended later, and all behind the block of a rollback that got its instant after
the newest commit. Here such a block is passed over, and rollback blocks count whenever they were written.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from hoodie.format.log_block import DATA_TYPES, BlockType, LogBlock
from hoodie.format.log_file import LogFileReader
from hoodie.storage import Storage
from hoodie.table.view import FileSlice, LogFile, TimelineView

Entry = tuple[LogFile, LogBlock]


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
    """The data and delete blocks that count, oldest first."""

    queue: tuple[Entry, ...]
    statistics: LogStatistics = field(default_factory=LogStatistics)

    @property
    def content_bytes(self) -> int:
        """Bytes of the queue's contents as they are stored."""
        return sum(block.content_length for _, block in self.queue)

    @property
    def instants(self) -> tuple[str, ...]:
        """The instants of the queue's blocks, oldest first, each once."""
        return tuple(dict.fromkeys(instant_of(entry) for entry in self.queue))


def scan_slice(
    storage: Storage, file_slice: FileSlice, snapshot: TimelineView, *, from_instant: str | None = None
) -> LogScan:
    """The blocks of the slice's logs that `snapshot` shows, of instants later than `from_instant`.

    Raises TableError for a log file that is damaged beyond what can be skipped.
    """
    queue: list[Entry] = []
    seen = LogStatistics()
    for log in file_slice.logs:
        seen.files += 1
        seen.bytes += log.size
        for block in _blocks(storage, log):
            seen.blocks += 1
            entry = (log, block)
            if block.type is BlockType.CORRUPT:
                seen.corrupt_blocks += 1
            elif block.type is BlockType.COMMAND:
                seen.rollback_blocks += 1
                queue = [other for other in queue if instant_of(other) != block.target_instant]
            elif block.type is BlockType.DELETE or block.type in DATA_TYPES:
                instant = instant_of(entry)
                if snapshot.shows(instant) and (from_instant is None or instant > from_instant):
                    queue.append(entry)
    return LogScan(tuple(_with_compacted(queue)), seen)


def contents(storage: Storage, scan: LogScan) -> Iterator[tuple[Entry, bytes]]:
    """The blocks that count with their contents, oldest first, read one after the other."""
    for path, entries in itertools.groupby(scan.queue, lambda entry: entry[0].path):
        with LogFileReader(storage, path) as reader:
            for entry in entries:
                yield entry, reader.content(entry[1])


def instant_of(entry: Entry) -> str:
    """The deltacommit that wrote a block; blocks from before there were headers are their slice's."""
    log, block = entry
    return block.instant or log.base_instant


def _blocks(storage: Storage, log: LogFile) -> Iterator[LogBlock]:
    with LogFileReader(storage, log.path) as reader:
        yield from reader.blocks()


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
