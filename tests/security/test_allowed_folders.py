"""Links in a table to folders that the caller allows, and to others."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.cli.command import main
from hoodie.errors import ConfigError, TableError
from hoodie.table.doctor import check_table
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.unit.services.clean_support import MANUAL, MOR, RETAINED, written

FOLDERS = "hoodie.storage.allowed.folders"


@pytest.fixture(scope="module", params=[MANUAL, MOR], ids=["cow", "mor"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "t"
    written(path, 2, request.param)
    return path


@pytest.fixture
def table(made: Path, tmp_path: Path) -> Path:
    """A table whose partition `eu` lies on another disk."""
    shutil.copytree(made, tmp_path / "t")
    (tmp_path / "disk").mkdir()
    shutil.move(tmp_path / "t" / "eu", tmp_path / "disk" / "eu")
    (tmp_path / "t" / "eu").symlink_to(tmp_path / "disk" / "eu")
    return tmp_path / "t"


def kind(table: Path) -> dict[str, Any]:
    found = hoodie.Table(str(table)).properties["hoodie.table.type"]
    return dict(MOR if found == "MERGE_ON_READ" else MANUAL)


def allowed(table: Path, **more: str) -> dict[str, Any]:
    return {FOLDERS: str(table.parent / "disk"), **more}


def test_a_partition_that_is_a_link_is_a_partition_where_the_caller_allows_its_folder(table: Path) -> None:
    path, options = str(table), allowed(table)
    rows = as_table(small_rows(range(30), 9), SMALL_SCHEMA)
    hoodie.write_table(rows, path, options={**kind(table), **options})
    found = hoodie.read_table(path, options=options, meta=False)
    ids: list[Any] = found["id"].to_pylist()
    expected: list[Any] = rows["id"].to_pylist()
    assert sorted(ids) == sorted(expected)
    assert set(found["ts"].to_pylist()) == set(rows["ts"].to_pylist())
    assert {group["partition"] for group in hoodie.file_groups(path, options=options)} >= {"eu"}
    assert all(item.status == "ok" for item in check_table(path, True, options) if item.check == "contents")
    assert main(["files", "--table", path, "--option", f"{FOLDERS}={table.parent}/disk", "--json"]) == 0
    due = {RETAINED: "1", "hoodie.compact.inline.max.delta.commits": "1", **options}
    hoodie.run_services(path, options=due)
    again = hoodie.read_table(path, options=options, meta=False)
    assert sorted(map(repr, again.to_pylist())) == sorted(map(repr, found.to_pylist()))
    assert (table / "eu").is_symlink()


def test_a_dropped_partition_loses_its_link_and_not_the_folder(table: Path) -> None:
    path, options = str(table), allowed(table, **{RETAINED: "1"})
    hoodie.delete_partitions(path, ["eu"], options=allowed(table))
    for version in (8, 9, 10):
        rows = [row for row in small_rows(range(30), version) if row["region"] != "eu"]
        hoodie.write_table(as_table(rows, SMALL_SCHEMA), path, options={**kind(table), **allowed(table)})
    hoodie.clean_table(path, options=options)
    assert (table.parent / "disk" / "eu").is_dir()
    assert "eu" not in hoodie.read_table(path, options=allowed(table))["region"].to_pylist()


@pytest.mark.parametrize(
    "setting",
    ["", "{parent}/dis", "{parent}/disk/eu/below", "{table}", "{table}/.hoodie"],
    ids=["none", "prefix", "below", "table", "inside"],
)
def test_other_links_are_refused_and_the_setting_is_named(table: Path, setting: str) -> None:
    given = setting.format(parent=table.parent, table=table)
    options = {FOLDERS: given} if given else {}
    with pytest.raises(TableError, match=r"eu' is a link.*hoodie\.storage\.allowed\.folders"):
        hoodie.read_table(str(table), options=options)
    with pytest.raises(TableError, match="is a link"):
        hoodie.write_table(as_table(small_rows(range(3), 9), SMALL_SCHEMA), str(table), options=options)


@pytest.mark.parametrize("target", [".", "..", "../t", ".hoodie", "us", "../disk/eu/x"])
def test_a_link_into_the_table_or_above_it_is_refused_whatever_is_allowed(table: Path, target: str) -> None:
    (table / "eu").unlink()
    (table / "eu").symlink_to(target)
    with pytest.raises(TableError, match="is a link"):
        hoodie.read_table(str(table), options={FOLDERS: str(table.parent)})


def test_a_link_in_a_linked_folder_is_refused(table: Path) -> None:
    (table.parent / "disk" / "eu" / ".hoodie_partition_metadata").unlink()
    (table.parent / "disk" / "more").mkdir()
    (table.parent / "disk" / "eu" / "more").symlink_to(table.parent / "disk" / "more")
    with pytest.raises(TableError, match="is a link"):
        hoodie.file_groups(str(table), options=allowed(table))


def test_a_linked_file_is_refused_whatever_is_allowed(table: Path) -> None:
    file = next(table.glob("us/*.parquet"))
    shutil.move(file, table.parent / "disk" / file.name)
    file.symlink_to(table.parent / "disk" / file.name)
    with pytest.raises(TableError, match="is a link"):
        hoodie.read_table(str(table), options=allowed(table))


def test_the_table_allows_nothing_itself(table: Path) -> None:
    with (table / ".hoodie" / "hoodie.properties").open("a") as file:
        file.write(f"{FOLDERS}={table.parent}/disk\n")
    with pytest.raises(TableError, match="is a link"):
        hoodie.read_table(str(table))
    with pytest.raises(TableError, match="is a link"):
        hoodie.write_table(as_table(small_rows(range(3), 9), SMALL_SCHEMA), str(table))


@pytest.mark.parametrize("value", ["disk", "/", "s3://lake/x", "/a,b"])
def test_folders_are_absolute(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match=FOLDERS):
        hoodie.read_table(str(tmp_path), options={FOLDERS: value})
