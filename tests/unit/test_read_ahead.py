"""Commits of a storage that is asked over a network: several are read at once."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hoodie
from hoodie.storage import Storage, storage_for
from hoodie.storage.objects import MemoryStorage
from hoodie.timeline.active import Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator


class Reads:
    """Of completed commits: how many there were, and how many were under way at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most = self.count = self._now = 0
        self._changed = threading.Condition()
        read = MemoryStorage.read

        def counted(storage: MemoryStorage, path: str) -> bytes:
            if not path.endswith(".commit"):
                return read(storage, path)
            with self._one():
                return read(storage, path)

        monkeypatch.setattr(MemoryStorage, "read", counted)
        monkeypatch.setattr(MemoryStorage, "remote", True)

    @contextmanager
    def _one(self) -> Iterator[None]:
        """The first ones wait for a second one, a while."""
        with self._changed:
            self._now += 1
            self.count += 1
            self.most = max(self.most, self._now)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most > 1, timeout=1)
        yield
        with self._changed:
            self._now -= 1


def made(path: str) -> tuple[Storage, Timeline]:
    """A table of six commits."""
    for number in range(6):
        rows = pa.table({"id": [f"{number}"], "ts": [number], "part": [f"p{number % 2}"]})
        hoodie.Table(path).upsert(rows, keys="id", ordering="ts", partition_by="part")
    storage = storage_for(path)
    return storage, Timeline.load(path, storage)


def test_a_query_and_an_upsert_read_commits_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "memory://ahead/t"
    made(path)
    reads = Reads(monkeypatch)
    assert hoodie.Table(path).read().to_arrow().num_rows == 6
    assert reads.most > 1
    assert reads.count == 6  # each once
    reads.most = 0
    rows = pa.table({"id": ["1"], "ts": [9], "part": ["p1"]})
    assert hoodie.Table(path).upsert(rows).num_updates == 1
    assert reads.most > 1


def test_commits_come_in_the_order_asked_for_without_those_that_are_gone() -> None:
    storage, timeline = made("memory://gone/t")
    newest_first = timeline.commits()[::-1]
    storage.delete(timeline.path(newest_first[2]))
    expected = [item.time for number, item in enumerate(newest_first) if number != 2]
    for remote in (False, True):
        fresh = Timeline.load("memory://gone/t", storage)
        storage.remote = remote
        found = list(fresh.read_each(newest_first, storage))
        assert [instant.time for instant, _ in found] == expected
        assert all(data == storage.read(fresh.path(instant)) for instant, data in found)
