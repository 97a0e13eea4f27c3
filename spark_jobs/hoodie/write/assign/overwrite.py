"""Which file groups a write replaces: those of a replacecommit (format.md 3.3).

insert_overwrite replaces the partitions of its rows (dynamic) or named ones (static), insert_overwrite_table
all partitions, delete_partition named or chosen ones. The replaced groups are those that are visible when the
write begins. Their files stay until the cleaner deletes them, so that older states of the table can be read.

As Apache Hudi 0.15.0 (ProvidesHoodieConfig.deduceOverwriteConfig, SparkInsertOverwriteCommitActionExecutor).
Its DataFrame writer reads the mode for SQL only, and accepts rows of partitions that are not replaced.
Spark's own spark.sql.sources.partitionOverwriteMode has no effect here: its default is to replace all.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from hoodie.config.key import Config
from hoodie.errors import CommitConflict, ConfigError, InputError
from hoodie.table.listing import FileListing
from hoodie.table.partition import is_matched
from hoodie.table.pending import BusyGroups
from hoodie.table.view import FileSlice, TimelineView, merged_slices
from hoodie.text import argument
from hoodie.write.assign.workload import WorkloadProfile
from hoodie.write.operation import Operation, WriteRequest
from hoodie.write.settings import OVERWRITE_MODE, PARTITIONS_TO_DELETE, STATIC_PARTITIONS, OverwriteMode

_SHOWN = 3


def overwriting(request: WriteRequest, config: Config) -> tuple[WriteRequest, str]:
    """The request with the operation that the mode makes of it, and a warning, or "".

    Raises ConfigError for settings that contradict each other or the operation.
    """
    mode, named = config[OVERWRITE_MODE], config[STATIC_PARTITIONS]
    if request.operation is Operation.INSERT_OVERWRITE_TABLE:
        if mode is OverwriteMode.DYNAMIC or named:
            raise _contradiction(request, mode, named)
        return request, ""
    if request.operation is not Operation.INSERT_OVERWRITE:
        return request, ""
    if mode is OverwriteMode.DYNAMIC and named:
        raise _contradiction(request, mode, named)
    if mode is not OverwriteMode.STATIC or named:
        return request, ""
    warning = (
        f"{OVERWRITE_MODE.name}=STATIC without {STATIC_PARTITIONS.name}: all partitions are replaced, as by "
        "insert_overwrite_table"
    )
    return replace(request, operation=Operation.INSERT_OVERWRITE_TABLE), warning


def check_named_partitions(named: Collection[str], partitions: Collection[str]) -> None:
    """Raises InputError for `partitions` with rows that are not among those to be replaced."""
    outside = sorted(set(partitions) - set(named))
    if outside:
        shown = ", ".join(map(repr, outside[:_SHOWN])) + (", …" if len(outside) > _SHOWN else "")
        raise InputError(
            f"there are rows of partition {shown}, and only {', '.join(map(repr, named))} are to be replaced "
            f"({STATIC_PARTITIONS.name}); name these too, or take their rows out. Nothing was written",
            partition=outside[0],
            setting=STATIC_PARTITIONS.name,
        )


def _contradiction(request: WriteRequest, mode: OverwriteMode | None, named: Collection[str]) -> ConfigError:
    asked = f"{OVERWRITE_MODE.name}={mode.value}" if mode is OverwriteMode.DYNAMIC else ""
    paths = f"{STATIC_PARTITIONS.name}={','.join(named)}" if named else ""
    if request.operation is Operation.INSERT_OVERWRITE_TABLE:
        return ConfigError(
            f"{asked or paths} contradicts insert_overwrite_table, which replaces all partitions; leave it "
            "out, or call insert_overwrite",
            setting=OVERWRITE_MODE.name if asked else STATIC_PARTITIONS.name,
        )
    return ConfigError(
        f"{asked} contradicts {paths}; leave one of the two out", setting=STATIC_PARTITIONS.name
    )


#: the latest slices of a partition's visible file groups
Slices = Mapping[str, Sequence[FileSlice]]


def live_slices(
    listing: FileListing, snapshot: TimelineView, partitions: Iterable[str]
) -> dict[str, list[FileSlice]]:
    """The visible file groups of these partitions; those without any, or that are not there, are left out."""
    found = {place: merged_slices(snapshot, listing.files, place) for place in listing.many(partitions)}
    return {place: group for place, group in found.items() if group}


def find_replaced(
    listing: FileListing,
    snapshot: TimelineView,
    request: WriteRequest,
    config: Config,
    profile: WorkloadProfile,
) -> None:
    """Tell the profile which slices the write replaces.

    Raises InputError for a partition to delete that is not there, unless the request says `missing_ok`.
    """

    def live(partitions: Iterable[str]) -> dict[str, list[FileSlice]]:
        return live_slices(listing, snapshot, partitions)

    if request.operation is Operation.INSERT_OVERWRITE:
        named = config[STATIC_PARTITIONS]
        if named:
            check_named_partitions(named, profile.partitions)
        profile.replaced = live(sorted(set(named)) or profile.partitions)
        profile.absent = tuple(sorted(set(named) - {*profile.replaced, *profile.partitions}))
    elif request.operation is Operation.INSERT_OVERWRITE_TABLE:
        profile.replaced = live(listing.partitions())
    elif request.choose is not None:
        profile.replaced = live(sorted(request.choose(listing, snapshot)))
    elif request.operation is Operation.DELETE_PARTITION:
        asked = request.partitions or config[PARTITIONS_TO_DELETE]
        profile.replaced, profile.absent = _named(asked, listing.partitions, live, request.missing_ok)


def check_not_busy(busy: BusyGroups, replaced: Slices) -> None:
    """Raises ConflictError when a pending service works on one of the partitions.

    Its groups would be replaced twice, or made anew after they were replaced: Apache Hudi refuses to delete
    such partitions, too (DeletePartitionUtils).
    """
    for (partition, file_id), instant in busy.items():
        if partition not in replaced:
            continue
        what = "clustering" if instant.replaces else instant.action.value
        raise CommitConflict(
            f"partition {partition!r} is to be replaced, and pending {what} {instant.time} works on its file "
            f"group {file_id}. Finish that {what} first, or roll it back, then run this again",
            instant=instant.time,
            action=instant.action.value,
            partition=partition,
            file_id=file_id,
        )


def _named(
    asked: Sequence[str],
    known: Callable[[], list[str]],
    live: Callable[[Iterable[str]], dict[str, list[FileSlice]]],
    missing_ok: bool,
) -> tuple[dict[str, list[FileSlice]], tuple[str, ...]]:
    """(slices of the partitions that are there, names that stand for none)"""
    names = [name.strip("/") for name in asked if isinstance(name, str)]
    if not names or not all(names) or len(names) < len(asked):
        raise InputError(
            f"partitions to delete are {list(asked)!r}; name partition paths such as 2024-01-31 or "
            "country=de, or patterns such as 2024-01-*. All rows of a table without partitions go by "
            "insert_overwrite_table with an empty input",
            partitions=", ".join(map(str, asked)),
        )
    plain = [name for name in names if "*" not in name]
    patterns = [name for name in names if "*" in name]
    found = live(plain)
    every = known() if patterns or len(found) < len(set(plain)) else []
    matched = {name: [item for item in every if is_matched(name, item)] for name in patterns}
    found.update(live(sorted({item for group in matched.values() for item in group} - set(found))))
    absent = [name for name in dict.fromkeys(plain) if name not in found]
    absent += [name for name, group in matched.items() if not any(item in found for item in group)]
    if absent and not missing_ok:
        raise _unknown(absent, live(every))
    return dict(sorted(found.items())), tuple(absent)


def _unknown(absent: Sequence[str], there: Slices) -> InputError:
    near: list[str] = []
    for name in absent[:_SHOWN]:
        same = [path for path in there if path.partition("=")[2] == name]
        near += same or difflib.get_close_matches(name, there, n=_SHOWN, cutoff=0.5)
    hint = f"the nearest are {', '.join(dict.fromkeys(near))}" if near else f"{len(there)} others have rows"
    shown = ", ".join(map(repr, absent[:_SHOWN])) + (", …" if len(absent) > _SHOWN else "")
    return InputError(
        f"no partition {shown} with rows in the table; {hint}. Correct the name, or pass "
        f"{argument('missing_ok')} to go on without it. Nothing was deleted",
        partitions=", ".join(absent),
    )
