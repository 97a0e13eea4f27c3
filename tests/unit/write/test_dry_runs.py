"""A dry run says what the write then does: rows, files, and what goes out of sight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.jobs._main import text_of
from hoodie.write.operation import WriteResult
from tests.support.cli import Run

TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
VERSIONS = ("6", "9")


class Orders:
    def __init__(self, path: Path, version: str, table_type: str, **more: str) -> None:
        self.path = str(path)
        self.options = {
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "day",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.table.type": table_type,
            "hoodie.write.table.version": version,
            **{f"hoodie.{name.replace('_', '.')}": text for name, text in more.items()},
        }

    def rows(self, ids: str, ts: int = 1, day: str = "mon") -> pa.Table:
        return pa.table({"id": list(ids), "ts": [ts] * len(ids), "day": [day] * len(ids)})

    def write(self, rows: pa.Table, operation: str = "upsert", **given: Any) -> WriteResult:
        options = {**self.options, **given.pop("options", {})}
        return hoodie.write_table(rows, self.path, operation=operation, options=options, **given)

    def both(self, rows: pa.Table, operation: str = "upsert") -> tuple[WriteResult, WriteResult]:
        """What a dry run says, and what the write does then."""
        return self.write(rows, operation, dry_run=True), self.write(rows, operation)


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=TYPES)
def orders(request: pytest.FixtureRequest, tmp_path: Path, version: str) -> Orders:
    return Orders(tmp_path / "orders", version, request.param)


COUNTS = (
    "num_inserts",
    "num_updates",
    "num_deletes",
    "num_writes",
    "num_files",
    "num_replaced",
    "partitions",
)


def counts(result: WriteResult) -> dict[str, Any]:
    return {name: getattr(result, name) for name in COUNTS}


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "insert_overwrite", "delete"])
def test_a_dry_run_counts_what_the_write_counts(orders: Orders, operation: str) -> None:
    first = orders.both(orders.rows("abc"))
    assert counts(first[0]) == counts(first[1])
    news = orders.rows("ab" if operation == "delete" else "bde", ts=2)
    planned, done = orders.both(news, operation)
    assert counts(planned) == counts(done)
    assert done.num_writes > 0 or operation == "delete"


@pytest.mark.parametrize("moves", ["true", "false"])
def test_rows_that_change_their_partition(orders: Orders, moves: str) -> None:
    orders.options |= {
        "hoodie.index.type": "GLOBAL_SIMPLE",
        "hoodie.simple.index.update.partition.path": moves,
    }
    orders.write(orders.rows("abc"))
    news = pa.concat_tables([orders.rows("ad", ts=2, day="tue"), orders.rows("b", ts=2)])
    planned, done = orders.both(news)
    assert counts(planned) == counts(done)


def test_late_rows_are_warned_of(orders: Orders) -> None:
    """A plan does not read the stored rows, which win here."""
    orders.write(orders.rows("ab", ts=9))
    planned, done = orders.both(orders.rows("abc", ts=5))
    assert (planned.num_updates, done.num_updates) == (2, 0)
    [warning] = planned.warnings
    assert warning.startswith(
        "up to 2 updates may change nothing: a row loses to a stored one that is newer by ts"
    )
    assert hoodie.explain(orders.rows("a"), orders.path, options=orders.options).warnings
    assert orders.write(orders.rows("z"), dry_run=True).warnings == []


def test_where_the_later_row_always_wins_no_row_is_late(tmp_path: Path, version: str) -> None:
    orders = Orders(tmp_path / "t", version, "COPY_ON_WRITE", record_merge_mode="COMMIT_TIME_ORDERING")
    del orders.options["hoodie.datasource.write.precombine.field"]
    orders.write(orders.rows("ab", ts=9))
    planned, done = orders.both(orders.rows("a", ts=5))
    assert (planned.num_updates, done.num_updates, planned.warnings) == (1, 1, [])


def test_rows_that_would_be_replaced_are_those_of_a_query(orders: Orders) -> None:
    """In merge-on-read tables most of them are in logs, and so is a delete."""
    orders.write(orders.rows("abc"))
    orders.write(orders.rows("ab", ts=2))
    orders.write(orders.rows("c"), "delete")
    orders.write(orders.rows("xyz", day="tue"))
    news = orders.rows("n")
    for planned, replaced in (
        (hoodie.delete_partitions(orders.path, ["mon"], dry_run=True), [("mon", 1, 2)]),
        (hoodie.delete_partitions(orders.path, ["*"], dry_run=True), [("mon", 1, 2), ("tue", 1, 3)]),
        (orders.write(news, "insert_overwrite", dry_run=True), [("mon", 1, 2)]),
        (orders.write(news, "insert_overwrite_table", dry_run=True), [("mon", 1, 2), ("tue", 1, 3)]),
    ):
        told = [(item.partition, item.replaced_groups, item.replaced_rows) for item in planned.planned]
        assert told == replaced
        assert planned.num_replaced == len(replaced)
    assert hoodie.read_table(orders.path).num_rows == 5


@pytest.mark.parametrize("table_type", TYPES)
def test_the_line_that_jobs_log_has_the_whole(tmp_path: Path, table_type: str, version: str) -> None:
    """As an operator's log has it, which is one line."""
    orders = Orders(tmp_path / "orders", version, table_type)
    orders.write(orders.rows("ab"))

    def line(result: Any) -> str:
        return text_of(result.operation, result.to_dict())

    assert line(hoodie.delete_partitions(orders.path, ["mon"], dry_run=True)) == (
        "delete_partition would change 1 partition of orders: 1 file group with 2 rows replaced; "
        "nothing was written"
    )
    assert line(orders.write(orders.rows("c"), "insert_overwrite", dry_run=True)) == (
        "insert_overwrite would change 1 partition of orders: 1 row inserted, "
        "1 file group with 2 rows replaced; nothing was written"
    )
    assert line(orders.write(orders.rows("bc", ts=2), dry_run=True)) == (
        "upsert would change 1 partition of orders: 1 row inserted, 1 row updated; nothing was written"
    )
    assert line(orders.write(orders.rows("ab"), "delete", dry_run=True)) == (
        "delete would change 1 partition of orders: 2 rows deleted; nothing was written"
    )
    assert line(orders.write(orders.rows("a").slice(1), dry_run=True)) == (
        "upsert would change 0 partitions of orders: no rows; nothing was written"
    )


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"mode": "create", "indexes": ["bloom_filters"]}, "make files, bloom_filters"),
        ({"mode": "create", "indexes": ["column_stats", "files"]}, "make files, column_stats"),
    ],
)
def test_an_index_that_would_be_made_is_named(
    tmp_path: Path, version: str, request_: dict[str, Any], said: str
) -> None:
    orders = Orders(tmp_path / "orders", version, "COPY_ON_WRITE", metadata_enable="false")
    orders.write(orders.rows("ab"))
    result = hoodie.index_table(orders.path, **request_, dry_run=True)
    assert (
        text_of("index", result.to_dict())
        == f"hoodie index create of orders would {said}; nothing was changed"
    )


def test_a_command_says_it_too(tmp_path: Path, run: Run, version: str) -> None:
    orders = Orders(tmp_path / "orders", version, "MERGE_ON_READ")
    orders.write(orders.rows("ab"))
    orders.write(orders.rows("a", ts=2))
    code, out, _ = run("delete-partition", "--table", orders.path, "--partition", "*", "--dry-run")
    assert code == 0
    head, heads, _, line = out.splitlines()
    assert "1 file group with 2 rows replaced" in head
    assert heads.split("  ")[-1].strip() == "their size"
    assert line.split()[:3] == ["mon", "1", "2"]
