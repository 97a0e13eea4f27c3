"""The wheel holds what it should, and the locks hold nothing that ties them to one machine."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import tomllib
from packaging.requirements import Requirement

from scripts.environment import ROOT

LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
PYTHON_LOCKS = [lock for lock in LOCKS if lock.name != "jars.lock"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [path] = folder.glob("airflow_hoodie-*-py3-none-any.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_both_packages_their_docs_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    expected = {
        str(file.relative_to(home))
        for home, package in ((ROOT, "airflow_hoodie"), (ROOT / "spark_jobs", "hoodie"))
        for file in (home / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    expected |= {f"airflow_hoodie/docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == expected
    assert {"hoodie/py.typed", "airflow_hoodie/py.typed", "hoodie/serve/static/index.html"} <= held


def test_the_wheel_declares_its_entry_points(wheel: zipfile.ZipFile) -> None:
    [name] = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    entries = configparser.ConfigParser()
    entries.read_string(wheel.read(name).decode())
    assert entries["console_scripts"]["hoodie"] == "hoodie.cli:main"
    provider = entries["apache_airflow_provider"]["provider_info"]
    assert provider == "airflow_hoodie.get_provider_info:get_provider_info"
    assert dict(entries["airflow.plugins"]) == {
        "hoodie_commits": "airflow_hoodie.plugins.commits:HoodieCommitsPlugin",
        "hoodie_timeline": "airflow_hoodie.plugins.timeline:HoodieTimelinePlugin",
    }


def test_the_wheel_needs_nothing_but_its_extras(wheel: zipfile.ZipFile) -> None:
    [name] = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    required = re.findall(r"^Requires-Dist: (.*)$", wheel.read(name).decode(), flags=re.MULTILINE)
    assert [line for line in required if "extra ==" not in line] == []


def test_what_privates_are_used_of_is_bounded_to_tested_versions() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = {item.name: item.specifier for extra in extras.values() for item in map(Requirement, extra)}
    bounded = {name for name, versions in wanted.items() if any(each.operator == "<" for each in versions)}
    assert bounded >= {"apache-airflow", "apache-airflow-providers-apache-spark", "pyspark"}
    for lock in ("dev.lock", "hudi.lock"):
        text = (ROOT / "requirements" / lock).read_text()
        for name, version in re.findall(r"^([\w.-]+)==(\S+) ", text, flags=re.MULTILINE):
            assert name not in wanted or wanted[name].contains(version), f"{lock}: {name} {version}"


@pytest.mark.parametrize("lock", PYTHON_LOCKS, ids=lambda lock: lock.name)
def test_every_locked_requirement_has_a_hash(lock: Path) -> None:
    entries = lock.read_text().replace("\\\n", "").splitlines()
    requirements = [line for line in entries if line and not line.lstrip().startswith("#")]
    assert requirements
    assert [line for line in requirements if not re.match(r"[\w.-]+==\S+ .*--hash=sha256:", line)] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_locks_name_no_place(lock: Path) -> None:
    assert re.findall(r"https?://|file:|-url|find-links|(?<!\w)/\w+/", lock.read_text()) == []


@pytest.mark.parametrize("lock", PYTHON_LOCKS, ids=lambda lock: lock.name)
def test_what_is_pinned_by_hand_is_locked_so(lock: Path) -> None:
    pins = re.findall(r"^([\w.-]+==\S+)$", lock.with_suffix(".in").read_text(), flags=re.MULTILINE)
    locked = set(re.findall(r"^([\w.-]+==\S+) ", lock.read_text(), flags=re.MULTILINE))
    assert set(pins) <= locked
