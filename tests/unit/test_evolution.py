"""Schema evolution: what may change, what is refused and how it is said, and rows brought to a schema."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.errors import InputError, SchemaError
from hoodie.format import evolution
from hoodie.format.evolution import conform, evolve, read_as
from hoodie.format.meta_fields import with_meta
from hoodie.format.schema import array_of, canonical, from_avro, map_of
from hoodie.timeline.commit import CommitMetadata
from tests.support.arrow import arrow_schema

UTC_MICROS = pa.timestamp("us", "UTC")
NUMBERS: list[pa.DataType] = [pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()]


def schema_of(**types: pa.DataType) -> pa.Schema:
    return pa.schema(list(types.items()))


def one(value: Any, source: pa.DataType, target: pa.DataType, how: Any = conform) -> Any:
    """One value of column `c` brought from one type to another."""
    rows = pa.table({"c": pa.array([value], source)})
    return how(rows, schema_of(c=target)).column("c").to_pylist()[0]


# --- schemas -------------------------------------------------------------------------------------------


def test_same_schema() -> None:
    table = schema_of(id=pa.string(), v=pa.int64())
    assert evolve(table, table, null_for_missing=False) == table
    assert evolve(with_meta(table), table, null_for_missing=False) == table


def test_order_of_the_incoming_columns_does_not_matter() -> None:
    table = schema_of(a=pa.int32(), b=pa.string())
    assert evolve(table, schema_of(b=pa.string(), a=pa.int32()), null_for_missing=False) == table


def test_new_columns_come_last_and_are_nullable() -> None:
    table = schema_of(a=pa.int32(), b=pa.string())
    incoming = pa.schema(
        [pa.field("x", pa.int8(), nullable=False), *table, pa.field("t", pa.timestamp("ms"))]
    )
    merged = evolve(table, incoming, null_for_missing=False)
    assert merged == schema_of(a=pa.int32(), b=pa.string(), x=pa.int32(), t=UTC_MICROS)
    assert merged.field("x").nullable


def test_nullability_widens() -> None:
    required, free = pa.field("a", pa.int32(), nullable=False), pa.field("a", pa.int32())
    for table, incoming, nullable in (
        (required, required, False),
        (required, free, True),
        (free, required, True),
    ):
        merged = evolve(pa.schema([table]), pa.schema([incoming]), null_for_missing=False)
        assert merged.field("a").nullable is nullable


@pytest.mark.parametrize("narrow", range(5))
@pytest.mark.parametrize("wide", range(5))
def test_widening(narrow: int, wide: int) -> None:
    """The wider of the two wins, whichever side it is on."""
    table, incoming = schema_of(c=NUMBERS[narrow]), schema_of(c=NUMBERS[wide])
    merged = evolve(table, incoming, null_for_missing=False)
    assert merged.field("c").type == NUMBERS[max(narrow, wide)]


def test_nested_changes() -> None:
    before = pa.struct([("a", pa.int32()), ("b", pa.string())])
    after = pa.struct([("n", pa.float32()), ("b", pa.string()), ("a", pa.int64())])
    merged = pa.struct([("a", pa.int64()), ("b", pa.string()), ("n", pa.float32())])
    for wrap in (lambda dtype: dtype, array_of, map_of, lambda dtype: pa.struct([("s", dtype)])):
        schema = evolve(schema_of(c=wrap(before)), schema_of(c=wrap(after)), null_for_missing=False)
        assert schema.field("c").type == wrap(merged)


@pytest.mark.parametrize(
    ("table", "incoming"),
    [
        (pa.decimal128(9, 2), pa.decimal128(7, 2)),
        (pa.decimal128(9, 2), pa.decimal128(8, 1)),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")),
        (UTC_MICROS, pa.timestamp("ns", "Asia/Tokyo")),
        (UTC_MICROS, pa.timestamp("s")),
        (pa.timestamp("us"), pa.timestamp("ms")),
    ],
)
def test_incoming_is_written_in_the_tables_type(table: pa.DataType, incoming: pa.DataType) -> None:
    merged = evolve(schema_of(c=table), schema_of(c=incoming), null_for_missing=False)
    assert merged.field("c").type == table


@pytest.mark.parametrize(
    ("table", "incoming", "texts"),
    [
        (pa.bool_(), pa.int32(), "table boolean, incoming int"),
        (pa.int64(), pa.bool_(), "table long, incoming boolean"),
        (pa.int64(), pa.decimal128(9, 2), "table long, incoming decimal(9,2)"),
        (pa.decimal128(9, 2), pa.int32(), "table decimal(9,2), incoming int"),
        (pa.decimal128(9, 2), pa.decimal128(10, 2), "table decimal(9,2), incoming decimal(10,2)"),
        (pa.decimal128(9, 2), pa.decimal128(9, 3), "table decimal(9,2), incoming decimal(9,3)"),
        (pa.date32(), pa.string(), "table date, incoming string"),
        (pa.string(), pa.date32(), "table string, incoming date"),
        (pa.string(), pa.binary(), "table string, incoming binary"),
        (pa.date32(), UTC_MICROS, "table date, incoming timestamp"),
        (pa.int64(), UTC_MICROS, "table long, incoming timestamp"),
        (pa.timestamp("us"), UTC_MICROS, "table timestamp without zone, incoming timestamp"),
        (array_of(pa.int32()), pa.int32(), "table array<int>, incoming int"),
        (array_of(pa.int32()), array_of(pa.bool_()), "c.element: table int, incoming boolean"),
        (map_of(pa.int32()), map_of(pa.binary()), "c.value: table int, incoming binary"),
        (pa.struct([("f", pa.int32())]), pa.struct([("f", pa.bool_())]), "c.f: table int, incoming boolean"),
        (pa.struct([("f", pa.int32())]), map_of(pa.int32()), "table struct<f:int>, incoming map<string,int>"),
    ],
)
def test_refused_types(table: pa.DataType, incoming: pa.DataType, texts: str) -> None:
    with pytest.raises(SchemaError) as caught:
        evolve(schema_of(c=table), schema_of(c=incoming), null_for_missing=True)
    assert f"column c: {texts}" in str(caught.value).replace("column c.", "column c: c.")
    assert "cast the column to" in str(caught.value)


def test_every_difference_is_listed() -> None:
    table = schema_of(a=pa.int32(), b=pa.string(), c=pa.struct([("x", pa.int32()), ("y", pa.int32())]))
    incoming = schema_of(a=pa.bool_(), B=pa.string(), c=pa.struct([("x", pa.date32())]), n=pa.int32())
    with pytest.raises(SchemaError) as caught:
        evolve(table, incoming, null_for_missing=False)
    message = str(caught.value)
    for part in (
        "column a: table int, incoming boolean",
        "column b: table string, missing in the input",
        "hoodie.write.set.null.for.missing.columns=true",
        "column c.x: table int, incoming date",
        "column c.y: table int, missing",
        "column B: the table spells it b",
    ):
        assert part in message


def test_missing_columns_as_null() -> None:
    table = arrow_schema(
        [
            pa.field("a", pa.int32()),
            pa.field("b", pa.string(), nullable=False),
            pa.field("c", pa.struct([("x", pa.int32()), ("y", pa.int32())])),
        ]
    )
    incoming = schema_of(a=pa.int32(), c=pa.struct([("y", pa.int32())]))
    merged = evolve(table, incoming, null_for_missing=True)
    assert merged.names == ["a", "b", "c"]
    assert merged.field("b").nullable
    assert merged.field("c").type == table.field("c").type


def test_unsupported_new_column() -> None:
    with pytest.raises(InputError, match="'u' has type uint64"):
        evolve(schema_of(a=pa.int32()), schema_of(a=pa.int32(), u=pa.uint64()), null_for_missing=False)


# --- rows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (7, pa.int8(), pa.int32(), 7),
        (4294967295, pa.uint32(), pa.int64(), 4294967295),
        (2**53, pa.int64(), pa.float64(), float(2**53)),
        (2**24, pa.int32(), pa.float32(), float(2**24)),
        (-12, pa.int64(), pa.string(), "-12"),
        (1.5, pa.float16(), pa.float32(), 1.5),
        (0.1, pa.float32(), pa.float64(), 0.1),
        (Decimal("1.5"), pa.decimal128(5, 1), pa.decimal128(9, 2), Decimal("1.50")),
        (Decimal("1.5"), pa.decimal256(5, 1), pa.decimal128(5, 1), Decimal("1.5")),
        ("é", pa.large_string(), pa.string(), "é"),
        ("é", pa.string_view(), pa.string(), "é"),
        ("é", pa.dictionary(pa.int8(), pa.large_string()), pa.string(), "é"),
        (5, pa.dictionary(pa.int8(), pa.int16()), pa.string(), "5"),
        (b"\x00", pa.large_binary(), pa.binary(), b"\x00"),
        (b"ab", pa.binary(2), pa.binary(), b"ab"),
        (date(2026, 1, 2), pa.date64(), pa.date32(), date(2026, 1, 2)),
        (None, pa.null(), pa.string(), None),
        ([1, None], pa.large_list(pa.int8()), array_of(pa.int64()), [1, None]),
        ([1, 2], pa.list_(pa.int32(), 2), array_of(pa.string()), ["1", "2"]),
        ([1, 2], pa.list_view(pa.int32()), array_of(pa.int64()), [1, 2]),
        ([("k", 1)], pa.map_(pa.large_string(), pa.int32()), map_of(pa.float64()), [("k", 1.0)]),
        ({"a": 1}, pa.struct([("a", pa.int32())]), pa.struct([("b", pa.string()), ("a", pa.string())]),
         {"b": None, "a": "1"}),
    ],
)  # fmt: skip
def test_values(value: Any, source: pa.DataType, target: pa.DataType, expected: Any) -> None:
    assert one(value, source, target) == expected
    assert one(value, source, target, read_as) == expected
    assert one(None, source, target) is None


def test_timestamps() -> None:
    noon = datetime(2026, 1, 2, 12, 0, 0, 5000)
    assert one(noon, pa.timestamp("ns"), UTC_MICROS) == noon.replace(tzinfo=timezone.utc)
    berlin = one(noon.replace(tzinfo=timezone.utc), pa.timestamp("ms", "Europe/Berlin"), UTC_MICROS)
    assert berlin == noon.replace(tzinfo=timezone.utc)
    with pytest.raises(InputError, match=r"column c: .*would lose data: 1\b.*correct the value"):
        one(1, pa.timestamp("ns"), UTC_MICROS)
    assert one(1001, pa.timestamp("ns"), UTC_MICROS, read_as).microsecond == 1


JAVA_TEXTS = [
    (1.0, "1.0"), (0.1, "0.1"), (-0.0, "-0.0"), (0.0, "0.0"), (100.0, "100.0"), (9999999.0, "9999999.0"),
    (1e7, "1.0E7"), (12345678.9, "1.23456789E7"), (0.001, "0.001"), (0.00099, "9.9E-4"), (1e-5, "1.0E-5"),
    (-1.25e-7, "-1.25E-7"), (1e22, "1.0E22"), (1.7976931348623157e308, "1.7976931348623157E308"),
    (123456.789, "123456.789"), (math.inf, "Infinity"), (-math.inf, "-Infinity"), (math.nan, "NaN"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), JAVA_TEXTS)
def test_text_of_floating_point_is_javas(value: float, text: str) -> None:
    assert one(value, pa.float64(), pa.string()) == text


@pytest.mark.parametrize(("value", "text"), [(0.1, "0.1"), (16777216.0, "1.6777216E7"), (3e-4, "3.0E-4")])
def test_text_of_floats_is_javas(value: float, text: str) -> None:
    assert one(value, pa.float32(), pa.string()) == text


@given(
    st.floats(allow_nan=False, min_value=-1e300, max_value=1e300).filter(lambda x: x == 0 or abs(x) > 1e-300)
)
def test_text_of_floating_point_reads_back(value: float) -> None:
    text = one(value, pa.float64(), pa.string())
    assert float(text) == value
    if value and "E" in text:
        assert not 1e-3 <= abs(value) < 1e7
        assert 1 <= abs(float(text.partition("E")[0])) < 10


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [
        (2**53 + 1, pa.int64(), pa.float64()),
        (2**24 + 1, pa.int32(), pa.float32()),
        (2**40, pa.int64(), pa.int32()),
        ([2**53 + 1], pa.list_(pa.int64()), array_of(pa.float64())),
    ],
)
def test_lossy_values(value: Any, source: pa.DataType, target: pa.DataType) -> None:
    with pytest.raises(InputError, match=r"column c.*does not fit"):
        one(value, source, target)


def test_old_files_round_as_hudi_does() -> None:
    assert one(2**53 + 1, pa.int64(), pa.float64(), read_as) == float(2**53)
    assert one(2**24 + 1, pa.int32(), pa.float32(), read_as) == float(2**24)
    with pytest.raises(InputError, match="does not fit"):
        one(2**40, pa.int64(), pa.int32(), read_as)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.string(), pa.int32()),
        (pa.bool_(), pa.string()),
        (pa.float64(), pa.int64()),
        (pa.float64(), pa.float32()),
        (UTC_MICROS, pa.int64()),
        (UTC_MICROS, pa.timestamp("us")),
        (pa.decimal128(9, 3), pa.decimal128(9, 2)),
        (pa.int32(), array_of(pa.int32())),
    ],
)
def test_types_that_do_not_widen(source: pa.DataType, target: pa.DataType) -> None:
    with pytest.raises(SchemaError, match=r"column c: .* can't be widened"):
        one(None, source, target)


def test_columns_are_ordered_filled_and_dropped() -> None:
    rows = pa.table({"b": [1, 2], "x": [0, 0], "a": ["p", None]})
    schema = schema_of(a=pa.string(), n=map_of(pa.int32()), b=pa.int64())
    expected = [{"a": "p", "n": None, "b": 1}, {"a": None, "n": None, "b": 2}]
    table = conform(rows, schema)
    assert isinstance(table, pa.Table)
    assert table.schema.equals(schema)
    assert table.to_pylist() == expected
    batch = conform(rows.to_batches()[0], schema)
    assert isinstance(batch, pa.RecordBatch)
    assert batch.schema.equals(schema)
    assert batch.to_pylist() == expected
    with pytest.raises(SchemaError, match="lack columns n"):
        conform(rows, schema, null_for_missing=False)


def test_unchanged_columns_are_not_copied() -> None:
    rows = pa.table({"a": pa.array([1, 2], pa.int64())})
    out = conform(rows, schema_of(a=pa.int64()))
    chunks: list[Any] = [rows.column("a").chunk(0), out.column("a").chunk(0)]
    before, after = (chunk.buffers()[1] for chunk in chunks)
    assert before is not None
    assert after is not None
    assert before.address == after.address


def test_columns_of_more_bytes_than_offsets_of_32_bits_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """They become several chunks: the limit is 2 GiB, here 40 bytes."""
    monkeypatch.setattr(evolution, "_MAX_CHUNK_BYTES", 40)
    texts = [f"text {number}" for number in range(11)] + ["x" * 50]
    rows = pa.table({"c": pa.array(texts, pa.large_string())})
    found = conform(rows, schema_of(c=pa.string())).column("c")
    assert (found.type, found.to_pylist()) == (pa.string(), texts)
    assert found.num_chunks > 3


def test_empty_tables() -> None:
    rows = pa.table({"a": pa.chunked_array([], pa.int8())})
    schema = schema_of(a=pa.int32(), b=array_of(pa.int32()))
    assert conform(rows, schema).to_pydict() == {"a": [], "b": []}
    assert conform(rows, schema).schema == schema
    empty = pa.table(
        {"a": pa.array([], pa.list_(pa.int8())), "m": pa.array([], pa.map_(pa.string(), pa.int8()))}
    )
    nested = schema_of(a=array_of(pa.int32()), m=map_of(pa.int32()))
    assert conform(empty, nested).schema == nested
    assert conform(empty, nested).num_rows == 0


def test_required_values() -> None:
    rows = pa.table({"a": [1, None], "l": [[1], [None]], "s": [{"f": 1}, None], "t": [{"f": 1}, {"f": None}]})
    inner = pa.struct([pa.field("f", pa.int32(), nullable=False)])
    with pytest.raises(InputError, match="column a is null in some rows"):
        conform(rows, pa.schema([pa.field("a", pa.int64(), nullable=False)]))
    with pytest.raises(InputError, match=r"column l\.element is null"):
        conform(rows, schema_of(l=array_of(pa.int64(), nullable=False)))
    assert conform(rows, schema_of(s=inner)).column("s").to_pylist() == [{"f": 1}, None]
    with pytest.raises(InputError, match=r"column t\.f is null"):
        conform(rows, schema_of(t=inner))
    with pytest.raises(InputError, match="column z is null"):
        conform(rows, pa.schema([pa.field("z", pa.int64(), nullable=False)]))


def _rows(depth: int) -> st.SearchStrategy[Any]:
    """Values of list<map<string, struct<a: int, b: list<int>>>>, nulls everywhere."""
    struct = st.fixed_dictionaries(
        {
            "a": st.none() | st.integers(-5, 5),
            "b": st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3),
        }
    )
    entries = st.dictionaries(st.text("xyz", max_size=2), st.none() | struct, max_size=3).map(
        lambda value: list(value.items())
    )
    return st.lists(st.none() | st.lists(st.none() | entries, max_size=depth), min_size=1, max_size=8)


@pytest.mark.parametrize("layout", [pa.list_, pa.large_list, pa.list_view, pa.large_list_view])
@given(values=_rows(3), data=st.data())
def test_nested_rows_and_slices(layout: Any, values: list[Any], data: st.DataObject) -> None:
    narrow = pa.struct([("a", pa.int8()), ("b", pa.large_list(pa.int16()))])
    wide = pa.struct([("b", array_of(pa.string())), ("n", pa.bool_()), ("a", pa.float64())])
    array = pa.array(values, layout(pa.map_(pa.large_string(), narrow)))
    start = data.draw(st.integers(0, len(values)))
    stop = data.draw(st.integers(start, len(values)))
    piece = pa.table({"c": array}).slice(start, stop - start)
    out = conform(piece, schema_of(c=array_of(map_of(wide))))
    out.validate(full=True)

    def widen(struct: Any) -> Any:
        if struct is None:
            return None
        texts = None if struct["b"] is None else [None if x is None else str(x) for x in struct["b"]]
        return {"b": texts, "n": None, "a": struct["a"]}

    expected = [
        row if row is None else [m if m is None else [(k, widen(v)) for k, v in m] for m in row]
        for row in values[start:stop]
    ]
    assert out.column("c").to_pylist() == expected


def test_fixed_size_lists_with_nulls_and_slices() -> None:
    rows = pa.table({"c": pa.array([[1, 2], None, [3, None], [5, 6]], pa.list_(pa.int8(), 2))})
    out = conform(rows.slice(1, 2), schema_of(c=array_of(pa.int64())))
    out.validate(full=True)
    assert out.column("c").to_pylist() == [None, [3, None]]


def test_nulls_that_hide_values() -> None:
    """A null list may cover children; they must not reach its neighbours."""
    child = pa.array([1, 2, 3, 4], pa.int32())
    validity = pa.py_buffer(bytes([0b101]))
    offsets = pa.array([0, 1, 3, 4], pa.int32()).buffers()[1]
    hidden = pa.Array.from_buffers(pa.list_(pa.int32()), 3, [validity, offsets], children=[child])
    out = conform(pa.table({"c": hidden}), schema_of(c=array_of(pa.int64())))
    assert out.column("c").to_pylist() == [[1], None, [4]]


def test_evolved_schema_takes_old_and_new_rows() -> None:
    old = pa.table({"id": ["a"], "v": pa.array([1], pa.int32()), "s": [{"x": 1}]})
    new = pa.table({"s": [{"y": 2.5, "x": 2}], "v": ["text"], "id": ["b"], "w": [b"w"]})
    schema = evolve(canonical(old.schema), new.schema, null_for_missing=False)
    rows = pa.concat_tables([read_as(old, schema), conform(new, schema)]).to_pylist()
    assert rows == [
        {"id": "a", "v": "1", "s": {"x": 1, "y": None}, "w": None},
        {"id": "b", "v": "text", "s": {"x": 2, "y": 2.5}, "w": b"w"},
    ]


def _last_schema(folder: Path) -> pa.Schema:
    commits = sorted((folder / ".hoodie").glob("*.commit")) + sorted(
        (folder / ".hoodie").glob("*.deltacommit")
    )
    text = CommitMetadata.parse(max(commits, key=lambda path: path.name).read_bytes()).schema_text()
    assert text is not None
    return with_meta(from_avro(text))


@pytest.mark.parametrize(
    "table", ["cow_types", "cow_schema_evo", "cow_bulk_insert_row_new", "cow_newlist_then_old"]
)
def test_golden_files_in_the_tables_last_schema(golden_tables: Path, table: str) -> None:
    """Every base file, 2-level and 3-level lists, older and newer schema, reads as the last schema."""
    folder = golden_tables / "0.15.0-v6" / table / "table"
    schema = _last_schema(folder)
    files = [path for path in sorted(folder.rglob("*.parquet")) if ".hoodie" not in path.parts]
    assert files
    for path in files:
        with pq.ParquetFile(path) as file:
            rows = file.read()
        out = read_as(rows, schema)
        assert out.schema.equals(schema)
        out.validate(full=True)
        for name in schema.names:
            expected = rows.column(name).to_pylist() if name in rows.schema.names else [None] * rows.num_rows
            assert _same(out.column(name).to_pylist(), expected), (path, name)


def _same(left: list[Any], right: list[Any]) -> bool:
    def plain(value: Any) -> Any:
        return "nan" if isinstance(value, float) and math.isnan(value) else value

    return [plain(value) for value in left] == [plain(value) for value in right]
