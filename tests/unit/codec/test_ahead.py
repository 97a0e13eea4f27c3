"""What is read ahead comes in order, within its bound, and ends with its reader."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Generator

import pytest

from hoodie.codec.prefetch import parallel, prefetch


def numbers(start: int, made: list[int], ended: list[int] | None = None) -> Generator[int, None, None]:
    try:
        for number in range(start, start + 10):
            made.append(number)
            yield number
    finally:
        if ended is not None:
            ended.append(start)


def wait_for(what: Callable[[], bool]) -> None:
    assert any(what() or threading.Event().wait(0.01) for _ in range(1000))


@pytest.mark.parametrize("worth", [0.0, 60.0], ids=["slow", "quick"])
def test_the_next_item_is_made_ahead_where_that_takes_long(
    worth: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoodie.codec.prefetch._WORTH_S", worth)
    made: list[int] = []
    items = prefetch(numbers(0, made))
    assert next(items) == 0
    if worth:
        assert made == [0]
    else:
        wait_for(lambda: made == [0, 1])
    assert list(items) == list(range(1, 10))


def test_one_source_after_the_other() -> None:
    made: list[int] = []
    sources = (numbers(start, made) for start in (0, 10, 20, 30))
    assert list(parallel(sources, 2, lambda _: 1, 3)) == list(range(40))


def test_no_source() -> None:
    assert list(parallel(iter(()), 2, lambda _: 1, 3)) == []


def test_nobody_takes_more_than_the_bound() -> None:
    made: list[int] = []
    items = parallel((numbers(start, made) for start in (0, 10, 20)), 2, lambda _: 1, 3)
    assert next(items) == 0
    # three wait of each of two sources, one of each is in the making, and one was taken
    wait_for(lambda: len(made) == 9)
    threading.Event().wait(0.1)
    assert sorted(made) == [0, 1, 2, 3, 4, 10, 11, 12, 13]
    items.close()


def test_an_item_beyond_the_bound_comes_alone() -> None:
    made: list[int] = []
    assert list(parallel(iter([numbers(0, made)]), 2, lambda _: 9, 3)) == list(range(10))


def test_an_error_comes_at_its_place() -> None:
    def broken() -> Generator[int, None, None]:
        yield 10
        raise ValueError("the file is damaged")

    made: list[int] = []
    items = parallel(iter([numbers(0, made), broken(), numbers(20, made)]), 3, lambda _: 1, 100)
    assert [next(items) for _ in range(11)] == list(range(11))
    with pytest.raises(ValueError, match="damaged"):
        next(items)


def test_closing_ends_the_sources() -> None:
    made: list[int] = []
    ended: list[int] = []
    before = threading.active_count()
    items = parallel((numbers(start, made, ended) for start in (0, 10, 20)), 2, lambda _: 1, 2)
    assert next(items) == 0
    items.close()
    assert sorted(ended) == [0, 10]
    assert threading.active_count() == before


def test_threads_end_before_the_interpreter() -> None:
    """Those, too, that wait for their reader when the program ends."""
    program = """
from hoodie.codec.prefetch import parallel

def source():
    try:
        yield from range(9)
    finally:
        print("ended")

items = parallel([source(), source()], 2, lambda _: 1, 3)
print(next(items))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("0\nended\nended\n", "", 0)
