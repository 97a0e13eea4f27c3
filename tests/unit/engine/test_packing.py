"""Which things are done together."""

from __future__ import annotations

from hoodie.engine.packing import packed, spread, together

MIB = 1 << 20


def sizes(*given: int) -> list[list[int]]:
    return [list(task) for task in packed([size * MIB for size in given], lambda size: size)]


def test_large_things_are_alone_and_come_first() -> None:
    assert sizes(9, 300, 20) == [[300 * MIB], [20 * MIB], [9 * MIB]]


def test_small_things_share_a_task_of_eight_mebibytes() -> None:
    tasks = sizes(2, 3, 1, 2, 5, 2)
    assert tasks == [[5 * MIB, 3 * MIB], [2 * MIB, 2 * MIB, 2 * MIB, MIB]]


def test_empty_things_and_none() -> None:
    assert sizes(0, 0, 0) == [[0, 0, 0]]
    assert sizes() == []


def test_things_in_their_order() -> None:
    assert list(together([3, 3, 4, 11, 1, 9], lambda size: size, 10)) == [[3, 3, 4], [11], [1, 9]]
    assert list(together([], len, 10)) == []


def spread_sizes(given: list[int], parallelism: int) -> list[int]:
    """Of the tasks, in MiB."""
    tasks = spread([size * MIB for size in given], lambda size: size, parallelism)
    assert sorted(size // MIB for task in tasks for size in task) == sorted(given)
    return [sum(task) // MIB for task in tasks]


def test_things_are_spread_over_the_cores() -> None:
    assert spread_sizes([6] * 20, 4) == [30] * 4
    assert sorted(spread_sizes([6] * 20, 100)) == [6] * 10 + [12] * 5
    assert spread_sizes([10, 5, 40, 10, 10, 5, 10], 4) == [40, 20, 15, 15]


def test_small_things_share_a_task_however_many_cores_there_are() -> None:
    assert spread_sizes([1] * 7, 8) == [7]
    assert spread_sizes([0, 0], 4) == [0]
    assert spread_sizes([], 4) == []


def test_tasks_are_no_larger_for_few_cores_than_a_large_thing() -> None:
    assert sorted(spread_sizes([100] * 20, 1)) == [100] * 12 + [200] * 4
    assert spread_sizes([1024, 1], 4) == [1024, 1]
