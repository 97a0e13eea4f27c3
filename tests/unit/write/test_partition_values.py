"""Partition values of every kind as folders, found again by every later write and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import InputError
from tests.support.arrow import arrow_schema
from tests.support.rows import assert_same_rows
from tests.support.tiers import crossed_but
from tests.unit.write.support import (
    HIVE_STYLE,
    KEY,
    OPTIONS,
    ORDERING,
    PARTITION,
    URL_ENCODE,
    listing,
    values,
)

SCHEMA = arrow_schema([("id", pa.string()), ("ts", pa.int64()), ("region", pa.string()), ("val", pa.int32())])
DEFAULT = "__HIVE_DEFAULT_PARTITION__"
#: value -> (folder, folder with URL encoding)
FOLDERS = {
    "plain": ("plain", "plain"),
    "a b": ("a b", "a b"),
    "tr. ": ("tr. ", "tr. "),
    "p=q": ("p=q", "p%3Dq"),
    "100%": ("100%", "100%25"),
    "%2F": ("%2F", "%252F"),
    "x/y": ("x/y", "x%2Fy"),
    "2021/01/02": ("2021/01/02", "2021%2F01%2F02"),
    "ünï": ("ünï", "ünï"),
    "日本": ("日本", "日本"),
    "it's": ("it's", "it%27s"),
    "a+b&c": ("a+b&c", "a+b&c"),
    "#h": ("#h", "%23h"),
    "*?": ("*?", "%2A%3F"),
    "{x}": ("{x}", "%7Bx}"),
    "back\\slash": ("back\\slash", "back%5Cslash"),
    "line\nbreak": ("line\nbreak", "line%0Abreak"),
    None: (DEFAULT, DEFAULT),
    "": (DEFAULT, DEFAULT),
}
#: these need URL encoding
ENCODED_ONLY: dict[str | None, str] = {
    "c:d": "c%3Ad",
    "s3://b/k": "s3%3A%2F%2Fb%2Fk",
    "/abs": "%2Fabs",
    "a//b": "a%2F%2Fb",
    "end/": "end%2F",
}


def _rows(regions: list[str | None], version: int = 1) -> pa.Table:
    rows = [
        {"id": f"k{number}", "ts": version, "region": region, "val": version * 100 + number}
        for number, region in enumerate(regions)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@pytest.mark.parametrize(
    ("hive", "encode"),
    crossed_but({"bare-encoded", "hive-raw"}, {"bare": False, "hive": True}, {"raw": False, "encoded": True}),
)
def test_every_value_has_its_folder_and_is_found_again(tmp_path: Path, hive: bool, encode: bool) -> None:
    expected: dict[str | None, str] = {value: folders[encode] for value, folders in FOLDERS.items()}
    if encode:
        expected |= ENCODED_ONLY
    regions = list(expected)
    options = {**OPTIONS, HIVE_STYLE: hive, URL_ENCODE: encode}
    result = hoodie.write_table(_rows(regions), str(tmp_path / "t"), options=options)
    prefix = "region=" if hive else ""
    assert set(result.partitions) == {prefix + folder for folder in expected.values()}
    for folder in expected.values():
        assert (tmp_path / "t" / (prefix + folder) / ".hoodie_partition_metadata").is_file()
    shown = [region or None for region in regions]  # an empty text is in the partition of nulls
    assert_same_rows(
        hoodie.read_table(str(tmp_path / "t")), _rows(shown), what="column values stay as they were"
    )
    again = hoodie.write_table(_rows(regions, 2), str(tmp_path / "t"))
    assert (again.num_updates, again.num_inserts) == (len(regions), 0)
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), _rows(shown, 2))
    outside = {path.name for path in tmp_path.iterdir()} - {"t"}
    assert not outside


HARMFUL = {
    "c:d": "Apache Hudi can't read a table with ':'",
    "12:30": "Apache Hudi can't read a table with ':'",
    "a/c:d": "Apache Hudi can't read a table with ':'",
    "a/../../up": "no folder inside the table",
    "a/.hoodie/b": "no folder inside the table",
    "a//b": "no folder inside the table",
    "end/": "no folder inside the table",
    "nul\0": "no folder inside the table",
    "a/.hoodie_partition_metadata": "the name of every partition's metadata file",
    "x" * 256: "a folder name has at most 255 bytes",
    "é" * 128: "a folder name has at most 255 bytes",
}
#: with hive style these are names like any other
HARMFUL_BARE = {
    "..": "no folder inside the table",
    "../up": "no folder inside the table",
    ".": "no folder inside the table",
    "/abs": "no folder inside the table",
    ".hoodie": "no folder inside the table",
    ".hoodie_partition_metadata": "the name of every partition's metadata file",
}
CASES = [(False, *case) for case in {**HARMFUL, **HARMFUL_BARE}.items()] + [
    (True, *c) for c in HARMFUL.items()
]


@pytest.mark.parametrize(("hive", "value", "message"), CASES)
def test_values_that_would_harm_the_table(tmp_path: Path, hive: bool, value: str, message: str) -> None:
    options = {**OPTIONS, HIVE_STYLE: hive}
    with pytest.raises(InputError, match=message) as caught:
        hoodie.write_table(_rows(["fine", value]), str(tmp_path / "t"), options=options)
    assert "region" in str(caught.value)
    assert listing(tmp_path) == {}


@pytest.mark.parametrize("value", HARMFUL_BARE)
def test_with_hive_style_they_stay_inside(tmp_path: Path, value: str) -> None:
    hoodie.write_table(_rows([value]), str(tmp_path / "t"), options={**OPTIONS, HIVE_STYLE: True})
    assert hoodie.write_table(_rows([value], 2), str(tmp_path / "t")).num_updates == 1
    assert values(tmp_path / "t", "region") == [value]
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize("first", [["a", "x"], ["a/b", "x"]])
def test_a_partition_inside_another_is_refused(tmp_path: Path, first: list[str | None]) -> None:
    """Readers look no deeper than a folder with partition metadata: rows below it would be lost."""
    hoodie.write_table(_rows(first), str(tmp_path / "t"), options=OPTIONS)
    before = listing(tmp_path)
    second: list[str | None] = ["a/b", "y"] if "a" in first else ["a", "y"]
    with pytest.raises(
        InputError, match=r"'a/b': it lies inside the partition 'a', where no reader would find"
    ):
        hoodie.write_table(_rows(second, 2), str(tmp_path / "t"))
    assert listing(tmp_path) == before


def test_a_partition_inside_another_of_the_same_batch(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"'p/q/r': it lies inside the partition 'p'.*{URL_ENCODE}=true"):
        hoodie.write_table(_rows(["p", "x", "p/q/r"]), str(tmp_path / "t"), options=OPTIONS)
    assert listing(tmp_path) == {}


def test_depths_may_differ_side_by_side(tmp_path: Path) -> None:
    regions: list[str | None] = ["a/b", "a/c/d", "e", "a-b", "a/bc"]
    hoodie.write_table(_rows(regions), str(tmp_path / "t"), options=OPTIONS)
    result = hoodie.write_table(_rows(regions, 2), str(tmp_path / "t"))
    assert result.num_updates == 5
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), _rows(regions, 2))


@pytest.mark.parametrize(
    ("kind", "cells", "folders"),
    [
        (pa.int32(), [1, None, -5], ["1", DEFAULT, "-5"]),
        (pa.bool_(), [True, False, None], ["true", "false", DEFAULT]),
        (pa.date32(), [0, 19723, None], ["1970-01-01", "2024-01-01", DEFAULT]),
        (pa.float64(), [1.5, 1e10, None], ["1.5", "1.0E10", DEFAULT]),
    ],
)
def test_partition_columns_of_other_types(
    tmp_path: Path, kind: pa.DataType, cells: list[Any], folders: list[str]
) -> None:
    column = pa.array(cells, pa.int32()).cast(kind) if pa.types.is_date(kind) else pa.array(cells, kind)
    rows = pa.table({"id": ["a", "b", "c"], "ts": pa.array([1, 1, 1]), "part": column})
    options = {KEY: "id", ORDERING: "ts", PARTITION: "part"}
    result = hoodie.write_table(rows, str(tmp_path / "t"), options=options)
    assert result.partitions == sorted(folders)
    assert hoodie.write_table(rows, str(tmp_path / "t")).num_updates == 3
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), rows)


def test_several_partition_columns(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b", "c"], "y": [2024, 2024, None], "m": ["01", "x/y", ""], "ts": [1, 1, 1]})
    options = {KEY: "id", ORDERING: "ts", PARTITION: "y,m", HIVE_STYLE: True, URL_ENCODE: True}
    result = hoodie.write_table(rows, str(tmp_path / "t"), options=options)
    assert result.partitions == ["y=2024/m=01", "y=2024/m=x%2Fy", f"y={DEFAULT}/m={DEFAULT}"]
    assert hoodie.write_table(rows, str(tmp_path / "t")).num_updates == 3
    metadata = (tmp_path / "t" / "y=2024" / "m=01" / ".hoodie_partition_metadata").read_text()
    assert "partitionDepth=2" in metadata


def test_many_partitions_in_one_write(tmp_path: Path) -> None:
    regions: list[str | None] = [f"r{number:03d}" for number in range(30)]
    assert len(hoodie.write_table(_rows(regions), str(tmp_path / "t"), options=OPTIONS).partitions) == 30
    assert hoodie.write_table(_rows(regions[:3], 2), str(tmp_path / "t")).partitions == regions[:3]
    assert hoodie.read_table(str(tmp_path / "t")).num_rows == 30
