"""A dry run says what the write then does: rows, files, and what goes out of sight."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.format.base_file import BaseFileReader
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

    def write(self, rows: Any, operation: str = "upsert", **given: Any) -> WriteResult:
        options = {**self.options, **given.pop("options", {})}
        return hoodie.write_table(rows, self.path, operation=operation, options=options, **given)

    def both(self, rows: Any, operation: str = "upsert") -> tuple[WriteResult, WriteResult]:
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


def test_late_rows_are_no_updates(orders: Orders) -> None:
    """They change nothing, as the stored rows of their keys are newer: two in files, one of them in a log."""
    orders.write(orders.rows("abc", ts=7))
    orders.write(orders.rows("b", ts=9))
    news = pa.concat_tables([orders.rows("ab", ts=5), orders.rows("c", ts=8), orders.rows("d", ts=1)])
    explained = hoodie.explain(news, orders.path, options=orders.options)
    planned, done = orders.both(news)
    assert counts(planned) == counts(done)
    assert (planned.num_updates, planned.num_inserts, planned.num_late, planned.warnings) == (1, 1, 2, [])
    assert (explained.num_updates, explained.num_late, explained.compared_groups) == (1, 2, 1)
    assert [(item.late, item.compared) for item in planned.planned] == [(2, 1)]


def test_late_rows_alone(orders: Orders) -> None:
    """They are no reason for a log; a copy-on-write table gets a file of the same rows."""
    orders.write(orders.rows("ab", ts=9))
    planned, done = orders.both(orders.rows("ab", ts=5))
    assert counts(planned) == counts(done)
    assert planned.num_late == 2
    changed = "1 partition" if done.num_files else "0 partitions"
    assert text_of("upsert", planned.to_dict()) == (
        f"upsert would change {changed} of orders: 2 late rows without effect; nothing was written"
    )


def test_a_commit_says_nothing_of_late_rows(orders: Orders) -> None:
    planned, done = (result.to_dict() for result in orders.both(orders.rows("ab")))
    assert planned["num_late"] == 0
    assert "num_late" not in done


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "GLOBAL_BLOOM", "BUCKET", "RECORD_INDEX"])
def test_late_rows_whatever_finds_the_keys(orders: Orders, index: str) -> None:
    orders.options |= {
        "hoodie.index.type": index,
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.metadata.record.index.enable": str(index == "RECORD_INDEX").lower(),
    }
    orders.write(orders.rows("abcdef", ts=5))
    planned, done = orders.both(pa.concat_tables([orders.rows("abcx", ts=1), orders.rows("dey", ts=9)]))
    assert counts(planned) == counts(done)
    assert planned.num_late == 3


#: settings of the ways in which rows merge, and the versions that have them
MERGES: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "event_time": ({"record_merge_mode": "EVENT_TIME_ORDERING"}, VERSIONS),
    "commit_time": ({"record_merge_mode": "COMMIT_TIME_ORDERING"}, VERSIONS),
    "latest": ({"datasource_write_payload_class": "OverwriteWithLatestAvroPayload"}, ("6",)),
    "partial": ({"datasource_write_payload_class": "PartialUpdateAvroPayload"}, VERSIONS),
    "non_defaults": (
        {"datasource_write_payload_class": "OverwriteNonDefaultsWithLatestAvroPayload"},
        VERSIONS,
    ),
    "marker": (
        {"payload_delete_field": "note", "payload_delete_marker": "D", "record_merge_mode": ""},
        VERSIONS,
    ),
}


@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize(
    ("merge", "version"), [(name, version) for name, (_, all_) in MERGES.items() for version in all_]
)
def test_random_rows_are_counted_as_the_write_counts_them(
    tmp_path: Path, merge: str, version: str, table_type: str
) -> None:
    """With keys that come twice, rows that delete theirs, values that are null, files that are filled."""
    given = {name: text for name, text in MERGES[merge][0].items() if text}
    orders = Orders(tmp_path / "t", version, table_type, **given)
    if merge == "commit_time" and version != "6":
        del orders.options["hoodie.datasource.write.precombine.field"]
    rng = random.Random(f"{merge} {version} {table_type}")
    late = 0
    for number in range(6):
        count = rng.randint(3, 12)
        news = pa.table(
            {
                "id": [rng.choice("abcdefghijklmnop") for _ in range(count)],
                "ts": [rng.randint(1, 6) for _ in range(count)],
                "day": [rng.choice(["mon", "tue"]) for _ in range(count)],
                "note": [rng.choice(["x", "D", None]) for _ in range(count)],
                "_hoodie_is_deleted": [rng.random() < 0.2 for _ in range(count)],
            }
        )
        operation = "upsert" if number != 4 else rng.choice(["insert", "delete"])
        planned, done = orders.both(news, operation)
        assert counts(planned) == counts(done), (number, operation, news.to_pylist())
        assert (planned.num_missing, planned.num_dropped) == (done.num_missing, done.num_dropped)
        late += planned.num_late
    if merge == "event_time":
        assert late > 0
    elif merge in ("commit_time", "latest", "non_defaults"):
        assert late == 0


@pytest.mark.parametrize("flagged", [False, True])
def test_rows_that_go_straight_from_a_file_to_new_ones(tmp_path: Path, version: str, flagged: bool) -> None:
    """The first pass looks at their statistics alone, which do not say which rows delete their key."""
    orders = Orders(tmp_path / "t", version, "COPY_ON_WRITE")
    rows = orders.rows("abc")
    if flagged:
        rows = rows.append_column("_hoodie_is_deleted", pa.array([False, True, False]))
    pq.write_table(rows, tmp_path / "day.parquet")
    planned, done = orders.both(ds.dataset(tmp_path / "day.parquet"), "bulk_insert")
    assert counts(planned) == counts(done)
    assert done.num_inserts == 3 - flagged


def test_of_stored_rows_the_columns_that_decide_are_read(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.concat_tables([orders.rows("ab", ts=5), orders.rows("c", ts=9)])
    wide = rows.append_column("text", pa.array(["long " * 99] * 3))
    orders.write(wide)
    read: set[str] = set()
    batches = BaseFileReader.batches

    def noted(self: BaseFileReader, names: list[str], *more: Any, **given: Any) -> Any:
        read.update(names)
        return batches(self, names, *more, **given)

    monkeypatch.setattr(BaseFileReader, "batches", noted)
    assert orders.write(wide.slice(0, 2), dry_run=True).num_updates == 2
    assert read == {"ts"}


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
