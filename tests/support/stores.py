"""The timeline's files of local tables, which tests make and delete by hand."""

from __future__ import annotations

from pathlib import Path

from hoodie.storage.local import LocalStorage
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Instant
from hoodie.timeline.instant_metadata import Metadata
from hoodie.timeline.layout import Layout
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.layouts.two import TWO
from hoodie.timeline.store import TimelineStore
from hoodie.timeline.time import InstantTime


def store_at(path: str | Path) -> TimelineStore:
    """Of the layout that the table has."""
    layout: Layout = TWO if Path(path, TWO.folder).is_dir() else ONE
    return TimelineStore(LocalStorage(), str(path), layout)


def publish(path: str | Path, instant: Instant, metadata: Metadata) -> None:
    """The completed file, in the layout that the table has, of an instant completed after all others."""
    store, last = store_at(path), Timeline.load(str(Path(path).absolute())).last_time
    if store.layout.has_completion_time:
        instant = instant.completed_at(InstantTime(str(max(int(instant.time), int(last or 0)) + 1)))
    store.create(instant, store.content(metadata))


def timeline_at(path: str | Path) -> Path:
    """The folder of the instants."""
    return Path(path, store_at(path).layout.folder)


def instant_file(path: str | Path, instant: str, *endings: str) -> Path:
    """The one that is there: `instant_file(path, time, "clean.requested")`. With both of
    `replacecommit.requested` and `clustering.requested` it is the plan of a clustering in either layout.
    """
    (found,) = (file for ending in endings for file in timeline_at(path).glob(f"{instant}*.{ending}"))
    return found


def after(path: str | Path, instant: str) -> str:
    """`begin` of a query of what was committed later: versions 8 and 9 ask for times of completion."""
    return next(
        str(item.completion or item.time)
        for item in Timeline.load(str(Path(path).absolute())).commits()
        if item.time == instant
    )
