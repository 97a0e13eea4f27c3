"""Non-blocking writers (NON_BLOCKING_CONCURRENCY_CONTROL) on version 9: several at once, none of which
loses.
"""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import CommitConflict, ConfigError
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from hoodie.timeline.time import REQUESTED
from tests.support.later_tables import new_tables_of
from tests.support.metadata import disagreements, misled
from tests.support.tiers import full_but

TABLE = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
MODE = "hoodie.write.concurrency.mode"
OPTIONS = {
    **TABLE,
    MODE: "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "filesystem",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "10",
}
GOLDEN = ("nbcc_out_of_order", "nbcc_compaction_between", "nbcc_pending_compaction_between")
#: their keys and columns are their own
AS_MADE = {name: text for name, text in OPTIONS.items() if ".datasource.write." not in name}
DUE = {**OPTIONS, "hoodie.compact.inline.max.delta.commits": "1"}
Row = dict[str, Any]
Rows = dict[str, Row]


@pytest.fixture(autouse=True)
def _version() -> Iterator[None]:
    with new_tables_of(9):
        yield


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def rows(value: int, *keys: str, ts: int = 1) -> list[Row]:
    return [{"id": key, "p": key[0], "ts": ts, "v": value} for key in keys]


def write(path: str, given: list[Row], operation: str = "upsert", **more: Any) -> hoodie.WriteResult:
    options, table = more.pop("options", OPTIONS), pa.Table.from_pylist(given, more.pop("schema", None))
    return hoodie.write_table(table, path, operation=operation, options=options, **more)


def by_key(found: pa.Table) -> Rows:
    return {row["id"]: row for row in found.to_pylist()}


def values(path: str, **query: Any) -> dict[str, int]:
    found = hoodie.read_table(path, **query)
    assert found.num_rows == len(set(found.column("id").to_pylist()))
    return dict(zip(found.column("id").to_pylist(), found.column("v").to_pylist(), strict=True))


class Writer:
    """A write that stops when it has its instant, and, with its files written, before its commit."""

    def __init__(self, path: str, given: list[Row], operation: str = "upsert", **more: Any) -> None:
        self._act: Callable[[], Any] = lambda: write(path, given, operation, progress=self._progress, **more)
        self._reached, self._go = threading.Semaphore(0), threading.Semaphore(0)
        self.answer: Any = None
        self._thread = threading.Thread(target=self._run)

    def begin(self) -> None:
        self._thread.start()
        assert self._reached.acquire(timeout=60)
        assert self.answer is None, self.answer

    def end(self) -> Any:
        self._go.release()
        self._thread.join(60)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def _run(self) -> None:
        try:
            self.answer = self._act()
        except Exception as error:  # noqa: BLE001  raised by `end`
            self.answer = error
        self._reached.release()

    def _progress(self, stage: str, text: str) -> None:
        if stage == "commit":
            self._reached.release()
            assert self._go.acquire(timeout=60)


def merged(stored: Rows, writes: list[tuple[str, list[Row]]]) -> Rows:
    """What is stored, and writes in the order in which they began: the greatest `ts` wins, of equal ones the
    last.
    """
    found = dict(stored)
    for operation, given in writes:
        for row in given:
            known = found.get(row["id"])
            if operation == "delete":
                found.pop(row["id"], None)
            elif known is None or row["ts"] >= known["ts"]:
                found[row["id"]] = row
    return found


def shown(found: Rows) -> dict[str, int]:
    return {key: row["v"] for key, row in found.items()}


#: what three writers at once write, in the order in which they begin: the same keys and new ones
WRITES: list[tuple[str, list[Row]]] = [
    ("upsert", rows(1, "a1", "a2", "b1", ts=5) + rows(1, "c1")),
    ("upsert", rows(2, "a1", "b1", "c1", ts=5) + rows(2, "c2", "a3")),
    ("delete", rows(0, "a2", "c1", "a3")),
]
SERVICES = ("none", "planned", "run")


def compact(path: str, mode: str) -> Any:
    return hoodie.compact_table(path, mode=mode, options=DUE)


@pytest.mark.parametrize("service", full_but({"run"}, SERVICES))
@pytest.mark.parametrize(
    "order", full_but({"012", "210"}, ["".join(order) for order in itertools.permutations("012")])
)
def test_rows_are_the_same_in_whatever_order_writers_complete(path: str, order: str, service: str) -> None:
    """A compaction is planned between the completions, or carried out as well: rows that complete later are
    in its slice. What is compacted counts as older than all of these then, as in Apache Hudi.
    """
    before = ("upsert", rows(0, "a1", "a2", "a3", "b1", "b2", ts=2))
    write(path, before[1])
    writers = [Writer(path, given, operation) for operation, given in WRITES]
    for writer in writers:
        writer.begin()
    stored: Rows = {}
    done, compacted = [before], list[tuple[str, list[Row]]]()
    for number in map(int, order):
        writers[number].end()
        done = [before, *(item for item in WRITES if item in done or item is WRITES[number])]
        left = [item for item in done if item not in compacted]
        expected = shown(merged(stored, left))
        assert values(path) == expected
        if len(done) == 2 and service != "none":
            assert compact(path, "run" if service == "run" else "schedule").scheduled
            assert values(path) == expected
            in_plan = done
            if service == "run":
                stored, compacted = merged({}, done), done
    timeline = Timeline.load(path)
    times = [timeline.completion_time(item) for item in timeline.commits()]
    assert len(set(times)) == len(times)
    instants = sorted((item.time for item in timeline.filter([Action.DELTACOMMIT])), key=REQUESTED.key)
    assert len(instants) == 1 + len(WRITES)
    assert disagreements(path) == []
    if service == "planned":
        assert compact(path, "execute").compacted
        expected = shown(merged(merged({}, in_plan), [item for item in done if item not in in_plan]))
        assert values(path) == expected
    assert compact(path, "run").status == "compacted"
    assert values(path) == values(path, query="read_optimized") == expected
    assert disagreements(path) == []
    assert write(path, rows(7, "a1", ts=9)).rolled_back == []
    assert values(path) == {**expected, "a1": 7}


def test_two_first_writers_share_the_file_groups_of_new_buckets(path: str) -> None:
    write(path, rows(0, "z1"))
    one, other = Writer(path, rows(1, "a1", "a2", "a3")), Writer(path, rows(2, "a1", "a2", "a4"))
    one.begin()
    other.begin()
    other.end()
    one.end()
    assert values(path) == {"z1": 0, "a1": 2, "a2": 2, "a3": 1, "a4": 2}
    ids = {group["file_id"] for group in hoodie.file_groups(path) if group["partition"] == "a"}
    assert ids <= {f"0000000{bucket}-0000-0000-0000-000000000000-0" for bucket in range(2)}


REPLACING: dict[str, Callable[[str], Any]] = {
    "overwrite": lambda path: write(path, rows(9, "a1", ts=9), "insert_overwrite"),
    "bulk insert": lambda path: write(path, rows(9, "n1", "n2", "n3", ts=9), "bulk_insert"),
    "delete of partitions": lambda path: hoodie.delete_partitions(path, "a", options=OPTIONS),
}


@pytest.mark.parametrize("name", REPLACING)
def test_what_writes_base_files_or_replaces_them_is_a_conflict(path: str, name: str) -> None:
    """The writer of logs loses to it, as its rows would not be seen; and so the other way round."""
    write(path, rows(0, "a1", "a2", "a3"))
    writer = Writer(path, rows(1, "a1", "a2", "n1", "n2"))
    writer.begin()
    REPLACING[name](path)
    there = values(path)
    with pytest.raises(CommitConflict):
        writer.end()
    assert values(path) == there
    write(path, rows(1, "a1", "a2", ts=10))
    assert {key: values(path)[key] for key in ("a1", "a2")} == {"a1": 1, "a2": 1}


def test_a_planned_compaction_that_is_cancelled_takes_no_rows_along(path: str) -> None:
    write(path, rows(0, "a1", "a2"))
    write(path, rows(1, "a1"))
    writer = Writer(path, rows(2, "a2"))
    writer.begin()
    planned = compact(path, "schedule").scheduled
    writer.end()
    hoodie.cancel_plan(path, planned)
    assert values(path) == {"a1": 1, "a2": 2}
    assert compact(path, "run").status == "compacted"
    assert values(path) == {"a1": 1, "a2": 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hoodie.index.type": "SIMPLE"}, "needs hoodie.index.type=BUCKET, not SIMPLE"),
        (
            {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"},
            "needs .*MERGE_ON_READ, and the table is COPY",
        ),
        ({"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}, "CONSISTENT_HASHING"),
        ({"hoodie.table.cdc.enabled": "true"}, "needs a table without hoodie.table.cdc.enabled"),
        ({"hoodie.write.lock.provider": ""}, "needs a lock that all writers of the table take"),
        ({"hoodie.write.concurrency.early.conflict.detection.enable": "true"}, "leave one of the two out"),
    ],
)
def test_what_can_not_be_written_without_blocking(path: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        write(path, rows(1, "a1"), options={**OPTIONS, **options})


@pytest.mark.parametrize("name", full_but({"nbcc_out_of_order"}, GOLDEN))
def test_tables_of_hudi_go_on(later_more: Path, tmp_path: Path, name: str) -> None:
    """Two writers complete in the other order, on tables that such writers of Apache Hudi 1.2.0 made."""
    path = str(shutil.copytree(later_more / f"more/{name}/table", tmp_path / "t"))
    found = hoodie.read_table(path, meta=False)
    before, ids = by_key(found), {group["file_id"] for group in hoodie.file_groups(path)}
    schema, newest = found.schema, max(row["ts"] for row in before.values()) + 1
    keys = sorted(before)
    one, other = (
        [{**before[key], "ts": newest, "name": text} for key in chosen]
        for text, chosen in (("one", keys[:6]), ("other", keys[3:9]))
    )
    writers = [Writer(path, given, schema=schema, options=AS_MADE) for given in (one, other)]
    for writer in writers:
        writer.begin()
    for writer in reversed(writers):
        writer.end()
    expected = {**before, **{row["id"]: row for row in (*one, *other)}}
    assert by_key(hoodie.read_table(path, meta=False)) == expected
    due = {**AS_MADE, "hoodie.compact.inline.max.delta.commits": "1"}
    assert hoodie.compact_table(path, options=due).status == "compacted"
    assert by_key(hoodie.read_table(path, meta=False)) == expected
    assert {group["file_id"] for group in hoodie.file_groups(path)} == ids
    assert misled(path) == []
