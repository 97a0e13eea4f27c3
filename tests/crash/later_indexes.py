"""Writes to tables of version 9 with a record index of each partition, or a secondary index of logs, made to
fail.
"""

from __future__ import annotations

from pathlib import Path

from tests.crash.metadata import KEPT, MOR_KEPT, rows, taken_back, two, without
from tests.crash.scenarios import (
    BASE,
    CHANGES,
    NO_ROWS,
    SCENARIOS,
    Compaction,
    Kit,
    Scenario,
    run,
)
from tests.crash.undo import MANUAL, THREE, TWO, scenario
from tests.support.record_index import FEW_GROUPS, OF_EACH

_EACH = {**OF_EACH, "hoodie.index.type": "RECORD_LEVEL_INDEX"}
_OF_EACH = {**KEPT, **_EACH}
_MOR_EACH = {**MOR_KEPT, **_EACH}
_DEFINED = {
    **FEW_GROUPS,
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.index.secondary.column": "name",
}
_MOR_DEFINED = {**MOR_KEPT, **_DEFINED}


def each(kit: Kit, path: Path) -> None:
    for batch in THREE:
        run(path, batch, options=_OF_EACH)


def each_logs(kit: Kit, path: Path) -> None:
    for batch in TWO:
        run(path, batch, options=_MOR_EACH)


def defined_logs(kit: Kit, path: Path) -> None:
    for batch in TWO:
        run(path, batch, options=_MOR_DEFINED)


LATER_INDEXES = {
    item.name: item
    for item in (
        Scenario("each_upsert", each, CHANGES, rows, options=_OF_EACH, like=("kept_upsert",)),
        Scenario("each_first", None, BASE, lambda kit: None, options=_OF_EACH, like=("kept_first",)),
        Scenario("each_made", without, CHANGES, rows, options=_OF_EACH, like=("kept_made",)),
        Scenario("each_delta", each_logs, CHANGES, two, options=_MOR_EACH, like=("kept_delta",)),
        scenario("each_rollback", each, taken_back, THREE, TWO, options=_OF_EACH, like=("kept_rollback",)),
        Scenario("defined_delta", defined_logs, CHANGES, two, options=_MOR_DEFINED, like=("located_delta",)),
        Scenario(
            "defined_made", without, CHANGES, rows, options={**KEPT, **_DEFINED}, like=("located_made",)
        ),
        scenario(
            "defined_rollback",
            defined_logs,
            taken_back,
            TWO,
            (BASE,),
            options=_MOR_DEFINED,
            like=("kept_rollback", "rollback_deltas"),
        ),
        Compaction(
            "defined_compaction",
            defined_logs,
            NO_ROWS,
            two,
            options=_MOR_DEFINED,
            more={**MANUAL, **_DEFINED},
            like=("located_compaction",),
        ),
    )
}
SCENARIOS.update(LATER_INDEXES)
