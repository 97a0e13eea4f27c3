"""CSV files as they are in the wild: a value is kept as it stands in the file, or refused with its place."""

from __future__ import annotations

import datetime as dt
import gzip
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError, InputError
from hoodie.source import Source
from hoodie.source.arrow import read
from tests.support.odd_csv import odd_files

UTC = dt.timezone.utc
#: CSV in a sense that is not this package's
REFUSED = {"lines", "escaped", "twice"}
MOMENT = pa.schema([("id", pa.int64()), ("t", pa.timestamp("us", "UTC"))])


@pytest.fixture(params=[16 << 20, 64], ids=["one block", "blocks"])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("hoodie.source.text.BLOCK_BYTES", request.param)
    return int(request.param)


class Files:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, name: str, content: str | bytes) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    def rows(self, content: str | bytes, known: pa.Schema | None = None, **options: Any) -> pa.Table:
        return rows({"path": self.put("a.csv", content), "options": options}, known)

    def refusal(self, content: str | bytes, known: pa.Schema | None = None, **options: Any) -> str:
        with pytest.raises(InputError) as caught:
            self.rows(content, known, **options)
        assert str(self.folder / "a.csv") in caught.value.message
        assert "\n" not in caught.value.message
        return str(caught.value.message)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "in")


def rows(source: Any, known: pa.Schema | None = None) -> pa.Table:
    found: Any = read(Source.of(source), known)
    return found if isinstance(found, pa.Table) else found.to_table()


@pytest.mark.parametrize("value", ["Müller".encode("latin-1"), "5 €".encode("cp1252"), b"\xff\xfe"])
def test_text_that_is_not_utf8_is_refused(files: Files, block: int, value: bytes) -> None:
    text = b"id,name\n" + b"1,Smith\n" * 50
    assert "line 52: the text is not UTF-8 (byte 0x" in files.refusal(text + b"2," + value + b"\n3,x\n")
    assert "line 1: the text is not UTF-8" in files.refusal(b"id," + value + b"\n1,x\n")


def test_with_its_encoding_it_is_read(files: Files) -> None:
    for encoding in ("windows-1252", "UTF-8", "utf-16"):
        text = "id,name\n1,5 €\n2,é\n".encode(encoding)
        assert files.rows(text, encoding=encoding)["name"].to_pylist() == ["5 €", "é"]
    assert "can't decode byte 0x81" in files.refusal(b"id,name\n1,\x81\n", encoding="windows-1252")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["10000000000000000001", "10000000000000000002"], pa.string()),
        (["-9223372036854775809", "1"], pa.string()),
        (["9223372036854775807", "-9223372036854775808"], pa.int64()),
        (["9007199254740993", "1.5"], pa.string()),
        (["12345678901234567.89", "1"], pa.string()),
        (["1e20", "9007199254740991", "0.5"], pa.float64()),
        (["1e400", "1"], pa.string()),
        (["inf", "NaN", "-Infinity"], pa.float64()),
        (["0x10", "7"], pa.string()),
        (["+4930123456", "+1.5"], pa.string()),
        (["1e+5", "2.5"], pa.float64()),
        (["true", "1"], pa.string()),
        (["true", "FALSE"], pa.bool_()),
        (["14:05", "23:59:59"], pa.string()),
        (["14:05", "2024-01-01"], pa.string()),
        (["2024-01-01", "2024-01-01 10:00:00"], None),
        (["2024-01-01 10:00:00", "2024-01-01T10:00:00Z"], pa.string()),
        (["2024-01-01", "5"], pa.string()),
    ],
)
def test_the_type_of_a_new_column_holds_its_values(
    files: Files, block: int, values: list[str], kind: pa.DataType | None
) -> None:
    """Whichever blocks, or files, they are in."""
    lines = [f"{number},{value}\n" for value in values for number in range(20)]
    wanted = [value for value in values for _ in range(20)]
    for name in ("a", "b"):
        files.put(f"{name}.csv", "id,v\n" + "".join(lines if name == "a" else lines[::20]))
    found = rows(str(files.folder))
    got = found["v"]
    assert found.num_rows == 21 * len(values)
    if kind == pa.string():
        assert got.to_pylist()[: len(lines)] == wanted
    if kind is not None:
        assert got.type == kind
    else:
        assert {str(value) for value in got.to_pylist()} == {"2024-01-01 00:00:00", "2024-01-01 10:00:00"}


def test_files_whose_types_differ_have_their_texts(files: Files, tmp_path: Path) -> None:
    files.put("a.csv", "id,v\n1,1.50\n")
    files.put("b.csv", "id,v\n2,x\n")
    assert rows(str(files.folder))["v"].to_pylist() == ["1.50", "x"]
    errors = str(tmp_path / "errors")
    options = {"hoodie.datasource.write.recordkey.field": "id"}
    hoodie.ingest(str(files.folder), str(tmp_path / "t"), error_table=errors, options=options)
    assert sorted(hoodie.read_table(str(tmp_path / "t"), columns=["v"])["v"].to_pylist()) == ["1.50", "x"]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("9999-12-31 23:59:59.999999", dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),
        ("0001-01-01T00:00:00.5", dt.datetime(1, 1, 1, 0, 0, 0, 500000)),
        ("2024-01-02", dt.datetime(2024, 1, 2)),
        ("9999-12-31", dt.datetime(9999, 12, 31)),
        ("2024-01-02T10:00:00+02:00", dt.datetime(2024, 1, 2, 8, tzinfo=UTC)),
        ("9999-12-31T23:59:59.999999Z", dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        ("", None),
    ],
)
def test_timestamps(files: Files, block: int, value: str, wanted: dt.datetime | None) -> None:
    for known in (None, MOMENT):
        found = files.rows("id,t\n" + f"1,{value}\n" * 20, known)["t"]
        if known is None and wanted is not None and len(value) == 10:
            assert found.to_pylist() == [wanted.date()] * 20
        else:
            assert [str(moment) for moment in found.to_pylist()] == [str(wanted)] * 20


@pytest.mark.parametrize("value", ["noon", "14:05", "5", "true", "2024-01-02 25:00:00", "31.12.2024"])
def test_what_is_no_timestamp_is_refused(files: Files, value: str) -> None:
    message = files.refusal(f"id,t\n1,2024-01-01 00:00:00\n2,{value}\n", MOMENT)
    assert value in message or "column 't'" in message


def test_a_value_that_does_not_fit_is_named_with_row_and_column(files: Files, block: int) -> None:
    known = pa.schema([("n", pa.int32())])
    message = files.refusal("id,n\n" + "1,2\n" * 50 + "1,many\n", known)
    assert "column 'n': row 52: no value to int32: invalid value 'many'" in message
    assert "row 52: Expected 2 columns, got 3: 1,2,3" in files.refusal("id,n\n" + "1,2\n" * 50 + "1,2,3\n")


OPEN = "value 2: the quote that begins it does not end in the line; .*multiLine=true"
QUOTES = {
    "stray": ('2,"5 inch\n', OPEN),
    "line end": ('2,"a\nb,c"\n', OPEN),
    "goes on": ('2,"5" inch\n', "value 2: the value in quotes goes on after the quote that ends it"),
    "blank": ('2,"5" ,x\n', "value 2: the value in quotes goes on"),
    "first": ('"2" x,y\n', "value 1: the value in quotes goes on"),
}


@pytest.mark.parametrize("end", ["\n", ""])
@pytest.mark.parametrize("name", [*QUOTES])
def test_a_quote_that_does_not_end_is_refused(files: Files, block: int, name: str, end: str) -> None:
    text, message = QUOTES[name]
    before, after = "id,v\n" + "1,x\n" * 50, "3,x\n" * 50
    with pytest.raises(InputError, match=rf"a\.csv as csv: line 52: {message}"):
        files.rows(before + text + after)
    with pytest.raises(InputError, match=rf"a\.csv as csv: line 52: {message}"):
        files.rows(before + text.rstrip("\n") + end)


def test_quotes_that_are_csv(files: Files, block: int) -> None:
    text = '"id",v\n' + '1,"a ""b"", c"\n2,5" disk\n3,""\n4,""""\n5,C:\\dir\\\n6,"C:\\"\n' * 9
    found = files.rows("\ufeff" + text)
    assert found.column_names == ["id", "v"]
    assert found["v"].to_pylist() == ['a "b", c', '5" disk', None, '"', "C:\\dir\\", "C:\\"] * 9
    assert files.rows(text.replace("\n", "\r\n")) == found
    assert files.rows(text.replace("\n", "\r")) == found
    assert files.rows(text, escape='"') == found
    assert files.rows(text, multiLine=True) == found
    assert files.rows('id,v\n1,"x\n', quote="")["v"].to_pylist() == ['"x']


def test_values_of_several_lines(files: Files, block: int) -> None:
    text = "id,v\n" + "".join(f'{number},"{number} Street\r\nTown, ""IL"""\n' for number in range(60))
    found = files.rows(text, multiLine=True)
    assert found["v"].to_pylist() == [f'{number} Street\r\nTown, "IL"' for number in range(60)]
    assert files.rows(text.rstrip("\n"), multiLine=True) == found
    message = files.refusal(text + '60,"open\n61,x\n', multiLine=True)
    assert "line 122: value 2: the quote that begins it does not end in the file" in message


def test_an_escape_is_for_quotes(files: Files, block: int) -> None:
    assert files.rows('id,v\n1,"5\\" disk"\n', escape="\\")["v"].to_pylist() == ['5" disk']
    for value in ("C:\\dir", '"C:\\dir"', '"a\\\\"', '"a""b"'):
        assert "line 2: value 2: " in files.refusal(f"id,v\n1,{value}\n", escape="\\")


@pytest.mark.parametrize(
    "options",
    [{"sep": "||"}, {"sep": ""}, {"quote": "''"}, {"escape": "é"}, {"sep": '"'}, {"encoding": "nosuch"}],
)
def test_options_that_are_none(files: Files, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"source option {next(iter(options))}="):
        files.rows("id\n1\n", **options)


def test_tabs(files: Files) -> None:
    assert files.rows("id\tv\n1\tx,y\n", sep="\\t").to_pylist() == [{"id": 1, "v": "x,y"}]


@pytest.mark.parametrize("header", ["id,v", "id,v\n", "\ufeffid,v", "\n\nid,v", "id,v" + "\n" * 99])
def test_a_header_alone_is_a_source_without_rows(files: Files, block: int, header: str) -> None:
    found = files.rows(header)
    assert (found.num_rows, found.column_names) == (0, ["id", "v"])


@pytest.mark.parametrize("errors", [False, True], ids=["", "error table"])
@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "no gzip"])
def test_damaged_files_are_named(tmp_path: Path, damage: str, errors: bool) -> None:
    lines = [f"{number},{zlib.crc32(b'%d' % number)}\n" for number in range(5000)]
    whole = gzip.compress("".join(["id,v\n", *lines]).encode())
    content = {
        "cut": whole[:-900],
        "changed": whole[:9000] + b"\0\0\0\0" + whole[9004:],
        "empty": gzip.compress(b""),
        "no gzip": b"id,v\n1,2\n",
    }[damage]
    files = Files(tmp_path / "in")
    files.put("a.csv", "id,v\n1,2\n")
    path = files.put("b.csv.gz", content)
    given: dict[str, Any] = {"error_table": str(tmp_path / "errors")} if errors else {}
    options = {"hoodie.datasource.write.recordkey.field": "id"}
    with pytest.raises(InputError) as caught:
        hoodie.ingest(str(tmp_path / "in"), str(tmp_path / "t"), options=options, **given)
    assert path in caught.value.message
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_columns_in_names_of_folders(files: Files, tmp_path: Path, kind: str) -> None:
    text = {"csv": "id,v\n1,2\n", "json": '{"id":1,"v":2}\n'}[kind]
    for folder in ("year=2024/town=New%20York", "year=2023/town=__HIVE_DEFAULT_PARTITION__"):
        files.put(f"{folder}/a.{kind}", text)
    found = rows(str(files.folder))
    assert sorted(map(str, found.to_pylist())) == [
        "{'id': 1, 'v': 2, 'year': 2023, 'town': None}",
        "{'id': 1, 'v': 2, 'year': 2024, 'town': 'New York'}",
    ]
    assert found.schema.field("year").type == pa.int32()
    typed = rows(str(files.folder), pa.schema([("year", pa.string()), ("town", pa.string())]))
    assert {*typed["year"].to_pylist()} == {"2023", "2024"}
    with pytest.raises(InputError, match=r"the folder town=New York has no int64.*'town'"):
        rows(str(files.folder), pa.schema([("town", pa.int64())]))
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "year",
    }
    errors = str(tmp_path / "errors")
    result = hoodie.ingest(str(files.folder), str(tmp_path / "t"), options=options, error_table=errors)
    assert result.num_bad_rows == 0
    written = hoodie.read_table(str(tmp_path / "t"), columns=["year"])
    assert sorted(written["year"].to_pylist()) == [2023, 2024]


def test_a_column_that_a_folder_has_too_is_refused(files: Files) -> None:
    files.put("year=2024/a.csv", "id,year\n1,2023\n")
    with pytest.raises(InputError, match="the column 'year' more than once"):
        rows(str(files.folder))


def test_the_error_table_takes_lines_that_are_no_csv(files: Files, tmp_path: Path) -> None:
    lines = ['2,"5 inch', '3,"a', 'b,c"', "4,x,y", '5,"x" y']
    path = files.put("a.csv", "id,v\n1,x\n" + "\n".join(lines) + "\n6,z\n")
    files.put("b.csv", b"id,v\n7,M\xfcller\n8,ok\n")
    options = {"hoodie.datasource.write.recordkey.field": "id"}
    errors = str(tmp_path / "errors")
    found = hoodie.ingest(str(files.folder), str(tmp_path / "t"), error_table=errors, options=options)
    assert found.num_bad_rows == 6
    bad = hoodie.read_table(errors, meta=False).sort_by([("file", "ascending"), ("position", "ascending")])
    assert [row["record"] for row in bad.to_pylist() if row["file"] == path] == lines
    taken = hoodie.read_table(str(tmp_path / "t"), columns=["id", "v"]).to_pylist()
    assert sorted((row["id"], row["v"]) for row in taken) == [(1, "x"), (6, "z"), (8, "ok")]


def test_each_value_is_that_of_the_text_or_the_file_is_refused(files: Files) -> None:
    wrong = []
    for odd in odd_files():
        path = files.put("a.csv", odd.text)
        records = odd.records()
        try:
            found = rows({"path": path, "options": odd.options}, odd.known)
        except InputError as error:
            named = path in error.message or "more than once" in error.message
            if not named or not (records is None or odd.known is not None or odd.name in REFUSED):
                wrong.append((odd.name, error.message))
            continue
        if not odd.kept(found):
            wrong.append((odd.name, str(found.to_pylist()[-2:])))
    assert wrong == []
