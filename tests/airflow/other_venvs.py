"""Tests that run in an environment of their own, by its Python."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from scripts.environment import ROOT, interpreter, spark_environment
from tests.conftest import require


def printed_in(venv: Path, part: str, *arguments: str, home: Path) -> str:
    """What the environment's Python prints. `part`: of scripts/setup, which makes it."""
    require(interpreter(venv).exists(), f"no {venv.name}: scripts/setup {part} makes it")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "AIRFLOW"))}
    done = subprocess.run(
        [str(interpreter(venv)), *arguments],
        cwd=ROOT,
        env={**own, **spark_environment(venv), "AIRFLOW_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return done.stdout


def check_tests_in(venv: Path, part: str, tests: Sequence[str], home: Path) -> None:
    """All pass there, and none is skipped."""
    # warnings of Airflow's own providers are no errors
    options = ("-q", "-m", "full or not full", "-p", "no:cacheprovider", "-W", "default")
    found = printed_in(
        venv, part, "-m", "pytest", *options, f"--basetemp={home / 'tests'}", *tests, home=home
    )
    assert " passed" in found
    assert " skipped" not in found.splitlines()[-1]
