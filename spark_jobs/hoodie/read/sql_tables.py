"""The tables of a SQL text: where each lies, and what is asked of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.read.among import Among
from hoodie.read.query import Query
from hoodie.table.handle import Table, TableRef

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYS = ("path", "query", "begin", "end", "as_of", "options")


@dataclass(frozen=True)
class SqlTable:
    """A table of a SQL text, and the rows of it that the text is about."""

    ref: TableRef
    query: Query
    config: Config
    #: one that is open, so that several texts are about one state of it
    table: Table | None = None
    #: the only rows that the text needs; others may be there
    among: Among | None = None

    def open(self) -> Table:
        return self.table or Table(self.ref)


def sql_tables(tables: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, SqlTable]:
    """By name, what `hoodie.sql` is given: a path, a TableRef, or a mapping of read_table's parameters.

    Raises ConfigError for names that are no identifiers or differ in their case only, and as `read_table`.
    """
    check_names(tables)
    return {name: _table(name, given, options) for name, given in tables.items()}


def check_names(tables: Mapping[str, Any]) -> None:
    """Raises ConfigError for names that are no identifiers or differ in their case only, and for none."""
    if not isinstance(tables, Mapping) or not tables:
        raise ConfigError(
            f"tables are {tables!r}; name each table of the text, as {{'orders': '/data/orders'}}"
        )
    found = set[str]()
    for name in tables:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(f"{name!r} is no name for a table; use letters, digits and _", table=str(name))
        if name.lower() in found:
            raise ConfigError(f"tables has {name!r} twice; names are the same in any case", table=name)
        found.add(name.lower())


def _table(name: str, given: Any, options: Mapping[str, Any]) -> SqlTable:
    if isinstance(given, TableRef):
        config = Config.of({**given.storage_options, **options})
        return SqlTable(given, Query(), config)
    asked = dict(given) if isinstance(given, Mapping) else {"path": given}
    unknown = [str(key) for key in asked if key not in _KEYS]
    path = asked.get("path")
    if unknown or not isinstance(path, (str, os.PathLike)):
        what = f"has {', '.join(unknown)}" if unknown else "has no path"
        raise ConfigError(f"table {name!r} {what}; give a path, or some of {', '.join(_KEYS)}", table=name)
    config = Config.of({**options, **(asked.get("options") or {})})
    query = Query.of(asked.get("query"), asked.get("begin"), asked.get("end"), asked.get("as_of"))
    return SqlTable(TableRef.of(os.fspath(path), config), query, config)


def query_text(text: Any) -> str:
    """A SQL text without what ends it. Raises ConfigError for none."""
    plain = text.strip().rstrip(";").rstrip() if isinstance(text, str) else ""
    if not plain:
        raise ConfigError(f"the SQL text is {text!r}; give one SELECT")
    return plain
