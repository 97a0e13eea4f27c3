"""Which files of a source are new, and which of them one run takes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hoodie.ingestion.checkpoint import Checkpoint
from hoodie.source import Source, is_data_file
from hoodie.storage import normalize

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
    older than the newest file that was taken a file may be that appears later.
    """

    max_files: int = 0
    max_bytes: int = 0
    lookback_ms: int = 0


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
