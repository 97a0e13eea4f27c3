"""Files of rows that a task lays into its table's storage for one job, as its executors read them there.

`.hoodie/.aux/airflow-rows/<tag>-<name>`, which readers of the format ignore. The task deletes them after the
job. Those of a task that was killed are deleted by its next try, if a cluster has had the job, or by later
tasks of the table, after a week. Standard library only.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hoodie.errors import HoodieError
from hoodie.timeline.active import META_FOLDER
from hoodie.timeline.job_reports import TaggedFiles, files_in

#: bytes that are copied at once
_CHUNK = 8 << 20


@dataclass(frozen=True, kw_only=True)
class StagedRows(TaggedFiles):
    """The files of rows of the job with the tag."""

    FOLDER: ClassVar[str] = f"{META_FOLDER}/.aux/airflow-rows"

    def put(self, files: Sequence[Path]) -> list[str]:
        """Copy files of this machine there, in place of the tag's, and delete old ones; their paths."""
        self.delete()
        storage, start = self._place()
        paths = [f"{start}-{file.name}" for file in files]
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
            self._sweep()
        return paths

    def delete(self) -> None:
        """Delete the tag's files; where there are none, nothing is done."""
        storage, start = self._place()
        folder, _, first = f"{start}-".rpartition("/")
        storage.delete_many([item.path for item in files_in(storage, folder) if item.name.startswith(first)])
