"""File-group writes from counts and sizes: pure functions, no table."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.engine.local import LocalEngine
from hoodie.format.names import LogFileName, new_file_id
from hoodie.table.handle import Table, TableRef
from hoodie.table.view import BaseFile, FileSlice, LogFile
from hoodie.timeline.commit import CommitMetadata, WriteStat
from hoodie.timeline.commit_details import base_file_totals
from hoodie.timeline.time import InstantTime
from hoodie.write.assign.bulk_insert import bulk_assignment
from hoodie.write.assign.workload import (
    Assignment,
    Parallelism,
    WorkloadProfile,
    assign,
    average_record_size,
    slice_from_json,
    slice_to_json,
)
from hoodie.write.operation import Operation, WriteRequest
from hoodie.write.plan import resolve
from tests.unit.write.support import (
    BUDGET,
    PLAIN,
    PLAIN_SCHEMA,
    RECORD_SIZE,
    SMALL_FILE,
    SORT_MODE,
    plain,
)

MIB = 1 << 20
CORES = Parallelism(cores=2, limit=None)


def _file(partition: str, size: int, name: str = "", *, logs: int = 0) -> FileSlice:
    """A slice with a base file of this size and so many logs."""
    file_id, instant = name or new_file_id(), "20240101000000000"
    base = f"{file_id}_0-0-0_{instant}.parquet"
    file = BaseFile(partition, f"/t/{partition}/{base}", base, file_id, InstantTime(instant), size)
    names = [LogFileName(file_id, InstantTime(instant), version, "0-0-0") for version in range(1, logs + 1)]
    log_files = (LogFile.of(partition, f"/t/{partition}/{name}", name, 10, name.instant) for name in names)
    return FileSlice(partition, file_id, InstantTime(instant), file, tuple(log_files))


def _profile(groups: dict[tuple[str, str], int], *files: FileSlice, row_bytes: int = 100) -> WorkloadProfile:
    by_partition: dict[str, list[FileSlice]] = {}
    for file in files:
        by_partition.setdefault(file.partition, []).append(file)
    counts = {group: [rows, rows * row_bytes] for group, rows in groups.items()}
    return WorkloadProfile(counts, by_partition, {}, 4)


def _assign(
    profile: WorkloadProfile, record_size: int = 1024, *, merge_on_read: bool = False, **options: Any
) -> Assignment:
    config = Config.of({name.replace("__", "."): value for name, value in options.items()})
    return assign(profile, config, record_size, CORES, merge_on_read)


def _rows(assignment: Assignment) -> list[tuple[bool, int]]:
    """(is it an existing file, rows) of every file-group write."""
    return [(write.base is not None, write.rows) for write in assignment.writes]


def test_every_file_with_updates_is_written_once() -> None:
    files = [_file("p", 200 * MIB), _file("p", 200 * MIB), _file("q", 200 * MIB)]
    groups = {(file.partition, file.file_id): 10 for file in files[:2]}
    assignment = _assign(_profile(groups, *files))
    assert {write.file_id for write in assignment.writes} == {file.file_id for file in files[:2]}
    assert assignment.inserts == {}


def test_inserts_fill_small_files_up_to_the_maximum_then_new_ones() -> None:
    half, full = _file("p", 60 * MIB), _file("p", 110 * MIB)
    assignment = _assign(_profile({("p", ""): 200_000}, half, full))
    room = (125829120 - 60 * MIB) // 1024
    assert _rows(assignment) == [
        (True, room),
        (False, (200_000 - room + 1) // 2),
        (False, (200_000 - room) // 2),
    ]
    assert assignment.writes[0].file_id == half.file_id
    assert sum(share for _, share in assignment.inserts["p"]) == pytest.approx(1)


def test_updates_and_inserts_of_one_file_share_its_write() -> None:
    file = _file("p", MIB)
    assignment = _assign(_profile({("p", file.file_id): 7, ("p", ""): 5}, file))
    assert _rows(assignment) == [(True, 12)]
    assert not assignment.cuts
    assert assignment.updates == {("p", file.file_id): 0}
    assert assignment.table.to_pylist() == [{"partition": "p", "write": 0, "reducer": 0}]


def test_inserts_of_a_partition_stay_in_it() -> None:
    assignment = _assign(_profile({("p", ""): 5, ("q", ""): 6}, _file("p", MIB)))
    assert [(write.partition, write.base is None) for write in assignment.writes] == [
        ("p", False),
        ("q", True),
    ]


def test_the_limit_decides_what_is_small() -> None:
    file = _file("p", MIB)
    groups = {("p", ""): 100}
    for limit, packed in ((0, False), (MIB, False), (MIB + 1, True)):
        assignment = _assign(_profile(groups, file), hoodie__parquet__small__file__limit=limit)
        assert _rows(assignment) == [(packed, 100)], limit


def test_a_small_file_without_room_for_one_row_is_left_alone() -> None:
    assignment = _assign(_profile({("p", ""): 3}, _file("p", 99 * MIB)), record_size=30 * MIB)
    assert _rows(assignment) == [(False, 3)]


def test_merge_on_read_packs_into_the_smallest_file_without_logs() -> None:
    """It is written anew, its updates too; all other updates are appended."""
    logged, larger, smallest = _file("p", MIB, logs=1), _file("p", 3 * MIB), _file("p", 2 * MIB)
    groups = {("p", file.file_id): 10 for file in (logged, larger, smallest)}
    assignment = _assign(_profile({**groups, ("p", ""): 5}, logged, larger, smallest), merge_on_read=True)
    found = {write.file_id: (write.append, write.rows) for write in assignment.writes}
    assert found == {
        logged.file_id: (True, 10),
        larger.file_id: (True, 10),
        smallest.file_id: (False, 15),
    }


@pytest.mark.parametrize(("limit", "packed"), [(0, 0), (1, 1), (2, 2), (9, 3)])
def test_merge_on_read_packs_into_so_many_files(limit: int, packed: int) -> None:
    files = [_file("p", (100 + number) * MIB) for number in range(3)]
    profile = _profile({("p", ""): 10**6}, *files)
    options = {"hoodie__merge__small__file__group__candidates__limit": limit}
    options["hoodie__parquet__small__file__limit"] = 110 * MIB
    assignment = _assign(profile, merge_on_read=True, **options)
    assert [write.file_id for write in assignment.writes if write.slice] == [
        file.file_id for file in files[:packed]
    ]
    assert not any(write.append for write in assignment.writes)


def test_groups_with_pending_plans_take_no_inserts() -> None:
    file = _file("p", MIB)
    profile = _profile({("p", file.file_id): 7, ("p", ""): 5}, file)
    profile.busy = frozenset({("p", file.file_id)})
    for merge_on_read in (False, True):
        assert _rows(_assign(profile, merge_on_read=merge_on_read)) == [(True, 7), (False, 5)]


def test_a_slice_travels_as_json() -> None:
    bare, logged = _file("p", MIB), _file("p", MIB, logs=2)
    headless = replace(logged, base=None)
    for slice_ in (bare, logged, headless):
        assert slice_from_json("/t", "p", json.loads(json.dumps(slice_to_json(slice_)))) == slice_


def test_auto_split_off_cuts_by_rows() -> None:
    groups = {("p", ""): 1_200_001}
    by_size = _assign(_profile(groups), record_size=10)
    assert _rows(by_size) == [(False, 1_200_001)]
    by_rows = _assign(_profile(groups), record_size=10, hoodie__copyonwrite__insert__auto__split=False)
    assert _rows(by_rows) == [(False, 400_001), (False, 400_000), (False, 400_000)]
    small = _assign(
        _profile({("p", ""): 10}),
        hoodie__copyonwrite__insert__auto__split=False,
        hoodie__copyonwrite__insert__split__size=4,
    )
    assert [rows for _, rows in _rows(small)] == [4, 3, 3]


def _commit(rows: int, size: int) -> CommitMetadata:
    stat = WriteStat(file_id="f", path="f.parquet", num_writes=rows, total_write_bytes=size)
    return CommitMetadata({"p": (stat,)})


@pytest.mark.parametrize(
    ("options", "commits", "expected"),
    [
        ({}, [], 1024),
        ({RECORD_SIZE: 77}, [(10, 100)], 77),
        ({}, [(10, 100), (2_000_000, 200 * MIB), (1000, 300 * MIB)], 105),
        ({}, [(0, 0), (1, 104857600)], 1024),
        ({}, [(1, 104857601)], 104857601),
        ({"hoodie.record.size.estimation.threshold": 0.5}, [(2**20, 60 * MIB)], 60),
        ({"hoodie.record.size.estimation.threshold": 2}, [(2**20, 110 * MIB)], 1024),
        ({SMALL_FILE: 1000}, [(100, 5000)], 50),
        # a share of nothing is nothing: any commit tells
        ({SMALL_FILE: 0}, [(0, 0), (10, 100_000), (1, 7)], 10_000),
    ],
)
def test_record_size_from_the_newest_big_commit(
    options: dict[str, Any], commits: list[tuple[int, int]], expected: int
) -> None:
    written = [base_file_totals(_commit(*commit).to_json()) for commit in commits]
    assert average_record_size(Config.of(options), written) == expected


def test_record_size_from_base_files_only() -> None:
    logged = WriteStat(path=".f.log.1", num_writes=1, total_write_bytes=300 * MIB, log_version=1)
    base = _commit(2_000_000, 200 * MIB).partition_to_write_stats["p"]
    commits = [CommitMetadata({"p": (logged,)}), CommitMetadata({"p": (logged, *base)})]
    written = [base_file_totals(commit.to_json()) for commit in commits]
    assert average_record_size(Config.of({}), written) == 105


@pytest.mark.parametrize(
    ("configured", "input_partitions", "most"), [(1, 4, 1), (3, 4, 3), (9, 4, 4), (0, 4, None), (2, 1, 1)]
)
@pytest.mark.parametrize("operation", [each for each in Operation if each.brings_rows or each.tags])
def test_shuffle_parallelism_is_at_most_the_smaller_of_setting_and_input_partitions(
    tmp_path: Any, operation: Operation, configured: int, input_partitions: int, most: int | None
) -> None:
    names = {
        Operation.UPSERT: "hoodie.upsert.shuffle.parallelism",
        Operation.INSERT: "hoodie.insert.shuffle.parallelism",
        Operation.BULK_INSERT: "hoodie.bulkinsert.shuffle.parallelism",
        Operation.DELETE: "hoodie.delete.shuffle.parallelism",
        Operation.INSERT_OVERWRITE: "hoodie.insert.shuffle.parallelism",
        Operation.INSERT_OVERWRITE_TABLE: "hoodie.insert.shuffle.parallelism",
    }
    if not operation.brings_rows:
        hoodie.write_table(plain(("a", 1, "x")), str(tmp_path / "t"), options=PLAIN)
    engine = LocalEngine(parallelism=4)
    request = WriteRequest(str(tmp_path / "t"), operation, {**PLAIN, names[operation]: configured})
    plan = resolve(Table(TableRef.of(request.path)), request, PLAIN_SCHEMA)
    parallelism = plan.write_parallelism(input_partitions, engine.parallelism)
    profile = _profile({(f"p{number}", ""): 1000 for number in range(30)})
    if operation.fills_new_groups:
        assignment = bulk_assignment(profile, plan.config, parallelism)
    else:
        assignment = assign(profile, plan.config, 1024, parallelism)
    assert len(assignment.writes) == 30
    assert len(set(assignment.reducers)) == assignment.reducer_count
    assert assignment.reducer_count == (most or 8)


def test_sizes_ask_for_more_tasks_unless_the_setting_forbids() -> None:
    profile = _profile({(f"p{number}", ""): 1000 for number in range(30)}, row_bytes=MIB)
    free = assign(profile, Config.of({}), 1, CORES)
    assert free.reducer_count == 30
    assert assign(profile, Config.of({}), 1, Parallelism(cores=2, limit=3)).reducer_count == 3


def test_work_is_balanced() -> None:
    sizes = [100, 1, 1, 1, 50, 49]
    profile = _profile({(f"p{number}", ""): rows for number, rows in enumerate(sizes)})
    assignment = assign(profile, Config.of({}), 1, Parallelism(cores=1, limit=2))
    loads = [0, 0]
    for write, reducer in zip(assignment.writes, assignment.reducers, strict=True):
        loads[reducer] += write.rows
    assert max(loads) <= 102


def test_bulk_writes_are_bounded_by_the_budget() -> None:
    profile = _profile({("p", ""): 10_000, ("q", ""): 1}, row_bytes=100)
    config = Config.of({BUDGET: 300_000, SORT_MODE: "NONE"})
    writes = bulk_assignment(profile, config, CORES).writes
    assert len(writes) == 11
    assert all(write.bytes <= 100_000 for write in writes)


def test_no_rows_no_writes() -> None:
    empty = WorkloadProfile()
    assert assign(empty, Config.of({}), 1024, CORES).reducer_count == 0
    assert bulk_assignment(empty, Config.of({}), CORES).writes == ()


def test_updates_of_many_files_of_a_partition_are_assigned_in_proportion() -> None:
    """Once the slices of the partition were searched for each file."""
    files = [_file("p", 10, f"f{number:05d}-0") for number in range(8000)]
    profile = _profile({("p", file.file_id): 1 for file in files}, *files)
    assignment = _assign(profile)
    assert [write.file_id for write in assignment.writes] == [file.file_id for file in files]
    assert len(profile.inflight("UPSERT").partition_to_write_stats["p"]) == 8001
