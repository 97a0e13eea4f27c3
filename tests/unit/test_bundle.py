"""The zip for --py-files: the same bytes from the same sources, whoever makes it, wherever and when."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path

import pytest

from hoodie import bundle
from scripts.environment import TOOLS
from tests.conftest import require


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small `hoodie` package in place of the real one."""
    folder = tmp_path / "site" / "hoodie"
    for name, text in {
        "__init__.py": "",
        "errors.py": "X = 1\n",
        "codec/__init__.py": "",
        "codec/schemas/commit.avsc": "{}",
        "jobs/__init__.py": "",
        "jobs/run.py": "",
        "jobs/_main.py": "",
        "codec/__pycache__/x.cpython-311.pyc": "no",
        "stale.pyc": "no",
        ".hidden/x.py": "no",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(bundle, "package_folder", lambda: folder)
    return folder


def test_holds_sources_what_they_compile_to_and_schemas(package: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(bundle.bundle_zip(tmp_path / "out")) as archive:
        names = archive.namelist()
    assert [name for name in names if not name.endswith("/")] == [
        "airflow_hoodie.dist-info/METADATA",
        "hoodie/__init__.py",
        "hoodie/__init__.pyc",
        "hoodie/codec/__init__.py",
        "hoodie/codec/__init__.pyc",
        "hoodie/codec/schemas/commit.avsc",
        "hoodie/errors.py",
        "hoodie/errors.pyc",
        "hoodie/jobs/__init__.py",
        "hoodie/jobs/__init__.pyc",
        "hoodie/jobs/_main.py",
        "hoodie/jobs/_main.pyc",
        "hoodie/jobs/run.py",
        "hoodie/jobs/run.pyc",
    ]
    assert "hoodie/codec/schemas/" in names


def test_another_python_takes_the_sources(package: Path, tmp_path: Path) -> None:
    """One whose compiled modules begin with other bytes: those of the zip would fail if they were taken."""
    path = bundle.bundle_zip(tmp_path / "out")
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(other, "w") as changed:
        for name in archive.namelist():
            data = archive.read(name)
            changed.writestr(name, b"\0\0\r\n" + b"x" * 40 if name.endswith(".pyc") else data)
    code = "import sys; sys.path.insert(0, sys.argv[1]); import hoodie.errors as m; print(m.X, m.__file__)"
    for used, suffix in ((path, "pyc"), (other, "py")):
        command = [sys.executable, "-I", "-S", "-c", code, str(used)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        assert run.stdout == f"1 {used}/hoodie/errors.{suffix}\n"


def test_a_module_is_taken_whatever_its_times_are(package: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(bundle.bundle_zip(tmp_path / "out")) as archive:
        data = archive.read("hoodie/errors.pyc")
    assert data[:4] == importlib.util.MAGIC_NUMBER
    assert int.from_bytes(data[4:8], "little") == 1  # by hash, unchecked


def test_bytes_follow_content_only(package: Path, tmp_path: Path) -> None:
    first = bundle.bundle_zip(tmp_path / "a")
    for number, path in enumerate(sorted(package.rglob("*"), reverse=True)):
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    (package / "errors.py").chmod(0o755)
    second = bundle.bundle_zip(tmp_path / "b")
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("change", ["edit", "rename", "move bytes between files"])
def test_name_follows_content(change: str, package: Path, tmp_path: Path) -> None:
    before = bundle.bundle_zip(tmp_path).name
    if change == "edit":
        (package / "errors.py").write_text("X = 2\n")
    elif change == "rename":
        (package / "errors.py").rename(package / "error.py")
    else:
        (package / "errors.py").write_text("X = 1")
        (package / "jobs" / "__init__.py").write_text("\n")
    assert bundle.bundle_zip(tmp_path).name != before


def test_is_reused_and_made_again_when_cleaned_away(package: Path, tmp_path: Path) -> None:
    path = bundle.bundle_zip(tmp_path)
    inode = path.stat().st_ino
    assert bundle.bundle_zip(tmp_path).stat().st_ino == inode
    content = path.read_bytes()
    path.unlink()
    assert bundle.bundle_zip(tmp_path) == path
    assert path.read_bytes() == content


def test_many_writers_at_once(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Barrier(8)
    write = bundle._write

    def slow(path: Path, files: dict[str, bytes]) -> None:
        start.wait(timeout=60)  # all eight found no file and write now
        write(path, files)

    monkeypatch.setattr(bundle, "_write", slow)
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(bundle.bundle_zip(tmp_path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [found[0].name]
    with zipfile.ZipFile(found[0]) as archive:
        assert archive.testzip() is None


def test_a_failed_write_leaves_nothing(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, files: dict[str, bytes]) -> None:
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(bundle, "_write", fail)
    with pytest.raises(OSError, match="disk full"):
        bundle.bundle_zip(tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("kind", ["open to all", "a link"])
def test_the_cache_is_private(
    kind: str, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    usual = tmp_path / "tmp" / f"hoodie-bundle-{os.getuid()}"
    usual.parent.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if kind == "a link":
        usual.symlink_to(elsewhere)
    else:
        usual.mkdir()
        usual.chmod(0o777)
    path = bundle.bundle_zip()
    assert path.parent != usual
    assert list(elsewhere.iterdir()) == []
    assert path.parent.stat().st_mode & 0o077 == 0


def test_the_usual_cache(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = bundle.bundle_zip()
    assert path.parent == tmp_path / f"hoodie-bundle-{os.getuid()}"
    assert path.parent.stat().st_mode & 0o077 == 0
    assert bundle.bundle_zip() == path


def test_the_job_script(package: Path) -> None:
    assert bundle.job_script() == package / "jobs" / "run.py"


def test_the_real_package_is_complete_and_imports_from_the_zip(tmp_path: Path) -> None:
    path = bundle.bundle_zip(tmp_path)
    package = bundle.package_folder()
    with zipfile.ZipFile(path) as archive:
        inside = set(archive.namelist())
    wanted = {
        f"hoodie/{file.relative_to(package).as_posix()}"
        for file in package.rglob("*.[pa][yv]*")
        if file.suffix in (".py", ".avsc")
    }
    assert wanted
    assert wanted <= inside
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import hoodie, hoodie.timeline.active as m; "
        "print(hoodie.__version__, m.__file__)"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith(f"{importlib.metadata.version('airflow-hoodie')} {path}")


def test_an_installed_copy_makes_the_same_zip(tmp_path: Path) -> None:
    here = bundle.bundle_zip(tmp_path / "here")
    site = tmp_path / "site-packages"
    shutil.copytree(bundle.package_folder(), site / "hoodie", ignore=shutil.ignore_patterns("__pycache__"))
    [described] = (
        path for path in importlib.metadata.files("airflow-hoodie") or () if path.name == "METADATA"
    )
    (site / "airflow_hoodie-1.dist-info").mkdir()
    shutil.copy(described.locate(), site / "airflow_hoodie-1.dist-info")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from hoodie import bundle; "
        "print(bundle.bundle_zip(sys.argv[2]))"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(site), str(tmp_path / "there")],
        capture_output=True,
        text=True,
        check=True,
    )
    there = Path(run.stdout.strip())
    assert there.name == here.name
    assert there.read_bytes() == here.read_bytes()


def test_no_bundle_from_within_a_bundle(tmp_path: Path) -> None:
    path = bundle.bundle_zip(tmp_path)
    code = "import sys; sys.path.insert(0, sys.argv[1]); from hoodie import bundle; bundle.bundle_zip()"
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert "make the bundle where the package is installed" in run.stderr


def test_a_wheel_that_installers_take(package: Path, tmp_path: Path) -> None:
    """Its record is that of its files, and its version changes with them."""
    path = bundle.bundle_wheel(tmp_path / "a")
    version = importlib.metadata.version("airflow-hoodie")
    assert re.fullmatch(
        rf"airflow_hoodie-{re.escape(version)}[+.]h[0-9a-f]{{16}}-py3-none-any\.whl", path.name
    )
    site = tmp_path / "installed"
    with zipfile.ZipFile(path) as archive:
        archive.extractall(site)
    [found] = importlib.metadata.distributions(path=[str(site)])
    assert (found.metadata["Name"], found.version) == ("airflow-hoodie", path.name.split("-")[1])
    recorded = {str(file): file for file in found.files or ()}
    there = {str(file.relative_to(site)) for file in site.rglob("*") if file.is_file()}
    assert there == set(recorded)
    for name, file in recorded.items():
        data = (site / name).read_bytes()
        if file.hash is not None:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (file.hash.value, file.size) == (digest, len(data))
        else:
            assert name.endswith("/RECORD")
    again = bundle.bundle_wheel(tmp_path / "b")
    assert (again.name, again.read_bytes()) == (path.name, path.read_bytes())
    (package / "errors.py").write_text("X = 2\n")
    assert bundle.bundle_wheel(tmp_path / "b").name != path.name


@pytest.mark.full
def test_an_installer_installs_the_wheel(tmp_path: Path) -> None:
    uv = TOOLS / "bin" / "uv"
    require(uv.exists(), "no uv: scripts/setup makes it")
    wheel, site = bundle.bundle_wheel(tmp_path), tmp_path / "site"
    options = ("--quiet", "--offline", "--no-cache", "--python", sys.executable, "--target", str(site))
    subprocess.run([str(uv), "pip", "install", *options, str(wheel)], check=True)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import hoodie; "
        "print(hoodie.__version__, hoodie.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(site)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [wheel.name.split("-")[1], str(site / "hoodie/__init__.py")]
