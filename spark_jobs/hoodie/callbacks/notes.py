"""Messages that are not known to be delivered: a file each, `.hoodie/.aux/callbacks/<instant>.<action>.json`,
which readers of the format ignore.

A note is written right before its instant is published, and deleted once the message is delivered. So a kill
at any point leaves the note of a commit that is there, and the next commit delivers it. The note of an
instant that was withdrawn or rolled back goes when the next commit finds it. One process at a time delivers:
it has the heartbeat `.hoodie/.aux/callbacks/sending/1`, which ends with the process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from hoodie.errors import AlreadyExists, HoodieError
from hoodie.table.handle import Table
from hoodie.table.heartbeat import Heartbeat, read_heartbeats, remove_heartbeat
from hoodie.timeline.active import META_FOLDER
from hoodie.timeline.instant import Instant, State, is_time
from hoodie.timeline.time import REQUESTED, InstantTime

_FOLDER = f"{META_FOLDER}/.aux/callbacks"
_SENDING = f"{_FOLDER}/sending"
_SUFFIX = ".json"
_BEAT_MS, _MISSES = 60_000, 2


@dataclass(frozen=True)
class Note:
    """Of one message. `name` is that of its file."""

    time: InstantTime
    name: str


class Notes:
    """The notes of a table. For one thread; they read the timeline by a handle of their own."""

    def __init__(self, table: Table) -> None:
        self._table = Table(table.ref, table.storage)
        self._storage = table.storage
        self._folder = f"{table.base_path}/{_FOLDER}"

    def write(self, instant: Instant, message: str) -> None:
        name = f"{instant.time}.{instant.action.value}{_SUFFIX}"
        self._storage.write(f"{self._folder}/{name}", message.encode())

    def read(self, note: Note) -> str | None:
        """The message; None where another process has delivered it meanwhile."""
        try:
            return self._storage.read(f"{self._folder}/{note.name}").decode()
        except FileNotFoundError:
            return None

    def delete(self, note: Note) -> None:
        self._storage.delete(f"{self._folder}/{note.name}")

    def due(self, completed: frozenset[InstantTime] = frozenset(), *, clean: bool = True) -> list[Note]:
        """Those of completed instants, oldest first; `completed` names some. Those of instants that are gone
        are deleted, if `clean`; those of pending ones left to their writers.
        """
        notes = sorted(self._all(), key=lambda note: (REQUESTED.key(note.time), note.name))
        if all(note.time in completed for note in notes):
            return notes
        timeline = self._table.refresh()
        known = {instant.time for instant in timeline}
        done = completed.union(item.time for item in timeline if item.state is State.COMPLETED)
        due = []
        for note in notes:
            if note.time in done or timeline.is_archived(note.time):
                due.append(note)
            elif clean and note.time not in known:
                self.delete(note)
        return due

    def sweep(self) -> None:
        """Delete what killed processes left of files."""
        self._storage.sweep_partial(self._folder)

    @contextlib.contextmanager
    def sending(self) -> Iterator[bool]:
        """Whether this process alone may deliver, inside; False while another one does."""
        beat = self._begin() or (self._begin() if self._remove_dead() else None)
        try:
            yield beat is not None
        finally:
            if beat is not None:
                with contextlib.suppress(OSError, HoodieError):
                    beat.stop()

    def _begin(self) -> Heartbeat | None:
        beat = Heartbeat(self._table, "1", _BEAT_MS, _MISSES, folder=_SENDING)
        try:
            beat.start()
        except AlreadyExists:
            return None
        return beat

    def _remove_dead(self) -> bool:
        """False while the process that delivers is alive."""
        for beat in read_heartbeats(self._table, _SENDING):
            if beat.alive(_BEAT_MS, _MISSES):
                return False
            remove_heartbeat(self._table, beat.instant, _SENDING)
        return True

    def _all(self) -> Iterator[Note]:
        for name in self._storage.names(self._folder):
            time, _, _ = name.partition(".")
            if name.endswith(_SUFFIX) and is_time(time):
                yield Note(InstantTime(time), name)
