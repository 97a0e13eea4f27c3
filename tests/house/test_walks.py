"""What a reader has to open does not grow: upper bounds of the figures of `python -m scripts.house`.

The walks are measured in a fresh process (scripts/house.py says how). A change that shortens a walk lowers
its bound.
"""

from __future__ import annotations

from dataclasses import asdict

import pytest

from scripts.house import Sources, measured
from tests.support.parsed import parsed

#: walk -> files, functions, moves between files; of tables of version 9, which new ones have
WALKS = {
    "UpsertOperator, to spark-submit": (30, 181, 150),
    "upsert": (173, 1130, 2500),
    "commit alone": (76, 359, 560),
    "filtered snapshot": (79, 515, 1550),
    "snapshot, merge-on-read": (76, 441, 1170),
    "CDC read": (47, 238, 330),
    "clean, nothing due": (33, 147, 160),
    "compaction, merge-on-read": (150, 968, 2650),
}
SIZES = {"modules": 660, "lines": 116800, "long_functions": 0, "depth": 3, "imported_once": 115}


@pytest.mark.full
@pytest.mark.airflow
def test_walks_do_not_grow() -> None:
    found = measured()
    assert set(found) == set(WALKS)
    for name, bounds in WALKS.items():
        check(name, dict(zip(("files", "functions", "moves"), bounds, strict=True)), found[name])


def test_the_packages_do_not_grow() -> None:
    sources = Sources(parsed)
    assert (
        "airflow_hoodie.operators.base.HoodieJobOperator"
        in sources.ancestors()["airflow_hoodie.operators.write.UpsertOperator"]
    )
    check("the packages", SIZES, asdict(sources.sizes()))


def check(what: str, bounds: dict[str, int], found: dict[str, int]) -> None:
    """A bound that is more than a tenth above its figure would let the house grow again."""
    assert bounds.keys() == found.keys()
    grown = {name: found[name] for name, bound in bounds.items() if found[name] > bound}
    assert not grown, f"{what}: {grown} are above their bounds; `python -m scripts.house` shows all figures"
    loose = {name: found[name] for name, bound in bounds.items() if found[name] < 0.9 * bound}
    assert not loose, f"{what}: lower the bounds of {loose} in {__file__}"
