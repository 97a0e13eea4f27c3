"""Which slices of a partition a clean takes: against what queries of the kept instants read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.format.names import BaseFileName, LogFileName
from hoodie.services.clean.plan import Holds, PartitionFiles, choose
from hoodie.services.clean.policy import Retention
from hoodie.services.clean.settings import Policy
from hoodie.storage import FileInfo
from hoodie.table.view import TimelineView
from hoodie.timeline.time import InstantTime


def time(number: int) -> InstantTime:
    return InstantTime(f"{20260101000000000 + number}")


def base(group: str, number: int) -> str:
    return str(BaseFileName(group, "0-1-2", time(number)))


def log(group: str, number: int, version: int = 1, cdc: bool = False) -> str:
    return str(LogFileName(group, time(number), version, "0-1-2", cdc))


def files(names: Iterable[str]) -> list[FileInfo]:
    return [FileInfo(f"/t/p/{name}", name, 10, 0, False) for name in names]


def retention(policy: Policy = Policy.KEEP_LATEST_COMMITS, versions: int = 3) -> Retention:
    return Retention(policy, 1, versions, 1, 0, True)


def partition(
    names: Iterable[str], committed: Iterable[int], compacting: Mapping[str, int] | None = None
) -> PartitionFiles:
    pending = {("p", group): time(number) for group, number in (compacting or {}).items()}
    snapshot = TimelineView(frozenset(map(time, committed)), time(0), None, frozenset(), pending)
    return PartitionFiles.of(snapshot, files([*names, ".hoodie_partition_metadata"]), "p")


def taken(
    found: PartitionFiles,
    earliest: int | None,
    *,
    versions: int = 3,
    savepointed: Sequence[str] = (),
    needed: Mapping[str, int] | None = None,
    replaced: Mapping[str, int] | None = None,
) -> tuple[set[str], bool]:
    policy = Policy.KEEP_LATEST_COMMITS if earliest is not None else Policy.KEEP_LATEST_FILE_VERSIONS
    holds = Holds(
        frozenset(savepointed),
        {("p", group): time(number) for group, number in (needed or {}).items()},
        {("p", group): time(number) for group, number in (replaced or {}).items()},
    )
    bound = None if earliest is None else time(earliest)
    clean = choose(found, retention(policy, versions), bound, holds)
    assert len({file.name for file in clean.files}) == len(clean.files)
    return {file.name for file in clean.files}, clean.folder


@given(
    st.sets(st.integers(0, 30), min_size=1, max_size=12),
    st.integers(0, 31),
    st.sets(st.integers(0, 30), max_size=3),
)
def test_by_commits_exactly_what_no_kept_query_reads_goes(
    versions: set[int], earliest: int, saved: set[int]
) -> None:
    """A query as of t reads the newest version at or before t; a savepoint names what one as of it reads."""

    def read_as_of(instant: int) -> int | None:
        return max((number for number in versions if number <= instant), default=None)

    found = partition([base("a", number) for number in versions], range(31))
    savepointed = [base("a", number) for number in map(read_as_of, saved) if number is not None]
    gone, folder = taken(found, earliest, savepointed=savepointed)
    needed = {read_as_of(instant) for instant in [*range(earliest, 31), *saved]}
    kept = {base("a", number) for number in versions} - gone
    assert {base("a", number) for number in needed if number is not None} <= kept
    # one more may stay: the newest before the bound, which a query that began before the bound reads
    before = max((number for number in versions if number < earliest), default=None)
    assert len(kept) <= len(needed - {None}) + (before is not None and before not in needed)
    assert not folder


@given(st.sets(st.integers(0, 30), min_size=1, max_size=12), st.integers(1, 6))
def test_by_versions_the_newest_stay(versions: set[int], keep: int) -> None:
    found = partition([base("a", number) for number in versions], range(31))
    gone, _ = taken(found, None, versions=keep)
    assert gone == {base("a", number) for number in sorted(versions)[:-keep]}


def test_a_slice_goes_with_its_logs_and_change_logs() -> None:
    old = [base("a", 1), log("a", 1), log("a", 1, 2), log("a", 1, 3, cdc=True)]
    new = [base("a", 5), log("a", 5), log("a", 5, 2, cdc=True), base("a", 8)]
    found = partition([*old, *new], [1, 5, 8])
    assert taken(found, 8) == (set(old), False)
    assert taken(found, None, versions=1) == ({*old, *new} - {base("a", 8)}, False)


def test_slices_without_a_base_file_count() -> None:
    found = partition([log("a", 1), log("a", 1, 2), base("a", 3), log("a", 3), base("a", 9)], [1, 2, 3, 9])
    assert taken(found, 9) == ({log("a", 1), log("a", 1, 2)}, False)


def test_files_that_are_not_committed_are_let_be() -> None:
    names = [base("a", 1), base("a", 2), base("a", 3), base("b", 2), "readme.txt"]
    found = partition(names, [1, 3])
    assert taken(found, None, versions=1) == ({base("a", 1)}, False)
    assert found.other_files


@pytest.mark.parametrize("saved", [base("a", 1), log("a", 1), log("a", 1, 2)])
def test_one_file_of_a_savepoint_keeps_its_slice(saved: str) -> None:
    found = partition([base("a", 1), log("a", 1), log("a", 1, 2), base("a", 5), base("a", 8)], [1, 5, 8])
    assert taken(found, 8, savepointed=[saved])[0] == set()
    assert taken(found, None, versions=1, savepointed=[saved])[0] == {base("a", 5)}


def test_what_a_pending_compaction_reads_stays() -> None:
    names = [base("a", 1), base("a", 3), log("a", 3), log("a", 6), base("a", 0)]
    found = partition(names, [0, 1, 3, 7, 8], {"a": 6})
    assert [item.instant for item in found.groups["a"]] == [time(6), time(3), time(1), time(0)]
    assert taken(found, 8, needed={"a": 3})[0] == {base("a", 0), base("a", 1)}
    assert taken(found, 8, needed={"a": 1})[0] == {base("a", 0)}
    assert taken(found, None, versions=1, needed={"a": 3})[0] == {base("a", 0), base("a", 1)}
    assert taken(found, None, versions=2, needed={"a": 3})[0] == {base("a", 0)}


def test_a_replaced_group_goes_as_a_whole_in_its_time() -> None:
    found = partition([base("a", 1), log("a", 1), base("a", 4), base("b", 1)], [1, 4, 6, 7])
    old = {base("a", 1), log("a", 1), base("a", 4)}
    assert taken(found, 6, replaced={"a": 6})[0] == set()
    assert taken(found, 7, replaced={"a": 6})[0] == old
    assert taken(found, None, replaced={"a": 6})[0] == old
    assert taken(found, 7, replaced={"a": 6}, savepointed=[log("a", 1)])[0] == {base("a", 4)}
    assert taken(found, 7, replaced={"a": 6}, needed={"a": 4})[0] == {base("a", 1), log("a", 1)}


def test_the_folder_goes_when_nothing_is_left() -> None:
    names = [base("a", 1), base("b", 2), f".{base('a', 1)}.crc"]
    replaced = {"a": 3, "b": 3}
    assert taken(partition(names, [1, 2, 3, 4]), 4, replaced=replaced)[1]
    assert taken(partition([], [1]), 1) == (set(), True)
    assert not taken(partition([*names, base("c", 9)], [1, 2, 3, 4]), 4, replaced=replaced)[1]
    assert not taken(partition([*names, "notes"], [1, 2, 3, 4]), 4, replaced=replaced)[1]
    assert not taken(partition(names, [1, 2, 3, 4]), 4, replaced={"a": 3})[1]
    assert not taken(partition(names, [1, 2, 3, 4]), 4, replaced=replaced, savepointed=[base("b", 2)])[1]
    assert not taken(partition(names, [1, 2, 3, 4]), 3, replaced=replaced)[1]
