"""Names say what a thing is by the terms of the field, and `check_` is the verb of what raises.

The words below said how their author thought of a step. No module, class or function has one in its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.house.test_walls import GLUE, HOODIE

WORDS = (
    *("kept", "beside", "anew", "told", "taken_back", "undone", "mend", "hits", "moves", "past", "retained"),
    *(
        "counted",
        "direct",
        "first_pass",
        "keys_first",
        "called",
        "wanted",
        "notes",
        "ahead",
        "sent",
        "inside",
    ),
    *("upkeep", "consent"),
)
BANNED = re.compile(rf"(^|_)({'|'.join(WORDS)})(_|$)|^_*refuse_")
DEFINED = re.compile(r"^\s*(?:async )?(class|def) (\w+)", re.MULTILINE)


def names() -> Iterator[tuple[str, str]]:
    for folder in (HOODIE, GLUE):
        for path in folder.rglob("*.py"):
            yield "modules", path.stem
            for kind, name in DEFINED.findall(path.read_text()):
                yield "classes" if kind == "class" else "functions", name


def in_words(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def test_no_name_has_a_word_that_is_no_term() -> None:
    assert {(kind, name) for kind, name in names() if BANNED.search(in_words(name))} == set()
