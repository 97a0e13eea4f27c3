"""A completed commit whose file was emptied: an error that names the file, never metadata of nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from airflow_hoodie.commits import TableReader
from hoodie.errors import TableError
from hoodie.storage.local import LocalStorage
from hoodie.table.checkup import ERROR
from hoodie.table.doctor import check_table
from hoodie.timeline.active import Timeline
from hoodie.timeline.token_store import TokenStore
from tests.unit.write.support import KEY, ORDERING, PARTITION, listing

STORAGE = LocalStorage()
OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
OPTIONS: dict[str, Any] = {KEY: "id", PARTITION: "region", ORDERING: "ts", **OFF}
FEW = {"hoodie.cleaner.commits.retained": 1, "hoodie.keep.min.commits": 1, "hoodie.keep.max.commits": 2}
CONTENTS = {
    "nothing": b"",
    "blanks": b" \n",
    "no_fields": b"{}",
    "a_list": b"[]",
    "torn": b'{\n  "partitionToWriteStats" : {\n    "eu" : [',
}


def rows(region: str, ts: int) -> pa.Table:
    return pa.table({"id": ["a", "b"], "region": [region] * 2, "ts": pa.array([ts] * 2, pa.int64())})


@pytest.fixture(scope="module", params=[6, 9], ids="version {}".format)
def version(request: pytest.FixtureRequest) -> int:
    """Of the tables: commits are JSON until version 6, and Avro since version 8."""
    number: int = request.param
    return number


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, version: int) -> Path:
    """Five commits; the third replaces "eu"."""
    options = {**OPTIONS, "hoodie.write.table.version": version}
    path = tmp_path_factory.mktemp("damaged") / "t"
    for ts, region in enumerate(("eu", "us", "eu", "us", "us"), 1):
        operation = "insert_overwrite" if ts == 3 else "upsert"
        hoodie.write_table(rows(region, ts), str(path), operation=operation, options=options)
    return path


@pytest.fixture
def table(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "t"))


def damage(table: Path, place: int, content: bytes) -> Path:
    """The n-th commit's file, with another content."""
    timeline = Timeline.load(str(table), STORAGE)
    file = Path(timeline.path(timeline.commits()[place]))
    file.write_bytes(content)
    return file


def instant_of(file: Path) -> str:
    return file.name.partition(".")[0].partition("_")[0]


@pytest.mark.parametrize("content", CONTENTS)
def test_an_incremental_query_over_it(table: Path, content: str) -> None:
    begin = hoodie.instants(str(table))[0]["instant"]
    file = damage(table, 1, CONTENTS[content])
    with pytest.raises(TableError, match=f"{file.name} is damaged.*restore the file") as raised:
        hoodie.read_table(str(table), begin=begin)
    assert str(raised.value.values["path"]) == str(file)


REPLACED: dict[str, Callable[[str], Any]] = {
    "read": hoodie.read_table,
    "upsert": lambda path: hoodie.write_table(rows("us", 9), path, options=OPTIONS),
    "overwrite": lambda path: hoodie.write_table(
        rows("us", 9), path, operation="insert_overwrite", options=OPTIONS
    ),
    "clean": lambda path: hoodie.clean_table(path, options={**FEW, "hoodie.clean.max.commits": 0}),
    "cluster": lambda path: hoodie.cluster_table(path, options={"hoodie.clustering.inline.max.commits": 1}),
    "archive": lambda path: hoodie.archive_table(path, options=FEW),
    "files": hoodie.file_groups,
    "timeline": hoodie.instants,
}


@pytest.mark.parametrize("use", REPLACED)
@pytest.mark.parametrize("content", ["nothing", "no_fields"])
def test_an_emptied_replacecommit_brings_nothing_back(table: Path, content: str, use: str) -> None:
    file = damage(table, 2, CONTENTS[content])
    before = listing(table)
    with pytest.raises(TableError, match=f"{file.name} is damaged"):
        REPLACED[use](str(table))
    assert listing(table) == before


def test_a_replacecommit_without_what_it_replaced(table: Path) -> None:
    damage(table, 2, b'{"partitionToWriteStats": {}, "operationType": "INSERT_OVERWRITE"}')
    with pytest.raises(TableError, match="has no partitionToReplaceFileIds"):
        hoodie.read_table(str(table))


def test_the_archiver_does_not_forget_what_a_commit_wrote(table: Path) -> None:
    file = damage(table, 0, b"")
    with pytest.raises(TableError, match=f"{file.name} is damaged"):
        hoodie.archive_table(str(table), options=FEW)
    assert file.exists()


def test_files_of_an_emptied_commit_are_not_swept(table: Path) -> None:
    """As if no commit reported them."""
    file = damage(table, 3, b"")
    instant = instant_of(file)
    (written,) = table.glob(f"us/*_{instant}.parquet")
    marker = table / ".hoodie/.temp" / instant / "us" / f"{written.name}.marker.CREATE"
    marker.parent.mkdir(parents=True)
    marker.touch()
    with pytest.raises(TableError, match=f"{file.name} is damaged"):
        hoodie.write_table(rows("us", 9), str(table), options=OPTIONS)
    assert written.exists()


def test_tokens_are_not_looked_for_past_it(table: Path) -> None:
    """It may be the commit that has the token."""
    file = damage(table, 3, b"")
    timeline = Timeline.load(str(table), STORAGE)
    with pytest.raises(TableError, match=f"{file.name} is damaged"):
        TokenStore(timeline, STORAGE).find("a token")
    with pytest.raises(TableError, match=f"{file.name} is damaged"):
        list(TokenStore(timeline, STORAGE).unsettled())


def test_the_newest_is_rolled_back(table: Path) -> None:
    """As the error says."""
    before = hoodie.read_table(str(table), as_of=hoodie.instants(str(table))[3]["instant"])
    file = damage(table, 4, b"")
    hoodie.rollback_table(str(table), instant_of(file))
    assert hoodie.read_table(str(table)).sort_by("id").equals(before.sort_by("id"))


def test_but_not_where_what_it_superseded_may_be_cleaned(table: Path) -> None:
    file = damage(table, 4, b"")
    assert hoodie.clean_table(str(table), options=FEW).num_files > 0
    with pytest.raises(TableError, match=f"{file.name} is damaged"):
        hoodie.rollback_table(str(table), instant_of(file))


@pytest.mark.parametrize("content", ["nothing", "blanks", "a_list", "torn"])
def test_a_sensor_waits_for_its_content(table: Path, content: str) -> None:
    """Some storages show a file before its bytes."""
    damage(table, 4, CONTENTS[content])
    reader = TableReader(str(table))
    assert reader.details(reader.poll().commits()[4]) is None
    assert reader.details(reader.poll().commits()[3]) is not None


@pytest.mark.parametrize("content", CONTENTS)
def test_the_doctor_names_it(table: Path, content: str) -> None:
    file = damage(table, 1, CONTENTS[content])
    found = [item.text for item in check_table(str(table)) if item.status == ERROR]
    assert any(instant_of(file) in text for text in found)
