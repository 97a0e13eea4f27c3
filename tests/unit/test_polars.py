"""Rows of polars and answers for it, by the library itself."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import hoodie
from hoodie.errors import InputError, SchemaError

MOMENT = dt.datetime(2024, 5, 6, 7, 8, 9)
#: by a name, a series of three values and the type that an answer has
SERIES: dict[str, tuple[pl.Series, Any]] = {
    "text": (pl.Series(["x", None, "z"]), pl.String),
    "bytes": (pl.Series([b"x", None, b"z"]), pl.Binary),
    "boolean": (pl.Series([True, None, False]), pl.Boolean),
    "byte": (pl.Series([1, None, -3], dtype=pl.Int8), pl.Int32),
    "long": (pl.Series([1, None, -3]), pl.Int64),
    "float": (pl.Series([1.5, None, 2.0], dtype=pl.Float32), pl.Float32),
    "double": (pl.Series([1.5, None, float("inf")]), pl.Float64),
    "decimal": (pl.Series([decimal.Decimal("1.25"), None, decimal.Decimal("-3.00")]), pl.Decimal(38, 2)),
    "date": (pl.Series([dt.date(1969, 1, 1), None, dt.date(2024, 1, 1)]), pl.Date),
    "category": (pl.Series(["q", None, "q"], dtype=pl.Categorical), pl.String),
    "enum": (pl.Series(["q", "r", None], dtype=pl.Enum(["q", "r"])), pl.String),
    "list": (pl.Series([[1, 2], [], None]), pl.List(pl.Int64)),
    "list of texts": (pl.Series([["a"], None, ["b", None]]), pl.List(pl.String)),
    "list of categories": (
        pl.Series([["a"], None, ["b", "a"]], dtype=pl.List(pl.Categorical)),
        pl.List(pl.String),
    ),
    "array": (pl.Series([[1, 2], [3, 4], None], dtype=pl.Array(pl.Int64, 2)), pl.List(pl.Int64)),
    "struct": (
        pl.Series([{"x": 1, "y": "t"}, {"x": None, "y": "u"}, {"x": 3, "y": None}]),
        pl.Struct({"x": pl.Int64, "y": pl.String}),
    ),
}


@pytest.fixture
def table(tmp_path: Path) -> hoodie.Table:
    return hoodie.Table(tmp_path / "t")


def rows(table: hoodie.Table) -> pl.DataFrame:
    return table.read().to_polars().sort("id")


def frame(values: pl.Series) -> pl.DataFrame:
    return pl.DataFrame({"id": ["a", "b", "c"], "v": values})


@pytest.mark.parametrize("kind", SERIES)
def test_types_go_into_a_table_and_come_back(table: hoodie.Table, kind: str) -> None:
    values, answered = SERIES[kind]
    table.upsert(frame(values), keys="id")
    found = rows(table)
    assert found.schema == {"id": pl.String, "v": answered}
    assert found["v"].to_list() == values.to_list()
    assert table.upsert(found).num_updates == 3, "an answer can be written again"


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris"])
def test_times(table: hoodie.Table, unit: Any, zone: str | None) -> None:
    """They are moments in a table, of which an answer says so; without a zone they are of UTC."""
    values = pl.Series([MOMENT, None, MOMENT]).dt.cast_time_unit(unit)
    if zone is not None:
        values = values.dt.replace_time_zone(zone)
    table.upsert(frame(values), keys="id")
    found = rows(table)["v"]
    assert found.dtype == pl.Datetime("us", "UTC")
    moment = MOMENT - dt.timedelta(hours=2 * (zone == "Europe/Paris"))
    assert found.dt.replace_time_zone(None).to_list() == [moment, None, moment]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_category_is_a_key_a_partition_and_an_ordering_value(tmp_path: Path, table_type: str) -> None:
    news = pl.DataFrame({"id": ["a", "b"], "day": ["mon", "tue"], "ts": ["1", "3"], "v": [1, 2]})
    kinds: Any = {"id": pl.Categorical, "day": pl.Enum(["mon", "tue"]), "ts": pl.Categorical}
    table = hoodie.Table(tmp_path / "t", options={"hoodie.datasource.write.table.type": table_type})
    words: dict[str, Any] = {"keys": "id", "partition_by": "day", "ordering": "ts"}
    assert table.upsert(news.cast(kinds), **words).num_inserts == 2
    later = news.with_columns(ts=pl.lit("2"), v=pl.lit(9, pl.Int64))
    assert table.upsert(later.cast(kinds)).num_updates == 1, "b has a newer row"
    assert rows(table).select("id", "day", "ts", "v").rows() == [("a", "mon", "2", 9), ("b", "tue", "3", 2)]
    assert table.delete(news.cast(kinds).head(1)).num_deletes == 1
    assert rows(table)["id"].to_list() == ["b"]


def test_lazy_frames_and_frames_of_several_chunks(table: hoodie.Table) -> None:
    part = pl.DataFrame({"id": ["a"], "v": pl.Series(["p"], dtype=pl.Categorical)})
    other = pl.DataFrame({"id": ["b"], "v": pl.Series(["q"], dtype=pl.Categorical)})
    table.upsert(pl.concat([part, other], rechunk=False), keys="id")
    assert rows(table).rows() == [("a", "p"), ("b", "q")]
    table.upsert(part.lazy().with_columns(v=pl.lit("r")))
    assert rows(table).rows() == [("a", "r"), ("b", "q")]


def test_categories_in_arrow_tables_and_files(tmp_path: Path) -> None:
    """Their dictionaries hold views of texts, as polars exports them."""
    news = frame(pl.Series(["q", None, "q"], dtype=pl.Categorical))
    news.write_ipc(tmp_path / "rows.arrow")
    for number, given in enumerate(
        (
            pa.table(news),
            pa.table(news).to_batches()[0],
            pa.RecordBatchReader.from_stream(news),
            ds.dataset(tmp_path / "rows.arrow", format="ipc"),
        )
    ):
        table = hoodie.Table(tmp_path / str(number))
        table.upsert(given, keys="id")
        assert rows(table)["v"].to_list() == ["q", None, "q"]


def test_answers(table: hoodie.Table) -> None:
    table.upsert(pl.DataFrame({"id": ["a", "b"], "v": [1, 2]}), keys="id")
    assert table.read(["v"], "v > 1").to_polars().rows() == [(2,)]
    assert table.read(where="v > 9").to_polars().schema == {"id": pl.String, "v": pl.Int64}
    assert pl.DataFrame(table.read(["id"], "v = 1")).rows() == [("a",)]
    changes = pl.DataFrame(table.changes(table.history()[-1]))
    assert changes.height == 0


def test_sql_takes_a_frame(table: hoodie.Table) -> None:
    table.upsert(pl.DataFrame({"id": ["a", "b"], "v": [1, 2]}), keys="id")
    news = pl.DataFrame({"id": pl.Series(["b", "c"], dtype=pl.Categorical), "v": [20, 30]})
    done = (
        table.merge(news, "source.id = target.id").when_matched_update_all().when_not_matched_insert_all()
    ).execute()
    assert (done.num_updates, done.num_inserts) == (1, 1)
    assert rows(table).rows() == [("a", 1), ("b", 20), ("c", 30)]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (pl.Series([dt.time(1)] * 3), "type time64.*cast it to int64 or string"),
        (pl.Series([dt.timedelta(1)] * 3), "type duration.*cast it to int64 or string"),
        (pl.Series([None] * 3), "holds only nulls; cast it"),
        (pl.Series([1, 2, 3], dtype=pl.UInt64), "type uint64.*cast it to int64"),
        (pl.Series([1, 2, 3], dtype=pl.Int128), "Arrow stream of a DataFrame is no table"),
    ],
)
def test_what_a_table_cannot_hold_is_named(table: hoodie.Table, values: pl.Series, said: str) -> None:
    with pytest.raises((InputError, SchemaError), match=said):
        table.upsert(frame(values), keys="id")
    assert not Path(table.path).exists()
