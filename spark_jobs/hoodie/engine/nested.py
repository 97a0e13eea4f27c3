"""Questions about Arrow types at any depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def contains(dtype: Any, test: Callable[[Any], bool]) -> bool:
    """Whether the type, or one that is nested in it, passes the test."""
    return test(dtype) or any(contains(dtype.field(place).type, test) for place in range(dtype.num_fields))
