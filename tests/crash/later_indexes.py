"""Writes to tables of version 9 with a record index of each partition, or a secondary index of logs, made to
fail.
"""

from __future__ import annotations

from pathlib import Path

from tests.crash.metadata import KEPT, MOR_KEPT, rows, two
from tests.crash.scenarios import CHANGES, SCENARIOS, Kit, Scenario, run
from tests.crash.undo import THREE, TWO
from tests.support.record_index import FEW_GROUPS, OF_EACH

_OF_EACH = {**KEPT, **OF_EACH, "hoodie.index.type": "RECORD_LEVEL_INDEX"}
_MOR_DEFINED = {
    **MOR_KEPT,
    **FEW_GROUPS,
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.index.secondary.column": "name",
}


def each(kit: Kit, path: Path) -> None:
    for batch in THREE:
        run(path, batch, options=_OF_EACH)


def defined_logs(kit: Kit, path: Path) -> None:
    for batch in TWO:
        run(path, batch, options=_MOR_DEFINED)


LATER_INDEXES = {
    item.name: item
    for item in (
        Scenario("each_upsert", each, CHANGES, rows, options=_OF_EACH, like=("kept_upsert",)),
        Scenario("defined_delta", defined_logs, CHANGES, two, options=_MOR_DEFINED, like=("located_delta",)),
    )
}
SCENARIOS.update(LATER_INDEXES)
