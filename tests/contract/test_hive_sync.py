"""Sync with a real Hive metastore: what it has afterwards, and how often it is asked for a change."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.errors import ConfigError, SchemaError, ServiceError, StorageError, TableMismatch
from hoodie.jobs import _main
from hoodie.metastore.connection import connected, server, types
from hoodie.services.sync.run import SyncResult
from hoodie.sync.hive.metastore import HiveMetastore
from hoodie.sync.hive.wanted import REALTIME_INPUT
from hoodie.table.handle import Table
from tests.support.cli import said

if TYPE_CHECKING:
    from tests.support.metastore.server import Metastore

KEY = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.index.bloom.num_entries": "100",
}
BY_DAY = {
    **KEY,
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}
NOTHING: Mapping[str, str] = {}
ALL = {"hoodie.meta.sync.incremental": "false"}
URIS = "hoodie.datasource.hive_sync.metastore.uris"

pytestmark = pytest.mark.full


class Lake:
    """A folder for tables, and a database of the metastore that is not there yet."""

    def __init__(self, folder: Path, uris: str, database: str) -> None:
        self.path, self.uris, self.database = str(folder / "orders"), uris, database

    def write(self, days: str, *, options: dict[str, str] | None = None, **columns: pa.DataType) -> None:
        """A row a day, with columns of these types."""
        rows = {"id": list(days), "day": [f"2026-01-0{day}" for day in days]}
        types = {"v": pa.int32(), **columns}
        more = {name: pa.array([1] * len(days)).cast(kind) for name, kind in types.items()}
        hoodie.write_table(pa.table(rows | more), self.path, options=options or BY_DAY)

    def sync(self, options: Mapping[str, str] = NOTHING, *, dry_run: bool = False) -> SyncResult:
        return hoodie.sync_table(self.path, self.uris, self.database, options=options, dry_run=dry_run)

    def columns(self, name: str = "orders") -> dict[str, str]:
        with self.opened() as metastore:
            found = metastore.entry(self.database, name)
        assert found is not None
        return {item.name: item.type for item in found.columns if not item.name.startswith("_")}

    def days(self, name: str = "orders") -> list[str]:
        with self.opened() as metastore:
            return sorted(value for (value,) in metastore.partition_values(self.database, name))

    def ask(self, request: Callable[[Any], Any]) -> Any:
        """A request of the service as it is."""
        with connected([server(self.uris, URIS)], 60_000, "a test") as ask:
            return ask(request)

    def partition(self, name: str) -> Any:
        [found] = self.ask(lambda client: client.get_partitions_by_names(self.database, "orders", [name]))
        return found

    def opened(self) -> Any:
        return HiveMetastore.opened(Config.of({URIS: self.uris}))


@pytest.fixture
def lake(tmp_path: Path, hivemetastore: Metastore, request: pytest.FixtureRequest) -> Lake:
    uris = f"thrift://127.0.0.1:{hivemetastore.port}"
    return Lake(tmp_path, uris, re.sub(r"\W", "_", request.node.name).lower())


def test_a_table_is_entered_and_followed(lake: Lake) -> None:
    lake.write("12")
    planned = lake.sync(dry_run=True)
    assert (planned.status, planned.change_requests) == ("planned", 0)
    made = lake.sync()
    [entry] = made.entries
    assert (made.status, entry["status"], entry["partitions_added"]) == ("synced", "created", 2)
    assert lake.columns() == {"id": "string", "v": "int"}
    assert lake.days() == ["2026-01-01", "2026-01-02"]
    again = lake.sync()
    assert (again.status, again.change_requests, again.requests) == ("skipped", 0, 2)

    lake.write("13", v=pa.int64(), n=pa.float32())
    hoodie.delete_partitions(lake.path, ["day=2026-01-02"], options=BY_DAY)
    [entry] = lake.sync().entries
    assert (entry["columns_added"], entry["columns_retyped"]) == (["n"], ["v: int -> bigint"])
    assert (entry["partitions_added"], entry["partitions_dropped"], entry["all_partitions"]) == (1, 1, False)
    assert lake.columns() == {"id": "string", "v": "bigint", "n": "float"}
    assert lake.days() == ["2026-01-01", "2026-01-03"]
    with lake.opened() as metastore:
        found = metastore.entry(lake.database, "orders")
        assert found.parameters["last_commit_time_sync"] == hoodie.instants(lake.path)[-1]["instant"]
    assert {item.name: item.type for item in lake.partition("day=2026-01-01").sd.cols}["n"] == "float"
    full = lake.sync(ALL)
    assert (full.change_requests, full.entries[0]["all_partitions"]) == (0, True)


def test_entries_of_a_merge_on_read_table_without_partitions(lake: Lake) -> None:
    lake.write("1", options={**KEY, "hoodie.datasource.write.table.type": "MERGE_ON_READ"})
    names = [item["entry"].partition(".")[2] for item in lake.sync().entries]
    assert names == ["orders_ro", "orders_rt", "orders"]
    assert lake.sync().change_requests == 0
    lake.write("2", options=KEY)
    assert lake.sync().change_requests == 3  # the newest commit
    with lake.opened() as metastore:
        assert metastore.entry(lake.database, "orders_rt").input_format == REALTIME_INPUT


def test_a_restore_and_partitions_that_are_elsewhere(lake: Lake) -> None:
    """What is not of the timeline any more is found by a look at all partitions."""
    lake.write("1")
    first = hoodie.instants(lake.path)[0]["instant"]
    lake.write("2")
    lake.sync()
    hoodie.restore_table(lake.path, first)
    [entry] = lake.sync().entries
    assert (entry["all_partitions"], entry["partitions_dropped"]) == (True, 1)
    assert lake.days() == ["2026-01-01"]
    moved = lake.partition("day=2026-01-01")
    moved.sd.location = "file:/elsewhere"
    lake.ask(lambda client: client.alter_partitions(lake.database, "orders", [moved]))
    [entry] = lake.sync(ALL).entries
    assert entry["partitions_moved"] == 1


def test_odd_names_and_many_batches(lake: Lake) -> None:
    """Reserved words, upper case, letters of any script, and values that Hive escapes."""
    values = ["a b", "x=y", "ü%/ü", "[1]", "it's", "Ä:B"]
    rows = pa.table({"id": list("abcdef"), "v": range(6), "Größe": [1] * 6, "SELECT": values})
    options = {
        **BY_DAY,
        "hoodie.datasource.write.partitionpath.field": "SELECT",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
    }
    hoodie.write_table(rows, lake.path, options=options)
    few = {"hoodie.datasource.hive_sync.batch_num": "4"}
    [entry] = lake.sync(few).entries
    assert entry["partitions_added"] == 6
    assert lake.days() == sorted(values)
    assert lake.sync({**few, **ALL}).change_requests == 0
    paths = {unquote(path).partition("=")[2]: path for path in Table.open(lake.path).listing().partitions()}
    hoodie.delete_partitions(lake.path, [paths["ü%/ü"], paths["it's"]], options=options)
    [entry] = lake.sync(few).entries
    assert entry["partitions_dropped"] == 2
    assert lake.days() == sorted({*values} - {"ü%/ü", "it's"})


def test_what_is_refused_leaves_the_entries(lake: Lake, tmp_path: Path) -> None:
    lake.write("1", v=pa.int64())
    lake.sync()
    other = Lake(tmp_path / "other", lake.uris, lake.database)
    other.write("1")
    with pytest.raises(TableMismatch, match=r"orders in Hive's metastore is the table at .*/orders, not"):
        other.sync()
    options = {"hoodie.datasource.hive_sync.auto_create_database": "false"}
    with pytest.raises(ConfigError, match=r"no database nowhere.*auto_create_database=false"):
        hoodie.sync_table(lake.path, lake.uris, "nowhere", options=options)
    entry = lake.ask(lambda client: client.get_table(lake.database, "orders"))
    [column] = [item for item in entry.sd.cols if item.name == "v"]
    column.type = "string"
    context = types("a test").EnvironmentContext(properties={})
    lake.ask(
        lambda client: client.alter_table_with_environment_context(lake.database, "orders", entry, context)
    )
    with pytest.raises(SchemaError, match="can't change column v from string to bigint"):
        lake.sync()
    assert lake.columns()["v"] == "string"


def test_the_command_and_the_job(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.write("12")
    given = ["sync", "--table", lake.path, "--metastore", lake.uris, "--database", lake.database]
    code, out, _ = said(capsys, [*given, "--dry-run"])
    assert (code, out.splitlines()) == (
        0,
        ["Would sync orders with Hive's metastore", f"  {lake.database}.orders: created, 2 partitions added"],
    )
    assert said(capsys, given)[1].startswith("Synced orders with Hive's metastore\n")
    assert said(capsys, given)[1] == "Nothing to do for orders: the metastore has all of it\n"
    request = {"table": lake.path, "metastore": lake.uris, "database": lake.database}
    assert _main.main("sync", ["--request", json.dumps(request)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert json.loads(last.removeprefix("HOODIE_RESULT "))["status"] == "skipped"


def test_commits_are_followed_as_they_are_made(lake: Lake, silent_port: Callable[[], int]) -> None:
    on = {
        **BY_DAY,
        URIS: lake.uris,
        "hoodie.datasource.hive_sync.database": lake.database,
        "hoodie.datasource.hive_sync.enable": "true",
    }
    lake.write("1", options=on)
    lake.write("2", options=on)
    assert lake.days() == ["2026-01-01", "2026-01-02"]
    down = {**on, URIS: f"thrift://127.0.0.1:{silent_port()}", "hoodie.meta.sync.answer.timeout.ms": "300"}
    with pytest.raises(ServiceError, match=r"the rows are committed at .*can't be reached.*hoodie sync"):
        lake.write("3", options=down)
    warned = hoodie.write_table(
        pa.table({"id": ["4"], "v": pa.array([1], pa.int32()), "day": ["2026-01-04"]}),
        lake.path,
        options={**down, "hoodie.datasource.hive_sync.ignore_exceptions": "true"},
    )
    [warning] = warned.warnings
    assert re.search("rows are committed, but the sync with Hive's metastore failed: .*be reached", warning)
    assert len(hoodie.instants(lake.path)) == 4
    assert lake.days() == ["2026-01-01", "2026-01-02"]
    [entry] = lake.sync().entries
    assert (entry["partitions_added"], entry["all_partitions"]) == (2, False)


@pytest.mark.parametrize("mute", [False, True])
def test_a_metastore_that_is_not_there(lake: Lake, silent_port: Callable[[], int], mute: bool) -> None:
    lake.write("1")
    port = silent_port() if mute else _closed_port()
    options = {"hoodie.meta.sync.answer.timeout.ms": "300"}
    uris = f"thrift://127.0.0.1:{port}"
    with pytest.raises(StorageError, match=f"metastore {uris} can't be reached: .*then sync again") as error:
        hoodie.sync_table(lake.path, uris, options=options)
    assert error.value.transient
    ignoring = {**options, "hoodie.datasource.hive_sync.ignore_exceptions": "true"}
    result = hoodie.sync_table(lake.path, uris, options=ignoring)
    assert (result.status, len(result.warnings)) == ("skipped", 1)


@pytest.fixture
def silent_port() -> Iterator[Callable[[], int]]:
    """A port where somebody listens who never answers."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(16)
        yield lambda: int(silent.getsockname()[1])


def _closed_port() -> int:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return int(closed.getsockname()[1])
