"""The data source as pyspark calls it, without a session: plans travel pickled, rows are Arrow batches."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import datasource as pushed
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

import hoodie
from hoodie.engine.session import arrow_schema, to_spark_schema
from hoodie.errors import ConfigError, InputError, JobError, SchemaError, TableNotFound
from hoodie.spark import HoodieDataSource
from hoodie.spark.data_source import HoodieReader, HoodieWriter, PushingReader, StagedRows
from hoodie.spark.options import AS_OF, BEGIN, END, OPERATION, QUERY_TYPE, Reading, Writing
from hoodie.spark.staging import Stage
from hoodie.table.handle import TableRef
from hoodie.table.markers import TEMP_FOLDER
from tests.support.changes import FORMAT, ask, changes, keeps_changes
from tests.support.rows import assert_same_rows
from tests.support.s3_store import served

#: the stubs lack its types
dumps: Any = cloudpickle.dumps

KEYS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
}


def rows(first: int, count: int, ts: int = 1) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": [f"k{number:03}" for number in numbers],
            "region": [("eu", "us")[number % 2] for number in numbers],
            "n": pa.array(numbers, pa.int64()),
            "ts": pa.array([ts] * count, pa.int64()),
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Of two partitions, with logs."""
    path = str(tmp_path / "t")
    options = {**KEYS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    hoodie.write_table(rows(0, 20), path, options=options)
    hoodie.write_table(rows(10, 4, 2), path)
    return path


def read(source: HoodieDataSource, filters: Sequence[Any] | None = None) -> tuple[pa.Table, int]:
    """The rows, read as tasks do it, and how many slices they read."""
    schema = source.schema()
    reader = source.reader(schema)
    if filters is not None:
        reader = PushingReader(Reading.of(source.options), schema)
        assert list(reader.pushFilters(list(filters))) == list(filters)
    sent: HoodieReader = pickle.loads(dumps(reader))
    batches: list[pa.RecordBatch] = []
    slices = 0
    partitions: list[InputPartition] = list(reader.partitions())
    for partition in partitions or [InputPartition(None)]:
        partition = pickle.loads(dumps(partition))
        slices += len(partition.value or ())
        batches += sent.read(partition)
    return pa.Table.from_batches(batches, arrow_schema(schema)), slices


def test_rows_and_types_are_those_of_read_table(table: str) -> None:
    source = HoodieDataSource({"path": table})
    found, slices = read(source)
    wanted = hoodie.read_table(table)
    assert_same_rows(found, wanted, meta=True, what="snapshot")
    assert slices == 2
    plain = pa.schema([field.with_nullable(True) for field in wanted.schema])
    assert source.schema() == to_spark_schema(plain)


@pytest.mark.table_version(6)
def test_the_four_kinds_of_queries(table: str) -> None:
    first, second = (item["instant"] for item in hoodie.instants(table))
    for options, arguments in (
        ({QUERY_TYPE: "snapshot"}, {}),
        ({QUERY_TYPE: "read_optimized"}, {"query": "read_optimized"}),
        ({QUERY_TYPE: "incremental", BEGIN: first}, {"begin": first}),
        ({QUERY_TYPE: "incremental", BEGIN: "000", END: first}, {"begin": "earliest", "end": first}),
        ({QUERY_TYPE: "incremental", BEGIN: second}, {"begin": second}),
        ({QUERY_TYPE: "snapshot", AS_OF: first}, {"as_of": first}),
    ):
        found, _ = read(HoodieDataSource({"path": table, **options}))
        assert_same_rows(found, hoodie.read_table(table, **arguments), meta=True, what=str(options))


@pytest.mark.table_version(6)
def test_change_data(table: str) -> None:
    keeps_changes(Path(table))
    first, second = (item["instant"] for item in hoodie.instants(table))
    asked = {"path": table, QUERY_TYPE: "incremental", FORMAT: "cdc"}
    for begin, count in (("000", 24), (first, 4)):
        source = HoodieDataSource({**asked, BEGIN: begin})
        assert source.schema().simpleString() == "struct<op:string,ts_ms:string,before:string,after:string>"
        found, _ = read(source)
        assert changes(found) == changes(ask(table, begin))
        assert len(found) == count
    schema = StructType([StructField("after", StringType()), StructField("op", StringType())])
    reader = HoodieReader(Reading.of({**asked, BEGIN: first}), schema)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert {tuple(batch.schema.names) for batch in batches} == {("after", "op")}
    assert read(HoodieDataSource({**asked, BEGIN: second}))[0].num_rows == 0
    wrong = StructType([StructField("op", IntegerType())])
    with pytest.raises(SchemaError, match=r"column op of .* is string, and not int"):
        HoodieReader(Reading.of({**asked, BEGIN: first}), wrong).partitions()
    with pytest.raises(ConfigError, match="asked of a query of type snapshot"):
        HoodieReader(Reading.of({"path": table, FORMAT: "cdc"}), schema).partitions()


def test_filters_leave_out_partitions(table: str) -> None:
    source = HoodieDataSource({"path": table})
    region, n = ("region",), ("n",)
    for filters, slices in (
        ([pushed.EqualTo(region, "eu")], 1),
        ([pushed.In(region, ("us", "de"))], 1),
        ([pushed.Not(pushed.EqualTo(region, "eu")), pushed.GreaterThan(n, 3)], 1),
        ([pushed.StringStartsWith(region, "e"), pushed.IsNotNull(region)], 1),
        ([pushed.IsNull(region)], 0),
        ([pushed.StringStartsWith(region, "%")], 2),
        ([pushed.StringEndsWith(region, "x"), pushed.EqualTo(region, b"x")], 2),
        ([pushed.LessThan(n, float("nan"))], 2),
        ([], 2),
    ):
        assert read(source, filters)[1] == slices, filters


def test_a_reader_takes_filters_where_spark_pushes_them(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere Spark refuses one that would, as its push-down is off by default."""
    source = HoodieDataSource({"path": table})
    assert type(source.reader(source.schema())) is HoodieReader
    from pyspark.sql.worker import data_source_pushdown_filters as pushing

    assert sys.modules[pushing.__name__] is pushing
    assert type(source.reader(source.schema())) is PushingReader
    monkeypatch.delitem(sys.modules, pushing.__name__)


def test_what_options_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for options, why in (
        ({}, "needs a path"),
        ({"path": path, "provider": "hoodie"}, "CREATE TEMPORARY VIEW"),
        ({"paths": "['a', 'b']"}, "one path"),
        ({"path": path, "hoodie.memory.merge.max.siz": "1"}, "did you mean 'hoodie.memory.merge.max.size'"),
        ({"path": path, "mergeschema": "true"}, "unknown setting 'mergeschema'"),
        ({"path": path, QUERY_TYPE: "newest"}, "unknown query 'newest'"),
        ({"path": path, QUERY_TYPE: "incremental"}, rf"needs begin.*{BEGIN} \(begin\)"),
        ({"path": path, QUERY_TYPE: "incremental", BEGIN: "000", AS_OF: "20240101"}, "as_of belongs to"),
        ({"path": path, QUERY_TYPE: "snapshot", BEGIN: "000"}, "begin belongs to"),
        ({"path": path, "hoodie.datasource.query.incremental.format": "cdx"}, "expected one of CDC"),
    ):
        with pytest.raises(ConfigError, match=why):
            Reading.of(options)
    with pytest.raises(TableNotFound, match="is no Hudi table"):
        HoodieDataSource({"path": path}).schema()


def test_names_have_any_case(table: str) -> None:
    asked = Reading.of({"path": table, QUERY_TYPE.upper(): "Read_Optimized"})
    assert asked.query.type.value == "read_optimized"
    known = Reading.of({"path": table, "hoodie.schema.internal.queryschema": "1"}).config
    assert "hoodie.schema.internal.querySchema" in known.warnings[0]


def test_the_mode_says_which_operation() -> None:
    given = {"path": "/t"}
    for overwrite, text, operation in (
        (False, None, "upsert"),
        (False, "BULK_INSERT", "bulk_insert"),
        (False, "delete", "delete"),
        (True, None, "insert_overwrite_table"),
        (True, "upsert", "insert_overwrite_table"),
        (True, "insert_overwrite_table", "insert_overwrite_table"),
    ):
        options = given if text is None else {**given, OPERATION: text}
        assert Writing.of(options, overwrite).operation.value == operation
    for overwrite, text, why in (
        (True, "delete", "can't be written in the mode overwrite"),
        (True, "insert_overwrite", "can't be written in the mode overwrite"),
        (False, "delete_partition", "hoodie.delete_partitions"),
        (False, "merge", "use one of upsert"),
    ):
        with pytest.raises(ConfigError, match=why):
            Writing.of({**given, OPERATION: text}, overwrite)


def test_columns_of_a_schema_are_read_alone(table: str) -> None:
    source = HoodieDataSource({"path": table})
    n = next(field for field in source.schema() if field.name == "n")
    reader = source.reader(StructType([n]))
    found: list[Any] = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert pa.Table.from_batches(found).sort_by("n").to_pydict() == {"n": list(range(20))}
    with pytest.raises(ConfigError, match="no column nosuch"):
        source.reader(StructType([StructField("nosuch", StringType())])).partitions()
    with pytest.raises(hoodie.errors.SchemaError, match=r"column n of .* is bigint, and not string"):
        source.reader(StructType([StructField("n", StringType())])).partitions()


def writer(path: str, schema: pa.Schema, overwrite: bool = False) -> HoodieWriter:
    made = HoodieDataSource({"path": path, **KEYS}).writer(to_spark_schema(schema), overwrite)
    sent: HoodieWriter = pickle.loads(dumps(made))
    return sent


def staged(path: str) -> list[Path]:
    return sorted((Path(path) / TEMP_FOLDER).glob("spark_rows_*"))


def test_one_commit_has_the_rows_of_the_tasks_that_count(tmp_path: Path) -> None:
    path, given = str(tmp_path / "t"), rows(0, 12)
    tasks = writer(path, given.schema)
    messages = [tasks.write(iter(given.slice(at, 6).to_batches(max_chunksize=4))) for at in (0, 6)]
    tasks.write(iter(rows(50, 3).to_batches()))  # an attempt that Spark repeated
    messages.append(tasks.write(iter([])))
    assert len(list(staged(path)[0].iterdir())) == 3
    tasks.commit([pickle.loads(dumps(message)) for message in messages])
    assert_same_rows(hoodie.read_table(path), given, meta=False, what="committed")
    assert len(hoodie.instants(path)) == 1
    again = writer(path, given.schema, overwrite=True)
    again.commit([again.write(iter([]))])
    assert hoodie.read_table(path).num_rows == 0
    assert staged(path) == []


def test_a_write_that_is_given_up_leaves_nothing(table: str) -> None:
    before = hoodie.instants(table)
    tasks = writer(table, rows(0, 1).schema)
    message = tasks.write(iter(rows(0, 9, 9).to_batches()))
    tasks.abort([message, None])
    assert staged(table) == []
    with pytest.raises(JobError, match=r"staged rows in .* are gone, and nothing was committed"):
        tasks.commit([message])
    with pytest.raises(JobError, match="a task did not say what it staged"):
        tasks.commit([tasks.write(iter(rows(0, 9, 9).to_batches())), None])
    assert staged(table) == []
    assert hoodie.instants(table) == before


def test_a_commit_that_is_refused_leaves_nothing(table: str) -> None:
    before = hoodie.instants(table)
    given = rows(0, 3).set_column(2, "n", pa.array([True] * 3))
    tasks = writer(table, given.schema)
    message = tasks.write(iter(given.to_batches()))
    with pytest.raises(InputError, match="column n: table long, incoming boolean"):
        tasks.commit([message])
    assert staged(table) == []
    assert hoodie.instants(table) == before
    with pytest.raises(InputError, match="column 'x' has type duration"):
        writer(table, pa.schema([("x", pa.duration("us"))]))


def test_rows_of_dead_writes_are_swept(table: str) -> None:
    """Those of a write that staged rows within a day stay."""
    dead, alive = writer(table, rows(0, 1).schema), writer(table, rows(0, 1).schema)
    old = dead.write(iter(rows(0, 3).to_batches()))
    young = alive.write(iter(rows(30, 3).to_batches()))
    assert isinstance(old, StagedRows)
    for file in old.files:
        os.utime(file.path, (1, 1))
    empty = Path(table) / TEMP_FOLDER / "spark_rows_empty"
    empty.mkdir()
    os.utime(empty, (1, 1))
    other = writer(table, rows(0, 1).schema)
    other.commit([other.write(iter(rows(20, 3).to_batches()))])
    assert len(staged(table)) == 1
    alive.commit([young])
    assert hoodie.read_table(table).num_rows == 26
    assert staged(table) == []


@pytest.fixture
def store() -> Iterator[Any]:
    with served() as store:
        yield store


def test_rows_are_staged_in_the_storage_of_the_table(store: Any) -> None:
    given = rows(0, 5)
    stage = Stage.new(TableRef.of("s3://lake/t"), given.schema)
    files = stage.keep(given.to_batches(max_chunksize=2))
    kept: Any = stage.rows(files)
    assert_same_rows(kept.to_table(), given, meta=False, what="staged")
    tasks = writer("s3://lake/t", given.schema)
    tasks.commit([tasks.write(iter(given.to_batches()))])
    assert_same_rows(hoodie.read_table("s3://lake/t"), given, meta=False, what="committed")
    found, _ = read(HoodieDataSource({"path": "s3://lake/t"}))
    assert_same_rows(found, given, meta=False, what="read")
    stage.delete()
    assert TableRef.of("s3://lake/t").storage().tree(f"s3://lake/t/{TEMP_FOLDER}") == []
