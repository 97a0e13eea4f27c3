"""SQL over several tables without Spark: the answer, and what was read for it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError, HoodieError, StorageError, TableError
from hoodie.format import log_data
from hoodie.format.base_file import BaseFileReader
from hoodie.read import log_merge
from hoodie.read.settings import SPILL_PATH
from hoodie.table.handle import TableRef
from tests.support.arrow import pc
from tests.support.requests import counted
from tests.support.rows import assert_same_rows
from tests.support.sql import KEYS, QUERIES, Oracle, queries, write_orders, write_random
from tests.support.stores import after


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return Oracle(write_orders(tmp_path_factory.mktemp("sql")))


@pytest.fixture(scope="module")
def tables(oracle: Oracle) -> dict[str, Any]:
    return oracle.tables


@pytest.fixture(scope="module")
def random_tables(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return Oracle(write_random(tmp_path_factory.mktemp("random")))


@contextmanager
def converted(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, set[str]]]:
    """The columns that are converted of base files of merged slices, and of blocks of logs."""
    seen: dict[str, set[str]] = {"base": set(), "log": set()}
    batches, block = BaseFileReader.batches, log_data.read_data_block

    def of_base(reader: Any, columns: Any = None, *more: Any) -> Any:
        seen["base"].update(reader.schema.names if columns is None else columns)
        return batches(reader, columns, *more)

    def of_log(found: Any, content: Any, target: Any, columns: Any, *more: Any) -> Any:
        seen["log"].update(columns)
        return block(found, content, target, columns, *more)

    with monkeypatch.context() as patch:
        patch.setattr(BaseFileReader, "batches", of_base)
        patch.setattr(log_merge, "read_data_block", of_log)
        yield seen


@pytest.mark.parametrize("text", QUERIES)
def test_the_answer_is_that_of_the_rows(oracle: Oracle, text: str) -> None:
    assert_same_rows(hoodie.sql(text, tables=oracle.tables), oracle.answer(text))


@pytest.mark.parametrize(
    ("seed", "count"), [(5, 8), *(pytest.param(seed, 66, marks=pytest.mark.full) for seed in (6, 7))]
)
def test_random_queries_are_answered(random_tables: Oracle, seed: int, count: int) -> None:
    answered = 0
    for text in queries(random.Random(seed), count):
        try:
            expected, answer = random_tables.answer(text), hoodie.sql(text, tables=random_tables.tables)
        except (duckdb.Error, HoodieError):
            continue  # a number that is too large, in one order of evaluation or the other
        assert_same_rows(answer, expected, what=text)
        answered += 1
    assert answered > count * 0.8


def test_columns_that_the_text_does_not_need_are_not_converted(
    tables: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with converted(monkeypatch) as seen:
        hoodie.sql("SELECT status, count(*) FROM orders WHERE amount > 3 GROUP BY status", tables=tables)
    merged = {"_hoodie_record_key", "updated"}
    assert seen["base"] == {"status", "amount", *merged}
    assert seen["log"] == {"status", "amount", *merged}
    with converted(monkeypatch) as seen:
        asked = "SELECT note FROM (SELECT *, amount * 2 AS twice FROM orders) ORDER BY note"
        hoodie.sql(asked, tables=tables)
    assert seen["base"] == {"note", *merged}
    with converted(monkeypatch) as seen:
        answer = hoodie.sql("SELECT count(*) AS n FROM orders", tables=tables)
    assert answer["n"].to_pylist() == [hoodie.read_table(tables["orders"]).num_rows]
    assert len(seen["base"] - merged) <= 1


@pytest.mark.parametrize(
    ("text", "folders"),
    [
        ("SELECT * FROM orders WHERE day = '2024-01-02'", {"2024-01-02"}),
        ("SELECT id FROM orders WHERE day >= '2024-01-03' AND amount = 1", {"2024-01-03"}),
        ("SELECT id FROM orders WHERE day IN ('2024-01-01', '2024-01-03')", {"2024-01-01", "2024-01-03"}),
        ("SELECT count(*) FROM orders WHERE _hoodie_partition_path = '2024-01-01'", {"2024-01-01"}),
        (
            "SELECT o.id FROM orders o JOIN items i USING (id) WHERE o.day = '2024-01-01'",
            {"2024-01-01"},
        ),
    ],
)
def test_partitions_that_the_text_rules_out_are_not_listed(
    oracle: Oracle, text: str, folders: set[str]
) -> None:
    with counted(oracle.tables["orders"]) as requests:
        answer = hoodie.sql(text, tables=oracle.tables)
    listed = {path[1:] for name, path, _ in requests.calls if name == "list" and path.startswith("/2024")}
    assert listed == folders
    opened = {
        path.split("/")[1] for name, path, _ in requests.calls if name == "open_input" and "/2024" in path
    }
    assert opened <= folders
    assert_same_rows(answer, oracle.answer(text))


def test_each_table_has_a_query_of_its_own(tables: dict[str, Any]) -> None:
    first, second = [entry["instant"] for entry in hoodie.instants(tables["orders"])][:2]
    path = tables["orders"]
    since = after(path, first)
    asked = {
        "now": TableRef(path),
        "before": {"path": path, "as_of": first},
        "fresh": {"path": path, "begin": since},
        "bases": {"path": path, "query": "read_optimized"},
        "between": {"path": Path(path), "begin": "earliest", "end": since, "options": {}},
    }
    text = " UNION ALL ".join(
        f"SELECT '{name}' AS name, id, amount, _hoodie_commit_time AS t FROM {name}" for name in asked
    )
    answer = hoodie.sql(text, tables=asked)
    assert second > first
    for name, arguments in {
        "now": {},
        "before": {"as_of": first},
        "fresh": {"begin": since},
        "bases": {"query": "read_optimized"},
        "between": {"begin": "earliest", "end": since},
    }.items():
        rows = answer.filter(pc.equal(answer["name"], name)).drop_columns(["name"])
        expected = hoodie.read_table(path, columns=["id", "amount", "_hoodie_commit_time"], **arguments)
        assert_same_rows(rows, expected.rename_columns(["id", "amount", "t"]), what=name)


def test_nulls_come_first_and_sums_are_longs(tables: dict[str, Any]) -> None:
    answer = hoodie.sql(
        "SELECT note, sum(amount) AS s FROM orders GROUP BY note ORDER BY note", tables=tables
    )
    assert answer["note"].to_pylist()[0] is None
    assert answer.schema.field("s").type == pa.int64()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT 1; SELECT 2", "give one SELECT"),
        ("COPY orders TO '{file}'", "give one SELECT"),
        ("CREATE TABLE t AS SELECT * FROM orders", "give one SELECT"),
        ("ATTACH '{file}'", "give one SELECT"),
        ("SET memory_limit = '8GB'", "give one SELECT"),
        ("  ; ", "give one SELECT"),
        ("SELECT * FROM read_csv('/etc/passwd')", "can't be evaluated"),
        ("SELECT * FROM '/etc/hostname'", "can't be evaluated"),
        ("SELECT * FROM tables", "can't be evaluated"),
        ("SELECT nothing FROM orders", "columns are"),
        ("SELECT CAST(id AS INTEGER) FROM orders", "can't be evaluated"),
        ("SELECT", "can't be evaluated"),
    ],
)
def test_what_is_no_query_of_the_tables_is_refused(
    tables: dict[str, Any], tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "made"
    with pytest.raises(ConfigError) as error:
        hoodie.sql(text.replace("{file}", str(file)), tables=tables)
    assert why in error.value.message
    assert not file.exists()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "name each table"),
        ("orders", "name each table"),
        ({"a b": "/t"}, "is no name"),
        ({"a": "/t", "A": "/t"}, "twice"),
        ({"a": {"path": "/t", "where": "x"}}, "where"),
        ({"a": {"query": "snapshot"}}, "no path"),
        ({"a": None}, "no path"),
        ({"a": {"path": "/t", "begin": "1", "query": "snapshot"}}, "begin"),
    ],
)
def test_tables_are_named_as_read_table_names_them(given: Any, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        hoodie.sql("SELECT 1", tables=given)
    assert why in error.value.message


def test_a_table_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HoodieError, match="no Hudi table"):
        hoodie.sql("SELECT * FROM t", tables={"t": str(tmp_path)})


def test_the_folder_to_spill_to_is_made_and_left_empty(tables: dict[str, Any], tmp_path: Path) -> None:
    text, folder = "SELECT count(*) AS n FROM orders", tmp_path / "new" / "spill"
    hoodie.sql(text, tables=tables, options={SPILL_PATH.name: str(folder)})
    assert list(folder.iterdir()) == []
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(StorageError, match=f"can't spill to {file}"):
        hoodie.sql(text, tables=tables, options={SPILL_PATH.name: str(file)})


@pytest.mark.parametrize("logs", [False, True])
def test_a_damaged_file_is_named(tmp_path: Path, logs: bool) -> None:
    rows = pa.table({"id": ["a", "b"], "day": ["x", "y"], "updated": [1, 1]})
    path = str(tmp_path / "t")
    kind = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"} if logs else {}
    hoodie.write_table(rows, path, options={**KEYS, **kind})
    if logs:
        hoodie.write_table(rows, path)
    file = next(Path(path).glob("x/*.parquet"))
    content = bytearray(file.read_bytes())
    content[4:400] = bytes(396)
    file.write_bytes(bytes(content))
    with pytest.raises(TableError, match=file.name):
        hoodie.sql("SELECT * FROM t", tables={"t": path})
