"""Queries of tables of versions 8 and 9 that Apache Hudi 1.2.0 and 1.0.2 wrote: the rows that Hudi answered.

Where Hudi's answer is not right, a test says why.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import HoodieError, TableError
from hoodie.spark.options import StreamReading
from hoodie.spark.stream import batch, latest
from hoodie.timeline.time import NO_TIME, InstantTime
from tests.support.later import TABLES
from tests.support.rows import assert_same_rows
from tests.support.tiers import full_but

#: Hudi answers this column from the partition path, which does not hold the value; the files do
FROM_PATH = {"cow_tskeygen": "ev"}
#: incremental queries of Hudi look at no path: '' for the partition of nulls
FROM_FILES = {"cow_hive_urlenc": "region", "cow_urlenc_nohive": "region"}
#: Hudi answers from the newest state where files of the state at the end of the span were cleaned: rows that
#: were written again since are not in its answers. Their files are there, for us and for hudi-rs
FROM_NEWEST = {
    "all_instants",
    "all_instants9",
    "cow_archived",
    "mor_archived",
    "mor_clean_commits",
}
#: as far as a span begins with a commit, Hudi gives late rows of logs that the table does not have
LATE = {"mor_late_event", "multi_ordering_mor", "payload_event_time"}
#: from there on Hudi gives what the logs say alone, where the table has the values of the base file, too
UNFILLED = {"mor_partial_payload", "payload_nondefaults", "payload_postgres_debezium"}
#: 1.0.2 includes the commit that was completed at `begin`
INCLUDES_BEGIN = {"h102_v8_mor", "h102_v8_sql_merge"}
#: Hudi's answer lacks rows of a writer that was completed after a compaction was planned; hudi-rs has them
LACKS_ROWS = {"nbcc_pending_compaction_between"}
#: rules of merging that are refused -> what the refusal says
REFUSED = {
    "payload_custom": "ReverseOrderHoodieRecordPayload",
}
#: a table of each feature; the others are of the full tier
FEATURES = {
    "1.2.0-v8/mor_compacted",
    "1.2.0-v9/cow_delete_partition",
    "1.2.0-v9/mor_clustered",
    "1.2.0-v9/mor_late_overwrite",
    "1.2.0-v9/mor_logcompaction",
    "1.2.0-v9/mor_partial_payload",
    "1.2.0-v9/mor_pending_compaction",
    "1.2.0-v9/mor_rollback_failed",
    "1.2.0-v9/mor_types_flat",
    "more/delete_marker",
    "more/h102_v8_mor",
    "more/multi_ordering_mor",
    "more/nbcc_compaction_between",
    "more/payload_custom",
    "more/payload_postgres_debezium",
    "more/sql_partial_updates2",
    "more/up_6to9_mor",
}


def asked(file: str) -> dict[str, Any] | None:
    """The query that Hudi answered with this file; None for change data."""
    kind, *times = file.split("_")
    queries: dict[str, dict[str, Any]] = {
        "snapshot": {},
        "ro": {"query": "read_optimized"},
        "asof": {"as_of": times[0] if times else ""},
        "inc": {"query": "incremental", "begin": times[0], "end": times[-1]} if times else {},
    }
    return queries.get(kind)


@pytest.mark.parametrize("name", full_but(FEATURES, TABLES))
def test_rows_are_those_of_hudi(later_tables: Path, later_more: Path, name: str) -> None:
    folder = (later_more if name.startswith("more") else later_tables) / name
    table, short = str(folder / "table"), name.partition("/")[2]
    answers = sorted((folder / "expected").glob("*.parquet"))
    assert answers
    for file in answers:
        query = asked(file.stem)
        if query is None or (short in REFUSED and file.stem != "snapshot"):
            continue
        if short in REFUSED:
            with pytest.raises(HoodieError, match=REFUSED[short]):
                hoodie.read_table(table)
            continue
        got, expected = hoodie.read_table(table, **query), pq.read_table(file)
        if "begin" in query and not agree(short, query, got, expected):
            continue
        ignored = FROM_PATH.get(short) or (FROM_FILES.get(short) if "begin" in query else None)
        assert_same_rows(got, expected, ignore=[ignored] if ignored else [], what=file.stem)


def agree(name: str, query: dict[str, Any], got: pa.Table, expected: pa.Table) -> bool:
    """Is Hudi's answer to an incremental query the one to be given; what is known of it otherwise."""
    begun = query["begin"] != "000"
    if name in FROM_NEWEST and begun and got.num_rows > expected.num_rows:
        assert ids(expected) < ids(got)
        return False
    if name in LATE | INCLUDES_BEGIN and begun:
        assert ids(got) < ids(expected)
        return False
    if name in UNFILLED and begun:
        assert ids(got) == ids(expected)
        return False
    if name in LACKS_ROWS and begun and got.num_rows > expected.num_rows:
        assert got.num_rows == 15
        return False
    return True


def ids(rows: pa.Table) -> set[Any]:
    return set(rows["id"].to_pylist())


def test_the_past_of_groups_without_base_files_is_answered_after_a_clean(
    later_more: Path, tmp_path: Path
) -> None:
    shutil.copytree(later_more / "more/nbcc_out_of_order/table", tmp_path / "t")
    path = str(tmp_path / "t")
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    rows = hoodie.read_table(path, meta=False, where="region = 'eu'")
    hoodie.write_table(rows, path, operation="insert_overwrite", options=options)
    kept = hoodie.write_table(rows, path, options=options)
    expected = hoodie.read_table(path)
    assert hoodie.clean_table(path, options={"hoodie.cleaner.commits.retained": 1}).num_files > 0
    hoodie.write_table(rows.slice(0, 1), path, options=options)
    assert any(group["slices"][0]["name"] is None for group in hoodie.file_groups(path))
    assert_same_rows(hoodie.read_table(path, as_of=kept.instant), expected)


def test_a_stream_gives_the_rows_of_a_writer_that_was_overtaken(later_more: Path) -> None:
    """The second of two writers was completed first: a stream that went by the times of requests would not
    come back to the first.
    """
    path = str(later_more / "more/nbcc_out_of_order/table")
    stream = StreamReading.of({"path": path})
    at, ends, rows = NO_TIME, [], dict[str, Any]()
    while (end := latest(stream, at, 1)) != at:
        query = batch(stream, at, end).query
        got = hoodie.read_table(path, begin=query.begin or "earliest", end=query.end)
        assert got.num_rows
        rows.update({row["id"]: row for row in got.to_pylist()})
        at = end
        ends.append(end)
    times = [file.name.partition("_") for file in (Path(path) / ".hoodie/timeline").glob("*_*.deltacommit")]
    assert ends == sorted(completion.partition(".")[0] for _, _, completion in times)
    assert [time for time, _, _ in sorted(times)] != [
        time for time, _, _ in sorted(times, key=lambda item: item[2])
    ]
    assert_same_rows(pa.Table.from_pylist(list(rows.values()), got.schema), hoodie.read_table(path))
    with pytest.raises(TableError, match="rolled back"):
        batch(stream, NO_TIME, InstantTime("20261127064654459"))
