"""`hoodie bundle`: the zip, the script, and the archive of packages, by an installer of the test's own."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from hoodie.cli import bundle
from hoodie.errors import ConfigError
from tests.support.cli import Run, document

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
#: notes its arguments, and lays a package, its description and a command into the target
UV = """#!{python}
import pathlib, sys
arguments = sys.argv[1:]
pathlib.Path({log!r}).write_text("\\n".join(arguments))
if "no-such-package" in arguments:
    sys.exit("no wheel of no-such-package")
target = pathlib.Path(arguments[arguments.index("--target") + 1])
for name, text in (
    ("thing/__init__.py", "X = 7\\n"),
    ("thing/broken.py", "this is no Python\\n"),
    ("thing-1.5.dist-info/METADATA", "Name: thing\\n"),
    ("thing-1.5.dist-info/RECORD", str(target)),
    ("bin/thing", "#!" + sys.executable),
):
    (target / name).parent.mkdir(parents=True, exist_ok=True)
    (target / name).write_text(text)
"""


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the installer notes its arguments."""
    (tmp_path / "tools").mkdir()
    uv, found = tmp_path / "tools" / "uv", tmp_path / "arguments"
    uv.write_text(UV.format(python=sys.executable, log=str(found)))
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{uv.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(bundle, "bundle_zip", made)
    return found


def made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder / "hoodie-1.zip"


def test_the_zip_and_the_script(run: Run) -> None:
    said = document(run("bundle", "--json")[1])
    assert (said["archive"], said["packages"]) == (None, [])
    assert sorted(path.name for path in Path().iterdir()) == sorted([said["py_files"], "hoodie_job.py"])
    _, text, _ = run("bundle")
    assert (
        text == f"spark-submit --py-files {said['py_files']} hoodie_job.py upsert --request @request.json\n"
    )
    line = [sys.executable, "hoodie_job.py", "--help"]
    environ = {**os.environ, "PYTHONPATH": said["py_files"]}
    helped = subprocess.run(line, env=environ, capture_output=True, text=True, check=True)
    assert "--request" in helped.stdout


def test_an_archive_is_an_environment(run: Run, log: Path, tmp_path: Path) -> None:
    said = document(run("bundle", "out", "--with-dependencies", "--extra", "sql", "--json")[1])
    assert said["packages"] == ["thing 1.5"]
    assert said["compiled"] is True
    arguments = log.read_text().splitlines()
    wanted = arguments[arguments.index(":all:") + 1 :]
    names = {line.split("<")[0].split(">")[0] for line in wanted}
    assert {"pandas", "pyarrow", "numpy", "fastavro", "sqlglot"} <= names
    assert "pyspark" not in names
    with tarfile.open(said["archive"]) as archive:
        archive.extractall(tmp_path / "environment", filter="tar")
        assert {(item.mtime, item.uid, item.gname) for item in archive} == {(0, 0, "")}
        left = [name for name in archive.getnames() if name.endswith(("RECORD", "bin/thing"))]
    assert left == []
    code = "import sys, thing; print(thing.X, thing.__cached__, *sys.path[1:2])"
    python = tmp_path / "environment" / "bin" / "python"
    path = f"{sys.base_prefix}/bin:{os.environ['PATH']}"  # pyenv's command of that name may start none
    environ = {**os.environ, "PATH": path, "PYTHONPATH": "/of/spark"}
    done = subprocess.run([python, "-c", code], env=environ, capture_output=True, text=True, check=True)
    value, cached, first = done.stdout.split()
    assert (value, first) == ("7", "/of/spark")
    assert Path(cached).exists()


def test_the_same_packages_give_the_same_archive(run: Run, log: Path) -> None:
    first = Path(document(run("bundle", "a", "--with-dependencies", "--json")[1])["archive"])
    second = Path(document(run("bundle", "b", "--with-dependencies", "--json")[1])["archive"])
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in second.parent.iterdir()) == sorted([second.name, "hoodie_job.py"])


def test_a_machine_without_that_python_says_so(run: Run, log: Path, tmp_path: Path) -> None:
    said = document(run("bundle", "--with-dependencies", "--python", "3.99", "--json")[1])
    assert said["compiled"] is False
    assert "3.99" in log.read_text()
    with tarfile.open(said["archive"]) as archive:
        archive.extractall(tmp_path / "environment", filter="tar")
    python = tmp_path / "environment" / "bin" / "python"
    done = subprocess.run([python, "-c", ""], capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert "there is no Python 3.99 on PATH" in done.stderr


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["--python", "3.11"], "--python is of the packages in an archive; add --with-dependencies"),
        (["--with-dependencies", "--python", "3.9"], "from 3.10 on"),
        (["--with-dependencies", "--python", "three"], "'three' is no Python"),
        (["--with-dependencies", "--platform", "win_amd64"], "'win_amd64' is no platform"),
        (["--with-dependencies", "--extra", "sq"], "there is no extra 'sq', did you mean 'sql'?"),
    ],
)
def test_refusals(given: list[str], text: str, run: Run, log: Path) -> None:
    code, _, err = run("bundle", "out", *given)
    assert code == 1
    assert text in err
    assert not Path("out").exists()
    assert not log.exists()


def test_what_the_installer_says(log: Path, tmp_path: Path) -> None:
    target = bundle.Target.of(PYTHON, "manylinux2014_x86_64")
    with pytest.raises(ConfigError, match=r"uv finds no packages for .*: no wheel of no-such-package; give"):
        bundle.write_archive(tmp_path, target, ["no-such-package"], None)
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith("gz")] == []


def test_a_folder_without_a_description(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "metadata", none)
    with pytest.raises(ConfigError, match="install airflow-hoodie for an archive"):
        bundle.requirements([])


def test_platforms_in_the_words_of_both_installers() -> None:
    target = bundle.Target.of("3.12", "manylinux_2_19_aarch64")
    assert target.of_uv()[-2:] == ["--python-platform", "aarch64-manylinux_2_19"]
    platforms = [
        value
        for flag, value in zip(target.of_pip(), target.of_pip()[1:], strict=False)
        if flag == "--platform"
    ]
    assert platforms == [f"manylinux{n}_aarch64" for n in ("_2_19", "_2_18", "_2_17", "2014")]
