"""A write among writers at once: the settings that it can't have, what it reads and changes for the check of
conflicts (concurrency.conflict_resolution), and the retry of a write that lost to another one.
"""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Iterator

from hoodie.concurrency.conflict_resolution import ConflictChecker
from hoodie.concurrency.gate import is_non_blocking
from hoodie.concurrency.read_set import ReadSet
from hoodie.concurrency.settings import CONCURRENCY_MODE, CONFLICT_RETRIES, NEW_KEYS, ConcurrencyMode
from hoodie.config import versions
from hoodie.config.versions import LayoutVersion
from hoodie.errors import CommitConflict, ConfigError, TableError
from hoodie.format.names import BaseFileName
from hoodie.index import PlacingIndex, Scope
from hoodie.index.settings import BUCKET_ENGINE, INDEX_CLASS, INDEX_TYPE, BucketEngine, IndexType
from hoodie.progress import ProgressCallback
from hoodie.table import new_table, properties
from hoodie.table.committed_files import CommittedFiles
from hoodie.table.handle import Table
from hoodie.table.properties import TableType
from hoodie.timeline.active import META_FOLDER, Timeline
from hoodie.timeline.commit import SCHEMA_KEY
from hoodie.timeline.instant import Action
from hoodie.write.assign.workload import WorkloadProfile
from hoodie.write.operation import Operation
from hoodie.write.plan import WritePlan
from hoodie.write.settings import CDC_ENABLED, PARTITIONS_TO_DELETE, TABLE_TYPE


def conflict_checker(table: Table, plan: WritePlan, profile: WorkloadProfile) -> ConflictChecker:
    """The checker of one attempt at a write, before it takes its instant."""
    context = plan.context
    operation = context.operation
    replaced = {(partition, name) for partition, names in profile.replaced_ids.items() for name in names}
    listed: dict[str, dict[str, str]] = {partition: {} for partition in (*profile.listed, *profile.absent)}
    for partition, slices in (*profile.slices.items(), *profile.replaced.items()):
        found = {
            item.file_id: item.instant if item.base is None else item.base.instant
            for item in slices
            if item.base is not None or not context.looks_up
        }
        listed.setdefault(partition, {}).update(found)
    return ConflictChecker(
        table,
        begin=plan.timeline,
        planned={group for group in profile.changed if group[1]} | replaced,
        listed=listed,
        whole=operation is Operation.INSERT_OVERWRITE_TABLE,
        bucket_number=context.index.number if isinstance(context.index, PlacingIndex) else None,
        schema=plan.extra_metadata[SCHEMA_KEY],
        token=plan.request.token,
        new_keys=plan.config[NEW_KEYS]
        and (context.looks_up or (operation.replaces and operation.brings_rows)),
        reads=_read_set(plan, profile),
        non_blocking=context.log_only,
    )


def _read_set(plan: WritePlan, profile: WorkloadProfile) -> ReadSet:
    context, derived = plan.context, plan.request.derived
    operation = context.operation
    deleted = operation is Operation.DELETE_PARTITION
    asked = (plan.request.partitions or plan.config[PARTITIONS_TO_DELETE] or ()) if deleted else ()
    keys_missed = profile.missing and not isinstance(context.index, PlacingIndex)
    of_statement = derived is not None and derived.read is not None
    return ReadSet(
        table=of_statement or operation is Operation.INSERT_OVERWRITE_TABLE,
        derived=of_statement,
        replaced=frozenset(
            {*profile.replaced, *profile.absent, *profile.partitions} if operation.replaces else ()
        ),
        patterns=tuple(name for name in asked if "*" in name),
        missed=frozenset(profile.listed if keys_missed else ()),
        excluding=frozenset(profile.dropped_in),
        new={place: rows for (place, file_id), (rows, _) in profile.groups.items() if not file_id}
        if context.tags and context.looks_up
        else {},
        everywhere=context.index is not None and context.index.scope is Scope.TABLE,
    )


#: their keys are found in the table's own files
_INDEXES = frozenset(
    {
        IndexType.BLOOM,
        IndexType.SIMPLE,
        IndexType.GLOBAL_BLOOM,
        IndexType.GLOBAL_SIMPLE,
        IndexType.BUCKET,
        IndexType.INMEMORY,
    }
)
_SHORTEST_S, _LONGEST_S = 0.05, 5.0
#: what deletes data files of a table
_DELETING = frozenset({Action.CLEAN, Action.ROLLBACK, Action.RESTORE})
#: a file's name at the beginning of a text
_NAME = re.compile(r"[^'\"\s]+")


def check_optimistic_support(plan: WritePlan) -> None:
    """Raises ConfigError for a write that the settings want beside others, and that can't be."""
    config = plan.config
    if not plan.optimistic:
        return
    problem = ""
    if config[INDEX_CLASS]:
        problem = f"{INDEX_CLASS.name}={config[INDEX_CLASS]}"
    elif config[INDEX_TYPE] not in _INDEXES:
        problem = f"{INDEX_TYPE.name}={config[INDEX_TYPE].value}"
    elif config[INDEX_TYPE] is IndexType.BUCKET and config[BUCKET_ENGINE] is not BucketEngine.SIMPLE:
        problem = f"{BUCKET_ENGINE.name}={config[BUCKET_ENGINE].value}"
    elif plan.context.evolution is not None:
        problem = "a table whose schema was changed by Apache Hudi's schema on read"
    elif is_non_blocking(config):
        _check_non_blocking(plan)
    if problem:
        mode = f"{CONCURRENCY_MODE.name}={config[CONCURRENCY_MODE].value}"
        raise ConfigError(
            f"{mode} is not supported yet with {problem}; leave the mode out and run one writer at a time",
            setting=CONCURRENCY_MODE.name,
        )


def _check_non_blocking(plan: WritePlan) -> None:
    """Raises ConfigError for a table whose log files can't be written by several at once."""
    config, kind = plan.config, plan.config[TABLE_TYPE]
    problem = ""
    if plan.new_properties is not None:
        version = int(new_table.complete(plan.new_properties)[properties.VERSION])
        older = versions.is_of_layout(version, LayoutVersion.ONE)
    else:
        older = not plan.context.snapshot.slicing.of_writes
    if older:
        problem = "table version 8 or 9, and this is an older one, whose log files belong to slices by name"
    elif kind is not TableType.MERGE_ON_READ:
        problem = f"{TABLE_TYPE.name}={TableType.MERGE_ON_READ.value}, and the table is {kind.value}"
    elif config[INDEX_TYPE] is not IndexType.BUCKET:
        problem = f"{INDEX_TYPE.name}={IndexType.BUCKET.value}, not {config[INDEX_TYPE].value}"
    elif config[CDC_ENABLED]:
        problem = f"a table without {CDC_ENABLED.name}"
    if problem:
        optimistic = ConcurrencyMode.OPTIMISTIC_CONCURRENCY_CONTROL.value
        raise ConfigError(
            f"{CONCURRENCY_MODE.name}={config[CONCURRENCY_MODE].value} needs {problem}; set "
            f"{CONCURRENCY_MODE.name}={optimistic}, or write one at a time",
            setting=CONCURRENCY_MODE.name,
        )


class Attempts:
    """The attempts at a write; gives whether it is the first. There are `outdated` ones, and one more for
    each conflict that the settings let pass.
    """

    def __init__(self, outdated: int, progress: ProgressCallback) -> None:
        self._left = outdated
        self._progress = progress
        self._conflicts = 0

    def __iter__(self) -> Iterator[bool]:
        first = True
        while self._left:
            before = self._conflicts
            yield first
            first = False
            if self._conflicts == before:
                self._left -= 1

    @contextlib.contextmanager
    def conflicts(self, plan: WritePlan, table: Table) -> Iterator[None]:
        """The attempt at a plan, which another writer may get the better of. Files of the table that it looks
        at may be archived or cleaned meanwhile; one that is missing for another reason is an error.
        """
        try:
            yield
            return
        except CommitConflict as error:
            if not plan.optimistic:
                raise
            conflict = error
        except (FileNotFoundError, TableError) as error:
            if not _removed_meanwhile(_missing_file(error, table), table, plan.timeline):
                raise
            conflict = CommitConflict(
                f"a file that this write read was archived or deleted meanwhile ({error}). Nothing of it was "
                f"published; run it again ({CONFLICT_RETRIES.name} does so by itself)",
                path=table.base_path,
            )
        if not plan.optimistic:
            self._progress("conflict", conflict.message)
            return
        if self._conflicts >= plan.config[CONFLICT_RETRIES]:
            raise conflict
        self._conflicts += 1
        self._progress("conflict", f"{conflict.message}; attempt {self._conflicts + 1}")
        pause = min(_LONGEST_S, _SHORTEST_S * 2 ** min(self._conflicts, 10))
        time.sleep(random.uniform(pause / 2, pause))


def _missing_file(error: Exception, table: Table) -> str:
    """The file of the table that is not there, as the error says; "" for an error that says no such thing."""
    if isinstance(error, FileNotFoundError):
        return str(error.filename or error)
    path = str(error.values.get("path", "")) if isinstance(error, TableError) else ""
    inside = path.startswith(f"{table.base_path}/")
    return path if inside and not table.storage.exists(path) else ""


def _removed_meanwhile(missing: str, table: Table, begin: Timeline) -> bool:
    """May another process have removed the file: one of the timeline, which has changed since `begin`; a data
    file that is no commit's, by its own writer; or one that is, beside something that deletes such files.
    """
    _, here, path = missing.partition(f"{table.base_path}/")
    if not here:
        return False
    now = table.refresh()
    if path.startswith(f"{META_FOLDER}/"):
        return now.instants != begin.instants
    known = {item for item in begin if item.completed}
    if any(item.action in _DELETING and item not in known for item in now):
        return True
    name = _NAME.match(path.rpartition("/")[2])
    return name is None or not _is_committed(table, now, name[0])


def _is_committed(table: Table, timeline: Timeline, name: str) -> bool:
    if base := BaseFileName.parse(name):
        return timeline.is_committed(base.instant)
    committed = CommittedFiles(timeline=timeline, storage=table.storage, properties=table.properties)
    return committed.have_any([name])
