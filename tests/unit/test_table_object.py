"""`hoodie.Table`: each method on rows of its own, beside the functions and plain Arrow."""

from __future__ import annotations

import datetime as dt
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import hoodie
from hoodie.errors import (
    AlreadyExists,
    ConfigError,
    HoodieError,
    InputError,
    StorageError,
    TableMismatch,
    TableNotFound,
)
from hoodie.write.settings import TABLE_VERSION
from tests.support.changes import keeps_changes

WORDS: dict[str, Any] = {"keys": "id", "partition_by": "day", "ordering": "ts"}
DAYS = (dt.date(2024, 1, 1), dt.date(2024, 1, 2))
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
NULLS = {"hoodie.write.set.null.for.missing.columns": "true"}


def orders(*keys: str, ts: int = 1, amount: float = 1.0) -> pa.Table:
    days = [DAYS[number % 2] for number in range(len(keys))]
    return pa.table(
        {
            "id": list(keys),
            "day": pa.array(days, pa.date32()),
            "ts": pa.array([ts] * len(keys), pa.int64()),
            "amount": pa.array([amount] * len(keys), pa.float64()),
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> hoodie.Table:
    made = hoodie.Table(tmp_path / "orders")
    made.upsert(orders("a", "b", "c"), **WORDS)
    return made


def amounts(table: hoodie.Table, **how: Any) -> dict[str, float]:
    rows = table.read(["id", "amount"], **how).to_arrow().to_pylist()
    return {row["id"]: row["amount"] for row in rows}


def logged(path: Path) -> hoodie.Table:
    """Merge-on-read, with logs."""
    made = hoodie.Table(path)
    made.upsert(orders("a", "b"), **WORDS, options=MERGE_ON_READ)
    for number in (2, 3):
        made.upsert(orders("a", "b", ts=number, amount=float(number)))
    return made


# --- what it is -------------------------------------------------------------------------------------------


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    table = hoodie.Table(tmp_path / "orders")
    assert not table.exists()
    assert "there is no table yet" in repr(table)
    for read in (
        lambda: table.schema,
        lambda: table.version,
        lambda: table.properties,
        table.history,
        table.files,
        table.read().to_arrow,
        lambda: table.merge(orders("a")),
        lambda: table.delete(orders("a"), keys="id"),
    ):
        with pytest.raises(TableNotFound):
            read()
    assert not (tmp_path / "orders").exists()


@pytest.mark.table_version(6)
def test_a_table_that_is_there(table: hoodie.Table) -> None:
    assert table.exists()
    assert table.version == 6
    assert table.schema.equals(orders("a").schema)
    assert table.properties["hoodie.table.recordkey.fields"] == "id"
    [entry] = table.history()
    assert (entry.action, entry.state, entry.operation, entry.inserts) == ("commit", "completed", "upsert", 3)
    assert entry.changed is not None
    assert abs(entry.changed - dt.datetime.now(dt.timezone.utc)) < dt.timedelta(minutes=5)
    groups = table.files()
    assert {group.partition for group in groups} == {"2024-01-01", "2024-01-02"}
    for group in groups:
        file = Path(table.path) / group.partition / (group.slices[0].name or "")
        assert file.stat().st_size == group.slices[0].bytes


def test_log_files_are_listed(tmp_path: Path) -> None:
    table = logged(tmp_path / "t")
    logs = [log for group in table.files() for item in group.slices for log in item.logs]
    assert len(logs) == 4
    assert all(log.bytes > 0 and ".log." in log.name for log in logs)


def test_the_archived_history_comes_first(table: hoodie.Table) -> None:
    few = {
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.commits.retained": "1",
    }
    for number in range(6):
        table.upsert(orders("a", ts=number + 2))
    before = [entry.instant for entry in table.history()]
    table.clean(options=few)
    assert table.archive(options=few).status == "archived"
    active = [entry.instant for entry in table.history()]
    assert before[0] not in active
    whole = [entry.instant for entry in table.history(archived=True)]
    assert whole == sorted(whole)
    assert set(before) <= set(whole)


@pytest.mark.table_version(6)
def test_its_text_has_a_line_for_each_fact(table: hoodie.Table) -> None:
    first, *facts = repr(table).splitlines()
    assert first == f"hoodie.Table({table.path!r})"
    found = {name.strip(): value.strip() for name, _, value in (fact.partition(":") for fact in facts)}
    assert found["type"] == "COPY_ON_WRITE, table version 6"
    assert (found["keys"], found["partition_by"], found["ordering"]) == ("id", "day", "ts")
    assert found["newest commit"] == table.history()[-1].instant
    assert found["columns"].startswith("id: string, day: date32[day]")


def test_what_a_table_says_is_escaped(tmp_path: Path) -> None:
    name = "<script>\x1b[2J"
    table = hoodie.Table(tmp_path / "t")
    rows = pa.table({"id": ["<b>&"], "ts": [1], "text": ["\x1b]0;x<i>"]})
    table.upsert(rows, keys="id", options={"hoodie.table.name": name})
    for text in (table._repr_html_(), table.read()._repr_html_()):
        assert not re.search(r"<script|<b>|<i>|\x1b", text)
    assert "&lt;script&gt;" in table._repr_html_()
    assert "&lt;b&gt;&amp;" in table.read()._repr_html_()
    assert "\x1b" not in repr(table) + repr(table.read(where="'\x1b' = id"))


def test_a_damaged_table_is_shown_and_not_raised(table: hoodie.Table) -> None:
    (Path(table.path) / ".hoodie" / "hoodie.properties").write_text("torn")
    assert "error:" in repr(table)
    assert "error" in table._repr_html_()
    assert "error" in table.read()._repr_html_()
    with pytest.raises(HoodieError):
        table.exists()


# --- create -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [None, 8, 9])
def test_create(tmp_path: Path, version: int | None) -> None:
    schema = orders("a").schema
    how: Any = {"type": "MERGE_ON_READ", "name": "o", "version": version}
    table = hoodie.Table.create(tmp_path / "t", schema, **WORDS, **how)
    assert table.version == (version or TABLE_VERSION.default)
    assert table.schema.equals(schema)
    assert table.properties["hoodie.table.type"] == "MERGE_ON_READ"
    assert table.properties["hoodie.table.name"] == "o"
    assert table.read().to_arrow().num_rows == 0
    table.upsert(orders("a", "b"))
    assert set(amounts(table)) == {"a", "b"}
    with pytest.raises(AlreadyExists, match="exist_ok"):
        hoodie.Table.create(tmp_path / "t", schema, keys="id")
    again = hoodie.Table.create(tmp_path / "t", schema, **WORDS, exist_ok=True)
    assert set(amounts(again)) == {"a", "b"}
    with pytest.raises(TableMismatch, match="keys='ts', the table has 'id'"):
        hoodie.Table.create(tmp_path / "t", schema, keys="ts", exist_ok=True)


# --- words ------------------------------------------------------------------------------------------------


def test_a_table_knows_its_columns(table: hoodie.Table) -> None:
    table.upsert(orders("d"))
    table.upsert(orders("e"), keys=["id"], partition_by=["day"], ordering="ts")
    with pytest.raises(TableMismatch) as caught:
        table.upsert(orders("f"), keys=["id", "ts"], partition_by=[], ordering="amount")
    for said in (
        "keys='id,ts', the table has 'id'",
        "partition_by=none, the table has 'day'",
        "ordering='amount', the table has 'ts'",
    ):
        assert said in caught.value.message
    assert set(amounts(table)) == {"a", "b", "c", "d", "e"}


@pytest.mark.parametrize("version", ["8", "9"])
def test_several_ordering_columns(tmp_path: Path, version: str) -> None:
    table = hoodie.Table(tmp_path / "t", options={"hoodie.write.table.version": version})
    table.upsert(orders("a"), keys="id", ordering=["ts", "amount"])
    table.upsert(orders("a", amount=3.0), ordering="ts,amount")
    table.upsert(orders("a", amount=2.0))
    assert amounts(table) == {"a": 3.0}
    with pytest.raises(TableMismatch, match="ordering='ts', the table has 'ts,amount'"):
        table.upsert(orders("a"), ordering="ts")


def test_a_first_write_needs_keys(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="says no keys: name the columns"):
        hoodie.Table(tmp_path / "t").upsert(orders("a"))
    for wrong in ("", [], [""], ["a,b"], 5, [1]):
        with pytest.raises(ConfigError, match="keys"):
            hoodie.Table(tmp_path / "t").upsert(orders("a"), keys=wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "t").exists()
    options = {"hoodie.datasource.write.recordkey.field": "id"}
    assert hoodie.Table(tmp_path / "t", options=options).upsert(orders("a")).num_inserts == 1


# --- writes -----------------------------------------------------------------------------------------------


def test_writes(table: hoodie.Table) -> None:
    assert table.upsert(orders("a", "x", ts=2, amount=2.0)).num_updates == 1
    assert amounts(table) == {"a": 2.0, "b": 1.0, "c": 1.0, "x": 2.0}
    assert table.insert(orders("d")).operation == "insert"
    assert table.bulk_insert(orders("e")).operation == "bulk_insert"
    done = table.delete(pa.table({"id": ["d", "gone"], "day": [DAYS[0]] * 2}))
    assert (done.num_deletes, done.num_missing) == (1, 1)
    assert set(amounts(table)) == {"a", "b", "c", "e", "x"}
    planned = table.insert_overwrite(orders("z"), dry_run=True)
    assert (planned.status, len(amounts(table))) == ("planned", 5)
    table.insert_overwrite(orders("z"))
    assert set(amounts(table)) == {"b", "x", "z"}  # those of the other day stay
    assert table.delete_partitions("2024-01-02").operation == "delete_partition"
    assert set(amounts(table)) == {"z"}
    table.insert_overwrite_table(orders("only"))
    assert set(amounts(table)) == {"only"}
    assert table.explain_write(orders("only", "new"), "upsert").num_updates == 1


def test_tokens_and_progress_go_through(table: hoodie.Table) -> None:
    lines: list[str] = []
    how: Any = {"extra_metadata": {"airflow.token": "t1"}, "progress": lambda step, text: lines.append(step)}
    assert table.upsert(orders("d"), **how).status == "committed"
    assert "stage" in lines
    assert table.upsert(orders("d"), **how).status == "already_committed"
    assert table.upsert(orders("d"), **how, force=True).status == "committed"


def test_updates_and_deletes_by_a_condition(table: hoodie.Table) -> None:
    assert table.update({"amount": "amount + 1"}, "day = '2024-01-01'").num_updates == 2
    assert amounts(table) == {"a": 2.0, "b": 1.0, "c": 2.0}
    chosen = (pc.field("amount") < 2) | pc.field("id").isin(["c", "x"])
    assert table.update({"amount": "0"}, chosen, dry_run=True).num_updates == 2
    assert table.delete_where(chosen).num_deletes == 2
    assert amounts(table) == {"a": 2.0}
    assert table.update({"amount": "7"}).num_updates == 1
    assert amounts(table) == {"a": 7.0}
    before = len(table.history())
    for wrong in ("amount =", "nothing = 1", "true; DELETE FROM target"):
        with pytest.raises(ConfigError):
            table.delete_where(wrong)
    with pytest.raises(ConfigError, match="give SQL as a text"):
        table.update({"amount": 5})  # type: ignore[dict-item]
    with pytest.raises(TableNotFound):
        hoodie.Table(table.path + "2").delete_where("true")
    assert (len(table.history()), amounts(table)) == (before, {"a": 7.0})


# --- merge ------------------------------------------------------------------------------------------------


def test_merge(table: hoodie.Table) -> None:
    source = pa.table(
        {
            "id": ["a", "b", "n", "skip"],
            "day": pa.array([DAYS[0], DAYS[1], DAYS[0], DAYS[0]], pa.date32()),
            "ts": [5, 5, 5, 5],
            "amount": [7.0, -1.0, 3.0, 0.0],
        }
    )
    merge = (
        table.merge(source)
        .when_matched_delete("source.amount < 0")
        .when_matched_update({"amount": "target.amount + source.amount", "ts": "source.ts"})
        .when_not_matched_insert_all("source.amount > 0")
    )
    assert "WHEN MATCHED AND (source.amount < 0) THEN DELETE" in repr(merge)
    assert merge.execute(dry_run=True).status == "planned"
    done = merge.execute()
    assert (done.num_updates, done.num_deletes, done.num_inserts) == (1, 1, 1)
    assert amounts(table) == {"a": 8.0, "c": 1.0, "n": 3.0}


def test_merge_all_columns_and_other_names(table: hoodie.Table) -> None:
    rows = [{"key": "a", "d": DAYS[0], "t": 9, "v": 4.0}, {"key": "q", "d": DAYS[1], "t": 9, "v": 5.0}]
    table.merge(rows, "target.id = source.key").when_matched_update(
        {"amount": "source.v"}
    ).when_not_matched_insert(
        {"id": "source.key", "day": "source.d", "ts": "source.t", "amount": "source.v"}
    ).execute()
    assert amounts(table) == {"a": 4.0, "b": 1.0, "c": 1.0, "q": 5.0}
    table.merge(orders("a", ts=10, amount=6.0), on=["id", "day"]).when_matched_update_all().execute()
    assert amounts(table)["a"] == 6.0


def test_merge_takes_rows_that_can_be_read_once(table: hoodie.Table) -> None:
    reader = orders("a", ts=3, amount=2.5).to_reader()
    table.merge(reader, "id").when_matched_update_all().execute()
    assert amounts(table)["a"] == 2.5


def test_a_merge_that_does_not_fit(table: hoodie.Table) -> None:
    merge = table.merge(orders("a"))
    with pytest.raises(ConfigError, match="has no clause"):
        merge.execute()
    wrongs: list[Any] = [{}, {"amount": 5}, "amount = 5"]
    for wrong in wrongs:
        with pytest.raises(ConfigError, match="clause"):
            merge.when_matched_update(wrong)
    with pytest.raises(ConfigError, match="on is empty"):
        table.merge(orders("a"), on=[])
    with pytest.raises(ConfigError, match="ON does not compare id"):
        table.merge(orders("a"), "day").when_matched_delete().execute()
    assert len(table.history()) == 1


# --- queries ----------------------------------------------------------------------------------------------


def test_forms_of_an_answer(table: hoodie.Table) -> None:
    result = table.read(["id", "amount"], "id <> 'b'")
    expected = pa.table({"id": ["a", "c"], "amount": [1.0, 1.0]})
    assert result.to_arrow().sort_by("id").equals(expected)
    assert result.to_pandas().sort_values("id").to_dict("list") == expected.to_pydict()
    assert sorted(result.to_duckdb().fetchall()) == [("a", 1.0), ("c", 1.0)]
    with duckdb.connect() as connection:
        assert result.to_duckdb(connection).aggregate("count(*)").fetchall() == [(2,)]
    assert result.batches().read_all().equals(result.to_arrow())
    assert pa.RecordBatchReader.from_stream(result).read_all().equals(result.to_arrow())
    with pytest.raises(ConfigError, match="to_spark needs a session"):
        result.to_spark()
    assert "where:   id <> 'b'" in repr(result)
    assert "2 rows" in result._repr_html_()


def test_polars(table: hoodie.Table) -> None:
    polars = pytest.importorskip("polars")
    frame = table.read().to_polars()
    assert sorted(frame["id"].to_list()) == ["a", "b", "c"]
    assert table.upsert(frame.with_columns(ts=polars.lit(2), amount=polars.lit(4.0))).num_updates == 3
    assert table.upsert(frame.lazy().with_columns(ts=polars.lit(3))).num_updates == 3
    assert amounts(table) == {"a": 1.0, "b": 1.0, "c": 1.0}


@pytest.mark.parametrize("package", ["pandas", "polars", "duckdb"])
def test_a_package_that_is_missing_is_named(
    table: hoodie.Table, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=f"to_{package} needs the package {package}, which is not here"):
        getattr(table.read(["id"]), f"to_{package}")()


def test_meta_columns_come_where_they_are_asked_for(table: hoodie.Table) -> None:
    assert table.read().to_arrow().column_names == ["id", "day", "ts", "amount"]
    named = table.read(meta=True).to_arrow().column_names
    assert named[:5] == [
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "_hoodie_partition_path",
        "_hoodie_file_name",
    ]
    assert table.read(["_hoodie_record_key"]).to_arrow().column_names == ["_hoodie_record_key"]
    assert table.batches(meta=True).schema.names == named
    assert table.changes(meta=True).to_arrow().column_names == named


def test_only_some_rows_are_shown(tmp_path: Path) -> None:
    table = hoodie.Table(tmp_path / "t")
    table.upsert(orders(*(f"k{number:03}" for number in range(60))), keys="id")
    shown = table.read()._repr_html_()
    assert (shown.count("<tr>"), "the first 10 rows" in shown) == (11, True)


def test_times_that_python_can_not_hold_are_shown(tmp_path: Path) -> None:
    table = hoodie.Table(tmp_path / "t")
    at = pa.array([253402300800000000], pa.timestamp("us", "UTC"))
    table.upsert(pa.table({"id": ["a"], "at": at, "bytes": pa.array([b"x" * 1000])}), keys="id")
    shown = table.read()._repr_html_()
    assert "253402300800000000" in shown
    assert len(shown) < 1500


@pytest.mark.table_version(6)
def test_states_of_the_past(table: hoodie.Table) -> None:
    first = table.history()[0].instant
    time.sleep(0.01)
    between = dt.datetime.now(dt.timezone.utc)
    time.sleep(0.01)
    table.upsert(orders("a", ts=2, amount=2.0))
    before: dict[str, float] = {"a": 1.0, "b": 1.0, "c": 1.0}
    assert amounts(table) == {**before, "a": 2.0}
    for point in (first, between, between.astimezone(dt.timezone(dt.timedelta(hours=9)))):
        assert amounts(table, as_of=point) == before
    assert table.changes(between).to_arrow().column("id").to_pylist() == ["a"]
    assert table.changes(first, columns=["id"]).to_arrow().num_rows == 1
    assert table.changes(end=between).to_arrow().num_rows == 3
    assert table.changes().to_arrow().num_rows == 3
    assert amounts(table, as_of="2199-01-01") == amounts(table, as_of=dt.date(2199, 1, 1))


def test_times_are_those_of_the_tables_zone(tmp_path: Path) -> None:
    program = """
import datetime as dt, sys, time
import hoodie, pyarrow as pa
time.tzset()
utc = {"hoodie.table.timeline.timezone": sys.argv[2]}
table = hoodie.Table(sys.argv[1], options=utc)
rows = pa.table({"id": ["a"], "v": [1]})
table.upsert(rows, keys="id")
time.sleep(0.01)
between = dt.datetime.now(dt.timezone.utc)
time.sleep(0.01)
table.upsert(pa.table({"id": ["b"], "v": [1]}))
print(table.read(as_of=between).to_arrow().num_rows, table.changes(between).to_arrow().num_rows)
"""
    for zone in ("UTC", "LOCAL"):
        command = [sys.executable, "-c", program, str(tmp_path / zone), zone]
        run = subprocess.run(command, capture_output=True, text=True, env={"TZ": "Asia/Tokyo"}, check=False)
        assert run.stdout.split() == ["1", "1"], run.stderr


def test_times_that_are_none(table: hoodie.Table) -> None:
    with pytest.raises(ConfigError, match="as_of is 2024-01-01T00:00:00, which has no time zone"):
        table.read(as_of=dt.datetime(2024, 1, 1))
    with pytest.raises(ConfigError, match="end is 5; give a text, a date, a datetime"):
        table.changes(end=5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="as_of 'yesterday' is no point in time"):
        table.read(as_of="yesterday")
    with pytest.raises(ConfigError, match="later than end"):
        table.changes("2024-01-02", "2024-01-01")


def test_queries_that_do_not_fit(table: hoodie.Table) -> None:
    with pytest.raises(ConfigError, match=r"call changes\(begin=…\)"):
        table.read(query="incremental")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="unknown query 'newest'"):
        table.read(query="newest")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="nothing"):
        table.read(["nothing"]).to_arrow()


def test_read_optimized(tmp_path: Path) -> None:
    table = logged(tmp_path / "t")
    assert amounts(table) == {"a": 3.0, "b": 3.0}
    assert amounts(table, query="read_optimized") == {"a": 1.0, "b": 1.0}


@pytest.mark.table_version(6)
def test_changes_of_a_change_log(table: hoodie.Table) -> None:
    keeps_changes(Path(table.path))
    table.upsert(orders("a", ts=2, amount=2.0))
    found = table.changes(table.history()[0].instant, format="cdc").to_arrow()
    assert found.column_names == ["op", "ts_ms", "before", "after"]
    assert found.column("op").to_pylist() == ["u"]


def test_explain(table: hoodie.Table) -> None:
    found = table.explain("day = '2024-01-01'")
    assert (found.partitions, found.read_partitions) == (2, 1)


# --- services ---------------------------------------------------------------------------------------------


def test_services_of_logs(tmp_path: Path) -> None:
    table = logged(tmp_path / "t")
    due = {"hoodie.compact.inline.max.delta.commits": "1"}
    assert table.compact(options=due, dry_run=True).dry_run
    assert table.compact(mode="schedule", options=due).status == "scheduled"
    pending = table.history()[-1]
    assert (pending.action, pending.state) == ("compaction", "requested")
    assert table.cancel_plan(pending.instant).target == pending.instant
    assert table.compact(options=due).status == "compacted"
    assert amounts(table, query="read_optimized") == {"a": 3.0, "b": 3.0}


@pytest.mark.table_version(6)
def test_log_compaction_and_versions(tmp_path: Path) -> None:
    table = logged(tmp_path / "t")
    assert table.upgrade(9).status == "upgraded"
    assert hoodie.Table(table.path).version == 9
    for number in range(4, 8):
        table.upsert(orders("a", "b", ts=number, amount=float(number)))
    due = {"hoodie.log.compaction.blocks.threshold": "1"}
    assert table.log_compact(options=due).status == "compacted"
    assert amounts(table) == {"a": 7.0, "b": 7.0}
    assert table.downgrade("6").status == "downgraded"
    assert (table.version, amounts(table)) == (6, {"a": 7.0, "b": 7.0})


def test_savepoint_restore_rollback(table: hoodie.Table) -> None:
    first = table.history()[0].instant
    saved = table.savepoint(user="me", comments="before")
    assert saved.instant == first
    [entry] = [entry for entry in table.history() if entry.action == "savepoint"]
    assert (entry.user, entry.comments) == ("me", "before")
    newest = table.upsert(orders("a", ts=2, amount=2.0)).instant
    table.rollback(newest)
    assert amounts(table)["a"] == 1.0
    table.upsert(orders("a", ts=3, amount=3.0))
    table.restore(first)
    assert amounts(table) == {"a": 1.0, "b": 1.0, "c": 1.0}
    table.delete_savepoint(first)
    assert "savepoint" not in [entry.action for entry in table.history()]


def test_cluster_clean_expire_and_the_planner(table: hoodie.Table) -> None:
    for number in range(2, 5):
        table.bulk_insert(orders(f"n{number}", ts=number))
    before = amounts(table)
    found = table.cluster(options={"hoodie.clustering.plan.strategy.small.file.limit": str(1 << 30)})
    assert found.status == "clustered"
    assert amounts(table) == before
    for number in range(5, 8):
        table.upsert(orders("a", "b", "c", ts=number))
    assert table.clean(options={"hoodie.clean.commits.retained": "1"}).status == "cleaned"
    assert table.plan_services(only=["clean"]).services[0].service == "clean"
    assert table.run_services(only=["clean"], dry_run=True).dry_run
    ttl = {"hoodie.partition.ttl.strategy.days.retain": "36500"}
    assert table.expire_partitions(options=ttl, dry_run=True).dry_run


def test_indexes_and_the_doctor(table: hoodie.Table) -> None:
    table.create_index(["files", "column_stats"])
    assert {item["index"] for item in table.indexes().indexes} == {"files", "column_stats"}
    assert table.drop_index("column_stats").dropped == ["column_stats"]
    assert {finding.status for finding in table.doctor(deep=True)} <= {"ok", "note"}
    next(Path(table.path).glob("2024-01-01/*.parquet")).unlink()
    assert "error" in {finding.status for finding in table.doctor()}


def test_sync_asks_the_metastore(table: hoodie.Table) -> None:
    with pytest.raises(StorageError, match=r"metastore thrift://127\.0\.0\.1:1 can't be reached"):
        table.sync("thrift://127.0.0.1:1", "sales")


# --- the door ---------------------------------------------------------------------------------------------


def test_engines_paths_and_storage_options(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="engine is 'ray'; give 'local', or a session"):
        hoodie.Table(tmp_path, engine="ray")
    with pytest.raises(ConfigError):
        hoodie.Table("foo://bucket/table")
    with pytest.raises(ConfigError, match=r"storage_options has 'hoodie\.index\.type'"):
        hoodie.Table(tmp_path, storage_options={"hoodie.index.type": "BLOOM"})
    with pytest.raises(ConfigError, match=r"hoodie\.nothing"):
        hoodie.Table(tmp_path, options={"hoodie.nothing": 1})
    secret = {"hoodie.storage.s3.access.key": "AKIA", "hoodie.storage.s3.secret.key": "hidden"}
    assert "hidden" not in repr(hoodie.Table(tmp_path / "t", storage_options=secret).read())


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = hoodie.Table("orders")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    table.upsert(orders("a"), keys="id")
    assert (tmp_path / "orders" / ".hoodie").is_dir()


def test_the_package_names_what_it_has() -> None:
    assert {"Table", "Operation", "errors", "write_table", "compact_table"} <= set(dir(hoodie))
    assert set(hoodie.__all__) <= set(dir(hoodie))
    assert hoodie.Operation.UPSERT.value == "upsert"
    assert issubclass(hoodie.errors.TableMismatch, hoodie.errors.HoodieError)
    for name in hoodie.__all__:
        assert getattr(hoodie, name)
    with pytest.raises(ImportError, match="nothing"):
        exec("from hoodie import nothing")  # noqa: S102


def test_the_import_loads_nothing_large() -> None:
    program = (
        "import sys, hoodie; dir(hoodie); hoodie.errors\n"
        "print([name for name in ('pyarrow', 'numpy', 'duckdb', 'hoodie.api') if name in sys.modules])\n"
        "hoodie.Table('/nowhere/table')\n"
        "print([name for name in ('pyspark', 'pandas', 'polars', 'duckdb') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[:2] == ["[]", "[]"]


# --- rows -------------------------------------------------------------------------------------------------


class Exported:
    """What other libraries pass on: a stream of Arrow, with their types for texts."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self._rows.__arrow_c_stream__(requested_schema)


def views(rows: pa.Table) -> pa.Table:
    kinds = [pa.string_view() if field.type == pa.string() else field.type for field in rows.schema]
    return rows.cast(pa.schema(zip(rows.schema.names, kinds, strict=True)))


def rows_of(form: str, rows: pa.Table) -> Any:
    forms: dict[str, Any] = {
        "pandas": lambda: rows.to_pandas(),
        "pandas with an index": lambda: rows.to_pandas().set_index(["id", "day"]),
        "part of a frame": lambda: pd.concat([rows.to_pandas()] * 2).iloc[: rows.num_rows],
        "DuckDB": lambda: duckdb.from_arrow(rows),
        "stream": lambda: Exported(views(rows)),
        "dictionaries": lambda: rows.to_pylist(),
        "tuple": lambda: tuple(rows.to_pylist()),
        "dataset": lambda: ds.dataset(rows),
        "reader": lambda: rows.to_reader(),
        "batch": lambda: rows.to_batches()[0],
    }
    return forms[form]()


FORMS = (
    *("pandas", "pandas with an index", "part of a frame", "DuckDB", "stream", "dictionaries", "tuple"),
    *("dataset", "reader", "batch"),
)


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_rows(tmp_path: Path, form: str) -> None:
    rows = orders("a", "b", "c")
    table = hoodie.Table(tmp_path / "t")
    table.upsert(rows_of(form, rows), **WORDS)
    assert table.read(rows.column_names).to_arrow().sort_by("id").equals(rows)
    again = orders("a", "b", "c", ts=2, amount=2.0)
    hoodie.write_table(rows_of(form, again), table.path)
    assert table.read(rows.column_names).to_arrow().sort_by("id").equals(again)


@pytest.mark.parametrize("form", ["pandas", "DuckDB", "stream", "dictionaries"])
def test_forms_of_rows_in_sql(table: hoodie.Table, form: str) -> None:
    given = {"t": table.path, "s": rows_of(form, orders("a", "b", ts=2, amount=4.0))}
    found = hoodie.sql("SELECT t.id, s.amount FROM t JOIN s ON t.id = s.id ORDER BY 1", tables=given)
    assert found.to_pylist() == [{"id": "a", "amount": 4.0}, {"id": "b", "amount": 4.0}]
    hoodie.sql("UPDATE t SET amount = 0 WHERE id IN (SELECT id FROM s)", tables=given)
    assert amounts(table) == {"a": 0.0, "b": 0.0, "c": 1.0}


def test_an_answer_is_written(table: hoodie.Table, tmp_path: Path) -> None:
    other = hoodie.Table(tmp_path / "copy")
    other.insert(table.read(where="id > 'a'"), keys="id")
    assert set(amounts(other)) == {"b", "c"}


def test_a_list_takes_the_types_of_the_table(tmp_path: Path) -> None:
    fields: list[tuple[str, pa.DataType]] = [
        ("id", pa.string()),
        ("small", pa.int32()),
        ("price", pa.decimal128(9, 2)),
        ("ratio", pa.float32()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
        ("more", pa.struct([("x", pa.int32())])),
    ]
    schema = pa.schema(fields)
    table = hoodie.Table.create(tmp_path / "t", schema, keys="id")
    at = dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone.utc)
    row = {"id": "a", "small": 1, "price": 2, "ratio": 0.5, "at": at, "tags": [], "more": {"x": 7}}
    table.upsert([row, {"id": "b"}])
    assert table.schema.equals(schema)
    found = table.read().to_arrow().sort_by("id").to_pylist()
    assert found == [row, {**dict.fromkeys(schema.names), "id": "b"}]
    hoodie.write_table([], table.path, operation="insert_overwrite_table")
    assert (table.read().to_arrow().num_rows, table.schema.equals(schema)) == (0, True)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "an empty list has no columns"),
        ([{}], "no columns"),
        ([{1: "a"}], "the key 1"),
        ([{"id": "a"}, {"id": 5}], "column 'id' of the list has values of no one type"),
        ([{"id": "a"}, "b"], "can't write a list"),
        ({"id": ["a"]}, "can't write a dict"),
        ("rows.parquet", "can't write a str"),
        (pd.DataFrame({"id": ["a", 5]}), "DataFrame of pandas can't be written"),
        (pd.DataFrame([["a", "b"]], columns=["id", "id"]), "Duplicate column names"),
        (pa.chunked_array([["a"]]), "is no table"),
    ],
)
def test_what_is_no_rows(tmp_path: Path, rows: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        hoodie.Table(tmp_path / "t").upsert(rows, keys="id")
    assert not (tmp_path / "t").exists()


def test_the_history_has_operations_as_results_have_them(tmp_path: Path) -> None:
    """`hoodie.instants` has them as they are on the timeline."""
    path = str(tmp_path / "t")
    result = hoodie.write_table(
        pa.table({"id": ["a"]}),
        path,
        operation="bulk_insert",
        options={"hoodie.datasource.write.recordkey.field": "id", "hoodie.table.name": "t"},
    )
    [entry] = hoodie.Table(path).history()
    [instant] = hoodie.instants(path)
    assert (result.operation, entry.operation, instant["operation"]) == (
        "bulk_insert",
        "bulk_insert",
        "BULK_INSERT",
    )
