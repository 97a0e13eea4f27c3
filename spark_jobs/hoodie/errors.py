"""The one error tree.

HoodieError
├── ConfigError            a setting or a combination of settings is wrong
│   └── NotInstalled       a package that the call needs is not installed
├── TransformError         a function of the user's own failed, or answered what is no rows
├── InputError             the incoming rows can't be written as they are
│   ├── SourceNotFound     there are no files where they were to come from, yet
│   ├── SchemaError        their schema can't become the table's schema
│   └── DuplicateKey       a row's key is stored, and the settings refuse such rows
├── TooCostly              the write would write more bytes than the settings allow
├── ValidationFailed       a pre-commit validator failed; the write was withdrawn
├── TableError             the table on storage is not what it should be
│   ├── TableNotFound
│   ├── TornProperties     hoodie.properties unreadable or its checksum wrong
│   ├── UnsupportedVersion the table was written by a newer Hudi
│   ├── TableMismatch      options contradict the table's persisted properties
│   ├── OutOfOrder         a later data interval wrote already what this one would replace
│   └── StateUnavailable   the state asked for is cleaned or archived
├── ConflictError          another process stood in the way, and nothing was committed; what to do is its kind
│   ├── TableBusy          another one is at work: wait
│   ├── LockTimeout        another one holds the lock of the table, and is named: wait
│   ├── CommitConflict     a commit or a plan of another one came between: do it again
│   └── Fenced             this process was taken for dead or lost its lock, and its work is undone: again
├── StorageError
│   ├── AlreadyExists      create found the path taken
│   └── CommitUnknown      the storage failed at the publishing: the commit may be there or not
├── ServiceError           the rows are committed, and an inline service failed
└── JobError               a distributed step failed

A message names the offending value and says what to do next; the values are kept as attributes so that
callers need not parse text. Secrets that the text around them shows (hoodie.mask) are hidden.
"""

from __future__ import annotations

from typing import Any

from hoodie.mask import Mask, masked


class HoodieError(Exception):
    """Root of everything this package raises on purpose."""

    #: stable short name, used in job results and by Airflow to choose an exception
    code = "hoodie"

    def __init__(self, message: str, **values: Any) -> None:
        message = masked(message)
        super().__init__(message)
        self.message = message
        self.values = values

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.values)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form: code, message and the values as text."""
        return {
            "code": self.code,
            "message": self.message,
            "values": Mask().value({name: _plain(value) for name, value in self.values.items()}),
        }


def _plain(value: Any) -> Any:
    """Numbers as they are, all else as text: of a subclass of texts, too, which not every encoder takes."""
    if isinstance(value, str):
        return str.__str__(value)
    return value if isinstance(value, (int, float)) else str(value)


def _rebuild(cls: type[HoodieError], message: str, values: dict[str, Any]) -> HoodieError:
    return cls(message, **values)


class ConfigError(HoodieError):
    code = "configuration"


class NotInstalled(ConfigError):
    """`package`: its name."""


class TransformError(HoodieError):
    """`traceback`: of the function's own frames, where this process has called it."""

    code = "transform"

    @property
    def transient(self) -> bool:
        """Was it a service that the function calls, which may answer the next time?"""
        return self.message.endswith(ASK_AGAIN)


#: how the message ends where the function could not reach what it calls
ASK_AGAIN = "; what it calls did not answer, and may do so the next time"


class InputError(HoodieError):
    code = "input"


class SourceNotFound(InputError):
    """The next run may find them."""

    code = "source_not_found"


class SchemaError(InputError):
    code = "schema"


class DuplicateKey(InputError):
    code = "duplicate_key"


class TooCostly(HoodieError):
    code = "too_costly"


class ValidationFailed(HoodieError):
    code = "validation"


class TableError(HoodieError):
    code = "table"


class TableNotFound(TableError):
    code = "table_not_found"


class TornProperties(TableError):
    code = "torn_properties"


class UnsupportedVersion(TableError):
    code = "unsupported_version"


class HalfUpgraded(TableError):
    code = "half_upgraded"


class TableMismatch(TableError):
    code = "table_mismatch"


class OutOfOrder(TableError):
    code = "out_of_order"


class StateUnavailable(TableError):
    code = "not_retained"


#: the earlier name
NotRetained = StateUnavailable


class ConflictError(HoodieError):
    code = "conflict"


class TableBusy(ConflictError):
    code = "table_busy"


class LockTimeout(ConflictError):
    code = "lock_timeout"


class CommitConflict(ConflictError):
    code = "commit_conflict"


class Fenced(ConflictError):
    code = "fenced"


class StorageError(HoodieError):
    code = "storage"

    @property
    def transient(self) -> bool:
        """May the same call work a little later?"""
        return bool(self.values.get("transient"))


class AlreadyExists(StorageError):
    code = "already_exists"


class CommitUnknown(StorageError):
    """`repeatable`: the same write or service, run again, finds its commit if it is there."""

    code = "commit_unknown"


class ServiceError(HoodieError):
    code = "service"


class JobError(HoodieError):
    code = "job"


CODES: dict[str, type[HoodieError]] = {
    cls.code: cls
    for cls in (
        HoodieError,
        ConfigError,
        TransformError,
        InputError,
        SourceNotFound,
        SchemaError,
        DuplicateKey,
        TooCostly,
        ValidationFailed,
        TableError,
        TableNotFound,
        TornProperties,
        UnsupportedVersion,
        HalfUpgraded,
        TableMismatch,
        OutOfOrder,
        StateUnavailable,
        ConflictError,
        TableBusy,
        LockTimeout,
        CommitConflict,
        Fenced,
        StorageError,
        AlreadyExists,
        CommitUnknown,
        ServiceError,
        JobError,
    )
}
