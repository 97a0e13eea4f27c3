"""Parquet sources of the local engine: what Arrow can't read, or reads as something else."""

from __future__ import annotations

import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.cli import main
from hoodie.errors import HoodieError, InputError
from tests.support.parquet_files import ENCRYPTIONS, encrypted, enums

OPTIONS = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.metadata.enable": "false"}
ROWS = pa.table({"id": ["a", "b"], "v": ["x", "y"]})


def taken(source: Any, table: Path, **given: Any) -> list[dict[str, Any]]:
    hoodie.ingest(source, str(table), options=OPTIONS, **given)
    rows: list[dict[str, Any]] = hoodie.read_table(str(table), meta=False).sort_by("id").to_pylist()
    return rows


@pytest.mark.parametrize("kind", ENCRYPTIONS)
def test_an_encrypted_file_is_refused_by_name(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(ROWS, tmp_path / "in" / "a.parquet")
    path = encrypted(tmp_path / "in" / "b.parquet", kind, ROWS)
    for given in ({}, {"error_table": str(tmp_path / "e")}, {"transform": "SELECT * FROM source"}):
        with pytest.raises(InputError, match="encrypted") as caught:
            taken(str(tmp_path / "in"), tmp_path / "t", **given)
        assert path in caught.value.message
    command = ["upsert", "--table", str(tmp_path / "t"), "--source", path]
    assert main([*command, "--option", "hoodie.datasource.write.recordkey.field=id"]) != 0
    assert path in capsys.readouterr().err
    assert not (tmp_path / "t").exists()


def test_a_dataset_with_encrypted_columns_is_refused_by_name(tmp_path: Path) -> None:
    path = encrypted(tmp_path / "a.parquet", "columns", ROWS)
    with pytest.raises(InputError, match="encrypted") as caught:
        hoodie.write_table(ds.dataset(path), str(tmp_path / "t"), options=OPTIONS)
    assert path in caught.value.message


def test_a_damaged_file_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b", "c"):
        pq.write_table(ROWS, tmp_path / "in" / f"{name}.parquet")
    bad = tmp_path / "in" / "b.parquet"
    whole = bad.read_bytes()
    for content in (
        whole[:-20],
        whole[:4],
        b"id,v\n",
        whole[:-8] + b"\xff\xff\xff\x7fPAR1",
        whole[:-8] + bytes(8),
    ):
        bad.write_bytes(content)
        for given in ({}, {"error_table": str(tmp_path / "e")}):
            with pytest.raises(InputError) as caught:
                taken(str(tmp_path / "in"), tmp_path / "t", **given)
            assert str(bad) in caught.value.message
    bad.write_bytes(whole[:4] + bytes(40) + whole[44:])
    ways: list[dict[str, Any]] = [
        {},
        {"error_table": str(tmp_path / "e")},
        {"transform": "SELECT * FROM source"},
        {"transform": lambda batch: batch},
    ]
    for given in ways:
        with pytest.raises(InputError) as caught:
            taken(str(tmp_path / "in"), tmp_path / "t", **given)
        assert str(bad) in caught.value.message
    with pytest.raises(InputError) as caught:
        hoodie.sql("SELECT * FROM s", tables={"s": {"source": str(tmp_path / "in")}})
    assert str(bad) in caught.value.message


def test_files_whose_types_do_not_fit_are_named_with_the_column(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    number = pa.array([decimal.Decimal("12345678901234567.25")])
    for one, other in ((["x"], [[1]]), (["x"], [b"x"]), (number, [1.5]), ([{"a": "x"}], [{"a": b"x"}])):
        pq.write_table(pa.table({"id": ["a"], "v": one}), tmp_path / "in" / "a.parquet")
        pq.write_table(pa.table({"id": ["c"], "v": other}), tmp_path / "in" / "b.parquet")
        for given in ({}, {"error_table": str(tmp_path / "e")}):
            with pytest.raises(InputError, match=r"column v is .* in .*a\.parquet, and .* in .*b\.parquet"):
                taken(str(tmp_path / "in"), tmp_path / "t", **given)


def test_enums_are_texts_and_may_be_keys(tmp_path: Path) -> None:
    path = enums(tmp_path / "a.parquet", pa.table({"v": ["FOO", "BAR"], "id": ["a", "b"]}))
    wanted = [{"v": "FOO", "id": "a"}, {"v": "BAR", "id": "b"}]
    assert taken(path, tmp_path / "t") == wanted
    assert taken(path, tmp_path / "e", error_table=str(tmp_path / "bad")) == wanted
    found = hoodie.sql("SELECT v FROM s WHERE v = 'FOO'", tables={"s": {"source": path}})
    assert found.to_pylist() == [{"v": "FOO"}]
    hoodie.ingest(
        path, str(tmp_path / "k"), options={**OPTIONS, "hoodie.datasource.write.recordkey.field": "v"}
    )
    assert sorted(hoodie.read_table(str(tmp_path / "k"))["_hoodie_record_key"].to_pylist()) == ["BAR", "FOO"]


def test_nested_enums_are_texts(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "id": ["a"],
            "n": pa.array([{"b": b"raw", "l": [{"v": "FOO"}], "m": [("k", [1])]}], pa.struct(
                [
                    ("b", pa.binary()),
                    ("l", pa.list_(pa.struct([("v", pa.string())]))),
                    ("m", pa.map_(pa.string(), pa.list_(pa.int64()))),
                ]
            )),
            "w": ["z"],
        }
    )  # fmt: skip
    path = enums(tmp_path / "a.parquet", rows)
    assert taken(path, tmp_path / "t") == rows.to_pylist()


def test_an_error_table_of_good_rows_alone(tmp_path: Path) -> None:
    """Arrow's list of the places in a column without chunks ends the process."""
    pq.write_table(ROWS, tmp_path / "a.parquet")
    assert (
        taken(str(tmp_path / "a.parquet"), tmp_path / "t", error_table=str(tmp_path / "e"))
        == ROWS.to_pylist()
    )
    pq.write_table(ROWS.slice(0, 0), tmp_path / "b.parquet")
    assert len(taken(str(tmp_path / "b.parquet"), tmp_path / "t", error_table=str(tmp_path / "e"))) == 2
    with pytest.raises(HoodieError):
        hoodie.read_table(str(tmp_path / "e"))


@pytest.mark.parametrize("transform", [None, "SELECT * FROM source"])
def test_halves_and_json_have_the_types_of_tables(transform: str | None, tmp_path: Path) -> None:
    halves = pa.array([1.5, None], pa.float16())
    json: Any = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', None]))
    rows = pa.table(
        {"id": ["a", "b"], "h": halves, "j": json, "l": pa.array([[0.5], []], pa.list_(pa.float16()))}
    )
    pq.write_table(rows, tmp_path / "a.parquet")
    assert taken(str(tmp_path / "a.parquet"), tmp_path / "t", transform=transform) == [
        {"id": "a", "h": 1.5, "j": '{"a": 1}', "l": [0.5]},
        {"id": "b", "h": None, "j": None, "l": []},
    ]


MAPS = pa.map_(pa.string(), pa.int32())
TWICE = [("a", 1), ("a", 2)]
SHAPES: dict[str, tuple[Any, Any]] = {
    "map": (MAPS, lambda items: items),
    "struct": (pa.struct([("m", MAPS)]), lambda items: {"m": items}),
    "list": (pa.list_(MAPS), lambda items: [None, [], items]),
    "map of maps": (pa.map_(pa.string(), MAPS), lambda items: [("x", []), ("y", items)]),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert"])
def test_a_map_with_a_key_twice_is_refused_by_file_column_and_record(
    shape: str, operation: str, tmp_path: Path
) -> None:
    kind, made = SHAPES[shape]
    good = [made([("a", number), ("b", None)]) for number in range(5)]
    ids = [f"k{number}" for number in range(6)]
    (tmp_path / "in").mkdir()
    pq.write_table(
        pa.table({"id": ["z", "y"], "v": pa.array([good[0], None], kind)}), tmp_path / "in" / "a.parquet"
    )
    assert len(taken(str(tmp_path / "in"), tmp_path / "t", operation=operation)) == 2
    path = tmp_path / "in" / "b.parquet"
    pq.write_table(pa.table({"id": ids, "v": pa.array([*good[:3], made(TWICE), *good[3:]], kind)}), path)
    with pytest.raises(InputError, match=r"column v: .*'k3'") as caught:
        taken(str(tmp_path / "in"), tmp_path / "t", operation=operation)
    assert str(path) in caught.value.message
    assert len(hoodie.read_table(str(tmp_path / "t"))) == 2


def test_a_key_twice_among_many_is_found(tmp_path: Path) -> None:
    many = [(f"k{number}", number) for number in range(40)]
    rows = pa.table({"id": ["a", "b"], "v": pa.array([many, many[:3]], MAPS)})
    hoodie.write_table(rows, str(tmp_path / "t"), options=OPTIONS)
    rows = pa.table({"id": ["a", "b"], "v": pa.array([many, [*many, ("k7", 0)]], MAPS)})
    with pytest.raises(InputError, match=r"column v: .*'b'"):
        hoodie.write_table(rows, str(tmp_path / "t"), options=OPTIONS)


def test_rows_in_memory_with_a_key_twice_are_refused(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a"], "v": pa.array([TWICE], MAPS)})
    with pytest.raises(InputError, match=r"column v: .*'a'"):
        hoodie.write_table(rows, str(tmp_path / "t"), options=OPTIONS)
    assert not (tmp_path / "t").exists()


def test_a_required_column_that_a_file_lacks_may_be_null(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    needed = pa.schema(
        [pa.field("id", pa.string(), nullable=False), pa.field("v", pa.string(), nullable=False)]
    )
    pq.write_table(ROWS.slice(0, 1).cast(needed), tmp_path / "in" / "a.parquet")
    pq.write_table(ROWS.slice(1).select(["id"]).cast(needed.remove(1)), tmp_path / "in" / "b.parquet")
    assert taken(str(tmp_path / "in"), tmp_path / "t") == [{"id": "a", "v": "x"}, {"id": "b", "v": None}]


def test_a_map_with_a_key_twice_of_another_writer_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pa.table({"id": ["a"], "v": pa.array([[("a", 1)]], MAPS)})
    hoodie.write_table(rows, str(tmp_path / "t"), options=OPTIONS)
    (path,) = tmp_path.joinpath("t").glob("*.parquet")
    stored = pq.ParquetFile(path).read()
    changed = stored.set_column(stored.schema.get_field_index("v"), "v", pa.array([TWICE], MAPS))
    pq.write_table(changed, path)
    command = ["read", "--table", str(tmp_path / "t"), "--no-meta", "--json"]
    assert main([*command, "--option", "hoodie.read.verify.files=false"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [{"id": "a", "v": [["a", 1], ["a", 2]]}]
