"""Which things are done together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T")
#: bytes of small things that share a task: each task has its price, tens of milliseconds on Spark
_SHARED = 8 << 20


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
