"""The site of docs/ builds strictly, has all public names, and loads nothing from elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import airflow_hoodie
import hoodie
from scripts import docs_site
from scripts.environment import DOCS, ROOT, interpreter
from tests.conftest import require


def built(site: Path, pages: Path = ROOT / "docs") -> subprocess.CompletedProcess[str]:
    require(interpreter(DOCS).exists(), "no .venv-docs: scripts/setup docs makes it")
    command: list[str | Path] = [interpreter(DOCS), "-m", "mkdocs", "build", "--strict", "--site-dir", site]
    env = {**os.environ, "HOODIE_DOCS_DIR": str(pages), "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)


@pytest.mark.full
def test_the_site_builds_and_is_whole(tmp_path: Path) -> None:
    done = built(tmp_path)
    assert done.returncode == 0, done.stderr
    for page in (ROOT / "docs").glob("*.md"):
        assert (tmp_path / f"{page.stem}.html").exists(), page.name
    assert "Apache Hudi tables, run from Airflow" in (tmp_path / "index.html").read_text()
    found = json.loads((tmp_path / "search" / "search_index.json").read_text())["docs"]
    places = {item["location"] for item in found}
    for package in (hoodie, airflow_hoodie):
        names = {
            place.rpartition(".")[2] for place in places if place.startswith(f"reference/{package.__name__}.")
        }
        assert names >= {*package.__all__} - {"__version__", "get_provider_info"}
    for file in tmp_path.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img)[^>]* src="([^"]*)|<link[^>]* href="([^"]*)', file.read_text())
        assert not [link for link in loaded if "".join(link).startswith(("http", "//"))], file.name


@pytest.mark.full
def test_links_that_lead_nowhere_fail(tmp_path: Path) -> None:
    links = ("nowhere.md", "cli.md#no-heading", "../dags_examples/no_example.py")
    pages = tmp_path / "docs"
    shutil.copytree(ROOT / "docs", pages)
    with (pages / "errors.md").open("a") as page:
        page.write("".join(f"\n[a link]({link})\n" for link in links))
    done = built(tmp_path / "site", pages)
    assert done.returncode == 1
    for name in ("nowhere.md", "no-heading", "no_example"):
        assert name in done.stderr


@pytest.mark.parametrize(
    ("text", "source", "target", "site"),
    [
        (
            "[a](docs/cli.md#x) [b](#c) [d](https://e.org)",
            "README.md",
            "index.md",
            "[a](cli.md#x) [b](#c) [d](https://e.org)",
        ),
        ("[a](../SECURITY.md#x)", "docs/storage.md", "storage.md", "[a](security.md#x)"),
        ("[a](../dags_examples/b.py)", "docs/storage.md", "storage.md", "[a](examples/b.md)"),
        ("[a](cli.md) ![b](images/c.png)", "docs/storage.md", "storage.md", "[a](cli.md) ![b](images/c.png)"),
        ('<img src="docs/images/c.png">', "README.md", "index.md", '<img src="images/c.png">'),
        ("```\n[a](docs/cli.md)\n```", "README.md", "index.md", "```\n[a](docs/cli.md)\n```"),
    ],
)
def test_links_on_the_site(text: str, source: str, target: str, site: str) -> None:
    assert docs_site.relinked(text, source, target) == site


@pytest.mark.parametrize("package", [hoodie, airflow_hoodie])
def test_the_reference_has_every_public_name(package: object) -> None:
    name: str = vars(package)["__name__"]
    public: list[str] = vars(package)["__all__"]
    page = docs_site.generated()[f"reference/{name}.md"]
    named = {line.rpartition(".")[2] for line in re.findall(r"^::: (\S+)$", page, re.MULTILINE)}
    assert named == {*public} - {"__version__"}
