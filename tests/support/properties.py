"""How many examples of a property hypothesis draws, and how often a race is run."""

from __future__ import annotations

import os


def examples(number: int, share: int = 5) -> int:
    """A fifth (or that share) of `number` in `make test`, but ten at least; else `number`."""
    return max(10, number // share) if os.environ.get("HOODIE_TESTS_TIER") == "fast" else number


def rounds(number: int) -> int:
    """A quarter of `number` in `make test`, but two at least; else `number`."""
    return max(2, number // 4) if os.environ.get("HOODIE_TESTS_TIER") == "fast" else number
