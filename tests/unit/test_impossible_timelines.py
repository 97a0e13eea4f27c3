"""Timelines that no writer leaves: an error that names the file, or as if the file were not there."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import HoodieError, StorageError, TableError
from hoodie.table.doctor import check_table
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import new_instant_time, parse_instant
from hoodie.timeline.time import REQUESTED
from tests.support.later_tables import new_tables_of
from tests.unit.write.support import KEY, ORDERING, listing

OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
OPTIONS: dict[str, Any] = {KEY: "id", ORDERING: "ts", **OFF}
LATE = "20981231000000000"
ROWS = pa.table({"id": ["a", "b"], "ts": [1, 1]})


def upsert(path: str) -> Any:
    return hoodie.write_table(ROWS, path, options=OPTIONS)


def clean(path: str) -> Any:
    return hoodie.clean_table(path, options={"hoodie.cleaner.commits.retained": 1})


@pytest.fixture(scope="module", params=[6, 9], ids="version {}".format)
def version(request: pytest.FixtureRequest) -> int:
    """Of the tables: since version 8 instants lie in a folder of their own, with times of completion."""
    number: int = request.param
    return number


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, version: int) -> Path:
    path = tmp_path_factory.mktemp("impossible") / "t"
    with new_tables_of(version):
        for _ in range(4):
            upsert(str(path))
    return path


@pytest.fixture
def table(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "t"))


def timeline(table: Path) -> Path:
    """The folder of the instants."""
    return table / Timeline.load(str(table)).layout.folder


def late(table: Path, suffix: str) -> Path:
    """The file of a state of an instant that no writer has made."""
    folder = timeline(table)
    completed = f"{LATE}_{LATE}" if folder.name == "timeline" else LATE
    return folder / f"{LATE if '.' in suffix or suffix == 'inflight' else completed}.{suffix}"


@pytest.mark.parametrize(
    ("action", "use"),
    [
        ("rollback", upsert),
        ("rollback", clean),
        ("compaction", hoodie.read_table),
        ("compaction", upsert),
        ("logcompaction", clean),
    ],
)
def test_an_inflight_file_without_its_plan(table: Path, action: str, use: Callable[[str], Any]) -> None:
    late(table, f"{action}.inflight").touch()
    before = listing(table)
    with pytest.raises(TableError, match=f"{LATE}.{action}.requested is missing.*delete {LATE}"):
        use(str(table))
    assert listing(table) == before
    assert check_table(str(table))


INSTEAD = pytest.mark.parametrize(
    ("suffix", "use"),
    [
        ("commit", upsert),
        ("replacecommit", hoodie.read_table),
        ("inflight", upsert),
        ("rollback.requested", upsert),
        ("compaction.requested", hoodie.read_table),
        ("savepoint", hoodie.instants),
        ("clean", clean),
    ],
)


@INSTEAD
def test_a_folder_where_an_instant_belongs(table: Path, suffix: str, use: Callable[[str], Any]) -> None:
    path = late(table, suffix)
    path.mkdir()
    with pytest.raises(StorageError, match=f"{path.name} is a folder where a file belongs"):
        use(str(table))


@INSTEAD
def test_a_link_where_an_instant_belongs(
    table: Path, tmp_path: Path, suffix: str, use: Callable[[str], Any]
) -> None:
    """It is not followed: a completed instant can't be read, and an unfinished one is a torn one."""
    path = late(table, suffix)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").touch()
    path.symlink_to(tmp_path / "elsewhere")
    if suffix in ("inflight", "rollback.requested", "savepoint"):
        use(str(table))
    else:
        with pytest.raises(TableError, match=f"{path.name}' is a link"):
            use(str(table))
    assert (tmp_path / "elsewhere" / "file").exists()


@pytest.mark.parametrize("digits", ["99999999999999999999", "20261399000000000"])
def test_digits_that_are_no_time(table: Path, digits: str) -> None:
    commit = next(timeline(table).glob("*.commit"))
    shutil.copy(commit, commit.with_name(commit.name.replace(commit.name[:17], digits)))
    if digits[0] == "9":
        with pytest.raises(
            TableError, match=f"{digits}( on the timeline is no time|.* has a time of completion)"
        ):
            upsert(str(table))
    with pytest.raises(TableError, match=f"instant {digits}"):
        parse_instant(digits)
    with pytest.raises(ValueError, match=f"instant {digits}"):
        parse_instant(digits)
    assert REQUESTED.before(new_instant_time(None), LATE)


@pytest.mark.parametrize("name", ["٢٠٢٦٠١٠١٠٠٠٠٠٠٠٠٠.commit", ".commit", "x.commit", f"{LATE}.commit.tmp"])
def test_names_that_are_no_instants_are_passed_over(table: Path, name: str) -> None:
    before = hoodie.instants(str(table))
    (timeline(table) / name).write_bytes(b"")
    assert hoodie.instants(str(table)) == before
    assert hoodie.read_table(str(table)).num_rows == 2


@pytest.mark.parametrize("action", ["deltacommit", "replacecommit", "clean", "rollback"])
def test_two_actions_of_one_time(table: Path, action: str) -> None:
    """Rows, or an error of ours."""
    commit = sorted(timeline(table).glob("*.commit"))[0]
    shutil.copy(commit, commit.with_suffix(f".{action}"))
    for use in (hoodie.read_table, upsert, clean):
        with contextlib.suppress(HoodieError):
            assert use(str(table)) is not None
