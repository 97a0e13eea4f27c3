"""On a real HDFS a writer is killed before each change of an upsert, and while it sends each file."""

from __future__ import annotations

import http.client
import os
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pytest

import hoodie
from hoodie.storage import storage_for
from hoodie.timeline.active import Timeline
from hoodie.timeline.tokens import TOKEN_KEY
from tests.support.hdfs.server import Hdfs
from tests.support.processes import forked

pytestmark = [pytest.mark.crash, pytest.mark.full]

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.index.bloom.num_entries": "100",
}
KILLED = 7


@pytest.fixture
def folder(hdfs: Hdfs) -> Iterator[str]:
    with hdfs.new_folder() as folder:
        yield folder


def upsert(path: str, kind: str, count: int, version: int) -> hoodie.WriteResult:
    columns = {
        "id": [str(number) for number in range(count)],
        "region": [("eu", "us")[number % 2] for number in range(count)],
        "ts": [version] * count,
    }
    return hoodie.write_table(
        pa.table(columns),
        path,
        operation="upsert",
        options={**OPTIONS, "hoodie.datasource.write.table.type": kind},
        extra_metadata={TOKEN_KEY: f"dag/task/-1/2026-01-01/2026-01-02/{version}"},
    )


def state(path: str) -> list[tuple[str, int]]:
    found = hoodie.read_table(path, columns=["id", "ts"])
    return sorted(zip(found["id"].to_pylist(), found["ts"].to_pylist(), strict=True))


def contents(path: str) -> dict[str, bytes]:
    storage = storage_for(path)
    return {item.path.removeprefix(path): storage.read(item.path) for item in storage.tree(path)}


class Connections:
    """This process ends before the `at`-th change that it asks HDFS for, or in the middle of it where that is
    a file that is sent (`half`).
    """

    def __init__(self, patch: pytest.MonkeyPatch, at: int | None, *, half: bool = False) -> None:
        self.changes: list[bool] = []
        self._at, self._half = at, half
        self._send, self._put = http.client.HTTPConnection.send, http.client.HTTPConnection.putrequest
        patch.setattr(http.client.HTTPConnection, "putrequest", lambda *args, **kw: self.put(*args, **kw))
        patch.setattr(http.client.HTTPConnection, "send", lambda *args: self.send(*args))

    def put(self, connection: http.client.HTTPConnection, method: str, url: str, **kw: bool) -> None:
        sent = "namenoderpcaddress=" in url
        if method != "GET" and (sent or "op=CREATE" not in url):
            if len(self.changes) == self._at and not (self._half and sent):
                os._exit(KILLED)
            self.changes.append(sent)
        self._put(connection, method, url, **kw)

    def send(self, connection: http.client.HTTPConnection, data: bytes) -> None:
        if self._half and len(self.changes) - 1 == self._at and not bytes(data).startswith(b"PUT "):
            self._send(connection, data[: len(data) // 2])
            os._exit(KILLED)
        self._send(connection, data)


def killed(path: str, kind: str, at: int, half: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        Connections(patch, at, half=half)
        upsert(path, kind, 6, 3)


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_killed_writer(folder: str, kind: str) -> None:
    """Run again, the upsert is there once."""
    path = f"{folder}/whole"
    upsert(path, kind, 10, 1)
    upsert(path, kind, 4, 2)
    before, old = contents(path), state(path)
    with pytest.MonkeyPatch.context() as patch:
        changes = Connections(patch, None).changes
        upsert(path, kind, 6, 3)
    new = state(path)
    cases = [(at, half) for at, sent in enumerate(changes) for half in ((False, True) if sent else (False,))]
    assert len(cases) > 20
    for at, half in cases:
        table = f"{folder}/{at}{half}"
        storage = storage_for(table)
        for name, data in before.items():
            storage.create(f"{table}{name}", data)
        code = forked(partial(killed, table, kind, at, half))
        assert code == KILLED or (half and code == 0)  # an empty file has no middle
        assert state(table) in (old, new)
        upsert(table, kind, 6, 3)
        assert state(table) == new
        timeline = Timeline.load(table, storage)
        assert all(item.completed for item in timeline)
        assert len(timeline.commits()) == 3
        upsert(table, kind, 1, 9)  # where the commit was there, the second attempt did nothing
        left = [item.path for item in storage.tree(table) if item.path.endswith(".hoodie-tmp")]
        left += [item.path for item in storage.tree(f"{table}/.hoodie") if "/.temp/" in item.path]
        assert not left
