"""The undelivered messages of a table's commits, and their delivery.

- A message is a file `.hoodie/.aux/callbacks/<instant>.<action>.json`, which readers of the format ignore.
- The writer creates the file right before it publishes the instant, and deletes it after the delivery. A
  kill at any point leaves the file of a published commit, and the next commit delivers it.
- The file of an instant that was withdrawn or rolled back is deleted when the next commit finds it.
- One process at a time delivers, the oldest message first. Its heartbeat is
  `.hoodie/.aux/callbacks/sending/1`, which ends with the process.
- The settings select the callback. A person may start the delivery by hand.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hoodie.callbacks import CALLBACKS, CommitCallback, MessageCallback
from hoodie.callbacks.settings import CLASS, HTTP_URL
from hoodie.config.key import Config
from hoodie.errors import AlreadyExists, ConfigError, HoodieError
from hoodie.mask import Mask
from hoodie.table.handle import Table
from hoodie.table.heartbeat import Heartbeat, read_heartbeats, remove_heartbeat
from hoodie.text import plural
from hoodie.timeline.active import META_FOLDER
from hoodie.timeline.instant import Instant, State, is_time
from hoodie.timeline.time import REQUESTED, InstantTime, texts_of_times


def callback_of(config: Config) -> CommitCallback:
    """Raises ConfigError."""
    name = config[CLASS] or ("http" if config[HTTP_URL] else "")
    if ":" not in name and CALLBACKS.name(name) not in CALLBACKS.places:
        raise ConfigError(
            f"a commit callback needs {HTTP_URL.name}, or {CLASS.name}=kafka or pulsar, or a Python class "
            "there as module:Class" + (f", not {name!r}: Java classes don't run here" if name else ""),
            setting=CLASS.name,
            value=name,
        )
    return CALLBACKS.load(CLASS.name, name)(config=config)


_FOLDER = f"{META_FOLDER}/.aux/callbacks"
_SENDING = f"{_FOLDER}/sending"
_SUFFIX = ".json"
_BEAT_MS, _MISSES = 60_000, 2


@dataclass(frozen=True)
class UndeliveredMessage:
    """Of one message. `name` is that of its file."""

    time: InstantTime
    name: str


class Outbox:
    """The notes of a table. For one thread; they read the timeline by a handle of their own."""

    def __init__(self, table: Table) -> None:
        self._table = Table(table.ref, table.storage)
        self._storage = table.storage
        self._folder = f"{table.base_path}/{_FOLDER}"

    def write(self, instant: Instant, message: str) -> None:
        name = f"{instant.time}.{instant.action.value}{_SUFFIX}"
        self._storage.write(f"{self._folder}/{name}", message.encode())

    def read(self, note: UndeliveredMessage) -> str | None:
        """The message; None where another process has delivered it meanwhile."""
        try:
            return self._storage.read(f"{self._folder}/{note.name}").decode()
        except FileNotFoundError:
            return None

    def delete(self, note: UndeliveredMessage) -> None:
        self._storage.delete(f"{self._folder}/{note.name}")

    def due(
        self, completed: frozenset[InstantTime] = frozenset(), *, clean: bool = True
    ) -> list[UndeliveredMessage]:
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

    def _all(self) -> Iterator[UndeliveredMessage]:
        for name in self._storage.names(self._folder):
            time, _, _ = name.partition(".")
            if name.endswith(_SUFFIX) and is_time(time):
                yield UndeliveredMessage(InstantTime(time), name)


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """What a delivery came to. `delivered`: instants, in their order. `left`: those of completed instants
    that are kept. `problem`: why some are left, "" where none is. `busy`: another process delivers them.
    """

    delivered: tuple[str, ...] = ()
    left: tuple[InstantTime, ...] = ()
    problem: str = ""
    busy: bool = False

    def __add__(self, later: Delivery) -> Delivery:
        return Delivery(
            delivered=self.delivered + later.delivered,
            left=later.left,
            problem=later.problem,
            busy=later.busy and not self.delivered,
        )


@dataclass(frozen=True, kw_only=True)
class Sender:
    """Delivers by one callback. Its `timeout_s` is for all messages together where `once`, else for each."""

    callback: MessageCallback
    config: Config
    once: bool = True

    def deliver(self, table: Table, completed: frozenset[InstantTime] = frozenset()) -> Delivery:
        """Deliver what is due, up to the first message that fails. `completed` names instants that are.

        A process that finds another one at it leaves its messages to that one, which looks once more when it
        has ended.
        """
        notes, deadline = Outbox(table), time.monotonic() + self.callback.timeout_s
        found = Delivery()
        try:
            while True:
                with notes.sending() as alone:
                    if not alone:
                        return found + Delivery(busy=True)
                    found += self._send(table, notes, notes.due(completed), deadline)
                if found.problem or not notes.due(completed):
                    return found
        finally:
            self.callback.close()

    def _send(self, table: Table, notes: Outbox, due: list[UndeliveredMessage], deadline: float) -> Delivery:
        delivered: list[str] = []
        problem = ""
        for note in due:
            message = notes.read(note)
            seconds = deadline - time.monotonic() if self.once else self.callback.timeout_s
            if message is not None:
                problem = self._failure(message, table.properties.name, seconds)
                if problem:
                    break
                delivered.append(note.time)
            notes.delete(note)
        left = tuple(note.time for note in due if note.time not in delivered) if problem else ()
        return Delivery(delivered=tuple(delivered), left=left, problem=problem)

    def _failure(self, message: str, table: str, seconds: float) -> str:
        """Why a message was not delivered, without secrets; "" where it was."""
        late = f"{self.callback.place} did not take it within {self.callback.timeout_s:g} s"
        if seconds <= 0:
            return late
        try:
            self.callback.send(message, table, seconds)
        except TimeoutError:
            return late
        except Exception as error:  # noqa: BLE001  whatever it is, the message is kept
            mask = Mask(dict(self.config.texts), {"password": list(self.callback.secrets)})
            text = error.message if isinstance(error, HoodieError) else f"{type(error).__name__}: {error}"
            return mask.text(text)
        return ""


def undelivered_text(delivery: Delivery) -> str:
    """What a delivery failed at, in words."""
    return (
        f"the message of {delivery.left[0]} was not delivered: {delivery.problem}. It is kept"
        + (f", with {plural(len(delivery.left) - 1, 'later one')}" if delivery.left[1:] else "")
        + "; the next commit sends it again, or `hoodie callbacks resend`"
    )


@dataclass(frozen=True, kw_only=True)
class ResendResult:
    """`status`: `sent`; `failed`, for `reason`; `skipped`, for `reason`; `planned` with dry_run. `delivered`
    and `left`: instants, oldest first.
    """

    table: str
    status: str
    delivered: list[str]
    left: list[str]
    reason: str = ""

    def __post_init__(self) -> None:
        texts_of_times(self)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def resend(path: str, options: Mapping[str, Any], dry_run: bool) -> ResendResult:
    """Raises HoodieError for wrong settings and for what is no table; a delivery that fails is a result."""
    config = Config.of(options)
    table = Table.open(path, config)
    notes = Outbox(table)
    if dry_run:
        return _result(table, "planned", left=[note.time for note in notes.due(clean=False)])
    callback = callback_of(config)
    if not isinstance(callback, MessageCallback):
        raise ConfigError(
            f"{CLASS.name}={config[CLASS]!r} keeps no messages; derive it from "
            "hoodie.callbacks.MessageCallback",
            setting=CLASS.name,
        )
    notes.sweep()
    done = Sender(callback=callback, config=config, once=False).deliver(table)
    if done.problem:
        return _result(table, "failed", list(done.delivered), list(done.left), undelivered_text(done))
    if done.busy:
        return _result(table, "skipped", reason="another process delivers them now")
    if not done.delivered:
        return _result(table, "skipped", reason="every message is delivered")
    return _result(table, "sent", list(done.delivered))


def _result(
    table: Table,
    status: str,
    delivered: list[str] | None = None,
    left: list[str] | None = None,
    reason: str = "",
) -> ResendResult:
    return ResendResult(
        table=table.base_path, status=status, delivered=delivered or [], left=left or [], reason=reason
    )
