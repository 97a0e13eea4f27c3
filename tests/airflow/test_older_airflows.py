"""The provider on the Airflows before the newest: tests of its tasks, run by each one's own environment."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from scripts.environment import AIRFLOWS, ROOT, interpreter, spark_environment
from tests.conftest import require

#: what holds on every Airflow; tests of what only the newest one has are in other files
FILES = ("test_exceptions", "test_operators", "test_sensor", "test_service_operators", "test_table")
#: says which public names can't be imported, and why
IMPORTS = """
import airflow_hoodie
for name in airflow_hoodie.__all__:
    try:
        getattr(airflow_hoodie, name)
    except Exception as error:
        print("lacks", name, type(error).__name__, error, sep="|")
"""


def older(version: str, *arguments: str, home: Path) -> str:
    """What this Airflow's Python prints."""
    venv = AIRFLOWS[version]
    require(interpreter(venv).exists(), f"no {venv.name}: scripts/setup airflows makes it")
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


@pytest.mark.full
@pytest.mark.parametrize("version", AIRFLOWS)
def test_public_names_on_an_older_airflow(version: str, tmp_path: Path) -> None:
    lines = older(version, "-c", IMPORTS, home=tmp_path).splitlines()
    found = [line.split("|") for line in lines if line.startswith("lacks|")]
    assert [name for _, name, *_ in found] == ["HOODIE_RETRIES", "CommitEventTrigger", "HoodieRetryPolicy"]
    for _, _, kind, text in found:
        assert kind == "AirflowOptionalProviderFeatureException"
        assert f"needs Airflow 3.3 or later, and this is {version}." in text


@pytest.mark.full
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("version", AIRFLOWS)
def test_tasks_on_an_older_airflow(version: str, file: str, tmp_path: Path) -> None:
    # warnings of Airflow's own providers are no errors
    options = ("-q", "-m", "full or not full", "-p", "no:cacheprovider", "-W", "default")
    folder = f"--basetemp={tmp_path / 'tests'}"
    found = older(version, "-m", "pytest", *options, folder, f"tests/airflow/{file}.py", home=tmp_path)
    assert " passed" in found
