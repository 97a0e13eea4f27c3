"""Indexes of versions 8 and 9 that Apache Hudi 1.2.0 wrote leave out partitions and files, and no rows."""

from __future__ import annotations

import json
import random
import shutil
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import HoodieError
from hoodie.metadata.queries import MetadataTableIgnored
from hoodie.metadata.table import MetadataTable
from hoodie.read import duckdb_predicate
from hoodie.read.explanation import ReadExplanation
from hoodie.read.table_view import TableView
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.handle import Table
from hoodie.table.view import FileSlice
from tests.golden.test_metadata_queries import predicates
from tests.support.later import TABLES
from tests.support.rows import assert_same_rows
from tests.support.tiers import full_but

FOLDERS: dict[str, Any] = {"options": {"hoodie.metadata.enable": "false"}}
KEYS: dict[str, Any] = {"options": {"hoodie.read.record.index": "true"}}
BY_NAME, BLOOM, BY_DAY = "secondary_index_idx_name", "expr_index_idx_low", "expr_index_idx_day"
DEFINITIONS = ".hoodie/.index_defs/index.json"


def place(later_tables: Path, later_more: Path, name: str) -> Path:
    return (later_more if name.startswith("more/") else later_tables) / name / "table"


def explained(path: Path, where: str, **more: Any) -> ReadExplanation:
    """What a query reads, whose rows are those of a query that lists folders."""
    rows = hoodie.read_table(str(path), where=where, **more)
    expected = hoodie.read_table(str(path), where=where, **{**more, **FOLDERS})
    assert_same_rows(rows, expected, meta=True, what=where)
    return hoodie.explain_read(str(path), where=where, **more)


def left_out(found: ReadExplanation) -> dict[str, int]:
    return {step.step: step.files for step in found.steps if step.files}


def reasons(found: ReadExplanation) -> dict[str, str]:
    """By the index; "" where it was used."""
    assert all(item.used != bool(item.reason) for item in found.indexes)
    return {item.index: item.reason for item in found.indexes}


@pytest.mark.parametrize("name", ["1.2.0-v8/mdt_full_cow", "1.2.0-v9/mdt_full_cow", "1.2.0-v9/mdt_full_mor"])
def test_partitions_are_left_out_by_their_statistics(later_tables: Path, name: str) -> None:
    path = later_tables / name / "table"
    found = explained(path, "ts > 100000000")
    assert left_out(found) == {"partition stats": found.files}
    assert reasons(found)["partition_stats"] == ""
    rows = hoodie.read_table(str(path))
    column = "c_date" if "c_date" in rows.column_names else "ts"
    value = max(item for item in rows[column].to_pylist() if item is not None)
    where = f"{column} >= '{value}'" if column == "c_date" else f"{column} >= {value}"
    assert explained(path, where).read_files > 0


def test_partitions_that_are_left_out_are_not_listed(later_tables: Path) -> None:
    path = later_tables / "1.2.0-v9/mdt_full_cow/table"
    with duckdb_predicate.connection() as connection:
        nothing = duckdb_predicate.parsed(connection, "ts > 100000000")
        by_key = duckdb_predicate.parsed(connection, "region = 'eu' AND ts > 100000000")
    view = TableView.load(Table.open(str(path)), where=nothing)
    everything = TableView.load(Table.open(str(path)))
    assert not view.slices
    assert view.left_out == {item.partition for item in everything.slices}
    assert [step for step in view.steps if step.dropped] == []
    assert len(TableView.load(Table.open(str(path)), where=by_key).left_out) == 1


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"as_of": True}, "it is of the latest state, and the query is time_travel"),
        ({"begin": True}, "it is of the latest state, and the query is incremental"),
        ({"options": {"hoodie.enable.data.skipping": "false"}}, "hoodie.enable.data.skipping=false"),
        ({"where": "region = 'eu'"}, "the predicate has no condition on a column in files that it bounds"),
        (FOLDERS, "the metadata table is not used"),
    ],
)
def test_statistics_of_partitions_are_of_the_latest_state(
    later_tables: Path, more: dict[str, Any], reason: str
) -> None:
    path = later_tables / "1.2.0-v9/mdt_full_cow/table"
    first = str(Table.open(str(path)).timeline.commits()[0].time)
    given = {key: first if value is True else value for key, value in more.items()}
    found = explained(path, given.pop("where", "ts > 2000"), **given)
    assert "partition stats" not in left_out(found)
    assert reasons(found)["partition_stats"] == reason


def test_statistics_of_rows_that_a_class_of_the_users_merges_are_not_used(
    later_tables: Path, tmp_path: Path
) -> None:
    """Base files alone are read without it; it is not known whether merged rows have values of theirs."""
    path = tmp_path / "t"
    shutil.copytree(later_tables / "1.2.0-v9/mdt_full_mor/table", path)
    file = path / ".hoodie/hoodie.properties"
    file.write_text(file.read_text().replace("EVENT_TIME_ORDERING", "CUSTOM"))
    found = explained(path, "ts > 100000000", query="read_optimized")
    assert "partition stats" not in left_out(found)
    assert reasons(found)["partition_stats"] == "it is not known here how rows are merged"


def test_statistics_of_writers_that_overlap_are_not_used(
    later_tables: Path, later_more: Path, tmp_path: Path
) -> None:
    """The record of the one that was requested later counts, and lacks the files of the other."""
    path = tmp_path / "t"
    shutil.copytree(later_tables / "1.2.0-v9/mdt_full_cow/table", path)
    first, *_, last = sorted((path / ".hoodie/timeline").glob("2*_*.commit"))
    late = int(last.stem.partition("_")[2]) + 1
    first.rename(first.with_name(f"{first.name.partition('_')[0]}_{late}.commit"))
    reason = "a write was completed after one that was requested later"
    assert reasons(explained(path, "ts > 100000000"))["partition_stats"] == reason
    found = explained(later_more / "more/nbcc_out_of_order/table", "ts > 100000000000000")
    assert reasons(found)["partition_stats"] == reason


def test_a_secondary_index_says_which_file_groups_have_a_value(later_more: Path) -> None:
    path = later_more / "more/secondary_index_cow/table"
    for value in ("n$0", "n$2"):
        found = explained(path, f"name = '{value}'", **KEYS)
        assert (left_out(found), found.read_files) == ({BY_NAME: 1}, 1), value
        assert reasons(found)[BY_NAME] == ""
    assert explained(path, "name IN ('n$0', 'moved')", **KEYS).read_files == 2
    assert explained(path, "name = 'moved'", **KEYS).read_files == 2
    deleted = explained(path, "name = 'n$0$1'", **KEYS)
    assert (deleted.read_files, deleted.read_row_groups) == (0, 0)
    assert explained(path, "name IS NULL", **KEYS).read_files == 2


@pytest.mark.parametrize(
    ("where", "more", "reason"),
    [
        ("name = 'n$0'", {}, "hoodie.read.record.index is not true"),
        ("name > 'n$0'", KEYS, "the predicate does not name values, texts or whole numbers, of name"),
        ("name = 'n$0'", {**KEYS, "as_of": True}, "it is of the latest state, and the query is time_travel"),
    ],
)
def test_a_secondary_index_that_is_not_used_has_a_reason(
    later_more: Path, where: str, more: dict[str, Any], reason: str
) -> None:
    path = later_more / "more/secondary_index_cow/table"
    last = str(Table.open(str(path)).timeline.commits()[0].time)
    given = {key: last if value is True else value for key, value in more.items()}
    assert reasons(explained(path, where, **given))[BY_NAME] == reason


def test_filters_of_an_expression_leave_out_files(later_more: Path) -> None:
    path = later_more / "more/expr_index_bloom/table"
    assert left_out(explained(path, "lower(name) = 'zz'")) == {BLOOM: 2}
    for value in ("n$0", "n$2", "n$3"):
        found = explained(path, f"lower(name) IN ('{value}', 'zz') AND val >= 0")
        assert (left_out(found)[BLOOM], found.read_files) == (1, 1)
    for where in ("lower(name) > 'zz'", "lower(name) = 'iiiiiiiiii'", "lower(name) = 'ä'"):
        assert "must equal ASCII texts" in reasons(explained(path, where))[BLOOM] or where[12] == ">"
    assert "no condition on lower(name)" in reasons(explained(path, "upper(name) = 'ZZ'"))[BLOOM]
    assert left_out(explained(path, "NOT (lower(name) = 'moved')")) == {}
    assert "the empty text" in reasons(explained(path, "lower(name) IN ('', 'zz')"))[BLOOM]


def test_results_that_depend_on_a_zone_are_not_used(later_more: Path) -> None:
    found = explained(later_more / "more/expr_index_cow/table", "ts > 1000086400")
    assert "from_unixtime depend on the session" in reasons(found)[BY_DAY]


@pytest.mark.parametrize(
    ("where", "index", "files"),
    [
        ("substring(name, 1, 3) < 'A'", "expr_index_idx_sub", 8),
        ("year(day) = 2001", "expr_index_idx_year", 6),
        ("month(day) = 13", "expr_index_idx_month", 8),
        ("month(day) < 13", "expr_index_idx_month", 0),
        ("upper(name) = 'AA'", "expr_index_idx_up", 8),
        ("upper(name) IN ('AB0$0', 'AA')", "expr_index_idx_up", 1),
        ("lower(name) IN ('ab1$2', 'zz')", "expr_index_idx_lowbloom", 4),
        ("name = 'Ab1$2'", "expr_index_idx_id", 3),
    ],
)
def test_results_of_expressions_leave_out_files(
    later_indexes: Path, where: str, index: str, files: int
) -> None:
    found = explained(later_indexes / "indexes/ei_cow/table", where)
    assert reasons(found)[index] == ""
    assert found.files - found.read_files >= files, found.steps
    if "month" in where or "er(" in where:  # what statistics of the column do not know
        assert left_out(found).get(index, 0) >= files
    assert reasons(found)["expr_index_idx_trim"] == "its function 'trim' is not known here"


def test_files_that_an_index_of_an_expression_does_not_have_are_read(
    later_indexes: Path, tmp_path: Path
) -> None:
    """A writer without it has made them, and somebody has brought the index back afterwards."""
    source, path = later_indexes / "indexes/ei_cow/table", tmp_path / "t"
    shutil.copytree(source, path)
    rows = hoodie.read_table(str(path), meta=False).slice(0, 1)
    new = rows.set_column(
        rows.schema.get_field_index("id"), "id", pa.array(["new"], rows.schema.field("id").type)
    )
    hoodie.write_table(new, str(path), operation="bulk_insert")
    for name in ("metadata/expr_index_idx_up", ".index_defs"):
        shutil.copytree(source / ".hoodie" / name, path / ".hoodie" / name, dirs_exist_ok=True)
    properties.update(
        LocalStorage(), str(path), {properties.METADATA_PARTITIONS: "column_stats,expr_index_idx_up,files"}
    )
    value = rows["name"][0].as_py().upper()
    found = explained(path, f"upper(name) = '{value}'")
    assert reasons(found)["expr_index_idx_up"] == ""
    assert "new" in hoodie.read_table(str(path), where=f"upper(name) = '{value}'")["id"].to_pylist()


@pytest.mark.parametrize("name", ["si_cow", "si_v8"])
@pytest.mark.parametrize(
    ("where", "index", "most"),
    [
        ("name = 'Ab1$2'", "secondary_index_idx_name", 3),
        ("name IN ('Übel\\2', 'nobody')", "secondary_index_idx_name", 4),
        ("num = 204", "secondary_index_idx_num", 1),
        ("num IN (204, 205, 9999)", "secondary_index_idx_num", 2),
        ("num = 204.0 AND part = '2024-01-02'", "secondary_index_idx_num", 1),
    ],
)
def test_secondary_indexes_of_several_file_groups(
    later_indexes: Path, name: str, where: str, index: str, most: int
) -> None:
    """The first format has the records of a value in each of them, the second in one."""
    found = explained(later_indexes / "indexes" / name / "table", where, **KEYS)
    assert reasons(found)[index] == ""
    assert 0 < found.read_files <= most < found.files, found.steps


def test_secondary_indexes_of_merge_on_read_lack_what_logs_change(later_indexes: Path) -> None:
    path = later_indexes / "indexes/si_mor/table"
    found = explained(path, "num = 211", **KEYS)
    assert "does not put into it what log files change" in reasons(found)["secondary_index_idx_num"]
    assert hoodie.read_table(str(path), where="num = 211").num_rows == 2


@pytest.fixture
def read_groups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The file groups of record indexes that are read."""
    found: list[str] = []
    records = MetadataTable.records

    def noted(self: MetadataTable, item: FileSlice, find: Any, columns: Any) -> pa.Table:
        if item.partition == "record_index":
            found.append(item.file_id.removeprefix("record-index-"))
        return records(self, item, find, columns)

    monkeypatch.setattr(MetadataTable, "records", noted)
    return found


def test_a_record_index_of_each_partition_is_read_in_those_of_the_query(
    later_indexes: Path, read_groups: list[str]
) -> None:
    path = later_indexes / "indexes/part_rli/table"
    assert explained(path, "id = 'k0022'", **KEYS).read_files == 1
    assert {name.rpartition("-0")[0][:-5] for name in read_groups} == {"2024%2D01%2D01", "a%5Fb", "eu", "us"}
    read_groups.clear()
    found = explained(path, "id = 'k0022' AND part = '2024-01-01'", **KEYS)
    assert (found.read_files, set(read_groups)) == (1, {"2024%2D01%2D01-0001-0"})
    for where in ("id = 'k0022' AND part = 'eu'", "id = 'k0003'", "id IN ('k0001', 'k0002', 'k0069')"):
        explained(path, where, **KEYS)


def changed(value: dict[str, Any]) -> dict[str, Any]:
    return {"indexDefinitions": {BY_NAME: value}}


GOOD = {
    "indexName": BY_NAME,
    "indexType": "secondary_index",
    "indexFunction": "identity",
    "sourceFields": ["name"],
    "indexOptions": {},
    "version": "V2",
}
DAMAGES: list[tuple[Any, str]] = [
    (GOOD, ""),
    (b"{", "holds no definitions of indexes: JSONDecodeError"),
    (b"[]", "holds no definitions of indexes: TypeError"),
    (b"[" * 100_000, "holds no definitions of indexes: RecursionError"),
    (b" " * 5_000_000, "has more than 4,194,304 bytes"),
    (None, "the table has no definition of it"),
    ({**GOOD, "sourceFields": [1]}, "1 is no text"),
    ({**GOOD, "sourceFields": []}, "it is not of the values of one column"),
    ({**GOOD, "sourceFields": ["region"]}, "the values of its column are those of partition paths"),
    ({**GOOD, "sourceFields": ["other"]}, "the predicate does not name values"),
    ({**GOOD, "indexType": "vector"}, "its type 'vector' is not known here"),
    ({**GOOD, "indexFunction": "lower"}, "it is not of the values of one column"),
    ({**GOOD, "version": "V3"}, "its version 'V3' is not known here"),
]


@pytest.mark.parametrize(("content", "reason"), DAMAGES)
def test_definitions_are_not_trusted(later_more: Path, tmp_path: Path, content: Any, reason: str) -> None:
    path = tmp_path / "t"
    shutil.copytree(later_more / "more/secondary_index_cow/table", path)
    file = path / DEFINITIONS
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content if isinstance(content, bytes) else json.dumps(changed(content)).encode())
    found = explained(path, "name = 'n$0'", **KEYS)
    assert reason in reasons(found)[BY_NAME]
    assert bool(reason) == bool(reasons(found)[BY_NAME])
    assert (BY_NAME in left_out(found)) == (not reason)


@pytest.mark.parametrize("where", ["/etc/passwd", ".hoodie/../../x.json", "index.json", ".hoodie//x"])
def test_definitions_out_of_the_table_are_not_read(later_more: Path, tmp_path: Path, where: str) -> None:
    path = tmp_path / "t"
    shutil.copytree(later_more / "more/secondary_index_cow/table", path)
    shutil.copy(path / DEFINITIONS, tmp_path / "x.json")
    file = path / ".hoodie/hoodie.properties"
    lines = [line for line in file.read_text().splitlines() if "index.defs.path" not in line]
    file.write_text("\n".join([*lines, f"hoodie.table.index.defs.path={where}"]) + "\n")
    found = explained(path, "name = 'n$0'", **KEYS)
    assert "is no file in .hoodie of the table" in reasons(found)[BY_NAME]


@pytest.mark.parametrize(
    ("name", "index", "where"),
    [
        ("secondary_index_cow", BY_NAME, "name = 'n$0'"),
        ("secondary_index_cow", "partition_stats", "val < -5"),
        ("expr_index_bloom", BLOOM, "lower(name) = 'zz'"),
    ],
)
def test_an_index_without_its_files_is_ignored(
    later_more: Path, tmp_path: Path, name: str, index: str, where: str
) -> None:
    path = tmp_path / "t"
    shutil.copytree(later_more / "more" / name / "table", path)
    shutil.rmtree(path / ".hoodie/metadata" / index)
    expected = hoodie.read_table(str(path), where=where, **FOLDERS)
    with pytest.warns(MetadataTableIgnored, match=f"{index} of the metadata table lacks its files"):
        rows = hoodie.read_table(str(path), where=where, **KEYS)
    assert_same_rows(rows, expected, meta=True)
    with pytest.warns(MetadataTableIgnored):
        found = hoodie.explain_read(str(path), where=where, **KEYS)
    assert "lacks its files" in reasons(found)[index]


def test_an_index_of_another_kind_is_ignored(later_more: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    shutil.copytree(later_more / "more/secondary_index_cow/table", path)
    file = path / ".hoodie/hoodie.properties"
    file.write_text(file.read_text().replace(BY_NAME, f"{BY_NAME},vector_index_x,secondary_index_../x"))
    found = explained(path, "name = 'n$0'", **KEYS)
    assert reasons(found)["vector_index_x"] == "it is of a type that is not known here"
    assert reasons(found)["secondary_index_../x"] == "the table has no definition of it"
    assert left_out(found) == {BY_NAME: 1}


@pytest.mark.parametrize(
    "name",
    full_but(
        {"1.2.0-v8/mdt_full_cow", "1.2.0-v9/mdt_1x_indexes", "more/up_6to9_mor"},
        [name for name in TABLES if name != "more/payload_custom"],  # which is refused
    ),
)
def test_random_predicates(later_tables: Path, later_more: Path, name: str) -> None:
    path = str(place(later_tables, later_more, name))
    rows = hoodie.read_table(path, **FOLDERS)
    keys = (
        rows["_hoodie_record_key"]
        if "_hoodie_record_key" in rows.column_names
        else pa.chunked_array([["", ""]])
    )
    more = KEYS if len(set(keys.to_pylist())) == len(keys) else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MetadataTableIgnored)
        for where in islice(predicates(rows, random.Random(name).randrange(1000)), 12):
            try:
                expected = hoodie.read_table(path, where=where, **FOLDERS)
            except HoodieError as error:
                with pytest.raises(type(error)):
                    hoodie.read_table(path, where=where)
                continue
            for given in ({}, more):
                found = hoodie.read_table(path, where=where, **given)
                assert_same_rows(found, expected, meta=True, what=where)
