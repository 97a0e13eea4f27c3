"""What a refusal of a source says: the file, and the row and column where there is one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import hoodie
from hoodie.errors import InputError

OPTIONS = {"hoodie.datasource.write.recordkey.field": "id"}


def refusal(path: Path, **how: Any) -> str:
    """Of an ingestion of the folder `source`; the files are named by their names alone."""
    with pytest.raises(InputError) as caught:
        hoodie.ingest(str(path / "source"), str(path / "table"), options=OPTIONS, **how)
    return caught.value.message.replace(f"{path / 'source'}/", "")


def laid(path: Path, **files: bytes | str) -> None:
    """Files in the folder `source`; two underscores are a dot."""
    (path / "source").mkdir()
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (path / "source" / name.replace("__", ".")).write_bytes(data)


def avro(*keys: int | None) -> bytes:
    fields = [{"name": "id", "type": ["null", "long"]}]
    data = io.BytesIO()
    fastavro.writer(data, {"type": "record", "name": "r", "fields": fields}, [{"id": key} for key in keys])
    return data.getvalue()


def orc_keys(*keys: int | None) -> bytes:
    data = io.BytesIO()
    orc.write_table(pa.table({"id": pa.array(keys, pa.int64())}), data)
    return data.getvalue()


KEYLESS: dict[str, tuple[bytes, bytes]] = {
    "csv": (b"id,v\n1,2\n", b"id,v\n,3\n"),
    "json": (b'{"id": 1, "v": 2}\n', b'{"id": null, "v": 3}\n{"id": 4}\n'),
    "avro": (avro(1), avro(None)),
    "orc": (orc_keys(1), orc_keys(None)),
}


@pytest.mark.parametrize("kind", KEYLESS)
def test_a_refused_row_names_its_file(tmp_path: Path, kind: str) -> None:
    good, bad = KEYLESS[kind]
    laid(tmp_path, **{f"a__{kind}": good, f"b__{kind}": bad})
    said = refusal(tmp_path)
    assert "record key column 'id' is null" in said
    assert f"(read from b.{kind}" in said


def test_of_few_files_that_were_read_at_once_each_is_named(tmp_path: Path) -> None:
    laid(tmp_path, a__csv="id,v\n1,2\n", b__csv="id,v\n,3\n", c__csv="id,v\n4,3\n")
    assert refusal(tmp_path).endswith("(read from c.csv, or from b.csv, or from a.csv)")


def test_of_many_the_last_is_named(tmp_path: Path) -> None:
    laid(tmp_path, **{f"{number}__csv": f"id,v\n{number or ''},2\n" for number in range(8)})
    assert refusal(tmp_path).endswith("(read from 7.csv, or from 7 files before it)")


def test_of_json_the_line_and_the_column_are_named(tmp_path: Path) -> None:
    table = pa.table({"id": [1], "n": pa.array([1], pa.int32()), "day": pa.array([0], pa.date32())})
    hoodie.write_table(table, str(tmp_path / "table"), options=OPTIONS)
    lines = [f'{{"id": {number}, "n": {number}, "day": "2024-01-01"}}\n' for number in range(9)]
    laid(tmp_path, a__json="".join(lines))
    (tmp_path / "source" / "a.json").write_text("".join([*lines, lines[0].replace(' 0, "day', ' 2.5, "day')]))
    assert "a.json as json: line 10: column 'n': " in refusal(tmp_path)
    (tmp_path / "source" / "a.json").write_text("".join([*lines, lines[0].replace("01-01", "02-30"), *lines]))
    assert "a.json as json: line 10: column 'day': " in refusal(tmp_path)


def test_a_late_line_of_json_has_its_own_number(tmp_path: Path) -> None:
    """Arrow counts rows from where a part of the text begins that one of its threads reads."""
    lines = [f'{{"id": {number}, "v": 1}}\n' for number in range(200000)]
    laid(tmp_path, a__json="".join([*lines, '{"id": 1, "v": "x"}\n', *lines[:5]]))
    assert "line 200001: Column(/v) changed from number to string" in refusal(tmp_path)


def test_json_that_is_not_utf8_names_file_and_line(tmp_path: Path) -> None:
    laid(tmp_path, a__json=b'{"id": 1}\n{"id": 2, "v": "M\xfcller"}\n')
    assert "a.json as json: line 2: the text is not UTF-8 (byte 0xfc)" in refusal(tmp_path)


@pytest.mark.parametrize(
    "value",
    ['{"v": 9007199254740993}', "[1, 9007199254740993]", '[{"v": 9007199254740993}]', "[[9007199254740993]]"],
)
def test_a_whole_number_that_is_no_double_is_refused_at_any_depth(tmp_path: Path, value: str) -> None:
    other = value.replace("9007199254740993", "1.5")
    laid(tmp_path, a__json=f'{{"id": 1, "s": {value}}}\n{{"id": 2, "s": {other}}}\n')
    assert "column s has 9007199254740993 beside numbers with fractions" in refusal(tmp_path)


def test_numbers_of_other_columns_are_no_reason(tmp_path: Path) -> None:
    laid(
        tmp_path, a__json='{"id": 9007199254740993, "w": [9007199254740993], "v": [9007199254740992, 1.5]}\n'
    )
    hoodie.ingest(str(tmp_path / "source"), str(tmp_path / "table"), options=OPTIONS)
    [row] = hoodie.read_table(str(tmp_path / "table"), meta=False).to_pylist()
    assert row == {"id": 9007199254740993, "w": [9007199254740993], "v": [9007199254740992, 1.5]}


@pytest.mark.parametrize(
    ("name", "text"), [("a__csv", "id,f\n2,1e300\n"), ("a__json", '{"id": 2, "f": 1e300}\n')]
)
def test_a_number_that_no_float_is_near_is_refused(tmp_path: Path, name: str, text: str) -> None:
    table = pa.table({"id": [1], "f": pa.array([1.5], pa.float32())})
    hoodie.write_table(table, str(tmp_path / "table"), options=OPTIONS)
    laid(tmp_path, **{name: text})
    said = refusal(tmp_path)
    assert "1e300" in said
    assert "column" in said
    (tmp_path / "source" / name.replace("__", ".")).write_text(text.replace("1e300", "-Infinity"))
    hoodie.ingest(str(tmp_path / "source"), str(tmp_path / "table"), options=OPTIONS)
    found = hoodie.read_table(str(tmp_path / "table"), meta=False)
    assert sorted(found["f"].to_pylist()) == [float("-inf"), 1.5]


def test_arrays_of_json_may_begin_with_a_null(tmp_path: Path) -> None:
    laid(tmp_path, a__json='{"id": 1, "v": [null, 1]}\n{"id": 2, "v": []}\n{"id": 3, "v": [2, null]}\n')
    hoodie.ingest(str(tmp_path / "source"), str(tmp_path / "table"), options=OPTIONS)
    found = hoodie.read_table(str(tmp_path / "table"), meta=False).sort_by("id")
    assert found["v"].to_pylist() == [[None, 1], [], [2, None]]


def test_a_column_of_nulls_in_one_file_has_the_type_of_the_others(tmp_path: Path) -> None:
    laid(
        tmp_path,
        a__json='{"id": 1, "v": null, "s": {"a": null, "l": []}}\n',
        b__json='{"id": 2, "v": 5, "s": {"a": 6, "l": [{"x": 7}]}}\n',
    )
    hoodie.ingest(str(tmp_path / "source"), str(tmp_path / "table"), options=OPTIONS)
    found = hoodie.read_table(str(tmp_path / "table"), meta=False).sort_by("id")
    assert found.drop_columns(["id"]).to_pylist() == [
        {"v": None, "s": {"a": None, "l": []}},
        {"v": 5, "s": {"a": 6, "l": [{"x": 7}]}},
    ]


def test_a_column_that_a_file_has_twice_is_named(tmp_path: Path) -> None:
    twice = pa.Table.from_arrays([pa.array([1])] * 3, names=["id", "v", "v"])
    data = io.BytesIO()
    pq.write_table(twice, data)
    laid(tmp_path, a__parquet=data.getvalue())
    assert refusal(tmp_path) == "a.parquet has the column 'v' more than once; rename one of them"


def test_a_column_of_a_parquet_file_is_not_that_of_its_folder(tmp_path: Path) -> None:
    """Of the same type; of another one it is refused, too."""
    for kind in (pa.int32(), pa.int64()):
        folder = tmp_path / str(kind)
        (folder / "source" / "d=5").mkdir(parents=True)
        pq.write_table(
            pa.table({"id": [1], "d": pa.array([3], kind)}), folder / "source" / "d=5" / "a.parquet"
        )
        assert "d=5/a.parquet has the column 'd' more than once" in refusal(folder)
