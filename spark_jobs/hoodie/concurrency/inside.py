"""Who is inside the lock of writers at once, on a storage that does not fence (`Storage.fences`): a process
that sleeps there past the lock's expiry may change the table when it wakes up.

So each puts `.hoodie/.aux/inside/<instant>` there, named as its heartbeat, once it has the lock; then it
looks whether it still has it, and whether another one is inside. Of two, the later one finds the file, or the
earlier one finds its lock lost. The later one waits until the other has left, or its heartbeat has ended;
then it lets the next one that enters the table roll its write back, after which what it publishes does not
stay (write.attempt). A service that sleeps there is in the way of none: its plan was known to all before.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from hoodie.concurrency.heartbeats import Heartbeats
from hoodie.concurrency.settings import CONFLICT_RETRIES
from hoodie.errors import AlreadyExists, CommitConflict, HoodieError, TableBusy
from hoodie.table.handle import Table
from hoodie.timeline.active import META_FOLDER
from hoodie.timeline.instant import is_time
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime

FOLDER = f"{META_FOLDER}/.aux/inside"
_PAUSE_S = 0.2


@contextlib.contextmanager
def inside(
    table: Table, heartbeats: Heartbeats, check: Callable[[], object], *, repairs: bool
) -> Iterator[None]:
    """Be inside, with no other one. `check` raises where the lock was lost. `repairs`: what dead ones left is
    rolled back in here. Raises CommitConflict where it has to be before, and TableBusy for a live one that
    does not leave.
    """
    own = heartbeats.own[-1].instant if heartbeats.own else NO_TIME
    path = f"{table.base_path}/{FOLDER}/{own}"
    if own:
        with contextlib.suppress(AlreadyExists):  # could not be deleted before
            table.storage.create(path, b"")
    try:
        check()
        _wait(table, heartbeats, own, repairs)
        yield
    finally:
        if own:
            with contextlib.suppress(OSError, HoodieError):  # it is no one's once the heartbeat has ended
                table.storage.delete(path)


def _wait(table: Table, heartbeats: Heartbeats, own: InstantTime, repairs: bool) -> None:
    deadline = time.monotonic() + heartbeats.interval * heartbeats.misses / 1000
    while True:
        names = table.storage.names(f"{table.base_path}/{FOLDER}")
        others = {InstantTime(name) for name in names if is_time(name)} - {own}
        if not others:
            return
        beats = {beat.instant: beat for beat in heartbeats.read()}
        pending = {item.time for item in table.refresh().pending()}
        alive = dead = NO_TIME
        for name in sorted(others, key=REQUESTED.key):
            beat = beats.get(name)
            if beat is not None and heartbeats.alive(beat):
                alive = name
            elif name in pending if beat is None else not beat.service:
                dead = name
            else:
                table.storage.delete(f"{table.base_path}/{FOLDER}/{name}")
        if not alive:
            if dead and not repairs:
                raise CommitConflict(
                    f"write {dead} of {table.base_path} lost the lock while it published, and may go on; the "
                    f"next attempt rolls it back. Run this again ({CONFLICT_RETRIES.name} does so by itself)",
                    path=table.base_path,
                    instant=dead,
                )
            return
        if time.monotonic() > deadline:
            owner = beats[alive].owner
            raise TableBusy(
                f"{owner} lost the lock of {table.base_path} while it published {alive}, and is still at it; "
                "run this again when it is done, and give the lock more time before it expires",
                path=table.base_path,
                instant=alive,
                owner=owner,
            )
        time.sleep(_PAUSE_S)
