"""A place in a table's queue (concurrency.queue) that is kept for a job before its process starts.

A task that waits in Airflow's triggerer has no process of its own, whose heartbeat would be its ticket. Its
ticket is a lease: it names no process, and counts for LEASE_MS after each `hold`, whichever process holds it.
So a place survives the triggerer. The job takes it over by `hoodie.write.wait.place`. Standard library only.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from hoodie.concurrency.heartbeats import Heartbeats
from hoodie.concurrency.queue import Rank, holder_of, line, ticket_path
from hoodie.concurrency.settings import CONCURRENCY_MODE, ConcurrencyMode
from hoodie.config.key import Config
from hoodie.errors import ConflictError
from hoodie.table.handle import Table
from hoodie.table.heartbeat import Work
from hoodie.table.settings import INTERVAL_MS, TOLERABLE_MISSES, WAIT_MS

#: a place counts for so long after each `hold`
LEASE_MS = 120_000


@dataclass(frozen=True)
class QueueState:
    """What a place waits for, false for nothing. `holder`: who is at work, in words, "" where the table is
    free. `earlier`: the tickets that go first, first to last.
    """

    holder: str
    earlier: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.holder or self.earlier)

    def words(self) -> str:
        return f"{self.holder or 'the table is free'}; {len(self.earlier)} go first"


class Place:
    """One place, of `queue.new_place`, in the queue of a table. `extra`: metadata of the job's commits, which
    may name its task run. Methods raise HoodieError and OSError.
    """

    def __init__(
        self, table: Table, config: Config, rank: Rank, place: str, extra: Mapping[str, str]
    ) -> None:
        self._table = table
        self._path = ticket_path(table, rank, place)
        self._heartbeats = Heartbeats(table, config, {})
        lease = {"host": socket.gethostname(), "toleranceMs": LEASE_MS, **Work(extra=extra).to_dict()}
        self._content = json.dumps(lease).encode()

    def hold(self) -> None:
        """Keep the place for LEASE_MS from now on, whether it was kept before or not."""
        self._table.storage.write(self._path, self._content)

    def leave(self) -> None:
        """Give the place up; one that is not kept is no error."""
        self._table.storage.delete(self._path)

    def state(self) -> QueueState:
        """What a job with this place would wait for. Changes nothing."""
        beats, holder = self._heartbeats, ""
        try:
            beats.check_no_second_writer()
        except ConflictError as error:
            holder = holder_of(error)
        own = self._path.rpartition("/")[2]
        queue = (item.beat for item in line(self._table, beats.interval, beats.misses))
        live = (str(beat.instant) for beat in queue if beats.alive(beat))
        return QueueState(holder, tuple(name for name in live if name < own))


def patience_ms(config: Config) -> int:
    """How long a job with these settings waits in the queue; 0 where it does not queue, or works beside
    others.
    """
    return config[WAIT_MS] if config[CONCURRENCY_MODE] is ConcurrencyMode.SINGLE_WRITER else 0


def heartbeat_settings(config: Config) -> dict[str, str]:
    """Those of the settings by which a process is taken for dead."""
    return {key.name: str(config[key]) for key in (INTERVAL_MS, TOLERABLE_MISSES)}
