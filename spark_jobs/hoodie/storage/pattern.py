"""Which paths a glob stands for.

As Python's `glob` for local files: `*`, `?` and `[...]` match within one name, `**` any folders, and no
wildcard matches the dot that a name begins with.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_MAGIC = re.compile(r"[*?[]")
_NAME = r"[^/.][^/]*"


class Glob(NamedTuple):
    """`folder` is the one before the first wildcard, `wanted` matches the paths in it that the rest stands
    for, its first group, and all below them.
    """

    folder: str
    wanted: re.Pattern[str]

    def match(self, path: str) -> str | None:
        """The path, or the folder above it, that the glob stands for; None where it stands for neither."""
        found = self.wanted.fullmatch(path, len(self.folder) + 1)
        return None if found is None else f"{self.folder}/{found[1]}".rstrip("/")


def split(glob: str) -> Glob | None:
    """None without a wildcard."""
    parts = glob.split("/")
    fixed = next((number for number, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    if fixed == len(parts):
        return None
    text = ""
    for part in parts[fixed:-1]:
        text += f"(?:{_NAME}/)*" if part == "**" else f"{_matching(part)}/"
    wanted = f"({text}).+" if parts[-1] == "**" else f"({text}{_matching(parts[-1])})(?:/.*)?"
    return Glob("/".join(parts[:fixed]), re.compile(wanted, re.DOTALL))


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
