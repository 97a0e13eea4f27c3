"""Indexes of the metadata table that another process makes, or drops, while a write is under way that was
planned without, or with, them: the write follows the table as it is when it commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.table.handle import Table
from hoodie.timeline.commit import CommitMetadata
from hoodie.write.commit import Commits
from hoodie.write.inflight import Attempt
from hoodie.write.participants.metadata.definitions import configured, make_defined
from hoodie.write.participants.metadata.initialization import drop_partitions, make_partitions
from hoodie.write.participants.metadata.registry import partitions_of
from hoodie.write.participants.metadata_table import drop_metadata_table
from tests.support.later_tables import new_tables_of
from tests.support.metadata import disagreements
from tests.support.partial_updates import partial_blocks
from tests.support.record_index import FEW_GROUPS
from tests.support.tiers import crossed_but

pytestmark = pytest.mark.real_defaults

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.table.name": "t",
    "hoodie.index.bloom.num_entries": "100",
}
ASKING = {
    **FEW_GROUPS,
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}
#: only beside such writers Apache Hudi makes a metadata table, of versions 8 and 9
AT_ONCE = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "filesystem",
}
INDEXES = {
    "column_stats": ["column_stats", "partition_stats"],
    "bloom_filters": ["bloom_filters"],
    "record_index": ["record_index"],
    "all": ["bloom_filters", "column_stats", "partition_stats", "record_index"],
}
BY_COLUMN = {
    "hoodie.index.name": "twice",
    "hoodie.metadata.index.secondary.column": "value",
    "hoodie.metadata.index.expression.column": "part_of",
    "hoodie.metadata.index.expression.options": "expr='upper'",
}
KEYS = 8
Meanwhile = Callable[[Callable[[Table], object]], None]


@pytest.fixture(
    params=[9, *(pytest.param(number, marks=pytest.mark.full) for number in (6, 8))],
    ids=lambda number: f"version {number}",
)
def version(request: pytest.FixtureRequest) -> Iterator[int]:
    """Of the tables."""
    with new_tables_of(request.param):
        yield request.param


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Lets something happen to the table right before the next write commits."""
    commit = Commits.commit

    def let(happen: Callable[[Table], object]) -> None:
        due = [happen]

        def late(self: Commits, attempt: Attempt, metadata: CommitMetadata, validate: Any = None) -> None:
            if due:
                due.pop()(Table(self.table.ref, self.table.storage))
            commit(self, attempt, metadata, validate)

        monkeypatch.setattr(Commits, "commit", late)

    return let


def write(path: str, number: int, keys: int, options: dict[str, str]) -> hoodie.WriteResult:
    rows = [
        {"id": f"k{key}", "part": "ab"[key % 2], "ts": number, "value": key * number, "part_of": f"p{key}"}
        for key in range(keys)
    ]
    return hoodie.write_table(pa.Table.from_pylist(rows), path, options=options)


def check(path: str, number: int, keys: int) -> None:
    """Of the keys some have the newest rows."""
    expected = {f"k{key}": key * (number if key < keys else 1) for key in range(KEYS)}
    found = hoodie.read_table(path).to_pydict()
    assert dict(zip(found["id"], found["value"], strict=True)) == expected
    for key in (0, KEYS - 1):  # the indexes leave out no file that has the row
        rows = hoodie.read_table(path, where=f"value = {expected[f'k{key}']} AND id = 'k{key}'")
        assert rows.num_rows == 1
    assert disagreements(path) == []


CASES = crossed_but(
    {"COPY_ON_WRITE-column_stats", "MERGE_ON_READ-column_stats", "COPY_ON_WRITE-all"},
    {kind: kind for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")},
    {name: name for name in INDEXES},
)


@pytest.mark.parametrize(("kind", "index"), CASES)
def test_indexes_that_are_made(
    tmp_path: Path, meanwhile: Meanwhile, version: int, kind: str, index: str
) -> None:
    path, options = str(tmp_path / "t"), {**OPTIONS, "hoodie.datasource.write.table.type": kind}
    names = [name for name in INDEXES[index] if version > 6 or name != "partition_stats"]
    write(path, 1, KEYS, options)
    meanwhile(lambda table: make_partitions(table, Config.of(ASKING), partitions_of(names), lambda *_: None))
    done = write(path, 2, 3, options)
    check(path, 2, 3)
    there = Table.open(path).properties.metadata_partitions
    assert (set(there), done.warnings) == ({"files", *names}, [])
    assert write(path, 3, 5, options).warnings == []
    check(path, 3, 5)
    assert Table.open(path).properties.metadata_partitions == there


@pytest.mark.parametrize("version", [9], indirect=True)
@pytest.mark.parametrize("kind", [pytest.param("COPY_ON_WRITE", marks=pytest.mark.full), "MERGE_ON_READ"])
def test_indexes_of_columns_that_are_made(
    tmp_path: Path, meanwhile: Meanwhile, version: int, kind: str
) -> None:
    path, options = str(tmp_path / "t"), {**OPTIONS, "hoodie.datasource.write.table.type": kind}
    write(path, 1, KEYS, {**options, "hoodie.metadata.record.index.enable": "true", **FEW_GROUPS})
    config = Config.of({**ASKING, **BY_COLUMN})

    def make(table: Table) -> None:
        for definition in configured(table, config):
            make_defined(table, config, definition, lambda *_: None)

    meanwhile(make)
    assert write(path, 2, 3, options).warnings == []
    check(path, 2, 3)
    there = Table.open(path).properties.metadata_partitions
    assert set(there) == {"files", "record_index", "secondary_index_twice", "expr_index_twice"}
    assert write(path, 3, 5, options).warnings == []
    check(path, 3, 5)
    assert Table.open(path).properties.metadata_partitions == there


STATISTICS = INDEXES["column_stats"]


def make_statistics(table: Table) -> None:
    make_partitions(table, Config.of(ASKING), partitions_of(STATISTICS), lambda *_: None)


@pytest.mark.parametrize("version", [9], indirect=True)
def test_statistics_that_are_made_beside_a_delete(tmp_path: Path, meanwhile: Meanwhile, version: int) -> None:
    path, options = str(tmp_path / "t"), {**OPTIONS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    write(path, 1, KEYS, options)
    meanwhile(make_statistics)
    gone = pa.Table.from_pylist([{"id": f"k{key}", "part": "ab"[key % 2], "ts": 2} for key in (1, 2)])
    done = hoodie.write_table(gone, path, operation="delete", options=options)
    assert (done.num_deletes, done.warnings) == (2, [])
    assert set(Table.open(path).properties.metadata_partitions) == {"files", *STATISTICS}
    assert sorted(hoodie.read_table(path, where="value >= 2")["value"].to_pylist()) == [3, 4, 5, 6, 7]
    assert disagreements(path) == []


@pytest.mark.parametrize("version", [9], indirect=True)
def test_statistics_that_are_made_beside_a_statement(
    tmp_path: Path, meanwhile: Meanwhile, version: int
) -> None:
    """Its log has changed columns only, and the statistics of such a file are those of the whole rows."""
    path, options = str(tmp_path / "t"), {**OPTIONS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    write(path, 1, KEYS, options)
    meanwhile(make_statistics)
    source = pa.Table.from_pylist([{"id": "k3", "part": "b", "ts": 2, "value": 30}])
    text = (
        "MERGE INTO t USING s ON t.id = s.id AND t.part = s.part "
        "WHEN MATCHED THEN UPDATE SET value = s.value, ts = s.ts"
    )
    done = hoodie.sql(text, tables={"t": path, "s": source}, options=options)
    assert partial_blocks(path) == 1
    assert [name for name in STATISTICS if f"the index {name} of" in str(done.warnings)] == STATISTICS
    assert Table.open(path).properties.metadata_partitions == ("files",)
    assert hoodie.read_table(path, where="value = 30")["id"].to_pylist() == ["k3"]
    assert disagreements(path) == []


@pytest.mark.parametrize(("kind", "index"), CASES)
def test_indexes_that_are_dropped(
    tmp_path: Path, meanwhile: Meanwhile, version: int, kind: str, index: str
) -> None:
    path, options = str(tmp_path / "t"), {**OPTIONS, "hoodie.datasource.write.table.type": kind}
    write(path, 1, KEYS, {**options, **ASKING})
    before = Table.open(path).properties.metadata_partitions
    meanwhile(lambda table: drop_partitions(table, INDEXES[index]))
    assert write(path, 2, 3, options).warnings == []
    check(path, 2, 3)
    there = Table.open(path).properties.metadata_partitions
    assert set(there) == set(before).difference(INDEXES[index])
    assert write(path, 3, 5, options).warnings == []
    check(path, 3, 5)
    assert Table.open(path).properties.metadata_partitions == there


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_metadata_table_is_dropped(tmp_path: Path, meanwhile: Meanwhile, version: int, kind: str) -> None:
    path, options = str(tmp_path / "t"), {**OPTIONS, "hoodie.datasource.write.table.type": kind}
    write(path, 1, KEYS, {**options, **ASKING})
    meanwhile(drop_metadata_table)
    write(path, 2, 3, options)
    check(path, 2, 3)
    assert Table.open(path).properties.metadata_partitions == ()
    write(path, 3, 5, options)
    check(path, 3, 5)


@pytest.mark.parametrize("version", [pytest.param(8, marks=pytest.mark.full), 9], indirect=True)
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_metadata_table_is_made(tmp_path: Path, meanwhile: Meanwhile, version: int, kind: str) -> None:
    path, options = str(tmp_path / "t"), {**OPTIONS, "hoodie.datasource.write.table.type": kind}
    write(path, 1, KEYS, {**options, "hoodie.metadata.enable": "false"})
    wanted = partitions_of(["files", "bloom_filters", "record_index"])
    meanwhile(lambda table: make_partitions(table, Config.of(ASKING), wanted, lambda *_: None))
    write(path, 2, 3, {**options, **AT_ONCE})
    check(path, 2, 3)
    write(path, 3, 5, options)
    check(path, 3, 5)
