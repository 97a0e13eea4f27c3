"""Markers: a data file is announced before it is made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hoodie.errors import Fenced
from hoodie.storage.local import LocalStorage
from hoodie.table.heartbeat import heartbeat_path
from hoodie.table.markers import (
    Marker,
    MarkerType,
    create_marker,
    delete_markers,
    marker_instants,
    read_markers,
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
