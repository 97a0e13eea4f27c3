"""Indexes of a table's metadata table on request: created, dropped, rebuilt, or built while writers run.

- **Create and rebuild** have the table for themselves: no writer, no service, and no pending plan, since the
  index would neither list nor follow its files.
- **Visibility**: readers use an index once the table's properties name it. That is the last step of a create
  and the first step of a drop.
- **A rebuild** names its index as begun in the meantime, so that after a kill the next writer builds it
  (hoodie.write.participants.metadata_table).
- **Built while writers run**: an `indexing` instant on the table's timeline, as of Apache Hudi's indexer.
  `schedule_indexing` puts the plan there.
- `execute_indexing` takes the table twice for a moment, for its list of files and at the end
  (hoodie.write.participants.metadata.async_indexer). Writers continue in between.
- The plan stays `requested` until the end, so that after a kill it remains for this or for Apache Hudi's
  indexer.
- **The end** writes the inflight file, the indexes, their names in the table's properties, the completed
  instant. A kill between these leaves a plan that the same call finishes.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from hoodie.errors import AlreadyExists, ConfigError, TableBusy
from hoodie.metadata.index_definitions import IndexDefinition
from hoodie.metadata.partitions.expression_index import STATISTICS
from hoodie.metadata.settings import INDEX_NAME, METADATA_ENABLE, RECORD_INDEX_ENABLE
from hoodie.metadata.state import (
    begun_indexes,
    forget_plans,
    index_plans,
    index_states,
    indexes_under_way,
    planned_indexes,
)
from hoodie.metadata.table import DEFINED, Partition
from hoodie.progress import ProgressCallback
from hoodie.services.index.service import CREATE, DROP, EXECUTE, REBUILD, SCHEDULE, SHOW, IndexRequest
from hoodie.services.results import ServiceResult, about
from hoodie.services.service_table import ServiceTable
from hoodie.table.features import Feature, check_features
from hoodie.table.handle import Table
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from hoodie.timeline.models.indexing import IndexMetadata, IndexPlan, IndexTarget
from hoodie.timeline.store import begin_instant
from hoodie.timeline.time import NO_TIME, InstantTime
from hoodie.write.participants.metadata import ASKED_TO_GO, MetadataPartition
from hoodie.write.participants.metadata.async_indexer import AsyncIndexer
from hoodie.write.participants.metadata.definitions import (
    SECONDARY,
    configured,
    make_defined,
    new_definition,
    options_of,
    unfollowed,
)
from hoodie.write.participants.metadata.initialization import drop_partitions, make_partitions
from hoodie.write.participants.metadata.registry import ALL_PARTITIONS, made_of, partitions_of
from hoodie.write.participants.metadata_table import begin_rebuild, drop_metadata_table, finish_rebuild
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
        known = [kept.partition.value for kept in partitions_of(plan.indexes) if kept.beside_writers]
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
    wanted = partitions_of(plan.indexes)
    for _ in range(_ATTEMPTS):
        with suppress(FileNotFoundError):
            return _execute_planned(target, instant, wanted, progress, alone=False)
    return _execute_planned(target, instant, wanted, progress, alone=True)


def _execute_planned(
    target: ServiceTable,
    instant: Instant,
    wanted: list[MetadataPartition],
    progress: ProgressCallback,
    alone: bool,
) -> bool:
    table, names = target.table, ", ".join(kept.partition.value for kept in wanted)
    with AsyncIndexer(table, target.config, wanted) as making:
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
        check_no_pending_plans(target, target.timeline())
        yield transaction


def _waits(table: Table, instant: Instant) -> Instant | None:
    """The instant of the plan as it is now; None where it is not pending."""
    pending = table.timeline.filter([Action.INDEXING], completed=False)
    return next((item for item in pending if item.time == instant.time), None)


def check_no_pending_plans(target: ServiceTable, timeline: Timeline) -> None:
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


_FILES = Partition.FILES.value


@dataclass(frozen=True, kw_only=True, repr=False)
class IndexResult(ServiceResult):
    """What an index job did, or, with dry_run, would do.

    status: `shown`, `created`, `scheduled`, `dropped`, `rebuilt`, `planned` (a dry run), or `skipped`, for
    `reason`. made, dropped: names of indexes; those that are rebuilt are both. instants: the indexing
    instants that were planned, or executed. indexes: what the table has now, each as
    metadata.state.IndexState. pending: instants of the metadata table that are not completed.
    """

    mode: str
    made: list[str]
    dropped: list[str]
    instants: list[str]
    indexes: list[dict[str, Any]]
    pending: list[str]
    action: str = "indexing"
    operation: str = "index"


@dataclass(frozen=True)
class _Work:
    """Names of the indexes to drop, and of those to make afterwards; none of both for `reason`. instants: of
    plans. definitions: of those to make that have one.
    """

    drop: tuple[str, ...] = ()
    make: tuple[str, ...] = ()
    reason: str = ""
    instants: tuple[InstantTime, ...] = ()
    definitions: tuple[IndexDefinition, ...] = ()


def index(request: IndexRequest) -> IndexResult:
    """Show, make, drop or rebuild indexes. Raises HoodieError with nothing changed: ConfigError for names of
    indexes that are not made here, TableBusy while the table has plans that wait, ConflictError while another
    process is at work. A making that fails afterwards leaves the index out of the table's properties.
    """
    started = time.monotonic()
    target = ServiceTable.open(request.table, request.options, reads=request.mode == SHOW)
    done = _work(target, request)
    if request.mode != SHOW and not request.dry_run and not done.reason:
        done = _RUNS.get(request.mode, _run)(target, request, done)
    return _result(target, request, done, time.monotonic() - started)


def _work(target: ServiceTable, request: IndexRequest) -> _Work:
    props, mode = target.props, request.mode
    planned = planned_indexes(target.table) if mode == DROP else {}
    there = dict.fromkeys((*props.metadata_partitions, *begun_indexes(props), *planned))
    if mode == SHOW:
        return _Work()
    check_features(props, "index", "indexed", Feature.OTHER_BASE_FILES)
    if mode == CREATE:
        defined = _definitions(target, request)
        if defined:
            return _to_define(target, request, defined)
    wanted = _names(target, request, {} if mode in (CREATE, SCHEDULE) else there)
    if mode in (CREATE, SCHEDULE):
        return _to_create(target, request, wanted)
    if mode == EXECUTE:
        return _to_execute(target, request)
    unknown = [name for name in wanted if name not in there]
    chosen = [name for name in (wanted or there) if name in there]
    if _FILES in chosen:  # the others are nothing without it
        chosen = list(there)
    if mode == DROP:
        chosen = [*chosen, *(name for name in there if name not in chosen and made_of(name) in chosen)]
        named = f"no index {', '.join(unknown)}" if unknown else "no index"
        return _Work(drop=tuple(chosen), reason="" if chosen else f"the table has {named}")
    if unknown:
        raise ConfigError(
            f"{target.base_path} has no index {', '.join(unknown)} to rebuild; make it: hoodie index create "
            f"--table {target.base_path} --indexes {','.join(unknown)}",
            indexes=",".join(unknown),
        )
    _check_setting(target, mode, chosen)
    kept = [item.partition.value for item in partitions_of(chosen)]
    return _Work(tuple(chosen), tuple(kept), "" if chosen else "the table has no index")


def _to_create(target: ServiceTable, request: IndexRequest, wanted: list[str]) -> _Work:
    if not wanted:
        raise ConfigError(
            f"the request names no index to {request.mode}; give --indexes, some of {', '.join(_supported())}"
        )
    _check_setting(target, request.mode, wanted)
    ready = target.props.metadata_partitions
    if request.mode == SCHEDULE:
        missing = unplanned(target, wanted)
        reason = "" if missing else f"the table has {', '.join(wanted)}, or a plan of it, already"
        return _Work(make=tuple(missing), reason=reason)
    _check_not_under_way(target, wanted)
    missing = [name for name in (_FILES, *wanted) if name not in ready]
    reason = "" if missing else f"the table has the indexes {', '.join(ready)} already"
    return _Work(make=tuple(dict.fromkeys(missing)), reason=reason)


def _definitions(target: ServiceTable, request: IndexRequest) -> list[IndexDefinition]:
    """Of the indexes of columns that the request, or the settings, ask for. Raises ConfigError."""
    table = target.table
    if not request.column:
        return [] if request.indexes else configured(table, target.config)
    options = options_of(request.expression or "")
    kind = request.using or (STATISTICS if options else SECONDARY)
    name = (request.indexes or target.config[INDEX_NAME] or "").strip()
    return [new_definition(table, name, request.column, kind, options)]


def _to_define(target: ServiceTable, request: IndexRequest, wanted: list[IndexDefinition]) -> _Work:
    _check_setting(target, request.mode, [])
    ready = target.props.metadata_partitions
    missing = [item for item in wanted if item.name not in ready]
    for item in missing:
        if why := unfollowed(target.table, item):
            raise ConfigError(
                f"index {item.name} of {target.base_path} would not be kept: {why}", indexes=item.name
            )
    made = [item.name for item in missing]
    of_keys = any(item.kind == SECONDARY for item in missing)
    if of_keys and Partition.RECORD_INDEX.value not in ready:
        if not target.config[RECORD_INDEX_ENABLE]:
            raise ConfigError(
                f"a secondary index of {target.base_path} needs a record index: set "
                f"{RECORD_INDEX_ENABLE.name}=true, or make it first (hoodie index create --table "
                f"{target.base_path} --indexes record_index)",
                setting=RECORD_INDEX_ENABLE.name,
            )
        made.insert(0, Partition.RECORD_INDEX.value)
    if made and _FILES not in ready:
        made.insert(0, _FILES)
    reason = "" if made else f"the table has the indexes {', '.join(item.name for item in wanted)} already"
    return _Work(make=tuple(made), reason=reason, definitions=tuple(missing))


def _to_execute(target: ServiceTable, request: IndexRequest) -> _Work:
    plans = pending_plans(target)
    names = dict.fromkeys(name for plan in plans.values() for name in plan.indexes)
    _check_setting(target, request.mode, list(names))
    times = tuple(instant.time for instant in plans)
    return _Work(make=tuple(names), reason="" if plans else "no indexing is planned", instants=times)


def _check_not_under_way(target: ServiceTable, wanted: Sequence[str]) -> None:
    """Raises TableBusy for indexes that Apache Hudi is building."""
    begun = sorted(indexes_under_way(target.table).intersection(wanted))
    if begun:
        raise TableBusy(
            f"Apache Hudi's indexer has begun {', '.join(begun)} of {target.base_path}: wait for it; where "
            f"it has died, take its work back first: hoodie index drop --table {target.base_path} "
            f"--indexes {','.join(begun)}",
            path=target.base_path,
            indexes=",".join(begun),
        )


def _names(target: ServiceTable, request: IndexRequest, there: dict[str, None]) -> list[str]:
    """Raises ConfigError for an index that is neither kept here nor `there`. Those of columns, which have any
    name, may have been dropped before.
    """
    names = [name.strip() for name in (request.indexes or "").split(",")]
    found = list(dict.fromkeys(_full(name, there) for name in names if name))
    gone = request.mode == DROP and target.table.layout.has_completion_time
    for name in found:
        if name not in _supported() and name not in there and not gone:
            known = ", ".join(dict.fromkeys((*_supported(), *there)))
            more = f", or give its column: --column C --indexes {name}" if request.mode == CREATE else ""
            raise ConfigError(f"there is no index {name!r} here; use some of {known}{more}", indexes=name)
    return found


def _full(name: str, there: Collection[str]) -> str:
    """The name of a partition of the metadata table; that of an index of a column may lack its begin."""
    if name in there:
        return name
    return next((full for begin in DEFINED if (full := f"{begin}{name}") in there), name.lower())


def _supported() -> tuple[str, ...]:
    return tuple(item.partition.value for item in ALL_PARTITIONS)


def _check_setting(target: ServiceTable, mode: str, names: Sequence[str]) -> None:
    """Raises ConfigError for indexes that the next write with these settings would drop again."""
    if target.config[METADATA_ENABLE] is False:
        raise ConfigError(
            f"{METADATA_ENABLE.name}=false removes the metadata table, and {mode} would make a part of it; "
            "leave the setting out",
            setting=METADATA_ENABLE.name,
        )
    for kept in partitions_of(names):
        why = kept.unfollowed(target.table, target.config)
        if kept.asked(target.config) is False:
            why = ASKED_TO_GO
        if mode == SCHEDULE and not kept.beside_writers:
            why = "it can't be made beside writers; use create"
        if why:
            name = kept.partition.value
            raise ConfigError(f"index {name} of {target.base_path} would not be kept: {why}", indexes=name)


def _run(target: ServiceTable, request: IndexRequest, work: _Work) -> _Work:
    with target.transaction(request.progress) as transaction:
        transaction.claim(alone=True)
        target.table.read_properties()
        asked, work = work, _work(target, request)  # as the table is now
        timeline = target.timeline()
        if work.make:
            check_no_pending_plans(target, timeline)
        transaction.check_claim()
        if not work.reason:
            with transaction.publishing():
                _do(target, request, work)
        target.table.reopen()
    settled = [name for name in asked.make if request.mode == CREATE and name not in work.make]
    made = (*settled, *work.make)
    return replace(work, make=made, reason="" if made else work.reason)  # some by the settings, meanwhile


def _do(target: ServiceTable, request: IndexRequest, work: _Work) -> None:
    table, config, progress = target.table, target.config, request.progress
    if request.mode == REBUILD:
        progress("index", f"rebuild {', '.join(work.make)}")
        begin_rebuild(table, work.drop)
        finish_rebuild(table, config, progress)
    elif request.mode == DROP:
        progress("index", f"drop {', '.join(work.drop)}")
        if _FILES in work.drop or not table.properties.metadata_partitions:
            drop_metadata_table(table)
            forget_plans(table, work.drop)
        else:
            drop_partitions(table, work.drop)
    else:
        plain = partitions_of(set(work.make) - {item.name for item in work.definitions})
        if plain:
            make_partitions(table, config, plain, progress)
        for definition in work.definitions:
            make_defined(table, config, definition, progress)
            if definition.kind != SECONDARY:
                target.warnings.append(_taken_for_others(definition))


def _taken_for_others(definition: IndexDefinition) -> str:
    """As of indexes of its own (tests.interop.test_column_indexes)."""
    return (
        f"queries of Apache Hudi 1.2.0 with data skipping take {definition.name} for other conditions on "
        f"{definition.source_fields[0]}, too, and leave out rows; set hoodie.enable.data.skipping=false there"
    )


def _schedule(target: ServiceTable, request: IndexRequest, work: _Work) -> _Work:
    instant = schedule_indexing(target, work.make, request.progress)
    return replace(work, instants=(instant.time,))


def _execute(target: ServiceTable, request: IndexRequest, work: _Work) -> _Work:
    done = {
        instant.time: plan.indexes
        for instant, plan in pending_plans(target).items()
        if execute_indexing(target, instant, plan, request.progress)
    }
    made = dict.fromkeys(name for names in done.values() for name in names)
    return _Work(make=tuple(made), instants=tuple(done), reason="" if done else "no indexing is planned")


_RUNS = {SCHEDULE: _schedule, EXECUTE: _execute}
_STATUS = {
    SHOW: "shown",
    CREATE: "created",
    SCHEDULE: "scheduled",
    EXECUTE: "created",
    DROP: "dropped",
    REBUILD: "rebuilt",
}


def _result(target: ServiceTable, request: IndexRequest, work: _Work, seconds: float) -> IndexResult:
    planned = request.dry_run and request.mode != SHOW
    indexes, pending = index_states(target.table)
    return IndexResult(
        status="skipped" if work.reason else "planned" if planned else _STATUS[request.mode],
        mode=request.mode,
        made=list(work.make),
        dropped=list(work.drop),
        instants=list(work.instants),
        indexes=[item.to_dict() for item in indexes],
        pending=pending,
        reason=work.reason,
        **about(target, request.dry_run, seconds),
    )
