"""Sync with a real Hive metastore and with AWS Glue (moto): what they have afterwards, and how often they are
asked for a change.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

import pyarrow as pa
import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.errors import ConfigError, SchemaError, ServiceError, StorageError, TableMismatch
from hoodie.jobs import _main
from hoodie.metastore.connection import connected, server, types
from hoodie.services.sync.run import SyncResult
from hoodie.sync.hive.catalog import CATALOGS, Catalog, Values, catalog
from hoodie.sync.hive.desired_entry import REALTIME_INPUT, Entry
from hoodie.table.handle import Table
from tests.support.cli import said
from tests.unit.write.support import listing

if TYPE_CHECKING:
    from tests.support.glue import Glue

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
    """A folder for tables, and a database of the catalog that is not there yet."""

    def __init__(self, folder: Path, side: Side, database: str) -> None:
        self.path, self.side, self.database = str(folder / "orders"), side, database

    def write(self, days: str, *, options: dict[str, str] | None = None, **columns: pa.DataType) -> None:
        """A row a day, with columns of these types."""
        rows = {"id": list(days), "day": [f"2026-01-0{day}" for day in days]}
        types = {"v": pa.int32(), **columns}
        more = {name: pa.array([1] * len(days)).cast(kind) for name, kind in types.items()}
        hoodie.write_table(pa.table(rows | more), self.path, options=options or BY_DAY)

    def sync(self, options: Mapping[str, str] = NOTHING, *, dry_run: bool = False) -> SyncResult:
        given = {**self.side.options, **options}
        return hoodie.sync_table(
            self.path, self.side.metastore, self.database, options=given, dry_run=dry_run
        )

    def columns(self, name: str = "orders") -> dict[str, str]:
        with self.opened() as opened:
            found = opened.entry(self.database, name)
        assert found is not None
        return {item.name: item.type for item in found.columns if not item.name.startswith("_")}

    def days(self, name: str = "orders") -> list[str]:
        with self.opened() as opened:
            return sorted(value for (value,) in opened.partitions(self.database, self.entry(opened, name)))

    def entry(self, opened: Catalog, name: str) -> Entry:
        found = opened.entry(self.database, name)
        assert found is not None
        return Entry(
            name=name,
            location=found.location,
            input_format=found.input_format,
            columns=found.columns,
            partition_columns=found.partition_columns,
            parameters=found.parameters,
            serde_parameters=found.serde_parameters,
        )

    def opened(self) -> AbstractContextManager[Catalog]:
        config = Config.of({**self.side.options, **self.side.address})
        return catalog(config).opened(config)


class Side(ABC):
    """A catalog by its own interface. `metastore` and `options` are what a sync is called with, `address`
    says the former by a setting, `on` has a write sync.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    metastore: str
    options: Mapping[str, str] = NOTHING
    address: Mapping[str, str]
    on: Mapping[str, str]

    @abstractmethod
    def columns_of(self, database: str, day: str) -> dict[str, str]:
        """Of a partition of `orders`."""

    @abstractmethod
    def relocate(self, database: str, day: str, location: str) -> None: ...

    @abstractmethod
    def retype(self, database: str, column: str, kind: str) -> None: ...

    @abstractmethod
    def at(self, port: int) -> dict[str, str]:
        """The address of one at that port."""


class HiveSide(Side):
    name, title = "hive", "Hive's metastore"
    on: Mapping[str, str] = {"hoodie.datasource.hive_sync.enable": "true"}

    def __init__(self, port: int) -> None:
        self.metastore = f"thrift://127.0.0.1:{port}"
        self.address = {URIS: self.metastore}

    def ask(self, request: Callable[[Any], Any]) -> Any:
        with connected([server(self.metastore, URIS)], 60_000, "a test") as ask:
            return ask(request)

    def _partition(self, database: str, day: str) -> Any:
        [found] = self.ask(lambda client: client.get_partitions_by_names(database, "orders", [f"day={day}"]))
        return found

    def columns_of(self, database: str, day: str) -> dict[str, str]:
        return {item.name: item.type for item in self._partition(database, day).sd.cols}

    def relocate(self, database: str, day: str, location: str) -> None:
        moved = self._partition(database, day)
        moved.sd.location = location
        self.ask(lambda client: client.alter_partitions(database, "orders", [moved]))

    def retype(self, database: str, column: str, kind: str) -> None:
        entry = self.ask(lambda client: client.get_table(database, "orders"))
        [found] = [item for item in entry.sd.cols if item.name == column]
        found.type = kind
        context = types("a test").EnvironmentContext(properties={})
        self.ask(
            lambda client: client.alter_table_with_environment_context(database, "orders", entry, context)
        )

    def at(self, port: int) -> dict[str, str]:
        return {URIS: f"thrift://127.0.0.1:{port}"}


class GlueSide(Side):
    name, title, metastore = "glue", "AWS Glue", "glue"
    on: Mapping[str, str] = {"hoodie.datasource.meta.sync.enable": "true"}

    def __init__(self, glue: Glue) -> None:
        self.client = glue.client()
        self.options = glue.options
        self.address = {}

    def columns_of(self, database: str, day: str) -> dict[str, str]:
        found = self.client.get_partition(DatabaseName=database, TableName="orders", PartitionValues=[day])
        return {item["Name"]: item["Type"] for item in found["Partition"]["StorageDescriptor"]["Columns"]}

    def relocate(self, database: str, day: str, location: str) -> None:
        where = {"DatabaseName": database, "TableName": "orders"}
        found = self.client.get_partition(**where, PartitionValues=[day])["Partition"]
        given = {"Values": [day], "StorageDescriptor": {**found["StorageDescriptor"], "Location": location}}
        self.client.update_partition(**where, PartitionValueList=[day], PartitionInput=given)

    def retype(self, database: str, column: str, kind: str) -> None:
        found = self.client.get_table(DatabaseName=database, Name="orders")["Table"]
        [item] = [item for item in found["StorageDescriptor"]["Columns"] if item["Name"] == column]
        item["Type"] = kind
        kept = ("Name", "Parameters", "PartitionKeys", "StorageDescriptor", "TableType")
        given = {name: found[name] for name in kept}
        self.client.update_table(DatabaseName=database, TableInput=given)

    def at(self, port: int) -> dict[str, str]:
        return {"hoodie.aws.glue.endpoint": f"http://127.0.0.1:{port}"}


@pytest.fixture(params=list(CATALOGS.places))
def side(request: pytest.FixtureRequest) -> Side:
    if request.param == "glue":
        return GlueSide(request.getfixturevalue("glue"))
    return HiveSide(request.getfixturevalue("hivemetastore").port)


@pytest.fixture
def lake(tmp_path: Path, side: Side, request: pytest.FixtureRequest) -> Lake:
    return Lake(tmp_path, side, re.sub(r"\W", "_", request.node.name).lower())


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
        assert found is not None
        assert found.parameters["last_commit_time_sync"] == hoodie.instants(lake.path)[-1]["instant"]
    assert lake.side.columns_of(lake.database, "2026-01-01")["n"] == "float"
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
        found = metastore.entry(lake.database, "orders_rt")
        assert found is not None
        assert found.input_format == REALTIME_INPUT


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
    lake.side.relocate(lake.database, "2026-01-01", "file:/elsewhere")
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


def test_hundreds_of_partitions_are_dropped(lake: Lake) -> None:
    """An embedded Derby fails at 600 in one request."""
    lake.write("1")
    lake.sync()
    added: dict[Values, str] = {(f"2027-{day:03}",): f"day=2027-{day:03}" for day in range(600)}
    with lake.opened() as opened:
        entry = lake.entry(opened, "orders")
        opened.add(lake.database, entry, added)
        opened.drop(lake.database, entry, added)
    assert lake.days() == ["2026-01-01"]


def test_what_is_refused_leaves_the_entries(lake: Lake, tmp_path: Path) -> None:
    lake.write("1", v=pa.int64())
    lake.sync()
    other = Lake(tmp_path / "other", lake.side, lake.database)
    other.write("1")
    with pytest.raises(TableMismatch, match=rf"orders in {lake.side.title} is the table at .*/orders, not"):
        other.sync()
    options = {"hoodie.datasource.hive_sync.auto_create_database": "false"}
    nowhere = Lake(tmp_path, lake.side, "nowhere")
    with pytest.raises(ConfigError, match=r"no database nowhere.*auto_create_database=false"):
        nowhere.sync(options)
    lake.side.retype(lake.database, "v", "string")
    with pytest.raises(SchemaError, match="can't change column v from string to bigint"):
        lake.sync()
    assert lake.columns()["v"] == "string"


def test_the_command_and_the_job(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.write("12")
    side = lake.side
    given = ["sync", "--table", lake.path, "--metastore", side.metastore, "--database", lake.database]
    given += [word for name, text in side.options.items() for word in ("--option", f"{name}={text}")]
    code, out, _ = said(capsys, [*given, "--dry-run"])
    assert (code, out.splitlines()) == (
        0,
        [f"Would sync orders with {side.title}", f"  {lake.database}.orders: created, 2 partitions added"],
    )
    assert said(capsys, given)[1].startswith(f"Synced orders with {side.title}\n")
    assert said(capsys, given)[1] == f"Nothing to do for orders: {side.title} has all of it\n"
    request = {"table": lake.path, "database": lake.database, "options": {**side.options, **side.address}}
    assert _main.main("sync", ["--request", json.dumps(request)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert json.loads(last.removeprefix("HOODIE_RESULT "))["status"] == "skipped"


def test_commits_are_followed_as_they_are_made(lake: Lake, silent_port: Callable[[], int]) -> None:
    on = {
        **BY_DAY,
        **lake.side.options,
        **lake.side.address,
        **lake.side.on,
        "hoodie.datasource.hive_sync.database": lake.database,
    }
    lake.write("1", options=on)
    lake.write("2", options=on)
    assert lake.days() == ["2026-01-01", "2026-01-02"]
    down = {**on, **lake.side.at(silent_port()), "hoodie.meta.sync.answer.timeout.ms": "300"}
    with pytest.raises(ServiceError, match=r"the rows are committed at .*can't be reached.*hoodie sync"):
        lake.write("3", options=down)
    warned = hoodie.write_table(
        pa.table({"id": ["4"], "v": pa.array([1], pa.int32()), "day": ["2026-01-04"]}),
        lake.path,
        options={**down, "hoodie.datasource.hive_sync.ignore_exceptions": "true"},
    )
    [warning] = warned.warnings
    assert re.search(f"rows are committed, but the sync with {lake.side.title} failed: .*reached", warning)
    assert len(hoodie.instants(lake.path)) == 4
    assert lake.days() == ["2026-01-01", "2026-01-02"]
    [entry] = lake.sync().entries
    assert (entry["partitions_added"], entry["all_partitions"]) == (2, False)


@pytest.mark.parametrize("mute", [False, True])
def test_a_metastore_that_is_not_there(lake: Lake, silent_port: Callable[[], int], mute: bool) -> None:
    lake.write("1")
    port = silent_port() if mute else _closed_port()
    options = {**lake.side.options, **lake.side.at(port), "hoodie.meta.sync.answer.timeout.ms": "300"}
    with pytest.raises(
        StorageError, match=f"{lake.side.title} .*{port}.* can't be reached: .*then sync again"
    ) as error:
        hoodie.sync_table(lake.path, options=options)
    assert error.value.transient
    ignoring = {**options, "hoodie.datasource.hive_sync.ignore_exceptions": "true"}
    result = hoodie.sync_table(lake.path, options=ignoring)
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


#: tables of versions 8 and 9 that Apache Hudi wrote, with the values of their partitions
LATER = {
    "1.2.0-v8/cow_archived": ["apac", "eu", "us"],
    "1.2.0-v8/mor_compacted": ["apac", "eu", "us"],
    "1.2.0-v9/cow_nonpart": [],
    "1.2.0-v9/cow_delete_partition": ["apac", "eu"],
    "1.2.0-v9/cow_hive_urlenc": None,
    "1.2.0-v9/mor_inflight": ["apac", "eu", "us"],
    "more/nbcc_out_of_order": ["apac", "eu", "us"],
    "more/up_6to9_mor": None,
}


@pytest.mark.parametrize("name", LATER)
def test_tables_of_later_versions_are_entered(
    lake: Lake, later_tables: Path, later_more: Path, name: str
) -> None:
    """The newest request and the newest completion, as HiveSyncTool of Apache Hudi 1.2.0; no file changes."""
    place = (later_more if name.startswith("more/") else later_tables) / name / "table"
    lake.path = str(place)
    before, columns = listing(place), hoodie.read_table(lake.path, meta=False).schema
    made = lake.sync()
    assert made.warnings == []
    names = [item["entry"].partition(".")[2] for item in made.entries]
    commits = Table.open(lake.path).timeline.commits()
    with lake.opened() as opened:
        for entry in names:
            found = opened.entry(lake.database, entry)
            assert found is not None
            assert found.parameters["last_commit_time_sync"] == commits[-1].time
            assert found.parameters["last_commit_completion_time_sync"] == max(
                str(item.completion) for item in commits
            )
            data = [item.name for item in (*found.columns, *found.partition_columns)]
            assert {item for item in data if not item.startswith("_hoodie")} == {
                item.lower() for item in columns.names if not item.startswith("_hoodie")
            }
            stored = sorted(value for (value,) in opened.partitions(lake.database, lake.entry(opened, entry)))
            expected = LATER[name]
            assert stored == (partition_values_of(place) if expected is None else expected)
    assert lake.sync().status == "skipped"
    assert listing(place) == before


def partition_values_of(place: Path) -> list[str]:
    paths = Table.open(str(place)).listing().partitions()
    return sorted(unquote(path.removeprefix("region=")) for path in paths)


def test_a_writer_of_a_later_version_that_was_overtaken(lake: Lake, later_more: Path, tmp_path: Path) -> None:
    """It was requested before the newest commit of the last sync, and was completed after it."""
    table = tmp_path / "overtaken"
    shutil.copytree(later_more / "more/nbcc_out_of_order/table", table)
    lake.path = str(table)
    folder = table / ".hoodie/timeline"
    _, overtaken, overtaking, last = Table.open(lake.path).timeline.commits()
    assert str(overtaken.completion) > str(overtaking.completion)
    names = [f"{item.time}_{item.completion}.{item.action.value}" for item in (overtaken, last)]
    for name in names:
        (folder / name).rename(tmp_path / name)
    lake.sync()
    with lake.opened() as opened:
        opened.drop(lake.database, lake.entry(opened, "nbcc_out_of_order_rt"), [("eu",)])
    (tmp_path / names[0]).rename(folder / names[0])
    found = {item["entry"].partition(".")[2]: item for item in lake.sync().entries}
    assert found["nbcc_out_of_order_rt"]["partitions_added"] == 1
    assert not found["nbcc_out_of_order_rt"]["all_partitions"]
    assert lake.days("nbcc_out_of_order_rt") == ["apac", "eu", "us"]
