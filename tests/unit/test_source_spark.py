"""Sources of the Spark engine: the same rows and types as the local engine reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.engine.session import spark_session
from hoodie.errors import InputError
from hoodie.source import Source
from hoodie.source import arrow as local
from hoodie.source import spark as distributed
from tests.house.test_docs import PAGES, blocks
from tests.support.arrow import arrow_schema
from tests.unit.test_docs import KEYS, orders
from tests.unit.test_source_arrow import CSV

pytestmark = pytest.mark.spark

KNOWN = arrow_schema(
    [("id", pa.int32()), ("price", pa.decimal128(9, 2)), ("a", pa.list_(pa.float64())), ("day", pa.date32())]
)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with spark_session("local[1]") as session:
        yield session


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "a.csv").write_text(CSV)
    (folder / "none.csv").write_text("id,n\n")
    (folder / "zero.csv").write_text("")
    (folder / "bad.parquet").write_text("no parquet")
    (folder / "text.csv").write_text("id,price\nx,1\n")
    (folder / "a.json").write_text(
        '{"id": 1, "a": [1], "s": {"x": 1}, "z": null, "day": "2024-02-29",'
        ' "at": "2024-01-01T02:00:00+02:00"}\n'
        '{"id": 2, "a": [], "s": {"x": 2.5}, "day": null}\n'
    )
    (folder / "empty").mkdir()
    (folder / "united").mkdir()
    pq.write_table(pa.table({"id": [1], "a": ["x"]}), folder / "united" / "1.parquet")
    pq.write_table(pa.table({"id": [2], "b": [1.5]}), folder / "united" / "2.parquet")
    return folder


def rows(frame: Any) -> pa.Table:
    """Rows of either engine in one form: microseconds in UTC, columns by name, rows by id."""
    if isinstance(frame, pa.Table):
        found = frame
    else:
        found = frame.toArrow() if hasattr(frame, "toArrow") else frame.to_table()
    fields = []
    for field in found.schema:
        dtype = pa.timestamp("us", "UTC") if pa.types.is_timestamp(field.type) else field.type
        fields.append(pa.field(field.name, dtype))
    found = found.cast(pa.schema(fields))
    return found.select(sorted(found.column_names)).sort_by("id")


@pytest.mark.parametrize("name", ["a.csv", "none.csv", "a.json", "united"])
@pytest.mark.parametrize(
    "known", [pytest.param(None, id="no table", marks=pytest.mark.full), pytest.param(KNOWN, id="a table")]
)
def test_both_engines_read_the_same(name: str, known: pa.Schema | None, spark: Any, data: Path) -> None:
    source = Source.of(str(data / name))
    if name == "a.json" and known is not None:
        known = pa.schema([field for field in known if field.name != "price"])
    ours, theirs = rows(local.read(source, known)), rows(distributed.read(source, spark, known))
    assert ours.column_names == theirs.column_names
    assert [str(kind) for kind in ours.schema.types] == [
        str(kind).replace("element:", "item:") for kind in theirs.schema.types
    ]
    assert ours.to_pylist() == theirs.to_pylist()


@pytest.mark.parametrize("name", ["nosuch.parquet", "no*.json", "empty", "zero.csv"])
def test_no_such_source(name: str, spark: Any, data: Path) -> None:
    with pytest.raises(InputError, match="no such source") as caught:
        distributed.read(Source.of(str(data / name)), spark)
    assert str(data / name) in caught.value.message


def test_what_can_not_be_read_says_why_in_one_line(spark: Any, data: Path) -> None:
    with pytest.raises(
        InputError, match=r"can't read .*bad\.parquet as parquet: .*not a Parquet file"
    ) as caught:
        distributed.read(Source.of(str(data / "bad.parquet")), spark)
    assert "\n" not in caught.value.message
    with pytest.raises(InputError, match="can't read SELECT FROM WHERE as sql"):
        distributed.read(Source.of({"path": "SELECT FROM WHERE", "format": "sql"}), spark)


def test_a_malformed_value_is_no_null(spark: Any, data: Path) -> None:
    frame = distributed.read(Source.of(str(data / "text.csv")), spark, KNOWN)
    with pytest.raises(Exception, match=r"MALFORMED_RECORD|Malformed records"):
        frame.collect()


def test_queries_and_tables(spark: Any, tmp_path: Path) -> None:
    query = {"path": "SELECT 1 AS id, 'x' AS t", "format": "sql"}
    assert rows(distributed.read(Source.of(query), spark)).to_pylist() == [{"id": 1, "t": "x"}]
    path = str(tmp_path / "t")
    given = pa.table({"id": [1, 2], "t": ["a", "b"]})
    hoodie.write_table(given, path, options={"hoodie.datasource.write.recordkey.field": "id"})
    assert rows(distributed.read(Source.of({"path": path, "format": "table"}), spark)) == given
    with pytest.raises(InputError, match="is a Hudi table; read it with the source format 'table'"):
        distributed.read(Source.of(path), spark)


def test_the_examples_of_the_docs_run(spark: Any, tmp_path: Path) -> None:
    table = str(tmp_path / "orders")
    hoodie.write_table(orders(), table, options=KEYS)
    texts = [text for page in PAGES for text in blocks(page, "python") if "spark=spark" in text]
    assert texts
    for text in texts:
        values: dict[str, Any] = {"hoodie": hoodie, "spark": spark}
        exec(text.replace("/data/orders", table), values)  # noqa: S102
        assert values["frame"].count() == 3
