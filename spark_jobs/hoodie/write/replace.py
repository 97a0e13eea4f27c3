"""Which file groups a write takes out of sight: those of a replacecommit (format.md 3.3).

insert_overwrite replaces the partitions that it has rows for, or those that are named (write.overwrite),
insert_overwrite_table all, delete_partition those that are named, or chosen. Replaced are the groups that are
visible when the write begins; their files stay until the cleaner takes them, so that older states of the
table can be read.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from hoodie.config.key import Config
from hoodie.errors import CommitConflict, InputError
from hoodie.table.listing import FileListing
from hoodie.table.pending import BusyGroups
from hoodie.table.view import FileSlice, TimelineView, merged_slices
from hoodie.timeline.instant import Action
from hoodie.write.operation import Operation, WriteRequest
from hoodie.write.overwrite import refuse_outside
from hoodie.write.settings import PARTITIONS_TO_DELETE, STATIC_PARTITIONS
from hoodie.write.workload import WorkloadProfile

_SHOWN = 3

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
            refuse_outside(named, profile.partitions)
        profile.replaced = live(sorted(set(named)) or profile.partitions)
        profile.absent = tuple(sorted(set(named) - {*profile.replaced, *profile.partitions}))
    elif request.operation is Operation.INSERT_OVERWRITE_TABLE:
        profile.replaced = live(listing.partitions())
    elif request.choose is not None:
        profile.replaced = live(sorted(request.choose(listing, snapshot)))
    elif request.operation is Operation.DELETE_PARTITION:
        asked = request.partitions or config[PARTITIONS_TO_DELETE]
        profile.replaced, profile.absent = _named(asked, listing.partitions, live, request.missing_ok)


def refuse_busy(busy: BusyGroups, replaced: Slices) -> None:
    """Raises ConflictError when a pending service works on one of the partitions.

    Its groups would be replaced twice, or made anew after they were replaced: Apache Hudi refuses to delete
    such partitions, too (DeletePartitionUtils).
    """
    for (partition, file_id), instant in busy.items():
        if partition not in replaced:
            continue
        what = "clustering" if instant.action is Action.REPLACECOMMIT else instant.action.value
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
    matched = {name: [item for item in every if is_named(name, item)] for name in patterns}
    found.update(live(sorted({item for group in matched.values() for item in group} - set(found))))
    absent = [name for name in dict.fromkeys(plain) if name not in found]
    absent += [name for name, group in matched.items() if not any(item in found for item in group)]
    if absent and not missing_ok:
        raise _unknown(absent, live(every))
    return dict(sorted(found.items())), tuple(absent)


def is_named(pattern: str, partition: str) -> bool:
    """Does the pattern name the partition. `*` is any text, slashes included, as in Apache Hudi's
    resolvePartitionWildcards.
    """
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), partition, re.DOTALL) is not None


def _unknown(absent: Sequence[str], there: Slices) -> InputError:
    near: list[str] = []
    for name in absent[:_SHOWN]:
        same = [path for path in there if path.partition("=")[2] == name]
        near += same or difflib.get_close_matches(name, there, n=_SHOWN, cutoff=0.5)
    hint = f"the nearest are {', '.join(dict.fromkeys(near))}" if near else f"{len(there)} others have rows"
    shown = ", ".join(map(repr, absent[:_SHOWN])) + (", …" if len(absent) > _SHOWN else "")
    return InputError(
        f"no partition {shown} with rows in the table; {hint}. Correct the name, or pass missing_ok to go on "
        "without it. Nothing was deleted",
        partitions=", ".join(absent),
    )
