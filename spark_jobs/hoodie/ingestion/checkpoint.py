"""How far the files of a source are in a table: texts in the extra metadata of the commit that took them.

`deltastreamer.checkpoint.key` is Apache Hudi's, for its sources of files: the greatest modification time of
the files that were taken, in epoch milliseconds. It can't tell files of one time apart, nor the sources of a
table, so a key of our own says it exactly: the source, that time, and which files of it, and of a while
before, were taken.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hoodie.errors import CommitConflict, TableError
from hoodie.table.handle import Table
from hoodie.table.undone import undone_instants
from hoodie.timeline.archived import archive_files, read_file
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import COMMIT_ACTIONS, Instant

#: keys of a commit's extra metadata: that of Apache Hudi's streamer, and ours
HUDI_KEY = "deltastreamer.checkpoint.key"
OWN_KEY = "airflow.checkpoint"

_NUMBER = re.compile(r"-?\d{1,19}", re.ASCII)
_ATTEMPTS = 4


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Files of a time after `until` are new; of those from `since` up to it, the ones that are not among
    `taken`; older ones are not. Of Apache Hudi's, `since` is after `until`.

    `hudi`: what Apache Hudi goes on from. `source`: the paths. `instant` and `metadata` are the commit's.
    """

    source: str
    until: int
    since: int
    taken: frozenset[str] = frozenset()
    hudi: int
    instant: Instant | None = None
    metadata: CommitMetadata | None = None

    @classmethod
    def after(cls, source: str, time: int) -> Checkpoint:
        """What is known of files by a time alone: Apache Hudi's rule."""
        return cls(source=source, until=time, since=time + 1, hudi=time)

    def is_new(self, time: int, mark: str) -> bool:
        """Is a file of this time, with this mark, one that was not taken."""
        return time > self.until or (time >= self.since and mark not in self.taken)

    def state(self) -> str:
        """A text that no other state of the source has."""
        known = json.dumps([self.source, self.until, self.since, sorted(self.taken)])
        return f"{self.until} {hashlib.sha256(known.encode()).hexdigest()[:32]}"

    def texts(self) -> dict[str, str]:
        """The extra metadata of the commit."""
        own = {"source": self.source, "time": self.until, "since": self.since, "taken": sorted(self.taken)}
        return {HUDI_KEY: str(self.hudi), OWN_KEY: json.dumps(own, separators=(",", ":"))}


@dataclass(frozen=True, kw_only=True)
class Known:
    """What a table says of a source: its newest checkpoint, and where there is none, that of the newest
    commit of Apache Hudi's streamer, which does not say of which source it is.
    """

    own: Checkpoint | None = None
    hudi: Checkpoint | None = None


def known(table: Table, source: str) -> Known:
    """By the timeline as it is now, and, where it says nothing of the source, by the archived one.

    Raises TableError where a checkpoint or a file of the archive is damaged, CommitConflict where archivers
    never leave off.
    """
    hudi: Checkpoint | None = None
    for _ in range(_ATTEMPTS):
        try:
            for found in map(_parsed, _active(table)):
                if found is not None and found.source == source:
                    return Known(own=found)
                if found is not None and not found.source:
                    hudi = hudi or found
            every = [found for found in map(_parsed, _archived(table)) if found is not None]
        except FileNotFoundError:  # archived, or merged into another archive file, since the listing
            continue
        own = max((item for item in every if item.source == source), key=_time, default=None)
        return Known(own=own, hudi=hudi or max((i for i in every if not i.source), key=_time, default=None))
    raise CommitConflict(
        f"commits of {table.base_path} were archived in {_ATTEMPTS} attempts to read them; run it again",
        path=table.base_path,
    )


def _time(checkpoint: Checkpoint) -> str:
    return str(checkpoint.instant.time) if checkpoint.instant is not None else ""


def _active(table: Table) -> Iterator[tuple[Instant, CommitMetadata]]:
    timeline = table.refresh()
    for instant in reversed(timeline.commits()):
        data = timeline.read(instant, table.storage)
        if HUDI_KEY.encode() in data:  # ours have both
            yield instant, timeline.commit(instant, table.storage)


def _archived(table: Table) -> Iterator[tuple[Instant, CommitMetadata]]:
    """In no order: a merge gives the contents of the oldest files the greatest number."""
    undone: Iterable[str] | None = None
    for item in archive_files(table.storage, table.archive_folder):
        with table.storage.open_input(item.path) as file:
            if HUDI_KEY.encode() not in file.read():
                continue
        undone = undone_instants(table.storage, table.timeline) if undone is None else undone
        for entry in read_file(table.storage, item.path):
            instant = entry.instant
            if instant.completed and instant.action in COMMIT_ACTIONS and instant.time not in undone:
                commit = entry.commit
                if commit is not None and HUDI_KEY in commit.extra_metadata:
                    yield instant, commit


def _parsed(commit: tuple[Instant, CommitMetadata]) -> Checkpoint | None:
    """None for a commit without one, and for one of a source that has no files, such as Kafka."""
    instant, metadata = commit
    own = metadata.extra_metadata.get(OWN_KEY)
    hudi = metadata.extra_metadata.get(HUDI_KEY) or ""
    if own:
        return _own(own, hudi, instant, metadata)
    if not _NUMBER.fullmatch(hudi):
        return None
    time = int(hudi)
    return Checkpoint(source="", until=time, since=time + 1, hudi=time, instant=instant, metadata=metadata)


def _own(text: str, hudi: str, instant: Instant, metadata: CommitMetadata) -> Checkpoint:
    try:
        value = json.loads(text)
        fields = (value["source"], value["time"], value["since"], value["taken"])
        if not _is_whole(value) or not value["source"]:
            raise ValueError
        source, time, since, taken = fields
        return Checkpoint(
            source=source,
            until=time,
            since=since,
            taken=frozenset(taken),
            hudi=int(hudi),
            instant=instant,
            metadata=metadata,
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        raise TableError(
            f"{OWN_KEY} of the commit {instant.time} is damaged, so that it is not known which files were "
            f"taken; roll the commit back, or ingest the files again under another path of the source",
            instant=instant.time,
        ) from None


def _is_whole(value: Mapping[str, object]) -> bool:
    taken = value["taken"]
    return (
        isinstance(value["source"], str)
        and isinstance(value["time"], int)
        and isinstance(value["since"], int)
        and isinstance(taken, list)
        and all(isinstance(mark, str) for mark in taken)
    )
