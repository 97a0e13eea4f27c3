"""Every query that Apache Hudi 0.15.0 answered on its own tables, asked of us: same rows, meta columns too.

Where Hudi's answer is not right, a test says why, and holds ours to something else that Hudi answered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import ConfigError, StateUnavailable
from tests.support.arrow import pc
from tests.support.golden import COPY_ON_WRITE, FEATURES, MERGE_ON_READ
from tests.support.properties import FAST
from tests.support.rows import META_COLUMNS, assert_same_rows
from tests.support.tiers import full_but

#: Hudi 0.15 answers this column from the partition path, which does not hold the value; we, hudi-rs and Hudi
#: 1.2 give what is stored
FROM_PATH = {"cow_tskeygen": "ev"}
#: incremental queries of Hudi 0.15 look at no path: '' for the partition of nulls, null for what no file
#: holds; we and Hudi 1.2 give what the path tells
FROM_FILES = {"cow_hive_urlenc": "region", "cow_droppartcol": "region"}

#: what Hudi's answer is not right about, by table and file; see the tests below
ODD = {
    "cow_archived": {"inc_000_20261121001146274"},
    "cow_clean_versions": {"asof_20261121001034071"},
    "mor_rollback_failed": {"snapshot"},
    "mor_partial_payload": {
        "inc_20261121000723070_20261121000725899",
        "inc_20261121000723070_20261121000728522",
    },
}
#: tables with queries that Hudi refused
REFUSED = ["all_instants", "cow_archived", "cow_clean_commits", "cow_nometafields", "cow_savepoint",
           "mor_archived", "mor_clean_commits"]  # fmt: skip


def _folder(golden_tables: Path, name: str) -> Path:
    return golden_tables / "0.15.0-v6" / name


def _query(file: str) -> dict[str, Any]:
    """The query that Hudi answered with this file."""
    kind, *times = file.split("_")
    asked: dict[str, dict[str, Any]] = {
        "snapshot": {},
        "ro": {"query": "read_optimized"},
        "asof": {"as_of": times[0] if times else ""},
        "inc": {"query": "incremental", "begin": times[0], "end": times[-1]} if times else {},
    }
    return asked[kind]


def _ask(folder: Path, file: str, **more: Any) -> pa.Table:
    found: pa.Table = hoodie.read_table(str(folder / "table"), **_query(file), **more)
    return found


def _expected(folder: Path, file: str) -> pa.Table:
    return pq.read_table(folder / "expected" / f"{file}.parquet")


def of_each_kind(files: Iterable[str]) -> list[str]:
    """The last query of each kind."""
    return list({file.partition("_")[0]: file for file in files}.values())


def some(files: Iterable[str]) -> list[str]:
    return of_each_kind(files) if FAST else list(files)


@pytest.mark.parametrize("name", sorted(FEATURES))
def test_a_query_of_each_kind_equals_what_apache_hudi_answers(golden_tables: Path, name: str) -> None:
    check_answers(golden_tables, name, of_each_kind)


@pytest.mark.full
@pytest.mark.parametrize("name", [*COPY_ON_WRITE, *MERGE_ON_READ])
def test_queries_equal_what_apache_hudi_answers(golden_tables: Path, name: str) -> None:
    check_answers(golden_tables, name, list)


def check_answers(golden_tables: Path, name: str, chosen: Callable[[list[str]], Collection[str]]) -> None:
    folder = _folder(golden_tables, name)
    ignore = {FROM_PATH[name]} if name in FROM_PATH else set()
    files = sorted(path.stem for path in (folder / "expected").glob("*.parquet"))
    asked = [file for file in files if not file.startswith("cdc") and file not in ODD.get(name, ())]
    assert len(asked) >= 2
    for file in chosen(asked):
        odd = ignore | ({FROM_FILES[name]} if name in FROM_FILES and file.startswith("inc") else set())
        assert_same_rows(
            _ask(folder, file),
            _expected(folder, file),
            meta=True,
            ignore=odd,
            what=f"{name} {file}",
        )


@pytest.mark.parametrize(
    "name",
    full_but(
        {"cow_types", "mor_logs", "mor_parquet_logs"},
        ["mor_logs", "mor_compacted", "mor_parquet_logs", "cow_types", "mor_cdc"],
    ),
)
@pytest.mark.parametrize("where", full_but({"ts % 2 = 0"}, [None, "ts % 2 = 0"]))
def test_few_columns_and_predicates(golden_tables: Path, name: str, where: str | None) -> None:
    folder = _folder(golden_tables, name)
    for file in some(sorted(path.stem for path in (folder / "expected").glob("*.parquet"))):
        if file.startswith("cdc"):
            continue
        expected = _expected(folder, file)
        if where:
            expected = expected.filter(pc.equal(pc.bit_wise_and(expected["ts"], 1), 0))
        columns = ["region", "id"]
        got = _ask(folder, file, columns=columns, where=where)
        assert_same_rows(got, expected.select(columns), what=f"{name} {file}")
        assert got.column_names == columns


@pytest.mark.parametrize(
    "name",
    full_but(
        {"mor_logs"},
        ["cow_clustered", "cow_insert_overwrite", "cow_types", "mor_cdc", "mor_compacted", "mor_logs"],
    ),
)
def test_sql_over_several_queries_of_a_table(golden_tables: Path, name: str) -> None:
    """Rows of each answer of Apache Hudi's that its snapshot has unchanged."""
    folder = _folder(golden_tables, name)
    files = sorted(path.stem for path in (folder / "expected").glob("*.parquet"))
    tables = {
        file: {"path": str(folder / "table"), **_query(file)} for file in files if not file.startswith("cdc")
    }
    assert len(tables) >= 2
    for file in some(tables):
        text = (
            f"SELECT a.id, a.region, a.ts FROM {file} a JOIN snapshot "
            "USING (_hoodie_record_key, _hoodie_commit_time, _hoodie_partition_path)"
        )
        both = ["_hoodie_record_key", "_hoodie_commit_time", "_hoodie_partition_path"]
        named = [*both, "id", "region", "ts"]
        expected = (
            _expected(folder, file)
            .select(named)
            .join(_expected(folder, "snapshot").select(both), both, join_type="inner")
        )
        assert_same_rows(hoodie.sql(text, tables=tables), expected.select(named[3:]), what=f"{name} {file}")


@pytest.mark.parametrize("name", REFUSED)
def test_what_apache_hudi_refuses_we_refuse(golden_tables: Path, name: str) -> None:
    folder = _folder(golden_tables, name)
    answers = json.loads((folder / "meta.json").read_text())["expected"]
    refused = [question for question, answer in answers.items() if "error" in answer]
    assert refused
    for question in refused:
        kind, *rest = question.split()
        options = {"as_of": rest[0]} if kind == "asof" else dict(item.split("=") for item in rest)
        with pytest.raises(
            (ConfigError, StateUnavailable), match=r"before what the cleaner kept|keeps no meta columns"
        ):
            hoodie.read_table(str(folder / "table"), **options)


def test_a_rollback_later_than_the_newest_commit_hides_nothing(golden_tables: Path) -> None:
    """Hudi 0.15 stops at its block, and so does not see the newest rows; its incremental query does."""
    folder = _folder(golden_tables, "mor_rollback_failed")
    got = _ask(folder, "snapshot")
    assert_same_rows(got, _expected(folder, "inc_000_20261121000559542"), meta=True)
    stale = _expected(folder, "snapshot")
    assert pc.sum(pc.equal(stale["_hoodie_commit_time"], "20261121000559542")).as_py() == 20
    assert pc.sum(pc.equal(got["_hoodie_commit_time"], "20261121000559542")).as_py() == 30


@pytest.mark.parametrize("end", ["20261121000725899", "20261121000728522"])
def test_partial_updates_come_whole_from_incremental_queries(golden_tables: Path, end: str) -> None:
    """Hudi merges only what the period wrote, and gives null for columns that an update left as they were."""
    folder = _folder(golden_tables, "mor_partial_payload")
    begin = "20261121000723070"
    got = _ask(folder, f"inc_{begin}_{end}")
    whole = hoodie.read_table(str(folder / "table"), as_of=end)
    assert_same_rows(got, whole.filter(pc.greater(whole["_hoodie_commit_time"], begin)), meta=True)
    theirs = _expected(folder, f"inc_{begin}_{end}")
    assert_same_rows(got.select(list(META_COLUMNS)), theirs.select(list(META_COLUMNS)), meta=True)
    mine = {row["id"]: row for row in got.to_pylist()}
    for row in theirs.to_pylist():
        assert {key: value for key, value in row.items() if value is not None}.items() <= mine[
            row["id"]
        ].items()


def test_earliest_means_all_rows_also_of_archived_commits(golden_tables: Path) -> None:
    """From "000" on, Hudi gives all rows of a merge-on-read table, else those of commits not archived."""
    folder = _folder(golden_tables, "cow_archived")
    got = _ask(folder, "inc_000_20261121001146274")
    assert_same_rows(got, _expected(folder, "snapshot"), meta=True)
    active = pc.greater_equal(got["_hoodie_commit_time"], "20261121001140864")
    assert_same_rows(got.filter(active), _expected(folder, "inc_000_20261121001146274"), meta=True)


def test_a_state_whose_files_are_gone_is_an_error(golden_tables: Path) -> None:
    """Where the cleaner keeps a number of versions, Hudi answers with no rows."""
    folder = _folder(golden_tables, "cow_clean_versions")
    assert _expected(folder, "asof_20261121001034071").num_rows == 0
    with pytest.raises(StateUnavailable, match=r"before what the cleaner kept: .* is gone"):
        _ask(folder, "asof_20261121001034071")
