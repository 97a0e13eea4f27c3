"""Statements that change a table: what each writes, what another writer's commit means for it, what is
refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.cli import main
from hoodie.errors import CommitConflict, ConfigError, InputError
from hoodie.read.duckdb_sql import TableDataset
from hoodie.timeline.tokens import TOKEN_KEY
from hoodie.write.operation import WriteResult
from tests.support.statements import DAY, KEY, LOGS, ORDERED


def orders(**columns: list[Any]) -> pa.Table:
    given: dict[str, list[Any]] = {
        "id": ["a", "b", "c"],
        "day": ["1", "1", "2"],
        "updated": [5, 5, 5],
        "amount": [1, 2, None],
        **columns,
    }
    numbers = ("updated", "amount")
    return pa.table(
        {
            name: pa.array(values, pa.int64() if name in numbers else pa.string())
            for name, values in given.items()
        }
    )


def made(folder: Path) -> str:
    path = str(folder / "orders")
    hoodie.write_table(orders(), path, options={**KEY, **DAY, **ORDERED, **LOGS})
    return path


@pytest.fixture
def table(tmp_path: Path) -> str:
    return made(tmp_path)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table that no statement changes."""
    return made(tmp_path_factory.mktemp("unchanged"))


def amounts(path: str) -> dict[str, Any]:
    found = hoodie.read_table(path, meta=False)
    return dict(zip(found["id"].to_pylist(), found["amount"].to_pylist(), strict=True))


def merge(when: str, table: str, source: pa.Table, on: str = "t.id = s.id") -> WriteResult:
    result = hoodie.sql(f"MERGE INTO t USING s ON {on} {when}", tables={"t": table, "s": source})
    assert isinstance(result, WriteResult)
    return result


def test_a_merge_is_one_commit_and_no_new_column(table: str) -> None:
    before = len(hoodie.instants(table))
    source = orders(id=["a", "b", "d"], updated=[6, 6, 6], amount=[10, 20, 40])
    result = merge(
        "WHEN MATCHED AND s.amount > 10 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN "
        "INSERT *",
        table,
        source,
    )
    assert (result.action, result.operation, result.num_inserts) == ("deltacommit", "upsert", 1)
    assert amounts(table) == {"a": 10, "c": None, "d": 40}
    assert len(hoodie.instants(table)) == before + 1
    assert hoodie.read_table(table, meta=False).schema.names == ["id", "day", "updated", "amount"]


def test_a_merge_that_deletes_needs_the_keys_only(table: str) -> None:
    keys = orders(id=["a", "c", "x"]).select(["id"])
    assert merge("WHEN MATCHED THEN DELETE", table, keys).num_deletes == 2
    assert amounts(table) == {"b": 2}


def test_of_source_rows_with_one_key_the_newest_counts_and_late_ones_lose(table: str) -> None:
    source = orders(id=["a", "a", "b"], day=["1", "1", "1"], updated=[7, 9, 4], amount=[70, 90, 40])
    merge("WHEN MATCHED THEN UPDATE SET *", table, source)
    assert amounts(table) == {"a": 90, "b": 2, "c": None}
    with pytest.raises(InputError, match="several rows of s have one key"):
        merge("WHEN MATCHED THEN UPDATE SET amount = s.amount", table, source.drop_columns(["updated"]))
    assert amounts(table) == {"a": 90, "b": 2, "c": None}


def test_a_merge_moves_no_row(table: str) -> None:
    source = orders(day=["1", "1", "9"], updated=[6, 6, 6])
    with pytest.raises(InputError, match=r"move a row to another partition \(day\)"):
        merge("WHEN MATCHED THEN UPDATE SET *", table, source)
    clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    merge(clauses, table, source, "t.id = s.id AND t.day = s.day")
    assert sorted(hoodie.read_table(table)["day"].to_pylist()) == ["1", "1", "2", "9"]


def test_columns_are_not_taken_for_names_that_are_made_here(tmp_path: Path) -> None:
    """The local engine numbers columns and relations."""
    path, names = str(tmp_path / "t"), [f"{letter}{number}" for letter in "cr" for number in range(45)]
    rows = pa.table({"id": ["a", "b"], **{name: [1, 2] for name in names}})
    hoodie.write_table(rows, path, options=KEY)
    merge("WHEN MATCHED THEN UPDATE SET c7 = s.c7 + s.r9", path, rows)
    found = hoodie.read_table(path, meta=False).sort_by("id")
    assert found["c7"].to_pylist() == [2, 4]
    assert found.drop_columns("c7").equals(
        rows.drop_columns("c7").select(found.drop_columns("c7").column_names)
    )


def test_an_update_keeps_the_ordering_column_or_raises_it(table: str) -> None:
    hoodie.sql("UPDATE t SET updated = updated + 1, amount = NULL WHERE id = 'a'", tables={"t": table})
    with pytest.raises(InputError, match="ordering column updated smaller"):
        hoodie.sql("UPDATE t SET updated = 1", tables={"t": table})
    assert amounts(table) == {"a": None, "b": 2, "c": None}


def test_inserts(table: str, tmp_path: Path) -> None:
    pq.write_table(orders(id=["x", "y", "z"]), tmp_path / "new.parquet")
    tables = {"t": table, "s": {"source": str(tmp_path / "new.parquet")}}
    hoodie.sql("INSERT INTO t (amount, id, day, updated) VALUES (1.9, 'k', '3', 1)", tables=tables)
    hoodie.sql("INSERT INTO t SELECT * FROM s WHERE id = 'x'", tables=tables)
    assert amounts(table) == {"a": 1, "b": 2, "c": None, "k": 1, "x": 1}
    text = "INSERT OVERWRITE t PARTITION (day = '1') SELECT id, updated, 7 FROM s WHERE id = 'y'"
    hoodie.sql(text, tables=tables)
    assert amounts(table) == {"c": None, "k": 1, "y": 7}
    upsert = {"hoodie.spark.sql.insert.into.operation": "upsert"}
    result = hoodie.sql("INSERT INTO t VALUES ('k', '3', 2, 5)", tables=tables, options=upsert)
    assert result.operation == "upsert"
    hoodie.sql("INSERT OVERWRITE t SELECT * FROM t WHERE id = 'k'", tables=tables)
    assert amounts(table) == {"k": 5}


def test_delete_without_where_deletes_all_rows(table: str) -> None:
    assert hoodie.sql("DELETE FROM t;", tables={"t": table}).num_deletes == 3
    assert amounts(table) == {}


def test_required_columns_stay_required(tmp_path: Path) -> None:
    fields = {"id": pa.string(), "amount": pa.int32()}
    schema = pa.schema([pa.field(name, kind, nullable=False) for name, kind in fields.items()])
    path = str(tmp_path / "required")
    hoodie.write_table(pa.table({"id": ["a"], "amount": [1]}, schema=schema), path, options=KEY)
    hoodie.sql("UPDATE t SET amount = amount * 3000000000 - 2999999999", tables={"t": path})
    assert hoodie.read_table(path, meta=False).schema.equals(schema)
    with pytest.raises(InputError, match="amount"):
        hoodie.sql("UPDATE t SET amount = NULL", tables={"t": path})


def test_calls(table: str) -> None:
    hoodie.sql("UPDATE t SET amount = 3", tables={"t": table})
    options = {"hoodie.compact.inline.max.delta.commits": "1"}
    result = hoodie.sql("CALL compact(table => 't', mode => 'run')", tables={"t": table}, options=options)
    assert result.to_dict()["status"] == "compacted"
    saved = hoodie.sql("call SavePoint(table => 't', user => 'me')", tables={"t": table})
    assert saved.to_dict()["instant"] == hoodie.instants(table)[-2]["instant"]


def commits_between(
    monkeypatch: pytest.MonkeyPatch, path: str, times: int, options: dict[str, str] | None = None
) -> None:
    """Another writer commits once the table's files are found, so often."""
    scanner, left = TableDataset.scanner, [times]

    def scanned(self: Any, *args: Any, **given: Any) -> Any:
        found = scanner(self, *args, **given)
        if left[0]:
            left[0] -= 1
            hoodie.write_table(orders(amount=[100, 200, 300]), path, options=options)
        return found

    monkeypatch.setattr(TableDataset, "scanner", scanned)


@pytest.mark.parametrize("mode", ["", "optimistic_concurrency_control"])
def test_rows_of_another_writer_are_not_lost(table: str, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    options = (
        {"hoodie.write.lock.provider": "in_process", "hoodie.write.concurrency.mode": mode} if mode else {}
    )
    commits_between(monkeypatch, table, 1, options)
    hoodie.sql("UPDATE t SET amount = amount + 1 WHERE id <> 'b'", tables={"t": table}, options=options)
    assert amounts(table) == {"a": 101, "b": 200, "c": 301}


def test_a_statement_that_is_always_too_late_is_refused(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    commits_between(monkeypatch, table, 9)
    with pytest.raises(CommitConflict, match="came between the reading of its rows and their writing"):
        hoodie.sql("DELETE FROM t WHERE amount > 0", tables={"t": table})
    assert amounts(table) == {"a": 100, "b": 200, "c": 300}


def test_a_compaction_is_no_other_writer(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hoodie.sql("UPDATE t SET amount = 3", tables={"t": table})
    scanner, results = TableDataset.scanner, []

    def scanned(self: Any, *args: Any, **given: Any) -> Any:
        found = scanner(self, *args, **given)
        due = {"hoodie.compact.inline.max.delta.commits": "1"}
        results.append(hoodie.compact_table(table, options=due).to_dict()["status"])
        return found

    monkeypatch.setattr(TableDataset, "scanner", scanned)
    hoodie.sql("UPDATE t SET amount = amount + 1 WHERE id = 'a'", tables={"t": table})
    assert amounts(table) == {"a": 4, "b": 3, "c": 3}
    assert results == ["compacted"]


def test_a_token_makes_a_statement_once(table: str) -> None:
    for _ in range(2):
        result = hoodie.sql(
            "UPDATE t SET amount = amount + 1", tables={"t": table}, extra_metadata={TOKEN_KEY: "day 1"}
        )
    assert result.status == "already_committed"
    assert amounts(table) == {"a": 2, "b": 3, "c": None}


def test_the_command(table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(
        orders(id=["a", "x", "y"], updated=[6, 6, 6], amount=[10, 20, 30]), tmp_path / "new.parquet"
    )
    named = ["--table", f"t={table}", "--source", f"s={tmp_path / 'new.parquet'}"]
    text = "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET amount = s.amount"
    assert main(["sql", text, *named, "--dry-run"]) == 0
    assert amounts(table) == {"a": 1, "b": 2, "c": None}
    assert main(["sql", text, *named]) == 0
    assert amounts(table) == {"a": 10, "b": 2, "c": None}
    assert "0 inserted, 1 updated, 0 deleted" in capsys.readouterr().out
    assert main(["sql", "SELECT count(*) AS n FROM t JOIN s USING (id)", *named, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [{"n": 1}]
    assert main(["sql", "CALL clean(table => 't')", *named]) == 0
    assert "clean" in capsys.readouterr().out
    assert main(["sql", "DELETE FROM t", *named, "--limit", "3"]) == 1
    assert "--limit" in capsys.readouterr().err


def test_a_dry_run_writes_nothing(table: str) -> None:
    result = hoodie.sql("DELETE FROM t WHERE day = '1'", tables={"t": table}, dry_run=True)
    assert result.status == "planned"
    assert [(item.partition, item.deletes) for item in result.planned] == [("1", 2)]
    assert len(amounts(table)) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("UPDATE t SET id = 'x'", "column of the record key"),
        ("UPDATE t SET day = 'x'", "column of the partition path"),
        ("UPDATE t SET other = 1", "no column other; it has id, day, updated, amount"),
        ("UPDATE t SET amount = 1, AMOUNT = 2", "set twice"),
        ("UPDATE t SET s.amount = 1", "s.amount is no column of t"),
        ("UPDATE t SET amount = 1 FROM s", "UPDATE with FROM"),
        ("DELETE FROM other", "other is not among tables="),
        ("DELETE FROM s", "s is rows, not a Hudi table"),
        ("DELETE FROM t WHERE", "can't be parsed"),
        ("DELETE FROM t; DELETE FROM t", "2 statements"),
        ("DELETE FROM old", "read as time_travel"),
        ("DELETE FROM t WHERE amount > nothing", "nothing"),
        ("DELETE FROM t WHERE id IN (SELECT content FROM read_text('/etc/hostname'))", "function read_text"),
        ("MERGE INTO t USING s ON t.day = s.day WHEN MATCHED THEN DELETE", "does not compare id"),
        ("MERGE INTO t USING s ON t.id = s.id OR true WHEN MATCHED THEN DELETE", "Other conditions belong"),
        ("MERGE INTO t USING s ON t.id = s.id AND s.amount > 1 WHEN MATCHED THEN DELETE", "s.amount > 1"),
        ("MERGE INTO t USING s ON id = s.id WHEN MATCHED THEN DELETE", "write t.id or s.id"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE", "BY SOURCE"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 'x'", "keeps the key"),
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES ('x')",
            "keeps the key",
        ),
        (
            "MERGE INTO t USING (SELECT id FROM s) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
            "no day, updated",
        ),
        (
            "MERGE INTO t USING s ON t.id = s.id"
            " WHEN MATCHED AND count(*) = 1 AND EXISTS (SELECT 1 FROM s) THEN DELETE",
            "COUNT(*) in a condition with a subquery",
        ),
        (
            "MERGE INTO t USING s ON t.id = s.id"
            " WHEN MATCHED AND EXISTS (SELECT 1 FROM s) AND rank() OVER (ORDER BY s.id) = 1 THEN DELETE",
            "in a condition with a subquery",
        ),
        ("INSERT INTO t VALUES ('x', 'y')", "has 2 columns and is to have 4"),
        ("INSERT INTO t (id, none) VALUES ('x', 'y')", "no column none"),
        ("INSERT INTO t PARTITION (amount = 1) SELECT 1, 2, 3", "no column of the partition path"),
        ("CALL vacuum(table => 't')", "no service vacuum; CALL one of"),
        ("CALL clean('t')", "has no name"),
        ("CALL clean(table => 't', days => 3)", "no argument days; it has table, mode, dry_run"),
        ("CALL clean", "is no call"),
        ("CREATE TABLE x (id INT)", "the first write makes a table"),
        ("TRUNCATE TABLE t", "DELETE FROM without WHERE"),
    ],
)
def test_what_is_refused(unchanged: str, text: str, said: str) -> None:
    tables = {"t": unchanged, "s": orders(), "old": {"path": unchanged, "as_of": "2099-01-01"}}
    before = hoodie.instants(unchanged)
    with pytest.raises(ConfigError) as caught:
        hoodie.sql(text, tables=tables)
    assert said in caught.value.message
    assert hoodie.instants(unchanged) == before


def test_a_table_that_mixes_columns_takes_no_update(tmp_path: Path) -> None:
    path = str(tmp_path / "mixed")
    payload = {"hoodie.datasource.write.payload.class": "partial_update", **LOGS}
    hoodie.write_table(orders(), path, options={**KEY, **ORDERED, **payload})
    with pytest.raises(ConfigError, match="mixes the columns"):
        hoodie.sql("UPDATE t SET amount = NULL", tables={"t": path})
