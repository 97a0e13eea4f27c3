"""The setting of the index `partition_stats`: which writes make it, keep it, and drop it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError
from hoodie.metadata.state import index_states
from hoodie.table.handle import Table
from tests.support.later_tables import new_tables_of
from tests.support.metadata import disagreements
from tests.support.requests import counted

pytestmark = pytest.mark.real_defaults

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.table.name": "t",
}
COLUMNS = "hoodie.metadata.index.column.stats.enable"
PARTITIONS = "hoodie.metadata.index.partition.stats.enable"
GROUPS = "hoodie.metadata.index.partition.stats.file.group.count"
BOTH = {"files", "column_stats", "partition_stats"}


def write(path: str, number: int, options: dict[str, str], kind: str = "COPY_ON_WRITE") -> hoodie.WriteResult:
    """Partition a has values that are even, b odd ones of a hundred more."""
    rows = [
        {"id": f"k{key}", "part": "ab"[key % 2], "ts": number, "value": key + key % 2 * 100}
        for key in range(8)
    ]
    made = {**OPTIONS, "hoodie.datasource.write.table.type": kind, **options}
    return hoodie.write_table(pa.Table.from_pylist(rows), path, options=made)


def indexes(path: str) -> set[str]:
    return set(Table.open(path).properties.metadata_partitions)


def check(path: str, *, skips: bool) -> None:
    """Queries leave a partition out by the index, and rows are right."""
    found = hoodie.explain_read(path, where="value > 100")
    assert any(step.step == "partition stats" and step.files for step in found.steps) == skips
    assert sorted(hoodie.read_table(path, where="value > 100")["value"].to_pylist()) == [101, 103, 105, 107]
    assert disagreements(path) == []


#: settings of writes one after the other, and whether there is the index afterwards
STEPS: dict[str, list[tuple[dict[str, str], bool]]] = {
    "a new table": [({COLUMNS: "true"}, True), ({}, True), ({COLUMNS: "false"}, False), ({}, False)],
    "a table without indexes": [({}, False), ({COLUMNS: "true"}, True)],
    "a table with statistics of columns": [
        ({COLUMNS: "true", PARTITIONS: "false"}, False),
        ({}, False),
        ({PARTITIONS: "true"}, True),
        ({PARTITIONS: "false"}, False),
        ({COLUMNS: "true", PARTITIONS: "true", GROUPS: "3"}, True),
    ],
    "a table without a metadata table": [
        ({"hoodie.metadata.enable": "false"}, False),
        ({COLUMNS: "true", PARTITIONS: "true"}, True),
        ({"hoodie.metadata.enable": "false"}, False),
    ],
}


@pytest.mark.parametrize("version", [pytest.param(8, marks=pytest.mark.full), 9])
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("steps", STEPS)
def test_writes_make_and_drop_it(tmp_path: Path, version: int, kind: str, steps: str) -> None:
    path = str(tmp_path / "t")
    with new_tables_of(version):
        for number, (options, there) in enumerate(STEPS[steps], 1):
            done = write(path, number, options, kind)
            assert (number, "partition_stats" in indexes(path), done.warnings) == (number, there, [])
            check(path, skips=there)


def test_its_file_groups(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    with new_tables_of(9):
        write(path, 1, {COLUMNS: "true", GROUPS: "3"})
    states, _ = index_states(Table.open(path))
    assert {state.index: state.file_groups for state in states if state.index == "partition_stats"} == {
        "partition_stats": 3
    }
    check(path, skips=True)


UNPARTITIONED = {"hoodie.datasource.write.partitionpath.field": ""}
IMPOSSIBLE: dict[str, tuple[int, dict[str, str], str]] = {
    "version 6": (6, {COLUMNS: "true"}, "a table before version 8 has none in Apache Hudi"),
    "no partitions": (9, {COLUMNS: "true", **UNPARTITIONED}, "the table has no partitions"),
    "no statistics of columns": (9, {}, f"which the table does not have; set {COLUMNS}=true"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_a_table_that_has_none(tmp_path: Path, case: str) -> None:
    """Only what names the index by its own setting is told so."""
    version, options, why = IMPOSSIBLE[case]
    path = str(tmp_path / "t")
    with new_tables_of(version):
        assert write(path, 1, options).warnings == []
        (warning,) = write(path, 2, {**options, PARTITIONS: "true"}).warnings
    assert warning.startswith(f"the index partition_stats of {path} is not made: ")
    assert warning.endswith(why)
    assert indexes(path) == BOTH - {"partition_stats", *([] if options else ["column_stats"])}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({COLUMNS: "false", PARTITIONS: "true"}, "partition_stats is made of column_stats"),
        ({"hoodie.metadata.enable": "false", PARTITIONS: "true"}, "the index partition_stats is a part of"),
    ],
)
def test_settings_that_exclude_one_another(tmp_path: Path, options: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as error:
        write(str(tmp_path / "t"), 1, options)
    assert error.value.code == "configuration"
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("kind", [pytest.param("COPY_ON_WRITE", marks=pytest.mark.full), "MERGE_ON_READ"])
def test_a_table_of_which_a_file_has_no_statistics(tmp_path: Path, kind: str) -> None:
    """A write goes on without the indexes, and says so."""
    path = str(tmp_path / "t")
    rows = pa.Table.from_pylist([{"id": "k1", "part": "a", "ts": 1, "data": b"\xff" * 2000}])
    options = {**OPTIONS, "hoodie.datasource.write.table.type": kind}
    with new_tables_of(9):
        hoodie.write_table(rows, path, options=options)
        done = hoodie.write_table(rows, path, options={**options, COLUMNS: "true", PARTITIONS: "true"})
    assert [text.partition(" is not made: ")[0] for text in done.warnings] == [
        f"the index {name} of {path}" for name in ("column_stats", "partition_stats")
    ]
    assert indexes(path) == {"files"}
    assert hoodie.read_table(path, meta=False).equals(rows)
    assert disagreements(path) == []


@pytest.mark.parametrize(("text", "times"), [("short", 1), ("l" * 10_000, 2)])
def test_a_new_base_file_is_opened_once_for_both_kinds_of_statistics(
    tmp_path: Path, text: str, times: int
) -> None:
    """Once more where its footer leaves out a text, whose bounds are those of the values."""
    path = str(tmp_path / "t")
    rows = pa.Table.from_pylist([{"id": "k", "part": "a", "ts": 1, "value": 1, "note": text}])
    options = {**OPTIONS, COLUMNS: "true", PARTITIONS: "true"}
    with new_tables_of(9):
        hoodie.write_table(rows, path, options=options)
    with counted(path) as requests:
        done = hoodie.write_table(rows, path, options=options)
    assert indexes(path) == BOTH
    opened = [file for call, file, _ in requests.calls if call == "open_input"]
    assert sum(done.instant in file for file in opened if file.endswith(".parquet")) == times
