"""Streams of Spark 4.2 from a table to a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hoodie
from tests.house.test_docs import PAGES, blocks
from tests.spark.answers import Servers
from tests.spark.test_spark_data_source import KEYS, rows, staged
from tests.support.rows import assert_same_rows
from tests.unit.test_docs import KEYS as ORDERS
from tests.unit.test_docs import orders

pytestmark = [pytest.mark.spark, pytest.mark.full]

START = "hoodie.datasource.streaming.startOffset"
LIMIT = {"hoodie.streaming.max.commits.per.trigger": "1"}


def stream(servers: Servers, path: Path, name: str, options: dict[str, str], mode: str = "append") -> Any:
    to, checkpoint = str(path / name), str(path / f"{name}-checkpoint")
    arguments = [str(path / "a"), to, checkpoint, options, mode, KEYS]
    return servers.ask("streams", "classic", *arguments)["found"]


def test_five_commits_arrive_once(servers: Servers, tmp_path: Path) -> None:
    """With a restart in the middle, and one that finds its batch committed, but not in the checkpoint."""
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    for number in range(2):
        hoodie.write_table(rows(number * 10, 15, number), a, options=KEYS)
    assert stream(servers, tmp_path, "b", LIMIT) == 2
    for number in range(2, 5):
        hoodie.write_table(rows(number * 10, 15, number), a)
    assert stream(servers, tmp_path, "b", LIMIT) == 3
    assert_same_rows(hoodie.read_table(b), hoodie.read_table(a), meta=False, what="streamed")
    instants = hoodie.instants(b)
    commits = sorted(
        (file for file in (tmp_path / "b-checkpoint" / "commits").iterdir() if file.name.isdecimal()),
        key=lambda file: int(file.name),
    )
    assert len(commits) == 5
    commits[-1].unlink()
    commits[-1].with_name(f".{commits[-1].name}.crc").unlink(missing_ok=True)
    assert stream(servers, tmp_path, "b", LIMIT) == 1  # the batch is read again, and writes nothing
    assert hoodie.instants(b) == instants
    assert_same_rows(hoodie.read_table(b), hoodie.read_table(a), meta=False, what="after the kill")
    assert staged(tmp_path / "b") == []


def test_start_offsets(servers: Servers, tmp_path: Path) -> None:
    a = str(tmp_path / "a")
    first = hoodie.write_table(rows(0, 10), a, options=KEYS).completion
    hoodie.write_table(rows(10, 5), a)
    assert stream(servers, tmp_path, "b", {START: "earliest"}) == 1
    assert hoodie.read_table(str(tmp_path / "b")).num_rows == 15
    assert stream(servers, tmp_path, "c", {START: first}) == 1
    assert_same_rows(hoodie.read_table(str(tmp_path / "c")), rows(10, 5), meta=False, what="after the first")
    assert stream(servers, tmp_path, "d", {START: "latest"}) == 0
    hoodie.write_table(rows(15, 5), a)
    assert stream(servers, tmp_path, "d", {START: "latest"}) == 1
    assert_same_rows(hoodie.read_table(str(tmp_path / "d")), rows(15, 5), meta=False, what="after latest")


def test_what_streams_refuse(servers: Servers, tmp_path: Path) -> None:
    hoodie.write_table(rows(0, 10), str(tmp_path / "a"), options=KEYS)
    begin = {"hoodie.datasource.read.begin.instanttime": "000"}
    assert "a stream takes no such option" in stream(servers, tmp_path, "b", {**begin, START: "latest"})
    assert "is no point in time" in stream(servers, tmp_path, "b", {START: "soon"})
    assert "foreachBatch" in stream(servers, tmp_path, "b", {}, "complete")
    assert not (tmp_path / "b" / ".hoodie" / "hoodie.properties").exists()


def test_the_example_of_the_docs_runs(servers: Servers, tmp_path: Path) -> None:
    """Its foreachBatch, too, which finds its commit where Spark's log has lost the batch."""
    table = str(tmp_path / "orders")
    hoodie.write_table(orders(), table, options=ORDERS)
    [text] = [item for page in PAGES for item in blocks(page, "python") if "readStream" in item]
    text = text.replace("/data/orders", table)
    instants = []
    for _ in range(2):
        servers.ask("examples", "classic", [text])
        for name in ("copy", "by_executors"):
            found = hoodie.read_table(f"{table}_{name}", meta=False)
            assert_same_rows(found, orders(), meta=False, what=name)
            instants.append(hoodie.instants(f"{table}_{name}"))
        (tmp_path / "orders_by_executors_checkpoint" / "commits" / "0").unlink()
        (tmp_path / "orders_by_executors_checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    assert instants[:2] == instants[2:]
