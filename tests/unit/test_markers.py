"""Markers: a data file is announced before it is made."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import Fenced
from hoodie.storage import Storage, storage_for
from hoodie.storage.local import LocalStorage
from hoodie.storage.object_client import Client
from hoodie.table.heartbeat import heartbeat_path
from hoodie.table.markers import (
    Marker,
    MarkerType,
    create_marker,
    delete_markers,
    keep_markers,
    known_markers,
    marker_instants,
    place_marker,
    planned_token,
    read_markers,
    remove_marker,
)
from hoodie.timeline.time import InstantTime
from tests.support.handles import table_at

STORAGE = LocalStorage()
INSTANT = "20260101000000000"
FILE = "a=1/b/3c0e-0_0-1-2_20260101000000000.parquet"


@pytest.fixture
def base(tmp_path: Path) -> str:
    """A table on which the write INSTANT is on."""
    STORAGE.create(heartbeat_path(str(tmp_path), INSTANT), b"")
    return str(tmp_path)


def test_markers_are_found_again(base: str) -> None:
    made = [Marker(FILE, MarkerType.CREATE), Marker("top-0_0-1-2_1.parquet", MarkerType.MERGE)]
    assert marker_instants(table_at(base)) == []
    for marker in made * 2:
        create_marker(STORAGE, base, InstantTime(INSTANT), marker)
    assert os.path.getsize(f"{base}/.hoodie/.temp/{INSTANT}/{FILE}.marker.CREATE") == 0
    assert sorted(read_markers(table_at(base), InstantTime(INSTANT)), key=lambda m: m.file) == made
    assert marker_instants(table_at(base)) == [INSTANT]
    delete_markers(table_at(base), InstantTime(INSTANT))
    assert read_markers(table_at(base), InstantTime(INSTANT)) == []
    assert marker_instants(table_at(base)) == []


def test_no_marker_once_the_write_is_over(base: str) -> None:
    os.unlink(heartbeat_path(base, INSTANT))
    with pytest.raises(Fenced, match=f"write {INSTANT} is over.*{FILE}"):
        create_marker(STORAGE, base, InstantTime(INSTANT), Marker(FILE, MarkerType.CREATE))
    assert marker_instants(table_at(base)) == []


def test_markers_of_the_timeline_server(tmp_path: Path) -> None:
    folder = tmp_path / ".hoodie/.temp" / INSTANT
    folder.mkdir(parents=True)
    (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    (folder / "MARKERS0").write_text("p/x.parquet.marker.CREATE\np/.y.log.1_0-1-2.marker.APPEND\n")
    (folder / "MARKERS11").write_text("p/z.parquet.marker.MERGE\n\np/cut.parquet.marker.ME")
    assert set(read_markers(table_at(tmp_path), InstantTime(INSTANT))) == {
        Marker("p/x.parquet", MarkerType.CREATE),
        Marker("p/.y.log.1_0-1-2", MarkerType.APPEND),
        Marker("p/z.parquet", MarkerType.MERGE),
    }


def test_what_is_no_marker(tmp_path: Path) -> None:
    assert Marker.parse("p/x.parquet") is None
    assert Marker.parse("p/x.parquet.marker.create") is None
    folder = tmp_path / ".hoodie/.temp"
    (folder / INSTANT / "p").mkdir(parents=True)
    (folder / INSTANT / "p" / ".x.parquet.marker.CREATE.crc").touch()
    (folder / "hoodie-tmp").mkdir()
    (folder / "12").touch()
    assert read_markers(table_at(tmp_path), InstantTime(INSTANT)) == []
    assert marker_instants(table_at(tmp_path)) == [INSTANT]


FILES = [f"p{number}/file{number}-0_{number}-0-0_{INSTANT}.parquet" for number in range(3)]
MARKERS = [Marker(FILES[0], MarkerType.MERGE), Marker(FILES[1], MarkerType.CREATE)]
LATER = Marker(FILES[2], MarkerType.CREATE)


class Store:
    """A table in memory on which the write INSTANT is on. `asked`: paths of requests, below its markers."""

    def __init__(self, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.storage = path, storage_for(path)
        self.table = table_at(path, self.storage)
        self.storage.create(heartbeat_path(path, INSTANT), b"")
        self.folder = f"{path}/.hoodie/.temp/{INSTANT}"
        self.asked: list[str] = []
        ask = Client.ask

        def counting(client: Client, path: str, *given: object, **named: object) -> object:
            self.asked.append(path.removeprefix(f"{self.folder}/"))
            return ask(client, path, *given, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(Client, "ask", counting)

    def create(self, marker: Marker) -> bool:
        return create_marker(self.storage, self.path, InstantTime(INSTANT), marker)

    def token(self, file: str) -> str | None:
        partition, _, name = file.partition("/")
        return planned_token(self.path, InstantTime(INSTANT), partition, name.partition("_")[0])

    def read(self) -> set[Marker]:
        return set(read_markers(self.table, InstantTime(INSTANT)))


@pytest.fixture
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Store:
    return Store(f"memory://markers/{request.node.name}", monkeypatch)


@pytest.fixture
def kept(store: Store) -> Iterator[Store]:
    """Inside a write whose markers this process keeps."""
    with keep_markers(store.table, InstantTime(INSTANT), 60_000, time.monotonic()):
        yield store


def plan(store: Store, markers: list[Marker]) -> None:
    found = known_markers(store.path, InstantTime(INSTANT))
    assert found is not None
    found.plan(markers)


def test_planned_markers_are_one_file_as_of_the_timeline_server(kept: Store) -> None:
    plan(kept, MARKERS)
    assert kept.asked == ["MARKERS.type", "MARKERS0"], "the type first: without it Hudi reads no other file"
    assert kept.storage.read(f"{kept.folder}/MARKERS.type") == b"TIMELINE_SERVER_BASED"
    lines = f"{FILES[0]}.marker.MERGE\n{FILES[1]}.marker.CREATE\n"
    assert kept.storage.read(f"{kept.folder}/MARKERS0").decode() == lines
    kept.asked.clear()
    assert [kept.create(marker) for marker in MARKERS] == [True, True]
    assert kept.read() == {*MARKERS}
    assert kept.asked == []


def test_a_name_that_is_made_up_later_has_a_file_of_its_own(kept: Store) -> None:
    plan(kept, MARKERS)
    kept.create(LATER)
    assert kept.storage.read(f"{kept.folder}/MARKERS1").decode() == f"{LATER.file}.marker.CREATE\n"
    assert kept.read() == {*MARKERS, LATER}
    remove_marker(kept.storage, kept.path, InstantTime(INSTANT), LATER)
    assert not kept.storage.exists(f"{kept.folder}/MARKERS1")
    assert kept.read() == {*MARKERS}


def test_one_file_has_a_direct_marker(kept: Store) -> None:
    plan(kept, MARKERS[:1])
    kept.create(MARKERS[0])
    assert kept.asked == [f"{FILES[0]}.marker.MERGE"]
    assert kept.token(FILES[0]) is None


@pytest.mark.parametrize("partition", [" a", "a\u2028"])
def test_partitions_that_are_no_line_have_direct_markers(kept: Store, partition: str) -> None:
    odd = Marker(f"{partition}/x-0_0-0-0_{INSTANT}.parquet", MarkerType.CREATE)
    plan(kept, [MARKERS[0], odd])
    for marker in (MARKERS[0], odd):
        kept.create(marker)
    assert kept.asked == [MARKERS[0].name, odd.name]


def test_a_planned_token_is_given_once(kept: Store) -> None:
    """The second file of a file group has another name."""
    assert kept.token(FILES[0]) is None
    plan(kept, MARKERS)
    assert [kept.token(FILES[0]), kept.token(FILES[0]), kept.token(FILES[1])] == ["0-0-0", None, "1-0-0"]


def test_other_processes_read_what_one_keeps(store: Store) -> None:
    with keep_markers(store.table, InstantTime(INSTANT), 60_000, time.monotonic()):
        plan(store, MARKERS)
        store.create(LATER)
    assert known_markers(store.path, InstantTime(INSTANT)) is None
    assert store.read() == {*MARKERS, LATER}
    delete_markers(store.table, InstantTime(INSTANT))
    assert not store.storage.exists(store.folder)


@pytest.mark.parametrize("late", [False, True])
def test_no_kept_marker_once_the_write_is_over(store: Store, late: bool) -> None:
    """It is looked at again when a heartbeat may have been counted as dead since."""
    store.storage.delete(heartbeat_path(store.path, INSTANT))
    announced = time.monotonic() - 31
    with keep_markers(store.table, InstantTime(INSTANT), 60_000, time.monotonic() if late else announced):
        if late:
            plan(store, MARKERS)
            kept = known_markers(store.path, InstantTime(INSTANT))
            assert kept is not None
            kept._looked -= 31
            with pytest.raises(Fenced, match=f"write {INSTANT} is over"):
                store.create(MARKERS[1])
        else:
            with pytest.raises(Fenced, match=f"write {INSTANT} is over"):
                plan(store, MARKERS)
            assert not store.storage.exists(store.folder)


def test_a_rollback_marks_beside_known_markers(kept: Store) -> None:
    """By a direct marker of its own instant."""
    at = InstantTime("20260101000000001")
    place_marker(kept.storage, kept.path, at, Marker(FILES[0], MarkerType.APPEND))
    assert read_markers(kept.table, at) == [Marker(FILES[0], MarkerType.APPEND)]


OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
}


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_killed_write_is_rolled_back_by_its_marker_files(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, version: int, kind: str
) -> None:
    path = f"memory://markers/{request.node.name.replace('[', '/').rstrip(']')}"
    options = {
        **OPTIONS,
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.table.type": kind,
    }
    storage = storage_for(path)

    def write(ids: range, ts: int) -> None:
        rows = [{"id": str(number), "part": f"p{number % 3}", "ts": ts} for number in ids]
        hoodie.write_table(pa.Table.from_pylist(rows), path, options=options)

    write(range(6), 1)
    before = files(storage, path)
    ask, dead = Client.ask, list[str]()

    def dying(client: Client, path: str, done: str, *given: object, **named: object) -> object:
        completes = done == "written" and path.endswith("commit") and "/metadata/" not in path
        if dead or completes:
            dead.append(path)
            raise KeyboardInterrupt
        return ask(client, path, done, *given, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Client, "ask", dying)
        with pytest.raises(KeyboardInterrupt):
            write(range(9), 2)
    left = {item.name for item in storage.tree(f"{path}/.hoodie/.temp")}
    assert {"MARKERS.type", "MARKERS0"} <= left
    assert files(storage, path) > before
    write(range(6, 7), 3)
    after = {file for file in files(storage, path) if "/p0/" not in file}
    assert after == {file for file in before if "/p0/" not in file}
    assert not storage.tree(f"{path}/.hoodie/.temp")
    found = hoodie.read_table(path).select(["id", "ts"]).to_pylist()
    expected = [{"id": str(number), "ts": 3 if number == 6 else 1} for number in range(7)]
    assert sorted(found, key=lambda row: row["id"]) == expected


def files(storage: Storage, path: str) -> set[str]:
    """The data files of the table."""
    every = {item.path for item in storage.tree(path)}
    return {file for file in every if "/.hoodie" not in file}
