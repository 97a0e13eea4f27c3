"""Rollback of failed delta commits: which log files go, and which get a command block."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hoodie.format.log_block import BlockType, HeaderKey, encode_block, rollback_headers
from hoodie.format.log_data import DeleteRecords, encode_delete_block
from hoodie.format.log_file import LogFileReader
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.log_undo import Contents, VoidBlocks
from hoodie.table.markers import Marker, MarkerType, place_marker
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata, PlannedFile, WriteStat, inflight_metadata
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.rollback import InstantInfo, RollbackMetadata, RollbackPlan, RollbackRequest
from hoodie.timeline.time import InstantTime
from hoodie.write.rollback import executor
from hoodie.write.rollback.unreported_files import sweep_attempts
from tests.support.handles import table_at
from tests.support.rollbacks import roll_back
from tests.support.stores import store_at

STORAGE = LocalStorage()
BASE, DONE, FAILED, PLANNED = (f"2026010100000000{n}" for n in range(4))
GROUP = "a-0"


def block(instant: str) -> bytes:
    records = DeleteRecords(pa.array(["k"]), pa.array(["p"]))
    content = encode_delete_block(records)
    return b"".join(
        bytes(x) for x in encode_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: instant}, content)
    )


def log_name(version: int, token: str = "0-1-2", base: str = BASE, group: str = GROUP) -> str:
    return f".{group}_{base}.log.{version}_{token}"


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Partition p with one slice: base file, a log of DONE; FAILED has a profile and nothing else yet."""
    base = str(tmp_path)
    properties.create(STORAGE, base, {properties.NAME: "t", properties.TYPE: "MERGE_ON_READ"})
    STORAGE.create(f"{base}/p/.hoodie_partition_metadata", b"x")
    STORAGE.create(f"{base}/p/{GROUP}_0-1-2_{BASE}.parquet", b"rows")
    put(base, log_name(1), block(DONE), mark=False)
    for time in (BASE, DONE):
        done = Instant(InstantTime(time), Action.DELTACOMMIT, State.COMPLETED)
        store_at(base).create(done, CommitMetadata().to_json())
    store_at(base).create(Instant(InstantTime(FAILED), Action.DELTACOMMIT, State.REQUESTED))
    profile = inflight_metadata("UPSERT", {}, {"p": [PlannedFile(GROUP, InstantTime(BASE), num_updates=1)]})
    store_at(base).create(Instant(InstantTime(FAILED), Action.DELTACOMMIT, State.INFLIGHT), profile.to_json())
    return base


def put(base: str, name: str, data: bytes, *, mark: bool = True, partition: str = "p") -> str:
    if mark:
        place_marker(STORAGE, base, InstantTime(FAILED), Marker(f"{partition}/{name}", MarkerType.APPEND))
    Path(base, partition).mkdir(exist_ok=True)
    Path(base, partition, name).write_bytes(data)
    return name


def due(base: str) -> list[executor.PendingRollback]:
    return executor.due(Timeline.load(base, STORAGE), STORAGE, frozenset(), True)


def run(base: str) -> tuple[RollbackPlan, RollbackMetadata]:
    """Roll back what is due; the plan and the result, as they are on the timeline."""
    (pending,) = due(base)
    roll_back(base, pending)
    assert due(base) == []
    assert not list(Path(base, ".hoodie/.temp").iterdir())
    assert not list(Path(base, ".hoodie").glob(f"{FAILED}*"))
    done = Path(base, f".hoodie/{pending.instant.time}.rollback")
    asked = Path(base, f".hoodie/{pending.instant.time}.rollback.requested")
    return RollbackPlan.from_bytes(asked.read_bytes()), RollbackMetadata.from_bytes(done.read_bytes())


def logs(base: str, partition: str = "p") -> list[str]:
    return sorted(path.name for path in Path(base, partition).iterdir() if ".log." in path.name)


def blocks(base: str, name: str) -> list[tuple[BlockType, str | None, str | None]]:
    with LogFileReader(STORAGE, f"{base}/p/{name}") as reader:
        return [(found.type, found.instant, found.target_instant) for found in reader.blocks()]


def test_a_log_of_the_failed_instant_alone_is_deleted(table: str) -> None:
    name = put(table, log_name(2), block(FAILED))
    plan, done = run(table)
    assert logs(table) == [log_name(1)]
    assert plan.requests == (RollbackRequest("p", GROUP, InstantTime(BASE), (f"{table}/p/{name}",), {}),)
    assert done.partitions["p"].deleted == (f"{table}/p/{name}",)
    assert done.partitions["p"].rollback_log_files == {}
    assert done.total_files_deleted == 1


def test_a_log_with_blocks_of_others_gets_a_command_block_behind_it(table: str) -> None:
    """As storages that append make them."""
    shared = put(table, log_name(2), block(DONE) + block(FAILED))
    size = Path(table, "p", shared).stat().st_size
    plan, done = run(table)
    command = log_name(3, "1-0-1")
    assert logs(table) == [log_name(1), shared, command]
    assert blocks(table, command) == [(BlockType.COMMAND, done.start_time, FAILED)]
    assert plan.requests == (RollbackRequest("p", GROUP, InstantTime(BASE), (), {shared: size}),)
    assert done.partitions["p"].failed_commit_log_files == {shared: size}
    assert done.partitions["p"].rollback_log_files == {f"{table}/p/{command}": 105}
    assert done.total_files_deleted == 0


def test_the_command_block_of_an_earlier_failed_write_is_no_reason_to_leave_it_out(table: str) -> None:
    earlier = encode_block(BlockType.COMMAND, rollback_headers(InstantTime(DONE), InstantTime(BASE)))
    put(table, log_name(2), b"".join(map(bytes, earlier)), mark=False)
    put(table, log_name(3), block(DONE) + block(FAILED))
    _, done = run(table)
    assert blocks(table, log_name(4, "1-0-1")) == [(BlockType.COMMAND, done.start_time, FAILED)]


def test_one_command_block_a_slice(table: str) -> None:
    shared = [put(table, log_name(version), block(DONE) + block(FAILED)) for version in (2, 3)]
    plan, _ = run(table)
    assert logs(table) == [log_name(1), *shared, log_name(4, "1-0-1")]
    assert [sorted(request.log_blocks_to_delete or ()) for request in plan.requests] == [shared]


@pytest.mark.parametrize("data", [b"", block(FAILED)[:50], block(FAILED) + block(FAILED)[:-3], bytes(100)])
def test_what_a_kill_leaves_is_deleted_where_a_marker_names_it(table: str, data: bytes) -> None:
    """Empty, cut in its first block or a later one, or zeros after a power failure."""
    put(table, log_name(2), data)
    run(table)
    assert logs(table) == [log_name(1)]


def test_a_torn_log_that_no_marker_names_stays(table: str) -> None:
    put(table, log_name(2), block(DONE)[:50], mark=False)
    run(table)
    assert logs(table) == [log_name(1), log_name(2)]


def test_a_damaged_log_that_no_marker_names_stays(table: str) -> None:
    """A whole block of the instant, and one of an unknown type: others' rows may be in it and behind it."""
    torn = bytearray(block(FAILED))
    torn[21] = 99
    damaged = put(table, log_name(2), block(FAILED) + torn, mark=False)
    whole = put(table, log_name(3), block(FAILED), mark=False)
    found = Contents.of(STORAGE, f"{table}/p/{damaged}", InstantTime(FAILED))
    assert found == Contents(mine=True, damaged=True)
    found_of = VoidBlocks().logs_of(table_at(table), InstantTime(FAILED), ["p"], {("p", GROUP)})
    assert list(found_of) == [f"p/{whole}"]
    assert found.disposable(named=True)


def test_logs_are_found_without_markers_in_the_groups_of_the_profile(table: str) -> None:
    """A marker file of the timeline server may be lost. Other groups' logs are not looked into."""
    put(table, log_name(2), block(FAILED), mark=False)
    other = put(table, log_name(1, group="b-0"), bytes(100), mark=False)
    run(table)
    assert logs(table) == [log_name(1), other]


def test_without_a_profile_all_logs_are_looked_into(table: str) -> None:
    Path(table, f".hoodie/{FAILED}.deltacommit.inflight").write_bytes(b'{"partitionToWriteStats" : {"p"')
    put(table, log_name(1, group="b-0"), block(FAILED), mark=False)
    kept = put(table, log_name(1, group="c-0"), block(DONE), mark=False)
    run(table)
    assert logs(table) == [log_name(1), kept]


def test_a_slice_that_the_instant_began_goes(table: str) -> None:
    """Inserts into a log: a new file group, which the profile does not name."""
    put(table, log_name(1, base=FAILED, group="n-0"), block(FAILED), mark=False)
    plan, _ = run(table)
    assert logs(table) == [log_name(1)]
    assert [(request.file_id, request.latest_base_instant) for request in plan.requests] == [("n-0", FAILED)]


def test_markers_from_before_logs_were_named_in_them(table: str) -> None:
    file = f"p/{GROUP}_0-1-2_{BASE}.parquet"
    place_marker(STORAGE, table, InstantTime(FAILED), Marker(file, MarkerType.APPEND))
    put(table, log_name(2), block(FAILED), mark=False)
    Path(table, f".hoodie/{FAILED}.deltacommit.inflight").write_bytes(CommitMetadata().to_json())
    run(table)
    assert logs(table) == [log_name(1)]
    assert Path(table, file).exists()


def test_base_files_and_logs_in_one_plan(table: str) -> None:
    new = f"b-0_0-1-2_{FAILED}.parquet"
    place_marker(STORAGE, table, InstantTime(FAILED), Marker(f"p/{new}", MarkerType.CREATE))
    Path(table, "p", new).write_bytes(b"rows")
    put(table, log_name(2), block(FAILED))
    plan, done = run(table)
    assert sorted(path.rpartition("/")[2] for path in done.partitions["p"].deleted) == [log_name(2), new]
    assert [request.latest_base_instant for request in plan.requests] == [FAILED, BASE]


def test_a_rollback_cut_after_its_command_block_writes_no_second_one(table: str) -> None:
    shared = put(table, log_name(2), block(DONE) + block(FAILED))
    (pending,) = due(table)
    roll_back(table, pending)
    # as if it had been killed before the rollback was completed
    Path(table, f".hoodie/{pending.instant.time}.rollback").unlink()
    store_at(table).create(Instant(InstantTime(FAILED), Action.DELTACOMMIT, State.REQUESTED))
    _, done = run(table)
    assert logs(table) == [log_name(1), shared, log_name(3, "1-0-1")]
    assert done.start_time == pending.instant.time
    assert done.partitions["p"].rollback_log_files == {f"{table}/p/{log_name(3, '1-0-1')}": 105}


def test_a_failed_instant_that_is_rolled_back_again_gets_no_second_command_block(table: str) -> None:
    """Killed when the rollback was complete and the instant still there."""
    shared = put(table, log_name(2), block(DONE) + block(FAILED))
    (pending,) = due(table)
    roll_back(table, pending)
    store_at(table).create(Instant(InstantTime(FAILED), Action.DELTACOMMIT, State.REQUESTED))
    place_marker(STORAGE, table, InstantTime(FAILED), Marker(f"p/{shared}", MarkerType.APPEND))
    run(table)
    assert logs(table) == [log_name(1), shared, log_name(3, "1-0-1")]


@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
@pytest.mark.parametrize("key", ["{name}", "file:/elsewhere/t/p/{name}"])
def test_a_plan_of_apache_hudi_is_finished(table: str, state: State, key: str) -> None:
    """It asks for a command block whatever else is in the log, and names it by its name or by its URI."""
    shared = put(table, log_name(2), block(FAILED))
    request = RollbackRequest("p", GROUP, InstantTime(BASE), (), {key.format(name=shared): 1})
    plan = RollbackPlan(InstantInfo(InstantTime(FAILED), "deltacommit"), (request,))
    store_at(table).create(Instant(InstantTime(PLANNED), Action.ROLLBACK, State.REQUESTED), plan.to_bytes())
    if state is State.INFLIGHT:
        store_at(table).create(Instant(InstantTime(PLANNED), Action.ROLLBACK, State.INFLIGHT))
    asked, done = run(table)
    assert (asked, done.start_time) == (plan, PLANNED)
    assert blocks(table, log_name(3, "1-0-1")) == [(BlockType.COMMAND, PLANNED, FAILED)]


def test_the_rollback_of_a_compaction_leaves_its_plan(table: str) -> None:
    roll_back(table, due(table)[0])
    compaction = Instant(InstantTime("20260101000000009"), Action.COMPACTION, State.REQUESTED)
    store_at(table).create(compaction, b"plan")
    store_at(table).create(compaction.with_state(State.INFLIGHT))
    made = f"{GROUP}_0-1-2_{compaction.time}.parquet"
    Path(table, "p", made).write_bytes(b"rows")
    assert due(table) == []
    request = RollbackRequest("p", GROUP, compaction.time, (f"{table}/p/{made}",))
    plan = RollbackPlan(InstantInfo(compaction.time, "compaction"), (request,))
    requested = Instant(InstantTime("20260101000000010"), Action.ROLLBACK, State.REQUESTED)
    store_at(table).create(requested, plan.to_bytes())
    (pending,) = due(table)
    roll_back(table, pending)
    assert not Path(table, "p", made).exists()
    assert [str(x) for x in Timeline.load(table, STORAGE).pending()] == [
        f"{compaction.time} compaction requested"
    ]
    # while it is being executed, whoever executes it decides
    Path(table, f".hoodie/{requested.time}.rollback").unlink()
    live = frozenset({compaction.time})
    assert executor.due(Timeline.load(table, STORAGE), STORAGE, live, True) == []


def test_markers_of_a_finished_rollback_do_not_take_its_command_blocks(table: str) -> None:
    """A kill may leave the markers of a rollback, ours or Apache Hudi's, and those of a finished commit."""
    put(table, log_name(2), block(DONE) + block(FAILED))
    (pending,) = due(table)
    roll_back(table, pending)
    command = log_name(3, "1-0-1")
    place_marker(STORAGE, table, pending.instant.time, Marker(f"p/{command}", MarkerType.APPEND))
    place_marker(STORAGE, table, InstantTime("20260101000000008"), Marker(f"p/{command}", MarkerType.APPEND))
    place_marker(STORAGE, table, InstantTime(DONE), Marker(f"p/{log_name(2)}", MarkerType.APPEND))
    before = logs(table)
    assert sweep_attempts(table_at(table), Timeline.load(table, STORAGE))
    assert logs(table) == before
    assert not list(Path(table, ".hoodie/.temp").iterdir())


def test_unreported_logs_of_a_finished_commit_are_swept(table: str) -> None:
    roll_back(table, due(table)[0])
    late, reported = log_name(2, "0-1-3"), log_name(2, "0-1-4")
    done = Instant(InstantTime("20260101000000008"), Action.DELTACOMMIT, State.COMPLETED)
    stats = (WriteStat(path=f"p/{reported}", file_id=GROUP, log_version=2),)
    store_at(table).create(done, CommitMetadata({"p": stats}).to_json())
    for name in (late, reported):
        Path(table, "p", name).write_bytes(block(done.time))
        place_marker(STORAGE, table, done.time, Marker(f"p/{name}", MarkerType.APPEND))
    sweep_attempts(table_at(table), Timeline.load(table, STORAGE))
    assert logs(table) == [log_name(1), reported]
