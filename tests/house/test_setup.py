"""The set-up: the Pythons that it takes, the packaged Java and when it is needed, a browser."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib

from scripts import environment, setup
from scripts.environment import ROOT, java_fits, java_version
from tests.conftest import require

LOCKING = (ROOT / "scripts" / "lock").read_text().replace("\\\n", "")
#: a program that runs its argument as a Python of another version would
AS_OF = "import sys; sys.version_info = tuple(map(int, '{}'.split('.'))); exec(sys.argv[1])"


def fake_java(home: Path, script: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("banner", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ("no such thing", None),
    ],
)
def test_java_version(banner: str, major: int | None, tmp_path: Path) -> None:
    assert java_version(str(fake_java(tmp_path, f"echo '{banner}' >&2"))) == major


def test_java_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java_version(str(tmp_path / "java")) is None
    assert java_version(str(fake_java(tmp_path, "echo 'version \"17\"'; exit 1"))) is None


def test_java_home_is_asked_before_the_path(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "echo 'version \"11.0.2\"' >&2")
    new = fake_java(tmp_path / "new", "echo 'version \"17.0.1\"' >&2")
    assert java_fits({"PATH": str(new.parent)})
    assert not java_fits({"PATH": str(new.parent), "JAVA_HOME": str(old.parent.parent)})
    assert not java_fits({"PATH": str(tmp_path)})


def test_the_wrapper_drops_one_argument_and_keeps_the_others_as_they_are(tmp_path: Path) -> None:
    runtime = tmp_path / "run time"
    fake_java(runtime, 'printf "%s|" "$@"')
    (runtime / "lib").mkdir()
    home = tmp_path / "home"
    setup.wrap_java(runtime, home)
    setup.wrap_java(runtime, home)
    assert (home / "lib").resolve() == (runtime / "lib").resolve()
    arguments = ["-cp", "a b", setup.UNWANTED_JAVA_ARGUMENT, "", "--add-modules=other", "$x"]
    run = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert run.stdout == "-cp|a b||--add-modules=other|$x|"


def test_spark_environment_of_a_venv_without_pyspark(tmp_path: Path) -> None:
    variables = environment.spark_environment(tmp_path)
    assert variables["PYSPARK_PYTHON"] == str(tmp_path / "bin" / "python")
    assert "SPARK_HOME" not in variables


def test_all_that_names_a_python_names_the_same() -> None:
    """Set-up takes those that the classifiers name, but the oldest, which the package alone runs on."""
    common = (ROOT / "scripts" / "common.sh").read_text()
    [listed] = re.findall(r'^PYTHONS="(.*)"$', common, flags=re.MULTILINE)
    newest, *_, oldest = listed.split()
    assert f'supported="{oldest} to {newest}"' in common
    after = f"3.{int(newest[2:]) + 1}"
    assert f'">={oldest},<{after}"' in common
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    classified = [line.rpartition(" ")[2] for line in project["classifiers"] if ":: Python :: 3." in line]
    assert classified == ["3.10", *reversed(listed.split())]
    assert project["requires-python"] == f">={classified[0]}"
    assert f"Python {oldest} to {newest}" in (ROOT / "README.md").read_text()
    locks = re.findall(r"^compile (\S+) .*requirements/([\w.-]+)\.lock", LOCKING, flags=re.MULTILINE)
    assert {name: python for python, name in locks} == {
        "uv": classified[0],
        "build": classified[0],
        "dev": oldest,
        "airflow-3.1": setup.OLDER_AIRFLOW_PYTHONS[-1],
        "airflow-3.2": setup.OLDER_AIRFLOW_PYTHONS[-1],
        "hudi": setup.SPARK_35_PYTHONS[-1],
        "release": oldest,
        "docs": oldest,
        "dataproc": oldest,
        "mutants": oldest,
    }


def test_pip_gets_the_build_requirements_with_their_markers(tmp_path: Path) -> None:
    lock = tmp_path / "build.lock"
    lock.write_text(
        "a.b==1.0 \\\n    --hash=sha256:00\n    # via -r build.in\n"
        "c==2 ; python_full_version < '3.11' \\\n    --hash=sha256:01\n"
    )
    assert setup.pinned(lock) == ["a.b==1.0", "c==2 ; python_full_version < '3.11'"]
    names = {line.partition("=")[0] for line in setup.pinned(ROOT / "requirements" / "build.lock")}
    assert names >= {"hatchling", "setuptools", "wheel"}


def fake_python(folder: Path, name: str, version: str, *, environments: bool = True) -> None:
    """What common.sh asks of one: its version, and whether it makes environments."""
    modules = "" if environments else 'case "$2" in *ensurepip*) exit 1;; esac; '
    asked = f'case "$2" in *version_info*) exec "{sys.executable}" -c "{AS_OF.format(version)}" "$2";; esac'
    (folder / name).write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo Python {version}.0 && exit\n{modules}{asked}\n'
    )
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("pythons", "taken"),
    [
        ({"python3.14": "3.14", "python3.12": "3.12", "python3": "3.11"}, "python3.14"),
        ({"python3.9": "3.9", "python3": "3.13"}, "python3"),
        ({"python3.13": "3.13 bare", "python3": "3.12"}, "python3"),
        ({"python3": "3.15"}, "here is Python 3.15.0."),
        ({"python3": "3.10"}, "here is Python 3.10.0."),
        ({"python3.13": "3.13 bare"}, "apt-get install python3.13-venv"),
        ({}, "here is no python3."),
    ],
)
def test_the_newest_python_that_fits_is_taken(
    pythons: dict[str, str], taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, version in pythons.items():
        fake_python(tmp_path, name, version.split()[0], environments="bare" not in version)
    for name in ("bash", "dirname", "mkdir"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    line = f'source "{ROOT}/scripts/common.sh"; echo "$PYTHON"'
    monkeypatch.delenv("PYTHON", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    run = subprocess.run([tmp_path / "bash", "-c", line], capture_output=True, text=True, check=False)
    if taken.startswith("python"):
        assert (run.returncode, run.stdout) == (0, f"{taken}\n"), run.stderr
    else:
        assert run.returncode == 1
        assert taken in run.stderr
        assert len(run.stderr.splitlines()) == 1


def test_a_python_that_does_not_start_is_told_with_what_it_says(tmp_path: Path) -> None:
    """As the shims of a manager of versions, of which none is chosen."""
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\necho 'no version of python3.12 is set' >&2; exit 127\n")
    shim.chmod(0o755)
    two = (sys.executable, shim, ["two_commands", shim]), (shim, f"PYTHON={shim}", ["demo"])
    for chosen, said, (script, *arguments) in two:
        environ = {**os.environ, "PYTHON": str(chosen)}
        line = [ROOT / "scripts" / str(script), *arguments]
        run = subprocess.run(line, env=environ, capture_output=True, text=True, check=False)
        assert run.returncode == 1
        assert run.stderr.endswith(f"{said} starts no Python 3.11 to 3.14: no version of python3.12 is set\n")


def fake_apt(folder: Path, script: str) -> Path:
    """An apt-get that notes how it is called."""
    apt = folder / "apt-get"
    calls = folder / "calls"
    apt.write_text(f'#!/bin/sh\necho "$@" >> "{calls}"\n{script}\n')
    apt.chmod(0o755)
    return calls


@pytest.mark.parametrize("root", [True, False])
def test_a_browser_is_installed_where_there_is_none(
    root: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chromium = tmp_path / "chromium"
    making = f'[ "$3" = -qq ] && [ "$4" = install ] && printf "" > "{chromium}" && /bin/chmod +x "{chromium}"'
    calls = fake_apt(tmp_path, f"{making}; true")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    assert environment.browser() is None
    setup.install_browser()
    setup.install_browser()
    if not root:
        assert not calls.exists()
        return
    assert environment.browser() == str(chromium)
    update, install = calls.read_text().splitlines()
    assert update.endswith("update")
    assert install.endswith("install -y --no-install-recommends chromium")


def test_a_browser_that_cannot_be_installed_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = fake_apt(tmp_path, "exit 100")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    setup.install_browser()
    assert len(calls.read_text().splitlines()) == 2
    assert "tests of pages will skip" in capsys.readouterr().out


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_what_is_missing_skips_and_under_ci_fails(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    require(True, "not said")
    with pytest.raises(outcome, match="no such thing"):
        require(os.environ.get("NO_SUCH_THING"), "no such thing")
