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
from hoodie.timeline.clock import new_instant_time, parse_instant
from hoodie.timeline.time import REQUESTED
from tests.unit.write.support import KEY, ORDERING, SMALL_FILTERS, listing

OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
OPTIONS: dict[str, Any] = {KEY: "id", ORDERING: "ts", **SMALL_FILTERS, **OFF}
LATE = "20981231000000000"
ROWS = pa.table({"id": ["a", "b"], "ts": [1, 1]})


def upsert(path: str) -> Any:
    return hoodie.write_table(ROWS, path, options=OPTIONS)


def clean(path: str) -> Any:
    return hoodie.clean_table(path, options={"hoodie.cleaner.commits.retained": 1})


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("impossible") / "t"
    for _ in range(4):
        upsert(str(path))
    return path


@pytest.fixture
def table(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "t"))


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
    (table / ".hoodie" / f"{LATE}.{action}.inflight").touch()
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
    path = table / ".hoodie" / f"{LATE}.{suffix}"
    path.mkdir()
    with pytest.raises(StorageError, match=f"{path.name} is a folder where a file belongs"):
        use(str(table))


@INSTEAD
def test_a_link_where_an_instant_belongs(
    table: Path, tmp_path: Path, suffix: str, use: Callable[[str], Any]
) -> None:
    """It is not followed: a completed instant can't be read, and an unfinished one is a torn one."""
    path = table / ".hoodie" / f"{LATE}.{suffix}"
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
    commit = next((table / ".hoodie").glob("*.commit"))
    shutil.copy(commit, table / ".hoodie" / f"{digits}.commit")
    if digits[0] == "9":
        with pytest.raises(TableError, match=f"instant {digits} on the timeline is no time"):
            upsert(str(table))
    with pytest.raises(TableError, match=f"instant {digits}"):
        parse_instant(digits)
    with pytest.raises(ValueError, match=f"instant {digits}"):
        parse_instant(digits)
    assert REQUESTED.before(new_instant_time(None), LATE)


@pytest.mark.parametrize("name", ["٢٠٢٦٠١٠١٠٠٠٠٠٠٠٠٠.commit", ".commit", "x.commit", f"{LATE}.commit.tmp"])
def test_names_that_are_no_instants_are_passed_over(table: Path, name: str) -> None:
    before = hoodie.instants(str(table))
    (table / ".hoodie" / name).write_bytes(b"")
    assert hoodie.instants(str(table)) == before
    assert hoodie.read_table(str(table)).num_rows == 2


@pytest.mark.parametrize("action", ["deltacommit", "replacecommit", "clean", "rollback"])
def test_two_actions_of_one_time(table: Path, action: str) -> None:
    """Rows, or an error of ours."""
    commit = sorted((table / ".hoodie").glob("*.commit"))[0]
    shutil.copy(commit, commit.with_suffix(f".{action}"))
    for use in (hoodie.read_table, upsert, clean):
        with contextlib.suppress(HoodieError):
            assert use(str(table)) is not None
