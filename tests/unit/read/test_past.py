"""The past after clean policies took turns: rows as they were, or an error; what is whole is answered."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import StateUnavailable, TableError
from hoodie.storage.local import LocalStorage
from hoodie.table.listing import StorageListing
from hoodie.table.view import TimelineView, merged_slices
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.savepoint import SavepointMetadata
from hoodie.timeline.time import REQUESTED, InstantTime
from hoodie.write.operation import WriteResult
from tests.support.arrow import arrow_schema
from tests.support.stores import after, store_at, timeline_at
from tests.support.tiers import full_but
from tests.unit.read.support import Row
from tests.unit.write.support import KEY, ORDERING, PARTITION

STORAGE = LocalStorage()
OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
OPTIONS: dict[str, Any] = {KEY: "id", PARTITION: "region", ORDERING: "ts", **OFF}
SCHEMA = arrow_schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64())])
TYPE = "hoodie.datasource.write.table.type"
RETAINED = "hoodie.cleaner.fileversions.retained"
VERSIONS = {
    "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
    RETAINED: 1,
    "hoodie.clean.max.commits": 0,
}


def commits(retained: int) -> dict[str, Any]:
    return {"hoodie.cleaner.commits.retained": retained, "hoodie.clean.max.commits": 0}


def rows(region: str, ts: int, keys: str = "abc") -> list[Row]:
    return [{"id": key, "region": region, "ts": ts} for key in keys]


def write(path: Path, found: list[Row], operation: str = "upsert", **options: Any) -> str:
    table = pa.Table.from_pylist(found, schema=SCHEMA)
    result: WriteResult = hoodie.write_table(
        table, str(path), operation=operation, options={**OPTIONS, **options}
    )
    assert result.instant
    return result.instant


def read(path: Path, **query: Any) -> list[tuple[str, str, int]]:
    found = hoodie.read_table(str(path), columns=SCHEMA.names, **query).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def expected(*found: Row) -> list[tuple[str, str, int]]:
    return sorted((row["id"], row["region"], row["ts"]) for row in found)


KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]


@pytest.mark.parametrize(
    ("mode", "operation", "kind"),
    [
        ("run", "insert_overwrite", "COPY_ON_WRITE"),
        ("schedule", "delete_partition", "MERGE_ON_READ"),
        pytest.param("run", "insert_overwrite", "MERGE_ON_READ", marks=pytest.mark.full),
        pytest.param("schedule", "delete_partition", "COPY_ON_WRITE", marks=pytest.mark.full),
    ],
)
def test_replaced_files_that_an_earlier_policy_took(
    tmp_path: Path, kind: str, mode: str, operation: str
) -> None:
    """A clean by commits says to have kept a state whose files a clean by versions took before."""
    path, options = tmp_path / "t", {TYPE: kind}

    def update(ts: int) -> str:
        instant = write(path, rows("us", ts), **options)
        if kind == "MERGE_ON_READ":
            hoodie.compact_table(str(path), options={"hoodie.compact.inline.max.delta.commits": 1})
        return instant

    write(path, rows("eu", 1) + rows("us", 1), **options)
    update(2)
    third = update(3)
    if operation == "delete_partition":
        hoodie.delete_partitions(str(path), "eu", options=OFF)
        fresh = []
    else:
        fresh = rows("eu", 4, "d")
        write(path, fresh, operation, **options)
    fifth = update(5)
    assert hoodie.clean_table(str(path), options={**VERSIONS, RETAINED: 9}).num_files == 1
    update(6)
    active = [item.time for item in Timeline.load(str(path), STORAGE).commits()]
    retained = commits(len(active) - active.index(InstantTime(third)))
    assert hoodie.clean_table(str(path), mode=mode, options=retained).num_files > 0
    with pytest.raises(
        StateUnavailable, match=f"as_of {third} is before what the cleaner kept: .*eu/.* is gone"
    ):
        read(path, as_of=third)
    with pytest.raises(StateUnavailable, match=f"end {third} is before what the cleaner kept"):
        read(path, begin="000", end=third)
    assert read(path, as_of=third, where="region = 'us'") == expected(*rows("us", 3))
    assert read(path, as_of=fifth) == expected(*rows("us", 5), *fresh)


def test_other_partitions_of_that_time_are_answered(tmp_path: Path) -> None:
    path = tmp_path / "t"
    first = write(path, rows("eu", 1) + rows("us", 1))
    write(path, rows("eu", 2))
    hoodie.clean_table(str(path), options=VERSIONS)
    with pytest.raises(StateUnavailable, match="eu/"):
        read(path, as_of=first)
    assert read(path, as_of=first, where="region = 'us'") == expected(*rows("us", 1))


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", full_but({"MERGE_ON_READ"}, KINDS))
def test_slices_that_archived_commits_wrote(tmp_path: Path, kind: str, version: int) -> None:
    """Nothing on the timeline names them but the commits that came after."""
    path = tmp_path / "t"
    options: dict[str, Any] = {TYPE: kind, "hoodie.write.table.version": version}
    write(path, rows("eu", 1) + rows("us", 1) + rows("asia", 1), **options)
    third = [write(path, rows("us", 3), **options) for _ in range(4)][-1]
    if kind == "MERGE_ON_READ":
        hoodie.compact_table(str(path), options={"hoodie.compact.inline.max.delta.commits": 1})
        third = write(path, rows("us", 3), **options)
    hoodie.clean_table(str(path), options=commits(1))
    keep = {"hoodie.keep.min.commits": 1, "hoodie.keep.max.commits": 2, **commits(1)}
    assert hoodie.archive_table(str(path), options=keep).archived
    assert Timeline.load(str(path), STORAGE).commits()[-1].time == third
    state = expected(*rows("eu", 1), *rows("us", 3), *rows("asia", 1))
    fourth = write(path, rows("eu", 4), **options)
    if kind == "MERGE_ON_READ":
        hoodie.compact_table(str(path), options={"hoodie.compact.inline.max.delta.commits": 1})
    hoodie.delete_partitions(str(path), "asia", options=OFF)
    hoodie.clean_table(str(path), mode="schedule", options=commits(9))
    before = {partition: saved(path / partition) for partition in ("eu", "asia", "us")}
    assert read(path, as_of=third) == state
    for partition in ("asia", "eu"):
        hoodie.clean_table(str(path), options=VERSIONS)
        for other, files in before.items():
            for file, content in files.items():
                if other != partition:
                    file.parent.mkdir(exist_ok=True)
                    file.write_bytes(content)
        with pytest.raises(StateUnavailable, match=f"before what the cleaner kept: .*{partition}/"):
            read(path, as_of=third)
    assert read(path, as_of=fourth, where="region = 'us'") == expected(*rows("us", 3))


def saved(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("cleaned", [True, False])
def test_a_savepoint_is_answered_and_what_is_archived_after_it_not(tmp_path: Path, cleaned: bool) -> None:
    path = tmp_path / "t"
    first = write(path, rows("eu", 1) + rows("us", 1))
    hoodie.savepoint_table(str(path), InstantTime(first))
    second = write(path, rows("eu", 2))
    write(path, rows("us", 3))
    fourth = write(path, rows("eu", 4))
    if cleaned:
        hoodie.clean_table(str(path), options=commits(1))
    keep = {"hoodie.keep.min.commits": 1, "hoodie.keep.max.commits": 2, **commits(1)}
    keep["hoodie.archive.beyond.savepoint"] = "true"
    archived = [item["instant"] for item in hoodie.archive_table(str(path), options=keep).archived]
    assert second in archived
    assert first not in archived
    fifth = write(path, rows("us", 5, "z"))
    assert read(path, as_of=first) == expected(*rows("eu", 1), *rows("us", 1))
    assert read(path, as_of=fourth) == expected(*rows("eu", 4), *rows("us", 3))
    with pytest.raises(StateUnavailable, match=f"between the savepoint of {first} .* begins with"):
        read(path, as_of=second)
    assert read(path, as_of=fifth) == read(path)


def test_a_state_of_which_files_are_cleaned_gets_no_savepoint(tmp_path: Path) -> None:
    """Cleans by file versions do not say from when on all is kept; a savepoint would name what is left."""
    path = tmp_path / "t"
    write(path, rows("eu", 1))
    second = write(path, rows("us", 1))
    write(path, rows("eu", 2))
    listing = {item: item.read_bytes() for item in timeline_at(path).iterdir() if item.is_file()}
    hoodie.clean_table(str(path), options=VERSIONS)
    with pytest.raises(TableError, match=f"commit {second} can't get a savepoint: .* is gone"):
        hoodie.savepoint_table(str(path), instant=InstantTime(second))
    assert all(item.read_bytes() == data for item, data in listing.items())
    # one that somebody made all the same
    left = [file.name for file in (path / "us").glob("*.parquet")]
    saved = SavepointMetadata("me", 1, "", {"us": tuple(left)})
    instant = Instant(InstantTime(second), Action.SAVEPOINT, State.COMPLETED)
    store_at(path).create(instant, saved.to_bytes())
    with pytest.raises(StateUnavailable, match="is before what the cleaner kept"):
        read(path, as_of=second)
    third = write(path, rows("eu", 3))
    hoodie.savepoint_table(str(path), instant=InstantTime(third))
    write(path, rows("eu", 4))
    assert read(path, as_of=third) == expected(*rows("eu", 3), *rows("us", 1))


def test_files_of_a_pending_plan_are_as_good_as_gone(tmp_path: Path) -> None:
    path = tmp_path / "t"
    first = write(path, rows("eu", 1))
    second = write(path, rows("eu", 2))
    assert read(path, as_of=first) == expected(*rows("eu", 1))
    hoodie.clean_table(str(path), mode="schedule", options=VERSIONS)
    with pytest.raises(StateUnavailable, match="before what the cleaner kept"):
        read(path, as_of=first)
    assert read(path, as_of=second) == expected(*rows("eu", 2))


@pytest.mark.parametrize("later", ["upsert", "bulk_insert"])
def test_after_an_overwrite_its_own_state_is_whole(tmp_path: Path, later: str) -> None:
    """Files of the replaced groups, which a clean by versions took, are no part of it, nor are new ones."""
    path = tmp_path / "t"
    write(path, rows("eu", 1))
    second = write(path, rows("eu", 2, "d"), "insert_overwrite")
    hoodie.clean_table(str(path), options=VERSIONS)
    write(path, rows("us", 3), later)
    assert read(path, as_of=second) == expected(*rows("eu", 2, "d"))


def test_a_compaction_that_was_planned_later_begins_no_slice(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, rows("eu", 1), **{TYPE: "MERGE_ON_READ"})
    second = write(path, rows("eu", 2))
    planned = hoodie.compact_table(
        str(path), mode="schedule", options={"hoodie.compact.inline.max.delta.commits": 1}
    ).scheduled
    fourth = write(path, rows("eu", 4))
    timeline = Timeline.load(str(path), STORAGE)
    for as_of, logs, begun in ((second, 1, False), (fourth, 2, True)):
        snapshot = TimelineView.of(timeline, STORAGE, InstantTime(as_of))
        assert (planned in snapshot.compacting.values()) == begun
        (found,) = merged_slices(snapshot, StorageListing(STORAGE, str(path)).files, "eu")
        assert len(found.logs) == logs
    assert read(path, as_of=second) == expected(*rows("eu", 2))


# --- at random ---------------------------------------------------------------------------------------


STEPS = ("upsert",) * 4 + ("overwrite", "drop", "clean", "clean", "archive", "compact")


class History:
    """A table, the rows after each commit, and the files that each state consisted of."""

    def __init__(self, path: Path, seed: int, kind: str) -> None:
        self.path, self.kind = path, kind
        self.chance = random.Random(seed)
        self.rows: dict[tuple[str, str], int] = {}
        self.states: dict[str, tuple[dict[tuple[str, str], int], set[Path]]] = {}
        self.answered = self.refused = 0

    def step(self, number: int) -> None:
        region = self.chance.choice(("eu", "us", "asia"))
        kind = self.chance.choice(
            ("upsert",) * 4 + ("overwrite", "drop", "clean", "clean", "archive", "compact")
        )
        found = rows(region, number, "".join(self.chance.sample("abcdef", 2)))
        options: dict[str, Any] = {
            TYPE: self.kind,
            "hoodie.parquet.small.file.limit": self.chance.choice((0, 10**8)),
        }
        if kind == "overwrite":
            self.rows = {key: ts for key, ts in self.rows.items() if key[1] != region}
            write(self.path, found, "insert_overwrite", **options)
        elif kind == "drop" and any(key[1] == region for key in self.rows):
            self.rows = {key: ts for key, ts in self.rows.items() if key[1] != region}
            hoodie.delete_partitions(str(self.path), region, options=OFF)
            found = []
        elif kind == "upsert" or not self.states:
            write(self.path, found, **options)
        else:
            self.serve(kind)
            return
        self.rows |= {(row["id"], row["region"]): row["ts"] for row in found}
        self.note()

    def serve(self, kind: str) -> None:
        path = str(self.path)
        if kind == "clean":
            policy = self.chance.choice((VERSIONS, commits(self.chance.randrange(1, 6))))
            hoodie.clean_table(path, mode=self.chance.choice(("run", "run", "schedule")), options=policy)
        elif kind == "archive":
            keep = {"hoodie.keep.min.commits": 4, "hoodie.keep.max.commits": 5, **commits(2)}
            hoodie.archive_table(path, options=keep)
        elif self.kind == "MERGE_ON_READ":
            hoodie.compact_table(path, options={"hoodie.compact.inline.max.delta.commits": 1})
            self.note()

    def note(self) -> None:
        """The state after the newest commit."""
        timeline = Timeline.load(str(self.path), STORAGE)
        snapshot, listing = TimelineView.of(timeline, STORAGE), StorageListing(STORAGE, str(self.path))
        assert timeline.last_commit
        files = {
            Path(path)
            for partition in listing.partitions()
            for item in merged_slices(snapshot, listing.files, partition)
            for path in (*([item.base.path] if item.base else []), *(log.path for log in item.logs))
        }
        self.states[timeline.last_commit.time] = (dict(self.rows), files)

    def check(self) -> None:
        timeline = Timeline.load(str(self.path), STORAGE)
        active = [item.time for item in timeline.commits()]
        for instant in active:
            state, files = self.states[instant]
            later = {end: self.states[end][0] for end in active if REQUESTED.since(end, instant)}
            self.ask(state, files, as_of=instant)
            end = self.chance.choice(list(later))
            since = {key: ts for key, ts in later[end].items() if state.get(key) != ts}
            span = {"begin": after(self.path, instant), "end": after(self.path, end)}
            self.ask(since, self.states[end][1], **span)

    def ask(self, state: Mapping[tuple[str, str], int], files: set[Path], **query: str) -> None:
        why, found = "", []
        try:
            found = read(self.path, **query)
        except StateUnavailable as error:
            why = error.message
        if why:
            planned = Timeline.load(str(self.path), STORAGE).filter([Action.CLEAN], completed=False)
            lost = planned or not all(file.exists() for file in files)
            assert "complete from" in why or ("is gone" in why and lost), (query, why)
            self.refused += 1
            return
        assert found == sorted((*key, ts) for key, ts in state.items()), query
        self.answered += 1


@pytest.mark.parametrize("kind", full_but({"MERGE_ON_READ"}, KINDS))
@pytest.mark.parametrize("seed", [1])
def test_policies_in_turn(tmp_path: Path, kind: str, seed: int) -> None:
    history = History(tmp_path / "t", seed, kind)
    for number in range(1, 25):
        history.step(number)
        if number % 4 == 0:
            history.check()
    assert history.answered > 15
    assert history.refused > 1
