"""Cleaning and archiving between us and Apache Hudi: each goes on where the other stopped."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.models.clean import CleanMetadata, CleanPlan
from hoodie.timeline.time import REQUESTED
from tests.support.faults import die_at
from tests.support.hudi_client import HudiServer
from tests.support.rows import assert_same_rows
from tests.support.shared_table import FEW, KEYS, OFF, STORAGE, TYPE, TYPES, Table
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows

pytestmark = pytest.mark.interop


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_apache_hudi_reads_and_services_what_we_serviced(
    tmp_path: Path, kind: str, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    """It shows our instants, its cleaner goes on from our last clean, and its archiver from our archive."""
    table = Table(tmp_path / kind.lower(), kind)
    for version in range(1, 13):
        table.ours(version)
    table.check("serviced by us", (hudi_015, hudi_12))
    name = table.known_as(hudi_015)
    assert {
        row["commit_time"] for row in hudi_015.call("show_commits", table=name, limit=50)
    } == table.commits()
    archived = {item.time for item in table.archived() if item.completed and item.action is not Action.CLEAN}
    years = {"start_ts": "20200101000000000", "end_ts": "20990101000000000"}
    shown = hudi_015.call("show_archived_commits", table=name, limit=100, **years)
    assert {row["commit_time"] for row in shown} == archived
    cleans = [(item.time, _result(table, item)) for item in table.cleans()]
    rows = hudi_12.call("show_cleans", table=table.known_as(hudi_12), limit=50)
    told = {str(row["clean_time"]): row for row in rows}
    assert set(told) == {time for time, _ in cleans}
    for time, done in cleans:
        assert int(told[time]["total_files_deleted"]) == done.total_files_deleted
        assert told[time]["earliest_commit_to_retain"] == done.earliest
    earliest, archive_before = _result(table, table.cleans()[-1]).earliest, set(table.archived())
    for version in range(13, 17):
        table.theirs(hudi_015, version)
    table.check("serviced by Hudi", (hudi_015, hudi_12))
    assert REQUESTED.after(_result(table, table.cleans()[-1]).earliest, earliest)
    assert set(table.archived()) > archive_before
    assert len(table.commits()) <= 5
    for version in range(17, 22):
        table.ours(version)
    table.check("by us again", (hudi_015, hudi_12))
    assert len(table.commits()) <= 6
    assert table.timeline().pending() == []


def _result(table: Table, clean: Instant) -> CleanMetadata:
    return CleanMetadata.from_bytes(table.timeline().read(clean))


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_the_services_of_apache_hudi_on_our_table_as_procedures(
    tmp_path: Path, kind: str, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    table = Table(tmp_path / f"called_{kind.lower()}", kind)
    for version in range(1, 9):
        table.ours(version, OFF)
        if version == 5:
            hoodie.clean_table(str(table.path), options={"hoodie.cleaner.commits.retained": 1})
    name = table.known_as(hudi_015)
    before = table.cleans()
    settings = {"min_commits": 2, "max_commits": 3, "retain_commits": 1, "enable_metadata": False}
    hudi_015.call("archive_commits", table=name, **settings)
    assert len(table.commits()) <= 5
    hudi_015.call("run_clean", table=name, retain_commits=1)
    if kind == "COPY_ON_WRITE":  # the other has one slice only
        assert len(table.cleans()) > len(before)
    table.check("serviced", (hudi_015, hudi_12))
    table.ours(9)
    table.check("and written", (hudi_015, hudi_12))


@pytest.mark.full
def test_our_pending_clean_is_finished_by_apache_hudi(
    tmp_path: Path, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    table = Table(tmp_path / "planned", "COPY_ON_WRITE")
    for version in range(1, 7):
        table.ours(version, OFF)
    options = {"hoodie.cleaner.commits.retained": 2}
    planned = hoodie.clean_table(str(table.path), mode="schedule", options=options)
    assert planned.num_files == 9
    table.theirs(hudi_015, 7, {**FEW, "hoodie.archive.automatic": "false"})
    done = [item for item in table.cleans() if item.time == planned.scheduled]
    assert len(done) == 1
    result = _result(table, done[0])
    assert result.total_files_deleted == 9
    assert result.earliest == planned.earliest
    table.check("finished", (hudi_015, hudi_12))


@pytest.mark.full
def test_a_pending_clean_of_apache_hudi_is_finished_by_us(
    golden_tables: Path, tmp_path: Path, hudi_015: HudiServer
) -> None:
    source = golden_tables / "0.15.0-v6" / "cow_clean_commits" / "table"
    path = tmp_path / "t"
    shutil.copytree(source, path)
    last = max(path.glob(".hoodie/*.clean"))
    last.unlink()
    Path(f"{last.parent}/.{last.name}.crc").unlink()
    plan = CleanPlan.from_bytes(Path(f"{last}.requested").read_bytes())
    before = hudi_015.read(path, metadata=False)
    result = hoodie.clean_table(str(path), mode="execute")
    assert result.cleaned == [last.name.split(".")[0]]
    assert result.num_files == plan.num_files
    assert_same_rows(hudi_015.read(path), before)


def failed(table: Table, number: int) -> None:
    """A write that dies, for the next one to roll back."""
    options = {**KEYS, **OFF, TYPE: table.kind}
    rows = as_table(small_rows(range(9), number), SMALL_SCHEMA)
    die_at(
        table.path,
        lambda path: hoodie.write_table(rows, path, options=options),
        lambda change: change.name == "close_output",
    )


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_archived_entries_are_those_that_apache_hudi_makes(
    tmp_path: Path, kind: str, hudi_015: HudiServer
) -> None:
    """Of the same instants: commits, delta commits, compactions, cleans, rollbacks, all their states."""
    table = Table(tmp_path / f"same_{kind.lower()}", kind)
    merge_on_read = kind == "MERGE_ON_READ"
    for version in range(1, 12):
        table.ours(version, OFF)
        if version in (2, 3, 4, 5):
            failed(table, version)
        if merge_on_read and version < 6:
            options = {"hoodie.compact.inline.max.delta.commits": 1}
            hoodie.compact_table(str(table.path), options=options)
    for retained in range(14, 2, -1):
        options = {"hoodie.cleaner.commits.retained": retained, "hoodie.clean.max.commits": 0}
        hoodie.clean_table(str(table.path), options=options)
    other = Table(tmp_path / f"theirs_{kind.lower()}", kind)
    shutil.copytree(table.path, other.path)
    hoodie.archive_table(
        str(table.path),
        options={
            "hoodie.keep.min.commits": 2,
            "hoodie.keep.max.commits": 3,
            "hoodie.cleaner.commits.retained": 1,
        },
    )
    settings = {"min_commits": 2, "max_commits": 3, "retain_commits": 1, "enable_metadata": False}
    hudi_015.call("archive_commits", table=other.known_as(hudi_015), **settings)
    ours, theirs = table.archived(), other.archived()
    assert set(ours) == set(theirs)
    assert {item.action for item in ours} >= {Action.CLEAN, Action.ROLLBACK} | (
        {Action.DELTACOMMIT, Action.COMPACTION} if merge_on_read else {Action.COMMIT}
    )
    for instant, record in ours.items():
        assert record == theirs[instant], instant
    assert table.commits() == other.commits()


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    ["cow_insert_overwrite", "cow_delete_partition", "cow_savepoint", "cow_cdc", "cow_archived",
     "mor_clustered", "mor_insert_overwrite", "mor_logcompaction", "mor_archived"],
)  # fmt: skip
def test_golden_tables_that_we_serviced_are_read_as_before(
    golden_tables: Path, tmp_path: Path, name: str, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    source = golden_tables / "0.15.0-v6" / name
    path = tmp_path / name
    shutil.copytree(source / "table", path)
    expected = pq.read_table(source / "expected" / "snapshot.parquet")
    options = {
        "hoodie.cleaner.commits.retained": 1,
        "hoodie.clean.max.commits": 0,
        "hoodie.keep.min.commits": 1,
        "hoodie.keep.max.commits": 2,
        "hoodie.archive.merge.enable": "true",
        "hoodie.archive.merge.files.batch.size": 2,
    }
    hoodie.clean_table(str(path), options=options)
    hoodie.archive_table(str(path), options=options)
    for server in (hudi_015, hudi_12):
        for metadata in (True, False):
            rows = server.read(path, metadata=metadata)
            assert_same_rows(rows, expected, what=f"Hudi {server.version}, {metadata}")
    active = {item.time for item in Timeline.load(str(path), STORAGE).commits()}
    assert set(hudi_015.timeline(path)) == active
