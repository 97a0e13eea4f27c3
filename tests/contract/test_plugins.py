"""Every folder of plugins: its names lead to its classes, and a caller's own class takes the place of one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie.callbacks import CALLBACKS, CommitCallback
from hoodie.callbacks.settings import CLASS as CALLBACK
from hoodie.callbacks.settings import ON as CALLBACK_ON
from hoodie.config.key import Config
from hoodie.config.plugins import Plugins
from hoodie.errors import ConfigError, TableMismatch
from hoodie.hooks import WriteEvent
from hoodie.index import INDEXES, Index
from hoodie.index.locations import Locations
from hoodie.index.settings import INDEX_CLASS
from hoodie.index.simple import SimpleIndex
from hoodie.keygen import KEY_GENERATORS, KeyGenerator
from hoodie.lock import LOCKS
from hoodie.merge import MERGERS
from hoodie.merge.commit_time import CommitTime
from hoodie.storage import STORAGES
from hoodie.table.handle import TableRef
from hoodie.table.view import FileSlice
from hoodie.timeline.time import InstantTime

FOLDERS: dict[str, Plugins[Any]] = {
    "hoodie.callbacks": CALLBACKS,
    "hoodie.index": INDEXES,
    "hoodie.keygen": KEY_GENERATORS,
    "hoodie.lock": LOCKS,
    "hoodie.merge": MERGERS,
    "hoodie.storage": STORAGES,
}
KEY = "hoodie.datasource.write.recordkey.field"
PARTITION = "hoodie.datasource.write.partitionpath.field"
GENERATOR = "hoodie.datasource.write.keygenerator.class"
PAYLOAD = "hoodie.datasource.write.payload.class"
INDEX = "hoodie.index.class"


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_name_leads_to_its_class(folder: str) -> None:
    plugins = FOLDERS[folder]
    assert set(plugins.aliases) <= set(plugins.places)
    for name, place in plugins.places.items():
        for other in (name, name.upper(), *plugins.aliases.get(name, ())):
            cls = cast("Any", plugins.load("setting", other)).__self__
            assert f"{cls.__module__}:{cls.__qualname__}" == place
            assert getattr(cls, "java_class", name) == name
            assert plugins.includes(cls)
            assert cls.__module__.startswith(f"{folder}.")


@pytest.mark.parametrize("folder", FOLDERS)
def test_another_name_is_an_error_with_the_choices(folder: str) -> None:
    plugins = FOLDERS[folder]
    with pytest.raises(ConfigError, match="known here; use one of") as error:
        plugins.load("some.setting", "Nothing")
    assert "some.setting='Nothing' is no " in error.value.message
    for name in plugins.places:
        assert name in error.value.message


@pytest.mark.parametrize("name", ["nowhere:Mine", "json:Nothing", ":X", "json:"])
@pytest.mark.parametrize("folder", FOLDERS)
def test_a_class_that_is_not_there(folder: str, name: str) -> None:
    with pytest.raises(ConfigError, match="can't be imported"):
        FOLDERS[folder].load("some.setting", name)


class Counting(SimpleIndex):
    """An index of one's own."""

    looked = 0

    def __init__(self, *, config: Config) -> None:
        assert config[INDEX_CLASS]

    def locate(self, table: TableRef, slices: Sequence[FileSlice], keys: Any) -> Locations:
        Counting.looked += 1
        return super().locate(table, slices, keys)


class Hashed(KeyGenerator):
    """A key generator of one's own: folders by the length of the key."""

    java_class = "org.example.Hashed"
    record_key_fields = ("id",)
    partition_fields = ("shard",)
    key_columns = ("id",)

    def __init__(self, *, config: Config, schema: pa.Schema) -> None:
        assert {"id", "v"} <= set(schema.names)

    def record_keys(self, rows: pa.RecordBatch | pa.Table) -> Any:
        return rows.column("id")

    def partition_codes(self, rows: pa.RecordBatch | pa.Table) -> Any:
        ids: Any = rows.column("id")
        lengths: Any = pc.utf8_length(ids)
        texts = lengths.cast(pa.string()).dictionary_encode()
        return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts

    def persisted(self) -> dict[str, str]:
        return {
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": "shard",
            "hoodie.table.keygenerator.class": self.java_class,
        }


class Other(Hashed):
    java_class = "org.example.Other"


class Loudest(CommitTime):
    """A merger of one's own, whose incoming rows always win."""

    java_class = "org.example.Loudest"

    def __init__(self, *, config: Config, ordering_field: str | None, schema: pa.Schema) -> None:
        super().__init__(ordering_field)


def rows(*pairs: tuple[str, int]) -> pa.Table:
    return pa.table({"id": [name for name, _ in pairs], "v": [value for _, value in pairs]})


def values(table: str) -> dict[str, int]:
    return {row["id"]: row["v"] for row in hoodie.read_table(table).select(["id", "v"]).to_pylist()}


def own(cls: type) -> str:
    return f"{__name__}:{cls.__name__}"


def test_an_index_of_ones_own(tmp_path: Path) -> None:
    table, options = f"{tmp_path}/t", {KEY: "id", INDEX: own(Counting)}
    before = Counting.looked
    hoodie.write_table(rows(("a", 1), ("b", 1)), table, options=options)
    hoodie.write_table(rows(("a", 2), ("c", 2)), table, options={INDEX: own(Counting)})
    assert (values(table), Counting.looked > before) == ({"a": 2, "b": 1, "c": 2}, True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            own(CommitTime),
            f"hoodie.index.class='{own(CommitTime)}' is no index: derive it from hoodie.index.Index",
        ),
        (own(Index), "is no index: it lacks locate; see hoodie.index.Index"),
        (
            "org.apache.hudi.index.Mine",
            "expected a Python class as module:Class; Java",
        ),
    ],
)
def test_what_is_no_index(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        hoodie.write_table(rows(("a", 1)), f"{tmp_path}/t", options={KEY: "id", INDEX: name})
    assert not (tmp_path / "t").exists()


def test_a_key_generator_of_ones_own(tmp_path: Path) -> None:
    table, options = f"{tmp_path}/t", {KEY: "id", GENERATOR: own(Hashed)}
    hoodie.write_table(rows(("a", 1), ("bb", 1)), table, options=options)
    hoodie.write_table(rows(("a", 2), ("cc", 2)), table, options={GENERATOR: own(Hashed)})
    assert values(table) == {"a": 2, "bb": 1, "cc": 2}
    assert sorted(path.name for path in (tmp_path / "t").iterdir() if path.name != ".hoodie") == ["1", "2"]
    with pytest.raises(TableMismatch, match=r"'org\.example\.Other', the table has 'org\.example\.Hashed'"):
        hoodie.write_table(rows(("a", 3)), table, options={GENERATOR: own(Other)})
    with pytest.raises(ConfigError, match=r"'org\.example\.Hashed' is no key generator known here"):
        hoodie.write_table(rows(("a", 3)), table)
    assert values(table) == {"a": 2, "bb": 1, "cc": 2}


def test_a_merger_of_ones_own(tmp_path: Path) -> None:
    table, options = f"{tmp_path}/t", {KEY: "id", PAYLOAD: own(Loudest)}
    hoodie.write_table(rows(("a", 2)), table, options=options)
    hoodie.write_table(rows(("a", 1)), table, options=options)
    assert values(table) == {"a": 1}


class Told(CommitCallback):
    """A commit callback of one's own."""

    made: ClassVar[list[Told]] = []
    events: ClassVar[list[WriteEvent]] = []
    error: ClassVar[BaseException | None] = None

    def __init__(self, *, config: Config) -> None:
        assert config[CALLBACK]
        self.made.append(self)

    def call(self, event: WriteEvent) -> None:
        self.events.append(event)
        if self.error is not None:
            raise self.error


class Slow(Told):
    timeout_s = 0.05

    def call(self, event: WriteEvent) -> None:
        time.sleep(1)


def callback(cls: type, **more: str) -> dict[str, str]:
    name = f"{cls.__module__}:{cls.__qualname__}"
    return {KEY: "id", "hoodie.table.name": "t", CALLBACK_ON.name: "true", CALLBACK.name: name, **more}


def test_a_callback_is_told_of_a_commit(tmp_path: Path) -> None:
    Told.events.clear()
    Told.made.clear()
    options = callback(Told)
    result = hoodie.write_table(rows(("a", 1)), str(tmp_path / "t"), options=options)
    (event,) = Told.events
    assert result.warnings == []
    assert (event.instant.time, event.instant.completed) == (result.instant, True)
    assert event.metadata.num_inserts == 1
    assert 0 < event.seconds <= result.duration_s + 0.01
    assert len(Told.made) == 1, "made once a write"
    hoodie.write_table(rows(("b", 1)), str(tmp_path / "t"), options=options, dry_run=True)
    assert len(Told.events) == 1


def test_a_callback_follows_writes_only(tmp_path: Path) -> None:
    """As Apache Hudi's: not the services inside of a write, nor those run by themselves."""
    path, options = str(tmp_path / "t"), callback(Told)
    hoodie.write_table(rows(("a", 1)), path, options=options)
    Told.events.clear()
    retain = {"hoodie.cleaner.commits.retained": "1", "hoodie.clean.max.commits": "0"}
    for number in range(2, 5):
        hoodie.write_table(rows(("a", number)), path, options={**options, **retain})
    assert [entry["action"] for entry in hoodie.instants(path)].count("clean") > 0
    assert [event.operation for event in Told.events] == ["UPSERT"] * 3
    hoodie.rollback_table(path, Told.events[-1].instant.time, options=options)
    saved = hoodie.savepoint_table(path, options=options)
    hoodie.delete_savepoint(path, InstantTime(saved.instant), options=options)
    assert len(Told.events) == 3


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit("no")], ids=["an error", "an exit"])
def test_a_callback_that_fails_harms_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setattr(Told, "error", error)
    result = hoodie.write_table(rows(("a", 1)), str(tmp_path / "t"), options=callback(Told))
    (warning,) = result.warnings
    assert warning == f"the rows are committed, but the commit callback failed: {type(error).__name__}: no"
    assert hoodie.read_table(str(tmp_path / "t")).num_rows == 1


def test_a_callback_that_does_not_end_is_not_waited_for(tmp_path: Path) -> None:
    result = hoodie.write_table(rows(("a", 1)), str(tmp_path / "t"), options=callback(Slow))
    assert result.warnings == ["the rows are committed, but the commit callback did not end within 0.05 s"]


@pytest.mark.parametrize(
    "name", ["", "org.apache.hudi.callback.impl.HoodieWriteCommitHttpCallback", "nowhere:Mine", "json:loads"]
)
def test_a_callback_that_can_not_be_called_is_refused_before_anything_is_written(
    tmp_path: Path, name: str
) -> None:
    options = {**callback(Told), CALLBACK.name: name}
    with pytest.raises(ConfigError, match=CALLBACK.name):
        hoodie.write_table(rows(("a", 1)), str(tmp_path / "t"), options=options)
    assert not (tmp_path / "t").exists()
    options[CALLBACK_ON.name] = "false"
    assert hoodie.write_table(rows(("a", 1)), str(tmp_path / "t"), options=options).warnings == []
