"""Log compactions beside Apache Hudi 1.2.0: it reads and compacts what we made; each runs plans of both."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import hoodie
from hoodie.storage.local import LocalStorage
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Kind
from tests.interop.test_later_turns import OPTIONS, RULES, batch
from tests.support.hudi_client import HudiServer
from tests.support.metadata import disagreements
from tests.support.rows import difference

pytestmark = [pytest.mark.interop, pytest.mark.full]

DUE = {"hoodie.log.compaction.blocks.threshold": "1"}
COMPACT = {"hoodie.compact.inline.max.delta.commits": "1"}
BY_HUDI = {"hoodie.compact.inline": "true", **COMPACT}


def made_by(rule: str, version: int) -> dict[str, str]:
    return {
        **OPTIONS,
        **RULES[rule],
        "hoodie.table.name": "t",
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.compact.inline": "false",
    }


def last_kind(path: str) -> Kind:
    timeline = Timeline.load(path, LocalStorage())
    return timeline.kind(timeline.commits()[-1])


@pytest.mark.parametrize(
    ("rule", "version"), [*((rule, 9) for rule in RULES), ("event time", 8), ("commit time", 8)]
)
def test_hudi_reads_writes_and_compacts_on(
    hudi_12: HudiServer, tmp_path: Path, rule: str, version: int
) -> None:
    """Beside a twin in which Hudi compacts logs: both have the same rows, whoever reads them."""
    chance, options = random.Random(f"{rule} {version}"), made_by(rule, version)
    ours, theirs, least = str(tmp_path / "ours"), str(tmp_path / "theirs"), dict[int, int]()
    compacted = 0
    for number in range(6):
        rows, operation = batch(chance, number, least), "upsert"
        if number in (2, 4):
            rows, operation = rows.slice(0, 2), "delete"
            least.update({int(key or 0): 10 * number for key in rows.column("id").to_pylist()})
        for path in (ours, theirs):
            hudi_12.write(path, rows, options, operation=operation, mode="append" if number else "overwrite")
        if number in (3, 5):
            before = hudi_12.read(ours)
            done = hoodie.log_compact_table(ours, options=DUE)
            compacted += len(done.compacted)
            assert last_kind(ours) is Kind.LOG_COMPACTION, done.reason
            assert not difference(hudi_12.read(ours), before)
            assert disagreements(ours) == []
            planned = hudi_12.log_compaction(theirs, "schedule", {**options, **DUE})
            assert planned
            hudi_12.log_compaction(theirs, "run", {**options, **DUE}, planned)
        expected = hudi_12.read(theirs)
        for found in (hoodie.read_table(theirs), hoodie.read_table(ours), hudi_12.read(ours)):
            assert not difference(found, expected), number
    assert compacted == 2
    last = batch(chance, 6, least)
    for path in (ours, theirs):
        hudi_12.write(path, last, {**options, **BY_HUDI})
    expected = hudi_12.read(theirs)
    for found in (hoodie.read_table(ours), hudi_12.read(ours), hudi_12.read_optimized(ours)):
        assert not difference(found, expected)


@pytest.mark.parametrize("rule", ["event time", "commit time"])
def test_each_carries_out_the_plan_of_the_other(hudi_12: HudiServer, tmp_path: Path, rule: str) -> None:
    chance, options = random.Random(rule), made_by(rule, 9)
    path, other = str(tmp_path / "t"), str(tmp_path / "other")
    for number in range(4):
        rows = batch(chance, number, {})
        hudi_12.write(path, rows, options, operation="upsert", mode="append" if number else "overwrite")
    shutil.copytree(path, other)
    expected = hudi_12.read(path)
    planned = hudi_12.log_compaction(path, "schedule", {**options, **DUE})
    assert hoodie.log_compact_table(path, mode="execute").compacted == [planned]
    ours = hoodie.log_compact_table(other, mode="schedule", options=DUE).scheduled
    hudi_12.log_compaction(other, "run", {**options, **DUE}, ours)
    for table in (path, other):
        assert last_kind(table) is Kind.LOG_COMPACTION
        assert not difference(hudi_12.read(table), expected)
        assert not difference(hoodie.read_table(table), expected)
    if rule == "event time":  # by commit time the two count the records of some logs otherwise
        facts = [plain(table) for table in (path, other)]
        assert facts[0] == facts[1]


def plain(path: str) -> list[tuple[object, ...]]:
    """What the commit of a log compaction says of its files, but for names, times and bytes."""
    timeline = Timeline.load(path, LocalStorage())
    metadata = timeline.commit(timeline.commits()[-1], LocalStorage())
    head = (metadata.operation_type, metadata.compacted, sorted(metadata.extra_metadata))
    return [
        head,
        *sorted(
            (
                stat.partition_path,
                stat.file_id,
                stat.prev_commit,
                stat.log_version,
                stat.num_writes,
                stat.num_update_writes,
                stat.num_deletes,
                stat.total_log_files_compacted,
                stat.total_log_blocks,
                stat.total_log_records,
                stat.total_log_size_compacted,
                stat.total_updated_records_compacted,
            )
            for stat in metadata.write_stats
        ),
    ]
