"""What a job did, kept in its table for the task that waits for it, as a cluster keeps the job's output.

`.hoodie/.aux/airflow-results/<tag>.json`, which readers of the format ignore, is {"tag", "result"} of a job
that did its work, {"tag", "error"} of one that failed: what its HOODIE_RESULT or HOODIE_ERROR line says.
Writing it is the job's last step, deleting it the task's. So a kill at any point leaves a job without a
report, which is run again, or a report, which the task's next try reads. Those that no task took are deleted
by later jobs of the table. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from hoodie.config.key import is_unicode
from hoodie.errors import ConfigError, HoodieError, TableError
from hoodie.storage import FileInfo, Storage, normalize, storage_for
from hoodie.storage.settings import options_of
from hoodie.timeline.active import META_FOLDER

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}", re.ASCII)
#: of a report; Airflow keeps what it says in its database
MAX_BYTES = 16 * 1024 * 1024
#: files that no task took or deleted are deleted after so many milliseconds, so many by one job
KEPT_MS, _MOST = 7 * 24 * 3600 * 1000, 100


@dataclass(frozen=True, kw_only=True)
class JobReport:
    """Either the `result` of a job, as a dict, or its `error` as HoodieError.to_dict; the other is None."""

    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class TaggedFiles:
    """Files of the job with a tag, in a folder of the table at a path, which need not be there yet.

    `options`: settings, of which those of the table's storage count. Methods raise ConfigError for a tag or
    settings that are none, and StorageError.
    """

    FOLDER: ClassVar[str]

    path: str
    options: Mapping[str, Any]
    tag: str

    def _place(self) -> tuple[Storage, str]:
        """The storage, and the folder with what the names of the tag's files begin with."""
        start = f"{normalize(self.path)}/{self.FOLDER}/{checked_tag(self.tag)}"
        return storage_for(self.path, options_of(self.options)), start

    def _sweep(self) -> None:
        """Delete old files of the folder, which no task took or deleted."""
        storage, start = self._place()
        oldest = storage.now_ms() - KEPT_MS
        found = files_in(storage, start.rpartition("/")[0])
        storage.delete_many([item.path for item in found if item.mtime_ms < oldest][:_MOST])


def files_in(storage: Storage, folder: str) -> list[FileInfo]:
    return [item for item in storage.list(folder) if not item.is_dir]


@dataclass(frozen=True, kw_only=True)
class StoredReport(TaggedFiles):
    """The report of the job with the tag."""

    FOLDER: ClassVar[str] = f"{META_FOLDER}/.aux/airflow-results"

    def write(self, report: JobReport) -> None:
        """Make the report, or replace that of an earlier attempt of the job; then delete old ones."""
        kept = {"result": report.result} if report.error is None else {"error": report.error}
        text = json.dumps({"tag": self.tag, **kept}, ensure_ascii=False, default=str)
        storage, path = self._file()
        storage.write(path, text.encode(errors="replace"))
        with contextlib.suppress(HoodieError, OSError):
            self._sweep()

    def read(self) -> JobReport | None:
        """None where there is none. Raises TableError for a file that is no report: anybody who may write to
        the table may have made it.
        """
        storage, path = self._file()
        try:
            data = storage.read_range(path, 0, MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        if len(data) > MAX_BYTES:
            raise TableError(f"{path} is no job's result: that has at most {MAX_BYTES} bytes", path=path)
        report = _parse(data, self.tag)
        if report is None:
            raise TableError(f"{path} is damaged or forged: it has no result of a job", path=path)
        return report

    def delete(self) -> None:
        """Delete the report; one that is missing is no error."""
        storage, path = self._file()
        storage.delete(path)

    def _file(self) -> tuple[Storage, str]:
        storage, start = self._place()
        return storage, f"{start}.json"


def checked_tag(tag: Any) -> str:
    """Raises ConfigError for what is no name of a report."""
    if not isinstance(tag, str) or not _TAG.fullmatch(tag):
        raise ConfigError(f"the tag of a job's result is {tag!r}; give up to 64 letters, digits and dashes")
    return tag


def _parse(data: bytes, tag: str) -> JobReport | None:
    """None for anything but the tag's report, in texts and numbers that every database keeps."""
    try:
        text = data.decode()
        value = json.loads(text, parse_constant=_no_number)
        sound = is_unicode(json.dumps(value, ensure_ascii=False))
    except (ValueError, RecursionError):
        return None
    if not sound or not isinstance(value, dict) or value.get("tag") != tag:
        return None
    result, error = value.get("result"), value.get("error")
    if isinstance(result, dict) and error is None:
        return JobReport(result=result)
    if isinstance(error, dict) and result is None and _is_error(error):
        return JobReport(error=error)
    return None


def _is_error(error: Mapping[str, Any]) -> bool:
    """Is it the form of HoodieError.to_dict?"""
    values = error.get("values")
    return (
        isinstance(error.get("code"), str)
        and isinstance(error.get("message"), str)
        and isinstance(values, dict)
        and all(isinstance(value, (str, int, float)) for value in values.values())
    )


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")
