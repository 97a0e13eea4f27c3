"""Bounds of a column of texts, by the statistics in a metadata table."""

from __future__ import annotations

from collections.abc import Callable

#: bytes of a text that may have been cut
_CUT = 64
_LAST, _REPLACEMENT = 0x10FFFF, "\ufffd"


def text_bounds(low: str, high: str) -> tuple[str, str | None]:
    """Of the least and the greatest text: not greater, and not less, than any of the column, by characters or
    by UTF-16 units, by which records of log files are compared; None for no bound. A text may have been cut,
    and end with half a character.
    """
    return _least(low), _greatest(high)


def _least(text: str) -> str:
    return text[: _first(text, lambda one: one > "\uffff" or one == _REPLACEMENT)]


def _greatest(text: str) -> str | None:
    end = _first(text, lambda one: "\ue000" <= one <= "\uffff")
    if end == len(text) and len(text.encode()) < _CUT:
        return text
    return above(text[:end])


def above(text: str) -> str | None:
    """A text that is greater than all that begin with this one; None where there is none."""
    begin = text.rstrip(chr(_LAST))
    if not begin:
        return None
    after = ord(begin[-1]) + 1
    return begin[:-1] + chr(0xE000 if after == 0xD800 else after)


def _first(text: str, test: Callable[[str], bool]) -> int:
    """The place of the first character of a kind; the length without any."""
    return next((place for place, one in enumerate(text) if test(one)), len(text))
