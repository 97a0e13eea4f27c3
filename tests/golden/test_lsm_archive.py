"""Archived timelines of versions 8 and 9 that Apache Hudi 1.2.0 wrote are read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.errors import TableError
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table
from hoodie.timeline.active import Timeline
from hoodie.timeline.archive import lsm_archive
from hoodie.timeline.archive.lsm_archive import LsmArchive
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, State, in_order
from hoodie.timeline.layouts.two import TWO
from hoodie.timeline.models.clean import CleanMetadata
from hoodie.timeline.time import InstantTime

ARCHIVED = [f"1.2.0-{version}/{kind}_archived" for version in ("v8", "v9") for kind in ("cow", "mor")]
STORAGE = LocalStorage()


def archive(folder: Path) -> LsmArchive:
    return LsmArchive(STORAGE, str(folder))


def history(table: Path) -> Path:
    return table / ".hoodie/timeline/history"


@pytest.fixture
def folder(later_tables: Path, tmp_path: Path) -> Path:
    """The archive of a table, to be changed: manifests 2 to 4, of 2 to 4 files."""
    return Path(shutil.copytree(history(later_tables / "1.2.0-v9/cow_archived/table"), tmp_path / "history"))


@pytest.mark.parametrize("name", ARCHIVED)
def test_instants(later_tables: Path, name: str) -> None:
    """Archived and active instants together are all that the table was asked for, each once."""
    path = later_tables / name
    meta: dict[str, Any] = json.loads((path / "meta.json").read_text())
    archived = archive(history(path / "table")).instants()
    active = in_order(item for item in map(TWO.parse, meta["timeline"]) if item and item.completed)
    assert archived == in_order(archived)
    assert archived
    assert not set(archived) & set(active)
    assert all(item.is_before(active[0].time) for item in archived)
    asked = {op["instant"] for op in meta["ops"] if op.get("instant")}
    assert asked <= {item.time for item in (*archived, *active)}
    commits = [item for item in (*archived, *active) if item.action in COMMIT_ACTIONS]
    compactions = [item for item in commits if item.action is Action.COMMIT and "mor" in name]
    assert len(commits) - len(compactions) == sum(op["op"] in ("insert", "upsert") for op in meta["ops"])
    assert all(item.completion and item.is_before(item.completion) for item in archived)


@pytest.mark.parametrize("name", ARCHIVED)
def test_contents(later_tables: Path, name: str) -> None:
    """Each is what layout two reads; cleans and compactions have plans."""
    table = later_tables / name / "table"
    found = archive(history(table))
    every = found.instants()
    contents = found.content(every)
    assert list(contents) == every
    for instant, content in contents.items():
        assert found.content([instant]) == {instant: content}
        assert content.metadata is not None
        assert content.metadata.startswith(b"Obj\x01")
        compaction = instant.action is Action.COMMIT and "mor" in name
        assert (content.plan is not None) == (compaction or instant.action is Action.CLEAN)
        if instant.action in COMMIT_ACTIONS:
            assert TWO.commit_value(instant.action, content.metadata)["partitionToWriteStats"]
    assert found.content([Instant(InstantTime("20200101000000000"), Action.COMMIT, State.COMPLETED)]) == {}


@pytest.mark.parametrize("name", ARCHIVED)
def test_entries(later_tables: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of layout one: what each instant did, by the table's handle."""
    monkeypatch.setattr(lsm_archive, "_BATCH", 3)
    table = Table.open(str(later_tables / name / "table"))
    entries = list(table.archive.entries())
    assert [entry.instant for entry in entries] == list(table.archive.instants())
    for entry in entries:
        assert entry.changed == entry.instant.completion
        assert (entry.commit is not None) == (entry.instant.action in COMMIT_ACTIONS)
        assert entry.commit is None or entry.commit.write_stats
        assert entry.metadata
    cleans = [entry.metadata for entry in entries if entry.instant.action is Action.CLEAN]
    assert cleans
    assert all(CleanMetadata.from_record(record or {}).partitions for record in cleans)
    assert len(table.archive.files()) == len(list(history(later_tables / name / "table").glob("*.parquet")))


def test_each_file_is_opened_once_for_a_batch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = archive(folder).instants()
    opened = Mock(side_effect=STORAGE.open_input)
    monkeypatch.setattr(LocalStorage, "open_input", lambda storage, path: opened(path))
    assert len(archive(folder).content(every)) == len(every) > 4
    assert sum(call.args[0].endswith(".parquet") for call in opened.call_args_list) == 4


def test_spans(folder: Path) -> None:
    every = archive(folder).instants()
    assert archive(folder).instants(after=every[1].time) == every[2:]
    assert archive(folder).instants(every[1].time, every[5].time) == every[2:5]


def test_tables_without_archived_instants(later_tables: Path, tmp_path: Path) -> None:
    empty = later_tables / "1.2.0-v8/cow_types/table"
    assert Timeline.load(str(empty)).instants
    assert archive(history(empty)).instants() == []
    assert archive(tmp_path / "gone").instants() == []


@pytest.mark.parametrize("text", [None, b"", b"x", b"9"])
def test_the_newest_manifest_counts_where_no_version_names_one(folder: Path, text: bytes | None) -> None:
    every = archive(folder).instants()
    (folder / "_version_").unlink()
    if text is not None:
        (folder / "_version_").write_bytes(text)
    assert archive(folder).instants() == every
    (folder / "manifest_4").write_bytes(b'{"files": [')
    assert every[: len(archive(folder).instants())] == archive(folder).instants() != every


def test_version_names_the_manifest(folder: Path) -> None:
    every = archive(folder).instants()
    (folder / "_version_").write_bytes(b"2")
    assert len(archive(folder).files()) == 2
    assert archive(folder).instants() == every[:5]


def test_no_manifest_can_be_read(folder: Path) -> None:
    for file in folder.glob("manifest_*"):
        file.write_text('{"files": [{"fileName": "../../secret", "fileLen": 1}]}')
    with pytest.raises(TableError, match="has no manifest that can be read"):
        archive(folder).instants()


def test_a_file_is_gone(folder: Path) -> None:
    (folder / "20261121003324242_20261121003327482_0.parquet").unlink()
    with pytest.raises(TableError, match=r"lacks a file that its manifest names .*20261121003324242_"):
        archive(folder).instants()


@pytest.mark.parametrize("how", ["cut", "zeros", "torn pages"])
def test_a_file_is_damaged(folder: Path, how: str) -> None:
    file = folder / "20261121003324242_20261121003327482_0.parquet"
    data = file.read_bytes()
    damaged = {
        "cut": data[:-9],
        "zeros": bytes(len(data)),
        "torn pages": data[:40] + b"\xff" * 60 + data[100:],
    }
    file.write_bytes(damaged[how])
    with pytest.raises(TableError, match=f"archive file .*{file.name} is damaged"):
        archive(folder).instants()


def test_any_order_and_an_instant_twice(folder: Path) -> None:
    """As upgrades leave them: newest first, names that are no bounds, an instant in two files."""
    every = archive(folder).instants()
    files = sorted(folder.glob("*.parquet"))
    rows = pa.concat_tables(map(pq.read_table, files))
    mixed = rows.take(list(range(rows.num_rows))[::-1])
    new = folder / "20261121003340039_20261121003319928_1.parquet"
    pq.write_table(mixed, new, row_group_size=3)
    entries = [{"fileName": file.name, "fileLen": file.stat().st_size} for file in (files[0], new)]
    (folder / "manifest_5").write_text(json.dumps({"files": entries}))
    before = archive(folder).content(every)
    (folder / "_version_").write_bytes(b"5")
    assert archive(folder).instants() == every
    assert archive(folder).content(every) == before


def test_a_merge_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader whose files are merged and deleted reads again, by the new manifest."""
    every = archive(folder).instants()
    files = sorted(folder.glob("*.parquet"))
    new = folder / "20261121003319928_20261121003340039_1.parquet"
    opened = LocalStorage.open_input

    def merge(storage: LocalStorage, path: str) -> Any:
        if not new.exists():
            pq.write_table(pa.concat_tables(map(pq.read_table, files)), new)
            entry = {"fileName": new.name, "fileLen": new.stat().st_size}
            (folder / "manifest_5").write_text(json.dumps({"files": [entry]}))
            (folder / "_version_").write_bytes(b"5")
            for file in files:
                file.unlink()
        return opened(storage, path)

    monkeypatch.setattr(LocalStorage, "open_input", merge)
    assert archive(folder).instants() == every


def test_an_action_that_is_not_known(folder: Path) -> None:
    file = sorted(folder.glob("*.parquet"))[0]
    table = pq.read_table(file)
    at = table.schema.get_field_index("action")
    pq.write_table(table.set_column(at, "action", pa.array(["tidy"] * table.num_rows)), file)
    entry = {"fileName": file.name, "fileLen": file.stat().st_size}
    (folder / "manifest_4").write_text(json.dumps({"files": [entry]}))
    with pytest.raises(TableError, match="has an action that is not known here"):
        archive(folder).instants()
