"""What a write does, and what it reports."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from hoodie.config.key import is_unicode
from hoodie.errors import ConfigError, InputError
from hoodie.mask import holds_secret
from hoodie.shown import Shown
from hoodie.timeline.time import texts_of_times
from hoodie.timeline.tokens import FINGERPRINT_KEY, RUN_KEY, TOKEN_KEY

if TYPE_CHECKING:
    from hoodie.table.listing import FileListing
    from hoodie.table.view import TimelineView
    from hoodie.timeline.active import Timeline

#: extra metadata that names the task run
TASK_KEYS = (TOKEN_KEY, FINGERPRINT_KEY, RUN_KEY)


class Operation(enum.Enum):
    """The steps of a write depend on these properties of its operation, not on names."""

    UPSERT = "upsert"
    INSERT = "insert"
    BULK_INSERT = "bulk_insert"
    DELETE = "delete"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    DELETE_PARTITION = "delete_partition"

    @property
    def metadata_name(self) -> str:
        """Hudi's WriteOperationType name, as kept in the commit metadata."""
        return self.name

    @property
    def tags(self) -> bool:
        """Do its rows go to where their keys are stored; an index may require it of other operations."""
        return self in (Operation.UPSERT, Operation.DELETE)

    @property
    def brings_rows(self) -> bool:
        """Are rows written; else there are keys to delete, or names of partitions."""
        return self not in (Operation.DELETE, Operation.DELETE_PARTITION)

    @property
    def fills_new_groups(self) -> bool:
        """Do all rows go to new file groups, cut by size."""
        return self in (Operation.BULK_INSERT, Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE)

    @property
    def replaces(self) -> bool:
        """Do file groups go out of sight: the commit is a replacecommit then."""
        return self in (
            Operation.INSERT_OVERWRITE,
            Operation.INSERT_OVERWRITE_TABLE,
            Operation.DELETE_PARTITION,
        )


def check_extra(metadata: Mapping[str, str]) -> None:
    """Raises ConfigError for extra metadata that a commit can't hold, or must not."""
    if not isinstance(metadata, Mapping):
        raise ConfigError(f"extra metadata is {metadata!r}; pass a mapping of texts to texts")
    for name, value in metadata.items():
        if not all(isinstance(text, str) and is_unicode(text) for text in (name, value)):
            raise ConfigError(
                f"extra metadata {name!r}: {value!r}: names and values must be texts; convert them",
                key=repr(name),
            )
        if name not in TASK_KEYS:
            check_public(f"extra metadata {name!r}", name, value)


def check_public(what: str, name: str, value: str) -> None:
    """Raises ConfigError for a text with a secret in it, which every reader of the table would see."""
    if holds_secret(name, value):
        raise ConfigError(
            f"{what} holds a secret, and every reader of the table can read its commits; leave it out, or "
            "name it otherwise if it is none",
            key=name,
        )


def partition_names(partitions: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several; InputError for anything else."""
    named = (partitions,) if isinstance(partitions, str) else partitions
    if not isinstance(named, Sequence) or not all(isinstance(item, str) for item in named):
        raise InputError(f"partitions are {partitions!r}; pass a partition path, or a list of them")
    return tuple(named)


@dataclass(frozen=True, kw_only=True)
class Derived:
    """Of rows that a statement made in the columns of the table, which stay as they are.

    read: the timeline that rows of the table itself were read by, None where none were; a commit of rows
    that is not on it refuses the write. flagged: rows whose `_hoodie_is_deleted` is true delete their key,
    also where the table has no such column. changed: the columns in which rows that are stored get other
    values; none: they may in all of them. found_by: rows come with these columns, the changed ones and the
    ordering column alone; each is completed by the stored row of its key that has the same values in these
    columns, and left out where there is none. Without any, rows come with all columns.
    """

    read: Timeline | None = None
    flagged: bool = False
    changed: tuple[str, ...] = ()
    found_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class WriteRequest:
    """One write of one frame into one table. `options` are settings by name, as texts or plain values."""

    path: str
    operation: Operation
    options: Mapping[str, Any] = field(default_factory=dict)
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    #: write although the token in `extra_metadata` (timeline.tokens) has its commit
    force: bool = False
    #: write nothing, say what would be done
    dry_run: bool = False
    #: of delete_partition: partition paths, `*` stands for any text; unknown ones are an error, or, with
    #: `missing_ok`, a warning
    partitions: tuple[str, ...] = ()
    missing_ok: bool = False
    #: of delete_partition, in place of `partitions`: names them by the state that the commit replaces; asked
    #: again where the write begins anew
    choose: Callable[[FileListing, TimelineView], Sequence[str]] | None = None
    #: of rows that a statement made of the table
    derived: Derived | None = None

    def __post_init__(self) -> None:
        check_extra(self.extra_metadata)

    @property
    def token(self) -> str:
        return self.extra_metadata.get(TOKEN_KEY, "")

    @property
    def fingerprint(self) -> str:
        return self.extra_metadata.get(FINGERPRINT_KEY, "")

    @property
    def task(self) -> dict[str, str]:
        """What names the task run, in the inflight file, too: a write that fails is known by it."""
        return {key: self.extra_metadata[key] for key in TASK_KEYS if key in self.extra_metadata}


@dataclass(frozen=True)
class PlannedPartition:
    """What a write would do in one partition.

    inserts, updates, deletes: rows, as of the commit. late: rows that change nothing, as the stored row of
    their key is newer; compared: file groups whose stored rows were read to know that. files: file groups
    that get a file; bytes: about their size; rows: those in these files, with the stored ones of rewritten
    files. replaced_groups, replaced_rows, replaced_bytes: of the files that would go out of sight; rows are
    those that a query finds in them.
    """

    partition: str
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    files: int = 0
    bytes: int = 0
    replaced_groups: int = 0
    replaced_rows: int = 0
    replaced_bytes: int = 0
    rows: int = 0
    late: int = 0
    compared: int = 0


@dataclass(frozen=True, repr=False)
class WriteResult(Shown):
    """Totals of one committed write. Rows: `num_writes` counts every row of every file written.

    status: `committed`, or `already_committed` by an earlier write of the same token, whose totals these are,
    or `planned`, of a dry run, whose `planned` has details. completion: what `begin` and `end` of incremental
    queries take for the commit: the time of its completion, of tables up to version 7 the instant; "" without
    a commit. partitions: those with new files, and those of which files were replaced. num_missing: rows of
    a delete whose key the table does not hold. num_replaced: file groups that went out of sight. num_dropped:
    rows of an insert that were left out, as the table holds their key. num_late: of a dry run, rows that
    change nothing, as the stored row of their key is newer. validations: the outcome of each
    pre-commit validator: its class `validator`, `query`, whether it `passed`, and the texts of what was
    `expected` and `found`.
    """

    status: str
    table: str
    base_path: str
    action: str
    instant: str
    completion: str
    operation: str
    partitions: list[str]
    num_inserts: int
    num_updates: int
    num_deletes: int
    num_writes: int
    num_files: int
    bytes_written: int
    duration_s: float
    warnings: list[str]
    rolled_back: list[str] = field(default_factory=list)
    metadata_table_removed: bool = False
    num_missing: int = 0
    num_replaced: int = 0
    num_dropped: int = 0
    dry_run: bool = False
    planned: list[PlannedPartition] = field(default_factory=list)
    num_late: int = 0
    validations: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        texts_of_times(self)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; what is for dry runs only is left out of others, validations of writes without them."""
        whole = asdict(self)
        if not self.validations:
            del whole["validations"]
        if not self.dry_run:
            del whole["dry_run"], whole["planned"], whole["num_late"]
        return whole
