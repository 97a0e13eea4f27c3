"""What an operation asks of the storage stays within its budget, and one module lists data files."""

from __future__ import annotations

import ast

import pyarrow as pa
import pytest

import hoodie
from scripts.environment import ROOT
from tests.support.requests import counted

HOODIE = ROOT / "spark_jobs" / "hoodie"
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
}
#: calls beside the openings of data files
UPSERT, QUERY, QUERY_PARTITION = 29, 8, 1
#: these list folders that hold no data files
LISTERS = {
    "concurrency/heartbeats.py",
    "read/retained.py",
    "services/archive/run.py",
    "table/heartbeat.py",
    "table/listing.py",
    "table/markers.py",
    "timeline/archived.py",
    "write/plan.py",
}


def rows(count: int, time: int) -> pa.Table:
    return pa.table(
        {
            "id": [str(number) for number in range(count)],
            "region": [("eu", "us")[number % 2] for number in range(count)],
            "ts": [time] * count,
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four commits, two partitions."""
    path = str(tmp_path_factory.mktemp("requests") / "t")
    for time in range(4):
        hoodie.write_table(rows(20, time), path, operation="upsert", options=OPTIONS)
    return path


def test_a_query(table: str) -> None:
    with counted(table) as requests:
        assert hoodie.read_table(table).num_rows == 20
    assert len(requests.about_the_table()) <= QUERY + 2 * QUERY_PARTITION, f"\n{requests}"
    assert requests.count("open_input") == 2


def test_an_upsert(table: str) -> None:
    with counted(table) as requests:
        assert hoodie.write_table(rows(3, 9), table, operation="upsert", options=OPTIONS).num_updates == 3
    assert len(requests.about_the_table()) <= UPSERT, f"\n{requests}"
    # a file is opened where its keys are looked up, and where it is merged
    assert (requests.count("open_input"), requests.count("output")) == (4, 2)


def test_one_module_lists_data_files() -> None:
    """Who needs the files of a partition asks a FileListing."""
    found = {
        str(source.relative_to(HOODIE))
        for source in HOODIE.rglob("*.py")
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "list"
        and ast.unparse(node.func.value).endswith("storage")
    }
    assert found == LISTERS, "list data files by hoodie.table.listing"
