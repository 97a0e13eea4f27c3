"""README and docs: links lead somewhere, commands are those that there are, the README stays short."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from hoodie.cli.command import parser
from scripts.environment import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def blocks(page: Path, language: str) -> list[str]:
    """The fenced code blocks of a page, without their indentation in lists."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE)
    return ["\n".join(line.removeprefix(indent) for line in text.splitlines()) for indent, text in found]


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def commands(page: Path) -> list[list[str]]:
    """The words of each `hoodie` command line in a page's shell blocks."""
    lines = "\n".join(blocks(page, "bash")).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith("hoodie ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in re.findall(r'\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"', text):
        target, _, anchor = "".join(link).partition("#")
        if target.startswith("http"):
            continue
        other = (page.parent / target).resolve() if target else page
        assert other.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(other), f"{page.name}: #{anchor}"


def test_the_readme_fits_two_screens() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 9000


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_commands_are_those_that_there_are(page: Path) -> None:
    for line in commands(page):
        parser().parse_args(line[1:])


def test_every_page_is_linked_from_the_readme() -> None:
    linked = set(re.findall(r"\]\(([^)#\s]+\.md)\)", (ROOT / "README.md").read_text()))
    assert {str(page.relative_to(ROOT)) for page in PAGES} - {"README.md"} == linked


def test_platforms_name_their_tests_and_what_was_not_run() -> None:
    page = ROOT / "docs" / "platforms.md"
    _, *sections = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    linked = re.findall(r"^\| \[.*\]\(#([\w-]+)\)", page.read_text(), re.MULTILINE)
    assert linked == [section.partition("\n")[0].lower().replace(" ", "-") for section in sections]
    for section in sections:
        assert "| not run |" in section
    named = re.findall(r"`(tests/[\w/]+\.py)`", page.read_text())
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
