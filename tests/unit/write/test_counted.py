"""New file groups of rows that are computed while they are written, counted by their keys before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest

import hoodie
from hoodie import pipeline
from hoodie.engine import Frame, Repeatable
from hoodie.engine.local import LocalEngine, LocalFrame
from hoodie.errors import InputError, JobError
from hoodie.write.operation import Operation, WriteRequest, WriteResult
from tests.support.rows import assert_same_rows
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.unit.write.support import (
    KEY,
    KEYGEN,
    MAX_FILE,
    OPTIONS,
    ORDERING,
    PARTITION,
    PLAIN,
    SORT_MODE,
    check_meta,
    data_files,
    listing,
    plain,
)

ROWS = as_table(small_rows(range(600), 1), SMALL_SCHEMA)
BY_REGION = ROWS.sort_by("region")
#: the stubs know no plain values as arguments
pc: Any = pyarrow.compute


class Again(LocalEngine):
    """The local engine, with frames whose rows it may compute twice; what it did with them is in `calls`.

    The columns apart are those of `columns`, where that is given: as if the rows had changed since.
    """

    def __init__(self, columns: pa.Table | None = None) -> None:
        super().__init__(2)
        self.columns = columns
        self.calls: list[str] = []

    def repeatable(self, frame: LocalFrame, names: Sequence[str]) -> Repeatable:
        apart = frame if self.columns is None else parts(self.columns)
        schema = pa.schema([apart.schema.field(name) for name in names])
        columns = LocalFrame(schema, [_only(source, names) for source in apart.partitions])
        return _Again(columns, self, frame)

    def limited(self, memory: int, folder: str, refusal: Any) -> Again:
        return self

    def persist(self, frame: LocalFrame) -> LocalFrame:
        self.calls.append("persist")
        return super().persist(frame)

    def shuffle(self, frame: LocalFrame, by: str, partitions: int, sort: str) -> LocalFrame:
        self.calls.append(f"shuffle to {partitions}")
        return super().shuffle(frame, by, partitions, sort)


@dataclass(frozen=True)
class _Again(Repeatable):
    engine: Again
    frame: LocalFrame

    def ordered(self, fields: Sequence[str]) -> Frame:
        self.engine.calls.append("ordered")
        return LocalFrame(
            self.frame.schema,
            [_sorted([source], self.frame.schema, fields) for source in self.frame.partitions],
        )


Source = Callable[[], Iterator[pa.RecordBatch]]


def _only(source: Source, names: Sequence[str]) -> Source:
    return lambda: (batch.select(list(names)) for batch in source())


def _sorted(sources: Sequence[Source], schema: pa.Schema, fields: Sequence[str]) -> Source:
    def batches() -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches([batch for source in sources for batch in source()], schema)
        yield from (rows.sort_by([(name, "ascending") for name in fields]) if fields else rows).to_batches()

    return batches


def parts(*tables: pa.Table) -> LocalFrame:
    """A partition a table, in batches of 50 rows."""

    def source(table: pa.Table) -> Source:
        return lambda: iter(table.to_batches(max_chunksize=50))

    return LocalFrame(tables[0].schema, [source(table.combine_chunks()) for table in tables])


def load(
    engine: Again,
    frame: LocalFrame,
    table: Path,
    options: Mapping[str, Any] = OPTIONS,
    operation: Operation = Operation.BULK_INSERT,
) -> WriteResult:
    request = WriteRequest(str(table), operation, options)
    return pipeline.write(engine, frame, request)


def halves(rows: pa.Table, at: int = 300) -> LocalFrame:
    return parts(rows.slice(0, at), rows.slice(at))


def test_rows_in_the_order_of_their_partitions_stay_where_they_are(tmp_path: Path) -> None:
    engine = Again()
    result = load(engine, halves(BY_REGION, 400), tmp_path / "t")
    assert engine.calls == []
    assert (result.num_inserts, result.num_files, result.partitions) == (600, 3, ["apac", "eu", "us"])
    table = hoodie.read_table(str(tmp_path / "t"))
    assert_same_rows(table, ROWS)
    check_meta(table, tmp_path / "t")
    later = as_table(small_rows(range(500, 700), 2), SMALL_SCHEMA)
    again = hoodie.write_table(later, str(tmp_path / "t"), options=OPTIONS)
    assert (again.num_updates, again.num_inserts) == (100, 100)


def test_a_task_orders_rows_of_partitions_that_others_have_not(tmp_path: Path) -> None:
    mixed = BY_REGION.slice(0, 400).take(np.random.default_rng(1).permutation(400))
    engine = Again()
    result = load(engine, parts(mixed, BY_REGION.slice(400)), tmp_path / "t")
    assert engine.calls == ["ordered"]
    assert result.num_files == 3
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), ROWS)


def test_rows_of_a_partition_in_many_tasks_are_gathered(tmp_path: Path) -> None:
    engine = Again()
    result = load(engine, halves(ROWS), tmp_path / "t")
    assert engine.calls == ["shuffle to 3"]
    assert result.num_files == 3
    table = hoodie.read_table(str(tmp_path / "t"))
    assert_same_rows(table, ROWS)
    check_meta(table, tmp_path / "t")


def test_more_tasks_than_the_settings_allow_are_gathered(tmp_path: Path) -> None:
    engine = Again()
    rows = [BY_REGION.slice(start, 200) for start in (0, 200, 400)]
    load(engine, parts(*rows), tmp_path / "t", {**OPTIONS, "hoodie.bulkinsert.shuffle.parallelism": 2})
    assert engine.calls == ["shuffle to 2"]
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), ROWS)


def test_large_files_of_several_tasks_are_not_gathered(tmp_path: Path) -> None:
    """Without partitions: two files of which each is most of a full one."""
    rows = plain(*[(f"k{number:05d}", number, f"{number:040d}") for number in range(4000)])
    engine = Again()
    options = {**PLAIN, MAX_FILE: 40_000, "hoodie.parquet.block.size": 1 << 14}
    result = load(engine, halves(rows, 2000), tmp_path / "t", options)
    assert engine.calls == []
    assert result.num_files >= 2
    assert max(file.stat().st_size for file in data_files(tmp_path / "t")) < 80_000
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), rows)


def test_rows_out_of_the_order_that_was_counted_give_the_same_table(tmp_path: Path) -> None:
    load(Again(BY_REGION), halves(ROWS), tmp_path / "t")
    table = hoodie.read_table(str(tmp_path / "t"))
    assert_same_rows(table, ROWS)
    check_meta(table, tmp_path / "t")


def test_an_overwrite_replaces_what_is_there(tmp_path: Path) -> None:
    load(Again(), halves(ROWS), tmp_path / "t")
    fresh = as_table(small_rows(range(900, 960), 2), SMALL_SCHEMA)
    us = fresh.filter(pc.equal(fresh.column("region"), "us"))
    result = load(Again(), parts(us), tmp_path / "t", OPTIONS, Operation.INSERT_OVERWRITE)
    assert (result.num_replaced, result.partitions) == (1, ["us"])
    kept = ROWS.filter(pc.not_equal(ROWS.column("region"), "us"))
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), pa.concat_tables([kept, us]))


def test_no_rows_make_a_commit_without_files(tmp_path: Path) -> None:
    result = load(Again(), parts(ROWS.slice(0, 0)), tmp_path / "t")
    assert (result.status, result.num_files) == ("committed", 0)


@pytest.mark.parametrize(
    "options",
    [{SORT_MODE: "GLOBAL_SORT"}, {"hoodie.combine.before.insert": "true"}],
    ids=["sorted", "de-duplicated"],
)
def test_what_has_to_be_looked_at_is_staged(tmp_path: Path, options: dict[str, Any]) -> None:
    engine = Again()
    load(engine, halves(BY_REGION), tmp_path / "t", {**OPTIONS, **options})
    assert engine.calls == ["persist", "shuffle to 3"]
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), ROWS)


def test_an_explanation_measures_the_rows_as_a_dry_run_does(tmp_path: Path) -> None:
    request = WriteRequest(str(tmp_path / "t"), Operation.BULK_INSERT, OPTIONS)
    engine = Again()
    explained = pipeline.explain(engine, halves(BY_REGION), request)
    planned = pipeline.write(Again(), halves(BY_REGION), replace(request, dry_run=True)).planned
    assert engine.calls == ["persist", "shuffle to 3"], "rows that delete their key are counted"
    assert explained.partitions == planned
    assert not (tmp_path / "t").exists()


def test_columns_that_must_not_be_null(tmp_path: Path) -> None:
    required = pa.schema([field.with_nullable(field.name != "ts") for field in SMALL_SCHEMA])
    engine = Again()
    load(engine, halves(BY_REGION.cast(required)), tmp_path / "t")
    load(engine, halves(BY_REGION), tmp_path / "t")
    assert engine.calls == ["shuffle to 3"] * 2
    assert hoodie.read_table(str(tmp_path / "t")).num_rows == 1200


def test_partitions_by_time_are_gathered_if_they_are_mixed(tmp_path: Path) -> None:
    """Rows of a day have many values in the partition's column."""
    options = {
        KEY: "id",
        ORDERING: "ts",
        PARTITION: "ts",
        KEYGEN: "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyyMMdd",
    }
    rows = plain(*[(f"k{number}", number * 86_400_000 // 10, "x") for number in range(40)])
    for order, calls in ((np.arange(40), []), (np.arange(40) * 13 % 40, ["shuffle to 4"])):
        engine, table = Again(), tmp_path / f"t{len(calls)}"
        load(engine, halves(rows.take(order), 20), table, options)
        assert engine.calls == calls
        assert_same_rows(hoodie.read_table(str(table)), rows)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (plain(("a", 1, "x"), (None, 2, "x")), "id"),  # type: ignore[arg-type]
        (plain(("a", 1, "x"), ("", 2, "x")), "id"),
        (plain(("a", 1, "x"), ("b", 2, "..")), ".."),
        (plain(("a", 1, "x"), ("b", 2, "x:y")), "x:y"),
        (plain(("a", 1, "x"), ("b", 2, "x/y")), "x/y"),
    ],
    ids=["null key", "empty key", "outside", "colon", "nested"],
)
def test_bad_keys_and_partitions_are_refused_before_anything_is_written(
    tmp_path: Path, rows: pa.Table, text: str
) -> None:
    with pytest.raises(InputError, match=text):
        load(Again(), parts(rows), tmp_path / "t", {**PLAIN, PARTITION: "val"})
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("counted", "text"),
    [
        (ROWS.slice(0, 500), "500 rows were staged but 600"),
        (BY_REGION.slice(0, 400), "partition 'us' appeared"),
    ],
    ids=["rows", "partitions"],
)
def test_rows_that_change_between_the_passes_are_withdrawn(
    tmp_path: Path, counted: pa.Table, text: str
) -> None:
    load(Again(), halves(BY_REGION), tmp_path / "t")
    before = {name for name in listing(tmp_path / "t") if name.endswith(".parquet")}
    with pytest.raises(JobError, match=text):
        load(Again(counted), halves(BY_REGION), tmp_path / "t")
    assert {name for name in listing(tmp_path / "t") if name.endswith(".parquet")} == before
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), ROWS)
