"""scripts/release builds all of a release, the same bytes each time, and refuses what is none."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from scripts import release
from scripts.environment import DOCS, RELEASE, ROOT, interpreter
from tests.conftest import require


def require_what_builds() -> None:
    require(interpreter(RELEASE).exists(), "no .venv-release: scripts/setup release makes it")
    require((ROOT / ".git").exists(), "no checkout of git, from which releases are built")


def rehearsed(into: Path, *options: str) -> dict[str, bytes]:
    """The files of a rehearsal by name; wheel and sdist have passed twine's check."""
    require_what_builds()
    line: list[str | Path] = [
        interpreter(RELEASE),
        "-m",
        "scripts.release",
        "--rehearse",
        "--into",
        into,
        *options,
    ]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("PASSED") == 2
    return {path.name: path.read_bytes() for path in into.iterdir()}


@pytest.mark.slow
def test_a_release_is_whole(tmp_path: Path) -> None:
    made = rehearsed(tmp_path / "dist", "--without-site")
    [wheel] = (name for name in made if name.endswith(".whl"))
    version = wheel.split("-")[1]
    constraints = {f"constraints-{path.name}" for path in (ROOT / release.CONSTRAINTS).glob("*.txt")}
    packages = {wheel, f"airflow_hoodie-{version}.tar.gz"}
    bill = f"airflow-hoodie-{version}.cdx.json"
    assert set(made) == {*packages, *constraints, bill, "provenance.json", "SHA256SUMS"}
    with zipfile.ZipFile(tmp_path / "dist" / wheel) as archive:
        [named] = (name for name in archive.namelist() if name.endswith("METADATA"))
        assert f"\nVersion: {version}\n" in archive.read(named).decode()

    sums = {line[66:]: line[:64] for line in made["SHA256SUMS"].decode().splitlines()}
    assert sums == {
        name: hashlib.sha256(data).hexdigest()
        for name, data in made.items()
        if name not in ("provenance.json", "SHA256SUMS")
    }
    statement = json.loads(made["provenance.json"])
    assert {item["name"]: item["digest"]["sha256"] for item in statement["subject"]} == sums

    described = json.loads(made[bill])
    assert described["metadata"]["component"]["purl"] == f"pkg:pypi/airflow-hoodie@{version}"
    listed = {f"{item['name']}=={item['version']}" for item in described["components"]}
    pinned = set(
        re.findall(r"^[\w.-]+==\S+$", made["constraints-airflow-3.3-python-3.11.txt"].decode(), re.M)
    )
    assert len(pinned) > 100
    assert pinned <= listed
    for item in described["components"]:
        assert any(each.get("hashes") for each in item["externalReferences"]), item["name"]


@pytest.mark.full
@pytest.mark.slow
def test_two_builds_are_the_same_bytes(tmp_path: Path) -> None:
    require(interpreter(DOCS).exists(), "no .venv-docs: scripts/setup docs makes it")
    once, again = rehearsed(tmp_path / "once"), rehearsed(tmp_path / "again")
    assert any(name.endswith("-docs.tar.gz") for name in once)
    assert [name for name, data in once.items() if again.get(name) != data] == []
    assert set(once) == set(again)


def committed(folder: Path, monkeypatch: pytest.MonkeyPatch, changelog: str, public: str) -> None:
    """A checkout with these two files, and all of it committed."""
    (folder / "docs").mkdir()
    (folder / "CHANGELOG.md").write_text(changelog)
    (folder / "docs" / "public-api.txt").write_text(public)
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for line in (("init",), ("add", "."), (*who, "commit", "-m", "first")):
        subprocess.run(["git", *line], cwd=folder, check=True, capture_output=True)
    monkeypatch.setattr(release, "ROOT", folder)


CHANGES = "# Changelog\n\n## Unreleased\n\n## 0.2.0 (2027-01-05)\n\nMore.\n"


@pytest.mark.parametrize(
    ("version", "changelog", "public", "said"),
    [
        ("0.2.0", CHANGES, "# head\n0.2.0\thoodie.read\n", ""),
        ("0.2.0rc1", CHANGES, "", "no section `## 0.2.0rc1 "),
        ("0.2.1.dev4+gabc", CHANGES, "", "tag the commit"),
        ("0.3.0", CHANGES, "", "no section `## 0.3.0 "),
        ("0.2.0", CHANGES, "# head\nunreleased\thoodie.read\n", "public_api --release 0.2.0"),
    ],
)
def test_what_is_no_release_is_refused(
    version: str, changelog: str, public: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(tmp_path, monkeypatch, changelog, public)
    if not said:
        release.check(version)
        (tmp_path / "more").touch()
        said = "not committed"
    with pytest.raises(release.ReleaseError, match=re.escape(said)):
        release.check(version)


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    require_what_builds()
    (tmp_path / "mine").touch()
    with pytest.raises(release.ReleaseError, match="is not empty"):
        release.build(tmp_path, rehearsal=True, with_site=False)
