"""Records of the partition `files` where Apache Hudi's own tables don't show them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from hoodie.config.versions import LayoutVersion
from hoodie.errors import TableError
from hoodie.format.hfile_records import cells_of, decode_rows
from hoodie.metadata.merging import recoded
from hoodie.metadata.partitions.column_ranges import ColumnRange
from hoodie.metadata.partitions.column_stats import STATS, TIGHT, FileRanges, stats_records
from hoodie.metadata.partitions.files import FILES, SCHEMA, of_clean, of_commit, of_listing, of_rollback
from hoodie.metadata.record_schema import record_schema, whole_records
from hoodie.metadata.table import Partition
from hoodie.timeline.commit import CommitMetadata, WriteStat
from hoodie.timeline.models.clean import CleanedPartition, CleanMetadata
from hoodie.timeline.models.rollback import InstantInfo, RollbackMetadata, RollbackPartition
from hoodie.timeline.time import InstantTime

Found = dict[str, dict[str, int | None]]
ALL = "__all_partitions__"


def found(records: object) -> Found:
    rows = records.rows  # type: ignore[attr-defined]
    assert rows.schema == SCHEMA
    return {
        row["key"]: {name: None if info["isDeleted"] else info["size"] for name, info in row[FILES]}
        for row in rows.to_pylist()
    }


def stat(path: str | None, size: int, **more: object) -> WriteStat:
    return WriteStat(path=path, file_size_in_bytes=size, **more)  # type: ignore[arg-type]


def test_of_several_sizes_of_a_log_the_greatest_counts() -> None:
    """Storages that append write one log several times in a commit. A task without rows reports no file."""
    stats = (stat("p/.a.log.1", 9), stat("p/.a.log.1", 30), stat("p/.a.log.1", 20), stat(None, 0))
    records = of_commit(CommitMetadata({"p": stats, "q": ()}))
    assert found(records) == {ALL: {"p": 0, "q": 0}, "p": {".a.log.1": 30}, "q": {}}


def test_change_logs_are_files_too() -> None:
    written = stat("a_0_1.parquet", 5, cdc_stats={".a_1.log.1.cdc": 7})
    assert found(of_commit(CommitMetadata({"": (written,)}))) == {
        ALL: {".": 0},
        ".": {"a_0_1.parquet": 5, ".a_1.log.1.cdc": 7},
    }


def test_a_commit_without_files() -> None:
    assert found(of_commit(CommitMetadata())) == {ALL: {}}


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(TableError, match=r"a_0_1.parquet in partition 'p' has 0 bytes"):
        of_commit(CommitMetadata({"p": (stat("p/a_0_1.parquet", 0),)}))


def test_a_clean_that_deletes_a_partition() -> None:
    """Also what it could not delete is gone."""
    cleaned = {
        "p": CleanedPartition("p", "", ("a", "b"), ("a",), ("b",)),
        "q": CleanedPartition("q", "", ("c",), ("c",), (), True),
    }
    records = of_clean(CleanMetadata(InstantTime("1"), 1, 2, partitions=cleaned))
    assert found(records) == {ALL: {"q": None}, "p": {"a": None, "b": None}, "q": {"c": None}}
    assert found(of_clean(CleanMetadata(InstantTime("1"), 1, 0))) == {}


def test_what_a_rollback_deletes_goes_where_it_is_still_listed() -> None:
    """Its own records are taken back, unless they were compacted."""
    partitions = {
        "p": RollbackPartition("p", deleted=("/t/p/a", "/t/p/b")),
        "q": RollbackPartition(
            "q", deleted=("/t/q/c",), rollback_log_files={}, failed_commit_log_files={"x": 3}
        ),
        "r": RollbackPartition(
            "r", rollback_log_files={"/t/r/.l.log.2": 5}, failed_commit_log_files={".l.log.1": 9}
        ),
    }
    metadata = RollbackMetadata.of(InstantTime("1"), 1, InstantInfo(InstantTime("0"), "commit"), partitions)
    assert found(of_rollback(metadata)) == {"r": {".l.log.2": 5, ".l.log.1": 9}}
    assert found(of_rollback(metadata, {"p": {"b", "z"}})) == {
        "p": {"b": None},
        "r": {".l.log.2": 5, ".l.log.1": 9},
    }


def test_a_listing() -> None:
    assert found(of_listing({})) == {ALL: {}}
    assert found(of_listing({"p": {"a": 1}, "q": {}})) == {ALL: {"p": 0, "q": 0}, "p": {"a": 1}, "q": {}}


def test_statistics_of_a_release_that_knows_less_of_them() -> None:
    """Records of 0.15.0 in a metadata table that Apache Hudi 1.x upgraded lack a required field."""
    older, later = record_schema(), record_schema(LayoutVersion.TWO)
    ends = ColumnRange(
        column="a", kind="StringWrapper", low="x", high="y", values=2, nulls=0, size=1, uncompressed=1
    )
    made = stats_records([FileRanges("p", "f.parquet", [ends], {"a": pa.string()})])
    cells = recoded(cells_of(whole_records(made.rows, older), older), older, Partition.COLUMN_STATS, later)
    records: Any = decode_rows([cells], later, [STATS]).column(STATS).to_pylist()
    (record,) = records
    assert record[TIGHT] is False
    assert record["minValue"]["StringWrapper"] == {"value": "x"}
