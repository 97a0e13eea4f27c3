"""Delivers the messages that a table's notes keep, oldest first, by one process at a time."""

from __future__ import annotations

import time
from dataclasses import dataclass

from hoodie.callbacks import MessageCallback
from hoodie.callbacks.notes import Note, Notes
from hoodie.config.key import Config
from hoodie.errors import HoodieError
from hoodie.mask import Mask
from hoodie.table.handle import Table
from hoodie.text import plural
from hoodie.timeline.time import InstantTime


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
        notes, deadline = Notes(table), time.monotonic() + self.callback.timeout_s
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

    def _send(self, table: Table, notes: Notes, due: list[Note], deadline: float) -> Delivery:
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


def kept(delivery: Delivery) -> str:
    """What a delivery failed at, in words."""
    return (
        f"the message of {delivery.left[0]} was not delivered: {delivery.problem}. It is kept"
        + (f", with {plural(len(delivery.left) - 1, 'later one')}" if delivery.left[1:] else "")
        + "; the next commit sends it again, or `hoodie callbacks resend`"
    )
