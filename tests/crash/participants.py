"""Actions with a participant in commits that keeps files of its own, made to fail."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hoodie
from hoodie.timeline.time import InstantTime
from tests.crash.scenarios import BASE, FEW_CHANGES, NO_ROWS, OPTIONS, SCENARIOS, Kit, Row, Scenario, run
from tests.crash.services import SETTINGS, Service
from tests.crash.undo import MANUAL, THREE, TWO, commits, scenario, upserted
from tests.support.ledger import LEDGER

KEPT = {**OPTIONS, **MANUAL, **LEDGER}


def kept(kit: Kit, path: Path) -> None:
    for batch in THREE:
        run(path, batch, options=KEPT)


def rows(kit: Kit) -> list[Row]:
    return upserted(*THREE)


def clean(path: str | Path) -> list[Any]:
    return [hoodie.clean_table(str(path), options={**SETTINGS, **LEDGER})]


def rollback(path: str | Path, options: Mapping[str, str] = LEDGER) -> Any:
    """Of the newest commit of the table as it was made; a later try names the same."""
    newest = Path(path, ".hoodie/.newest")
    if not newest.exists():
        newest.write_text(commits(path)[-1])
    return hoodie.rollback_table(str(path), newest.read_text(), options=options)


def restore(path: str | Path) -> Any:
    return hoodie.restore_table(str(path), InstantTime(commits(path)[0]), options=LEDGER)


#: each with the ledger's steps between those of the scenario that it is like
KEEPING = {
    item.name: item
    for item in (
        Scenario("ledger_upsert", kept, FEW_CHANGES, rows, options=KEPT, like=("upsert",)),
        Service("ledger_clean", kept, NO_ROWS, rows, options=KEPT, service=clean, like=("clean",)),
        scenario("ledger_rollback", kept, rollback, THREE, TWO, options=KEPT, like=("rollback_commit",)),
        scenario(
            "ledger_restore", kept, restore, THREE, TWO, (BASE,), options=KEPT, like=("restore_commits",)
        ),
    )
}
SCENARIOS.update(KEEPING)
