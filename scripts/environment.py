"""Where the development environments and a Java for Spark are. Standard library only: set-up runs it first.

As a script it prints `export` lines of the main environment: `eval "$(python3 scripts/environment.py)"`.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAIN = ROOT / ".venv"
HUDI = ROOT / ".venv-hudi"
MUTANTS = ROOT / ".venv-mutants"
DATAPROC = ROOT / ".venv-dataproc"
DOCS = ROOT / ".venv-docs"
RELEASE = ROOT / ".venv-release"
#: older Airflows that the provider works on
AIRFLOWS = {version: ROOT / f".venv-airflow-{version}" for version in ("3.1", "3.2")}
TOOLS = ROOT / ".uv"
PACKAGED_JAVA = ROOT / ".cache" / "java-17"
JAVA = 17
#: commands of the browsers that the tests of pages can drive
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def interpreter(venv: Path) -> Path:
    return venv / "bin" / "python"


def maven_repository() -> Path:
    """The local Maven repository, where the set-up puts jars and the tests look for them."""
    return Path(os.environ.get("MAVEN_REPO_LOCAL") or Path.home() / ".m2" / "repository")


def browser() -> str | None:
    """A Chromium on PATH."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


@functools.cache
def java_version(java: str) -> int | None:
    """The major version of a java executable; None where it does not run."""
    try:
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', run.stderr + run.stdout)
    return int(found[1]) if found and run.returncode == 0 else None


def spark_java(environ: Mapping[str, str] = os.environ) -> str | None:
    """The java that Spark's launcher would start: JAVA_HOME's, else the one on PATH."""
    home = environ.get("JAVA_HOME")
    if home:
        return str(Path(home) / "bin" / "java")
    return shutil.which("java", path=environ.get("PATH"))


def java_fits(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether Spark would start a Java 17, the one version that Spark 3.5 and 4 both run Arrow steps on."""
    java = spark_java(environ)
    return java is not None and java_version(java) == JAVA


def spark_environment(venv: Path = MAIN) -> dict[str, str]:
    """Variables with which a venv's pyspark finds itself, its Python and its Java, on loopback and in UTC.

    JAVA_HOME is among them only where the machine's own Java is not fit and the set-up made one.
    """
    python = str(interpreter(venv))
    variables = {
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TZ": "UTC",
    }
    for spark in sorted(venv.glob("lib/python3*/site-packages/pyspark")):
        variables["SPARK_HOME"] = str(spark)
    if not java_fits() and (PACKAGED_JAVA / "bin" / "java").exists():
        variables["JAVA_HOME"] = str(PACKAGED_JAVA)
    return variables


if __name__ == "__main__":
    for name, value in spark_environment().items():
        print(f"export {name}={shlex.quote(value)}")
