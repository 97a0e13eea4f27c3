"""Which texts are statements of SQL, by their first word. Standard library only."""

from __future__ import annotations

import re

STATEMENTS = ("INSERT", "UPDATE", "DELETE", "MERGE", "CALL")
_SPACE = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)"
_FIRST = re.compile(rf"{_SPACE}*([A-Za-z]+)", re.DOTALL)
_INDEX = re.compile(
    rf"{_SPACE}*(?:(?:CREATE|DROP|REFRESH){_SPACE}+INDEX|SHOW{_SPACE}+INDEXES)\b", re.DOTALL | re.IGNORECASE
)


def is_statement(text: object) -> bool:
    """Is it one that changes a table, or calls a service."""
    return first_word(text) in STATEMENTS or is_of_index(text)


def is_of_index(text: object) -> bool:
    """Is it about an index."""
    return isinstance(text, str) and _INDEX.match(text) is not None


def is_call(text: object) -> bool:
    """Is what it does that of a service."""
    return first_word(text) == "CALL" or is_of_index(text)


def first_word(text: object) -> str:
    """In upper case; "" where there is none."""
    found = _FIRST.match(text) if isinstance(text, str) else None
    return found[1].upper() if found else ""
