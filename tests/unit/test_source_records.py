"""Sources of Avro and ORC, and of formats that there is no reader for."""

from __future__ import annotations

import bz2
import datetime as dt
import io
import lzma
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.codec.avro import AvroFile
from hoodie.errors import InputError
from tests.support.record_files import FULL, NONE, avro_file, orc_file, orc_table, read_as

OPTIONS = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.metadata.enable": "false"}


def taken(source: Any, table: Path, **given: Any) -> list[dict[str, Any]]:
    hoodie.ingest(source, str(table), options=OPTIONS, **given)
    rows: list[dict[str, Any]] = hoodie.read_table(str(table), meta=False).sort_by("id").to_pylist()
    return rows


def packed(data: bytes, codec: str) -> bytes:
    """A block as Avro's codec has it; fastavro has some with further packages only."""
    if codec == "bzip2":
        return bz2.compress(data)
    if codec == "xz":
        return lzma.compress(data)
    if codec == "zstandard":
        found: bytes = pa.Codec("zstd").compress(data, asbytes=True)
        return found
    snappy: bytes = pa.Codec("snappy").compress(data, asbytes=True)
    return snappy + zlib.crc32(data).to_bytes(4, "big")


def number(value: int) -> bytes:
    out, value = b"", value << 1
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def recoded(path: Path, codec: str) -> None:
    data = path.read_bytes()
    file = AvroFile(io.BytesIO(data))
    sync = data[-16:]
    head = data[: data.index(sync) + 16].replace(
        number(len("avro.codec")) + b"avro.codec" + number(4) + b"null",
        number(len("avro.codec")) + b"avro.codec" + number(len(codec)) + codec.encode(),
    )
    body = b""
    for count, block in file.blocks():
        text = packed(block, codec)
        body += number(count) + number(len(text)) + text + sync
    path.write_bytes(head + body)


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "zstandard", "snappy"])
def test_avro_of_all_codecs(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    avro_file(path, [FULL, NONE], codec=codec if codec == "deflate" else "null", sync_interval=10)
    if codec not in ("null", "deflate"):
        recoded(path, codec)
    assert taken(str(path), tmp_path / "t") == [read_as(FULL), read_as(NONE)]


def test_avro_types_are_those_of_the_schema(tmp_path: Path) -> None:
    avro_file(tmp_path / "a.avro", [FULL])
    avro_file(tmp_path / "b.avro", [])
    taken(str(tmp_path), tmp_path / "t")
    found = hoodie.read_table(str(tmp_path / "t"), meta=False).schema
    assert [str(kind) for kind in found.types[:11]] == [
        "string",
        "int64",
        "int32",
        "float",
        "bool",
        "binary",
        "string",
        "date32[day]",
        "timestamp[us, tz=UTC]",
        "decimal128(20, 2)",
        "string",
    ]
    assert taken(str(tmp_path / "b.avro"), tmp_path / "empty") == []


def test_times_of_avro_beyond_pythons_years_are_kept(tmp_path: Path) -> None:
    kind = {"type": "long", "logicalType": "timestamp-micros"}
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "id", "type": "string"}, {"name": "t", "type": kind}],
    }
    path = tmp_path / "a.avro"
    avro_file(path, [{"id": "a", "t": 1 << 60}], schema)
    hoodie.ingest(str(path), str(tmp_path / "t"), options=OPTIONS)
    assert hoodie.read_table(str(tmp_path / "t"))["t"].cast(pa.int64()).to_pylist() == [1 << 60]


def test_orc(tmp_path: Path) -> None:
    path = orc_file(tmp_path / "a.orc")
    assert taken(path, tmp_path / "t") == orc_table().to_pylist()


@pytest.mark.parametrize("kind", ["avro", "orc"])
def test_a_source_of_several_files(kind: str, tmp_path: Path) -> None:
    """Their schemas are united; SQL, transforms and error tables see them."""
    folder = tmp_path / "in"
    folder.mkdir()
    rows = [{"id": "a", "n": 1}, {"id": "", "n": 2}]
    more = [{"id": "b", "w": 1.5}]
    if kind == "orc":
        orc_file(folder / "1.orc", pa.Table.from_pylist(rows))
        orc_file(folder / "2.orc", pa.Table.from_pylist(more))
    else:
        fields = {
            name: {"name": name, "type": type_}
            for name, type_ in (("id", "string"), ("n", "long"), ("w", "double"))
        }
        for name, records, names in (("1", rows, ("id", "n")), ("2", more, ("id", "w"))):
            schema = {"type": "record", "name": "R", "fields": [fields[item] for item in names]}
            avro_file(folder / f"{name}.avro", records, schema)
    found = hoodie.sql("SELECT * FROM s ORDER BY id", tables={"s": {"source": str(folder)}}).to_pylist()
    assert found == [
        {"id": "", "n": 2, "w": None},
        {"id": "a", "n": 1, "w": None},
        {"id": "b", "n": None, "w": 1.5},
    ]
    assert taken(str(folder), tmp_path / "x", transform="SELECT id || 'x' AS id FROM source WHERE n = 1") == [
        {"id": "ax"}
    ]
    assert taken(str(folder), tmp_path / "t", error_table=str(tmp_path / "e")) == found[1:]
    (bad,) = hoodie.read_table(str(tmp_path / "e")).to_pylist()
    assert (bad["file"], bad["error"]) == (
        str(folder / f"1.{kind}"),
        "record key id is null or missing, or empty",
    )
    (folder / f"3.{kind}").write_bytes((folder / f"2.{kind}").read_bytes()[:-3])
    (folder / f"1.{kind}").unlink()
    for given in ({}, {"error_table": str(tmp_path / "e")}, {"transform": "SELECT * FROM source"}):
        with pytest.raises(InputError) as caught:
            taken(str(folder), tmp_path / "u", **given)
        assert f"3.{kind}" in caught.value.message


def test_what_avro_files_can_not_be(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    avro_file(path, [FULL, NONE], codec="deflate", sync_interval=10)
    whole = path.read_bytes()
    for content in (
        b"Obj",
        b"no avro",
        whole[:200],
        whole[:-1],
        whole[:-40],
        whole[:-30] + bytes(14) + whole[-16:],
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"a\.avro") as caught:
            taken(str(path), tmp_path / "t")
        assert "\n" not in caught.value.message
    for kind in (["int", "string"], "null", {"type": "fixed", "name": "D", "size": 12, "logicalType": "x"}):
        schema = {
            "type": "record",
            "name": "R",
            "fields": [{"name": "id", "type": "string"}, {"name": "v", "type": kind}],
        }
        value = {"null": None}.get(str(kind), b"x" * 12 if isinstance(kind, dict) else 5)
        avro_file(path, [{"id": "a", "v": value}], schema)
        if isinstance(kind, dict):
            assert taken(str(path), tmp_path / "f") == [{"id": "a", "v": b"x" * 12}]
            continue
        with pytest.raises(InputError, match=r"a\.avro.*'v'"):
            taken(str(path), tmp_path / "t")
    avro_file(path, [5], "int")
    with pytest.raises(InputError, match=r"a\.avro.*record"):
        taken(str(path), tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_a_time_that_orc_can_not_give_names_the_file(tmp_path: Path) -> None:
    """Arrow reads ORC's times as nanoseconds."""
    times = pa.array([dt.datetime(9999, 12, 31)], pa.timestamp("us"))
    path = orc_file(tmp_path / "a.orc", pa.table({"id": ["a"], "t": times}))
    with pytest.raises(InputError, match=r"a\.orc.*out of range"):
        taken(path, tmp_path / "t")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("kind", ["avro", "orc"])
def test_names_of_folders_are_columns(kind: str, tmp_path: Path) -> None:
    for year, name in ((2024, "a"), (2025, "b")):
        folder = tmp_path / "in" / f"year={year}" / "shop=x%2Fy"
        folder.mkdir(parents=True)
        schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}]}
        if kind == "orc":
            orc_file(folder / "1.orc", pa.table({"id": [name]}))
        else:
            avro_file(folder / "1.avro", [{"id": name}], schema)
    assert taken(str(tmp_path / "in"), tmp_path / "t") == [
        {"id": "a", "year": 2024, "shop": "x/y"},
        {"id": "b", "year": 2025, "shop": "x/y"},
    ]
    twice = tmp_path / "twice" / "id=5"
    twice.mkdir(parents=True)
    (twice / f"1.{kind}").write_bytes((folder / f"1.{kind}").read_bytes())
    with pytest.raises(InputError, match=rf"1\.{kind}.*'id'"):
        taken(str(tmp_path / "twice"), tmp_path / "u")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("a.tsv", "option sep"),
        ("a.TSV.gz", "option sep"),
        ("a.csv.zst", "decompress"),
        ("a.parquet.gz", "decompress"),
        ("a.xlsx", "save it as CSV or Parquet"),
        ("a.zip", "unpack"),
        ("a.txt", "give its format"),
        ("a.feather", "save it as"),
    ],
)
def test_other_formats_are_refused_by_name_with_what_to_do(name: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(b"id\tv\n1\t2\n")
    for path in (tmp_path / "in" / name, tmp_path / "in", tmp_path / "in" / "a*"):
        with pytest.raises(InputError, match=what) as caught:
            taken(str(path), tmp_path / "t")
        assert str(tmp_path / "in" / name) in caught.value.message


def test_a_format_that_is_given_is_the_format(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("id\tv\n1\t2\n")
    source = {"path": str(tmp_path / "a.tsv"), "format": "csv", "options": {"sep": "\t"}}
    assert taken(source, tmp_path / "t") == [{"id": 1, "v": 2}]


def test_a_file_of_an_unknown_name_that_is_no_parquet_is_told_the_formats(tmp_path: Path) -> None:
    (tmp_path / "a.foo").write_text("id,v")
    with pytest.raises(
        InputError, match=r"a\.foo as parquet.*formats of files are parquet, csv, json, avro and orc"
    ):
        taken(str(tmp_path / "a.foo"), tmp_path / "t")
