"""`hoodie bundle --with-dependencies`: a job on a cluster whose Python has no packages at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

import hoodie
from scripts.environment import ROOT
from scripts.setup import find_uv
from tests.conftest import require
from tests.support.cluster import cluster

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.spark]

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


def bundled(folder: Path, uv: Path) -> dict[str, Any]:
    """What the command says, with uv on PATH and the versions of the constraints."""
    constraints = ROOT / "requirements" / "constraints" / f"airflow-3.3-python-{PYTHON}.txt"
    command = [sys.executable, "-m", "hoodie.cli", "bundle", str(folder), "--with-dependencies", "--json"]
    done = subprocess.run(
        [*command, "--platform", "manylinux_2_28_x86_64", "--constraint", str(constraints)],
        env={**os.environ, "PATH": f"{uv.parent.absolute()}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def bare(folder: Path) -> Path:
    """The commands of a Python without packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    for package in ("pyarrow", "hoodie"):
        line: list[str | Path] = [folder / "bin" / f"python{PYTHON}", "-E", "-c", f"import {package}"]
        assert subprocess.run(line, check=False, capture_output=True).returncode == 1
    return folder / "bin"


def submitted(folder: Path, made: dict[str, Any]) -> dict[str, Any]:
    """The result of an upsert on a cluster of that Python, whose driver has the unpacked archive."""
    (folder / "orders.csv").write_text("id,region,amount\n1,eu,2.5\n2,us,3.5\n")
    keys = {"recordkey.field": "id", "partitionpath.field": "region"}
    options = {f"hoodie.datasource.write.{name}": value for name, value in keys.items()}
    request = {
        "table": str(folder / "orders"),
        "source": str(folder / "orders.csv"),
        "options": {**options, "hoodie.spark.driver.max.bytes": "0"},  # executors have work
    }
    with tarfile.open(made["archive"]) as archive:
        archive.extractall(folder / "driver", filter="tar")
    pythons = {
        "PYSPARK_PYTHON": "./environment/bin/python",
        "PYSPARK_DRIVER_PYTHON": str(folder / "driver" / "bin" / "python"),
    }
    with cluster(folder / "cluster", Path(sys.executable), 1) as spark:
        command = spark.submit(
            Path(made["script"]),
            *("upsert", "--request", json.dumps(request)),
            zipped=Path(made["py_files"]),
            conf={"spark.archives": f"{made['archive']}#environment"},
        )
        environ = {**spark.environment, **pythons}
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    [line] = [line for line in done.stdout.splitlines() if line.startswith("HOODIE_RESULT")] or [
        done.stdout[-3000:] + done.stderr[-6000:]
    ]
    found: dict[str, Any] = json.loads(line.partition(" ")[2])
    return found


def test_a_cluster_without_packages_runs_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = find_uv()
    require("SPARK_HOME" in os.environ and uv, "no SPARK_HOME, or no uv")
    assert uv is not None
    made = bundled(tmp_path, uv)
    monkeypatch.setenv("PATH", f"{bare(tmp_path / 'bare')}:{os.environ['PATH']}")
    result = submitted(tmp_path, made)
    assert (result["status"], result["num_inserts"]) == ("committed", 2)
    assert hoodie.read_table(str(tmp_path / "orders"), columns=["amount"]).num_rows == 2
