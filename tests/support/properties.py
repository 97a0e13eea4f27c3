"""How many examples of a property hypothesis draws."""

from __future__ import annotations

import os


def examples(number: int) -> int:
    """A third of `number` in `make test`, but ten at least; else `number`."""
    return max(10, number // 3) if os.environ.get("HOODIE_TESTS_TIER") == "fast" else number
