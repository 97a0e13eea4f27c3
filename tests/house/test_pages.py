"""Generated pages are fresh."""

from __future__ import annotations

import re

from hoodie.config import pages
from scripts.environment import ROOT


def test_the_settings_page_is_fresh() -> None:
    remedy = "run .venv/bin/python -m hoodie.config.pages > docs/settings.md"
    assert (ROOT / "docs" / "settings.md").read_text() == pages.markdown(pages.settings()), remedy


def test_every_declared_setting_is_found() -> None:
    """A key that is declared where the page does not look would be missing from it."""
    named = {name for key in pages.settings() for name in (key.name, *key.aliases)}
    declared: set[str] = set()
    for source in (ROOT / "spark_jobs" / "hoodie").rglob("*.py"):
        declared |= set(re.findall(r'_key\(\s*"(hoodie\.[^"]+)"', source.read_text()))
    assert len(declared) > 20
    assert declared <= named
