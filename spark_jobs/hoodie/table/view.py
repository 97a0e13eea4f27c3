"""File groups and slices from a listing and the timeline (format.md 12.1).

`Snapshot` is the small, picklable part of the timeline that decides which files a reader sees; it travels
to executors. Uncommitted files are never shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hoodie.format.names import BaseFileName, join
from hoodie.storage import FileInfo, Storage
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata
from hoodie.timeline.instant import COMMIT_ACTIONS, Action

Listing = Callable[[str], Sequence[FileInfo]]


@dataclass(frozen=True)
class BaseFile:
    """One base file; `path` is absolute, `size` bytes."""

    partition: str
    path: str
    name: str
    file_id: str
    instant: str
    size: int


@dataclass(frozen=True)
class LogFile:
    """One log file by name only; reading it is the merge-on-read reader's work."""

    partition: str
    path: str
    name: str
    size: int


@dataclass(frozen=True)
class Snapshot:
    """What is committed. `replaced` holds (partition, file id) hidden by completed replacecommits."""

    committed: frozenset[str]
    first_time: str | None
    last_commit: str | None
    replaced: frozenset[tuple[str, str]] = field(default_factory=frozenset)

    @classmethod
    def of(cls, timeline: Timeline, storage: Storage) -> Snapshot:
        commits = timeline.filter(COMMIT_ACTIONS, completed=True)
        replaced: set[tuple[str, str]] = set()
        for instant in commits:
            if instant.action is Action.REPLACECOMMIT:
                metadata = CommitMetadata.parse(timeline.read(instant, storage))
                if isinstance(metadata, ReplaceCommitMetadata):
                    for partition, ids in metadata.partition_to_replace_file_ids.items():
                        replaced.update((partition, file_id) for file_id in ids)
        return cls(
            frozenset(instant.time for instant in commits),
            timeline.first_time,
            commits[-1].time if commits else None,
            frozenset(replaced),
        )

    def shows(self, instant: str) -> bool:
        return instant in self.committed or (self.first_time is not None and instant < self.first_time)


def storage_listing(storage: Storage, base_path: str) -> Listing:
    return lambda partition: storage.list(join(base_path, partition))


def slices(snapshot: Snapshot, listing: Listing, partition: str) -> dict[str, list[BaseFile]]:
    """file id -> its committed base files, newest first; replaced groups left out."""
    groups: dict[str, list[BaseFile]] = {}
    for item in listing(partition):
        name = None if item.is_dir else BaseFileName.parse(item.name)
        if name is None or not snapshot.shows(name.instant):
            continue
        if (partition, name.file_id) in snapshot.replaced:
            continue
        base = BaseFile(partition, item.path, item.name, name.file_id, name.instant, item.size)
        groups.setdefault(name.file_id, []).append(base)
    for files in groups.values():
        files.sort(key=lambda base: base.instant, reverse=True)
    return dict(sorted(groups.items()))


def latest_base_files(snapshot: Snapshot, listing: Listing, partition: str) -> list[BaseFile]:
    """The newest committed base file of every live file group, by file id."""
    return [files[0] for files in slices(snapshot, listing, partition).values()]


def log_files(listing: Listing, partition: str) -> list[LogFile]:
    return [
        LogFile(partition, item.path, item.name, item.size)
        for item in listing(partition)
        if not item.is_dir and item.name.startswith(".") and ".log." in item.name and item.name[-4:] != ".crc"
    ]
