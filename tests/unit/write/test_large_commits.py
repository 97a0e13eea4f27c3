"""Commits of many files: a write takes what it needs of them, and parses none as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.services.archive import run
from hoodie.timeline.instant import Action
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.layouts.two import TWO
from tests.support.large_table import OPTIONS, LargeTable

#: bytes that no commit of an upsert here has
_LARGE = 1 << 16
ALONE = {**OPTIONS, "hoodie.table.services.enabled": "false"}


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each large commit that is parsed as a whole."""
    found: list[int] = []
    for layout in (ONE, TWO):
        whole = layout.commit_value

        def counted(action: Action, data: bytes, whole: Any = whole) -> Mapping[str, Any]:
            if len(data) > _LARGE:
                found.append(len(data))
            value: Mapping[str, Any] = whole(action, data)
            return value

        monkeypatch.setattr(type(layout), "commit_value", staticmethod(counted))
    return found


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("metadata", ["false", "true"])
def test_a_write_after_a_commit_of_many_files_does_not_parse_it(
    version: int, kind: str, metadata: str, tmp_path: Path, parsed: list[int]
) -> None:
    table = LargeTable(str(tmp_path / "t"), 40, commits=1, version=version, kind=kind)
    table.make()
    options = {**ALONE, "hoodie.metadata.enable": metadata, "hoodie.datasource.write.table.type": kind}
    parsed.clear()
    for number in (1, 2):
        rows = table.upsert(range(2), number)
        done = hoodie.write_table(rows, table.path, options=options)
        assert (done.num_updates, done.num_inserts) == (rows.num_rows, 0)
    assert parsed == []
    found = hoodie.read_table(table.path, columns=["ts"])
    assert found.num_rows == 4000
    assert found.column("ts").to_pylist().count(2) == 200


@pytest.mark.parametrize("version", [6, 9])
def test_commits_of_many_files_are_archived_in_parts(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = LargeTable(str(tmp_path / "t"), 40, commits=5, version=version)
    table.make()
    before = hoodie.instants(table.path)
    monkeypatch.setattr(run, "_PART_BYTES", 1 << 10)
    few = {"hoodie.cleaner.commits.retained": 1, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    done = hoodie.archive_table(table.path, options=few)
    assert len(done.archived) == 3
    both = [*hoodie.instants(table.path, archived=True), *hoodie.instants(table.path)]
    about = ("instant", "action", "partitions")
    assert [[item[name] for name in about] for item in both] == [
        [item[name] for name in about] for item in before
    ]
    assert hoodie.read_table(table.path).num_rows == 4000


def test_a_table_whose_first_file_seems_to_be_a_bucket_is_looked_at(
    tmp_path: Path, parsed: list[int]
) -> None:
    """One UUID in 43 begins with a number of eight digits. Then all files count."""
    table = LargeTable(str(tmp_path / "t"), 40, commits=1, version=6)
    table.make()
    (path,) = Path(table.path, ".hoodie").glob("*.commit")
    text = path.read_text()
    first = text.index('"fileId" : "') + len('"fileId" : "')
    old = text[first : first + 8]
    path.write_text(text.replace(old, "00000001"))
    (moved,) = Path(table.path).rglob(f"{old}*.parquet")
    moved.rename(moved.with_name(moved.name.replace(old, "00000001")))
    done = hoodie.write_table(table.upsert(range(1), 1), table.path, options=ALONE)
    assert done.num_updates == 100
    assert parsed
