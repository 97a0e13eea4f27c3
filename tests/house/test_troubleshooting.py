"""The page of troubleshooting has a section for every code of errors."""

from __future__ import annotations

import re

import pytest

from hoodie.errors import CODES
from scripts.environment import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
SECTIONS = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
ON_THE_PAGE_OF_ERRORS = re.findall(
    r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE))
)


@pytest.mark.parametrize("code", sorted({*CODES, *ON_THE_PAGE_OF_ERRORS}))
def test_each_code_says_what_happened_what_to_look_at_and_what_to_run(code: str) -> None:
    section = SECTIONS[code]
    bullets = re.findall(r"^- \*\*(.*?)\*\*: (.{10,})", section, re.MULTILINE)
    assert [name for name, _ in bullets] == ["What happened", "Look at", "Run"]


def test_the_page_of_errors_lists_codes() -> None:
    assert len(ON_THE_PAGE_OF_ERRORS) > 20
    assert {*ON_THE_PAGE_OF_ERRORS} <= {*CODES}
