"""Sources of the local engine: which files, which types, and what is refused."""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import hoodie
import hoodie.source.text
from hoodie.engine.streams import Stream
from hoodie.errors import ConfigError, InputError
from hoodie.source import Format, Source
from hoodie.source.arrow import read
from hoodie.source.target import target_schema
from tests.support.arrow import arrow_schema

CSV = """\
id,n,price,at,zoned,day,time,text,quoted,nothing
1,5,1.5,2024-01-01 10:00:00,2024-01-01T10:00:00Z,2024-01-01,12:30:00,NA,"",
2,,2,2024-01-01 10:00:00.123456,2024-01-01T10:00:00+02:00,2024-01-02,12:31:00,x,"y,z",
"""
UTC = dt.timezone.utc


def rows(source: Any, known: pa.Schema | None = None) -> pa.Table:
    found = read(Source.of(source), known)
    assert not isinstance(found, pa.RecordBatchReader)
    return found if isinstance(found, pa.Table) else found.to_table()


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.csv", Format.CSV),
        ("a.CSV.gz", Format.CSV),
        ("in/*.json", Format.JSON),
        ("a.jsonl", Format.JSON),
        ("a.parquet", Format.PARQUET),
        ("memory://bucket/folder/", Format.PARQUET),
    ],
)
def test_the_suffix_tells_the_format(path: str, expected: Format) -> None:
    assert Source.of(path).format is expected


def test_the_first_file_of_a_folder_or_glob_tells_the_format(tmp_path: Path) -> None:
    write(tmp_path / "in" / "_SUCCESS", "")
    write(tmp_path / "in" / "part-0.csv", "id\n1\n")
    assert Source.of(str(tmp_path / "in")).format is Format.CSV
    assert Source.of(str(tmp_path / "in" / "part*")).format is Format.CSV


def test_csv_types_are_inferred_as_spark_does(tmp_path: Path) -> None:
    found = rows(write(tmp_path / "a.csv", CSV))
    assert [str(field.type) for field in found.schema][:3] == ["int64", "int64", "double"]
    assert found.drop_columns(["at"]).to_pylist() == [
        {
            "id": 1,
            "n": 5,
            "price": 1.5,
            "zoned": dt.datetime(2024, 1, 1, 10, tzinfo=UTC),
            "day": dt.date(2024, 1, 1),
            "time": "12:30:00",
            "text": "NA",
            "quoted": None,
            "nothing": None,
        },
        {
            "id": 2,
            "n": None,
            "price": 2.0,
            "zoned": dt.datetime(2024, 1, 1, 8, tzinfo=UTC),
            "day": dt.date(2024, 1, 2),
            "time": "12:31:00",
            "text": "x",
            "quoted": "y,z",
            "nothing": None,
        },
    ]
    assert found.schema.field("nothing").type == pa.string()
    assert found["at"].cast(pa.timestamp("us")).to_pylist()[1] == dt.datetime(2024, 1, 1, 10, 0, 0, 123456)


def test_the_tables_types_win_over_inferred_ones(tmp_path: Path) -> None:
    known = arrow_schema(
        [("id", pa.string()), ("n", pa.int32()), ("price", pa.decimal128(9, 2)), ("absent", pa.date32())]
    )
    found = rows(write(tmp_path / "a.csv", CSV), known)
    assert [found.schema.field(name).type for name in ("id", "n", "price")] == [
        pa.string(),
        pa.int32(),
        pa.decimal128(9, 2),
    ]
    assert found["price"].to_pylist() == [decimal.Decimal("1.50"), decimal.Decimal("2.00")]
    assert "absent" not in found.column_names


def test_a_value_that_is_not_of_the_tables_type_names_file_and_value(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,n\n1,many\n")
    with pytest.raises(InputError, match="many") as caught:
        rows(path, pa.schema([("n", pa.int32())]))
    assert "a.csv" in caught.value.message


def test_csv_options(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id;t\n007;-\n8;'a;b'\n")
    options = {"sep": ";", "quote": "'", "nullValue": "-", "inferSchema": False}
    assert rows({"path": path, "options": options}).to_pylist() == [
        {"id": "007", "t": None},
        {"id": "8", "t": "a;b"},
    ]
    with pytest.raises(ConfigError, match="no option seperator; it has header, inferSchema, sep"):
        rows({"path": path, "options": {"seperator": ";"}})
    with pytest.raises(ConfigError, match="inferSchema='maybe': expected true or false"):
        rows({"path": path, "options": {"inferSchema": "maybe"}})


def test_csv_in_other_encodings_and_compressed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("id,t\n1,é\n".encode("latin-1"))
    latin = {"path": str(tmp_path / "a.csv"), "options": {"encoding": "latin-1"}}
    assert rows(latin)["t"].to_pylist() == ["é"]
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"id,t\n1,x\n"))
    assert rows(str(tmp_path / "b.csv.gz")).to_pylist() == [{"id": 1, "t": "x"}]


def test_a_column_that_is_there_twice(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the column 'id' more than once"):
        rows(write(tmp_path / "a.csv", "id,n,id\n1,2,3\n"))


def test_json_lines(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.json",
        '{"id": 1, "t": "2024-01-01 10:00:00", "a": [1], "s": {"x": 1, "y": null}, "z": null}\n'
        '{"id": 2, "t": "2024-01-02 10:00:00", "a": [], "s": {"x": 2.5}, "z": null}\n',
    )
    assert rows(path).to_pylist() == [
        {"id": 1, "t": "2024-01-01 10:00:00", "a": [1], "s": {"x": 1.0, "y": None}, "z": None},
        {"id": 2, "t": "2024-01-02 10:00:00", "a": [], "s": {"x": 2.5, "y": None}, "z": None},
    ]
    known = pa.schema([("id", pa.int32()), ("a", pa.list_(pa.float64())), ("absent", pa.int32())])
    found = rows(path, known)
    assert found.schema.field("id").type == pa.int32()
    assert found["a"].to_pylist() == [[1.0], []]
    assert "absent" not in found.column_names


def test_dates_and_times_in_json_become_the_tables(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.json",
        '{"d": "2024-02-29", "s": {"ds": ["2024-01-01"]}, "t": "2024-01-01T02:00:00+02:00"}\n'
        '{"d": null, "t": "2024-01-01 00:00:00"}\n',
    )
    nested = pa.struct([("ds", pa.list_(pa.date32()))])
    found = rows(path, pa.schema([("d", pa.date32()), ("s", nested), ("t", pa.timestamp("us", "UTC"))]))
    midnight = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    assert found.to_pylist() == [
        {"d": dt.date(2024, 2, 29), "s": {"ds": [dt.date(2024, 1, 1)]}, "t": midnight},
        {"d": None, "s": None, "t": midnight},
    ]
    with pytest.raises(InputError, match="2024-02-30"):
        rows(write(tmp_path / "b.json", '{"d": "2024-02-30"}\n'), pa.schema([("d", pa.date32())]))


MANY = range(60)
CSV_BLOCKS = "id,real,late,when,word,flag,day,zoned,odd\n" + "".join(
    f"{i},{i if i < 40 else i + 0.5},{'' if i < 50 else i},2024-01-01{'' if i < 30 else ' 10:00:00'},"
    f"{i if i < 50 else 'N/A'},{0 if i < 55 else 'true'},2024-01-01,2024-01-01T10:00:00Z,"
    f"{'12:30' if i < 58 else '2024-01-01'}\n"
    for i in MANY
)
JSON_BLOCKS = "".join(
    f'{{"id": {i}, "t": "{"2024-01-01 10:00:00" if i < 50 else "x"}", '
    f'"s": {{"x": {i if i < 30 else i + 0.5}}}, "a": [{"" if i < 10 else i}], "z": null'
    + ("}\n" if i < 40 else ', "late": 1}\n')
    for i in MANY
)


@pytest.mark.parametrize(
    ("name", "text", "options", "known"),
    [
        ("a.csv", CSV_BLOCKS, {}, None),
        ("a.csv", CSV_BLOCKS, {"inferSchema": False}, None),
        ("a.csv", CSV_BLOCKS, {}, arrow_schema([("id", pa.int32()), ("real", pa.decimal128(9, 2))])),
        ("a.csv", CSV_BLOCKS.replace("\n", "\r\n"), {"encoding": "utf-16"}, None),
        ("a.csv", "id,q\n" + "".join(f'{i},"a\n""{i}"" , b"\n' for i in MANY), {"multiLine": True}, None),
        ("a.csv", "id,q\n" + "".join(f"{i},'a\\'\n'\n" for i in MANY),
         {"multiLine": True, "quote": "'", "escape": "\\"}, None),
        ("a.csv.gz", CSV_BLOCKS, {}, None),
        ("a.json", JSON_BLOCKS, {}, None),
        ("a.json", JSON_BLOCKS, {}, arrow_schema([("id", pa.float64()), ("none", pa.int32())])),
        ("a.json", '{"d": "2024-02-29", "s": {"ds": ["2024-01-01"]}}\n' * 9,
         {}, arrow_schema([("d", pa.date32()), ("s", pa.struct([("ds", pa.list_(pa.date32()))]))])),
    ],
)  # fmt: skip
def test_a_large_source_is_read_in_blocks_and_is_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    text: str,
    options: dict[str, Any],
    known: pa.Schema | None,
) -> None:
    for file in ("1-" + name, "2-" + name):
        data = text.encode(options.get("encoding", "utf8"))
        (tmp_path / file).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    source = {"path": str(tmp_path), "options": options}
    expected = rows(source, known)
    monkeypatch.setattr("hoodie.source.text.BLOCK_BYTES", 100)
    monkeypatch.setattr("hoodie.source.text.HELD_BYTES", 0)
    monkeypatch.setattr("hoodie.source.text._PART_BYTES", 100)
    found = read(Source.of(source), known)
    assert isinstance(found, Stream)
    assert len(found.parts) == 2
    batches = [batch for part in found.parts for batch in part()]
    # with an escape character the end of a value is not looked for
    assert "escape" in options or max(batch.num_rows for batch in batches) < len(MANY)
    assert pa.Table.from_batches(batches, found.schema) == expected
    assert found.to_table() == expected


@pytest.mark.parametrize("block", [1 << 20, 100, 30])
@pytest.mark.parametrize("letter", ['5" disk', 'x ""'])
@pytest.mark.parametrize("begin", ["", "\ufeff"])
def test_a_quote_within_a_value_is_a_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, letter: str, begin: str
) -> None:
    """A record is not cut at a line end in quotes."""
    monkeypatch.setattr("hoodie.source.text.BLOCK_BYTES", block)
    lines = [f'"{number}",{letter if number == 5 else "x"},"first\nsecond, third"\n' for number in range(30)]
    path = write(tmp_path / "a.csv", f'{begin}"id",what,note\n' + "".join(lines))
    found = rows({"path": path, "options": {"multiLine": True}})
    expected = pyarrow.csv.read_csv(path, parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True))
    assert found == expected
    assert found.column("id").to_pylist() == [*range(30)]
    assert set(found.column("note").to_pylist()) == {"first\nsecond, third"}


def test_a_value_in_a_later_block_that_is_not_of_the_tables_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoodie.source.text.BLOCK_BYTES", 64)
    path = write(tmp_path / "a.csv", "id,n\n" + "1,2\n" * 50 + "1,many\n")
    with pytest.raises(InputError, match=r"a\.csv.*many"):
        rows(path, pa.schema([("n", pa.int32())]))
    path = write(tmp_path / "a.json", '{"id": 1}\n' * 50 + '{"id": "x"}\n')
    with pytest.raises(InputError, match=r"can't read .*a\.json as json"):
        rows(path)


def test_parquet_files_of_different_schemas_are_united(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "a": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"id": pa.array([2], pa.int64()), "b": [1.5]}), tmp_path / "2.parquet")
    write(tmp_path / "_SUCCESS", "")
    write(tmp_path / ".1.parquet.crc", "crc")
    expected = [{"id": 1, "a": "x", "b": None}, {"id": 2, "a": None, "b": 1.5}]
    assert rows(str(tmp_path)).to_pylist() == expected
    assert rows([str(tmp_path / "1.parquet"), str(tmp_path / "2*")]).to_pylist() == expected
    assert rows(f"file://{tmp_path}/*.parquet").to_pylist() == expected


def test_hive_style_folders_become_columns(tmp_path: Path) -> None:
    for key in (1, 2):
        (tmp_path / f"k={key}").mkdir()
        pq.write_table(pa.table({"id": [key * 10]}), tmp_path / f"k={key}" / "a.parquet")
    assert rows(str(tmp_path)).to_pylist() == [{"id": 10, "k": 1}, {"id": 20, "k": 2}]


def test_a_source_without_rows_is_a_source(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([], pa.int32())}), tmp_path / "none.parquet")
    assert rows(str(tmp_path / "none.parquet")).schema == pa.schema([("id", pa.int32())])
    header = rows(write(tmp_path / "none.csv", "id,n\n"), pa.schema([("id", pa.int32())]))
    assert header.num_rows == 0
    assert header.schema == arrow_schema([("id", pa.int32()), ("n", pa.string())])


@pytest.mark.parametrize("name", ["nosuch.parquet", "no/*.csv", "empty", "zero.csv", "zero.json"])
def test_no_such_source_names_the_path(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "zero.csv", "")
    write(tmp_path / "zero.json", "")
    with pytest.raises(InputError, match="no such source") as caught:
        rows(str(tmp_path / name))
    assert str(tmp_path / name) in caught.value.message


@pytest.mark.parametrize(
    ("name", "text"), [("a.parquet", "no parquet"), ("a.json", '{"id": 1'), ("a.csv", "a\n1,2\n")]
)
def test_files_that_are_not_what_they_should_be(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"can't read .*{name} as ") as caught:
        rows(write(tmp_path / name, text))
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"path": "x", "formt": "csv"}, "a source has no formt; use path, format, options"),
        ({"path": "x", "format": "xlsx"}, "unknown source format 'xlsx'; use one of parquet, csv"),
        ({"path": ""}, "the source's path is ''"),
        ({"path": []}, r"the source's path is \[\]"),
        ({}, "the source's path is None"),
        ({"path": "x", "options": "sep=;"}, "source options are 'sep=;'"),
    ],
)
def test_bad_descriptions(value: Any, message: str) -> None:
    with pytest.raises((ConfigError, InputError), match=message):
        Source.of(value)


def test_what_the_local_engine_can_not_read() -> None:
    with pytest.raises(InputError, match="can't read ftp://b/x: no storage for scheme 'ftp'"):
        rows("ftp://b/x")
    with pytest.raises(ConfigError, match="no sql source; use the Spark engine"):
        rows({"path": "SELECT 1", "format": "sql"})


def test_a_table_as_source(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    given = pa.table({"id": ["a", "b"], "n": pa.array([1, 2], pa.int32())})
    options = {"hoodie.datasource.write.recordkey.field": "id"}
    hoodie.write_table(given, path, options=options)
    hoodie.write_table(given.slice(0, 1), path, options=options)
    assert rows({"path": path, "format": "table"}).sort_by("id") == given
    assert target_schema(path, {}) == given.schema
    assert target_schema(str(tmp_path / "none"), {}) is None
    with pytest.raises(ConfigError, match=r"hoodie\.write\.fsync='maybe'"):
        target_schema(path, {"hoodie.write.fsync": "maybe"})
    with pytest.raises(InputError, match="is a Hudi table; read it with the source format 'table'"):
        rows(path)


def test_a_table_as_source_has_the_rows_that_it_had_when_it_was_opened(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    given = pa.table({"id": ["a", "b"], "n": [1, 2]})
    hoodie.write_table(given, path, options={"hoodie.datasource.write.recordkey.field": "id"})
    found = read(Source.of({"path": path, "format": "table"}))
    assert isinstance(found, Stream)
    hoodie.write_table(pa.table({"id": ["b", "c"], "n": [3, 3], "more": ["x", "y"]}), path)
    for _ in range(2):
        assert found.to_table().sort_by("id") == given


NESTED = (
    '{"id": 2, "s": {"c": 2, "d": "new", "e": {"x": 2, "y": 1}}, "l": [{"w": [1.5]}, {"x": 1, "z": null}]}\n'
)


def test_new_fields_of_structs_in_json_are_added_to_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "1.json", '{"id": 1, "s": {"c": 1, "e": {"x": 1}}, "l": [{"x": 1}]}\n')
    write(tmp_path / "2.json", NESTED)
    write(tmp_path / "3.json", '{"id": 3, "s": {"f": 1}}\n' + '{"id": 4, "s": {"f": 1.5}}\n' * 20)
    options = {
        "hoodie.write.set.null.for.missing.columns": "true",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.metadata.enable": "false",
    }
    monkeypatch.setattr(hoodie.source.text, "BLOCK_BYTES", 40)
    for name in ("1", "2", "3"):
        hoodie.ingest(str(tmp_path / f"{name}.json"), str(tmp_path / "t"), options=options)
    found = hoodie.read_table(str(tmp_path / "t"), meta=False).sort_by("id").to_pylist()
    assert found[:2] == [
        {
            "id": 1,
            "s": {"c": 1, "e": {"x": 1, "y": None}, "d": None, "f": None},
            "l": [{"x": 1, "w": None, "z": None}],
        },
        {
            "id": 2,
            "s": {"c": 2, "e": {"x": 2, "y": 1}, "d": "new", "f": None},
            "l": [{"x": None, "w": [1.5], "z": None}, {"x": 1, "w": None, "z": None}],
        },
    ]
    assert [row["s"]["f"] for row in found[2:]] == [1.0, 1.5]


def test_a_nested_value_of_another_kind_than_the_tables_names_the_file(tmp_path: Path) -> None:
    known = pa.schema([("s", pa.struct([("c", pa.int64())])), ("l", pa.list_(pa.int64()))])
    for text in ('{"s": [1]}', '{"s": 1}', '{"l": {"x": 1}}', '{"l": ["x"]}', '{"s": {"c": {"x": 1}}}'):
        with pytest.raises(InputError, match=r"a\.json"):
            rows(write(tmp_path / "a.json", text + "\n"), known)


ARRAYS = {
    "lines": '[{"id": 1, "n": 1}, {"id": 2}]\n\n[{"id": 3, "n": 2.5}]\n[]\n',
    "whole": '\ufeff[\n  {"id": 1, "n": 1},\n  {"id": 2},\r\n  {"id": 3,\n "n": 2.5}\n]\n\n',
    "one": '[{"id": 1, "n": 1}, {"id": 2}, {"id": 3, "n": 2.5}]',
}


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("block", [16 << 20, 16])
def test_arrays_of_records_in_json(
    kind: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hoodie.source.text, "BLOCK_BYTES", block)
    path = write(tmp_path / "a.json", ARRAYS[kind])
    assert rows(path).to_pylist() == [{"id": 1, "n": 1.0}, {"id": 2, "n": None}, {"id": 3, "n": 2.5}]
    known = arrow_schema([("id", pa.string()), ("n", pa.decimal128(9, 2))])
    write(tmp_path / "b.json", '[{"id": "x",\n"n": 1.25, "l": [1]}]')
    assert rows(str(tmp_path / "b.json"), known).to_pylist() == [
        {"id": "x", "n": decimal.Decimal("1.25"), "l": [1]}
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2]",
        '[{"id": 1}, null]',
        '[[{"id": 1}]]',
        '[{"id": 1}',
        '[{"id": 1}] 2',
        '[{"id": 1}]\n{"id": 2}\n',
        '[{"id": 1}],"x":[]',
        '[{"id": 1}]}{"rows":[{"id": 2}]',
        '[{"id": 1},\n{"id": 2}],"rows":[{"id": 3}]',
    ],
)
def test_what_is_no_array_of_records_names_the_file(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.json"):
        rows(write(tmp_path / "a.json", text))


LONG = [10000000000000000001, 10000000000000000002, -9223372036854775809]
LONG_JSON = "".join(
    f'{{"id": {number}, "s": {{"l": [{number}]}}, "d": 1e300, "t": "5"}}\n' for number in LONG
)


def test_whole_numbers_beyond_64_bits_in_json_are_decimals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = rows(write(tmp_path / "a.json", LONG_JSON))
    assert found.schema.field("id").type == pa.decimal128(20, 0)
    for number, row in zip(LONG, found.to_pylist(), strict=True):
        assert row == {"id": number, "s": {"l": [number]}, "d": 1e300, "t": "5"}
    monkeypatch.setattr(hoodie.source.text, "BLOCK_BYTES", 40)
    options = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.metadata.enable": "false"}
    write(tmp_path / "b.json", '{"id": 5}\n' * 9 + "".join(f'{{"id": {number}}}\n' for number in LONG))
    hoodie.ingest(str(tmp_path / "b.json"), str(tmp_path / "t"), options=options)
    hoodie.ingest(str(write(tmp_path / "c.json", '{"id": 7}\n')), str(tmp_path / "t"), options=options)
    keys = hoodie.read_table(str(tmp_path / "t"))["_hoodie_record_key"].to_pylist()
    assert sorted(map(int, keys)) == sorted([5, 7, *LONG])
    with pytest.raises(InputError, match=r"d\.json"):
        rows(write(tmp_path / "d.json", f'{{"n": {LONG[0]}}}\n'), pa.schema([("n", pa.int64())]))


@pytest.mark.parametrize("block", [16 << 20, 30])
def test_whole_numbers_that_doubles_can_not_hold_are_refused_beside_fractions(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hoodie.source.text, "BLOCK_BYTES", block)
    for number in (9007199254740993, 10000000000000000001, -9007199254740993):
        for lines in ((number, 1.5), (1.5, number)):
            text = "".join(f'{{"id": 1, "v": {value}}}\n' for value in lines)
            with pytest.raises(InputError, match=rf"a\.json.*column v has {number}"):
                rows(write(tmp_path / "a.json", text))
    text = "".join(f'{{"id": 1, "v": {value}}}\n' for value in (9007199254740992, 1.5, "1e300"))
    assert rows(write(tmp_path / "a.json", text))["v"].to_pylist() == [9007199254740992.0, 1.5, 1e300]
    known = pa.schema([("v", pa.float64())])
    text = f'{{"v": {LONG[0]}}}\n'
    assert rows(write(tmp_path / "a.json", text), known)["v"].to_pylist() == [1e19]


def test_a_value_that_the_type_of_all_files_can_not_hold_names_its_file(tmp_path: Path) -> None:
    write(tmp_path / "a.json", '{"v": 1.5}\n')
    write(tmp_path / "b.json", '{"v": 9007199254740993}\n')
    with pytest.raises(InputError, match=r"b\.json.*9007199254740993"):
        rows(str(tmp_path))
