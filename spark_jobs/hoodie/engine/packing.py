"""Which things are done together."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")
#: bytes of small things that share a task: each task has its price, tens of milliseconds on Spark
_SHARED = 8 << 20
#: bytes of a task, however few cores there are
_MOST = 128 << 20


def spread(things: Sequence[_T], size: Callable[[_T], int], parallelism: int) -> tuple[tuple[_T, ...], ...]:
    """The things by task, in tasks of about equal sizes, one for each of so many cores: fewer of small
    things, more of very large ones. Spark cuts files by the same rule (FilePartition.maxSplitBytes).
    """
    sizes = {number: size(thing) for number, thing in enumerate(things)}
    share = min(_MOST, max(_SHARED, sum(sizes.values()) // max(1, parallelism)))
    count = min(len(things), max(1, round(sum(sizes.values()) / share)))
    tasks: list[list[_T]] = [[] for _ in range(count)]
    emptiest = [(0, number) for number in range(count)]
    for number in sorted(sizes, key=lambda number: sizes[number], reverse=True):
        held, task = emptiest[0]
        tasks[task].append(things[number])
        heapq.heapreplace(emptiest, (held + sizes[number], task))
    return tuple(map(tuple, tasks))


def packed(things: Iterable[_T], size: Callable[[_T], int]) -> tuple[tuple[_T, ...], ...]:
    """The things by task, the largest first, so that the last task to end began early."""
    tasks: list[list[_T]] = []
    held = 0
    for thing in sorted(things, key=size, reverse=True):
        if not tasks or held + size(thing) > _SHARED:
            tasks.append([])
            held = 0
        tasks[-1].append(thing)
        held += size(thing)
    return tuple(map(tuple, tasks))


def together(things: Iterable[_T], size: Callable[[_T], int], most: int) -> Iterator[list[_T]]:
    """The things in their order, as many at a time as have `most` together, one at least."""
    held: list[_T] = []
    sum_ = 0
    for thing in things:
        if held and sum_ + size(thing) > most:
            yield held
            held, sum_ = [], 0
        held.append(thing)
        sum_ += size(thing)
    if held:
        yield held
