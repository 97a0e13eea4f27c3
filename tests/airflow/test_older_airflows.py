"""The provider on the Airflows before the newest: tests of its tasks, run by each one's own environment."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from scripts.environment import AIRFLOWS, ROOT, interpreter, spark_environment
from tests.conftest import require

#: what holds on every Airflow; tests of what only the newest one has are in other files
FILES = (
    "test_dags_examples",
    "test_operators",
)


@pytest.mark.full
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("version", AIRFLOWS)
def test_tasks_on_an_older_airflow(version: str, file: str, tmp_path: Path) -> None:
    venv = AIRFLOWS[version]
    require(interpreter(venv).exists(), f"no {venv.name}: scripts/setup airflows makes it")
    # the last of them: Airflow's own words on what its providers import
    options = ("-m", "full or not full", "-p", "no:cacheprovider", "-W", "ignore:The `airflow.:FutureWarning")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "AIRFLOW"))}
    done = subprocess.run(
        [
            *(str(interpreter(venv)), "-m", "pytest", "-q", *options),
            *(f"--basetemp={tmp_path / 'tests'}", f"tests/airflow/{file}.py"),
        ],
        cwd=ROOT,
        env={**own, **spark_environment(venv)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
