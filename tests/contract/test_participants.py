"""Participants in commits see every instant that is completed, and what it deleted and took back."""

from __future__ import annotations

from pathlib import Path

import pytest

import hoodie
from hoodie.timeline.active import Timeline
from hoodie.timeline.time import InstantTime
from tests.support.ledger import LEDGER, entries, not_counted
from tests.support.tables import small_rows
from tests.unit.services.undo_support import COMPACT, COPY_ON_WRITE, MERGE_ON_READ, TYPES, History

RETAIN_ONE = {**LEDGER, "hoodie.cleaner.commits.retained": "1", "hoodie.clean.max.commits": "0"}


def names(files: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for file in files:
        partition, _, name = file.rpartition("/")
        found.setdefault(partition, []).append(name)
    return {partition: sorted(group) for partition, group in sorted(found.items())}


@pytest.fixture(params=TYPES)
def history(request: pytest.FixtureRequest, tmp_path: Path) -> History:
    made = History(tmp_path / "t", request.param, LEDGER)
    for version in (1, 2, 3):
        made.change(version)
    return made


def test_a_rollback_and_a_savepoint(history: History) -> None:
    path = str(history.path)
    *_, second, third = history.commits()
    result = hoodie.rollback_table(path, third, options=LEDGER)
    found = entries(path)
    assert found[f"{result.instant}.rollback"] == {"deleted": names(result.files), "undone": [third]}
    hoodie.savepoint_table(path, InstantTime(second), options=LEDGER)
    assert entries(path)[f"{second}.savepoint"] == {"deleted": {}, "undone": []}
    hoodie.delete_savepoint(path, InstantTime(second), options=LEDGER)
    assert f"{second}.savepoint" not in entries(path)
    assert not_counted(path) == []


def test_a_clean(tmp_path: Path) -> None:
    history = History(tmp_path / "t", COPY_ON_WRITE, LEDGER)
    for version in (1, 2, 3, 4):
        history.change(version)
    path = str(history.path)
    result = hoodie.clean_table(path, options=RETAIN_ONE)
    assert result.num_files > 0
    expected = {"deleted": names(result.files[result.instant]), "undone": []}
    assert entries(path)[f"{result.instant}.clean"] == expected
    assert not_counted(path) == []


def test_a_restore(history: History) -> None:
    """With what its rollbacks deleted, which are no instants any more."""
    path = str(history.path)
    first, *others = history.commits()
    result = hoodie.restore_table(path, InstantTime(first), options=LEDGER)
    found = entries(path)
    assert not [name for name in found if name.endswith("rollback")]
    assert found[f"{result.instant}.restore"] == {"deleted": names(result.files), "undone": others}
    left = {name.split(".")[1] for name in not_counted(path)}
    assert left == {"rollback"}, "what they did still counts"


def test_services_inside_of_a_write_and_the_repair_of_a_failed_one(tmp_path: Path) -> None:
    history = History(tmp_path / "t", MERGE_ON_READ, LEDGER)
    for version in (1, 2, 3):
        history.change(version)
    path = str(history.path)
    assert hoodie.compact_table(path, options={**COMPACT, **LEDGER}).compacted
    timeline = Timeline.load(path)
    failed = timeline.commits()[-1].time[:-1] + "9"
    Path(path, timeline.layout.folder, f"{failed}.deltacommit.requested").touch()
    result = history.write(small_rows(range(5), 7), hoodie__clean__automatic="true")
    assert result.rolled_back == [failed]
    found = entries(path)
    assert [found[name]["undone"] for name in found if name.endswith("rollback")] == [[failed]]
    assert any(name.endswith(".commit") for name in found), "the compaction"
    assert not_counted(path) == []
