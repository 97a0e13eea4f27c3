"""Streams of the data source as pyspark calls them, without a session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

import hoodie
from hoodie.engine.session import to_spark_schema
from hoodie.errors import ConfigError, TableError
from hoodie.spark import HoodieDataSource
from hoodie.spark.options import IDENTIFIER, MAX_COMMITS, QUERY_TYPE, START
from hoodie.spark.stream import HoodieStreamReader, HoodieStreamWriter
from tests.support.changes import FORMAT, ask, changes, keeps_changes
from tests.unit.test_spark_data_source import KEYS, rows


@pytest.fixture
def commits(tmp_path: Path) -> list[str]:
    path = str(tmp_path / "t")
    return [hoodie.write_table(rows(n * 10, 10), path, options=KEYS).instant for n in range(3)]


def reader(path: Path, **options: str) -> HoodieStreamReader:
    source = HoodieDataSource({"path": str(path / "t"), **options})
    made = source.streamReader(source.schema())
    assert isinstance(made, HoodieStreamReader)
    return made


def writer(path: Path, **options: str) -> HoodieStreamWriter:
    source = HoodieDataSource({"path": str(path / "to"), **KEYS, **options})
    made = source.streamWriter(to_spark_schema(rows(0, 1).schema), False)
    assert isinstance(made, HoodieStreamWriter)
    return made


@pytest.mark.table_version(6)
def test_offsets_are_commits(commits: list[str], tmp_path: Path) -> None:
    stream = reader(tmp_path, **{MAX_COMMITS: "2"})
    start, limit = stream.initialOffset(), stream.getDefaultReadLimit()
    assert (start, limit) == ({"instant": ""}, ReadMaxFiles(2))
    second = stream.latestOffset(start, limit)
    assert second == {"instant": commits[1]}
    assert stream.latestOffset(second, limit) == {"instant": commits[2]}
    assert stream.latestOffset(start, ReadAllAvailable()) == {"instant": commits[2]}
    found: Any = [stream.read(item) for item in stream.partitions(second, {"instant": commits[2]})]
    read = pa.Table.from_batches([batch for batches in found for batch in batches])
    assert read["n"].sort().to_pylist() == list(range(20, 30))
    assert stream.partitions(second, second) == []


@pytest.mark.table_version(6)
def test_change_data_of_each_batch(tmp_path: Path) -> None:
    path, options = tmp_path / "t", {**KEYS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    first = hoodie.write_table(rows(0, 10), str(path), options=options).instant
    second = hoodie.write_table(rows(5, 1, ts=2), str(path)).instant
    keeps_changes(path)
    stream = reader(tmp_path, **{FORMAT: "cdc", START: "earliest"})
    for start, end in (("", first), (first, second)):
        items = stream.partitions({"instant": start}, {"instant": end})
        found = pa.Table.from_batches([batch for item in items for batch in stream.read(item)])
        assert changes(found) == changes(ask(str(path), start or "earliest", end))
        assert set(found["op"].to_pylist()) == {"u" if start else "i"}


@pytest.mark.table_version(6)
def test_available_now_ends_at_what_there_was(commits: list[str], tmp_path: Path) -> None:
    stream = reader(tmp_path)
    stream.prepareForTriggerAvailableNow()
    hoodie.write_table(rows(50, 1), str(tmp_path / "t"))
    assert stream.latestOffset({"instant": commits[0]}, ReadAllAvailable()) == {"instant": commits[2]}


@pytest.mark.table_version(6)
def test_start_offsets(commits: list[str], tmp_path: Path) -> None:
    for given, instant in {"earliest": "", "latest": commits[2], commits[1]: commits[1]}.items():
        assert reader(tmp_path, **{START: given}).initialOffset() == {"instant": instant}


def test_a_commit_that_is_gone_is_named(commits: list[str], tmp_path: Path) -> None:
    with pytest.raises(TableError, match="it was rolled back"):
        reader(tmp_path).partitions({"instant": commits[2]}, {"instant": "29990101000000000"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({QUERY_TYPE: "read_optimized", START: "latest"}, "takes no such option"),
        ({START: "soon"}, "is no point in time"),
        ({MAX_COMMITS: "0"}, "no number of commits"),
    ],
)
def test_options_that_streams_refuse(
    options: dict[str, str], said: str, commits: list[str], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=said):
        reader(tmp_path, **options)


@pytest.mark.parametrize("more", [{}, {IDENTIFIER: "mine"}])
def test_a_batch_is_committed_once(tmp_path: Path, more: dict[str, str]) -> None:
    """By the id of the query in its checkpoint: another query's batch of that number is another."""
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    for query, expected in (("one", 1), ("one", 1), ("two", 2)):
        (checkpoint / "metadata").write_text(json.dumps({"id": query}))
        made = writer(tmp_path, checkpointLocation=str(checkpoint), **more)
        messages: list[WriterCommitMessage | None] = [made.write(iter(rows(0, 4).to_batches()))]
        writer(tmp_path, checkpointLocation=str(checkpoint), **more).commit(messages, 0)
        assert len(hoodie.instants(str(tmp_path / "to"))) == expected
    empty = writer(tmp_path, **{IDENTIFIER: "mine"})
    empty.commit([empty.write(iter([]))], 7)
    assert len(hoodie.instants(str(tmp_path / "to"))) == 2


def test_queries_need_a_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a stream needs the option checkpointLocation"):
        writer(tmp_path)
    made = writer(tmp_path, checkpointLocation=str(tmp_path / "none"))
    message = made.write(iter(rows(0, 4).to_batches()))
    with pytest.raises(ConfigError, match="the id of the query can't be read"):
        made.commit([message], 0)
    assert not (tmp_path / "to" / ".hoodie" / "hoodie.properties").exists()
