"""The install lines of the README work as they are: a wheel of this checkout, in clean environments.

Packages have the versions of the lock, so that no release of another project changes what a commit gives, but
those of Spark: that they come in one version is what is tested.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib

from scripts.environment import ROOT
from scripts.fresh_machine import copy_checkout, kept
from scripts.setup import pinned
from tests.conftest import require
from tests.house.test_docs import blocks

[LINES] = (text.splitlines() for text in blocks(ROOT / "README.md", "bash") if "pip install" in text)
BUILD = LINES[0]
EXTRAS = {
    extra: line
    for line in LINES[1:]
    if (named := re.search(r"\[([\w,-]+)\]\"", line))
    for extra in named[1].split(",")
}
KEY = "hoodie.datasource.write.recordkey.field=id"
#: what a command may take: an index that answers slowly, or an installer that searches, fails the test
LIMIT_S = 400
UPSERT = f"hoodie upsert --table lake/orders --source orders.csv --option {KEY}"


def constraints() -> str:
    locked = pinned(ROOT / "requirements" / "dev.lock")
    return "\n".join(line for line in locked if not line.startswith("pyspark")) + "\n"


class Place:
    """A copy of the checkout and a clean environment, whose commands come first on PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        copy_checkout(self.folder, without=("tests/",))
        base = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
        subprocess.run([base, "-m", "venv", folder / "env"], check=True)
        (folder / "constraints.txt").write_text(constraints())
        self.environ = {
            **kept(),
            **{name: os.environ[name] for name in ("HOME", "JAVA_HOME") if name in os.environ},
            "PATH": f"{folder / 'env' / 'bin'}:{os.environ['PATH']}",
            "AIRFLOW_HOME": str(folder / "airflow"),
            "PIP_CONSTRAINT": str(folder / "constraints.txt"),
            "PIP_NO_COMPILE": "1",
        }
        (self.folder / "orders.csv").write_text("id,amount\n1,2.5\n2,3.5\n")

    def run(self, line: str) -> str:
        command = ["bash", "-euc", line]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """One in which the README's first line made the wheel."""
    made = Place(tmp_path)
    probe = "python -m pip download --quiet --no-deps --dest probe hatchling"
    reached = subprocess.run(["bash", "-c", probe], cwd=made.folder, env=made.environ, check=False)
    require(reached.returncode == 0, "no package index")
    made.run(BUILD)
    return made


def test_the_readme_has_a_line_for_each_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(extras)
    assert set(EXTRAS.values()) == set(LINES[1:])


@pytest.mark.full
@pytest.mark.slow
def test_local(place: Place) -> None:
    place.run(EXTRAS["local"])
    assert "usage: hoodie" in place.run("hoodie --help")
    place.run(UPSERT)
    assert "3.5" in place.run("hoodie read --table lake/orders --where 'id = 2'")


@pytest.mark.full
@pytest.mark.slow
def test_servers(place: Place) -> None:
    place.run(EXTRAS["hbase"])
    place.run("python -c 'import boto3, happybase, kazoo, thriftpy2'")


@pytest.mark.full
@pytest.mark.slow
def test_object_stores(place: Place) -> None:
    place.run(EXTRAS["s3"])
    place.run("python -c 'import obstore'")


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.spark
def test_spark(place: Place) -> None:
    place.run(EXTRAS["spark"])
    place.run(f"{UPSERT} --engine spark --master 'local[1]'")
    assert "hoodie_commit_time" in place.run("hoodie read --table lake/orders --json").replace(
        "_hoodie", "hoodie"
    )


#: a table is made, and what needs no Spark runs on it
SERVICES = """
import sys
from airflow_hoodie import *

path, source = sys.argv[1:]
common = {"task_id": "t", "table": HoodieTable(name="orders", path=path, record_keys="id")}
first = UpsertOperator(**common, source=source, engine="local").execute({})
tasks = [
    SavepointOperator(**common, user="me", comments="none"),
    IndexOperator(**common, mode="create", indexes="column_stats"),
    DeleteOperator(**common, source=source, engine="local"),
    RestoreOperator(**common, instant=first["instant"]),
    CleanOperator(**common),
    ArchiveOperator(**common),
    MaintenanceOperator(**common, engine="local"),
]
print("DONE", *(task.execute({})["status"] for task in tasks))
"""


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.airflow
def test_airflow_alone_runs_what_needs_no_spark(place: Place) -> None:
    place.run(EXTRAS["airflow"])
    assert "airflow-hoodie" in place.run("airflow providers list --output plain")
    assert "hoodie_commits" in place.run("airflow plugins --output plain")
    place.run("python -c 'import airflow_hoodie as a; [getattr(a, name) for name in a.__all__]'")
    (place.folder / "services.py").write_text(SERVICES)
    said = place.run('python services.py "$PWD/lake/mine" "$PWD/orders.csv"')
    assert "DONE created created committed restored " in said


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.airflow
@pytest.mark.spark
def test_airflow_and_spark_on_one_machine(place: Place) -> None:
    """pyspark and pyspark-client share a folder."""
    place.run(EXTRAS["airflow"].replace("[airflow]", "[airflow,spark]"))
    versions = place.run("pip list --format freeze | grep -i ^pyspark").split()
    assert len(versions) == 2
    assert len({line.rpartition("=")[2] for line in versions}) == 1
    assert "write the same files" not in place.run("hoodie doctor")
    place.run(f"{UPSERT} --engine spark --master 'local[1]'")


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.airflow
def test_lineage(place: Place) -> None:
    place.run(EXTRAS["openlineage"])
    place.run("python -c 'import airflow_hoodie.lineage_facets'")
    place.run("python -m pip check")
