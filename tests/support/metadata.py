"""What metadata tables say, beside the folders themselves."""

from __future__ import annotations

from pathlib import Path

from hoodie.format.log_file import LogFileReader
from hoodie.format.names import LogFileName
from hoodie.metadata.files import MetadataListing
from hoodie.metadata.table import MetadataTable
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table
from hoodie.table.listing import FileListing
from hoodie.table.view import FileSlice, TimelineView, file_slices, merged_slices

STORAGE = LocalStorage()
KEPT = {"hoodie.metadata.enable": "true"}


def has_metadata_table(path: str | Path) -> bool:
    return MetadataTable.open(Table.open(str(path))) is not None


def files_of(snapshot: TimelineView, listing: FileListing, partition: str) -> dict[str, int]:
    """The sizes of the files of all committed slices, by path."""
    groups = file_slices(snapshot, listing.files, partition).values()
    return _sizes([item for group in groups for item in group])


def misled(path: str | Path) -> list[str]:
    """How readers of the newest rows see other files by the metadata table than by the folders: never."""
    return _differences(path, settled=False)


def disagreements(path: str | Path) -> list[str]:
    """Also what readers of older commits see, and files that are listed and not there: nothing of it once no
    writer or service is at work.
    """
    return _differences(path, settled=True)


def _differences(path: str | Path, *, settled: bool) -> list[str]:
    table = Table.open(str(path), rounds=1)
    metadata = MetadataTable.open(table)
    if metadata is None:
        return []
    listing, walked = MetadataListing(metadata, table.base_path), table.listing()
    view = TimelineView.of(table.timeline, STORAGE)
    wrong: list[str] = []
    for partition in {*walked.partitions(), *listing.partitions()}:
        there = {item.path: item.size for item in walked.files(partition)}
        listed = {item.path: item.size for item in listing.files(partition)}
        needed = _sizes(merged_slices(view, walked.files, partition))
        needed = {file: size for file, size in needed.items() if _has_rows(view, file)}
        offered = _sizes(merged_slices(view, listing.files, partition))
        if settled:
            needed, offered = files_of(view, walked, partition), listed
        wrong += [f"{file} is not listed" for file, size in needed.items() if listed.get(file) != size]
        wrong += [f"{file} is listed" for file, size in offered.items() if there.get(file) != size]
    return wrong


def _has_rows(view: TimelineView, path: str) -> bool:
    """Not of a log that only a write has written which was not completed."""
    if LogFileName.parse(path.rpartition("/")[2]) is None:
        return True
    with LogFileReader(STORAGE, path) as log:
        return any(block.instant is not None and view.shows(block.instant) for block in log.blocks())


def _sizes(slices: list[FileSlice]) -> dict[str, int]:
    bases = {item.base.path: item.base.size for item in slices if item.base}
    return bases | {log.path: log.size for item in slices for log in item.logs}
