"""What the tests of the cleaner share: tables of many slices, and short ways to ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import hoodie
from hoodie.codec.avro import write_record
from hoodie.services.clean.run import CleanResult
from hoodie.storage.local import LocalStorage
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.clean import CleanMetadata, CleanPlan
from hoodie.timeline.time import InstantTime
from tests.support.stores import instant_file, store_at
from tests.support.tables import small_rows
from tests.unit.write.support import OPTIONS, Pair

STORAGE = LocalStorage()
MANUAL = {**OPTIONS, "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
MOR = {**MANUAL, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
RETAINED = "hoodie.cleaner.commits.retained"
POLICY = "hoodie.cleaner.policy"
VERSIONS = "hoodie.cleaner.fileversions.retained"
REGIONS = {"eu": range(0, 30, 3), "us": range(1, 30, 3), "apac": range(2, 30, 3)}


def written(path: Path, versions: int, options: Mapping[str, Any] = MANUAL) -> Pair:
    """All three partitions in every commit."""
    pair = Pair(path, options)
    for version in range(1, versions + 1):
        pair.write(small_rows(range(30), version))
    return pair


def clean(pair: Pair, mode: str = "run", *, dry_run: bool = False, **options: Any) -> CleanResult:
    given = {name.replace("__", "."): value for name, value in options.items()}
    return hoodie.clean_table(str(pair.path), mode=mode, options=given, dry_run=dry_run)


def keep(pair: Pair, commits: int, **options: Any) -> CleanResult:
    return clean(pair, hoodie__cleaner__commits__retained=commits, **options)


def timeline(pair: Pair) -> Timeline:
    return Timeline.load(str(pair.path), STORAGE)


def commits(pair: Pair) -> list[str]:
    return [str(instant.time) for instant in timeline(pair).commits()]


def files(pair: Pair) -> set[str]:
    """Data files, relative to the table."""
    found = (path.relative_to(pair.path) for path in pair.path.rglob("*") if path.is_file())
    return {
        str(path)
        for path in found
        if path.parts[0] != ".hoodie" and (path.name[0] != "." or ".log." in path.name)
    }


def instants_of(names: Iterable[str]) -> set[str]:
    return {name.rsplit("_", 1)[1].split(".")[0] for name in names}


def result_of(pair: Pair, instant: str) -> CleanMetadata:
    return CleanMetadata.from_bytes(instant_file(pair.path, instant, "clean").read_bytes())


def plan_of(pair: Pair, instant: str) -> CleanPlan:
    return CleanPlan.from_bytes(instant_file(pair.path, instant, "clean.requested").read_bytes())


def one_region(pair: Pair, region: str, version: int) -> None:
    pair.write(small_rows(REGIONS[region], version))


def savepoint(pair: Pair, time: str) -> set[str]:
    """As Apache Hudi makes one: the latest files as of a commit."""
    saved: dict[str, Any] = {}
    for name in files(pair):
        folder, _, file = name.rpartition("/")
        if instants_of([name]) == {time}:
            saved.setdefault(folder, []).append(file)
    record = {
        "savepointedBy": "me",
        "savepointedAt": 0,
        "comments": "",
        "partitionMetadata": {
            path: {"partitionPath": path, "savepointDataFile": names} for path, names in saved.items()
        },
    }
    data = write_record("HoodieSavepointMetadata", record)
    store_at(pair.path).create(Instant(InstantTime(time), Action.SAVEPOINT, State.COMPLETED), data)
    return {f"{path}/{name}" for path, names in saved.items() for name in names}
