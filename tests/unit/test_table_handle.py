"""What an open table computes once a listing of its timeline."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie.table.handle import Table
from hoodie.table.view import TimelineView

OPTIONS = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.metadata.enable": False}


def write(path: str, number: int) -> None:
    hoodie.write_table(pa.table({"id": [f"{number}"], "val": [number]}), path, options=OPTIONS)


def test_the_view_is_computed_once_a_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, computed, of = str(tmp_path / "t"), 0, TimelineView.of

    def count(*arguments: object) -> TimelineView:
        nonlocal computed
        computed += 1
        return of(*arguments)  # type: ignore[arg-type]

    write(path, 1)
    table = Table.open(path)
    monkeypatch.setattr(TimelineView, "of", count)
    first = table.view
    assert table.refresh() is table.timeline
    assert (table.view is first, computed) == (True, 1)
    monkeypatch.undo()
    write(path, 2)
    assert table.view is first, "the timeline has not been listed again"
    table.reopen()
    assert table.view.committed == frozenset(item.time for item in table.timeline.commits()) > first.committed


def test_the_view_of_an_earlier_listing_is_that_listings(tmp_path: Path) -> None:
    """A plan that is made of one listing does not mix it with what came since."""
    path = str(tmp_path / "t")
    write(path, 1)
    table = Table.open(path)
    earlier = table.timeline
    write(path, 2)
    later = table.refresh()
    assert table.view_of(later) is table.view
    assert table.view_of(earlier).committed == {item.time for item in earlier.commits()}
    assert len(table.view.committed) == 2
