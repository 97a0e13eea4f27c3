"""Writers and services that wait for a table, in the order in which they came.

`.hoodie/.aux/waiting/<ticket>` is the heartbeat (table.heartbeat) of one that waits. A ticket's 20 digits are
its rank (services, which need the table for a moment, go before writers), the millisecond of its arrival by
the storage's clock, and chance. The queue only gives the order of the attempts; the heartbeat of the process
at work keeps two writers apart. So a wrong clock or a lost ticket costs time and nothing else. Any process
removes the tickets of dead ones. One that lets its turn pass is passed over.
"""

from __future__ import annotations

import contextlib
import enum
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from hoodie.errors import AlreadyExists, ConflictError, HoodieError, TableBusy
from hoodie.progress import ProgressCallback
from hoodie.table.handle import Table
from hoodie.table.heartbeat import Heartbeat, HeartbeatFile, Work, read_heartbeats, remove_heartbeat
from hoodie.table.settings import PLACE_DIGITS, WAIT_MS
from hoodie.timeline.active import META_FOLDER

T = TypeVar("T")

FOLDER = f"{META_FOLDER}/.aux/waiting"
_SHORTEST_S, _LONGEST_S = 0.02, 1.0
#: a free table waits so long for each earlier one
_GRACE_S = 5.0
_REPORT_S = 30.0


class Rank(enum.Enum):
    """Lower ranks go first, whenever they arrived."""

    SERVICE = 0
    WRITER = 1


_DIGITS = 1 + PLACE_DIGITS

#: places of before that processes of a table have used: the next wait of the same one is at the end
_USED: set[str] = set()


def new_place(table: Table) -> str:
    """The end of the queue: arrival in milliseconds by the storage's clock, and chance."""
    return f"{table.storage.now_ms():013d}{random.randrange(10**6):06d}"


@dataclass(frozen=True)
class Waiting:
    """One that waits, as another process sees it. `arrived_ms`: by the storage's clock."""

    rank: Rank
    arrived_ms: int
    beat: HeartbeatFile


def ticket_path(table: Table, rank: Rank, place: str) -> str:
    return f"{table.base_path}/{FOLDER}/{rank.value}{place}"


def line(table: Table, interval_ms: int, misses: int) -> list[Waiting]:
    """Those that wait for the table, first to last, frozen processes among them. Reads only: tickets of dead
    ones are left out.
    """
    found: list[Waiting] = []
    for beat in sorted(read_heartbeats(table, FOLDER), key=lambda beat: str(beat.instant)):
        name = beat.instant
        known = len(name) == _DIGITS and name[0] in "01"
        if known and (beat.alive(interval_ms, misses) or beat.frozen(interval_ms, misses)):
            found.append(Waiting(Rank(int(name[0])), int(name[1:14]), beat))
    return found


@dataclass(frozen=True)
class Queue:
    """The queue of one table. `wait_ms` 0: no queueing. Times are a heartbeat's, see table.heartbeat.

    `place`: that this process has already (concurrency.place); "" for none.
    """

    table: Table
    interval_ms: int
    misses: int
    wait_ms: int
    progress: ProgressCallback
    work: Work
    place: str = ""

    def turn(self, rank: Rank, attempt: Callable[[], T], look: Callable[[], object]) -> T:
        """The result of `attempt` once it raises no ConflictError; the last error after `wait_ms`.

        An `attempt` that raises has changed nothing. `look` changes nothing, and raises ConflictError while
        an attempt would fail.
        """
        if not self.wait_ms:
            return attempt()
        if not self.waiting():
            with contextlib.suppress(ConflictError):
                return attempt()
        with self._ticket(rank) as ticket:
            return self._wait(ticket, attempt, look)

    def waiting(self) -> list[str]:
        """Tickets of those that wait, first to last. Dead ones go."""
        live: list[str] = []
        for beat in read_heartbeats(self.table, FOLDER):
            if beat.alive(self.interval_ms, self.misses):
                live.append(str(beat.instant))
            else:
                remove_heartbeat(self.table, beat.instant, FOLDER)
        return sorted(live)

    def sweep(self) -> None:
        """Remove what killed processes left. A waiting process that loses its ticket takes it again."""
        storage, folder = self.table.storage, f"{self.table.base_path}/{FOLDER}"
        if storage.names(folder):
            storage.sweep_partial(folder)
            self.waiting()

    def _wait(self, ticket: Ticket, attempt: Callable[[], T], look: Callable[[], object]) -> T:
        started = time.monotonic()
        reported, short, free = -_REPORT_S, _SHORTEST_S, started
        seen: tuple[list[str], str] | None = None
        while True:
            busy: ConflictError | None = None
            try:
                look()
            except ConflictError as error:
                busy = error
            earlier = ticket.earlier()  # after the look: who came while the table was in use is among them
            if busy is None and time.monotonic() - free >= _GRACE_S * len(earlier):
                try:
                    return attempt()
                except ConflictError as error:
                    busy = error
            if busy is not None:
                free = time.monotonic()
            holder = "the table is free" if busy is None else holder_of(busy)
            if (earlier, holder) != seen:  # the table is in use: look again soon
                seen, short, free = (earlier, holder), _SHORTEST_S, time.monotonic()
            waited = time.monotonic() - started
            left = self.wait_ms / 1000 - waited
            if left <= 0:
                raise self._too_long(busy, holder, earlier) from busy
            if waited - reported >= _REPORT_S:
                reported = waited
                self.progress("wait", f"{holder}; {len(earlier)} go first; waited {waited:.0f} s")
            time.sleep(min(left, short * random.uniform(0.5, 1.5)))
            short = min(_LONGEST_S, short * 1.5)

    def _too_long(self, busy: ConflictError | None, holder: str, earlier: list[str]) -> TableBusy:
        path = self.table.base_path
        return TableBusy(
            f"{path} was not free within {self.wait_ms / 1000:g} s: {holder}, and {len(earlier)} go "
            f"first. Give more time by {WAIT_MS.name}, or start fewer writers at once",
            **{**(busy.values if busy else {}), "path": path, "waited_ms": self.wait_ms},
        )

    @contextlib.contextmanager
    def _ticket(self, rank: Rank) -> Iterator[Ticket]:
        ticket = Ticket(self, rank)
        try:
            yield ticket
        finally:
            ticket.tear()


class Ticket:
    """A place in the queue: rank, arrival in milliseconds, chance."""

    def __init__(self, queue: Queue, rank: Rank) -> None:
        self._queue = queue
        place = queue.place if queue.place not in _USED else ""
        self._name = f"{rank.value}{place or new_place(queue.table)}"
        self._beat: Heartbeat | None = None
        if place:  # what held it until now goes, and this process takes it
            _USED.add(place)
            remove_heartbeat(queue.table, self._name, FOLDER)

    def earlier(self) -> list[str]:
        """The tickets of those that go first. A ticket that was lost is taken again, in its old place."""
        live = self._queue.waiting()
        if self._name not in live:
            self.tear()
            self._take()
        return [name for name in live if name < self._name]

    def tear(self) -> None:
        if self._beat is not None:
            with contextlib.suppress(OSError, HoodieError):
                self._beat.stop()
            self._beat = None

    def _take(self) -> None:
        queue = self._queue
        beat = Heartbeat(queue.table, self._name, queue.interval_ms, queue.misses, queue.work, FOLDER)
        # swept away while it was written, or its name is taken: the next look tries again
        with contextlib.suppress(ConflictError, AlreadyExists):
            beat.start()
            self._beat = beat


def holder_of(error: ConflictError) -> str:
    """Who is at work, in words."""
    values = error.values
    if "instant" in values and "owner" in values:
        return f"instant {values['instant']} of {values['owner']} is at work"
    return error.message
