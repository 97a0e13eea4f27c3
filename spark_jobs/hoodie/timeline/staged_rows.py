"""Files of rows that a task lays into its table's storage for one job, as its executors read them there.

`.hoodie/.aux/airflow-rows/<tag>-<name>`, which readers of the format ignore. The task deletes them after the
job. Those of a task that was killed are deleted by its next try, if a cluster has had the job, or by later
tasks of the table, after a week. Standard library only.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoodie.errors import HoodieError
from hoodie.storage import Storage, normalize, storage_for
from hoodie.storage.settings import options_of
from hoodie.timeline.active import META_FOLDER
from hoodie.timeline.job_reports import KEPT_MS, checked_tag

_FOLDER = f"{META_FOLDER}/.aux/airflow-rows"
#: bytes that are copied at once; files that no task deleted which one task deletes
_CHUNK, _MOST = 8 << 20, 100


@dataclass(frozen=True, kw_only=True)
class StagedRows:
    """The files of the job with a tag, in the table at a path, which need not be there yet.

    `options`: settings, of which those of the table's storage count. Methods raise ConfigError for a tag or
    settings that are none, and StorageError.
    """

    path: str
    options: Mapping[str, Any]
    tag: str

    def put(self, files: Sequence[Path]) -> list[str]:
        """Copy files of this machine there, in place of the tag's, and delete old ones; their paths."""
        self.delete()
        storage, folder = self._place()
        paths = [f"{folder}/{self.tag}-{file.name}" for file in files]
        for file, path in zip(files, paths, strict=True):
            output = storage.output(path)
            try:
                with file.open("rb") as read:
                    shutil.copyfileobj(read, output, _CHUNK)
            except BaseException:
                output.abandon()
                raise
            output.commit()
        with contextlib.suppress(HoodieError, OSError):
            self._sweep(storage, folder)
        return paths

    def delete(self) -> None:
        """Delete the tag's files; where there are none, nothing is done."""
        storage, folder = self._place()
        own = [item.path for item in _files(storage, folder) if item.name.startswith(f"{self.tag}-")]
        storage.delete_many(own)

    def _sweep(self, storage: Storage, folder: str) -> None:
        oldest = storage.now_ms() - KEPT_MS
        storage.delete_many([item.path for item in _files(storage, folder) if item.mtime_ms < oldest][:_MOST])

    def _place(self) -> tuple[Storage, str]:
        checked_tag(self.tag)
        return storage_for(self.path, options_of(self.options)), f"{normalize(self.path)}/{_FOLDER}"


def _files(storage: Storage, folder: str) -> list[Any]:
    return [item for item in storage.list(folder) if not item.is_dir]
