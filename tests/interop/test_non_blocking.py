"""Non-blocking writers of this package and of Apache Hudi 1.2.0 on one table of version 9."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from tests.contract.test_non_blocking import (
    TABLE,
    WRITES,
    Writer,
    compact,
    merged,
    rows,
    shown,
    values,
    write,
)
from tests.support.hudi_client import HudiServer
from tests.support.later_tables import new_tables_of
from tests.support.metadata import disagreements

pytestmark = [pytest.mark.interop, pytest.mark.full]

LOCKS = "org.apache.hudi.client.transaction.lock"
HUDI = {
    **{name: text for name, text in TABLE.items() if "precombine" not in name},
    "hoodie.table.name": "t",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.write.table.version": "9",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": f"{LOCKS}.FileSystemBasedLockProvider",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.compact.inline": "false",
    "hoodie.metadata.index.column.stats.enable": "false",
}


@pytest.fixture(autouse=True)
def _version() -> Iterator[None]:
    with new_tables_of(9):
        yield


def theirs(server: HudiServer, path: str) -> dict[str, int]:
    return {row["id"]: row["v"] for row in server.read(path).to_pylist()}


def check_seen(server: HudiServer, path: str) -> None:
    """Of a new file group Hudi hides all while the writer that began it first has not completed."""
    seen, there = theirs(server, path), values(path)
    assert {key: value for key, value in there.items() if key in seen} == seen
    assert {key[0] for key in there.keys() - seen.keys()} <= {"c"}


@pytest.mark.parametrize("order", ["012", "210", "120"])
@pytest.mark.parametrize("service", ["none", "planned", "run"])
def test_hudi_reads_what_writers_left(hudi_12: HudiServer, tmp_path: Path, order: str, service: str) -> None:
    path = str(tmp_path / "t")
    write(path, rows(0, "a1", "a2", "a3", "b1", "b2", ts=2))
    writers = [Writer(path, given, operation) for operation, given in WRITES]
    for writer in writers:
        writer.begin()
    for number in map(int, order):
        writers[number].end()
        check_seen(hudi_12, path)
        if number == int(order[0]) and service != "none":
            compact(path, "run" if service == "run" else "schedule")
            check_seen(hudi_12, path)
    assert theirs(hudi_12, path) == values(path)


def test_writers_of_both(hudi_12: HudiServer, tmp_path: Path) -> None:
    """Ours begins first and is completed last; then Hudi's begins first, and ours is completed before it."""
    path = str(tmp_path / "t")
    before = rows(0, "a1", "a2", "b1", ts=2)
    hudi_12.write(path, pa.Table.from_pylist(before), HUDI, mode="overwrite")
    ours, other = rows(1, "a1", "b1", "c1", ts=5), rows(2, "a1", "c1", "c2", ts=5)
    writer = Writer(path, ours)
    writer.begin()
    hudi_12.write(path, pa.Table.from_pylist(other), HUDI)
    writer.end()
    done = [("upsert", before), ("upsert", ours), ("upsert", other)]
    assert theirs(hudi_12, path) == values(path) == shown(merged({}, done))
    assert disagreements(path) == []
    late, early = rows(3, "a2", "c1", "d1", ts=6), rows(4, "a2", "d1", ts=6)
    with hudi_12.writing(path, pa.Table.from_pylist(late), HUDI, pause=2000):
        while not Timeline.load(path).filter([Action.DELTACOMMIT], completed=False):
            pass
        write(path, early)
    done += [("upsert", late), ("upsert", early)]
    assert theirs(hudi_12, path) == values(path) == shown(merged({}, done))
    assert compact(path, "run").status == "compacted"
    assert theirs(hudi_12, path) == values(path) == shown(merged({}, done))
    ids = {group["file_id"] for group in hoodie.file_groups(path) if group["partition"] == "c"}
    assert ids <= {f"0000000{bucket}-0000-0000-0000-000000000000-0" for bucket in range(2)}
