"""The checkpoint of a source of files: texts in the extra metadata of the commit, and the choice of new
files.

- `deltastreamer.checkpoint.key` is Apache Hudi's, for its sources of files: the greatest modification time
  of the files that were taken, in epoch milliseconds. It distinguishes neither files of one time nor sources
  of a table.
- So a key of this package has the exact state: the source, that time, and the files of that time, and of a
  while before, that were taken.
- From the checkpoint follow the new files of a source, and those that one run takes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hoodie.errors import CommitConflict, TableError
from hoodie.source import Source, is_data_file
from hoodie.storage import normalize
from hoodie.table.handle import Table
from hoodie.table.rolled_back import rolled_back_instants
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
    for entry in table.archive.entries(containing=HUDI_KEY.encode()):
        undone = rolled_back_instants(table.storage, table.timeline) if undone is None else undone
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


_EARLIEST = -(1 << 63)


class DatedFile(NamedTuple):
    """In the order in which files are taken. `mark` distinguishes it, and its content, from others."""

    modified_ms: int
    path: str
    size: int
    mark: str


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Of one run; 0 for none. A file that is larger than `max_bytes` is taken alone. `lookback_ms`: how much
    older than the newest file that was taken a file may be that appears later. `max_bad_files`: so many files
    that can't be written are left out; with more, the run fails.
    """

    max_files: int = 0
    max_bytes: int = 0
    lookback_ms: int = 0
    max_bad_files: int = 0


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What a run takes, how many new files it leaves to the next one, and the checkpoint after it."""

    files: tuple[DatedFile, ...]
    left: int
    checkpoint: Checkpoint

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


def source_name(source: Source) -> str:
    """By which a table knows the source: its paths, however they are spelled, in any order."""
    return " ".join(sorted({normalize(path) for path in source.paths}))


def dated_files(source: Source) -> list[DatedFile]:
    """The files of a source that are not empty, oldest first; none where there is nothing."""
    found: dict[str, DatedFile] = {}
    for path in source.paths:
        place = normalize(path)
        for file in source.storage(path).find(place):
            if file.size and is_data_file(file, place):
                text = f"{file.path}\n{file.size}\n{file.stamp}"
                mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
                found[file.path] = DatedFile(file.modified_ms, file.path, file.size, mark)
    return sorted(found.values())


def is_there(source: Source) -> bool:
    """Is there a folder or file at one of the paths; true of globs, which may match nothing yet."""
    return any(
        any(mark in path for mark in "*?[") or source.storage(path).exists(normalize(path))
        for path in source.paths
    )


def choose(
    files: Sequence[DatedFile], before: Checkpoint | None, source: str, limits: Limits
) -> Chosen | None:
    """The oldest new ones of `files`, as many as the limits let; None where none is new."""
    new = [file for file in files if before is None or _is_new(file, before, limits)]
    if not new:
        return None
    count = _within(new, limits)
    taken, left = tuple(new[:count]), new[count:]
    time = max(taken[-1].modified_ms, before.until if before is not None else taken[-1].modified_ms)
    since = max(time - limits.lookback_ms, before.since if before is not None else _EARLIEST)
    marks = {file.mark for file in taken if file.modified_ms >= since}
    if before is not None and since == before.since:
        marks |= before.taken
    elif before is not None:  # one that is not listed has gone
        marks |= before.taken & {file.mark for file in files if file.modified_ms >= since}
    checkpoint = Checkpoint(
        source=source,
        until=time,
        since=since,
        taken=frozenset(marks),
        hudi=min([time, *(file.modified_ms - 1 for file in left)]),
    )
    return Chosen(files=taken, left=len(left), checkpoint=checkpoint)


def _is_new(file: DatedFile, before: Checkpoint, limits: Limits) -> bool:
    recent = file.modified_ms >= before.until - limits.lookback_ms
    return recent and before.is_new(file.modified_ms, file.mark)


def _within(files: Sequence[DatedFile], limits: Limits) -> int:
    """How many of the files are within the limits: one at least."""
    most = min(limits.max_files or len(files), len(files))
    if limits.max_bytes:
        total = 0
        for number, file in enumerate(files[:most]):
            total += file.size
            if total > limits.max_bytes:
                return max(number, 1)
    return most
