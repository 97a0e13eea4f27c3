"""Required fields below values that are null: valid in Arrow, Avro and Parquet, and what Spark gives for
`when(c, struct(lit(1) AS a))`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.cli import main
from hoodie.errors import InputError

OPTIONS: dict[str, Any] = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
}
STRUCT = pa.struct([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())])


def below(values: list[Any], nulls: list[bool], dtype: Any = STRUCT) -> pa.StructArray:
    """Structs of `dtype`; where one is null, its fields are null too, required or not."""
    loose = pa.struct([field.with_nullable(True) for field in dtype])
    given: Any = pa.array([dict.fromkeys(loose.names) if value is None else value for value in values], loose)
    children = [given.field(place) for place in range(dtype.num_fields)]
    return pa.StructArray.from_arrays(children, fields=list(dtype), mask=pa.array(nulls))


def column(kind: str) -> tuple[Any, list[Any]]:
    """(array, what is read of it) of three rows: a null, a value, a null."""
    one = {"a": 7, "b": None}
    if kind == "struct":
        return below([None, one, None], [True, False, True]), [None, one, None]
    if kind == "struct in struct":
        inner = below([None, one, None], [False] * 3)
        fields = [pa.field("s", STRUCT, nullable=False), pa.field("c", pa.int32())]
        outer = pa.StructArray.from_arrays(
            [inner, pa.nulls(3, pa.int32())], fields=fields, mask=pa.array([True, False, True])
        )
        return outer, [None, {"s": one, "c": None}, None]
    if kind == "list":
        items = below([None, one, None], [True, False, True])
        return pa.ListArray.from_arrays([0, 2, 2, 3], items), [[None, one], [], [None]]
    if kind == "map":
        below_keys = below([None, one, None], [True, False, True])
        maps: Any = pa.MapArray
        made = maps.from_arrays([0, 2, 2, 3], pa.array(["x", "y", "z"]), below_keys)
        return made, [[("x", None), ("y", one)], [], [("z", None)]]
    required = pa.list_(pa.field("element", pa.int64(), nullable=False))
    fields = [pa.field("l", required, nullable=False)]
    lists = pa.array([None, [1], None], pa.list_(pa.int64())).cast(required)
    made = pa.StructArray.from_arrays([lists], fields=fields, mask=pa.array([True, False, True]))
    return made, [None, {"l": [1]}, None]


KINDS = ("struct", "struct in struct", "list", "map", "list in struct")


def read(path: str) -> list[Any]:
    found: pa.Table = hoodie.read_table(path, meta=False)
    found = found.sort_by("id")
    found.validate(full=True)
    return found.column("v").to_pylist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_written_and_written_on(tmp_path: Path, kind: str, table_type: str) -> None:
    path, options = str(tmp_path / "t"), {**OPTIONS, "hoodie.datasource.write.table.type": table_type}
    values, expected = column(kind)
    rows = pa.table({"id": [0, 1, 2], "v": values, "ts": [0] * 3})
    rows.validate(full=True)
    hoodie.write_table(rows, path, options=options)
    assert read(path) == expected
    # a file with such rows is read and written again, or gets a log with them
    hoodie.write_table(rows.slice(0, 1), path, options=options)
    hoodie.write_table(rows.slice(1, 2).set_column(0, "id", pa.array([5, 6])), path, options=options)
    assert read(path) == [*expected, *expected[1:]]
    if table_type == "MERGE_ON_READ":
        hoodie.compact_table(path, options={"hoodie.compact.inline.max.delta.commits": 1})
        assert read(path) == [*expected, *expected[1:]]


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_log_blocks(tmp_path: Path, form: str) -> None:
    path = str(tmp_path / "t")
    options = {
        **OPTIONS,
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.logfile.data.block.format": form,
    }
    values, expected = column("struct in struct")
    rows = pa.table({"id": [0, 1, 2], "v": values, "ts": [0] * 3})
    hoodie.write_table(rows, path, options=options)
    hoodie.write_table(rows.set_column(2, "ts", pa.array([1] * 3)), path, options=options)
    assert read(path) == expected


def test_saved_to_a_file(tmp_path: Path) -> None:
    path, saved = str(tmp_path / "t"), tmp_path / "saved.parquet"
    values, expected = column("struct")
    hoodie.write_table(pa.table({"id": [0, 1, 2], "v": values, "ts": [0] * 3}), path, options=OPTIONS)
    assert main(["read", "--table", path, "--output", str(saved)]) == 0
    assert sorted(pq.read_table(saved).column("v").to_pylist(), key=str) == sorted(expected, key=str)


def test_one_that_is_null_below_a_value(tmp_path: Path) -> None:
    """It is refused by its name before anything is written."""
    wrong = below([{"a": 1, "b": None}, None], [False, False])
    rows = pa.table({"id": [0, 1], "v": wrong, "ts": [0, 0]})
    with pytest.raises(InputError, match=r"column v\.a is null in some rows"):
        hoodie.write_table(rows, str(tmp_path / "t"), options=OPTIONS)
    assert not (tmp_path / "t").exists()
