"""Tables of versions 8 and 9 that Apache Hudi 1.2.0 made, written and served on here."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import api, service_api
from hoodie.errors import AlreadyExists
from hoodie.metadata.index_definitions import index_definitions
from hoodie.metadata.table import MetadataTable
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table
from hoodie.timeline.archive import lsm_archive
from hoodie.timeline.archive.lsm_archive import LsmArchive
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.store import create_instant
from hoodie.timeline.time import InstantTime
from tests.support.faults import Faults, InjectedFault, Phase, injected
from tests.support.tiers import full_but

STORAGE = LocalStorage()
TABLES = [
    "1.2.0-v8/cow_archived",
    "1.2.0-v8/mdt_full_cow",
    "1.2.0-v8/mor_compacted",
    "1.2.0-v9/cow_complex",
    "1.2.0-v9/cow_smallfile",
    "1.2.0-v9/idx_rli_mor",
    "1.2.0-v9/mdt_1x_indexes",
    "1.2.0-v9/mdt_files_only",
    "1.2.0-v9/mdt_off_mor",
    "1.2.0-v9/mor_cdc",
    "1.2.0-v9/mor_logcompaction",
    "1.2.0-v9/mor_nonpart_logs",
]
FAST = {"1.2.0-v8/mor_compacted", "1.2.0-v9/idx_rli_mor", "1.2.0-v9/mdt_files_only", "1.2.0-v9/mor_cdc"}
NO_SERVICES = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.write.set.null.for.missing.columns": "true",
    "hoodie.metadata.compact.max.delta.commits": "3",
}
FEW = {
    **NO_SERVICES,
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "5",
    "hoodie.cleaner.commits.retained": "2",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.plan.strategy.small.file.limit": "100000000",
}
STEPS = (
    *("upsert",) * 4,
    "delete",
    "overwrite",
    "roll back",
    "compact",
    "cluster",
    "clean",
    "archive",
)
Key = tuple[str, str]
Rows = dict[Key, dict[str, Any]]


@pytest.fixture
def copy(later_tables: Path, tmp_path: Path) -> Callable[[str], str]:
    return lambda name: str(shutil.copytree(later_tables / name / "table", tmp_path / "t"))


def rows(path: str, options: Mapping[str, str] | None = None) -> Rows:
    found = api.read_table(path, options=options).to_pylist()
    return {
        (row["_hoodie_partition_path"], row["_hoodie_record_key"]): {
            name: value for name, value in row.items() if not name.startswith("_hoodie_")
        }
        for row in found
    }


class History:
    """Steps of writers and services on a table, and what its rows are then."""

    def __init__(self, path: str, seed: object) -> None:
        self.path = path
        self.chance = random.Random(str(seed))
        table = api.read_table(path)
        self.schema = table.select([name for name in table.schema.names if name[:8] != "_hoodie_"]).schema
        self.rows = rows(path)
        self.merge_on_read = Table.open(path).properties["hoodie.table.type"] == "MERGE_ON_READ"
        #: commits that may be rolled back, each with the rows before it
        self.undoable: list[tuple[str, Rows]] = []

    def step(self, name: str) -> None:
        keys = sorted(self.rows)
        if name == "upsert":
            self._write("upsert", self.chance.sample(keys, max(1, len(keys) // 3)))
        elif name == "delete" and len(keys) > 4:
            gone = self.chance.sample(keys, 2)
            self._write("delete", gone)
            self.rows = {key: row for key, row in self.rows.items() if key not in gone}
        elif name == "overwrite":
            partition = self.chance.choice(keys)[0]
            kept = [key for key in keys if key[0] == partition][:5]
            self._write("insert_overwrite", kept)
            self.rows = {key: row for key, row in self.rows.items() if key[0] != partition or key in kept}
        elif name == "roll back" and self.undoable:
            instant, self.rows = self.undoable.pop()
            service_api.rollback_table(self.path, instant, options=NO_SERVICES)
        elif name == "compact" and self.merge_on_read:
            self._serve(service_api.compact_table)
        elif name == "cluster":
            self._serve(service_api.cluster_table)
        elif name == "clean":
            self._serve(service_api.clean_table)
        elif name == "archive":
            service_api.archive_table(self.path, options=FEW)

    def _write(self, operation: str, keys: list[Key]) -> None:
        before = dict(self.rows)
        data = pa.Table.from_pylist([self.rows[key] for key in keys], schema=self.schema)
        written = api.write_table(data, self.path, operation=operation, options=NO_SERVICES)
        self.undoable.append((written.instant, before))

    def _serve(self, service: Callable[..., Any]) -> None:
        if service(self.path, options=FEW).status != "skipped":
            self.undoable.clear()

    def check(self) -> None:
        """The rows, with the metadata table and without, which has all that the timeline has."""
        assert rows(self.path) == self.rows
        assert rows(self.path, {"hoodie.metadata.enable": "false"}) == self.rows
        metadata = MetadataTable.open(Table.open(self.path))
        assert metadata is None or not metadata.lacks


@pytest.mark.parametrize("name", full_but(FAST, TABLES))
def test_histories(copy: Callable[[str], str], name: str) -> None:
    history = History(copy(name), name)
    history.check()
    for _ in range(12):
        history.step(history.chance.choice(STEPS))
        history.check()
    _check_timeline(Table.open(history.path))


def _check_timeline(table: Table) -> None:
    """Completed instants have times of completion after their requests, each of them another."""
    done = [item for item in table.timeline if item.completed]
    times = [item.completion for item in done]
    assert all(item.completion and item.is_before(item.completion) for item in done)
    assert len(set(times)) == len(times)


def test_names_of_files(copy: Callable[[str], str]) -> None:
    """A log file is its write's own, and a clustering is planned under its own action."""
    path = copy("1.2.0-v9/mdt_off_mor")
    history = History(path, 1)
    history.step("upsert")
    table = Table.open(path)
    (last,) = table.timeline.commits()[-1:]
    stats = table.timeline.commit(last, STORAGE).write_stats
    logs = [stat for stat in stats if stat.log_version is not None]
    assert logs
    for stat in logs:
        assert f"_{last.time}.log.1_" in stat.file_name
        assert (stat.prev_commit, stat.base_file, stat.log_files) == (last.time, "", (stat.file_name,))
    service_api.cluster_table(path, mode="schedule", options=FEW)
    (planned,) = Table.open(path).timeline.pending()
    assert planned.action is Action.CLUSTERING
    assert service_api.cluster_table(path, mode="execute", options=FEW).status == "clustered"
    history.check()


@pytest.mark.parametrize("name", full_but({"mdt_files_only"}, ["mdt_files_only", "mdt_full_cow"]))
@pytest.mark.parametrize("phase", full_but({Phase.AFTER}, Phase))
def test_a_killed_upsert_is_rolled_back(
    copy: Callable[[str], str], phase: Phase, name: str, tmp_path: Path
) -> None:
    """At whichever change of the storage it died; with indexes that are dropped before."""
    template = copy(f"1.2.0-v9/{name}")
    faults = Faults()
    path = str(shutil.copytree(template, tmp_path / "counted"))
    with injected(faults):
        History(path, 2).step("upsert")
    for at in range(1, len(faults.log) + 1, 1 if phase is not Phase.AFTER else 3):
        path = str(shutil.copytree(template, tmp_path / f"{phase.value}{at}"))
        history = History(path, 2)
        with injected(Faults(at=at, phase=phase)), contextlib.suppress(InjectedFault):
            history.step("upsert")
        history.check()
        history.step("upsert")
        history.check()
        _check_timeline(Table.open(path))


def test_archived_instants_are_merged_into_layers(copy: Callable[[str], str]) -> None:
    """As many files of a layer as Apache Hudi merges become one, and no instant is lost."""
    path = copy("1.2.0-v9/mdt_off")
    history = History(path, 3)
    merged: list[str] = []
    known = set[Instant]()
    for _ in range(20):
        if merged:
            break
        for _ in range(3):
            history.step("upsert")
        service_api.clean_table(path, options=FEW)
        merged = service_api.archive_table(path, options=FEW).merged
        archive = Table.open(path).archive
        found = set(archive.instants())
        assert known <= found
        known = found
    history.check()
    layers = {item.name.rpartition("_")[2] for item in archive.files()}
    assert "1.parquet" in layers
    manifests = Path(Table.open(path).archive_folder).glob("manifest_*")
    assert len([*manifests]) == 4, "those before are of no use to a reader that began before the merge"
    assert all(item.completion for item in known)
    contents = LsmArchive(STORAGE, Table.open(path).archive_folder).content(known)
    assert all(content.metadata for content in contents.values())
    assert all(content.plan for item, content in contents.items() if item.action is Action.CLEAN)


@pytest.mark.parametrize("phase", full_but({Phase.AFTER}, Phase))
def test_a_killed_archiver_loses_nothing(copy: Callable[[str], str], phase: Phase, tmp_path: Path) -> None:
    template = copy("1.2.0-v9/mdt_off")
    history = History(template, 4)
    for _ in range(5):
        history.step("upsert")
    service_api.clean_table(template, options=FEW)
    before = _every_commit(template)
    faults = Faults()
    with injected(faults):
        service_api.archive_table(str(shutil.copytree(template, tmp_path / "counted")), options=FEW)
    for at in range(1, len(faults.log) + 1):
        path = str(shutil.copytree(template, tmp_path / f"{phase.value}{at}"))
        with injected(Faults(at=at, phase=phase)), contextlib.suppress(InjectedFault):
            service_api.archive_table(path, options=FEW)
        assert _every_commit(path) == before, at
        service_api.archive_table(path, options=FEW)
        assert _every_commit(path) == before, at
        assert not Table.open(path).timeline.pending(), at
    assert rows(path) == history.rows


@pytest.mark.parametrize("phase", full_but({Phase.DURING}, Phase))
def test_a_killed_merge_of_the_archive_loses_nothing(
    copy: Callable[[str], str], phase: Phase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = copy("1.2.0-v9/mdt_off")
    history = History(template, 6)
    while len(Table.open(template).archive.files()) < 3:
        for _ in range(3):
            history.step("upsert")
        service_api.clean_table(template, options=FEW)
        service_api.archive_table(template, options=FEW)
    before = _every_commit(template)
    monkeypatch.setattr(lsm_archive, "_MERGED", 3)
    faults = Faults()
    with injected(faults):
        path = str(shutil.copytree(template, tmp_path / "counted"))
        assert service_api.archive_table(path, options=FEW).merged
    for at in range(1, len(faults.log) + 1):
        path = str(shutil.copytree(template, tmp_path / f"{phase.value}{at}"))
        with injected(Faults(at=at, phase=phase)), contextlib.suppress(InjectedFault):
            service_api.archive_table(path, options=FEW)
        assert _every_commit(path) == before, at
        service_api.archive_table(path, options=FEW)
        assert _every_commit(path) == before, at
        (merged,) = Table.open(path).archive.files()
        assert merged.name.endswith("_1.parquet"), at
        assert not Table.open(path).written_archive.is_unfinished(), at
    assert rows(path) == history.rows


def _every_commit(path: str) -> set[tuple[str, str | None]]:
    table = Table.open(path)
    every = (*table.archive.instants(), *table.timeline.commits())
    return {
        (str(item.time), str(item.completion)) for item in every if item.comparable_action is Action.COMMIT
    }


def test_definitions_of_indexes_follow(copy: Callable[[str], str]) -> None:
    """Of partitions that go, and of those that are made."""
    path = copy("1.2.0-v9/mdt_full_cow")
    assert {"column_stats", "record_index"} <= index_definitions(Table.open(path)).keys()
    history = History(path, 5)
    history.step("upsert")
    ready = Table.open(path).properties.metadata_partitions
    assert set(ready) == {"files", "bloom_filters", "record_index", "column_stats", "partition_stats"}
    assert index_definitions(Table.open(path)).keys() == {"record_index", "column_stats"}
    before = index_definitions(Table.open(path))["record_index"]
    without = {
        **NO_SERVICES,
        "hoodie.metadata.record.index.enable": "false",
        "hoodie.metadata.index.column.stats.enable": "false",
    }
    api.write_table(api.read_table(path, meta=False), path, options=without)
    assert not index_definitions(Table.open(path))
    assert set(Table.open(path).properties.metadata_partitions) == {"files", "bloom_filters"}
    again = {**NO_SERVICES, "hoodie.metadata.record.index.enable": "true"}
    api.write_table(api.read_table(path, meta=False), path, options=again)
    assert index_definitions(Table.open(path)) == {"record_index": before}
    assert "record_index" in Table.open(path).properties.metadata_partitions
    history.check()


def test_an_instant_is_completed_once(copy: Callable[[str], str]) -> None:
    """Another process completed it at another time."""
    table = Table.open(copy("1.2.0-v9/mdt_off_mor"))
    (last,) = table.timeline.commits()[-1:]
    again = Instant(last.time, last.action, State.COMPLETED, InstantTime("20991231235959999"))
    with pytest.raises(AlreadyExists, match=str(last.completion)):
        create_instant(table.store, again, b"")
