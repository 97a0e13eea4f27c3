"""Pairs of writers and services, of which one stops at any call to the storage until the other has run."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.model.schedules import PAIRS, Case, Schedules, drawn_turns

#: schedules of each pair
_SCHEDULES = 4
_FAST = ("upsert that rolls back", "execute")


@pytest.mark.parametrize(
    "pair",
    [pytest.param(pair, marks=() if pair == _FAST else pytest.mark.full) for pair in PAIRS],
    ids=" beside ".join,
)
def test_rows_are_those_of_one_order(tmp_path: Path, pair: tuple[str, str]) -> None:
    random_, schedules = random.Random(" ".join(pair)), Schedules(tmp_path)
    for _ in range(_SCHEDULES):
        case = Case.drawn(random_, pair)
        turns = drawn_turns(random_)
        assert schedules.run(case, turns) == [], (case, turns)
