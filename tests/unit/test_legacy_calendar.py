"""Files in the calendar of Spark before 3.0, and encrypted base files, wherever they are opened."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.engine.legacy_calendar import LegacyCalendar
from hoodie.errors import InputError, TableError
from tests.support.parquet_files import ENCRYPTIONS, encrypted

pytestmark = pytest.mark.table_version(6)

DAYS, TIMES = pa.date32(), pa.timestamp("us", "UTC")
OPTIONS: dict[str, Any] = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "n",
    "hoodie.metadata.enable": "false",
}
#: as Spark 3.5 writes them in its legacy mode, and as Spark 2.4 does
LEGACY = {"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyDateTime": ""}
OLD = {"org.apache.spark.version": "2.4.8"}
ZONE = "org.apache.spark.timeZone"
#: stored days and times, and what Spark reads of them: Julian 1500-01-02 is today's 1500-01-11
STORED = [date(1500, 1, 11), date(2024, 1, 1), None]
RIGHT = [date(1500, 1, 2), date(2024, 1, 1), None]


def times(days: list[Any]) -> list[Any]:
    return [day and datetime(day.year, day.month, day.day, 7, tzinfo=timezone.utc) for day in days]


def rewritten(table: Path, change: Callable[[Path, pa.Table], object]) -> Path:
    """The table's only base file, written again; its commits know the new size."""
    (file,) = table.glob("*.parquet")
    size, found = file.stat().st_size, pq.ParquetFile(file)
    rows, entries = found.read(), found.metadata.metadata or {}
    change(file, rows.replace_schema_metadata({k: v for k, v in entries.items() if k != b"ARROW:schema"}))
    for commit in (table / ".hoodie").glob("*commit"):
        commit.write_text(commit.read_text().replace(str(size), str(file.stat().st_size)))
    return file


def of_spark(entries: dict[Any, Any], **how: Any) -> Callable[[Path, pa.Table], None]:
    def change(file: Path, rows: pa.Table) -> None:
        if how:  # Arrow writes INT96 of times without a zone
            metadata: Any = rows.schema.metadata
            naive = [f.with_type(pa.timestamp("us")) if f.type == TIMES else f for f in rows.schema]
            rows = rows.cast(pa.schema(naive, metadata))
        with pq.ParquetWriter(file, rows.schema, **how) as writer:
            writer.write_table(rows, row_group_size=1)
            writer.add_key_value_metadata(entries)
        file.write_bytes(file.read_bytes().replace(b"parquet-cpp-arrow", b"parquet-mr  spark"))

    return change


def a_table(path: Path, v: pa.Array[Any], entries: dict[str, str], **how: Any) -> str:
    rows = pa.table({"id": list(range(len(v))), "v": v, "n": [0] * len(v)})
    hoodie.write_table(rows, str(path), options=OPTIONS)
    rewritten(path, of_spark(entries, **how))
    return str(path)


def stored(table: str, **how: Any) -> list[Any]:
    values: list[Any] = hoodie.read_table(table, meta=False, **how).sort_by("id").column("v").to_pylist()
    return values


@pytest.mark.parametrize("entries", [LEGACY, OLD], ids=["legacy mode", "Spark 2.4"])
def test_days(entries: dict[str, str], tmp_path: Path) -> None:
    table = a_table(tmp_path / "t", pa.array(STORED, DAYS), entries)
    assert stored(table) == RIGHT
    assert stored(table, where="v < DATE '1500-01-05'") == RIGHT[:1]
    assert stored(table, where="v > DATE '1500-01-05'") == RIGHT[1:2]
    asked = "SELECT v FROM t WHERE v < DATE '1500-01-05'"
    assert hoodie.sql(asked, tables={"t": table}).to_pylist() == [{"v": RIGHT[0]}]
    hoodie.write_table(pa.table({"id": [2], "v": pa.array([date(1, 1, 1)], DAYS), "n": [1]}), table)
    assert stored(table) == [*RIGHT[:2], date(1, 1, 1)]


@pytest.mark.parametrize("int96", [False, True])
def test_times_of_utc(int96: bool, tmp_path: Path) -> None:
    entries = {**LEGACY, "org.apache.spark.legacyINT96": "", ZONE: "UTC"}
    how = {"use_deprecated_int96_timestamps": True} if int96 else {}
    table = a_table(tmp_path / "t", pa.array(times(STORED), TIMES), entries, **how)
    assert stored(table) == times(RIGHT)
    assert stored(table, where="v < TIMESTAMP '1500-01-05'") == times(RIGHT)[:1]


def test_times_of_another_zone_are_refused_by_name(tmp_path: Path) -> None:
    table = a_table(tmp_path / "t", pa.array(times(STORED), TIMES), {**LEGACY, ZONE: "America/New_York"})
    (file,) = Path(table).glob("*.parquet")
    later = pa.table({"id": [9], "v": pa.array(times(STORED[1:2]), TIMES), "n": [1]})
    for act in (
        lambda: stored(table),
        lambda: stored(table, where="v IS NOT NULL"),
        lambda: hoodie.sql("SELECT * FROM t", tables={"t": table}),
        lambda: hoodie.write_table(later, table),
    ):
        with pytest.raises(TableError, match=r"column 'v' has times before 1900.*America/New_York") as caught:
            act()
        assert str(file) in caught.value.message
    recent = a_table(tmp_path / "u", pa.array(times(STORED[1:]), TIMES), {**LEGACY, ZONE: "America/New_York"})
    assert stored(recent) == times(STORED[1:])


def test_statistics_that_are_made_of_such_a_file_hide_no_row(tmp_path: Path) -> None:
    table = a_table(tmp_path / "t", pa.array(STORED, DAYS), LEGACY)
    options = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    hoodie.index_table(table, "create", indexes=["column_stats"], options=options)
    for where, right in (("v < DATE '1500-01-05'", RIGHT[:1]), ("v > DATE '2000-01-01'", RIGHT[1:2])):
        assert stored(table, where=where, options=options) == right


def test_a_source_is_refused_by_name(tmp_path: Path) -> None:
    rows, path = pa.table({"id": [0, 1, 2], "v": pa.array(STORED, DAYS)}), tmp_path / "s.parquet"
    of_spark(OLD)(path, rows)
    more: list[dict[str, Any]] = [
        {},
        {"transform": "SELECT * FROM source"},
        {"error_table": str(tmp_path / "e")},
    ]
    for given in more:
        with pytest.raises(InputError, match="1582-10-15") as caught:
            hoodie.ingest(str(path), str(tmp_path / "t"), options=OPTIONS, **given)
        assert str(path) in caught.value.message
    assert not (tmp_path / "t").exists()
    of_spark(OLD)(path, rows.slice(1))
    hoodie.ingest(
        str(path), str(tmp_path / "t"), options={**OPTIONS, "hoodie.datasource.write.precombine.field": "id"}
    )
    assert stored(str(tmp_path / "t")) == STORED[1:]


def test_every_day_of_the_legacy_calendar() -> None:
    """By the arithmetic of the Julian calendar; a 29 February that today's lacks is the day behind it."""

    def right(day: int) -> date:
        from_start = day + 2440588 + 32082
        years = (4 * from_start + 3) // 1461
        in_year = from_start - 1461 * years // 4
        month = (5 * in_year + 2) // 153
        numbers = (years - 4800 + month // 10, month + 3 - 12 * (month // 10))
        try:
            return date(*numbers, in_year - (153 * month + 2) // 5 + 1)
        except ValueError:
            return date(numbers[0], 3, 1)

    days = range(-719164, -141427)
    batch = pa.record_batch({"v": pc.cast(pa.array(days, pa.int32()), DAYS)})
    found = LegacyCalendar(dates=True, int96=False, zone="").rebased(batch, ()).column(0).to_pylist()
    assert found == [right(day) for day in days]


@pytest.mark.parametrize("kind", ENCRYPTIONS)
def test_an_encrypted_base_file_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    """Not by the end of the process, as Arrow has it."""
    rows = pa.table({"id": ["a", "b"], "v": ["x", "y"], "n": [0, 0]})
    hoodie.write_table(rows, str(tmp_path / "t"), options=OPTIONS)
    file = rewritten(tmp_path / "t", lambda file, rows: encrypted(file, kind, rows))
    table = str(tmp_path / "t")
    for act in (
        lambda: stored(table),
        lambda: stored(table, where="v = 'x'"),
        lambda: hoodie.sql("SELECT count(*) FROM t WHERE v = 'x'", tables={"t": table}),
        lambda: hoodie.write_table(rows, table),
    ):
        with pytest.raises(TableError, match="encrypt") as caught:
            act()
        assert str(file) in caught.value.message
        assert "damaged" not in caught.value.message
