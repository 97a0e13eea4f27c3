"""The picture of the rings in docs/architecture.md is that of `.importlinter`."""

from __future__ import annotations

import configparser
import re

from scripts.environment import ROOT


def test_the_picture_has_the_rings() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    layers = contracts["importlinter:contract:rings"]["layers"].replace("(", "").replace(")", "")
    page = (ROOT / "docs" / "architecture.md").read_text().partition("\nhoodie\n")[2].partition("```")[0]
    drawn = re.findall(r"^  (\S+(?: [|:] \S+)*)   *\S", page, re.MULTILINE)
    assert drawn == layers.split("\n")[1:]
