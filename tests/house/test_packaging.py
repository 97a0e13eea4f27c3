"""The wheel holds what it should, and the locks hold nothing that ties them to one machine."""

from __future__ import annotations

import configparser
import importlib.metadata
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import tomllib
from packaging.requirements import Requirement
from packaging.version import Version

import hoodie
from hoodie.cli.command import main
from hoodie.deprecation import DEPRECATED
from scripts.environment import ROOT
from scripts.public_api import releases

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


RELEASES = """# Changelog

## Unreleased

Nothing.

## 0.2.0 (2027-01-05)

More.

## 0.1.0 (2026-12-01)

The first.
"""


def tagged_releases() -> set[str]:
    """By the tags of this checkout, which may have none."""
    done = subprocess.run(["git", "tag", "--list", "v[0-9]*"], cwd=ROOT, capture_output=True, text=True)
    return {tag.removeprefix("v") for tag in done.stdout.split()}


def test_the_changelog_has_a_section_for_each_release() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    titles = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    listed = releases(text)
    assert titles[0] == "Unreleased"
    assert [title.partition(" (")[0] for title in titles[1:]] == listed
    assert listed == sorted(listed, key=Version, reverse=True)
    assert tagged_releases() <= {*listed}
    assert releases(RELEASES) == ["0.2.0", "0.1.0"]


def test_the_next_release_is_what_a_checkout_without_git_is_of() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["version"]
    following = Version(build["fallback-version"])
    assert following.is_devrelease
    listed = releases((ROOT / "CHANGELOG.md").read_text())
    assert not listed or Version(listed[0]) < following
    assert all(Version(each.since) <= Version(following.base_version) for each in DEPRECATED)


def version(folder: Path) -> str:
    """What a build of this folder would be called."""
    line = [sys.executable, "-m", "hatchling", "version"]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def test_tags_are_versions(tmp_path: Path) -> None:
    """... in a checkout with git, in an sdist, and where there is neither, which no tag reaches."""
    checkout, copy = tmp_path / "checkout", tmp_path / "copy"
    for folder in (checkout, copy):
        (folder / "airflow_hoodie").mkdir(parents=True)
        for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
            shutil.copy(ROOT / name, folder)

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *arguments], cwd=checkout, check=True, capture_output=True)

    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    git("tag", "v7.1.0")
    git("tag", "nightly-9")
    assert version(checkout) == "7.1.0"
    line = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(line, cwd=checkout, check=True, capture_output=True)
    shutil.unpack_archive(tmp_path / "airflow_hoodie-7.1.0.tar.gz", tmp_path, filter="data")
    assert version(tmp_path / "airflow_hoodie-7.1.0") == "7.1.0"
    git("commit", "--allow-empty", "-m", "second")
    assert version(checkout).startswith("7.1.1.dev1+g")
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["version"]
    assert version(copy) == build["fallback-version"]


def test_the_package_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    installed = importlib.metadata.version("airflow-hoodie")
    assert hoodie.__version__ == installed
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"hoodie {installed}\n")
    code = "import hoodie; print(hoodie.__version__)"
    line = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, 'spark_jobs'); {code}"]
    run = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout == "0+unknown\n"


CONSTRAINTS = sorted((ROOT / "requirements" / "constraints").glob("*.txt"))


def pins(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", path.read_text(), flags=re.MULTILINE))


def test_there_are_constraints_for_each_python() -> None:
    """... of versions that the tests run with; Airflow's provider for Spark needs Python 3.11."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pythons = [line.rpartition(" ")[2] for line in project["classifiers"] if ":: Python :: 3." in line]
    dev = ROOT / "requirements" / "dev.lock"
    locked = set(re.findall(r"^([\w.-]+)==([^\s;]+)", dev.read_text(), flags=re.MULTILINE))
    for python in pythons:
        path = ROOT / "requirements" / "constraints" / f"airflow-3.3-python-{python}.txt"
        if python == "3.10":
            path = path.with_name("python-3.10.txt")
        found = pins(path)
        wanted = {
            item.name
            for extra, items in project["optional-dependencies"].items()
            for item in map(Requirement, items)
            if extra != "dataproc"  # has an environment of its own
        }
        wanted = {name.lower().replace("_", "-") for name in wanted}
        if python == "3.10":
            wanted -= {
                name for name in wanted if name.startswith("apache-airflow") or name == "pyspark-client"
            }
        else:
            assert found["apache-airflow"].startswith("3.3.")
            assert set(found.items()) <= locked
        assert wanted <= set(found)
    assert len(CONSTRAINTS) == len(pythons)
