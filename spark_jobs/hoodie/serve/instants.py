"""The instants of a table as the page lists them, a page at a time, newest last.

The list has what completed rollbacks removed, and the jobs at work on a table or waiting for it.

- What a commit wrote is read once and cached: a completed instant's file never changes.
- `start_ms` is the instant's wall clock in the timeline's own zone, as if it were UTC. So the page needs no
  zones.
- Lengths are differences of modification times of the instant's files, which do not depend on a zone.
- `elapsed_ms` is the time from requested to completed, or to now for a running instant. `waited_ms` is the
  part in which a table service's plan waited. `duration_ms` is the work. `age_ms` is the age of an
  unfinished instant.
- Lengths are None if there is no end, or if the files lack the times of the writes, as in a copied table.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hoodie.concurrency.queue import line
from hoodie.errors import ConfigError, HoodieError, NotInstalled, TableError
from hoodie.serve.tables import ShownTable
from hoodie.table.heartbeat import HeartbeatFile
from hoodie.table.settings import INTERVAL_MS, TOLERABLE_MISSES
from hoodie.timeline.active import Timeline
from hoodie.timeline.archive.archive import ArchivedEntry
from hoodie.timeline.clock import instant_millis, wall_millis
from hoodie.timeline.commit_details import CommitDetails
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from hoodie.timeline.rolled_back_commit import RolledBackCommit
from hoodie.timeline.time import REQUESTED, InstantTime
from hoodie.timeline.tokens import TaskRun


def rolled_back_instant(data: bytes) -> dict[str, Any] | None:
    """The instant, and, where the file says it, its rows and its task run. None where it can't be read, such
    as that of Apache Hudi without fastavro.
    """
    known = RolledBackCommit.read(data)
    if known is not None:
        run = known.run
        found = {name: value for name, value in vars(known).items() if name != "task"}
        return {**found, "run": vars(run) if run is not None else None}
    from hoodie.codec.avro import read_record

    try:
        record = read_record("HoodieRollbackMetadata", data)
    except HoodieError:
        return None
    items = record.get("instantsRollback") or ()
    named = [(str(item["commitTime"]), str(item["action"])) for item in items]
    times = named or [(str(time), "") for time in record["commitsRollback"]]
    return {"instant": times[0][0], "action": times[0][1], "run": None} if times else None


def alive(beat: HeartbeatFile) -> bool:
    """By the default settings; our own heartbeats say themselves for how long they count."""
    return beat.alive(INTERVAL_MS.default or 0, TOLERABLE_MISSES.default or 0)


def described(beat: HeartbeatFile) -> dict[str, Any]:
    """JSON-able: the process of a heartbeat. `frozen`: it is there, on this machine, and does not beat."""
    return {
        "frozen": beat.frozen(INTERVAL_MS.default or 0, TOLERABLE_MISSES.default or 0),
        "owner": beat.owner,
        "service": beat.service,
        "silent_ms": max(0, beat.age_ms),
        "run": vars(beat.run) if beat.run is not None else None,
    }


def waiting(table: ShownTable, beats: Collection[HeartbeatFile]) -> list[dict[str, Any]]:
    """Jobs that wait for the table, first to last, each with those at work that it waits for, and how many of
    the queue go first. `beats`: heartbeats of those at work.
    """
    queue = line(table.table, INTERVAL_MS.default or 0, TOLERABLE_MISSES.default or 0)
    if not queue:
        return []
    holders = [
        {"instant": beat.instant, **described(beat)} for beat in beats if not beat.service and alive(beat)
    ]
    return [
        {
            "rank": item.rank.name.lower(),
            "waited_ms": max(0, table.now_ms - item.arrived_ms),
            **described(item.beat),
            "ahead": place,
            "for": holders,
        }
        for place, item in enumerate(queue)
    ]


T = TypeVar("T")
LIMIT, MAX_LIMIT = 200, 1000

#: the plan of these may lie for long before it is carried out
_PLANNED = frozenset(
    {Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING, Action.CLEAN, Action.INDEXING}
)
#: a writer creates its first file this soon after it took the instant, clocks of storages differing
_PROMPT_MS = 60_000
_QUARTER_MS = 15 * 60_000
_DAY_MS = 26 * 3_600_000


@dataclass(frozen=True)
class StateTimes:
    """When the files of an instant's states were written: epoch milliseconds, None where it is not known."""

    requested: int | None = None
    inflight: int | None = None
    completed: int | None = None

    @classmethod
    def of(cls, timeline: Timeline, instant: Instant) -> StateTimes:
        """By modification times; by the times in names where the layout has them, which a copy keeps. A
        completed commit may have been a compaction.
        """
        actions = [instant.action, *timeline.layout.plans_of(instant.action)]

        def changed(state: State) -> int | None:
            times = (timeline.changed_ms(Instant(instant.time, action, state)) for action in actions)
            return next((time for time in times if time is not None), None)

        inflight, completed = changed(State.INFLIGHT), timeline.completion_of(instant)
        if not timeline.layout.has_completion_time:
            return cls(changed(State.REQUESTED), inflight, completed)
        if instant.action is Action.SAVEPOINT:  # it has the time of the commit that it keeps
            return cls(None, inflight, completed)
        begun = instant_millis(instant.time, timeline.utc)
        known = inflight is not None and begun <= inflight <= (inflight if completed is None else completed)
        return cls(begun, inflight if known else None, completed)

    def known(self, time: InstantTime, utc: bool) -> bool:
        """Are these the times of the writes, and not those of a copy?"""
        if self.requested is None or self.requested == self.completed:
            return False
        late = self.requested - instant_millis(time, utc)
        if abs(late) <= _PROMPT_MS:
            return True
        away = abs((late + _QUARTER_MS // 2) % _QUARTER_MS - _QUARTER_MS // 2)
        return not utc and _QUARTER_MS // 2 < abs(late) <= _DAY_MS and away <= _PROMPT_MS


@dataclass(frozen=True)
class ShownInstant:
    """One instant in the list.

    `status` is completed, running (its writer's heart beats), failed (it has stopped beating), scheduled (a
    plan that waits) or open (unfinished, without a sign of its process: it failed, or Apache Hudi writes
    without a heartbeat). `details` are a commit's, `run` the task's of an unfinished one, `rolled_back` what
    a rollback took back.
    """

    instant: Instant
    status: str
    times: StateTimes | None
    now_ms: int
    details: CommitDetails | None = None
    beat: HeartbeatFile | None = None
    service: bool = False
    archived: bool = False
    run: TaskRun | None = None
    rolled_back: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "instant": self.instant.time,
            "action": self.instant.action.value,
            "state": self.instant.state.name.lower(),
            "status": self.status,
            "service": self.service,
            "archived": self.archived,
            "start_ms": wall_millis(self.instant.time),
            **self._lengths(),
        }
        if self.details is not None:
            out |= {
                "operation": self.details.operation.lower() or None,
                "partitions": len(self.details.partitions),
                **self.details.counts,
            }
        run = self.run if self.details is None else TaskRun.of(self.details.extra_metadata)
        if run is not None or self.details is not None:
            out["run"] = vars(run) if run is not None else None
        if self.beat is not None:
            out["writer"] = described(self.beat)
        if self.rolled_back is not None:
            out["taken_back"] = dict(self.rolled_back)
        return out

    def _lengths(self) -> dict[str, int | None]:
        times = self.times
        if times is None or times.requested is None:
            return dict.fromkeys(("elapsed_ms", "waited_ms", "duration_ms"))
        begun = times.inflight if self.service else times.requested
        ends = {"completed": times.completed, "running": self.now_ms}
        end = ends.get(self.status)
        return {
            "elapsed_ms": _length(times.requested, end),
            "waited_ms": _length(times.requested, begun) if self.service else None,
            "duration_ms": _length(begun, end),
            **({} if self.instant.completed else {"age_ms": _length(times.requested, self.now_ms)}),
        }


class Summaries:
    """What completed commits wrote, and rollbacks took back, by file: the newest looked at are kept. Threads
    may share it.
    """

    def __init__(self, size: int = 20_000) -> None:
        self._size = size
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._archives: OrderedDict[str, tuple[Any, list[ShownInstant]]] = OrderedDict()
        self._lock = threading.Lock()

    def commit(self, table: ShownTable, timeline: Timeline, instant: Instant) -> CommitDetails | None:
        """None while the file can't be read, as that of layout two without fastavro, or is no commit's."""
        if not instant.completed or instant.action not in COMMIT_ACTIONS:
            return None
        key = (table.base_path, instant, timeline.changed_ms(instant))
        return self._once(key, lambda: timeline.details(instant, table.storage))

    def rolled_back(
        self, table: ShownTable, timeline: Timeline, instant: Instant
    ) -> Mapping[str, Any] | None:
        """What a completed rollback took back; None while it can't be read."""
        if not instant.completed or instant.action is not Action.ROLLBACK:
            return None
        key = (table.base_path, instant, timeline.changed_ms(instant))
        return self._once(key, lambda: rolled_back_instant(table.storage.read(timeline.path(instant))))

    def _once(self, key: Hashable, read: Callable[[], T | None]) -> T | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                known: T = self._kept[key]
                return known
        try:
            found = read()
        except (FileNotFoundError, TableError, NotInstalled):
            return None
        if found is not None:
            with self._lock:
                self._kept[key] = found
                while len(self._kept) > self._size:
                    self._kept.popitem(last=False)
        return found

    def archived(self, table: ShownTable) -> list[ShownInstant]:
        """All archived instants, oldest first. Raises TableError, HoodieError without fastavro."""
        files = [tuple(item) for item in table.archive.files()]
        with self._lock:
            seen, known = self._archives.get(table.base_path, (None, []))
        if seen == files:
            return known
        found = _archived(table)
        with self._lock:
            self._archives[table.base_path] = (files, found)
            while len(self._archives) > 8:
                self._archives.popitem(last=False)
        return found


def parse_limit(text: str | None) -> int:
    """Raises ConfigError for what is no number from 1 to 1000."""
    if text is None:
        return LIMIT
    if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MAX_LIMIT:
        return int(text)
    raise ConfigError(f"limit={text!r}; use a number from 1 to {MAX_LIMIT}", limit=text)


def parse_before(text: str | None) -> str | None:
    if text is None or (text.isascii() and text.isdigit() and len(text) <= 20):
        return text
    raise ConfigError(f"before={text!r} is no instant; use the digits that `next_before` gave", before=text)


def active_page(
    table: ShownTable, summaries: Summaries, limit: int = LIMIT, before: str | None = None
) -> dict[str, Any]:
    """The `limit` newest instants of the active timeline before a time (exclusive), and all of one time.

    The first page also names the unfinished instants that are older than it, and the jobs that wait.
    """
    timeline = table.timeline()
    beats = table.beats() if timeline.pending() or before is None else {}
    chosen, cursor = _page(timeline.instants, limit, before)

    def shown(instants: Iterable[Instant]) -> list[dict[str, Any]]:
        return [show(table, timeline, summaries, instant, beats).to_dict() for instant in instants]

    older = [] if before is not None or cursor is None else timeline.before(cursor, timeline.pending())
    return {
        "table": table.to_dict(),
        "now_ms": table.now_ms,
        "total": len(timeline.instants),
        "pending": len(timeline.pending()),
        "instants": shown(chosen),
        "older_pending": shown(older),
        "waiting": waiting(table, beats.values()) if before is None else [],
        "next_before": cursor,
    }


def archived_page(
    table: ShownTable, summaries: Summaries, limit: int = LIMIT, before: str | None = None
) -> dict[str, Any]:
    """The same of the archived timeline."""
    found = summaries.archived(table)
    by_instant = {item.instant: item for item in found}
    chosen, cursor = _page(list(by_instant), limit, before)
    return {
        "table": table.to_dict(),
        "now_ms": table.now_ms,
        "total": len(found),
        "pending": 0,
        "instants": [by_instant[instant].to_dict() for instant in chosen],
        "older_pending": [],
        "waiting": [],
        "next_before": cursor,
    }


def show(
    table: ShownTable,
    timeline: Timeline,
    summaries: Summaries,
    instant: Instant,
    beats: Mapping[str, HeartbeatFile],
) -> ShownInstant:
    """One instant of the active timeline; opens it if it is a completed commit."""
    details = summaries.commit(table, timeline, instant)
    times = StateTimes.of(timeline, instant)
    kind = timeline.kind_from_listing(instant)
    rewrites = kind is not None and kind.rewrites
    beat = beats.get(instant.time) if not instant.completed else None
    return ShownInstant(
        instant,
        _status(instant, beat),
        times if times.known(instant.time, table.props.timeline_utc) else None,
        table.now_ms,
        details,
        beat,
        service=rewrites or instant.action in _PLANNED or (details is not None and details.is_service),
        run=None if instant.completed else _run(table, timeline, instant, beat),
        rolled_back=summaries.rolled_back(table, timeline, instant),
    )


def _run(
    table: ShownTable, timeline: Timeline, instant: Instant, beat: HeartbeatFile | None
) -> TaskRun | None:
    """The task run that an unfinished instant is of: its heartbeat names it, or its inflight file."""
    if beat is not None and beat.run is not None:
        return beat.run
    if instant.state is not State.INFLIGHT or instant.action not in COMMIT_ACTIONS:
        return None
    try:
        data = table.storage.read(timeline.path(instant))
        return TaskRun.of(timeline.parse_state(instant, data).extra_metadata)
    except (FileNotFoundError, HoodieError):
        return None


def _status(instant: Instant, beat: HeartbeatFile | None) -> str:
    if instant.completed:
        return "completed"
    if beat is not None:
        return "running" if alive(beat) else "failed"
    waits = instant.action in _PLANNED or instant.replaces
    return "scheduled" if instant.state is State.REQUESTED and waits else "open"


def _page(
    instants: Sequence[Instant], limit: int, before: str | None
) -> tuple[Sequence[Instant], InstantTime | None]:
    """The last `limit` before a time, and the time before which the next page ends; None at the beginning."""
    known = [instant for instant in instants if instant.is_before(before)]
    start = max(0, len(known) - limit)
    while start > 0 and known[start - 1].time == known[start].time:
        start -= 1
    return known[start:], known[start].time if start else None


@dataclass
class _Archived:
    """What is kept of the entries of one instant while the archive is read."""

    last: Instant
    changed: dict[State, str | None]
    details: CommitDetails | None = None
    planned: bool = False

    def take(self, entry: ArchivedEntry) -> None:
        instant = entry.instant
        self.last = max(self.last, instant, key=lambda item: item.state)
        self.changed[instant.state] = entry.changed
        self.planned = self.planned or instant.action in _PLANNED
        if instant.completed and (commit := entry.commit) is not None:
            self.details = CommitDetails.of(commit.to_dict())


def _archived(table: ShownTable) -> list[ShownInstant]:
    found: dict[tuple[str, str], _Archived] = {}
    for entry in table.archive.entries():
        key = (REQUESTED.key(entry.instant.time), entry.instant.comparable_action.value)
        found.setdefault(key, _Archived(entry.instant, {})).take(entry)
    utc = table.props.timeline_utc
    out: list[ShownInstant] = []
    for _, item in sorted(found.items()):
        times = StateTimes(*(_millis(item.changed.get(state), utc) for state in State))
        out.append(
            ShownInstant(
                item.last,
                "completed" if item.last.completed else "open",
                times if times.known(item.last.time, utc) else None,
                table.now_ms,
                item.details,
                service=item.planned or (item.details is not None and item.details.is_service),
                archived=True,
            )
        )
    return out


def _millis(time: str | None, utc: bool) -> int | None:
    try:
        return instant_millis(time, utc) if time else None
    except ValueError:
        return None


def _length(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else max(0, end - start)
