"""The mutation run: which text it leaves alone, and which tests a mutant meets."""

from __future__ import annotations

from typing import Any

from scripts import mutants
from scripts.environment import ROOT

SOURCE = """
if TYPE_CHECKING:
    from x import y
def f(a: int | None = 3) -> int | str:
    b: int | None = 4
    assert a + 1
    return a + 5
"""


def test_what_is_never_run_is_left_alone() -> None:
    lines = SOURCE.splitlines()
    found = sorted(lines[at - 1][start:end] for (at, start), (_, end) in mutants.not_code(SOURCE))
    assert found == ["assert a + 1", "if TYPE_CHECKING:"[:21], "int | None", "int | None", "int | str"]


def test_every_listed_test_is_there() -> None:
    for package, listed in mutants.TESTS.items():
        assert (ROOT / mutants.LIBRARY / package).is_dir()
        for name in listed:
            assert (ROOT / mutants.UNIT / name).exists(), name


def test_tests_that_import_the_module_come_first() -> None:
    files = mutants.tests_of("spark_jobs/hoodie/format/bloom.py", ROOT)
    assert files[0] == "tests/unit/test_bloom.py"
    assert "tests/unit/test_schema.py" in files
    assert len(set(files)) == len(files)
    assert all((ROOT / file).is_file() for file in files)
    assert mutants.tests_of("spark_jobs/hoodie/timeline/clock.py", ROOT)[0] == "tests/unit/test_clock.py"


def test_the_table_counts_what_was_killed() -> None:
    results: list[dict[str, Any]] = [
        {"module": "spark_jobs/hoodie/read/past.py", "killer": None},
        {"module": "spark_jobs/hoodie/read/query.py", "killer": "a test"},
        {"module": "spark_jobs/hoodie/write/plan.py", "killer": "time"},
    ]
    assert list(mutants.table(results))[2:] == [
        "| read | 2 | 1 |",
        "| write | 1 | 1 |",
        "| all | 3 | 2 (66 %) |",
    ]
