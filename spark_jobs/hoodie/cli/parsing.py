"""How a command line is parsed: former words, paths of tables with and without a flag, and the nearest right
words beside wrong ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from hoodie.deprecation import notice
from hoodie.text import nearest

#: words of commands that were other ones before
FORMER = {"ttl": "expire-partitions", "delete-partition": "delete-partitions"}
#: commands by the names of the functions of the Python API
_FUNCTIONS = {
    "instants": ("timeline",),
    "file-groups": ("files",),
    "cancel-plan": ("cancel",),
    "plan-services": ("services", "plan"),
    "run-services": ("services", "run"),
    "resend-callbacks": ("callbacks", "resend"),
    "explain-read": ("explain", "read"),
    "delete-savepoint": ("savepoint", "--delete"),
}


class Usage(Exception):
    """The command line is wrong; `text` says how, after the usage of the parser that saw it."""

    def __init__(self, text: str, usage: str) -> None:
        super().__init__(text)
        self.text = text
        self.usage = usage


class Parser(argparse.ArgumentParser):
    """Of one command. Where its defaults have `needs_table`, `table` is the path of the command's table."""

    def error(self, message: str) -> NoReturn:
        raise Usage(message, self.format_usage())

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        given = list(args or ())
        if self._subparsers is None:
            self._check_flags(given)
        found, rest = super().parse_known_args(given, namespace)
        if self.get_default("needs_table") is not None:
            # argparse takes a path after flags for one too many where another positional came before them
            if found.path is None and len(rest) == 1 and not rest[0].startswith("-"):
                found.path = rest.pop()
            found.table = self._table(found.table, found.path)
        return found, rest

    def _check_flags(self, given: Sequence[str]) -> None:
        """Before what is missing is said, which a misspelt flag may have given."""
        known = [flag for action in self._actions for flag in action.option_strings]
        for word in given:
            if word == "--":
                return
            flag = word.partition("=")[0]
            if flag.startswith("--") and " " not in flag and not any(item.startswith(flag) for item in known):
                self.error(f"unrecognized arguments: {word}{nearest(flag, known)}")

    def _table(self, flag: str | None, path: str | None) -> str | None:
        if flag is not None and path is not None:
            self.error(f"the table is named twice, {path} and --table {flag}; leave one out")
        table = path if flag is None else flag
        if table is None and self.get_default("needs_table"):
            self.error("the following arguments are required: PATH, the table's folder, or --table PATH")
        return table

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += nearest(str(value), map(str, action.choices or ()))
            raise


class TopParser(Parser):
    """Of the whole command line. `notes` of what it returns are for people: which words are deprecated."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        given = list(sys.argv[1:] if args is None else args)
        notes = []
        word = given[0] if given else ""
        if word in FORMER:
            given[0] = FORMER[word]
            notes.append(notice(f"hoodie {word}").text)
        elif word in _FUNCTIONS:
            given[:1] = _FUNCTIONS[word]
        if "--whole-table" in given and "insert-overwrite" in given[:2]:
            notes.append(notice("hoodie insert-overwrite --whole-table").text)
        found, rest = super().parse_known_args(given, namespace)
        found.notes = notes
        return found, rest
