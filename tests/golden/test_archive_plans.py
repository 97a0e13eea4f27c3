"""The archiver against Apache Hudi 0.15.0's: what it chose, run by run, and what its archives hold."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import fastavro
import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.format.log_block import BlockType
from hoodie.format.log_file import LogFileReader
from hoodie.services.archive.policy import Facts, choose
from hoodie.services.clean.plan import View, make
from hoodie.services.clean.policy import Retention
from hoodie.storage.local import LocalStorage
from hoodie.timeline.active import Timeline
from hoodie.timeline.archive.archive import ArchivedEntry, commit_record
from hoodie.timeline.archive.log_archive import LogArchive, encode_archive, read_file
from hoodie.timeline.instant import Action, Instant, State, in_order
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.models.clean import CleanMetadata, CleanPlan
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime
from tests.golden.test_clean_plans import names, with_deleted
from tests.support.archives import archive_folder
from tests.support.handles import table_at

STORAGE = LocalStorage()
TABLES = ["cow_archived", "mor_archived"]
#: the archiver's, the cleaner's and the compaction's
SETTINGS = ("hoodie.keep.", "hoodie.cleaner.", "hoodie.compact.inline.")


def settings(folder: Path) -> Config:
    options = json.loads((folder / "meta.json").read_text())["write_options"]
    return Config.of({name: text for name, text in options.items() if name.startswith(SETTINGS)})


def archived(table: Path) -> list[ArchivedEntry]:
    return list(LogArchive(STORAGE, archive_folder(str(table))).entries())


def completed(table: Path) -> list[Instant]:
    """Every instant that was ever completed, archived or not."""
    active = [item for item in Timeline.load(str(table), STORAGE) if item.completed]
    return in_order({*active, *(entry.instant for entry in archived(table) if entry.instant.completed)})


def newest(compactions: list[InstantTime], until: str) -> InstantTime:
    return InstantTime(
        REQUESTED.last(time for time in compactions if REQUESTED.until(time, until)) or NO_TIME
    )


def moments(history: list[Instant], merge_on_read: bool) -> Iterator[str]:
    """Hudi archives after a write and its clean, before an inline compaction: the newest instant then."""
    for number, instant in enumerate(history):
        following = history[number + 1] if number + 1 < len(history) else None
        compaction = merge_on_read and instant.action is Action.COMMIT
        if not compaction and (following is None or following.action is not Action.CLEAN):
            yield instant.time


@pytest.mark.parametrize("name", TABLES)
def test_each_run_chose_what_hudi_chose(golden_tables: Path, name: str) -> None:
    folder = golden_tables / "0.15.0-v6" / name
    table, config = folder / "table", settings(folder)
    history = completed(table)
    compactions = [
        item.time for item in completed(table / ".hoodie/metadata") if item.action is Action.COMMIT
    ]
    files = LogArchive(STORAGE, archive_folder(str(table))).files()
    theirs = [
        [entry.instant for entry in read_file(STORAGE, item.path) if entry.instant.completed]
        for item in files
    ]
    ours: list[list[Instant]] = []
    gone: set[Instant] = set()
    merge_on_read = name.startswith("mor")
    for now in moments(history, merge_on_read):
        then = tuple(item for item in history if REQUESTED.until(item.time, now) and item not in gone)
        timeline = Timeline(str(table), then, {})
        earliest = Retention.of(config, 0, True).earliest(timeline)
        facts = Facts(
            earliest=earliest.time if earliest else None,
            metadata_compaction=partial(newest, compactions, f"{now}999"),
            merge_on_read=merge_on_read,
        )
        choice = choose(timeline, config, facts)
        if choice.instants:
            ours.append(list(choice.instants))
            gone |= set(choice.instants)
    assert ours == theirs


@pytest.mark.parametrize("name", TABLES)
def test_archived_cleans_had_the_plans_that_we_make(golden_tables: Path, name: str, tmp_path: Path) -> None:
    """The table's whole timeline, archived commits and cleans put back into it from their entries."""
    folder = golden_tables / "0.15.0-v6" / name
    table, config = folder / "table", settings(folder)
    meta = tmp_path / "t" / ".hoodie"
    meta.mkdir(parents=True)
    for path in (table / ".hoodie").glob("2*"):
        (meta / path.name).write_bytes(path.read_bytes())
    for entry in archived(table):
        if entry.commit is not None:
            data = entry.commit.to_json()
        elif entry.instant.action is Action.CLEAN and entry.metadata is not None:
            kind = CleanMetadata if entry.instant.completed else CleanPlan
            data = kind.from_record(entry.metadata).to_bytes()
        else:
            continue
        (meta / ONE.name(entry.instant)).write_bytes(data)
    loaded = Timeline.load(str(tmp_path / "t"), STORAGE)
    # compactions whose plans are not put back are left out of it, not their commits
    known = tuple(item for item in loaded if item.completed)
    cleans = [item for item in known if item.action is Action.CLEAN]
    plans = [CleanPlan.from_bytes(loaded.read(item.with_state(State.REQUESTED))) for item in cleans]
    assert len(cleans) >= 8
    for number, (clean, theirs) in enumerate(zip(cleans, plans, strict=True)):
        then = Timeline(loaded.base_path, tuple(item for item in known if item.is_before(clean.time)), {})
        listing = with_deleted(STORAGE, str(table), plans[number:])
        view = replace(View.of(table_at(then.base_path), then, partitioned=True), listing=listing)
        view = replace(view, partitions=lambda: ["apac", "eu", "us"])
        ours = make(view, Retention.of(config, 0, True), config).plan
        assert ours is not None
        assert names(ours) == names(theirs), clean
        assert replace(ours, files={}) == replace(theirs, files={}), clean


def test_every_golden_archive_reads_and_writes(golden_tables: Path) -> None:
    """Metadata tables have archives, too. The records are those that fastavro reads by their own schema."""
    seen = 0
    for path in sorted(golden_tables.rglob("archived/.commits_.archive.*")):
        with LogFileReader(STORAGE, str(path)) as reader:
            records = [record for block in reader.blocks() for record in _records(reader, block)]
        found = list(read_file(STORAGE, str(path)))
        assert [entry.record for entry in found] == records, path
        again = path.with_name(".commits_.archive.999_1-0-1")
        again.write_bytes(encode_archive([entry.record for entry in found], 2))
        assert [entry.record for entry in read_file(STORAGE, str(again))] == records
        again.unlink()
        for entry in found:
            if entry.commit is not None and "hoodieCommitMetadata" in entry.record:
                assert commit_record(entry.commit) == entry.metadata
        seen += len(found)
    assert seen >= 150


def _records(reader: LogFileReader, block: object) -> Iterator[object]:
    assert block.type is BlockType.AVRO_DATA  # type: ignore[attr-defined]
    data = io.BytesIO(reader.content(block))  # type: ignore[arg-type]
    schema = fastavro.parse_schema(json.loads(str(block.schema_text)))  # type: ignore[attr-defined]
    assert int.from_bytes(data.read(4), "big") == 3
    for _ in range(int.from_bytes(data.read(4), "big")):
        size = int.from_bytes(data.read(4), "big")
        yield fastavro.schemaless_reader(io.BytesIO(data.read(size)), schema)


@pytest.mark.parametrize("name", TABLES)
def test_the_archived_timeline_is_shown(golden_tables: Path, name: str) -> None:
    folder = golden_tables / "0.15.0-v6" / name
    path = str(folder / "table")
    shown = hoodie.instants(path, archived=True)
    every = [*shown, *hoodie.instants(path)]
    writes = [item["instant"] for item in every if item.get("operation") in ("UPSERT", "INSERT")]
    assert len(writes) == 12, "every write of the table's history is there"
    assert shown == sorted(shown, key=lambda item: str(item["instant"]))
    assert {item["state"] for item in shown} == {"completed"}
    assert sum(item.get("inserts", 0) for item in shown) > 60
