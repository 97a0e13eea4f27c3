"""The parts of a table's metadata table, for people, and its pending `indexing` instants. Reads listings and
timelines only.

- An `indexing` instant is an index that is planned, or that an indexer builds while writers run.
- Apache Hudi's indexer names an index as begun in the table's properties and makes its file groups. It fills
  them at the instant of its plan, with three digits more. It then adds the commits of the meantime that have
  no deltacommit in the metadata table.
- So every writer of the meantime puts the index's records of its own instants into those file groups.
- The indexer of this package (hoodie.services.index) has nothing in the metadata table until it is done.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from hoodie.errors import TableBusy, TableError
from hoodie.format.names import HFILE, METADATA_TABLE, relative_path
from hoodie.metadata.instants import NEW_TABLE
from hoodie.metadata.written_table import WrittenTable
from hoodie.table.handle import Table
from hoodie.table.pending import whole_plan
from hoodie.table.properties import METADATA_PARTITIONS_INFLIGHT, TableProperties
from hoodie.table.view import FileSlice, file_slices
from hoodie.timeline.clock import FORMAT_DIGITS
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.indexing import IndexPlan
from hoodie.timeline.time import REQUESTED, InstantTime

#: readers use it; its making was begun
READY, UNFINISHED = "ready", "unfinished"
_DATA = re.compile(r"\.hfile$|\.log\.")


@dataclass(frozen=True, kw_only=True)
class IndexState:
    """One partition of a metadata table. index: its name. state: `ready`, or `unfinished`: named by the
    properties as begun, which readers pass over. file_groups: those that are there; num_files, bytes: of all
    files, of which num_logs are log files of the latest slices. compacted_to: the instant of the table up to
    which base files have all records, "" for none.
    """

    index: str
    state: str
    file_groups: int
    num_files: int
    bytes: int
    num_logs: int
    compacted_to: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def begun_indexes(props: TableProperties) -> tuple[str, ...]:
    """Those whose making was begun, by a table's properties; readers pass them over."""
    names = props.get(METADATA_PARTITIONS_INFLIGHT, "").split(",")
    return tuple(name.strip() for name in names if name.strip())


def index_states(data: Table) -> tuple[list[IndexState], list[str]]:
    """(what the properties of a table name, instants of the metadata table that are pending).

    Raises TableError where the metadata table is not there or damaged.
    """
    ready, begun = data.properties.metadata_partitions, begun_indexes(data.properties)
    if not (ready or begun):
        return [], []
    table = WrittenTable(data)
    if not ready and not data.timeline.holds(METADATA_TABLE):
        return [_state(name, UNFINISHED, [], []) for name in begun], []
    table.read_properties()
    view, listing = table.view, table.listing()
    found: list[IndexState] = []
    for name in dict.fromkeys((*ready, *begun)):
        relative_path(name, "an index that the table's properties name")
        groups = file_slices(view, listing.files, name, HFILE)
        sizes = [item.size for item in listing.files(name) if _DATA.search(item.name)]
        state = READY if name in ready else UNFINISHED
        found.append(_state(name, state, [slices[0] for slices in groups.values()], sizes))
    return found, [instant.time for instant in table.timeline.pending()]


def _state(name: str, state: str, latest: list[FileSlice], sizes: list[int]) -> IndexState:
    begun = [item.instant for item in latest]
    return IndexState(
        index=name,
        state=state,
        file_groups=len(latest),
        num_files=len(sizes),
        bytes=sum(sizes),
        num_logs=sum(len(item.logs) for item in latest),
        compacted_to=min(
            ("" if time.startswith(NEW_TABLE) else time[:FORMAT_DIGITS] for time in begun), default=""
        ),
    )


def index_plans(table: Table) -> dict[Instant, IndexPlan]:
    """Of the pending indexing instants, oldest first. One that was killed while its plan was made has none.

    Raises TableError for a damaged plan of which the execution has begun.
    """
    found: dict[Instant, IndexPlan] = {}
    for instant in table.timeline.filter([Action.INDEXING], completed=False):
        with suppress(FileNotFoundError):
            plan = whole_plan(table.timeline, table.storage, instant, IndexPlan)
            if plan is not None:
                found[instant] = plan
    return found


def planned_indexes(table: Table) -> dict[str, Instant]:
    """The indexes of pending plans, each with its instant. Raises as `index_plans`."""
    return {name: instant for instant, plan in index_plans(table).items() for name in plan.indexes}


def indexes_under_way(table: Table) -> frozenset[str]:
    """Those that Apache Hudi's indexer has begun, as the properties were read. Raises as `index_plans`."""
    begun = frozenset(begun_indexes(table.properties))
    return begun.intersection(planned_indexes(table)) if begun else begun


def check_under_way(table: Table, names: Collection[str]) -> None:
    """Raises TableBusy while the file groups of such indexes are not there, so that nothing can be put in."""
    if not names:
        return
    written = WrittenTable(table)
    view = written.indexing_view()
    if view is not None and all(written.has_groups(name, view) for name in names):
        return
    plans = planned_indexes(table)
    times = sorted({plans[name].time for name in names if name in plans}, key=REQUESTED.key)
    raise TableBusy(
        f"Apache Hudi builds the index {', '.join(sorted(names))} of {table.base_path} (indexing "
        f"{', '.join(times)}), and has not made its file groups yet, so that this write would be missing in "
        "it. Write again in a moment; where that indexer has died, take its work back: hoodie index drop "
        f"--table {table.base_path} --indexes {','.join(sorted(names))}",
        path=table.base_path,
        instants=times,
    )


def renew_plans(table: Table, upto: InstantTime) -> None:
    """The list of files was made anew, up to an instant: plans are from there on. Apache Hudi's indexer adds
    those instants after that of its plan to the metadata table that it does not find there, and would add
    files that are gone.
    """
    for instant, plan in index_plans(table).items():
        targets = tuple(replace(target, upto=upto) for target in plan.targets)
        data = replace(plan, targets=targets).to_bytes()
        table.store.replace_plan(instant, data)


def forget_plans(table: Table, gone: Collection[str] | None = None, *, begun: bool = False) -> None:
    """Delete pending indexing instants, as Apache Hudi's drop of an index does: those that plan one of the
    indexes that are `gone`, or all; with `begun` only those whose execution has begun.
    """
    deleted = False
    for instant in table.timeline.filter([Action.INDEXING], completed=False):
        if begun and instant.state is State.REQUESTED:
            continue
        if gone is None or _plans(table, instant, gone):
            table.store.delete(instant)
            deleted = True
    if deleted:
        table.refresh()


def _plans(table: Table, instant: Instant, gone: Collection[str]) -> bool:
    """Also of a damaged plan, which nobody can execute."""
    try:
        plan = IndexPlan.from_bytes(table.timeline.plan(instant, table.storage))
    except (FileNotFoundError, TableError):
        return True
    return not frozenset(plan.indexes).isdisjoint(gone)
