"""The data source of Spark 4, classic and Connect: reads beside read_table, writes beside write_table."""

from __future__ import annotations

import datetime as dt
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.table.markers import TEMP_FOLDER
from scripts import environment
from tests.house.test_docs import PAGES, blocks
from tests.spark.answers import Servers, interpreter
from tests.support.arrow import pc
from tests.support.changes import FORMAT, Changed, changes
from tests.support.rows import assert_same_rows
from tests.unit.test_docs import KEYS as ORDERS
from tests.unit.test_docs import orders

pytestmark = [pytest.mark.spark, pytest.mark.full]

KEYS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
}
TYPE = "hoodie.datasource.write.table.type"
OPERATION = "hoodie.datasource.write.operation"
QUERY = "hoodie.datasource.query.type"
BEGIN = "hoodie.datasource.read.begin.instanttime"
END = "hoodie.datasource.read.end.instanttime"
MODES = ["classic", "connect"]
DAY = pa.scalar(dt.date(2024, 1, 1))
#: tables that Apache Hudi wrote, with what it answered: the answer's file, options
GOLDEN = [
    ("cow_types", "snapshot", {}),
    ("mor_logs", "snapshot", {}),
    (
        "mor_logs",
        "inc_20261121000442613_20261121000450429",
        {QUERY: "incremental", BEGIN: "20261121000442613", END: "20261121000450429"},
    ),
    ("mor_logs", "asof_20261121000445446", {"as.of.instant": "20261121000445446"}),
    ("all_instants", "ro", {QUERY: "read_optimized"}),
    (
        "all_instants",
        "inc_000_20261121005926757",
        {QUERY: "incremental", BEGIN: "000", END: "20261121005926757"},
    ),
    ("cow_hive_urlenc", "snapshot", {}),
    ("cow_droppartcol", "snapshot", {}),
]


def rows(first: int, count: int, ts: int = 1) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": [f"k{number:05}" for number in numbers],
            "region": [("eu", "us")[number % 2] for number in numbers],
            "n": pa.array(numbers, pa.int64()),
            "ts": pa.array([ts] * count, pa.int64()),
            "list": pa.array([[number, None] for number in numbers], pa.list_(pa.int32())),
            "at": pa.array([number * 10**9 for number in numbers], pa.timestamp("us", "UTC")),
        }
    )


def written(path: Path, kind: str) -> list[str]:
    """A table of three commits: base files, then updates and inserts; when they were completed."""
    options = {**KEYS, TYPE: kind}
    completions = [hoodie.write_table(rows(0, 40), str(path), options=options).completion]
    completions.append(hoodie.write_table(rows(10, 10, 2), str(path)).completion)
    completions.append(hoodie.write_table(rows(36, 8, 3), str(path)).completion)
    return completions


def asked(servers: Servers, mode: str, steps: list[Any]) -> list[Any]:
    """What each step answers, or the text of its error."""
    return [servers.ask("data_source", mode, [step])["found"][0] for step in steps]


def staged(path: Path) -> list[str]:
    return [item.name for item in (path / TEMP_FOLDER).glob("spark_rows_*")]


@pytest.mark.parametrize("mode", MODES)
def test_reads_are_those_of_read_table(mode: str, servers: Servers, tmp_path: Path) -> None:
    steps: list[Any] = []
    expected: list[pa.Table] = []

    def read(path: Path, arguments: dict[str, Any], **more: Any) -> None:
        out = tmp_path / f"{len(steps)}.parquet"
        steps.append(["read", {"path": str(path), "out": str(out), **more}])
        expected.append(hoodie.read_table(str(path), **arguments))

    for kind in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        path = tmp_path / kind
        first, second, third = written(path, kind)
        read(path, {})
        read(path, {"where": "n >= 35 AND region = 'us'"}, where="n >= 35 AND region = 'us'", push=True)
        read(path, {"as_of": second}, options={"as.of.instant": second, QUERY: "snapshot"})
        incremental = {QUERY: "incremental", BEGIN: first, END: second}
        read(path, {"begin": first, "end": second}, options=incremental)
        read(path, {"query": "read_optimized"}, options={QUERY: "read_optimized"})
        read(path, {"begin": third}, options={QUERY: "incremental", BEGIN: third})
        read(path, {"columns": ["n", "id"]}, columns="n bigint, id string")
    steps.append(["schema", {"path": str(path)}])
    text = "SELECT region, sum(n) AS n FROM orders GROUP BY region"
    steps.append(["view", {"path": str(path), "text": text, "out": str(tmp_path / "view.parquet")}])
    *found, same, view = asked(servers, mode, steps)
    assert found == [None] * len(expected)
    for number, wanted in enumerate(expected):
        assert_same_rows(pq.read_table(tmp_path / f"{number}.parquet"), wanted, meta=True, what=steps[number])
    assert expected[-2].num_rows == 0
    assert same is True
    assert view is None
    sums = pq.read_table(tmp_path / "view.parquet").sort_by("region").to_pydict()
    assert sums == {"region": ["eu", "us"], "n": [sum(range(0, 44, 2)), sum(range(1, 44, 2))]}


@pytest.mark.parametrize("push", [False, True])
def test_tables_of_apache_hudi(push: bool, servers: Servers, golden_tables: Path, tmp_path: Path) -> None:
    steps: list[Any] = []
    for number, (name, _, options) in enumerate(GOLDEN):
        path, out = golden_tables / "0.15.0-v6" / name / "table", tmp_path / f"{number}.parquet"
        steps.append(["read", {"path": str(path), "out": str(out), "options": options, "push": push}])
    assert asked(servers, "classic", steps) == [None] * len(GOLDEN)
    for number, (name, answer, _) in enumerate(GOLDEN):
        file = golden_tables / "0.15.0-v6" / name / "expected" / f"{answer}.parquet"
        found = pq.read_table(tmp_path / f"{number}.parquet")
        assert_same_rows(found, pq.read_table(file), meta=True, what=f"{name} {answer}")


@pytest.mark.parametrize("mode", MODES)
def test_change_data(mode: str, servers: Servers, golden_tables: Path, tmp_path: Path) -> None:
    steps: list[Any] = []
    expected: list[list[Changed]] = []
    options = {QUERY: "incremental", BEGIN: "000", FORMAT: "cdc"}
    for name in ("cow_cdc", "mor_cdc"):
        folder = golden_tables / "0.15.0-v6" / name
        told = changes(pq.read_table(folder / "expected" / "cdc_000.parquet"))
        gone = [row for row in told if row[0] == "d"]
        common = {"path": str(folder / "table"), "out": str(tmp_path / f"{len(steps)}.parquet")}
        steps.append(["read", {**common, "options": options}])
        common["out"] = str(tmp_path / f"{len(steps)}.parquet")
        steps.append(["read", {**common, "options": options, "where": "op = 'd'", "push": True}])
        arguments = {"query": "incremental", "begin": "earliest", "options": {FORMAT: "cdc"}}
        common["out"] = str(tmp_path / f"{len(steps)}.parquet")
        steps.append(["frame", {**common, "arguments": {**arguments, "where": "op = 'd'"}}])
        common["out"] = str(tmp_path / f"{len(steps)}.parquet")
        steps.append(["frame", {**common, "arguments": {**arguments, "begin": told[-1][1]}}])
        expected += [told, gone, gone, []]
    assert asked(servers, mode, steps) == [None] * len(steps)
    for number, wanted in enumerate(expected):
        assert changes(pq.read_table(tmp_path / f"{number}.parquet")) == wanted


def test_filters_leave_out_files_and_row_groups(servers: Servers, tmp_path: Path) -> None:
    """Pages of what is left out are damaged: who reads them fails."""
    whole = tmp_path / "whole"
    for first in (0, 100):
        hoodie.write_table(
            rows(first, 10), str(whole), options={**KEYS, "hoodie.parquet.small.file.limit": 0}
        )
    damaged = shutil.copytree(whole, tmp_path / "damaged")
    for file in damaged.rglob("*.parquet"):
        stored = pq.read_table(file)
        if ".hoodie" not in file.parts and (file.parent.name == "us" or pc.max(stored["n"]).as_py() < 100):
            data = bytearray(file.read_bytes())
            pages = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
            data[4:pages] = bytes(pages - 4)
            file.write_bytes(data)
    where = "region = 'eu' AND n > 50"
    common = {"path": str(damaged), "where": where}
    steps = [["read", {**common, "out": f"{damaged}-{push}", "push": push}] for push in (False, True)]
    without, pushed = asked(servers, "classic", steps)
    assert "TableError" in without
    assert pushed is None
    found = pq.read_table(f"{damaged}-True")
    assert_same_rows(found, hoodie.read_table(str(whole), where=where), meta=True, what=where)
    assert found.num_rows == 5


def test_pushed_filters_change_no_answer(servers: Servers, tmp_path: Path) -> None:
    """Each on a table whose partitions and row groups they rule out, and as Spark evaluates it alone."""
    path = tmp_path / "t"
    table = rows(0, 60)
    table = table.append_column("f", pa.array([None if n % 7 == 0 else n / 4 for n in range(60)]))
    table = table.append_column("d", table["n"].cast(pa.int32()).cast(pa.date32()))
    table = table.append_column("c", table["n"].cast(pa.int32()).cast(pa.decimal128(12, 2)))
    options = {**KEYS, "hoodie.datasource.write.partitionpath.field": "region,d"}
    hoodie.write_table(table, str(path), options=options)
    predicates = [
        "d = DATE'1970-01-09'",
        "d > DATE'1970-01-09' AND d <= DATE'1970-02-01'",
        "d IN (DATE'1970-01-09', DATE'1971-01-09')",
        "NOT d = DATE'1970-01-09'",
        "d IS NULL",
        "f = 1.25D",
        "f > 12 OR f IS NULL",
        "f <=> NULL",
        "c < 3.5 AND n <> 2",
        "c = 7",
        "at >= TIMESTAMP'1970-01-01 05:00:00Z'",
        "at < TIMESTAMP'1970-01-01 05:00:00+02:00'",
        "id LIKE 'k0000%'",
        "id LIKE '%7'",
        "id > 'k00050'",
        "region IN ('eu', 'de') AND id <= 'k00003'",
        "_hoodie_partition_path = 'eu/1970-01-09'",
        "_hoodie_commit_time > '2'",
    ]
    steps: list[Any] = []
    for number, where in enumerate(predicates):
        for push in (False, True):
            out = str(tmp_path / f"{number}-{push}.parquet")
            steps.append(["read", {"path": str(path), "out": out, "where": where, "push": push}])
    assert asked(servers, "classic", steps) == [None] * len(steps)
    found = []
    for number, where in enumerate(predicates):
        alone, pushed = (pq.read_table(tmp_path / f"{number}-{push}.parquet") for push in (False, True))
        assert_same_rows(pushed, alone, meta=True, what=where)
        found.append(pushed.num_rows)
    assert sum(0 < count < 60 for count in found) >= len(predicates) - 4


@pytest.mark.parametrize("mode", MODES)
def test_writes_are_those_of_write_table(mode: str, servers: Servers, tmp_path: Path) -> None:
    """Each write of a step, and the same by write_table, leave the same rows by commits of the same kind."""
    path, beside = tmp_path / "t", tmp_path / "beside"
    options = {**KEYS, TYPE: "MERGE_ON_READ"}
    writes: list[tuple[pa.Table, str, dict[str, str], str, str]] = [
        (rows(0, 30), "append", options, "upsert", "true"),
        (rows(20, 20, 2), "append", {}, "upsert", "true"),
        (rows(100, 5), "append", {OPERATION: "bulk_insert"}, "bulk_insert", "true"),
        (rows(0, 4).select(["id", "region"]), "append", {OPERATION: "delete"}, "delete", "true"),
        (rows(10, 2), "append", {OPERATION: "insert_overwrite"}, "insert_overwrite", "region = 'eu'"),
        (rows(200, 6), "overwrite", {}, "insert_overwrite_table", "true"),
        (rows(0, 2), "overwrite", {OPERATION: "upsert"}, "insert_overwrite_table", "false"),
        (rows(7, 3), "append", {OPERATION: "insert"}, "insert", "true"),
    ]
    for number, (given, spark_mode, more, operation, where) in enumerate(writes):
        file, out = tmp_path / f"{number}.parquet", tmp_path / f"{number}-read.parquet"
        pq.write_table(given, file)
        arguments = {
            "rows": str(file),
            "path": str(path),
            "options": more,
            "mode": spark_mode,
            "where": where,
        }
        steps = [["write", arguments], ["read", {"path": str(path), "out": str(out)}]]
        assert asked(servers, mode, steps) == [None, None], operation
        left = given.slice(0, 0) if where == "false" else given
        if "eu" in where:
            left = left.filter(pc.equal(left["region"], "eu"))
        more = {name: text for name, text in more.items() if name != OPERATION}
        hoodie.write_table(
            left, str(beside), operation=operation, options=more | (options if not number else {})
        )
        assert_same_rows(pq.read_table(out), hoodie.read_table(str(beside)), meta=False, what=operation)
        ours, theirs = (hoodie.instants(str(table)) for table in (path, beside))
        assert [item["action"] for item in ours] == [item["action"] for item in theirs]
        assert staged(path) == []
    assert hoodie.read_table(str(path)).num_rows == 3


def kept(table: Path) -> list[Path]:
    """Files but staged rows: a task that outlives its job may stage some, which a later write deletes."""
    files = (item for item in table.rglob("*") if item.is_file())
    return sorted(item for item in files if ".temp" not in item.parts)


def test_a_write_that_fails_leaves_the_table_as_it_was(servers: Servers, tmp_path: Path) -> None:
    path, file, new = tmp_path / "t", tmp_path / "rows.parquet", tmp_path / "new"
    written(path, "COPY_ON_WRITE")
    before = kept(path), hoodie.read_table(str(path))
    pq.write_table(rows(0, 50, 9), file)
    failing = "IF(n = 49, CAST(raise_error('the last row') AS BIGINT), n)"
    common = {"rows": str(file), "options": KEYS}
    narrow = tmp_path / "narrow.parquet"
    pq.write_table(rows(0, 2).set_column(2, "n", pa.array([True, False])), narrow)
    task, first, schema, operation, option = asked(
        servers,
        "classic",
        [
            ["write", {**common, "path": str(path), "n": failing}],
            ["write", {**common, "path": str(new), "n": failing}],
            ["write", {**common, "path": str(path), "rows": str(narrow)}],
            ["write", {**common, "path": str(path), "options": {OPERATION: "delete"}, "mode": "overwrite"}],
            ["write", {**common, "path": str(path), "options": {"hoodie.parquet.max.fil.size": "1"}}],
        ],
    )
    assert "the last row" in task
    assert "the last row" in first
    assert "column n: table long, incoming boolean" in schema
    assert "can't be written in the mode overwrite" in operation
    assert "did you mean 'hoodie.parquet.max.file.size'" in option
    assert kept(path) == before[0]
    assert_same_rows(hoodie.read_table(str(path)), before[1], meta=True, what="after")
    with pytest.raises(hoodie.errors.TableNotFound):
        hoodie.read_table(str(new))


def test_what_can_not_be_read_says_why(servers: Servers, tmp_path: Path) -> None:
    path, out = str(tmp_path / "t"), str(tmp_path / "out.parquet")
    written(tmp_path / "t", "COPY_ON_WRITE")
    common = {"path": path, "out": out}
    missing, unknown, option, incremental, column, kind, table = asked(
        servers,
        "classic",
        [
            ["read", {"path": f"{path}x", "out": out}],
            ["read", {**common, "options": {"hoodie.memory.merge.max.siz": "1"}}],
            ["read", {**common, "options": {"mergeSchema": "true"}}],
            ["read", {**common, "options": {QUERY: "incremental"}}],
            ["read", {**common, "columns": "nosuch string"}],
            ["read", {**common, "columns": "n string"}],
            ["sql", {"text": f"CREATE TABLE orders USING hoodie LOCATION '{path}'"}],
        ],
    )
    assert f"TableNotFound: {path}x is no Hudi table" in missing
    assert "did you mean 'hoodie.memory.merge.max.size'" in unknown
    assert "unknown setting 'mergeschema'" in option
    assert f"needs begin: an instant, or 'earliest'; the options are {QUERY}" in incremental
    assert "no column nosuch" in column
    assert "is bigint, and not string" in kind
    assert "CREATE TEMPORARY VIEW" in table


def test_the_example_of_the_docs_runs(servers: Servers, tmp_path: Path) -> None:
    table = str(tmp_path / "orders")
    hoodie.write_table(orders(), table, options=ORDERS)
    texts = [text for page in PAGES for text in blocks(page, "python") if 'read.format("hoodie")' in text]
    [text] = [text.replace("/data/orders", table) for text in texts]
    assert servers.ask("examples", "classic", [text])["counts"] == [3]
    day = hoodie.read_table(f"{table}_of_a_day", meta=False)
    assert_same_rows(day, orders().filter(pc.equal(orders()["order_date"], DAY)), meta=False, what=text)


def test_older_versions_of_spark_are_named() -> None:
    code = "import hoodie.errors\ntry:\n import hoodie.spark\nexcept hoodie.errors.ConfigError as e: print(e)"
    python = environment.interpreter(environment.HUDI)
    if not python.exists():
        pytest.skip("no Spark 3.5")
    paths = {"PYTHONPATH": str(environment.ROOT / "spark_jobs")}
    said = subprocess.run([str(python), "-c", code], env=paths, capture_output=True, text=True, check=True)
    assert "needs pyspark 4.0 or later, and this is 3.5" in said.stdout
    assert "hoodie.read_table(path, spark=spark)" in said.stdout
    assert interpreter("4") != python
