"""Log compaction of tables that Apache Hudi 1.2.0 made: rows stay what Hudi says they are."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.storage.local import LocalStorage
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata
from tests.support.rows import assert_same_rows
from tests.support.tiers import full_but

STORAGE = LocalStorage()
DUE = {"hoodie.log.compaction.blocks.threshold": "1"}
COMPACT = {"hoodie.compact.inline.max.delta.commits": "1"}
#: of each table the file slices that have logs and are in no pending plan
TABLES = {
    "1.2.0-v8/mor_bucket": 12,
    "1.2.0-v8/mor_pending_compaction": 0,
    "1.2.0-v8/mor_rollback": 3,
    "1.2.0-v8/mor_schema_evo": 3,
    "1.2.0-v8/mor_types_flat": 3,
    "1.2.0-v8/sql_mor_merge": 2,
    "1.2.0-v9/idx_rli_mor": 3,
    "1.2.0-v9/mdt_full_mor": 3,
    "1.2.0-v9/mor_cdc": 3,
    "1.2.0-v9/mor_late_event": 3,
    "1.2.0-v9/mor_late_overwrite": 3,
    "1.2.0-v9/mor_logcompaction": 3,
    "1.2.0-v9/mor_logs": 3,
    "1.2.0-v9/mor_partial_payload": 3,
    "1.2.0-v9/mor_rollback_failed_then_commit": 3,
    "1.2.0-v9/sql_mor_merge": 2,
    "more/delete_marker": 3,
    "more/h102_v8_mor": 3,
    "more/multi_ordering_mor": 3,
    "more/nbcc_out_of_order": 6,
    "more/payload_event_time": 3,
    "more/payload_postgres_debezium": 3,
    "more/sql_partial_updates2": 2,
    "more/up_6to9_mor": 3,
}
FAST = {"1.2.0-v9/mor_logcompaction", "1.2.0-v9/sql_mor_merge", "more/nbcc_out_of_order"}


@pytest.mark.parametrize("name", full_but(FAST, TABLES))
def test_rows_are_the_same(later_tables: Path, later_more: Path, tmp_path: Path, name: str) -> None:
    """Once more where it was done before, and beside what a compaction makes of the logs themselves."""
    source = (later_more if name.startswith("more/") else later_tables) / name / "table"
    path, twin = (str(shutil.copytree(source, tmp_path / each)) for each in ("t", "twin"))
    before = hoodie.read_table(path)
    for _ in range(2):
        result = hoodie.log_compact_table(path, options=DUE)
        assert result.num_slices == TABLES[name], result.reason
        assert_same_rows(hoodie.read_table(path), before)
    for table in (path, twin):
        hoodie.compact_table(table, options=COMPACT)
    data = [field for field in before.column_names if field != "_hoodie_file_name"]
    assert_same_rows(hoodie.read_table(path, columns=data), hoodie.read_table(twin, columns=data))


def test_a_pending_plan_of_hudi_is_carried_out(later_tables: Path, tmp_path: Path) -> None:
    path = shutil.copytree(later_tables / "1.2.0-v9/mor_logcompaction/table", tmp_path / "t")
    shutil.rmtree(path / ".hoodie/metadata")
    properties = path / ".hoodie/hoodie.properties"
    lines = properties.read_text().splitlines(keepends=True)
    properties.write_text("".join(line for line in lines if "metadata.partitions" not in line))
    timeline = Timeline.load(str(path), STORAGE)
    last, done = (timeline.commits()[number] for number in (-1, -2))
    theirs = timeline.commit(done, STORAGE)
    before = hoodie.read_table(str(path), as_of=done.time)
    for instant, states in ((last, ("requested", "inflight")), (done, ())):
        timeline.store(STORAGE).delete_states([instant])
        for state in states:
            (path / f".hoodie/timeline/{instant.time}.deltacommit.{state}").unlink()
    (path / f".hoodie/timeline/{done.time}.logcompaction.inflight").unlink()
    for file in [file for time in (last.time, done.time) for file in path.rglob(f"*_{time}*")]:
        file.unlink()
    assert hoodie.log_compact_table(str(path), mode="execute").compacted == [done.time]
    assert_same_rows(hoodie.read_table(str(path)), before)
    timeline = Timeline.load(str(path), STORAGE)
    assert facts(timeline.commit(timeline.commits()[-1], STORAGE)) == facts(theirs)


def facts(metadata: CommitMetadata) -> Any:
    stats = [
        (
            partition,
            stat.file_id,
            stat.prev_commit,
            stat.log_version,
            stat.log_offset,
            stat.base_file,
            stat.num_writes,
            stat.num_update_writes,
            stat.num_inserts,
            stat.num_deletes,
            stat.total_log_files_compacted,
            stat.total_log_blocks,
            stat.total_log_records,
            stat.total_log_size_compacted,
        )
        for partition, group in sorted(metadata.partition_to_write_stats.items())
        for stat in group
    ]
    return metadata.operation_type, metadata.compacted, sorted(metadata.extra_metadata), stats
