"""The walls hold at run time: what may be missing is made missing, and every module still imports."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from scripts.environment import ROOT

HOODIE = ROOT / "spark_jobs" / "hoodie"
GLUE = ROOT / "airflow_hoodie"
SPARK_MODULES = {"hoodie.engine.spark", "hoodie.spark"}
LOW_RINGS = (
    "hoodie.mask",
    "hoodie.errors",
    "hoodie.config",
    "hoodie.storage",
    "hoodie.timeline",
    "hoodie.source.fingerprint",
    "hoodie.table.handle",
    "hoodie.table.properties",
    "hoodie.serve",
)
DATA = ("pyspark", "pyarrow", "numpy", "pandas", "fastavro", "duckdb", "obstore")

BLOCK = """
import importlib, sys
blocked, modules = sys.argv[1].split(","), sys.argv[2].split(",")

class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, Wall())
for module in modules:
    try:
        importlib.import_module(module)
    except Exception as error:
        print(f"{module}: {type(error).__name__}: {error}")
"""


def modules(package: Path) -> Iterator[str]:
    """The dotted names of all modules of a package, as they are imported; not of a `__main__`, which runs."""
    for file in sorted(set(package.rglob("*.py")) - set(package.rglob("__main__.py"))):
        parts = file.relative_to(package.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def failures(names: Sequence[str], blocked: Sequence[str], home: Path) -> list[str]:
    """What fails when the modules are imported, one after another, in a process where others cannot be."""
    of_airflow = "ignore:FileType is deprecated:PendingDeprecationWarning"  # on Python 3.14
    command = [sys.executable, "-W", of_airflow, "-c", BLOCK, ",".join(blocked), ",".join(names)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=home)
    return run.stdout.splitlines()


def test_a_blocked_import_is_seen(tmp_path: Path) -> None:
    assert failures(["json", "numpy"], ["numpy"], tmp_path) == [
        "numpy: ModuleNotFoundError: numpy is blocked"
    ]


def test_hoodie_imports_without_airflow_and_pyspark(tmp_path: Path) -> None:
    """One process has neither; of the modules for Spark pyspark is wanted."""
    names, airflow = list(modules(HOODIE)), ["airflow", "airflow_hoodie"]
    of_spark = [name for name in names if name.startswith(tuple(SPARK_MODULES))]
    assert of_spark
    others = [name for name in names if name not in of_spark]
    assert failures(others, [*airflow, "pyspark", "py4j"], tmp_path) == []
    assert failures(of_spark, airflow, tmp_path) == []


def test_low_rings_need_the_standard_library_only(tmp_path: Path) -> None:
    names = [name for name in modules(HOODIE) if any(f"{name}.".startswith(f"{ring}.") for ring in LOW_RINGS)]
    gone = set(LOW_RINGS) - set(names)
    assert not gone, f"{gone} are not there; are the low rings still these?"
    assert failures(names, DATA, tmp_path) == []


@pytest.mark.airflow
def test_airflow_glue_imports_without_spark_and_arrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    assert failures(list(modules(GLUE)), ["pyspark", "pyarrow"], tmp_path) == []
