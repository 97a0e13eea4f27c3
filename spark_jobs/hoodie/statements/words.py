"""Which texts are statements, by their first word; no parser is needed for it."""

from __future__ import annotations

import re

from hoodie.errors import ConfigError

STATEMENTS = ("INSERT", "UPDATE", "DELETE", "MERGE", "CALL")
#: before what a statement says of rows that it can't write
MARK = "hoodie statement: "
_FIRST = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*([A-Za-z]+)", re.DOTALL)
#: of other words, what does the same
_INSTEAD = {
    "CREATE": "the first write makes a table",
    "DROP": "delete the folder of a table that nothing needs any more",
    "ALTER": "new columns come with the rows of a write",
    "TRUNCATE": "DELETE FROM without WHERE deletes all rows",
    "REPLACE": "INSERT OVERWRITE replaces rows",
    "OPTIMIZE": "CALL cluster(table => '…') rewrites files",
    "VACUUM": "CALL clean(table => '…') deletes old files",
    "SHOW": "hoodie.instants lists commits",
}


def is_statement(text: object) -> bool:
    """Is it one that changes a table."""
    return _first(text) in STATEMENTS


def is_call(text: object) -> bool:
    return _first(text) == "CALL"


def refuse_others(text: object) -> None:
    """Raises ConfigError for a text that begins as what is neither a query nor a statement of ours."""
    word = _first(text)
    if word in _INSTEAD:
        raise ConfigError(
            f"{word} is not supported; give one SELECT, or one of {', '.join(STATEMENTS)}: {_INSTEAD[word]}",
            statement=word,
        )


def _first(text: object) -> str:
    found = _FIRST.match(text) if isinstance(text, str) else None
    return found[1].upper() if found else ""
