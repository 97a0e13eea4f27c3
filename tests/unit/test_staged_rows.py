"""Files that a task lays into its table's folder for a job."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hoodie.errors import ConfigError
from hoodie.timeline.job_reports import KEPT_MS
from hoodie.timeline.staged_rows import StagedRows


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    found = [tmp_path / name for name in ("0-a.csv", "1-a.csv")]
    for path in found:
        path.write_text(path.name)
    return found


def of(folder: Path, tag: str) -> StagedRows:
    return StagedRows(path=str(folder / "table"), options={}, tag=tag)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "table/.hoodie/.aux/airflow-rows").iterdir())


def test_a_try_replaces_what_the_one_before_left(files: list[Path], tmp_path: Path) -> None:
    of(tmp_path, "one").put(files)
    paths = of(tmp_path, "one").put(files[:1])
    assert [Path(path).read_text() for path in paths] == ["0-a.csv"]
    of(tmp_path, "on").put(files[1:])
    assert names(tmp_path) == ["on-1-a.csv", "one-0-a.csv"]
    of(tmp_path, "on").delete()
    of(tmp_path, "missing").delete()
    assert names(tmp_path) == ["one-0-a.csv"]


def test_what_killed_tasks_left_is_deleted_after_a_week(files: list[Path], tmp_path: Path) -> None:
    for tag, days in (("old", 8), ("young", 6)):
        (path,) = of(tmp_path, tag).put(files[:1])
        past = os.stat(path).st_mtime - days * 24 * 3600
        os.utime(path, (past, past))
    assert KEPT_MS == 7 * 24 * 3600 * 1000
    of(tmp_path, "new").put(files[:1])
    assert names(tmp_path) == ["new-0-a.csv", "young-0-a.csv"]


def test_a_tag_leads_nowhere_else(files: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the tag of a job's result is '\.\./x'"):
        of(tmp_path, "../x").put(files)
