"""Which things are done together."""

from __future__ import annotations

from hoodie.engine.packing import packed, together

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
