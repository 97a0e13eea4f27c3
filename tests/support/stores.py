"""The timeline's files of local tables, which tests make and delete by hand."""

from __future__ import annotations

from pathlib import Path

from hoodie.storage.local import LocalStorage
from hoodie.timeline.layout import Layout
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.layouts.two import TWO
from hoodie.timeline.store import TimelineStore


def store_at(path: str | Path) -> TimelineStore:
    """Of the layout that the table has."""
    layout: Layout = TWO if Path(path, TWO.folder).is_dir() else ONE
    return TimelineStore(LocalStorage(), str(path), layout)
