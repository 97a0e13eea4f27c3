"""Runs examples of the documentation with the session to be tested (see server.py)."""

from __future__ import annotations

from typing import Any

import hoodie


def answer(spark: Any, texts: list[str]) -> dict[str, Any]:
    """How many rows the `frame` of each has that makes one."""
    counts = []
    for text in texts:
        values: dict[str, Any] = {"hoodie": hoodie, "spark": spark}
        exec(text, values)  # noqa: S102
        if "frame" in values:
            counts.append(values["frame"].count())
    return {"counts": counts}
