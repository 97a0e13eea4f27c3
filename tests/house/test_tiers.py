"""The tiers of the suite: what CI prints last, and what a share runs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.closing_line import total
from scripts.environment import ROOT
from tests.support.tiers import ALWAYS

SAMPLE = """
import pytest

@pytest.mark.parametrize("number", range(40))
def test_it(number):
    with open({notes!r}, "a") as file:
        print(number, file=file)
"""


def test_the_closing_line_is_the_sum_of_both_runs() -> None:
    fast = "10 passed in 1s\n== 1 failed, 4113 passed, 1 skipped, 3 deselected in 540.44s (0:09:00) ==\n"
    share = "== 1236 passed, 1 error, 23 xfailed, 4114 deselected in 1637.03s (0:27:17) ==\nexit code 1\n"
    assert total([fast, share]).strip("= ") == (
        "1 failed, 1 error, 5349 passed, 1 skipped, 23 xfailed in 2177.47s (0:36:17)"
    )


def test_a_share_without_tests_adds_nothing() -> None:
    assert (
        total(["7 passed in 2.50s\n", "no tests ran in 0.50s\n"]).strip("= ") == "7 passed in 3.00s (0:00:03)"
    )


def test_a_run_that_ended_early_is_a_failure() -> None:
    said = total(["7 passed in 2.50s\n", "Killed\n"])
    assert "a run ended before pytest did\n" in said
    assert "1 error, 7 passed in 2.50s" in said


DYING = """
import os, time
import pytest

ENDS = time.time() + 6

@pytest.mark.parametrize("number", range(40))
def test_it(number):
    with open({notes!r}, "a") as file:
        print(number, file=file)
    time.sleep(max(0, ENDS - time.time()))
    os._exit(1)
"""

ORPHAN = """#!/usr/bin/env bash
sleep 300 &
echo $! >>orphans
echo "== 3 passed in 1.00s =="
exit {code}
"""


@pytest.mark.parametrize(("lint", "code"), [(0, 0), (0, 3), (1, 0)])
def test_ci_does_not_wait_for_what_tests_leave_behind(tmp_path: Path, lint: int, code: int) -> None:
    """... which holds the output of the tests; these run where lint fails, too."""
    for name in (".ci/run", "scripts/closing_line.py", "scripts/common.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "scripts/test").write_text(ORPHAN.format(code=code))
    (tmp_path / "scripts/lint").write_text(f"#!/bin/sh\necho styled\nexit {lint}\n")
    for name in ("test", "lint"):
        (tmp_path / "scripts" / name).chmod(0o755)
    (tmp_path / "Makefile").write_text("test:\n\t@scripts/test\n")
    try:
        command = [tmp_path / ".ci/run"]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=60)
    finally:
        for pid in (tmp_path / "orphans").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
    of_tests = code and 2 if shutil.which("make") else code
    assert run.returncode == (lint or of_tests), run.stdout
    assert "styled\n" in run.stdout
    assert run.stdout.count("== 3 passed in 1.00s ==\n") == 2, run.stdout
    assert run.stdout.splitlines()[-1].strip("= ") == "6 passed in 2.00s (0:00:02)"


@pytest.mark.full
def test_a_day_gives_the_order_of_a_share(tmp_path: Path) -> None:
    """... which is another one on another day, and nothing starts once the time is over."""

    def numbers(*options: str) -> list[str]:
        notes.write_text("")
        line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.support.tiers"]
        run = subprocess.run(
            [*line, "--rootdir", str(tmp_path), *options, str(tmp_path)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode in (0, 5), run.stdout
        said.append(run.stdout)
        return notes.read_text().split()

    said: list[str] = []
    notes = tmp_path / "notes"
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_sample.py").write_text(SAMPLE.format(notes=str(notes)))
    once = numbers("--share", "2026-11-27")
    assert sorted(once, key=int) == [str(number) for number in range(40)]
    assert once == numbers("--share", "2026-11-27", "--minutes", "5") != numbers("--share", "2026-11-28")
    assert numbers("--share", "2026-11-27", "--minutes", "0", "-n", "2") == []
    assert "40 cases are left to shares of other days" in said[-1]


@pytest.mark.full
def test_a_worker_that_takes_the_place_of_a_dead_one_has_no_more_time(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.touch()
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_sample.py").write_text(DYING.format(notes=str(notes)))
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.support.tiers"]
    options = ["--rootdir", str(tmp_path), "--share", "2026-11-27", "--minutes", "0.1", "-n", "1"]
    run = subprocess.run(
        [*line, *options, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert len(notes.read_text().split()) <= 1, run.stdout


@pytest.mark.full
def test_each_share_begins_with_real_hudi_and_spark() -> None:
    always = {nodeid for group in ALWAYS.values() for nodeid in group}
    files = sorted({nodeid.partition("::")[0] for nodeid in always})
    options = ["-q", "-p", "no:cacheprovider", "--collect-only", "-m", "full", "--share", "2026-11-27"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    listed = [line for line in run.stdout.splitlines() if "::" in line]
    assert set(listed[: len(always)]) == always, run.stdout
    assert len(listed) > len(always)


def test_the_page_lists_what_is_in_the_full_tier() -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    marks = ("mark.full", "full_but(", "crossed_but(")
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    marked = {
        name
        for name in files
        if name != "tests/house/test_tiers.py" and any(mark in (ROOT / name).read_text() for mark in marks)
    }
    listed = set(re.findall(r"^\| `(tests/\S+?\.py)", page, flags=re.MULTILINE))
    assert marked == listed
