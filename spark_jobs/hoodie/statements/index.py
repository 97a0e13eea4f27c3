"""Statements about indexes, in the grammar of Apache Hudi 1.2.0 (HoodieSqlBase.g4), as calls of the service.

    CREATE INDEX [IF NOT EXISTS] name ON [TABLE] t [USING type] (column) [OPTIONS (key = 'value', …)]
    DROP INDEX [IF EXISTS] name ON [TABLE] t
    REFRESH INDEX name ON [TABLE] t
    SHOW INDEXES {FROM | IN} [TABLE] t

An index that is there is not made again, and one that is not there is not dropped: both are no error.
"""

from __future__ import annotations

import re
from typing import Any

from hoodie.errors import ConfigError
from hoodie.statements.parser import Call

_RECORD_INDEX = "record_index"
_TOKEN = re.compile(
    r"""\s*(?:(?P<name>[A-Za-z_][\w.]*|`[^`]+`)|(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<number>-?\d+(?:\.\d+)?)|(?P<sign>[(),=]))""",
    re.VERBOSE | re.ASCII,
)
_COMMENT = re.compile(r"--[^\n]*(?:\n|$)|/\*.*?\*/", re.DOTALL)


def index_call(text: str) -> Call:
    """Raises ConfigError for a text of another form."""
    words = _Words(text)
    verb = words.word("CREATE", "DROP", "REFRESH", "SHOW")
    if verb == "SHOW":
        words.word("INDEXES")
        words.word("FROM", "IN")
        return words.call(_table(words), mode="show")
    words.word("INDEX")
    if verb == "CREATE" and words.skips("IF"):
        words.word("NOT")
        words.word("EXISTS")
    elif verb == "DROP" and words.skips("IF"):
        words.word("EXISTS")
    name = words.name()
    words.word("ON")
    table = _table(words)
    if verb == "CREATE":
        return _created(words, table, name)
    return words.call(table, mode="drop" if verb == "DROP" else "rebuild", indexes=name)


def _table(words: _Words) -> str:
    words.skips("TABLE")
    return words.name()


def _created(words: _Words, table: str, name: str) -> Call:
    using = words.name().lower() if words.skips("USING") else None
    words.sign("(")
    column = words.name()
    if words.peek("OPTIONS") or words.has(","):
        raise ConfigError(
            f"CREATE INDEX {name} is of one column without options of its own; write ({column})"
        )
    words.sign(")")
    options = words.options() if words.skips("OPTIONS") else {}
    if _RECORD_INDEX in (name.lower(), using):
        return words.call(table, mode="create", indexes=_RECORD_INDEX)
    if any("'" in value for value in options.values()):
        raise ConfigError(f"CREATE INDEX {name} has an option with a quote in it, which is not supported")
    given = {"expression": ",".join(f"{key}='{value}'" for key, value in options.items())} if options else {}
    return words.call(
        table, mode="create", indexes=name, column=column, using=using or "secondary_index", **given
    )


class _Words:
    """The words of a statement, from left to right. Raises ConfigError where one is another than wanted."""

    def __init__(self, text: str) -> None:
        self._text = _COMMENT.sub(" ", text).strip().rstrip(";").rstrip()
        self._place = 0

    def word(self, *wanted: str) -> str:
        found = self._next("name").upper()
        if found not in wanted:
            raise self._wrong(" or ".join(wanted))
        return found

    def skips(self, word: str) -> bool:
        """Is it the next one, which is passed then."""
        if not self.peek(word):
            return False
        self._next("name")
        return True

    def peek(self, word: str) -> bool:
        match = _TOKEN.match(self._text, self._place)
        return match is not None and (match["name"] or "").upper() == word

    def has(self, sign: str) -> bool:
        match = _TOKEN.match(self._text, self._place)
        return match is not None and match["sign"] == sign

    def name(self) -> str:
        return self._next("name").strip("`")

    def sign(self, sign: str) -> None:
        if not self.has(sign):
            raise self._wrong(sign)
        self._next("sign")

    def options(self) -> dict[str, str]:
        found = dict[str, str]()
        self.sign("(")
        while True:
            key = self._next("name", "text").strip("`'\"")
            if self.has("="):
                self.sign("=")
            value = self._next("text", "number", "name")
            found[key] = value[1:-1].replace("\\", "") if value[0] in "'\"" else value
            if not self.has(","):
                break
            self.sign(",")
        self.sign(")")
        return found

    def call(self, table: str, **arguments: Any) -> Call:
        """Of the service, at the end of the statement."""
        if self._place != len(self._text):
            raise self._wrong("the end")
        return Call(name="index", arguments={"table": table, **arguments})

    def _next(self, *kinds: str) -> str:
        match = _TOKEN.match(self._text, self._place)
        found = match and next((match[kind] for kind in kinds if match[kind]), None)
        if not match or not found:
            raise self._wrong(" or ".join(kinds))
        self._place = match.end()
        return found

    def _wrong(self, wanted: str) -> ConfigError:
        at = self._text[self._place :].strip()[:40]
        return ConfigError(
            f"the statement about an index has {at!r} where {wanted} is wanted; write CREATE INDEX name ON t "
            "[USING type] (column) [OPTIONS (expr = 'lower')], DROP INDEX name ON t, REFRESH INDEX name ON t "
            "or SHOW INDEXES FROM t",
            sql=self._text[:200],
        )
