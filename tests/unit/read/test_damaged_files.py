"""Data files that are missing, torn or empty: queries and writes say which one and who wrote it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import TableError
from hoodie.table.listing import Possible, StorageListing
from hoodie.timeline.active import Timeline
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.unit.write.support import OPTIONS, data_files, listing

UNVERIFIED = {"hoodie.read.verify.files": "false"}
MOR = {**OPTIONS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}

Damage = Callable[[Path], Any]


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def scramble(file: Path) -> None:
    """The same length and a sound footer; its pages are not what they were."""
    data = file.read_bytes()
    file.write_bytes(data[:4] + b"\xff" * 600 + data[604:])


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.fixture(scope="module", params=[6, 9], ids="version {}".format)
def version(request: pytest.FixtureRequest) -> int:
    """Of the tables: commits are JSON until version 6, and Avro since version 8."""
    number: int = request.param
    return number


#: for what only version 6 has
VERSION_6 = pytest.mark.parametrize("version", [6], indirect=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, version: int) -> tuple[Path, dict[str, list[str]]]:
    """Both tables, and their instants."""
    folder = tmp_path_factory.mktemp("made")
    instants = {}
    for name, options, batches in (
        ("cow", OPTIONS, [small_rows(range(30), 1), small_rows([1, 4], 2)]),
        ("mor", MOR, [small_rows(range(30), version) for version in (1, 2, 3)]),
    ):
        tables = [as_table(rows, SMALL_SCHEMA) for rows in batches]
        options = {**options, "hoodie.write.table.version": version}
        written = [hoodie.write_table(rows, str(folder / name), options=options) for rows in tables]
        instants[name] = [result.instant for result in written]
    return folder, instants


@pytest.fixture
def cow(made: tuple[Path, dict[str, list[str]]], tmp_path: Path) -> tuple[Path, list[str]]:
    """Two commits: the first one writes three partitions, the second one updates `us` only."""
    return Path(shutil.copytree(made[0] / "cow", tmp_path / "cow")), made[1]["cow"]


@pytest.fixture
def mor(made: tuple[Path, dict[str, list[str]]], tmp_path: Path) -> tuple[Path, list[str]]:
    """A base file and two logs in each partition."""
    return Path(shutil.copytree(made[0] / "mor", tmp_path / "mor")), made[1]["mor"]


def timeline(path: Path) -> Path:
    """The folder of the instants."""
    return path / Timeline.load(str(path)).layout.folder


def refused(path: Path, file: Path, instant: str, **query: Any) -> str:
    with pytest.raises(TableError) as error:
        hoodie.read_table(str(path), **query)
    assert file.name in str(error.value)
    assert error.value.values["instant"] == instant
    assert "estore" in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("superseded", [False, True])
def test_a_missing_base_file_of_an_older_commit(cow: tuple[Path, list[str]], superseded: bool) -> None:
    """Also behind a commit all of whose files were superseded."""
    path, (first, second) = cow
    if superseded:
        hoodie.write_table(as_table(small_rows([1, 4], 3), SMALL_SCHEMA), str(path), options=OPTIONS)
    [file] = (path / "eu").glob("*.parquet")
    file.unlink()
    for query in ({}, {"query": "read_optimized"}, {"as_of": second}, {"begin": "000"}, {"where": "ts > 0"}):
        assert "is missing" in refused(path, file, first, **query)
    assert hoodie.read_table(str(path), options=UNVERIFIED).num_rows == 20
    # what the query does not read need not be there
    assert hoodie.read_table(str(path), where="region = 'us'").num_rows == 10
    begin = Timeline.load(str(path)).commits()[0].completion or first
    assert hoodie.read_table(str(path), begin=begin).num_rows == 2


def test_a_missing_newest_version_does_not_show_the_one_before(cow: tuple[Path, list[str]]) -> None:
    path, (first, second) = cow
    [file] = (path / "us").glob(f"*_{second}.parquet")
    file.unlink()
    refused(path, file, second)
    assert hoodie.read_table(str(path), as_of=first).num_rows == 30


def test_a_missing_older_version_is_seen_by_time_travel_only(cow: tuple[Path, list[str]]) -> None:
    path, (first, _) = cow
    [file] = (path / "us").glob(f"*_{first}.parquet")
    file.unlink()
    assert hoodie.read_table(str(path)).num_rows == 30
    refused(path, file, first, as_of=first)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("damage", [halve, empty, Path.unlink])
def test_damaged_log_files(mor: tuple[Path, list[str]], number: int, damage: Damage) -> None:
    path, instants = mor
    logs = sorted((path / "us").glob(".*.log.*"))
    file = logs[number - 1]
    damage(file)
    refused(path, file, instants[number])
    assert hoodie.read_table(str(path), query="read_optimized").num_rows == 30
    assert hoodie.read_table(str(path), where="region = 'eu'").num_rows == 10


def test_a_log_file_that_grew(mor: tuple[Path, list[str]]) -> None:
    """A writer that appends may have died in the middle."""
    path, _ = mor
    file = max((path / "us").glob(".*.log.*"))
    with file.open("ab") as log:
        log.write(b"#HUDI#")
    assert hoodie.read_table(str(path)).num_rows == 30


@VERSION_6
def test_a_missing_base_file_of_an_archived_commit_under_logs(mor: tuple[Path, list[str]]) -> None:
    """Commits of logs name the base file, which they do not since version 8."""
    path, (first, *_) = mor
    for file in timeline(path).glob(f"{first}[._]*"):
        file.unlink()
    [base] = (path / "us").glob("*.parquet")
    base.unlink()
    refused(path, base, first)


@pytest.mark.parametrize("damage", [halve, empty, scramble])
@pytest.mark.parametrize("verify", [{}, UNVERIFIED])
@pytest.mark.parametrize("query", [{}, {"where": "val > 0"}])
def test_torn_base_files(
    cow: tuple[Path, list[str]], damage: Damage, verify: dict[str, str], query: dict[str, Any]
) -> None:
    path, (first, _) = cow
    [file] = (path / "eu").glob("*.parquet")
    damage(file)
    refused(path, file, first, options=verify, **query)


@pytest.mark.parametrize("damage", [halve, empty, scramble])
def test_torn_base_files_below_logs(mor: tuple[Path, list[str]], damage: Damage) -> None:
    path, (first, *_) = mor
    [file] = (path / "eu").glob("*.parquet")
    damage(file)
    refused(path, file, first, options=UNVERIFIED)
    refused(path, file, first, options=UNVERIFIED, where="val > 0")


def upsert(path: Path) -> None:
    hoodie.write_table(as_table(small_rows([0, 3], 4), SMALL_SCHEMA), str(path), options=OPTIONS)


def cluster(path: Path) -> None:
    hoodie.cluster_table(str(path), options={"hoodie.clustering.plan.strategy.sort.columns": "val"})


def compact(path: Path) -> None:
    hoodie.compact_table(str(path), options={"hoodie.compact.inline.max.delta.commits": 1})


@pytest.mark.parametrize("damage", [halve, empty, scramble])
@pytest.mark.parametrize("work", [upsert, cluster, compact])
def test_work_on_torn_base_files(
    cow: tuple[Path, list[str]], mor: tuple[Path, list[str]], damage: Damage, work: Damage
) -> None:
    path, (first, *_) = mor if work is compact else cow
    [file] = (path / "eu").glob("*.parquet")
    damage(file)
    folder = timeline(path)
    completed = {item.name for item in folder.iterdir() if item.name.count(".") == 1}
    with pytest.raises(TableError, match=file.name) as error:
        work(path)
    assert error.value.values["instant"] == first
    now = {item.name for item in folder.iterdir() if item.name.count(".") == 1}
    assert now - completed <= {item.name for item in folder.glob("*.inflight")}


def test_what_lacks_files_is_not_rewritten(cow: tuple[Path, list[str]], mor: tuple[Path, list[str]]) -> None:
    """A compaction or a clustering of the rest would stand for the whole."""
    path, _ = mor
    [base] = (path / "eu").glob("*.parquet")
    base.unlink()
    with pytest.raises(TableError, match=base.name):
        compact(path)
    assert not [*timeline(path).glob("*.compaction.*")]
    path, (_, second) = cow
    [newest] = (path / "us").glob(f"*_{second}.parquet")
    newest.unlink()
    with pytest.raises(TableError, match=newest.name):
        cluster(path)
    assert not [*timeline(path).glob("*.replacecommit.*"), *timeline(path).glob("*.clustering.*")]


def test_rows_are_not_written_beside_missing_files(cow: tuple[Path, list[str]]) -> None:
    """What is left would be the newest: rows of the missing file would be lost, or be there twice later."""
    path, _ = cow
    before = listing(path)
    newest = data_files(path)[0]
    newest.unlink()
    rows = as_table(small_rows(range(30), 9), SMALL_SCHEMA)
    for operation in ("upsert", "insert", "delete"):
        with pytest.raises(TableError, match=rf"{newest.name} is missing.*hoodie.write.verify.files=false"):
            hoodie.write_table(rows, str(path), operation=operation, options=OPTIONS)
    with pytest.raises(TableError, match="is missing"):
        hoodie.write_table(rows, str(path), options=OPTIONS, dry_run=True)
    assert listing(path) == {name: text for name, text in before.items() if not name.endswith(newest.name)}
    hoodie.write_table(rows, str(path), options=OPTIONS | {"hoodie.write.verify.files": "false"})


def test_a_commit_is_archived_while_a_query_is_planned(
    cow: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, (first, _) = cow
    listed, folder = StorageListing.partitions, timeline(path)

    def later(listing: StorageListing, possible: Possible | None = None) -> list[str]:
        for file in folder.glob(f"{first}[._]*"):
            file.unlink()
        return listed(listing, possible)

    monkeypatch.setattr(StorageListing, "partitions", later)
    assert hoodie.read_table(str(path)).num_rows == 30


def test_a_write_and_its_clean_while_a_query_is_planned(
    cow: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of the state that was to be read may go meanwhile: the query is planned anew."""
    path, _ = cow
    listed = StorageListing.partitions

    def later(listing: StorageListing, possible: Possible | None = None) -> list[str]:
        monkeypatch.setattr(StorageListing, "partitions", listed)
        rows: pa.Table = as_table(small_rows(range(30), 9), SMALL_SCHEMA)
        hoodie.write_table(rows, str(path), options={**OPTIONS, "hoodie.cleaner.commits.retained": 1})
        [old, _] = sorted((path / "eu").glob("*.parquet"), key=lambda file: file.name.rpartition("_")[2])
        old.unlink()
        return listed(listing, possible)

    monkeypatch.setattr(StorageListing, "partitions", later)
    assert set(hoodie.read_table(str(path))["ts"].to_pylist()) == {9000}


@VERSION_6
@pytest.mark.parametrize("kind", [".orc", ".lance", ".hfile"])
def test_base_files_of_another_format_are_no_lack_of_rows(
    cow: tuple[Path, list[str]], mor: tuple[Path, list[str]], kind: str
) -> None:
    for path, instants in (cow, mor):
        for commit in (path / ".hoodie").glob("*commit"):
            commit.write_text(commit.read_text().replace(".parquet", kind))
        files = [file.rename(file.with_suffix(kind)) for file in path.rglob("*.parquet")]
        queries: list[dict[str, Any]] = [
            {},
            {"query": "read_optimized"},
            {"as_of": instants[0]},
            {"begin": "000"},
        ]
        for query in queries:
            with pytest.raises(TableError, match=rf"is {kind}, which is not read here.*Apache Hudi") as error:
                hoodie.read_table(str(path), **query)
            assert error.value.values["path"] in map(str, files)
        with pytest.raises(TableError, match=rf"is {kind}, which is not read here"):
            hoodie.file_groups(str(path))
