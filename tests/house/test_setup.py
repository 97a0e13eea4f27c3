"""The packaged Java, and how the set-up decides that it is needed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from scripts import environment, setup
from scripts.environment import java_fits, java_version
from tests.conftest import require


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
