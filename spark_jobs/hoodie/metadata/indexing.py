"""Pending `indexing` instants of a table: indexes that are planned, or being built, beside writers.

Apache Hudi's indexer names an index as begun in the table's properties, makes its file groups, fills them at
the instant that its plan names, with three digits more, and then adds what was committed meanwhile and has no
deltacommit in the metadata table. So whoever writes meanwhile puts the index's records of its own instants
into those file groups. Ours (hoodie.services.index) has nothing in the metadata table until it is done.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from hoodie.errors import TableBusy, TableError
from hoodie.metadata.state import begun_indexes
from hoodie.metadata.written_table import WrittenTable
from hoodie.table.handle import Table
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.indexing import IndexPlan
from hoodie.timeline.time import REQUESTED, InstantTime


def index_plans(table: Table) -> dict[Instant, IndexPlan]:
    """Of the pending indexing instants, oldest first. One that was killed while its plan was made has none.

    Raises TableError for a damaged plan of which the execution has begun.
    """
    found: dict[Instant, IndexPlan] = {}
    for instant in table.timeline.filter([Action.INDEXING], completed=False):
        with suppress(FileNotFoundError):
            try:
                found[instant] = IndexPlan.from_bytes(table.timeline.plan(instant, table.storage))
            except TableError:
                if instant.state is not State.REQUESTED:
                    raise
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
