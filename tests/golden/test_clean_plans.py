"""Plans of the cleaner, against those that Apache Hudi 0.15.0 made of the same tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hoodie.config.key import Config
from hoodie.format.names import join
from hoodie.services.clean.plan import View, make, why_not_due
from hoodie.services.clean.policy import Retention
from hoodie.storage import FileInfo, Storage
from hoodie.storage.local import LocalStorage
from hoodie.table.listing import StorageListing
from hoodie.table.view import Listing
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.models.clean import CleanMetadata, CleanPlan
from tests.support.handles import table_at

STORAGE = LocalStorage()
TABLES = {"cow_clean_commits": 3, "cow_clean_versions": 4, "mor_clean_commits": 3, "cow_savepoint": 2}


def settings(folder: Path) -> Config:
    """The cleaner's settings that the table was written with, those of the last operation included."""
    meta = json.loads((folder / "meta.json").read_text())
    options = {**meta["write_options"], **meta["ops"][-1]["extra"]}
    return Config.of({name: text for name, text in options.items() if name.startswith("hoodie.cleaner.")})


def plan_of(table: Path, clean: Instant) -> CleanPlan:
    return CleanPlan.from_bytes((table / f".hoodie/{clean.time}.clean.requested").read_bytes())


def names(plan: CleanPlan) -> dict[str, set[str]]:
    return {partition: {file.name for file in files} for partition, files in plan.files.items()}


def before(timeline: Timeline, clean: Instant) -> Timeline:
    instants = tuple(instant for instant in timeline if instant.is_before(clean.time))
    return Timeline(timeline.base_path, instants, timeline.mtimes)


def with_deleted(storage: Storage, base_path: str, plans: list[CleanPlan]) -> Listing:
    """The folders as they were before these plans were carried out."""
    listing = StorageListing(storage, base_path).files

    def listed(partition: str) -> list[FileInfo]:
        gone = [file.name for plan in plans for file in plan.files.get(partition, ())]
        return [
            *listing(partition),
            *(FileInfo(join(base_path, partition, name), name, 1, 0, False) for name in gone),
        ]

    return listed


@pytest.mark.parametrize("name", TABLES)
def test_the_plan_is_the_one_that_hudi_made(golden_tables: Path, name: str) -> None:
    folder = golden_tables / "0.15.0-v6" / name
    table, config = folder / "table", settings(folder)
    timeline = Timeline.load(str(table), STORAGE)
    cleans = timeline.filter([Action.CLEAN], completed=True)
    assert len(cleans) == TABLES[name]
    plans = [plan_of(table, clean) for clean in cleans]
    for number, (clean, theirs) in enumerate(zip(cleans, plans, strict=True)):
        then = before(timeline, clean)
        listing = with_deleted(STORAGE, str(table), plans[number:])
        view = replace(View.of(table_at(then.base_path), then, partitioned=True), listing=listing)
        assert why_not_due(view, config) == ""
        ours = make(view, Retention.of(config, 0, True), config).plan
        assert ours is not None
        assert names(ours) == names(theirs), clean
        assert replace(ours, files={}) == replace(theirs, files={}), clean


@pytest.mark.parametrize("name", TABLES)
def test_there_is_nothing_left_after_the_last_clean(golden_tables: Path, name: str) -> None:
    folder = golden_tables / "0.15.0-v6" / name
    config = settings(folder)
    table = table_at(folder / "table")
    view = View.of(table, table.timeline, partitioned=True)
    assert why_not_due(view, config).startswith("no clean is due: 0 of 1 commits since the last one")
    planned = make(view, Retention.of(config, 0, True), config)
    assert planned.plan is None
    assert planned.reason.startswith("no file is older than what is kept: ")


def decoded(record: Any, data: bytes) -> None:
    import io

    import fastavro

    (expected,) = fastavro.reader(io.BytesIO(data))
    assert record == expected


def test_every_golden_plan_and_result_field_by_field(golden_tables: Path) -> None:
    seen = 0
    for path in sorted(golden_tables.rglob(".hoodie/*.clean*")):
        data = path.read_bytes()
        if path.name.endswith(".crc") or not data:
            continue
        kind: Any = CleanMetadata if path.suffix == ".clean" else CleanPlan
        value = kind.from_bytes(data)
        decoded(value.to_record(), data)
        assert kind.from_bytes(value.to_bytes()) == value
        seen += 1
    assert seen >= 60
