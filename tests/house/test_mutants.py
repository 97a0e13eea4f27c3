"""The mutation run: which text it leaves alone, and which tests a mutant meets."""

from __future__ import annotations

from typing import Any

from scripts import mutants, nearest
from scripts.environment import ROOT
from scripts.nearest import Place, Timed, ordered, place, within

SOURCE = """
if TYPE_CHECKING:
    from x import y
def f(a: int | None = 3) -> int | str:
    b: int | None = 4
    assert a + 1
    return a + 5
@dataclass(frozen=True)
class C:
    d: int = 6
"""

PLACES = """\
LIMIT = 3
class Point:
    x: int = (
        4
    )
    def moved(self, by: int = 1) -> int:
        if by > 2 and (
            by < 9
        ):
            by += LIMIT
        return self.x + by
"""


def test_what_is_never_run_is_left_alone() -> None:
    lines = SOURCE.splitlines()
    found = sorted(lines[at - 1][start:end] for (at, start), (_, end) in mutants.not_code(SOURCE))
    wanted = [
        "assert a + 1",
        "dataclass(frozen=True)",
        "if TYPE_CHECKING:",
        "int",
        "int | None",
        "int | None",
    ]
    assert found == [*wanted, "int | str"]


def test_every_listed_test_is_there() -> None:
    for package in mutants.PACKAGES:
        assert (ROOT / nearest.LIBRARY / package).is_dir()
    for name in mutants.TESTS:
        assert (ROOT / name).exists(), name


def test_a_line_belongs_to_the_statement_that_runs_it() -> None:
    assert place(PLACES, 8) == Place(range(7, 10))
    assert place(PLACES, 10) == Place(range(10, 11))


def test_what_an_import_runs_is_known_by_the_names_it_sets() -> None:
    assert place(PLACES, 1) == Place(range(1, 2), ("LIMIT",))
    assert place(PLACES, 4) == Place(range(3, 6), ("x", "Point"))
    assert place(PLACES, 6) == Place(range(6, 7), ("moved", "Point"))


def test_tests_of_the_module_come_first_and_every_file_has_its_turn() -> None:
    own = [Timed(f"own.py::{number}", number) for number in (1, 2)]
    others = [Timed("a.py::slow", 3), Timed("a.py::slower", 4), Timed("b.py::quick", 0.1)]
    assert ordered([*others, *own], {"own.py"}) == [*own, others[2], others[0], others[1]]


def test_tests_fill_the_time_and_one_always_runs() -> None:
    tests = [Timed("a", 5), Timed("b", 3), Timed("c", 1), Timed("d", 0.5)]
    assert within(tests, 6.5) == [tests[0], tests[2], tests[3]]
    assert within(tests, 1) == tests[:1]
    assert within([], 1) == []


def test_the_table_counts_what_was_killed() -> None:
    results: list[dict[str, Any]] = [
        {"module": "spark_jobs/hoodie/read/readable_range.py", "killer": None},
        {"module": "spark_jobs/hoodie/read/query.py", "killer": "a test"},
        {"module": "spark_jobs/hoodie/write/plan.py", "killer": "time"},
    ]
    assert list(mutants.table(results))[2:] == [
        "| read | 2 | 1 |",
        "| write | 1 | 1 |",
        "| all | 3 | 2 (66 %) |",
    ]
