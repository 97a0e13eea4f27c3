"""Tables of schema-on-read evolution: columns are matched by id, values change as in Apache Hudi."""

from __future__ import annotations

import datetime
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import InputError, TableError
from hoodie.format.evolution import read_changed
from tests.support.arrow import pc
from tests.support.evolved import commits
from tests.support.rows import assert_same_rows

TABLES = ["evolved_cow", "evolved_mor"]


def asked(question: str) -> dict[str, str]:
    kind, _, time = question.partition("_")
    questions: dict[str, dict[str, str]] = {
        "snapshot": {},
        "ro": {"query": "read_optimized"},
        "asof": {"as_of": time},
        "inc": {"query": "incremental", "begin": time},
    }
    return questions[kind]


@pytest.mark.parametrize("name", TABLES)
def test_queries_equal_what_apache_hudi_answers(evolved_tables: Path, name: str) -> None:
    """Columns renamed, dropped and added again, moved, widened, in structs, arrays and maps, too."""
    answers = sorted((evolved_tables / f"{name}_answers").glob("*.parquet"))
    assert len(answers) == 8
    for file in answers:
        expected = pq.read_table(file)
        got = hoodie.read_table(str(evolved_tables / name), **asked(file.stem))  # type: ignore[arg-type]
        assert_same_rows(got, expected, meta=True, what=f"{name} {file.stem}")
        assert got.column_names == expected.column_names, file.stem


@pytest.mark.parametrize("name", TABLES)
def test_predicates_and_columns_take_the_present_names(evolved_tables: Path, name: str) -> None:
    """Statistics of an older file are of other columns: `note` was a text there, `title` was `name`."""
    expected = pq.read_table(evolved_tables / f"{name}_answers" / "snapshot.parquet")
    for where, mask in (
        ("title = 'name 6'", pc.equal(expected["title"], "name 6")),
        ("note is null", pc.is_null(expected["note"])),
        ("note > 1", pc.greater(expected["note"], 1)),
        ("val >= 20", pc.greater_equal(expected["val"], 20)),
        ("\"count\" = '9'", pc.equal(expected["count"], "9")),
    ):
        chosen = expected.filter(mask)
        assert chosen.num_rows, where
        got = hoodie.read_table(str(evolved_tables / name), columns=["details", "id"], where=where)
        assert_same_rows(got, chosen.select(["details", "id"]), what=f"{name} {where}")
        assert got.column_names == ["details", "id"]


@pytest.mark.parametrize("name", TABLES)
def test_the_past_has_the_columns_of_then(evolved_tables: Path, name: str) -> None:
    table = evolved_tables / name
    first = commits(table)[0]
    then = hoodie.read_table(str(table), as_of=first, meta=False)
    assert then.column_names[:6] == ["id", "ts", "region", "val", "name", "note"]
    assert then.filter(pc.equal(then["id"], "k004")).to_pylist()[0]["name"] == "name 4"


def test_a_table_without_its_history_is_refused(evolved_tables: Path, tmp_path: Path) -> None:
    table = tmp_path / "t"
    shutil.copytree(evolved_tables / "evolved_cow", table)
    shutil.rmtree(table / ".hoodie/.schema")
    with pytest.raises(TableError, match=r"known by id .* restore that folder"):
        hoodie.read_table(str(table))


def test_a_schemacommit_counts_once_its_commit_is_completed(evolved_tables: Path, tmp_path: Path) -> None:
    table = tmp_path / "t"
    shutil.copytree(evolved_tables / "evolved_cow", table)
    expected = hoodie.read_table(str(table))
    (table / ".hoodie/.schema/29990101000000000.schemacommit").write_text('{"schemas":[]}')
    assert_same_rows(hoodie.read_table(str(table)), expected)


@pytest.mark.parametrize("name", TABLES)
def test_files_from_before_the_history_have_its_oldest_schema(
    evolved_tables: Path, tmp_path: Path, name: str
) -> None:
    """As where the feature was switched on after the first writes."""
    table = tmp_path / "t"
    shutil.copytree(evolved_tables / name, table)
    expected = hoodie.read_table(str(table))
    first, *_, last = commits(table)
    newest = table / f".hoodie/.schema/{last}.schemacommit"
    newest.write_text(newest.read_text().replace('"version_id":0', f'"version_id":{int(first) + 1}'))
    assert_same_rows(hoodie.read_table(str(table)), expected)


D = Decimal
DAY = datetime.date(2026, 2, 1)


@pytest.mark.parametrize(
    ("values", "source", "target", "expected"),
    [
        ([1, None, -7], pa.int32(), pa.decimal128(10, 2), [D("1.00"), None, D("-7.00")]),
        ([2**53 + 1], pa.int64(), pa.decimal128(20, 0), [D(2**53 + 1)]),
        ([0.1, -2.5], pa.float32(), pa.decimal128(5, 1), [D("0.1"), D("-2.5")]),
        ([1.005, 2.5e10, -0.125], pa.float64(), pa.decimal128(14, 2), [D("1.01"), D(25 * 10**9), D("-0.13")]),
        (["9" * 38], pa.string(), pa.decimal128(38, 0), [D("9" * 38)]),
        (["1.5", "-3E2"], pa.string(), pa.decimal128(6, 1), [D("1.5"), D("-300.0")]),
        ([D("1.50")], pa.decimal128(8, 2), pa.decimal128(12, 4), [D("1.5000")]),
        ([D("1.50"), D("0.00")], pa.decimal128(8, 2), pa.string(), ["1.50", "0.00"]),
        ([DAY, None], pa.date32(), pa.string(), ["2026-02-01", None]),
        (["2026-02-01"], pa.string(), pa.date32(), [DAY]),
        (["é"], pa.string(), pa.binary(), ["é".encode()]),
        ([b"x"], pa.binary(), pa.string(), ["x"]),
        ([0.5, 1e10], pa.float64(), pa.string(), ["0.5", "1.0E10"]),
        ([7], pa.int64(), pa.string(), ["7"]),
    ],
)
def test_values_change_as_in_apache_hudi(
    values: list[Any], source: pa.DataType, target: pa.DataType, expected: list[Any]
) -> None:
    rows = pa.table({"c": pa.array(values, source), "s": pa.array([{"c": v} for v in values])})
    inner = pa.struct([("c", target)])
    rows = rows.set_column(1, "s", pa.array([{"c": v} for v in values], pa.struct([("c", source)])))
    got = read_changed(rows, pa.schema([("c", target), ("s", inner)]))
    assert got.column("c").to_pylist() == expected
    nested: list[Any] = got.column("s").to_pylist()
    assert [row["c"] for row in nested] == expected


@pytest.mark.parametrize(
    ("value", "target"), [("x", pa.date32()), ("x", pa.decimal128(5, 2)), ("12345", pa.decimal128(4, 0))]
)
def test_a_value_that_cannot_change_is_named(value: str, target: pa.DataType) -> None:
    with pytest.raises(InputError, match=r"column c: a stored value can't become"):
        read_changed(pa.table({"c": [value]}), pa.schema([("c", target)]))
