"""Failed and pending work that Apache Hudi left behind."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from hoodie.codec.avro import read_record
from hoodie.errors import ConflictError
from hoodie.storage.local import LocalStorage
from hoodie.table.pending import busy_groups, check_no_updates
from hoodie.timeline.active import Timeline
from hoodie.timeline.models.rollback import InstantInfo, RollbackPlan, RollbackRequest
from hoodie.timeline.time import InstantTime
from hoodie.write.operation import Operation
from hoodie.write.rollback import executor
from tests.crash.checks import counted, hudi_rs_rows, leftovers, our_rows
from tests.crash.scenarios import GOLDEN_SCHEMA, Row, run
from tests.support.oracle import Model
from tests.support.tables import small_rows

pytestmark = pytest.mark.crash

STORAGE = LocalStorage()
FAILED = "20261121000422066"
CLUSTERING = "20261121000822109"


@pytest.fixture
def golden(golden_tables: Path, tmp_path: Path) -> Any:
    """Copies a golden table; gives its path and the rows Apache Hudi sees in it."""

    def copy(name: str) -> tuple[Path, list[Row]]:
        import pyarrow.parquet as pq

        source = golden_tables / "0.15.0-v6" / name
        path = tmp_path / name
        shutil.copytree(source / "table", path)
        return path, pq.read_table(source / "expected" / "snapshot.parquet").to_pylist()

    return copy


def upserted(rows: list[Row], changes: list[Row]) -> Any:
    return counted(Model(["id"], ["region"], "ts").upsert(rows).upsert(changes).rows())


def files(path: Path, ending: str = "") -> set[str]:
    return {
        os.path.relpath(os.path.join(folder, name), path)
        for folder, _, names in os.walk(path)
        for name in names
        if name.endswith(ending)
    }


def direct_markers(path: Path) -> None:
    """As the table was made."""


def server_markers(path: Path) -> None:
    """The same markers as Hudi's timeline server writes them, the last one cut short."""
    folder = path / ".hoodie/.temp" / FAILED
    names = sorted(name for name in files(folder) if ".marker." in name and not name.endswith(".crc"))
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    (folder / "MARKERS0").write_text(names[0] + "\n")
    (folder / "MARKERS7").write_text(names[1] + "\n" + names[2][:-3])


def no_markers(path: Path) -> None:
    """Where markers are switched off, or lost."""
    shutil.rmtree(path / ".hoodie/.temp" / FAILED)


@pytest.mark.parametrize("markers", [direct_markers, server_markers, no_markers])
def test_a_failed_write_of_hudi_is_rolled_back(golden: Any, markers: Any) -> None:
    path, rows = golden("cow_inflight")
    markers(path)
    failed = {name for name in files(path, ".parquet") if FAILED in name}
    assert len(failed) == 3
    changes = small_rows(range(70, 90), 5)
    result = run(path, changes, options={}, schema=GOLDEN_SCHEMA)
    assert result.rolled_back == [FAILED]
    assert not result.metadata_table_removed
    assert not failed & files(path)
    assert leftovers(path) == []
    assert our_rows(path) == upserted(rows, changes)
    assert hudi_rs_rows(path) == upserted(rows, changes)


def shape(value: Any) -> Any:
    """The value with texts and numbers left out, so that two files of one kind compare."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return type(value).__name__


def test_rollback_files_are_as_hudi_writes_them(golden: Any, golden_tables: Path) -> None:
    path, _ = golden("cow_inflight")
    run(path, [], options={}, schema=GOLDEN_SCHEMA)
    (ours,) = path.glob(".hoodie/*.rollback")
    theirs = golden_tables / "0.15.0-v6/cow_rollback_failed/table/.hoodie/20261121000408864.rollback"
    for ending, model in ((".requested", "HoodieRollbackPlan"), ("", "HoodieRollbackMetadata")):
        mine = read_record(model, Path(f"{ours}{ending}").read_bytes())
        golden_record = read_record(model, Path(f"{theirs}{ending}").read_bytes())
        for record in (mine, golden_record):
            if ending:
                record["RollbackRequests"].sort(key=lambda request: str(request["partitionPath"]))
        assert shape(mine) == shape(golden_record)
        if ending:
            assert mine["instantToRollback"] == {"commitTime": FAILED, "action": "commit"}
            for request in mine["RollbackRequests"]:
                (file,) = request["filesToBeDeleted"]
                assert file.startswith(f"{path}/{request['partitionPath']}/{request['fileId']}_")
                assert request["latestBaseInstant"] == FAILED
        else:
            assert mine["startRollbackTime"] == ours.name.split(".")[0]
            assert mine["totalFilesDeleted"] == 3
            assert mine["instantsRollback"] == [{"commitTime": FAILED, "action": "commit"}]
    assert Path(f"{ours}.inflight").read_bytes() == b""


def busy_files(path: Path) -> set[str]:
    plan = read_record(
        "HoodieRequestedReplaceMetadata",
        (path / f".hoodie/{CLUSTERING}.replacecommit.requested").read_bytes(),
    )
    slices = [item for group in plan["clusteringPlan"]["inputGroups"] for item in group["slices"]]
    return {item["fileId"] for item in slices}


def test_pending_clustering_stays_and_its_file_groups_are_spared(golden: Any) -> None:
    path, rows = golden("cow_pending_clustering")
    busy = busy_files(path)
    before = files(path, ".parquet")
    new = small_rows(range(9000, 9030), 5)
    for operation in (Operation.INSERT, Operation.UPSERT):
        result = run(path, new, operation, options={}, schema=GOLDEN_SCHEMA)
        assert result.rolled_back == []
        rows = rows + new if operation is Operation.INSERT else rows
    written = files(path, ".parquet") - before
    touched = {os.path.basename(name).split("_")[0] for name in written}
    assert not touched & busy
    assert touched & {os.path.basename(name).split("_")[0] for name in before}, "other small files are packed"
    assert leftovers(path) == [f"pending {CLUSTERING} replacecommit requested"]
    assert our_rows(path) == counted(rows)
    assert hudi_rs_rows(path) == counted(rows)


def test_update_of_a_file_group_in_a_pending_clustering_is_refused(golden: Any) -> None:
    path, rows = golden("cow_pending_clustering")
    before = files(path)
    with pytest.raises(ConflictError, match=CLUSTERING) as refused:
        run(path, small_rows([0, 1, 9000], 9), options={}, schema=GOLDEN_SCHEMA)
    assert refused.value.values["instant"] == CLUSTERING
    assert refused.value.values["file_id"] in busy_files(path)
    assert files(path) == before
    assert our_rows(path) == counted(rows)


def test_clustering_under_way_is_not_rolled_back(golden: Any) -> None:
    path, _ = golden("cow_pending_clustering")
    (path / f".hoodie/{CLUSTERING}.replacecommit.inflight").touch()
    timeline = Timeline.load(str(path), STORAGE)
    assert executor.due(timeline, STORAGE, frozenset(), utc=True) == []
    with pytest.raises(ConflictError, match=CLUSTERING):
        run(path, small_rows([0], 9), options={}, schema=GOLDEN_SCHEMA)


def test_failed_insert_overwrite_is_rolled_back(golden: Any) -> None:
    """A replacecommit without a clustering plan is a write."""
    path, _ = golden("cow_insert_overwrite")
    done = sorted(path.glob(".hoodie/*.replacecommit"))
    assert done
    time = done[-1].name.split(".")[0]
    stats = json.loads(done[-1].read_text())["partitionToWriteStats"]
    done[-1].unlink()
    written = {stat["path"] for group in stats.values() for stat in group}
    assert written <= files(path, ".parquet")
    result = run(path, [], options={}, schema=GOLDEN_SCHEMA)
    assert result.rolled_back == [time]
    assert not written & files(path)
    assert leftovers(path) == []


DELTA = "20261121000609422"


def mor_direct(path: Path) -> None:
    """As the table was made: a marker for the one log that the failed write had made."""


def mor_without_markers(path: Path) -> None:
    shutil.rmtree(path / ".hoodie/.temp" / DELTA)


def mor_without_profile(path: Path) -> None:
    """The inflight file is cut, and markers are lost: all logs are looked into."""
    mor_without_markers(path)
    (path / f".hoodie/{DELTA}.deltacommit.inflight").write_bytes(b'{"partitionToWriteStats" : {')


def mor_planned(path: Path) -> None:
    """Apache Hudi began the rollback: a command block behind the log, whose size the plan has a stub for."""
    (log,) = path.glob("eu/.*.log.2_*[0-9]")
    group, _, base = log.name[1:].partition(".log.")[0].partition("_")
    request = RollbackRequest("eu", group, InstantTime(base), (), {log.name: 1})
    plan = RollbackPlan(InstantInfo(InstantTime(DELTA), "deltacommit"), (request,))
    (path / ".hoodie/20261121000700000.rollback.requested").write_bytes(plan.to_bytes())


@pytest.mark.parametrize("left", [mor_direct, mor_without_markers, mor_without_profile, mor_planned])
def test_a_failed_delta_commit_of_hudi_is_rolled_back(golden: Any, left: Any) -> None:
    path, rows = golden("mor_inflight")
    left(path)
    changes = small_rows(range(20, 60), 9)
    result = run(path, changes, options={}, schema=GOLDEN_SCHEMA)
    assert result.rolled_back == [DELTA]
    assert not (path / ".hoodie/.temp" / DELTA).exists()
    assert leftovers(path) == ([] if left is not mor_planned else [voided(path)])
    assert len(list(path.glob("eu/.*.log.*_1-0-1"))) == (left is mor_planned)
    assert our_rows(path) == upserted(rows, changes)
    assert hudi_rs_rows(path) == upserted(rows, changes)


def voided(path: Path) -> str:
    """What `leftovers` says of the failed log, which stays when a command block takes it back."""
    (log,) = path.glob("eu/.*.log.2_*[0-9]")
    return f"eu/{log.name}, None bytes in the commits"


def test_file_groups_of_a_pending_compaction_are_busy(golden: Any) -> None:
    path, _ = golden("mor_pending_compaction")
    busy = busy_groups(Timeline.load(str(path), STORAGE), STORAGE)
    names = {(Path(name).parent.name, Path(name).name.split("_")[0]) for name in files(path, ".parquet")}
    assert set(busy) == {name for name in names if name[0] in ("apac", "eu", "us")}
    assert {instant.time for instant in busy.values()} == {"20261121005843362"}
    check_no_updates(busy, [("eu", "other-0"), ("elsewhere", next(iter(busy))[1])])
    check_no_updates(busy, busy)  # updates go to the logs of the slice that the compaction began
