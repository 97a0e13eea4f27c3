"""The orders of instants: by the time of the request, or by the time of the completion.

Concurrent writers are requested in one order and may complete in another. Every table version orders the
slices of a file group, and what a retention keeps, by the request. Versions 8 and 9 find the slice of a log
file, and the commits of an incremental query, by the completion (format.md 12.1, 15.6, 15.9). So times have
no `<` (`InstantTime`): each comparison names its order.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hoodie.format.instant_time import NO_TIME as NO_TIME
from hoodie.format.instant_time import InstantTime as InstantTime


@dataclass(frozen=True)
class Order:
    """An order of instants by their times. `key` is what `sorted`, `min` and `max` take as theirs."""

    key: Callable[[str], Any]

    def before(self, time: str, other: str) -> bool:
        return bool(self.key(time) < self.key(other))

    def after(self, time: str, other: str) -> bool:
        return bool(self.key(time) > self.key(other))

    def until(self, time: str, other: str) -> bool:
        """Whether it is the other time, or before it."""
        return bool(self.key(time) <= self.key(other))

    def since(self, time: str, other: str) -> bool:
        """Whether it is the other time, or after it."""
        return bool(self.key(time) >= self.key(other))

    def first(self, times: Iterable[InstantTime]) -> InstantTime | None:
        return min(times, key=self.key, default=None)

    def last(self, times: Iterable[InstantTime]) -> InstantTime | None:
        return max(times, key=self.key, default=None)


#: by the time of the request, which is an instant's own: texts of digits are compared, never dates
REQUESTED = Order(str)


def texts_of_times(result: Any) -> None:
    """Makes plain texts of the times in the fields of a result, a dataclass, which users may order."""
    for name, value in list(vars(result).items()):
        object.__setattr__(result, name, plain(value))


def plain(value: Any) -> Any:
    """The value with plain texts for times, in lists, tuples and dictionaries, too."""
    if isinstance(value, InstantTime):
        return str(value)
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if isinstance(value, dict):
        return {plain(name): plain(item) for name, item in value.items()}
    return value
