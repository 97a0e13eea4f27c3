"""Apache Hudi 0.15.0 as an actor, in the mode of writers at once with the same lock.

It takes its instant without the lock, and its views of the table end at that instant. It compares file groups
with what completed since its look, by the times of instants, and with plans that are later than its instant.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from tests.model.actors import Look, new_group, written
from tests.model.protocol import (
    REWRITES,
    Instant,
    Op,
    Refused,
    Step,
    Steps,
    Table,
    View,
    leave,
    lock,
    unlock,
)


def hudi_writer(table: Table, actor: str, op: Op, slow: bool = False) -> Steps:
    """`slow`: another one may take a later instant before the requested file is there."""
    mine = Instant(0, actor, "replace" if op.replaces else "write", op=op, foreign=True)
    try:
        yield from _write(table, actor, op, mine, slow)
        answer = "committed"
    except Refused as refused:
        unlock(table, actor)
        answer = str(refused)
        table.remove_files(mine.time)
        table.instants.pop(mine.time, None)
    leave(table, actor)
    return answer


def _write(table: Table, actor: str, op: Op, mine: Instant, slow: bool) -> Generator[Step, None, None]:
    yield Step("makes its heartbeat, and takes an instant without the lock")
    table.heartbeats[actor] = True
    mine.time = table.tick()
    if slow:
        yield Step(f"requests {mine.action} {mine.time}")
    table.instants[mine.time] = mine
    yield Step("looks at the timeline and lists files, up to its instant")
    last = max((each.time for each in table.instants.values() if each.completed), default=0)
    look = Look(table, View(table, before=mine.time), op)
    if (look.changed | look.replaced) & look.view.clustering:
        raise Refused("conflict")
    mine.state, mine.groups = "inflight", look.changed
    yield Step(f"writes the files of {mine.time}")
    if mine.time not in table.instants:
        raise Refused("fenced")
    table.files |= set(written(table, actor, look, mine.time))
    mine.replaced = look.replaced
    mine.groups = look.changed | ({new_group(actor, op, mine.time)} if look.new else set())
    mine.inserted = frozenset((op.partition, key) for key in look.new)
    yield from lock(table, actor, "to publish")
    yield Step("looks for conflicts, under the lock")
    if not table.heartbeats.get(actor):
        raise Refused("fenced")
    if any(
        (each.groups | each.replaced) & (mine.groups | mine.replaced) for each in _newer(table, mine, last)
    ):
        raise Refused("conflict")
    yield Step(f"publishes {mine.time}")
    if mine.time not in table.instants:
        raise Refused("fenced")
    table.complete(mine.time)
    table.acknowledged.append(mine.time)


def _newer(table: Table, mine: Instant, last: int) -> Iterator[Instant]:
    for each in table.instants.values():
        planned = not each.completed and each.action in REWRITES and each.time > mine.time
        if each is not mine and (planned or (each.completed and each.time > last)):
            yield each
