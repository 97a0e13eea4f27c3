"""The cleaner and the archiver, made to fail: what they begin with, and what they must leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hoodie
from hoodie.services.clean import run as cleaning
from hoodie.timeline.active import Timeline
from tests.crash.scenarios import (
    BASE,
    MOR_OPTIONS,
    NO_ROWS,
    OPTIONS,
    SCENARIOS,
    Kit,
    Row,
    Scenario,
    compact,
    in_region,
    run,
)
from tests.support.faults import Faults, injected
from tests.support.oracle import Model
from tests.support.tables import small_rows

MANUAL = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
SETTINGS = {
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.clean.max.commits": "0",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.commits.archival.batch": "4",
    "hoodie.archive.merge.enable": "true",
    "hoodie.archive.merge.files.batch.size": "2",
    "hoodie.compact.inline.max.delta.commits": "1",
}
#: each in a partition of its own
NEW = [in_region(small_rows(range(number, number + 5), 1), f"n{number}") for number in (8000, 9000)]
UPDATES = [in_region(small_rows(range(number, 60, 7), number), "eu") for number in range(2, 7)]


def history(kit: Kit, path: Path) -> None:
    """Old slices in one partition, another that was replaced as a whole, a merge of archive files to do."""
    run(path, BASE, options={**OPTIONS, **MANUAL})
    hoodie.delete_partitions(str(path), "gone", options=MANUAL)
    for rows in UPDATES[:3]:
        run(path, rows, options={**OPTIONS, **MANUAL})
    clean_and_archive(path, {**SETTINGS, "hoodie.archive.merge.enable": "false"})
    for rows in UPDATES[3:]:
        run(path, rows, options={**OPTIONS, **MANUAL})
    (path / ".hoodie/.aux" / f"{Timeline.load(str(path)).commits()[0].time}.compaction.requested").touch()


def uncleaned(kit: Kit, path: Path) -> None:
    run(path, BASE, options={**OPTIONS, **MANUAL})
    hoodie.delete_partitions(str(path), "gone", options=MANUAL)
    for rows in UPDATES:
        run(path, rows, options={**OPTIONS, **MANUAL})


def growing(kit: Kit, path: Path) -> None:
    """Nothing to clean; a clean noted so before the last commit."""
    run(path, BASE, options={**OPTIONS, **MANUAL})
    run(path, NEW[0], options={**OPTIONS, **MANUAL})
    clean(path)
    run(path, NEW[1], options={**OPTIONS, **MANUAL})


def growing_rows(kit: Kit) -> list[Row]:
    return [row for rows in (BASE, *NEW) for row in rows]


def mor_history(kit: Kit, path: Path) -> None:
    """Compacted slices with their logs."""
    for number, rows in enumerate([BASE, *UPDATES]):
        run(path, rows, options={**MOR_OPTIONS, **MANUAL})
        if number in (2, 4):
            compact(path, "run")


def rows(kit: Kit) -> list[Row]:
    return [row for row in mor_rows(kit) if row["region"] != "gone"]


def mor_rows(kit: Kit) -> list[Row]:
    model = Model(["id"], ["region"], "ts")
    for batch in (BASE, *UPDATES):
        model.upsert(batch)
    return model.rows()


def clean(path: str | Path, options: Mapping[str, str] = SETTINGS) -> list[Any]:
    return [hoodie.clean_table(str(path), options=options)]


def archive(path: str | Path, options: Mapping[str, str] = SETTINGS) -> list[Any]:
    return [hoodie.archive_table(str(path), options=options)]


def clean_and_archive(path: str | Path, options: Mapping[str, str] = SETTINGS) -> list[Any]:
    return clean(path, options) + archive(path, options)


@dataclass(frozen=True)
class Answer:
    results: list[Any]

    def to_dict(self) -> dict[str, Any]:
        return {"results": [result.to_dict() for result in self.results]}


@dataclass(frozen=True, eq=False)
class Service(Scenario):
    """Changes no row. The next run finishes it."""

    service: Any = field(default=clean_and_archive)

    def new(self, kit: Kit) -> list[Row]:
        return self.old(kit) or []

    def run(self, path: str | Path, faults: Faults | None = None) -> Answer:  # type: ignore[override]
        threads, cleaning._THREADS = cleaning._THREADS, 1  # so that the changes come in one order
        try:
            with injected(faults or Faults()):
                return Answer(self.service(path))
        finally:
            cleaning._THREADS = threads

    def again(self, path: str | Path, committed: bool) -> Answer:  # type: ignore[override]
        return self.run(path)


@dataclass(frozen=True, eq=False)
class Noted(Service):
    """A clean that finds nothing to delete, and notes up to which commit it looked."""


SERVICES = {
    scenario.name: scenario
    for scenario in (
        Service("clean", uncleaned, NO_ROWS, rows, service=clean, like=("upsert",), thorough=True),
        Service("clean_and_archive", uncleaned, NO_ROWS, rows, like=("clean", "archive"), thorough=True),
        Service("archive", history, NO_ROWS, rows, service=archive, thorough=True),
        Service(
            "mor_services", mor_history, NO_ROWS, mor_rows, options=MOR_OPTIONS, like=("clean_and_archive",)
        ),
        Noted("clean_of_nothing", growing, NO_ROWS, growing_rows, service=clean, thorough=True),
    )
}
SCENARIOS.update(SERVICES)
