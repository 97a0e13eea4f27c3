"""Exactly once: a write whose token has its commit is done already, whatever became of who made it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.storage import storage_for
from hoodie.timeline import tokens
from hoodie.timeline.active import Timeline
from hoodie.timeline.token_store import TokenStore
from tests.unit.write.support import PLAIN, plain, values

MONDAY = "dag/write/-1/2026-01-05/2026-01-06"


def _write(table: Path, *rows: Any, token: str = MONDAY, of: str = "a", **more: Any) -> hoodie.WriteResult:
    metadata = {tokens.TOKEN_KEY: token, tokens.FINGERPRINT_KEY: of}
    return hoodie.write_table(plain(*rows), str(table), options=PLAIN, extra_metadata=metadata, **more)


def _commits(table: Path) -> int:
    return len(hoodie.instants(str(table)))


def timeline(table: Path) -> Path:
    """The folder of the instants."""
    return table / Timeline.load(str(table)).layout.folder


def test_a_second_run_gives_the_first_ones_result(tmp_path: Path) -> None:
    first = _write(tmp_path / "t", ("a", 1, "x"), ("b", 1, "x"))
    again = _write(tmp_path / "t", ("a", 2, "y"))
    assert (first.status, again.status) == ("committed", "already_committed")
    same = ("instant", "action", "operation", "partitions", "num_inserts", "num_files", "bytes_written")
    assert [getattr(again, name) for name in same] == [getattr(first, name) for name in same]
    assert _commits(tmp_path / "t") == 1
    assert values(tmp_path / "t", "id", "val") == [("a", "x"), ("b", "x")]


def test_other_intervals_are_other_writes(tmp_path: Path) -> None:
    for day in range(3):
        _write(tmp_path / "t", ("a", day, str(day)), token=f"{MONDAY}{day}")
    assert _commits(tmp_path / "t") == 3
    assert _write(tmp_path / "t", ("a", 9, "9"), token=f"{MONDAY}0").status == "already_committed"
    assert values(tmp_path / "t", "val") == ["2"]


def test_a_changed_source_is_written_again_and_says_so(tmp_path: Path) -> None:
    first = _write(tmp_path / "t", ("a", 1, "x"))
    changed = _write(tmp_path / "t", ("a", 2, "y"), of="b")
    assert changed.status == "committed"
    assert changed.warnings == [
        f"{MONDAY} was committed at {first.instant} before; written again, its source changed"
    ]
    assert _write(tmp_path / "t", ("a", 3, "z"), of="b").instant == changed.instant
    assert values(tmp_path / "t", "val") == ["y"]


def test_force_writes_again(tmp_path: Path) -> None:
    _write(tmp_path / "t", ("a", 1, "x"))
    forced = _write(tmp_path / "t", ("a", 2, "y"), force=True)
    assert (forced.status, len(forced.warnings)) == ("committed", 1)
    assert "asked for by force" in forced.warnings[0]
    assert _write(tmp_path / "t", ("a", 3, "z")).instant == forced.instant


def test_the_commit_alone_is_enough(tmp_path: Path) -> None:
    """A worker killed right after publishing leaves no token file, only the commit."""
    first = _write(tmp_path / "t", ("a", 1, "x"))
    for file in (tmp_path / "t" / ".hoodie" / ".aux" / "airflow-tokens").iterdir():
        file.unlink()
    assert _write(tmp_path / "t", ("a", 2, "y")).instant == first.instant


def test_tokens_outlive_archival(tmp_path: Path) -> None:
    first = _write(tmp_path / "t", ("a", 1, "x"))
    _write(tmp_path / "t", ("b", 1, "x"), token="later")
    for file in timeline(tmp_path / "t").glob(f"{first.instant}*"):
        file.unlink()  # as archival does
    again = _write(tmp_path / "t", ("a", 2, "y"))
    assert (again.status, again.instant, again.num_inserts) == ("already_committed", first.instant, 1)


@pytest.mark.parametrize("before", ["", "clean"])
def test_archival_keeps_the_token_of_a_killed_writer(tmp_path: Path, before: str) -> None:
    if before:  # an instant that has no token, which the archiver meets first
        for _ in range(3):
            hoodie.write_table(plain(("c", 0, "z")), str(tmp_path / "t"), options=PLAIN)
        retained = {"hoodie.cleaner.commits.retained": 1, "hoodie.clean.max.commits": 0}
        assert hoodie.clean_table(str(tmp_path / "t"), options=retained).num_files
    first = _write(tmp_path / "t", ("a", 1, "x"))
    for file in (tmp_path / "t" / ".hoodie" / ".aux" / "airflow-tokens").iterdir():
        file.unlink()
    few = {
        "hoodie.keep.min.commits": 2,
        "hoodie.keep.max.commits": 3,
        "hoodie.cleaner.commits.retained": 1,
        **PLAIN,
    }
    for number in range(6):
        hoodie.write_table(plain(("b", number, "y")), str(tmp_path / "t"), options=few)
    assert first.instant not in {entry["instant"] for entry in hoodie.instants(str(tmp_path / "t"))}
    again = _write(tmp_path / "t", ("a", 2, "y"))
    assert (again.status, again.instant) == ("already_committed", first.instant)


def test_a_commit_that_was_rolled_back_counts_no_more(tmp_path: Path) -> None:
    _write(tmp_path / "t", ("a", 1, "x"), token="earlier")
    gone = _write(tmp_path / "t", ("b", 1, "x"))
    for file in timeline(tmp_path / "t").glob(f"{gone.instant}*"):
        file.unlink()
    again = _write(tmp_path / "t", ("b", 2, "y"))
    assert again.status == "committed"
    assert ("b", "y") in values(tmp_path / "t", "id", "val")


def test_without_a_token_every_write_is_one(tmp_path: Path) -> None:
    for version in range(2):
        hoodie.write_table(plain(("a", version, "x")), str(tmp_path / "t"), options=PLAIN)
    assert _commits(tmp_path / "t") == 2


@pytest.mark.parametrize("odd", ['quote " and \\', "täglich/é/日", "x" * 5000])
def test_any_text_is_a_token(tmp_path: Path, odd: str) -> None:
    first = _write(tmp_path / "t", ("a", 1, "x"), token=odd)
    assert _write(tmp_path / "t", ("a", 2, "y"), token=odd).instant == first.instant
    found = TokenStore(Timeline.load(str(tmp_path / "t")), storage_for(str(tmp_path))).find(odd)
    assert found is not None
    assert found.token == odd
