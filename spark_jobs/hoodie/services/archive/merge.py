"""Small archive files made one, in an order that survives a kill (format.md 11).

1. `mergeArchivePlan`, which names the small files and the new one, 2. the new file, 3. the small files
deleted, 4. the plan deleted. As long as all small files are there, the new one is none of the history's;
once one of them is gone, the new one holds them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hoodie.config.key import Config
from hoodie.errors import TableError
from hoodie.services.archive.settings import MERGE_BATCH, MERGE_ENABLED, MERGE_SMALL_FILE_LIMIT
from hoodie.storage import FileInfo, Storage
from hoodie.timeline.archived import MERGE_PLAN_NAME, archive_files, archive_name, archive_version
from hoodie.timeline.models.mapper import AvroFile, avro


@dataclass(frozen=True)
class MergePlan(AvroFile):
    """`mergeArchivePlan` (HoodieMergeArchiveFilePlan): full paths of the small files, name of the new one."""

    model = "HoodieMergeArchiveFilePlan"

    candidates: tuple[str, ...] = field(metadata=avro("candidate"))
    merged: str = field(metadata=avro("mergedArchiveFileName", null=""))
    version: int | None = 1

    @property
    def names(self) -> list[str]:
        return [path.rpartition("/")[2] for path in self.candidates]

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> MergePlan:
        made = super().from_record(record)
        if odd := [name for name in (*made.names, made.merged) if archive_version(name) is None]:
            raise TableError(
                f"{MERGE_PLAN_NAME} names {odd[0][:200]!r}, which is no archive file; remove the plan",
                name=odd[0],
            )
        return made


def candidates(files: Sequence[FileInfo], config: Config) -> list[FileInfo]:
    """The newest archive files, oldest first, up to the first large one; empty when there are too few.

    `files` are oldest first. Only neighbours are merged, so that the files stay in the order of time.
    """
    found: list[FileInfo] = []
    for item in reversed(files):
        if item.size > config[MERGE_SMALL_FILE_LIMIT]:
            break
        found.append(item)
    return found[::-1] if len(found) >= config[MERGE_BATCH] else []


def plan_path(folder: str) -> str:
    return f"{folder}/{MERGE_PLAN_NAME}"


def recover(storage: Storage, folder: str) -> bool:
    """Finish or undo a merge that was killed; returns whether there was one. The caller keeps other archivers
    away.
    """
    path = plan_path(folder)
    if not storage.exists(path):
        return False
    try:
        plan = MergePlan.from_bytes(storage.read(path))
    except TableError:  # cut while it was written: nothing was done by it yet
        storage.delete(path)
        return True
    merged = f"{folder}/{plan.merged}"
    paths = [f"{folder}/{name}" for name in plan.names]
    if archive_version(plan.merged) is not None and storage.exists(merged):
        if all(map(storage.exists, paths)):
            storage.delete_many([merged])
        else:
            storage.delete_many(reversed(paths))
    storage.delete(path)
    return True


def merge(storage: Storage, folder: str, config: Config) -> MergePlan | None:
    """Merge the small archive files, if it is enabled and there are enough; returns what was done.

    An archive file is a chain of blocks, so that the merged one is the small ones in their order.
    """
    if not config[MERGE_ENABLED]:
        return None
    files = archive_files(storage, folder)
    small = candidates(files, config)
    if not small:
        return None
    newest = max(archive_version(item.name) or 0 for item in files)
    plan = MergePlan(tuple(item.path for item in small), archive_name(newest + 1))
    storage.create(plan_path(folder), plan.to_bytes())
    content = b"".join(storage.read(item.path) for item in small)
    storage.create(f"{folder}/{plan.merged}", content)
    # so that what is left is read in the order of time
    storage.delete_many([item.path for item in reversed(small)])
    storage.delete(plan_path(folder))
    return plan
