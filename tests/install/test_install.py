"""The install lines of the README work as they are: a wheel of this checkout, in clean environments.

Packages have the versions of the lock, so that no release of another project changes what a commit gives, but
those of Spark: that they come in one version is what is tested.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib

from scripts.environment import ROOT
from scripts.fresh_machine import copy_checkout
from scripts.setup import pinned
from tests.conftest import require
from tests.house.test_docs import blocks
from tests.support.clean_environment import CleanEnvironment

[LINES] = (text.splitlines() for text in blocks(ROOT / "README.md", "bash") if "pip install" in text)
BUILD = LINES[0]
EXTRAS = {
    extra: line
    for line in LINES[1:]
    if (named := re.search(r"\[([\w,-]+)\]\"", line))
    for extra in named[1].split(",")
}
KEY = "hoodie.datasource.write.recordkey.field=id"
LIMIT_S = 400
UPSERT = f"hoodie upsert --table lake/orders --source orders.csv --option {KEY}"


def constraints() -> str:
    locked = pinned(ROOT / "requirements" / "dev.lock")
    return "\n".join(line for line in locked if not line.startswith("pyspark")) + "\n"


class Place(CleanEnvironment):
    """A copy of the checkout; commands are lines of a shell."""

    def __init__(self, folder: Path) -> None:
        copy_checkout(folder / "checkout", without=("tests/",))
        base = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
        subprocess.run([base, "-m", "venv", folder / "env"], check=True)
        (folder / "constraints.txt").write_text(constraints())
        pip = {"PIP_CONSTRAINT": str(folder / "constraints.txt"), "PIP_NO_COMPILE": "1"}
        super().__init__(folder, folder / "checkout", LIMIT_S, **pip)

    def line(self, text: str) -> str:
        return self.run("bash", "-euc", text)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """One in which the README's first line made the wheel."""
    made = Place(tmp_path)
    probe = "python -m pip download --quiet --no-deps --dest probe hatchling"
    reached = subprocess.run(["bash", "-c", probe], cwd=made.folder, env=made.environ, check=False)
    require(reached.returncode == 0, "no package index")
    made.line(BUILD)
    return made


def test_the_readme_has_a_line_for_each_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(extras)
    assert set(EXTRAS.values()) == set(LINES[1:])


@pytest.mark.full
@pytest.mark.slow
def test_local(place: Place) -> None:
    place.line(EXTRAS["local"])
    assert "usage: hoodie" in place.line("hoodie --help")
    place.line(UPSERT)
    assert "3.5" in place.line("hoodie read --table lake/orders --where 'id = 2'")


@pytest.mark.full
@pytest.mark.slow
def test_servers(place: Place) -> None:
    place.line(EXTRAS["hbase"])
    place.line("python -c 'import boto3, happybase, kazoo, thriftpy2'")


@pytest.mark.full
@pytest.mark.slow
def test_object_stores(place: Place) -> None:
    place.line(EXTRAS["s3"])
    place.line("python -c 'import obstore'")


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.spark
def test_spark(place: Place) -> None:
    place.line(EXTRAS["spark"])
    place.line(f"{UPSERT} --engine spark --master 'local[1]'")
    assert "hoodie_commit_time" in place.line("hoodie read --table lake/orders --json").replace(
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
    place.line(EXTRAS["airflow"])
    assert "airflow-hoodie" in place.line("airflow providers list --output plain")
    assert "hoodie_commits" in place.line("airflow plugins --output plain")
    place.line("python -c 'import airflow_hoodie as a; [getattr(a, name) for name in a.__all__]'")
    (place.folder / "services.py").write_text(SERVICES)
    said = place.line('python services.py "$PWD/lake/mine" "$PWD/orders.csv"')
    assert "DONE created created committed restored " in said


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.airflow
@pytest.mark.spark
def test_airflow_and_spark_on_one_machine(place: Place) -> None:
    """pyspark and pyspark-client share a folder."""
    place.line(EXTRAS["airflow"].replace("[airflow]", "[airflow,spark]"))
    versions = place.line("pip list --format freeze | grep -i ^pyspark").split()
    assert len(versions) == 2
    assert len({line.rpartition("=")[2] for line in versions}) == 1
    assert "write the same files" not in place.line("hoodie doctor")
    place.line(f"{UPSERT} --engine spark --master 'local[1]'")


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.airflow
def test_lineage(place: Place) -> None:
    # Google's packages want older releases than the constraints have: tests/airflow/test_dataproc.py
    place.line(EXTRAS["openlineage"].replace(",dataproc", ""))
    place.line("python -c 'import airflow_hoodie.lineage_facets'")
    place.line("python -m pip check")
