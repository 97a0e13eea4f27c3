"""Layouts of a clustering keep their promise: a short form of `python -m benchmarks layout`."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.layout import measure


@pytest.fixture(scope="module")
def read() -> dict[str, dict[str, Any]]:
    results = measure(rows=16_000, files=16, spreads=("even",), methods=("direct",))["results"]
    return {row["layout"]: row for row in results}


def test_without_a_layout_every_file_is_read(read: dict[str, dict[str, Any]]) -> None:
    assert read["none"]["read_by_both"] == read["none"]["files"] > 8


def test_a_linear_layout_helps_queries_on_its_first_column_only(read: dict[str, dict[str, Any]]) -> None:
    linear = read["linear"]
    assert linear["read_by_x"] < linear["files"] / 4
    assert linear["read_by_y"] == linear["files"]


@pytest.mark.parametrize("curve", ["z-order", "hilbert"])
def test_a_curve_helps_queries_on_either_and_most_on_both(
    read: dict[str, dict[str, Any]], curve: str
) -> None:
    found = read[curve]
    assert found["read_by_y"] < found["files"] / 2
    assert found["read_by_x"] < found["files"] / 2
    assert found["read_by_both"] < found["files"] / 5
    assert found["read_by_both"] < min(found["read_by_x"], found["read_by_y"]) / 2
