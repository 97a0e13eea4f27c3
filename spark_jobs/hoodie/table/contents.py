"""Data files opened and read: the pages of base files, the blocks of logs (`hoodie doctor --deep`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from hoodie.config.cores import usable_cores
from hoodie.errors import HoodieError
from hoodie.format.log_block import DATA_TYPES, BlockType, LogBlock
from hoodie.format.log_data import read_data_block, read_delete_block
from hoodie.format.log_file import LogFileReader
from hoodie.format.names import join
from hoodie.storage import Storage
from hoodie.table.committed_files import CommittedFile, CommittedFiles
from hoodie.table.handle import Table
from hoodie.table.skeleton import open_base
from hoodie.table.view import BaseFile, FileSlice, LogFile, TimelineView, file_slices

#: columns in the types that their files have
_NO_SCHEMA = pa.schema([])
#: how much a finding weighs: rows are lost, an older version is, nothing is
LOST, OLD, NOTHING = 2, 1, 0
#: (weight, text)
Finding = tuple[int, str]


@dataclass(frozen=True)
class Contents:
    """How many files were opened, and what is wrong with them, the worst first."""

    bases: int
    logs: int
    findings: Sequence[Finding]


def check_contents(table: Table) -> Contents:
    """Opens every committed data file. Of the latest slices all pages and blocks are decoded, of older ones
    the footers are. Memory: a batch of rows, or a block, for each core.
    """
    snapshot, storage, listing = table.view, table.storage, table.listing()
    appends = _appends(CommittedFiles.of(table))
    partial = table.properties.merge_rule.by_mode
    work: list[tuple[FileSlice, bool]] = []
    for partition in listing.partitions():
        for group in file_slices(snapshot, listing.files, partition).values():
            latest = next((number for number, item in enumerate(group) if item.base), len(group))
            work += [(item, number <= latest) for number, item in enumerate(group)]

    def look(job: tuple[FileSlice, bool]) -> list[Finding]:
        item, latest = job
        found = list(_base(storage, item.base, latest)) if item.base else []
        for log in item.logs if latest else ():
            parts = appends.get(join(log.partition, log.name), ())
            found += _log(storage, log, parts, snapshot, partial)
        return found

    with ThreadPoolExecutor(usable_cores()) as pool:
        findings = [finding for group in pool.map(look, work) for finding in group]
    bases = sum(item.base is not None for item, _ in work)
    logs = sum(len(item.logs) for item, latest in work if latest)
    return Contents(bases, logs, sorted(findings, key=lambda finding: -finding[0]))


def _appends(committed: CommittedFiles) -> Mapping[str, Sequence[CommittedFile]]:
    """What commits added to which log file, by path."""
    appends: dict[str, list[CommittedFile]] = {}
    for file in committed.all():
        if file.log:
            appends.setdefault(file.path, []).append(file)
    return appends


def _base(storage: Storage, base: BaseFile, pages: bool) -> Iterator[Finding]:
    try:
        with open_base(storage, base, _NO_SCHEMA) as reader:
            for _ in reader.batches() if pages else ():
                pass
    except HoodieError as error:
        yield LOST if pages else OLD, error.message


def _log(
    storage: Storage, log: LogFile, parts: Sequence[CommittedFile], snapshot: TimelineView, partial: bool
) -> Iterator[Finding]:
    """A corrupt block hides rows where a commit wrote it; else a failed writer left it: no row is lost.
    `partial`: the table's rows merge by a mode, so that blocks may have changed columns only.
    """
    try:
        with LogFileReader(storage, log.path) as reader:
            for block in reader.blocks():
                if block.type is BlockType.CORRUPT:
                    yield _corrupt(log, block, parts)
                elif snapshot.shows(block.instant or log.slice):
                    _decode(reader, block, partial)
    except FileNotFoundError:
        return
    except HoodieError as error:
        writers = ", ".join(sorted({str(part.instant) for part in parts})) or "archived commits"
        yield LOST, f"log file {log.path}, written by {writers}: {error.message}"


def _corrupt(log: LogFile, block: LogBlock, parts: Sequence[CommittedFile]) -> Finding:
    where = f"{block.length} bytes at {block.offset} of log file {log.path} are no block"
    end = block.offset + block.length
    hit = [part.instant for part in parts if part.offset < end and block.offset < part.size]
    if hit:
        return LOST, f"{where}: rows that {hit[0]} wrote are hidden"
    if not parts:
        return OLD, f"{where}: rows of an archived commit may be hidden"
    return NOTHING, f"{where}: what a writer left that failed"


def _decode(reader: LogFileReader, block: LogBlock, partial: bool) -> None:
    if block.type is BlockType.DELETE:
        read_delete_block(reader.content(block))
    elif block.type in DATA_TYPES:
        read_data_block(block, reader.content(block), partial=partial)
