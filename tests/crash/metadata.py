"""Actions on a table whose metadata table is kept up to date, made to fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hoodie
from tests.crash.participants import rollback
from tests.crash.scenarios import (
    BASE,
    CHANGES,
    LOGGED,
    MOR_OPTIONS,
    NO_ROWS,
    OPTIONS,
    SCENARIOS,
    Compaction,
    Kit,
    Row,
    Scenario,
    run,
)
from tests.crash.services import SETTINGS, Service
from tests.crash.undo import MANUAL, THREE, TWO, commits, scenario, upserted
from tests.support.metadata import KEPT as ON

KEPT = {**OPTIONS, **MANUAL, **ON}
MOR_KEPT = {**MOR_OPTIONS, **MANUAL, **ON}
#: it is compacted by the write after this many
_DUE = {**KEPT, "hoodie.metadata.compact.max.delta.commits": "2"}


def kept(kit: Kit, path: Path) -> None:
    for batch in THREE:
        run(path, batch, options=KEPT)


def without(kit: Kit, path: Path) -> None:
    for batch in THREE:
        run(path, batch, options={**OPTIONS, **MANUAL})


def logs(kit: Kit, path: Path) -> None:
    for batch in TWO:
        run(path, batch, options=MOR_KEPT)


def rows(kit: Kit) -> list[Row]:
    return upserted(*THREE)


def two(kit: Kit) -> list[Row]:
    return upserted(BASE, LOGGED)


def clean(path: str | Path) -> list[Any]:
    return [hoodie.clean_table(str(path), options={**SETTINGS, **ON})]


def taken_back(path: str | Path) -> Any:
    return rollback(path, ON)


def restore(path: str | Path) -> Any:
    return hoodie.restore_table(str(path), commits(path)[0], options=ON)


METADATA = {
    item.name: item
    for item in (
        Scenario("kept_upsert", kept, CHANGES, rows, options=KEPT, like=("upsert",)),
        Scenario("kept_first", None, BASE, lambda kit: None, options=KEPT, like=("first", "kept_upsert")),
        Scenario("kept_made", without, CHANGES, rows, options=KEPT, like=("kept_upsert",)),
        Scenario("kept_compacted", kept, CHANGES, rows, options=_DUE, like=("kept_upsert",)),
        Scenario("kept_delta", logs, CHANGES, two, options=MOR_KEPT, like=("mor_upsert", "kept_upsert")),
        Compaction(
            "kept_compaction",
            logs,
            NO_ROWS,
            two,
            options=MOR_KEPT,
            more=ON,
            like=("compact", "kept_upsert"),
        ),
        Service(
            "kept_clean", kept, NO_ROWS, rows, options=KEPT, service=clean, like=("clean", "kept_upsert")
        ),
        scenario(
            "kept_rollback",
            kept,
            taken_back,
            THREE,
            TWO,
            options=KEPT,
            like=("rollback_commit", "kept_upsert"),
        ),
        scenario("kept_restore", kept, restore, THREE, TWO, (BASE,), options=KEPT, like=("restore_commits",)),
    )
}
SCENARIOS.update(METADATA)
