"""A table whose upgrade by Apache Hudi 1.x stopped half-way: an error that says so, never 0 rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from airflow_hoodie.commits import TableReader
from hoodie.cli import main
from hoodie.errors import CommitConflict, HalfUpgraded, UnsupportedVersion
from hoodie.storage.local import LocalStorage
from hoodie.table.checkup import ERROR
from hoodie.table.doctor import check_table
from hoodie.timeline.active import Timeline
from hoodie.timeline.time import InstantTime
from tests.unit.write.support import listing

pytestmark = pytest.mark.table_version(6)

OPTIONS: dict[str, Any] = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.index.bloom.num_entries": 100,
    "hoodie.cleaner.commits.retained": 1,
    "hoodie.keep.min.commits": 1,
    "hoodie.keep.max.commits": 2,
}
ROWS = pa.table({"id": ["a", "b"], "n": [1, 2]})

USES: dict[str, Callable[[str], Any]] = {
    "read": hoodie.read_table,
    "batches": lambda path: list(hoodie.read_batches(path)),
    "read_optimized": lambda path: hoodie.read_table(path, query="read_optimized"),
    "incremental": lambda path: hoodie.read_table(path, begin="20200101000000000"),
    "upsert": lambda path: hoodie.write_table(ROWS, path, options=OPTIONS),
    "overwrite": lambda path: hoodie.write_table(
        ROWS, path, operation="insert_overwrite_table", options=OPTIONS
    ),
    "delete": lambda path: hoodie.write_table(ROWS, path, operation="delete", options=OPTIONS),
    "clean": hoodie.clean_table,
    "archive": lambda path: hoodie.archive_table(path, options=OPTIONS),
    "cluster": hoodie.cluster_table,
    "rollback": lambda path: hoodie.rollback_table(path, "20200101000000000"),
    "restore": lambda path: hoodie.restore_table(path, InstantTime("20200101000000000")),
    "savepoint": hoodie.savepoint_table,
    "services": hoodie.plan_services,
    "run_services": hoodie.run_services,
    "timeline": hoodie.instants,
    "files": hoodie.file_groups,
    "sensor": lambda path: TableReader(path).poll(),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("half") / "t")
    for _ in range(4):
        hoodie.write_table(ROWS, path, options=OPTIONS)
    return path


@pytest.fixture(scope="module")
def half(whole: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """As Apache Hudi 1.2.0 leaves it: the instants moved and renamed, the version not."""
    path = tmp_path_factory.mktemp("half") / "t"
    shutil.copytree(whole, path)
    moved(path)
    return str(path)


def moved(path: Path) -> None:
    folder = path / ".hoodie" / "timeline"
    (folder / "history").mkdir(parents=True)
    for file in path.glob(".hoodie/2*.*"):
        time, _, suffix = file.name.partition(".")
        name = file.name if "." in suffix else f"{time}_{int(time) + 5}.{suffix}"
        file.rename(folder / name)


@pytest.mark.parametrize("use", USES)
def test_every_use_is_refused(half: str, use: str) -> None:
    before = listing(Path(half))
    with pytest.raises(HalfUpgraded, match=r"(?s)\.hoodie/timeline.*version 6.*half-way.*finish") as raised:
        USES[use](half)
    assert raised.value.values == {"path": half, "version": 6}
    assert listing(Path(half)) == before


def test_properties_of_a_later_version_beside_an_older_timeline(whole: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    shutil.copytree(whole, path)
    file = path / ".hoodie" / "hoodie.properties"
    file.write_text(file.read_text().replace("table.version=6", "table.version=9"))
    before = listing(path)
    for use in ("read", "upsert", "clean", "files", "timeline"):
        with pytest.raises((HalfUpgraded, UnsupportedVersion), match="table version 9") as raised:
            USES[use](str(path))
        assert raised.value.values == {"path": str(path), "version": 9}
    assert listing(path) == before


@pytest.mark.parametrize("pending", ["rolled back", "moved"])
def test_a_writer_loses_whose_table_gets_a_later_version_meanwhile(
    whole: str, tmp_path: Path, pending: str
) -> None:
    """By Apache Hudi, which does not see that the writer lives. Its commit would be where none is read."""
    path = tmp_path / "t"
    shutil.copytree(whole, path)
    file = path / ".hoodie" / "hoodie.properties"
    completed: list[str] = []

    def upgrade(stage: str, text: str) -> None:
        if stage != "commit" or completed:
            return
        if pending == "rolled back":
            newest = max(item.name.partition(".")[0] for item in path.glob(".hoodie/2*.inflight"))
            for item in path.glob(f".hoodie/{newest}*"):
                item.unlink()
        moved(path)
        file.write_text(file.read_text().replace("table.version=6", "table.version=9"))
        completed.extend(item.name for item in path.rglob(".hoodie/**/2*.commit"))

    with pytest.raises(CommitConflict, match=r"changed the table version of .* to 9: nothing of"):
        hoodie.write_table(ROWS, str(path), options=OPTIONS, progress=upgrade)
    assert [item.name for item in path.rglob(".hoodie/**/2*.commit")] == completed


def test_the_doctor_names_the_state(half: str) -> None:
    (finding,) = check_table(half)
    assert finding.status == ERROR
    assert "half-way" in finding.text


def test_the_command(half: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeline", "--table", half]) == 1
    assert "half-way" in capsys.readouterr().err


def test_a_table_of_a_later_version_is_named_so(whole: str, half: str, tmp_path: Path) -> None:
    """Also by who reads no properties."""
    path = tmp_path / "t"
    shutil.copytree(half, path)
    file = path / ".hoodie" / "hoodie.properties"
    text = file.read_text()
    file.write_text(text.replace("table.version=6", "table.version=9"))
    assert len(TableReader(str(path)).poll().commits()) == len(Timeline.load(whole).commits())
    file.write_text(text.replace("table.version=6", "table.version=10"))
    with pytest.raises(UnsupportedVersion, match=r"version 10.*up to 9") as raised:
        TableReader(str(path)).poll()
    assert raised.value.values == {"path": str(path), "version": 10}
    file.unlink()
    with pytest.raises(HalfUpgraded, match=r"version \(none\)"):
        TableReader(str(path)).poll()


def test_the_folder_alone_is_no_upgrade(whole: str, tmp_path: Path) -> None:
    """A table that was downgraded has it."""
    path = tmp_path / "t"
    shutil.copytree(whole, path)
    (path / ".hoodie/timeline/history").mkdir(parents=True)
    (path / ".hoodie/timeline/history/manifest_1").touch()
    assert len(Timeline.load(str(path), LocalStorage()).commits()) > 0
    assert hoodie.read_table(str(path)).num_rows == 2
