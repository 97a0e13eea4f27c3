"""Wheel and sdist with every extra work in clean environments, on the oldest Python and newer ones.

docs/compatibility.md has the table. A Python that is not on this machine is left out.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomllib

from scripts.environment import ROOT
from scripts.setup import find_uv
from tests.conftest import require
from tests.house.test_walls import GLUE, HOODIE
from tests.support.clean_environment import CleanEnvironment
from tests.support.parsed import parsed

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if ":: Python :: 3." in line]
#: extras whose packages need a later Python
LATER = {"3.10": {"airflow", "databricks", "dataproc", "emr", "livy", "openlineage"}}
#: those that no constraints have: tests/airflow/test_dataproc.py
APART = {"dataproc"}
#: what `typing` has only since Python 3.11 and later
NEW_IN_TYPING = {
    *("LiteralString", "Never", "NotRequired", "ReadOnly", "Required", "Self", "TypeAliasType", "TypeIs"),
    *("TypeVarTuple", "Unpack", "assert_never", "assert_type", "dataclass_transform", "override"),
}
IMPORTS = """
import boto3, confluent_kafka, duckdb, happybase, kazoo, obstore, pulsar, sqlglot, thriftpy2
import hoodie, hoodie.spark
[getattr(hoodie, name) for name in hoodie.__all__]
print(hoodie.__version__)
"""
AIRFLOW = """
import airflow_hoodie, airflow_hoodie.lineage_facets
import airflow.providers.amazon.aws.hooks.emr
import airflow.providers.apache.livy.hooks.livy
import airflow.providers.databricks.hooks.databricks
[getattr(airflow_hoodie, name) for name in airflow_hoodie.__all__]
"""
LIMIT_S = 900


def interpreter(version: str) -> Path | None:
    """One of this version on PATH, or beside the one that runs the tests."""
    found = [Path(path) for path in (shutil.which(f"python{version}"),) if path]
    found += sorted(Path(sys.base_prefix).parent.glob(f"{version}.*/bin/python{version}"))
    for path in found:
        if subprocess.run([path, "-c", "import venv"], check=False, capture_output=True).returncode == 0:
            return path
    return None


class Machine(CleanEnvironment):
    """Made by uv, in an empty folder."""

    def __init__(self, folder: Path, python: Path, uv: Path) -> None:
        super().__init__(folder, folder, LIMIT_S, SPARK_LOCAL_IP="127.0.0.1")
        self._uv = uv
        self.run(uv, "venv", "--quiet", "--python", python, self.env)

    def install(self, package: Path, extras: set[str], constraints: Path) -> None:
        wanted = f"{package}[{','.join(sorted(extras))}]"
        where = ("--python", self.env / "bin" / "python", "--constraint", constraints)
        build = ("--build-constraints", ROOT / "requirements" / "build.lock")
        self.run(self._uv, "pip", "install", "--quiet", *where, *build, wanted)


def test_the_package_has_what_its_oldest_python_has() -> None:
    """`typing` of Python 3.10: later names are for type checkers alone."""
    found = [
        f"{path.relative_to(ROOT)}: {alias.name}"
        for folder in (HOODIE, GLUE)
        for path in folder.rglob("*.py")
        if any(name in path.read_text() for name in NEW_IN_TYPING)
        for node in imports(parsed(path))
        if node.module == "typing"
        for alias in node.names
        if alias.name in NEW_IN_TYPING
    ]
    assert found == []
    assert PYTHONS[0] == "3.10"


def imports(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    """Those that are carried out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))


def test_the_table_has_each_python() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text()
    [head] = re.findall(r"^\| extra \|(.*)\|$", page, flags=re.MULTILINE)
    assert [cell.strip() for cell in head.split("|")] == PYTHONS
    rows = dict(re.findall(r"^\| ((?:`\w[\w-]*`(?:, )?)+) \|(.*)\|$", page, flags=re.MULTILINE))
    listed = {name: cells for names, cells in rows.items() for name in re.findall(r"`([\w-]+)`", names)}
    assert set(listed) == set(PROJECT["optional-dependencies"])
    for name, cells in listed.items():
        for python, cell in zip(PYTHONS, cells.split("|"), strict=True):
            assert (name in LATER.get(python, ())) == (cell.strip() == "no"), (name, python)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("package", ["3.10-sdist", "3.12-wheel", "3.13-wheel", "3.14-wheel"])
def test_every_extra_on(package: str, tmp_path: Path) -> None:
    python, _, kind = package.partition("-")
    found, uv = interpreter(python), find_uv()
    if found is None:
        pytest.skip(f"no Python {python} on this machine")
    require(uv is not None, "no uv")
    assert uv is not None
    line = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(tmp_path / "dist")]
    subprocess.run(line, cwd=ROOT, check=True, capture_output=True)
    [built] = (tmp_path / "dist").iterdir()
    machine = Machine(tmp_path, found, uv)
    extras = set(PROJECT["optional-dependencies"]) - LATER.get(python, set()) - APART
    name = f"airflow-3.3-python-{python}" if "airflow" in extras else f"python-{python}"
    machine.install(built, extras, ROOT / "requirements" / "constraints" / f"{name}.txt")
    version = machine.run("python", "-c", IMPORTS).strip()
    assert f"-{version}" in built.name
    assert machine.run("hoodie", "--version") == f"hoodie {version}\n"
    upsert = ("hoodie", "upsert", "lake/orders", "--source", "orders.csv", "--key", "id")
    machine.run(*upsert)
    assert "3.5" in machine.run("hoodie", "read", "lake/orders", "--where", "id = 2")
    machine.run(*upsert, "--engine", "spark", "--master", "local[1]")
    said = machine.run("hoodie", "sql", "select count(*) from t where amount > 3", "--table", "t=lake/orders")
    assert said.split()[2] == "1"
    if "airflow" in extras:
        machine.run("python", "-c", AIRFLOW)
        assert "airflow-hoodie" in machine.run("airflow", "providers", "list", "--output", "plain")
