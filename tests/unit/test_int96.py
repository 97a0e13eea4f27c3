"""Times of INT96, as Spark, Hive and Impala write them: every year, wherever Parquet is opened."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hoodie
from scripts.environment import ROOT

pytestmark = pytest.mark.table_version(6)

TIMES = [
    datetime(2024, 1, 1, 20, 34, 56, 123456, timezone.utc),
    datetime(9999, 12, 31, tzinfo=timezone.utc),
    datetime(1, 1, 1, tzinfo=timezone.utc),
    datetime(1600, 6, 6, 6, 6, 6, tzinfo=timezone.utc),
    None,
]
MICROS = pa.timestamp("us", "UTC")
NESTED = pa.list_(pa.struct([("ts", MICROS)]))
ROWS = pa.table(
    {
        "id": pa.array(range(5), pa.int64()),
        "ts": pa.array(TIMES, MICROS),
        "all": pa.array([[{"ts": time}] for time in TIMES], NESTED),
        "n": pa.array([0] * 5, pa.int64()),
    }
)
OPTIONS: dict[str, Any] = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "n",
    "hoodie.metadata.enable": "false",
}
LATER = ROWS.slice(0, 1).set_column(3, "n", pa.array([1], pa.int64()))


def as_int96(path: Path) -> Path:
    """Writes the file again as Spark did by default: times as INT96, no types of Arrow in the footer."""
    stored = pq.ParquetFile(path)
    rows = stored.read().cast(pa.schema([naive(field) for field in stored.schema_arrow]))
    metadata = {
        key: value for key, value in (stored.metadata.metadata or {}).items() if key != b"ARROW:schema"
    }
    with pq.ParquetWriter(
        path, rows.schema, use_deprecated_int96_timestamps=True, store_schema=False
    ) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(metadata)  # type: ignore[arg-type]
    assert "int96" in str(pq.read_metadata(path).schema)
    return path


def naive(field: pa.Field[Any]) -> pa.Field[Any]:
    """INT96 has no zone; Arrow writes it of such times only."""
    if pa.types.is_timestamp(field.type):
        return field.with_type(pa.timestamp("us"))
    if field.type == NESTED:
        return field.with_type(pa.list_(pa.struct([("ts", pa.timestamp("us"))])))
    return field


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "source.parquet"
    pq.write_table(ROWS, path)
    return str(as_int96(path))


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = tmp_path / "stored"
    hoodie.write_table(
        ROWS, str(path), options={**OPTIONS, "hoodie.datasource.write.table.type": request.param}
    )
    (file,) = path.glob("*.parquet")
    size = file.stat().st_size
    as_int96(file)
    for commit in (path / ".hoodie").glob("*commit"):
        commit.write_text(commit.read_text().replace(str(size), str(file.stat().st_size)))
    return str(path)


def stored(table: str) -> pa.Table:
    found: pa.Table = hoodie.read_table(table, meta=False)
    return found.sort_by("id")


def test_base_files(table: str) -> None:
    assert stored(table).equals(ROWS)
    late = hoodie.read_table(table, meta=False, where="ts > timestamp '9000-01-01'")
    assert late.column("id").to_pylist() == [1]
    assert hoodie.sql("SELECT ts FROM t WHERE id = 1", tables={"t": table}).to_pylist() == [{"ts": TIMES[1]}]


def test_an_upsert_of_another_row_keeps_them(table: str) -> None:
    hoodie.write_table(LATER, table, options=OPTIONS)
    assert stored(table).equals(pa.concat_tables([LATER, ROWS.slice(1)]))


def test_ingested(source: str, tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    hoodie.ingest(source, table, options=OPTIONS)
    assert stored(table).equals(ROWS)


def test_transformed(source: str, tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    hoodie.ingest(source, table, options=OPTIONS, transform="SELECT id, ts, n + 1 AS n FROM source")
    assert stored(table).column("ts").to_pylist() == TIMES


def test_statements(source: str, tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    found = hoodie.sql("SELECT ts FROM s ORDER BY id", tables={"s": {"source": source}})
    assert pc.cast(found.column("ts"), MICROS).to_pylist() == TIMES
    blank = ROWS.set_column(1, "ts", pa.nulls(5, MICROS))
    hoodie.write_table(blank, table, options=OPTIONS)
    merge = "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET ts = s.ts"
    hoodie.sql(merge, tables={"t": table, "s": {"source": source}})
    assert stored(table).column("ts").to_pylist() == TIMES


def test_all_parquet_is_opened_in_one_place() -> None:
    """INT96 is read as nanoseconds elsewhere; engine/spark_files.py leaves such files to Spark."""
    package = ROOT / "spark_jobs" / "hoodie"
    words = ("pq.ParquetFile(", "ParquetFileFormat(", 'format="parquet"', "pq.read_table(", "pq.read_schema(")
    found = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if any(word in file.read_text() for word in words)
    }
    assert found == {"engine/parquet_open.py", "engine/spark_files.py"}
