"""Deletes and overwrites on Spark: the rows are the oracle's, and those of hudi-rs."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from tests.spark.answers import Servers
from tests.support.change_logs import CDC, MODE, MODES, changes, expected, ordered, rows_by_key
from tests.support.oracle import Model
from tests.support.readers import read_hudi_rs
from tests.support.record_index import FEW_GROUPS, has_record_index, misplaced
from tests.support.rows import assert_same_rows
from tests.support.tables import SMALL_SCHEMA, Row, as_table, small_rows

pytestmark = pytest.mark.spark

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.index.bloom.num_entries": 200,
}
KEYS = pa.schema([("id", pa.string()), ("region", pa.string())])


Step = tuple[str, str, list[Row]]


def of_region(rows: list[Row], region: str) -> list[Row]:
    return [row for row in rows if row["region"] == region]


@pytest.mark.full
def test_deletes_and_overwrites(tmp_path: Path, servers: Servers) -> None:
    """Each step from a file that executors read, or from a DataFrame; a dry run says before what is done."""
    parts: list[Step] = [
        ("upsert", "frame", small_rows(range(90), 5)),
        ("delete", "file", small_rows([*range(20), 500], 1)),
        ("delete", "frame", small_rows(range(30, 40), 1)),
        ("upsert", "file", small_rows([*range(10), *range(50, 60)], 2)),
        ("insert_overwrite", "file", of_region(small_rows(range(200, 260), 1), "eu")),
        ("insert_overwrite", "frame", of_region(small_rows(range(300, 330), 1), "us")),
    ]
    whole: list[Step] = [
        ("upsert", "file", small_rows(range(90), 5)),
        ("insert_overwrite_table", "frame", of_region(small_rows(range(400, 430), 1), "eu")),
    ]
    tables = [("copy", "COPY_ON_WRITE", whole), ("merge", "MERGE_ON_READ", parts)]
    models = {name: Model(["id"], ["region"], "ts") for name, _, _ in tables}
    requests: list[Any] = []
    for name, kind, steps in tables:
        options = {**OPTIONS, "hoodie.datasource.write.table.type": kind}
        for operation, how, rows in steps:
            file = tmp_path / f"{len(requests)}-{how}.parquet"
            pq.write_table(as_table(rows, KEYS if operation == "delete" else SMALL_SCHEMA), file)
            requests.append([str(tmp_path / name), operation, str(file), options])
            getattr(models[name], operation)(rows)
    results = servers.ask("operations", "classic", requests)["results"]
    told = [pair for pair in itertools.pairwise(results) if pair[0]["status"] == "planned"]
    assert len(told) == 7, "all but an upsert of a DataFrame"
    names = ["num_inserts", "num_deletes", "num_missing", "num_updates", "num_replaced"]
    for dry, done in told:
        assert done["status"] == "committed"
        assert {name: dry[name] for name in names} == {name: done[name] for name in names}, done["operation"]
        found = dry["explained"]
        assert found == {
            **done["explained"],
            **{name: found[name] for name in ("duration_s", "indexes", "advice")},
        }
        assert [found[name] for name in names[:4]] == [done[name] for name in names[:4]]
        assert {cost["files"] for cost in found["indexes"] if not cost["reason"]} <= {0, 3}
    assert [done["num_missing"] for _, done in told if done["operation"] == "delete"] == [1, 0]
    assert [dry["num_late"] for dry, _ in told if dry["operation"] == "upsert"] == [0, 10]
    for name, model in models.items():
        expected = model.table(SMALL_SCHEMA)
        assert_same_rows(hoodie.read_table(str(tmp_path / name)), expected, what=f"{name}, ours")
        assert_same_rows(read_hudi_rs(tmp_path / name), expected, what=f"{name}, hudi-rs")


@pytest.mark.full
@pytest.mark.parametrize("mode", ["classic", "connect"])
def test_settings_about_rows_and_validators(tmp_path: Path, servers: Servers, mode: str) -> None:
    """Spark SQL sees what a write is going to make of its partitions, COW and MOR."""
    asked, policy = "hoodie.precommit.validators", "hoodie.datasource.insert.dup.policy"
    single, equal = f"{asked}.single.value.sql.queries", f"{asked}.equality.sql.queries"
    frame, first = tmp_path / "frame.parquet", tmp_path / "first-frame.parquet"
    pq.write_table(as_table(small_rows(range(20), 1), SMALL_SCHEMA), first)
    pq.write_table(as_table(small_rows(range(10, 30), 2), SMALL_SCHEMA), frame)
    count, late = "select count(*) from <TABLE_NAME>", "select max(ts) < 0 from <TABLE_NAME>"
    steps: dict[str, list[tuple[str, dict[str, str], str]]] = {
        "COPY_ON_WRITE": [
            ("upsert", {asked: "single", single: f"{count}#31"}, "validation"),
            ("upsert", {asked: "single", single: f"{count}#30;{late}#false"}, "committed"),
        ],
        "MERGE_ON_READ": [
            ("upsert", {asked: "equality", equal: "drop table <TABLE_NAME>"}, "configuration"),
            ("upsert", {asked: "equality", equal: count}, "validation"),
            ("upsert", {asked: "equality", equal: "select distinct region from <TABLE_NAME>"}, "committed"),
            ("insert", {policy: "drop"}, "committed"),
        ],
    }
    if mode == "connect":
        steps = {"MERGE_ON_READ": steps["MERGE_ON_READ"][1:3]}
    requests: list[Any] = []
    for kind, again in steps.items():
        options = {**OPTIONS, "hoodie.datasource.write.table.type": kind}
        requests.append([str(tmp_path / kind), "upsert", str(first), options])
        requests += [[str(tmp_path / kind), name, str(frame), {**options, **more}] for name, more, _ in again]
    results = servers.ask("operations", mode, requests)["results"]
    done = [result for result in results if result.get("status") != "planned"]
    expected = [code for again in steps.values() for code in ("committed", *(code for *_, code in again))]
    assert [result.get("status") or result["code"] for result in done] == expected
    refused = [result["values"] for result in done if result.get("code") == "validation"]
    answers = {(values["expected"], values["found"]) for values in refused}
    assert answers == ({("20", "30")} if mode == "connect" else {("31", "30"), ("20", "30")})
    assert mode == "connect" or done[-1]["num_dropped"] == 20
    model = Model(["id"], ["region"], "ts")
    model.upsert(small_rows(range(20), 1))
    model.upsert(small_rows(range(10, 30), 2))
    for kind in steps:
        assert_same_rows(hoodie.read_table(str(tmp_path / kind)), model.table(SMALL_SCHEMA), what=kind)


@pytest.mark.full
@pytest.mark.parametrize(
    ("mode", "table", "index", "held"),
    [
        ("classic", "COPY_ON_WRITE", "GLOBAL_BLOOM", 0),
        ("classic", "MERGE_ON_READ", "GLOBAL_BLOOM", 0),
        ("connect", "MERGE_ON_READ", "GLOBAL_BLOOM", 0),
        ("classic", "MERGE_ON_READ", "RECORD_INDEX", 0),
        ("classic", "COPY_ON_WRITE", "GLOBAL_BLOOM", 64 << 20),
        ("connect", "MERGE_ON_READ", "RECORD_INDEX", 64 << 20),
    ],
)
def test_records_move_between_partitions(
    tmp_path: Path, servers: Servers, mode: str, table: str, index: str, held: int
) -> None:
    """An index of the whole table, asked by the driver and by executors, does what it does without Spark,
    also where the driver has the rows. `held`: the bytes of files that it may read for their steps.
    """
    chance, regions, few = random.Random(mode + table), ("eu", "us", "apac"), 64 << 20
    options = {
        **OPTIONS,
        "hoodie.index.type": index,
        "hoodie.datasource.write.table.type": table,
        "hoodie.parquet.small.file.limit": 0,
    }
    if index == "RECORD_INDEX":
        options |= {**FEW_GROUPS, "hoodie.record.index.update.partition.path": True}
    writes, model = [], dict[str, Row]()
    for number, (driver_bytes, few_bytes) in enumerate([(few, few), (few, few), (0, few), (0, 0), (0, 0)]):
        keys = [chance.randrange(80) for _ in range(90)]
        rows = small_rows(keys, number, ts=0)
        for place, row in enumerate(rows):
            row |= {"region": chance.choice(regions), "ts": 1000 * chance.randrange(9) + 90 * number + place}
        operation = "upsert" if number < 4 else "delete"
        for row in rows:
            if operation == "delete":
                model.pop(row["id"], None)
            elif row["id"] not in model or model[row["id"]]["ts"] <= row["ts"]:
                model[row["id"]] = row
        file = str(tmp_path / f"{number}.parquet")
        pq.write_table(as_table(rows, SMALL_SCHEMA), file)
        writes.append([operation, file, driver_bytes, few_bytes])
    servers.ask("global_index", mode, str(tmp_path / "t"), writes, options, driver_bytes=held)
    shown = hoodie.read_table(str(tmp_path / "t"), meta=True)
    assert_same_rows(shown.select(SMALL_SCHEMA.names), as_table(list(model.values()), SMALL_SCHEMA))
    assert shown["region"].to_pylist() == shown["_hoodie_partition_path"].to_pylist()
    assert has_record_index(tmp_path / "t") == (index == "RECORD_INDEX")
    assert misplaced(tmp_path / "t") == []


@pytest.mark.full
@pytest.mark.parametrize("mode", MODES)
def test_change_logs(tmp_path: Path, servers: Servers, mode: str) -> None:
    """What each write did to the rows of base files is in its change logs: files and DataFrames."""
    steps: list[Step] = [
        ("upsert", "file", small_rows(range(60), 1)),
        ("upsert", "frame", [*small_rows(range(40, 90), 3), *small_rows(range(5), 3, ts=1)]),
        ("upsert", "file", small_rows(range(30, 50), 4, deleted=True)),
        ("delete", "frame", small_rows(range(10, 25), 1)),
    ]
    table, requests = tmp_path / "t", list[Any]()
    options = {**OPTIONS, **CDC, MODE: mode, "hoodie.write.table.version": 6}  # whose commits are JSON
    for number, (operation, how, rows) in enumerate(steps):
        file = tmp_path / f"{number}-{how}.parquet"
        pq.write_table(as_table(rows, KEYS if operation == "delete" else SMALL_SCHEMA), file)
        requests.append([str(table), operation, str(file), options])
    servers.ask("operations", "classic", requests)
    first, *later = sorted(item["instant"] for item in hoodie.instants(str(table)))
    before = rows_by_key(table, as_of=first)
    assert changes(table, first) == []
    assert len(later) == 3
    for instant in later:
        after = rows_by_key(table, as_of=instant)
        found = ordered(changes(table, instant))
        assert found == expected(mode, instant, before, after)
        assert found
        before = after
