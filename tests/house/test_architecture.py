"""docs/architecture.md is true: the rings are those of `.importlinter`, and the files exist."""

from __future__ import annotations

import configparser
import re

from scripts.environment import ROOT
from tests.house.test_walls import GLUE, HOODIE

PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_the_picture_has_the_rings() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    layers = contracts["importlinter:contract:rings"]["layers"].replace("(", "").replace(")", "")
    picture = PAGE.partition("\nhoodie\n")[2].partition("```")[0]
    drawn = re.findall(r"^  (\S+(?: [|:] \S+)*)   *\S", picture, re.MULTILINE)
    assert drawn == layers.split("\n")[1:]


def test_each_file_exists() -> None:
    """A name without a folder may be that of a file in any folder, such as `service.py`."""
    homes = (ROOT, ROOT / "spark_jobs", HOODIE, HOODIE / "write", GLUE)
    named = re.findall(r"`([\w./]+(?:\.py|/))`", PAGE)
    missing = [name for name in named if not any((home / name).exists() for home in homes)]
    anywhere = {path.name for path in HOODIE.rglob("*.py")}
    assert [name for name in missing if name not in anywhere] == []
    assert len(named) > 80
