"""How much of a test is run: examples of a property that hypothesis draws, rounds of a race."""

from __future__ import annotations

import os

#: is this `make test`, whose tests are smaller
FAST = os.environ.get("HOODIE_TESTS_TIER") == "fast"


def examples(number: int, share: int = 5) -> int:
    """A fifth (or that share) of `number` in `make test`, but ten at least; else `number`."""
    return max(10, number // share) if FAST else number


def rounds(number: int) -> int:
    """A quarter of `number` in `make test`, but two at least; else `number`."""
    return max(2, number // 4) if FAST else number
