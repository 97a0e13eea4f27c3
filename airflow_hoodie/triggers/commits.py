"""CommitEventTrigger: one asset event for every completed commit of a table, and the poll that many share.

Airflow calls `filter_shared_stream` of each watcher with one stream of polls for all watchers of a table. A
watcher's WatchOffset lies in the state store of its asset. It is written once Airflow has
stored the events (the stream's `advance`), and, in the very transaction that stores an event, by the
listener `airflow_hoodie.plugins.commits`: with it an event is stored exactly once whatever dies when; without
it (a plugin can be switched off) the events of the last seconds before a crash may come again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_hoodie.arguments import is_template, table_path
from airflow_hoodie.commits import TableReader
from airflow_hoodie.compat.shared_stream import AdvanceItem, SharedStreamProducer, waits_for_the_event
from airflow_hoodie.compat.task_sdk import asset_stores
from airflow_hoodie.conditions import COMMITS, CommitFilter, Since
from airflow_hoodie.exceptions import HoodieConfigurationError, from_error
from airflow_hoodie.hooks.hoodie import storage_options
from airflow_hoodie.polling import backoff
from airflow_hoodie.storage_conn import trigger_storage
from airflow_hoodie.watch_offset import WatchOffset, new_commits
from hoodie.errors import HoodieError, TableNotFound
from hoodie.storage import normalize
from hoodie.text import visible
from hoodie.timeline.active import Timeline

log = logging.getLogger(__name__)

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
