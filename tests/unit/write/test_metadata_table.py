"""The metadata table of a table that we write: made, and kept as the folders are."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.metadata.state import begun_indexes
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.timeline.active import Timeline
from hoodie.timeline.time import InstantTime
from tests.support.faults import Change, Faults, InjectedFault, die_at, injected
from tests.support.later_tables import new_tables_of
from tests.support.metadata import KEPT, disagreements, has_metadata_table, misled
from tests.support.rows import assert_same_rows
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.support.tiers import crossed_but, full_but
from tests.unit.services.undo_support import COMPACT, COPY_ON_WRITE, MERGE_ON_READ, TYPES, History, changed
from tests.unit.write.support import Templates

STORAGE = LocalStorage()
#: compacted by the third commit
OFTEN = {**KEPT, "hoodie.metadata.compact.max.delta.commits": "2"}
CLEAN = {"hoodie.cleaner.commits.retained": "1", "hoodie.clean.max.commits": "0", **KEPT}


def instants(path: Path) -> dict[str, str]:
    """Of the metadata table: completed instants, and their actions."""
    timeline = Timeline.load(f"{path}/.hoodie/metadata", STORAGE)
    assert timeline.pending() == []
    return {instant.time: instant.action.value for instant in timeline}


def made(path: Path, kind: str, versions: int = 3, options: Mapping[str, Any] = KEPT) -> History:
    return changed(path, kind, versions, options)


@pytest.fixture(params=TYPES)
def history(request: pytest.FixtureRequest, tmp_path: Path, templates: Templates) -> History:
    return templates.copy(tmp_path / "t", made, request.param)


#: where the type of the table makes no other records, one of the two is in the fast tier, now this, now that
LOGS = pytest.mark.parametrize("history", full_but({MERGE_ON_READ}, TYPES), indirect=True)
NO_LOGS = pytest.mark.parametrize("history", full_but({COPY_ON_WRITE}, TYPES), indirect=True)


def agrees(history: History) -> None:
    assert has_metadata_table(history.path)
    assert disagreements(history.path) == []


@pytest.mark.table_version(6)
@LOGS
def test_a_new_table_has_one(history: History) -> None:
    agrees(history)
    props = properties.load(STORAGE, str(history.path))
    assert props.metadata_partitions == ("files",)
    expected = {"00000000000000010": "deltacommit", **dict.fromkeys(history.commits(), "deltacommit")}
    assert instants(history.path) == expected


@pytest.mark.full
@pytest.mark.table_version(6)
def test_a_table_that_is_there_gets_one_with_the_first_write(tmp_path: Path) -> None:
    history = made(tmp_path / "t", MERGE_ON_READ, 3, {})
    last = history.commits()[-1]
    history.options = {**history.options, **KEPT}
    history.change(4)
    agrees(history)
    assert list(instants(history.path)) == [f"{last}010", history.commits()[-1]]


@LOGS
def test_it_is_kept_where_the_settings_do_not_say(history: History) -> None:
    history.options.pop("hoodie.metadata.enable")
    result = history.write(small_rows(range(3), 9))
    assert (result.metadata_table_removed, result.warnings) == (False, [])
    agrees(history)
    assert result.instant in instants(history.path)
    kept = {name: value for name, value in CLEAN.items() if name not in KEPT}
    cleaned = hoodie.clean_table(str(history.path), options=kept)
    assert not cleaned.metadata_table_removed
    agrees(history)


@NO_LOGS
def test_it_goes_where_the_settings_say_so(history: History) -> None:
    history.options = {**history.options, "hoodie.metadata.enable": "false"}
    assert history.write(small_rows(range(3), 9)).metadata_table_removed
    assert not has_metadata_table(history.path)
    assert not (history.path / ".hoodie/metadata").exists()
    history.options = {**history.options, **KEPT}
    history.change(10)
    agrees(history)


def test_it_is_not_made_while_a_plan_is_pending(tmp_path: Path) -> None:
    """Files that its execution has written would be listed, and stay so where it fails."""
    history = made(tmp_path / "t", MERGE_ON_READ, 3, {})
    hoodie.compact_table(str(history.path), mode="schedule", options=COMPACT)
    history.options = {**history.options, **KEPT}
    history.change(4)
    assert not has_metadata_table(history.path)
    hoodie.compact_table(str(history.path), mode="execute", options={**COMPACT, **KEPT})
    assert not has_metadata_table(history.path)
    history.change(5)
    agrees(history)


def test_a_clean(tmp_path: Path, templates: Templates) -> None:
    history = templates.copy(tmp_path / "t", made, COPY_ON_WRITE)
    result = hoodie.clean_table(str(history.path), options=CLEAN)
    assert result.num_files > 0
    assert not result.metadata_table_removed
    agrees(history)
    assert instants(history.path)[result.instant] == "deltacommit"


@pytest.mark.full
def test_a_partition_that_a_clean_deletes(tmp_path: Path) -> None:
    history = made(tmp_path / "t", COPY_ON_WRITE, 3)
    path = str(history.path)
    hoodie.delete_partitions(path, "eu", options=KEPT)
    agrees(history)
    for version in (4, 5):
        rows = as_table(
            [row for row in small_rows(range(50, 70), version) if row["region"] != "eu"], SMALL_SCHEMA
        )
        hoodie.write_table(rows, path, options=history.options)
    result = hoodie.clean_table(path, options=CLEAN)
    assert result.deleted_partitions == ["eu"]
    agrees(history)


def test_a_compaction_and_writes_beside_it(tmp_path: Path, templates: Templates) -> None:
    history = templates.copy(tmp_path / "t", made, MERGE_ON_READ)
    hoodie.compact_table(str(history.path), mode="schedule", options={**COMPACT, **KEPT})
    history.change(4)
    agrees(history)
    done = hoodie.compact_table(str(history.path), mode="execute", options={**COMPACT, **KEPT})
    assert done.compacted
    agrees(history)
    history.change(5)
    agrees(history)
    history.check()


@pytest.mark.full
def test_a_clustering(tmp_path: Path) -> None:
    history = made(tmp_path / "t", COPY_ON_WRITE)
    sort = {"hoodie.clustering.plan.strategy.sort.columns": "ts", **KEPT}
    assert hoodie.cluster_table(str(history.path), options=sort).clustered
    agrees(history)
    history.change(4)
    agrees(history)


@pytest.mark.full
def test_what_replaces_file_groups(tmp_path: Path) -> None:
    history = made(tmp_path / "t", COPY_ON_WRITE, 2)
    rows = as_table(small_rows(range(5), 8), SMALL_SCHEMA)
    hoodie.write_table(rows, str(history.path), operation="insert_overwrite_table", options=history.options)
    agrees(history)


@NO_LOGS
def test_rollbacks(history: History) -> None:
    path = str(history.path)
    *_, kept, gone = history.commits()
    hoodie.rollback_table(path, gone, options=KEPT)
    agrees(history)
    assert gone not in instants(history.path)
    history.back_to(kept)
    history.change(4)
    agrees(history)
    history.check()


def test_a_rollback_deletes_log_files_of_later_versions(tmp_path: Path) -> None:
    """Both the table's and those of its metadata table, which goes on."""
    with new_tables_of(9):
        history = made(tmp_path / "t", MERGE_ON_READ, 2)
        kept, gone = history.commits()
        before = hoodie.read_table(str(history.path), as_of=kept)
        result = hoodie.rollback_table(str(history.path), gone, options=KEPT)
        assert (result.warnings, result.metadata_table_removed) == ([], False)
        agrees(history)
        assert_same_rows(hoodie.read_table(str(history.path)), before)


@pytest.mark.full
def test_the_rollback_of_a_commit_that_is_compacted_there(tmp_path: Path) -> None:
    """Its files are deleted by name."""
    history = made(tmp_path / "t", COPY_ON_WRITE, 4, OFTEN)
    assert "commit" in instants(history.path).values()
    hoodie.rollback_table(str(history.path), history.commits()[-1], options=KEPT)
    agrees(history)


@pytest.mark.parametrize("kind", full_but({MERGE_ON_READ}, TYPES))
def test_it_compacts_itself(tmp_path: Path, kind: str) -> None:
    history = History(tmp_path / "t", kind, OFTEN)
    for version in range(1, 5):
        history.change(version)
        agrees(history)
    assert [action for action in instants(history.path).values() if action == "commit"]
    history.check()


@pytest.mark.parametrize(
    ("history", "options"),
    crossed_but(
        {"MERGE_ON_READ-asked for", "COPY_ON_WRITE-there"},
        {kind: kind for kind in TYPES},
        {"asked for": KEPT, "there": {}},
    ),
    indirect=["history"],
)
def test_a_restore_makes_it_again(history: History, options: dict[str, Any]) -> None:
    first, *_ = history.commits()
    result = hoodie.restore_table(str(history.path), InstantTime(first), options=options)
    assert (result.metadata_table_removed, result.warnings) == (False, [])
    agrees(history)
    history.back_to(first)
    history.change(4)
    agrees(history)
    history.check()


@LOGS
def test_a_restore_that_fails_leaves_it_to_the_next_writer(history: History) -> None:
    """Until the restore is finished there is none, and its name is kept."""
    first, path = history.commits()[0], str(history.path)
    faults = Faults(at=1, of=lambda change: change.path.endswith(".restore"), once=True)
    with pytest.raises(InjectedFault), injected(faults):
        hoodie.restore_table(path, InstantTime(first))
    props = properties.load(STORAGE, path)
    assert (props.metadata_partitions, begun_indexes(props)) == ((), ("files",))
    assert not has_metadata_table(path)
    making = Faults(at=1, of=lambda change: "/metadata/" in change.path, once=True)
    with injected(making):
        result = hoodie.restore_table(path, InstantTime(first))
    assert result.status == "restored"
    assert "could not be made again" in " ".join(result.warnings)
    history.back_to(first)
    history.options.pop("hoodie.metadata.enable")
    history.change(4)
    agrees(history)
    history.check()


@NO_LOGS
def test_a_savepoint_changes_nothing(history: History) -> None:
    before = instants(history.path)
    hoodie.savepoint_table(str(history.path), options=KEPT)
    assert instants(history.path) == before
    agrees(history)


def completing(change: Change) -> bool:
    """Of the table itself, not of its metadata table."""
    folder, _, name = change.path.rpartition("/.hoodie/")
    return name.endswith(("commit",)) and "/.hoodie/" not in folder


@NO_LOGS
def test_a_write_that_is_withdrawn_after_its_records_were_written(history: History) -> None:
    before = history.commits()
    faults = Faults(at=1, of=completing, once=True)
    with pytest.raises(InjectedFault), injected(faults):
        history.change(8)
    assert faults.tripped
    assert history.commits() == before
    agrees(history)
    kept = [time for time, action in instants(history.path).items() if action == "deltacommit"]
    assert kept[1:] == before
    history.change(9)
    agrees(history)


@LOGS
def test_a_write_that_died_after_its_records_were_written(history: History) -> None:
    before = history.commits()
    rows = as_table(small_rows(range(9), 8), SMALL_SCHEMA)

    def write(path: str) -> None:
        hoodie.write_table(rows, path, options=history.options)

    die_at(history.path, write, completing)
    assert misled(history.path) == []
    history.change(9)
    assert len(history.commits()) == len(before) + 1
    agrees(history)
    history.check()


@pytest.mark.full
def test_archived_instants_are_those_before_its_compaction(tmp_path: Path) -> None:
    history = made(tmp_path / "t", COPY_ON_WRITE, 4)
    few = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", **CLEAN}
    held = hoodie.archive_table(str(history.path), options=few)
    assert held.reason == "held back by the metadata table, which has no compaction yet"
    history.options |= OFTEN
    history.change(5)
    done = hoodie.archive_table(str(history.path), options=few)
    assert done.archived
    agrees(history)
    history.change(6)
    agrees(history)


def test_indexes_that_are_not_kept_go_and_the_others_stay(golden_tables: Path, tmp_path: Path) -> None:
    """Of a table whose metadata table has all of them."""
    path = tmp_path / "t"
    shutil.copytree(golden_tables / "0.15.0-v6/mdt_full_cow/table", path)
    before = instants(path)
    kept = {"bloom_filters", "column_stats", "files", "record_index"}
    rows = hoodie.read_table(str(path), meta=False)
    result = hoodie.write_table(rows.slice(0, 5), str(path), options=KEPT)
    assert not result.metadata_table_removed
    assert properties.load(STORAGE, str(path)).metadata_partitions == tuple(sorted(kept))
    folders = {item.name for item in (path / ".hoodie/metadata").iterdir() if item.is_dir()}
    assert folders == {".hoodie", *kept}
    assert before.items() <= instants(path).items()
    assert disagreements(path) == []


@pytest.mark.table_version(6)
@LOGS
def test_the_table_commits_after_its_metadata_table(history: History) -> None:
    faults = Faults()
    with injected(faults):
        instant = history.change(5)
    made = [change.path for change in faults.log if "/.hoodie/" in change.path]
    folder = f"{history.path}/.hoodie"
    kinds = ("deltacommit", "commit")
    own = [
        number for number, path in enumerate(made) if path in [f"{folder}/{instant}.{kind}" for kind in kinds]
    ]
    assert own[0] > made.index(f"{folder}/metadata/.hoodie/{instant}.deltacommit")


@NO_LOGS
def test_writers_at_once_keep_it_and_rebuild_it(history: History) -> None:
    at_once = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "filesystem",
    }
    hoodie.index_table(str(history.path), "rebuild", options=at_once)
    agrees(history)
    history.options = {name: text for name, text in history.options.items() if name not in KEPT} | at_once
    history.write(small_rows(range(3), 9))
    agrees(history)
    history.options["hoodie.metadata.enable"] = "false"
    assert history.write(small_rows(range(3), 9)).metadata_table_removed
