"""Which paths a glob stands for.

As Python's `glob` for local files: `*`, `?` and `[...]` match within one name, `**` any folders, and no
wildcard matches the dot that a name begins with.
"""

from __future__ import annotations

import re

_MAGIC = re.compile(r"[*?[]")
_NAME = r"[^/.][^/]*"


def split(glob: str) -> tuple[str, re.Pattern[str]] | None:
    """The folder before the first wildcard, and what matches the paths in it that the rest stands for, and
    all below them; None without a wildcard.
    """
    parts = glob.split("/")
    fixed = next((number for number, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    if fixed == len(parts):
        return None
    text = ""
    for part in parts[fixed:-1]:
        text += f"(?:{_NAME}/)*" if part == "**" else f"{_matching(part)}/"
    last = ".+" if parts[-1] == "**" else _matching(parts[-1])
    return "/".join(parts[:fixed]), re.compile(f"{text}{last}(?:/.*)?", re.DOTALL)


def _matching(part: str) -> str:
    """One name; a bracket that nothing closes is itself."""
    text, at = "" if part.startswith(".") else r"(?!\.)", 0
    while at < len(part):
        sign = part[at]
        end = part.find("]", at + 3 if part[at + 1 : at + 2] == "!" else at + 2) if sign == "[" else -1
        if end > 0:
            chosen = re.sub(r"([\\\[\^])", r"\\\1", part[at + 1 : end])
            text += f"[^/{chosen[1:]}]" if chosen.startswith("!") else f"[{chosen}]"
            at = end + 1
            continue
        text += {"*": "[^/]*", "?": "[^/]"}.get(sign, re.escape(sign))
        at += 1
    return text
