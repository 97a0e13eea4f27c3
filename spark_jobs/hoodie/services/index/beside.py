"""Indexes built beside writers: an `indexing` instant on the table's timeline, as of Apache Hudi's indexer.

`schedule_indexing` puts the plan there. `execute_indexing` takes the table twice for a moment, for its list
of files and at the end (hoodie.write.kept.beside); writers go on in between. The plan stays `requested` until
then, so that after a kill it waits as before, for this or for Apache Hudi's indexer. At the end: the inflight
file, the indexes, their names in the table's properties, the completed instant. A kill between these leaves a
plan that the same call finishes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from hoodie.errors import AlreadyExists, ConfigError, TableBusy
from hoodie.metadata.indexing import index_plans, indexes_under_way, planned_indexes
from hoodie.progress import ProgressCallback
from hoodie.services.service_table import ServiceTable
from hoodie.table.handle import Table
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from hoodie.timeline.models.indexing import IndexMetadata, IndexPlan, IndexTarget
from hoodie.timeline.store import begin_instant
from hoodie.timeline.time import NO_TIME, InstantTime
from hoodie.write.kept import KeptPartition
from hoodie.write.kept.beside import MakingBeside
from hoodie.write.kept.partitions import kept_partitions
from hoodie.write.transaction import Transaction

#: beside writers; where files are deleted under each of them, the next one has the table for itself
_ATTEMPTS = 2
_SHOWN = 5


def schedule_indexing(target: ServiceTable, names: Collection[str], progress: ProgressCallback) -> Instant:
    """The plan to build some of the indexes, those that are neither there nor planned."""

    def plan(timeline: Timeline, time: str) -> bytes:
        upto = _contiguous(timeline)
        return IndexPlan(tuple(IndexTarget(name, upto) for name in names)).to_bytes()

    with target.transaction(progress) as transaction:
        instant = transaction.schedule(Action.INDEXING, plan)
    assert instant is not None
    return instant


def unplanned(target: ServiceTable, names: Collection[str]) -> list[str]:
    """Those of the indexes that are neither there nor planned."""
    there = {*target.props.metadata_partitions, *planned_indexes(target.table)}
    return [name for name in names if name not in there]


def pending_plans(target: ServiceTable) -> dict[Instant, IndexPlan]:
    """The plans that are executed here. Raises ConfigError for an index that is not kept here, and TableBusy
    for one that Apache Hudi is building.
    """
    plans, under_way = index_plans(target.table), indexes_under_way(target.table)
    for instant, plan in plans.items():
        known = [kept.partition.value for kept in kept_partitions(plan.indexes)]
        other = [name for name in plan.indexes if name not in known]
        if other:
            raise ConfigError(
                f"indexing {instant.time} of {target.base_path} is of {', '.join(other)}, which is not kept "
                "here: run it with Apache Hudi, or take it back: hoodie index drop --indexes "
                f"{','.join(other)}",
                instant=instant.time,
                indexes=",".join(other),
            )
        begun = under_way.intersection(plan.indexes)
        if begun:
            raise TableBusy(
                f"Apache Hudi's indexer has begun {', '.join(sorted(begun))} of {target.base_path} (indexing "
                f"{instant.time}): wait for it; where it has died, take its work back (hoodie index drop "
                f"--indexes {','.join(sorted(begun))}), then build the index anew",
                path=target.base_path,
                instants=[instant.time],
            )
    return plans


def execute_indexing(
    target: ServiceTable, instant: Instant, plan: IndexPlan, progress: ProgressCallback
) -> bool:
    """False where another process has executed the plan, or taken it back, meanwhile. Raises TableBusy while
    other plans wait: run it again once they are executed.
    """
    wanted = kept_partitions(plan.indexes)
    for _ in range(_ATTEMPTS):
        with suppress(FileNotFoundError):
            return _execute(target, instant, wanted, progress, alone=False)
    return _execute(target, instant, wanted, progress, alone=True)


def _execute(
    target: ServiceTable,
    instant: Instant,
    wanted: list[KeptPartition],
    progress: ProgressCallback,
    alone: bool,
) -> bool:
    table, names = target.table, ", ".join(kept.partition.value for kept in wanted)
    with MakingBeside(table, target.config, wanted) as making:
        if not alone:
            with _claimed(target, progress):
                if _waits(table, instant) is None:
                    return False
                count = making.begin()
            progress("index", f"index {count} files beside writers: {names}")
            making.fill()
            progress("index", f"add what was written meanwhile to {names}")
        with _claimed(target, progress) as transaction:
            waiting = _waits(table, instant)
            if waiting is None:
                return False
            if alone:
                making.begin()
                making.fill()
            transaction.check_claim()
            with transaction.publishing():
                with suppress(AlreadyExists):
                    begin_instant(table.store, waiting.with_state(State.INFLIGHT))
                upto = making.finish()
            done = IndexMetadata(tuple(IndexTarget(kept.partition.value, upto) for kept in wanted))
            transaction.complete(instant, done)
            table.reopen()
    return True


@contextmanager
def _claimed(target: ServiceTable, progress: ProgressCallback) -> Iterator[Transaction]:
    """The table for this process alone, as it is now."""
    with target.transaction(progress) as transaction:
        transaction.claim(alone=True)
        target.table.reopen()
        refuse_pending(target, target.timeline())
        yield transaction


def _waits(table: Table, instant: Instant) -> Instant | None:
    """The instant of the plan as it is now; None where it is not pending."""
    pending = table.timeline.filter([Action.INDEXING], completed=False)
    return next((item for item in pending if item.time == instant.time), None)


def refuse_pending(target: ServiceTable, timeline: Timeline) -> None:
    """Raises TableBusy while plans wait, whose files would be missing in an index."""
    pending = [instant for instant in timeline.pending() if instant.action is not Action.INDEXING]
    if not pending:
        return
    named = ", ".join(str(instant) for instant in pending[:_SHOWN])
    more = f", and {len(pending) - _SHOWN} more" if len(pending) > _SHOWN else ""
    raise TableBusy(
        f"no index of {target.base_path} can be made while instants are pending, since their files would not "
        f"be in it: {named}{more}. Finish them (hoodie services run), or cancel them (hoodie cancel)",
        path=target.base_path,
        instants=[instant.time for instant in pending],
    )


def _contiguous(timeline: Timeline) -> InstantTime:
    """The newest commit before which none is pending; "" for none."""
    writes = [item for item in timeline if item.comparable_action in COMMIT_ACTIONS]
    first = next((item.time for item in writes if not item.completed), None)
    done = [item.time for item in writes if item.completed and (first is None or item.is_before(first))]
    return done[-1] if done else NO_TIME
