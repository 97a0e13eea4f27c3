"""Statements that change a table, on Spark: the rows that DuckDB has after them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.answers import Servers, interpreter
from tests.support.partial_updates import EVENT, Twins, options_of
from tests.support.statements import Judge, for_kind, searching, statements, stored, write_tables

pytestmark = pytest.mark.spark
#: the statements of the last part, and what is said of them
REFUSED = {
    "UPDATE t SET updated = 0": "ordering column updated smaller",
    "MERGE INTO t USING (SELECT id, amount FROM s UNION ALL SELECT id, price FROM s) s ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET amount = s.amount": "several rows of s have one key",
    "MERGE INTO t USING (SELECT id, 'x' AS day FROM s) s ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET day = s.day": ("move a row to another partition"),
    "DELETE FROM t WHERE nothing > 1": "nothing",
}


@pytest.mark.full
@pytest.mark.parametrize(
    ("version", "mode", "kind", "count"),
    [("4", "classic", "days", 6), ("4", "classic", "day logs", 6), ("4", "connect", "days", 4)],
)
def test_rows_are_those_of_duckdb(
    servers: Servers, tmp_path: Path, version: str, mode: str, kind: str, count: int
) -> None:
    pick = random.Random(f"{mode} {kind}")
    paths, target, source = write_tables(tmp_path, [kind], pick)
    judge, path = Judge(target, source), str(tmp_path / "s.parquet")
    pq.write_table(source, path)
    for text, plain in [*statements(pick, count), *searching()]:
        judge.run(plain)
        said = servers.ask(
            "statements", mode, paths[kind], path, [for_kind(text, kind)], python=interpreter(version)
        )
        assert said["said"] in (["upsert"], ["delete"]), said
        assert stored(paths[kind]) == judge.rows(), text
    insert = "INSERT INTO t SELECT id || 'new', day, price, amount, NULL, updated FROM s"
    judge.run(insert.replace("price, amount", "trunc(price), amount"))
    call = "CALL clean(table => 't', dry_run => true)"
    said = servers.ask("statements", mode, paths[kind], path, [insert, call], python=interpreter(version))
    assert said["said"] == ["insert", "clean"]
    assert said["rows"] == source.num_rows
    assert bool(said["views"]) == (mode == "connect")
    assert stored(paths[kind]) == judge.rows()
    if kind == "days" and mode == "classic":
        said = servers.ask("statements", mode, paths[kind], path, list(REFUSED), python=interpreter(version))
        for expected, message in zip(REFUSED.values(), said["said"], strict=True):
            assert expected in message
        assert stored(paths[kind]) == judge.rows()


@pytest.mark.full
@pytest.mark.parametrize("version", [8, 9])
def test_merges_of_changed_columns(servers: Servers, tmp_path: Path, version: int) -> None:
    """Rows are those of whole rows, and of a model; compactions and upserts between them are local."""
    path = tmp_path / "s.parquet"

    def ask(text: str, table: str, source: pa.Table, options: Mapping[str, str]) -> Any:
        pq.write_table(source, path)
        said = servers.ask("statements", "classic", table, str(path), [text], dict(options))
        assert said["said"] in (["upsert"], ["delete"]), said

    twins = Twins(tmp_path, f"spark {version}", EVENT, options_of(version, EVENT), ask)
    for _ in range(8):
        twins.step()
        twins.check()
    assert twins.partial
