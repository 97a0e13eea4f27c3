"""TurnTrigger: waits in the triggerer until a table is free for the job of a task."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_hoodie.exceptions import HoodieException
from airflow_hoodie.hooks.hoodie import storage_options
from airflow_hoodie.polling import MAX_FAILURES, pause
from hoodie.concurrency.place import Place, QueueState
from hoodie.concurrency.queue import Rank
from hoodie.config.key import Config
from hoodie.errors import HoodieError
from hoodie.table.handle import Table, TableRef
from hoodie.text import visible

#: seconds between two looks at most, of the first in the queue; each one behind it looks as much less often
POLL_S = 5.0
_RARELY = 12
#: seconds that a free table waits for each earlier one, whose task may be about to begin on a worker
GRACE_S = 30.0


class TurnTrigger(BaseTrigger):
    """Keeps a place in the queue of a table, and looks until its turn has come, until the time is over, or
    until the table could not be read MAX_FAILURES times in a row: the job of the task has the last word.

    Its arguments are its only state: a trigger that is started again goes on in the same place. Its one event
    is {"place": ..., "until": ...}, as given. It leaves the place to the job then; where the task was killed,
    cleared or timed out it gives the place up.

    :param table: path of the table.
    :param place: digits, see `hoodie.concurrency.queue.new_place`.
    :param rank: name of the rank in the queue.
    :param until: ISO text of the time at which the job is to wait no more.
    :param extra: extra metadata that names the task run, for those who look at the queue.
    :param settings: of heartbeats, those of the job.
    :param poll_interval: seconds between looks; at most POLL_S count.
    :param hoodie_conn_id: connection of type `hoodie`, whose storage settings are looked up in the triggerer.
    :param options: further storage settings, none of them secret.
    """

    def __init__(
        self,
        *,
        table: str,
        place: str,
        rank: str,
        until: str,
        extra: Mapping[str, str],
        settings: Mapping[str, str],
        poll_interval: float = POLL_S,
        hoodie_conn_id: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.table = table
        self.place = place
        self.rank = rank
        self.until = until
        self.extra = dict(extra)
        self.settings = dict(settings)
        self.poll_interval = poll_interval
        self.hoodie_conn_id = hoodie_conn_id
        self.options = dict(options or {})
        self._kept: Place | None = None
        self._looking: asyncio.Future[QueueState] | None = None
        self._unkept = ""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "table": self.table,
                "place": self.place,
                "rank": self.rank,
                "until": self.until,
                "extra": self.extra,
                "settings": self.settings,
                "poll_interval": self.poll_interval,
                **({"hoodie_conn_id": self.hoodie_conn_id} if self.hoodie_conn_id else {}),
                **({"options": self.options} if self.options else {}),
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            why = await self._turn()
        except asyncio.CancelledError:
            if self._looking is not None:  # its thread goes on, and would keep the place again
                await asyncio.wait({self._looking})
            if self._kept is not None:
                await asyncio.to_thread(self._give_up, self._kept)
            raise
        self.log.info("%s: %s; the job may begin", self.table, why)
        yield TriggerEvent({"place": self.place, "until": self.until})  # type: ignore[no-untyped-call]

    async def _turn(self) -> str:
        """Why the task is not to wait any more."""
        failures, behind, since = 0, 0, time.monotonic()
        end, said = datetime.fromisoformat(self.until), QueueState("", ())
        while True:
            try:
                found = await self._look()
                failures, behind = 0, len(found.earlier)
                if found != said:
                    said, since = found, time.monotonic()
                    self.log.info("%s: %s", self.table, found.words())
                if not found.holder and time.monotonic() - since >= GRACE_S * behind:
                    return "its turn has come"
            except (OSError, HoodieError, HoodieException) as error:
                failures += 1
                text = visible(error)
                if failures >= MAX_FAILURES:
                    return f"the table can't be read: {text}"
                self.log.warning("Look %d at %s failed: %s", failures, self.table, text)
                self._kept = None  # its credentials may be others by now
            interval = min(self.poll_interval, POLL_S) * min(behind + 1, _RARELY)
            wait = pause(interval, failures, end, timedelta(0))
            if wait is None:
                return "the time to wait is over"
            await asyncio.sleep(wait)

    async def _look(self) -> QueueState:
        if self._kept is None:
            storage = await storage_options(self.hoodie_conn_id, self.table, self.options)
            config = Config.of({**storage, **self.settings})
            table = Table(TableRef.of(self.table, config))
            self._kept = Place(table, config, Rank[self.rank.upper()], self.place, self.extra)
        self._looking = asyncio.ensure_future(asyncio.to_thread(self._held, self._kept))
        return await asyncio.shield(self._looking)

    def _held(self, place: Place) -> QueueState:
        """A triggerer that may not write to the table keeps no place: others may pass."""
        try:
            place.hold()
            self._unkept = ""
        except (OSError, HoodieError) as error:
            if (text := visible(error)) != self._unkept:
                self._unkept = text
                self.log.warning("The place in the queue of %s is not kept: %s", self.table, text)
        return place.state()

    def _give_up(self, place: Place) -> None:
        try:
            place.leave()
        except (OSError, HoodieError) as error:
            self.log.warning("%s: the place in the queue stays for a while: %s", self.table, visible(error))
