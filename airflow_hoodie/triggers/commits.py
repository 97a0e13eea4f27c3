"""CommitEventTrigger: one asset event for every completed commit of a table, and the poll that many share.

Airflow calls `filter_shared_stream` of each watcher with one stream of polls for all watchers of a table. A
watcher's WatchOffset lies in the state store of its asset. It is written once Airflow has
stored the events (the stream's `advance`), and, in the very transaction that stores an event, by the
listener `airflow_hoodie.plugins.commits`: with it an event is stored exactly once whatever dies when; without
it (a plugin can be switched off) the events of the last seconds before a crash may come again.

How far a watcher of commits has come: enough to miss none and to name none twice.

Commits complete in another order than they begin, their files get their times before they become visible,
and clocks of writers differ. So a watcher keeps no single newest commit but, beside a lower bound, the
instants above it that it has dealt with.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import Any

from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

from airflow_hoodie.commits import CommitHit, TableReader, completed_at
from airflow_hoodie.compat.shared_stream import waits_for_the_event
from airflow_hoodie.compat.task_sdk import asset_stores
from airflow_hoodie.conditions import COMMITS, CommitFilter, Since
from airflow_hoodie.exceptions import HoodieConfigurationError, from_error
from airflow_hoodie.hooks.hoodie import storage_options
from airflow_hoodie.paths import is_template, table_path
from airflow_hoodie.polling import backoff
from airflow_hoodie.storage_conn import trigger_storage
from hoodie.errors import HoodieError, TableNotFound
from hoodie.storage import normalize
from hoodie.text import visible
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import COMMIT_ACTIONS
from hoodie.timeline.time import REQUESTED

log = logging.getLogger(__name__)

#: so many of the newest instants are always kept by name: how far the clocks of writers may be apart
KEPT = 100
#: a commit that can't be read is taken as it is when it is so old; a writer takes milliseconds
_TORN_MS = 60_000


@dataclass(frozen=True)
class WatchOffset:
    """Dealt with: every commit whose instant is at most `low`, and those in `done`."""

    low: str = ""
    done: frozenset[str] = frozenset()

    @classmethod
    def start(cls, timeline: Timeline, first: str | Since) -> WatchOffset:
        """Before anything was seen. `first`: "latest" deals with what is completed now, "earliest" with
        nothing, a bound with what it does not admit."""
        if first == "earliest":
            return cls()
        commits = timeline.commits()
        if isinstance(first, Since):
            bound = first.on(timeline)
            low = "" if bound.completed_ms is not None else first.instant or ""
            past = [item for item in commits if not bound.admits(item, completed_at(timeline, item))]
            return cls(low).plus(item.time for item in past).compacted(timeline)
        return cls().plus(item.time for item in commits).compacted(timeline)

    @property
    def newest(self) -> str:
        """The greatest instant that was dealt with, "" if none."""
        return max(self.done, default=self.low, key=REQUESTED.key)

    def covers(self, instant: str) -> bool:
        return REQUESTED.until(instant, self.low) or instant in self.done

    def plus(self, instants: Iterable[str]) -> WatchOffset:
        return WatchOffset(
            self.low, self.done.union(str(item) for item in instants if REQUESTED.after(item, self.low))
        )

    def merged(self, other: WatchOffset) -> WatchOffset:
        """What either has dealt with."""
        return WatchOffset(max(self.low, other.low, key=REQUESTED.key)).plus(self.done | other.done)

    def compacted(self, timeline: Timeline) -> WatchOffset:
        """The same with a higher bound. It stays below what is pending, which may complete at any time."""
        pending = [item.time for item in timeline.pending() if item.comparable_action in COMMIT_ACTIONS]
        old = sorted(self.done, key=REQUESTED.key)[:-KEPT]
        bound = REQUESTED.first(pending)
        below = [instant for instant in old if bound is None or REQUESTED.before(instant, bound)]
        return WatchOffset(max([self.low, *below], key=REQUESTED.key)).plus(self.done)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form for the state store."""
        return {"low": self.low, "done": sorted(self.done, key=REQUESTED.key)}

    @classmethod
    def from_dict(cls, value: Any) -> WatchOffset | None:
        """None for what is not one."""
        if not isinstance(value, Mapping):
            return None
        low, done = value.get("low"), value.get("done")
        if not isinstance(low, str) or not isinstance(done, Collection) or isinstance(done, str):
            return None
        return cls(low, frozenset(str(instant) for instant in done))


@dataclass(frozen=True)
class NewCommits:
    """Commits that a watcher has not dealt with, in order of completion: all instants, and some as events."""

    instants: tuple[str, ...] = ()
    events: tuple[dict[str, Any], ...] = ()


def new_commits(
    reader: TableReader, timeline: Timeline, seen: WatchOffset, which: CommitFilter
) -> NewCommits:
    """What completed beyond `seen`; opens each of these commits. Blocks.

    A commit that can't be read yet holds itself and all later ones back until the next call; for a minute,
    then it becomes an event without its details.
    """
    fresh = [
        CommitHit(timeline.base_path, item, completed_at(timeline, item))
        for item in timeline.commits()
        if not seen.covers(item.time)
    ]
    fresh.sort(key=lambda hit: (hit.completed_ms, REQUESTED.key(hit.instant.time)))
    instants: list[str] = []
    events: list[dict[str, Any]] = []
    for hit in fresh:
        details = reader.details(hit.instant)
        if details is None and reader.storage.now_ms() - hit.completed_ms < _TORN_MS:
            break
        instants.append(str(hit.instant.time))
        if details is None:
            log.warning("The commit %s of %s can't be read", hit.instant.time, timeline.base_path)
        counts = which.admits(timeline, hit.instant, partial(reader.details, hit.instant)) is not False
        if counts and (details is None or which.admits_details(details)):
            events.append(hit.to_event(details))
    return NewCommits(tuple(instants), tuple(events))


#: keys in an asset's state store: the stored offset of a watcher, and the events stored since
OFFSET_KEY = "hoodie.place"
EVENTS_KEY = "hoodie.events"
#: field of an event's payload: the watcher of the asset that emitted it, for the listener
WATCHER = "watcher"


class CommitEventTrigger(BaseEventTrigger):
    """Emits one event for every completed commit, in order of completion; for an AssetWatcher.

    Payload: base_path, instant, action, completion_time, operation, partitions, num_inserts, num_updates,
    num_deletes, num_writes, num_files, bytes_written. Raises HoodieConfigurationError.

    :param table: HoodieTable, its dict form, or the table's path; the table need not exist yet.
    :param start: where a watcher without a stored offset begins: "latest" (with commits that complete from
        now on), "earliest" (with the oldest of the active timeline), an instant or a moment (after it).
    :param actions: the completed actions that count.
    :param partition: a partition path or several, as for CommitSensor.
    :param extra_metadata: texts of the commit's extra metadata, as for CommitSensor.
    :param services: commits of table services (compaction, clustering) count too.
    :param poke_interval: seconds between polls; watchers of one table with the same interval share them.
    :param hoodie_conn_id: connection of type `hoodie`, whose storage settings are looked up in the triggerer.
        Default: the table's.
    :param options: further storage settings, none of them secret. Default: the table's.
    """

    def __init__(
        self,
        *,
        table: Any,
        start: str | datetime = "latest",
        actions: Collection[str] = COMMITS,
        partition: str | Collection[str] | None = None,
        extra_metadata: Mapping[str, str] | None = None,
        services: bool = False,
        poke_interval: float = 10.0,
        hoodie_conn_id: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        path = table_path(table)
        storage = {"hoodie_conn_id": hoodie_conn_id, "options": dict(options) if options else None}
        #: arguments that say how the storage is reached
        self.storage = {**trigger_storage(table), **{name: given for name, given in storage.items() if given}}
        if is_template(path):
            raise HoodieConfigurationError(f"a watcher's table path is no template: {path!r}")
        if isinstance(start, datetime):
            start = (start if start.tzinfo else start.replace(tzinfo=timezone.utc)).isoformat()
        self.start = start
        self.poke_interval = float(poke_interval)
        self.arguments: dict[str, Any] = {
            "actions": sorted(actions) if not isinstance(actions, str) else actions,
            "partition": list(partition) if partition and not isinstance(partition, str) else partition,
            "extra_metadata": dict(extra_metadata) if extra_metadata else None,
            "services": bool(services),
        }
        try:
            self.table = normalize(path)
            self.which = CommitFilter.of(**self.arguments)
            self._first = start if start in ("latest", "earliest") else Since.parse(start, "start")
        except HoodieError as error:
            raise from_error(error) from None
        #: distinguishes watchers of one asset: the table's path, and a digest of what counts
        self.watcher = watcher_id(self.table, self.which)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "table": self.table,
                "start": self.start,
                **self.arguments,
                "poke_interval": self.poke_interval,
                **self.storage,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Without the shared stream: the same events, the offset written after each poll."""

        async def polls() -> AsyncIterator[Poll]:
            async for poll, _ in TableStream(self.table, self.poke_interval, **self.storage).open_stream():
                yield poll
                await poll.settle()

        async for event in self.filter_shared_stream(polls()):
            yield event

    def shared_stream_key(self) -> tuple[str, ...]:
        storage = (json.dumps(self.storage, sort_keys=True),) if self.storage else ()
        return ("hoodie", self.table, str(self.poke_interval), *storage)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> TableStream:
        storage = {name: kwargs[name] for name in ("hoodie_conn_id", "options") if kwargs.get(name)}
        return TableStream(kwargs["table"], kwargs["poke_interval"], **storage)

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        """This watcher's events of a stream of Polls; each waits until Airflow took the one before.

        The offset stays where it is from the first event on for whose storing Airflow does not wait.
        """
        stores = asset_stores(self.asset_state_store)
        seen: WatchOffset | None = None
        waits = True
        async for poll in shared_stream:
            if seen is None:
                seen = await self._stored(stores)
                self._warn_of_a_gap(seen, poll.timeline)
            if seen is None:
                seen = await asyncio.to_thread(WatchOffset.start, poll.timeline, self._first)
                await write_offset(stores, self.watcher, seen)
                log.info("Watching %s from %s on", self.table, self.start)
            found = await asyncio.to_thread(new_commits, poll.reader, poll.timeline, seen, self.which)
            for payload in found.events:
                yield TriggerEvent({**payload, WATCHER: self.watcher})  # type: ignore[no-untyped-call]
                waits = waits and waits_for_the_event()
            if found.instants:
                seen = seen.plus(found.instants).compacted(poll.timeline)
                if waits:
                    poll.offsets.append((stores, self.watcher, seen))

    def _warn_of_a_gap(self, seen: WatchOffset | None, timeline: Timeline) -> None:
        if seen is not None and seen.newest and timeline.is_archived(seen.newest):
            log.warning(
                "%s was not watched since %s and its active timeline begins at %s: commits archived in "
                "between make no events",
                self.table,
                seen.newest,
                timeline.first_time,
            )

    async def _stored(self, stores: Sequence[Any]) -> WatchOffset | None:
        """The offset to go on from; where several assets share this trigger, the union of theirs."""
        found: WatchOffset | None = None
        for store in stores:
            offset = WatchOffset.from_dict(await store.aget(f"{OFFSET_KEY}:{self.watcher}"))
            if offset is not None:
                offset = offset.plus(events_of(await store.aget(f"{EVENTS_KEY}:{self.watcher}")))
                found = offset if found is None else found.merged(offset)
        return found


@dataclass
class Poll:
    """One look at a table, handed to all its watchers, which add the offsets that they have come to.

    `offsets` are (stores of the assets, watcher, offset); they may be written once all events that the
    watchers made of this poll are stored.
    """

    reader: TableReader
    timeline: Timeline
    offsets: list[tuple[Sequence[Any], str, WatchOffset]] = field(default_factory=list)

    async def settle(self) -> None:
        for stores, watcher, offset in self.offsets:
            try:
                await write_offset(stores, watcher, offset)
            except AirflowRuntimeError as error:  # a later poll writes a later offset
                log.warning("The offset of the watcher of %s was not stored: %s", watcher, error)


class TableStream(SharedStreamProducer):
    """Polls one table for all its watchers. A table that can't be read is tried again, ever more slowly."""

    def __init__(
        self,
        path: str,
        interval: float,
        hoodie_conn_id: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._path = normalize(path)
        self._interval = float(interval)
        self._conn_id, self._options = hoodie_conn_id, dict(options or {})
        self._reader: TableReader | None = None

    async def open_stream(self) -> AsyncIterator[tuple[Poll, Poll]]:
        failures = 0
        while True:
            try:
                reader = await self._opened()
                timeline = await asyncio.to_thread(_timeline, reader)
            except (OSError, HoodieError, HoodieConfigurationError, AirflowRuntimeError) as error:
                self._reader = None  # its credentials may be others by now
                failures += 1
                wait = backoff(self._interval, failures)
                log.warning("%s can't be read, again in %g s: %s", self._path, wait, visible(error))
            else:
                failures = 0
                poll = Poll(reader, timeline)
                yield poll, poll
            await asyncio.sleep(backoff(self._interval, failures))

    async def _opened(self) -> TableReader:
        if self._reader is None:
            options = await storage_options(self._conn_id, self._path, self._options)
            self._reader = TableReader(self._path, options)
        return self._reader

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Events of these polls are stored; a failed watcher starts again from its last offset."""
        for item in batch:
            if item.outcome.failed == 0:
                await item.broker_payload.settle()


def _timeline(reader: TableReader) -> Timeline:
    try:
        return reader.poll()
    except TableNotFound:
        return Timeline(reader.base_path, (), {})


async def write_offset(stores: Sequence[Any], watcher: str, offset: WatchOffset) -> None:
    for store in stores:
        await store.aset(f"{OFFSET_KEY}:{watcher}", offset.to_dict())


def events_of(value: Any) -> list[str]:
    """Instants under EVENTS_KEY."""
    return [str(instant) for instant in value] if isinstance(value, list) else []


def watcher_id(path: str, which: CommitFilter) -> str:
    """Part of a key, at most 400 characters: a table's path, and a digest of a filter that is no default."""
    if len(path) > 350:
        path = f"…{path[-280:]}#{hashlib.sha256(path.encode()).hexdigest()[:16]}"
    if which == CommitFilter():
        return path
    parts = [sorted(which.actions), sorted(which.partitions or ()), which.extra_metadata, which.services]
    return f"{path}#{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]}"
