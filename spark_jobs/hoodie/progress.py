"""What a caller is given of an operation's steps while it runs."""

from __future__ import annotations

from collections.abc import Callable

#: called with the name of a step and a text for people
ProgressCallback = Callable[[str, str], None]


def silent(step: str, text: str) -> None:
    """The callback of a caller that wants none."""
