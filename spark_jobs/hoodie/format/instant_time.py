"""The time of an instant: a value without an order of its own (format.md section 2; `timeline.time` orders).

Standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn


class InstantTime(str):
    """The digits of an instant's time: equal to the same text, without `<`, `min`, `max` and `sorted`.

    Concurrent writers are requested in one order and may complete in another, so a comparison names the order
    that it means: `hoodie.timeline.time` has both.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # the type checker refuses a comparison of two of them
        __lt__ = __le__ = __gt__ = __ge__ = None  # type: ignore[assignment]
    else:

        def __lt__(self, other: object) -> NoReturn:
            raise TypeError(
                f"instants have no order of their own ({self!s}, {other!s}): use hoodie.timeline.time"
            )

        __le__ = __gt__ = __ge__ = __lt__
        __hash__ = str.__hash__


#: no instant, where a field of the format has an empty text for it
NO_TIME = InstantTime("")
