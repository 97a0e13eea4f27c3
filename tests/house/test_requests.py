"""What an operation asks of the storage stays within its budget, and one module lists data files."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.storage.object_client import Client
from scripts.environment import ROOT
from tests.support.large_table import OPTIONS as LARGE
from tests.support.large_table import LargeTable
from tests.support.parsed import parsed
from tests.support.requests import counted

HOODIE = ROOT / "spark_jobs" / "hoodie"
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
}
pytestmark = pytest.mark.real_defaults
WITHOUT = {"hoodie.metadata.enable": "false"}
QUERY_PARTITION = 1
#: a query opens as many files of the metadata table that a new table has
KEPT_OPENED = 6
#: of PARTITIONS, in each of which there is one file
TOUCHED, PARTITIONS = (1, 3, 10), 40


@dataclass(frozen=True)
class Budget:
    """Calls beside the openings of data files, of a table of this version."""

    version: int
    upsert: int
    query: int
    #: the metadata table is looked at where the table is taken (properties of both tables, its timeline), and
    #: again for the commit, as another process may have changed it (the same, and its files), which is a
    #: deltacommit there (three files)
    kept: int
    #: a query opens it, and looks at the end whether it is still there, instead of listing partitions
    kept_query: int
    #: all requests of an upsert on an object store, of a table with four commits, into each number of TOUCHED
    remote: tuple[int, int, int]


#: instants of version 9 lie in a folder of their own: who looks at them asks for both folders, and who writes
#: for the properties, too, as the version may have changed; but not who looks for its own instant alone
BUDGETS = [
    Budget(version=6, upsert=29, query=8, kept=9, kept_query=12, remote=(29, 36, 48)),
    Budget(version=9, upsert=34, query=9, kept=8, kept_query=14, remote=(31, 38, 50)),
]
#: these list folders that hold no data files
LISTERS = {
    "concurrency/heartbeats.py",
    "spark/staging.py",
    "table/heartbeat.py",
    "table/listing.py",
    "table/markers.py",
    "timeline/archive/log_archive.py",
    "timeline/archive/lsm_archive.py",
    "timeline/active.py",
    "timeline/job_reports.py",
    "timeline/store.py",
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


def made(path: Path, options: Mapping[str, str]) -> str:
    """Four commits, two partitions."""
    for time in range(4):
        hoodie.write_table(rows(20, time), str(path), operation="upsert", options={**OPTIONS, **options})
    return str(path)


@pytest.fixture(scope="module", params=BUDGETS, ids=lambda budget: f"version {budget.version}")
def budget(request: pytest.FixtureRequest) -> Budget:
    found: Budget = request.param
    return found


@pytest.fixture(scope="module")
def table(budget: Budget, tmp_path_factory: pytest.TempPathFactory) -> str:
    """As users get it."""
    version = {"hoodie.write.table.version": str(budget.version)}
    return made(tmp_path_factory.mktemp("requests") / "t", version)


@pytest.fixture(scope="module")
def alone(budget: Budget, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Without a metadata table."""
    version = {"hoodie.write.table.version": str(budget.version)}
    return made(tmp_path_factory.mktemp("requests") / "alone", {**WITHOUT, **version})


def test_a_query(table: str, budget: Budget) -> None:
    with counted(table) as requests:
        assert hoodie.read_table(table).num_rows == 20
    assert len(requests.about_the_table()) <= budget.kept_query, f"\n{requests}"
    assert requests.count("open_input") == 2 + KEPT_OPENED, f"\n{requests}"


def test_a_query_that_lists_folders(alone: str, budget: Budget) -> None:
    with counted(alone) as requests:
        assert hoodie.read_table(alone).num_rows == 20
    assert len(requests.about_the_table()) <= budget.query + 2 * QUERY_PARTITION, f"\n{requests}"
    assert requests.count("open_input") == 2


def test_a_query_of_logs_and_a_metadata_table_opens_each_file_once(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    options = {
        **OPTIONS,
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.metadata.index.column.stats.enable": "true",
    }
    for time in range(3):
        hoodie.write_table(rows(20, time), path, operation="upsert", options=options)
    for where in (None, "id = '3' AND region = 'us'"):
        with counted(path) as requests:
            assert hoodie.read_table(path, where=where).num_rows == (1 if where else 20)
        opened = Counter(path for name, path, _ in requests.calls if name == "open_input")
        assert max(opened.values()) == 1, f"\n{requests}"
        assert any(".log." in path and "metadata" not in path for path in opened)


def test_an_upsert(table: str, budget: Budget) -> None:
    with counted(table) as requests:
        assert hoodie.write_table(rows(3, 9), table, operation="upsert", options=OPTIONS).num_updates == 3
    assert len(requests.about_the_table()) <= budget.upsert + budget.kept, f"\n{requests}"
    # a file is opened where its keys are looked up, and where it is merged; one log of the metadata table
    assert (requests.count("open_input"), requests.count("output")) == (4, 3)


def test_an_upsert_without_a_metadata_table(alone: str, budget: Budget) -> None:
    with counted(alone) as requests:
        assert hoodie.write_table(rows(3, 9), alone, operation="upsert", options=OPTIONS).num_updates == 3
    assert len(requests.about_the_table()) <= budget.upsert, f"\n{requests}"
    assert (requests.count("open_input"), requests.count("output")) == (4, 2)


def test_what_a_small_write_syncs(
    table: str, alone: str, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inflight file, the data file and the completed file, each with its folder; with a metadata table
    those of its deltacommit, too. No heartbeat.
    """
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    monkeypatch.setattr("hoodie.storage.local._sync_data", synced.append)
    for path, most in ((alone, 6), (table, 12)):
        synced.clear()
        assert hoodie.write_table(rows(1, 9), path, operation="upsert", options=OPTIONS).num_updates == 1
        assert len(synced) == most


def test_an_upsert_on_an_object_store(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request, of data files, too (docs/storage.md lists them)."""
    asked: list[str] = []
    ask = Client.ask

    def counting(self: Client, path: str, *given: Any, **named: Any) -> Any:
        asked.append(path)
        return ask(self, path, *given, **named)

    def upsert(count: int, time: int) -> int:
        numbers = range(count)
        regions = [f"r{number % PARTITIONS:02}" for number in numbers]
        table = pa.table({"id": [*map(str, numbers)], "region": regions, "ts": [time] * count})
        return int(hoodie.write_table(table, path, operation="upsert", options=options).num_updates)

    path = f"memory://house/requests-{budget.version}"
    options = {**OPTIONS, "hoodie.write.table.version": str(budget.version)}
    for time in range(4):
        upsert(2 * PARTITIONS, time)
    monkeypatch.setattr(Client, "ask", counting)
    for later, (touched, most) in enumerate(zip(TOUCHED, budget.remote, strict=True)):
        asked.clear()
        assert upsert(touched, 9 + later) == touched
        assert len(asked) <= most + later, "\n".join(asked)  # each one has a commit more to read


def test_an_upsert_and_a_query_ask_for_what_they_touch(tmp_path: Path) -> None:
    """Beside 8 partitions and beside 198 others; the table's own folder lists them."""
    asked = []
    for partitions in (10, 200):
        large = LargeTable(str(tmp_path / f"{partitions}"), partitions, files=3, commits=4, rows=2)
        large.make()
        with counted(large.path) as upsert:
            done = hoodie.write_table(large.upsert(range(2), 1), large.path, options=LARGE)
        assert (done.num_updates, done.num_files) == (12, 6)
        with counted(large.path) as query:
            found = hoodie.read_table(large.path, where="part = 'p000001'", columns=["val"])
        assert sorted(found.column("val").to_pylist()) == [0, 2, 4, 6, 8, 10]
        asked.append([Counter(name for name, _, _ in requests.calls) for requests in (upsert, query)])
    assert asked[0] == asked[1]


def test_one_module_lists_data_files() -> None:
    """Who needs the files of a partition asks a FileListing."""
    found = {
        str(source.relative_to(HOODIE))
        for source in HOODIE.rglob("*.py")
        if "storage.list(" in source.read_text()
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "list"
        and ast.unparse(node.func.value).endswith("storage")
    }
    assert found == LISTERS, "list data files by hoodie.table.listing"
