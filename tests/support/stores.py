"""The timeline's files of local tables, which tests make and delete by hand."""

from __future__ import annotations

from pathlib import Path

from hoodie.storage.local import LocalStorage
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.store import TimelineStore


def store_at(path: str | Path) -> TimelineStore:
    return TimelineStore(LocalStorage(), str(path), ONE)
