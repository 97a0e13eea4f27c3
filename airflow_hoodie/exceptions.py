"""What a task raises.

HoodieException (an AirflowException)
├── HoodieConfigurationError   the operator, its connection or a setting is wrong; a retry won't help
├── HoodieTransformError       a function of one's own failed; a retry helps if what it calls did not answer
├── HoodieTableError           what lies on storage is damaged, or of a newer Hudi; a person has to look
│   ├── HoodieTableNotFoundError   the path holds no table
│   └── HoodieTableStateError      the table's past forbids what was asked; a retry won't help
├── HoodieConflictError        another process stood in the way; a later retry may succeed
├── HoodieValidationError      the incoming rows or their schema can't be written
│   └── HoodieSourceNotFoundError  the source has no files yet; a later retry may find them
├── HoodieServiceError         the rows are committed, an inline service failed; a retry finds the commit
└── HoodieJobError             the Spark job failed for another reason
    ├── HoodieCommitUnknownError   the storage failed at the publishing: the commit may be there or not
    └── HoodieJobKilledError   it was killed: by Airflow, by the system, or by a person

Messages hide secrets (hoodie.mask). `code` and `values` are those of the `hoodie.errors.HoodieError` that the
job (or the timeline) reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException

from hoodie.errors import ASK_AGAIN, HoodieError
from hoodie.mask import masked
from hoodie.text import lines, visible


class HoodieException(AirflowException):
    """Root of what this provider raises on purpose. Control characters in its message are escaped."""

    def __init__(self, message: str, *, code: str = "", values: Mapping[str, Any] | None = None) -> None:
        self.message = lines(masked(message))
        super().__init__(self.message)
        self.code = code
        self.values = dict(values or {})


class HoodieConfigurationError(HoodieException):
    """Wrong argument, connection or setting."""


class HoodieTransformError(HoodieException):
    """The function of `transform` raised an error, whose file and line the message has, or answered no rows.
    `values["traceback"]` has its frames, and is in the task's log.
    """

    @property
    def transient(self) -> bool:
        """Was it a connection that failed, so that the next try may succeed?"""
        return self.message.endswith(ASK_AGAIN)


class HoodieTableError(HoodieException):
    """The table on storage is not what it should be."""


class HoodieTableNotFoundError(HoodieTableError):
    """No table at the path."""


class HoodieTableStateError(HoodieTableError):
    """A later data interval is written already, or the state that was asked for is cleaned or archived."""


class HoodieConflictError(HoodieException):
    """Another process is at work on the table, or its commit came between; nothing was committed."""


class HoodieValidationError(HoodieException):
    """Rows or schema refused before anything was written, or withdrawn by a pre-commit validator."""


class HoodieSourceNotFoundError(HoodieValidationError):
    """There are no files at the source's paths, yet."""


class HoodieServiceError(HoodieException):
    """The rows are committed; a service that was to run after them failed."""


class HoodieJobError(HoodieException):
    """The job failed. `exit_code` is spark-submit's, None when unknown."""

    def __init__(self, message: str, *, exit_code: int | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.exit_code = exit_code


class HoodieCommitUnknownError(HoodieJobError):
    """The commit may be there or not; `values["repeatable"]`: a retry finds it if it is there."""


class HoodieJobKilledError(HoodieJobError):
    """The job was killed; an unfinished commit is rolled back by the next write."""


_BY_CODE: dict[str, type[HoodieException]] = {
    "configuration": HoodieConfigurationError,
    "table_mismatch": HoodieConfigurationError,
    "transform": HoodieTransformError,
    "table": HoodieTableError,
    "table_not_found": HoodieTableNotFoundError,
    "torn_properties": HoodieTableError,
    "unsupported_version": HoodieTableError,
    "half_upgraded": HoodieTableError,
    "out_of_order": HoodieTableStateError,
    "not_retained": HoodieTableStateError,
    "conflict": HoodieConflictError,
    "table_busy": HoodieConflictError,
    "lock_timeout": HoodieConflictError,
    "commit_conflict": HoodieConflictError,
    "fenced": HoodieConflictError,
    "commit_unknown": HoodieCommitUnknownError,
    "input": HoodieValidationError,
    "source_not_found": HoodieSourceNotFoundError,
    "schema": HoodieValidationError,
    "duplicate_key": HoodieValidationError,
    "validation": HoodieValidationError,
    "too_costly": HoodieValidationError,
    "service": HoodieServiceError,
}


def from_report(report: Mapping[str, Any]) -> HoodieException:
    """Exception for the JSON of a job's `HOODIE_ERROR` line; its message is the job's own, on one line."""
    code = str(report.get("code", ""))
    values = report.get("values")
    cls = _BY_CODE.get(code, HoodieJobError)
    return cls(
        visible(report.get("message") or "the job reported an error without a message"),
        code=code,
        values=values if isinstance(values, Mapping) else None,
    )


def from_error(error: HoodieError) -> HoodieException:
    """Exception for an error that was raised in this process."""
    cls = _BY_CODE.get(error.code, HoodieException)
    return cls(visible(error.message), code=error.code, values=error.values)
