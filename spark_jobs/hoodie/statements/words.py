"""Which texts are statements, by their first word (hoodie.config.statements), and which tables or other rows
a SQL text names. No parser is needed for it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hoodie.backend import Backend
from hoodie.config.statements import STATEMENTS, first_word
from hoodie.config.statements import is_call as is_call
from hoodie.config.statements import is_of_index as is_of_index
from hoodie.config.statements import is_statement as is_statement
from hoodie.errors import ConfigError
from hoodie.read.sql_tables import SqlTable, check_names, sql_tables
from hoodie.source import Source
from hoodie.table.handle import TableRef
from hoodie.text import argument

_ABOUT_INDEXES = "CREATE, DROP and REFRESH INDEX, SHOW INDEXES"
#: before what a statement says of rows that it can't write
MARK = "hoodie statement: "
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
    "REFRESH": "queries read a table as it is",
}


def check_statement(text: object) -> None:
    """Raises ConfigError for a text that begins as what is neither a query nor a statement of ours."""
    word = first_word(text)
    if word in _INSTEAD:
        raise ConfigError(
            f"{word} is not supported; give one SELECT, or one of {', '.join(STATEMENTS)}, {_ABOUT_INDEXES}: "
            f"{_INSTEAD[word]}",
            statement=word,
        )


_SOURCE = "source"


def named(
    tables: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[dict[str, SqlTable], dict[str, Any]]:
    """Tables, and Sources and rows, by name. Raises ConfigError, and as `Source.of`."""
    check_names(tables)
    rows = {name: given for name, given in tables.items() if _is_rows(given)}
    ours = {name: given for name, given in tables.items() if name not in rows}
    sources = {name: _source(name, given, options) for name, given in rows.items()}
    return (sql_tables(ours, options) if ours else {}), sources


def relations(rows: Mapping[str, Any], backend: Backend, known: Any = None) -> dict[str, Any]:
    """The rows as the backend's SQL takes them; `known` as of `Backend.read_source`."""
    return {name: backend.relation(given, known) for name, given in rows.items()}


def table_named(name: str, tables: Mapping[str, SqlTable], rows: Mapping[str, Any]) -> str:
    """The spelling of a table's name among `tables`. Raises ConfigError for one that is not there."""
    found = next((known for known in tables if known.lower() == name.lower()), None)
    if found is None:
        are_rows = name.lower() in (known.lower() for known in rows)
        others = f"{argument('tables=', '--table')} ({', '.join([*tables, *rows])})"
        what = "rows, not a Hudi table" if are_rows else f"not among {others}"
        raise ConfigError(
            f"{name} is {what}; give the path of the table that the statement changes", table=name
        )
    return found


def _is_rows(given: Any) -> bool:
    if isinstance(given, Mapping):
        return _SOURCE in given
    return given is not None and not isinstance(given, (str, os.PathLike, TableRef))


def _source(name: str, given: Any, options: Mapping[str, Any]) -> Any:
    if not isinstance(given, Mapping):
        return given
    if more := sorted(str(key) for key in given if key != _SOURCE):
        raise ConfigError(
            f"table {name!r} has source and {', '.join(more)}; give a source, or a table", table=name
        )
    return Source.of(given[_SOURCE], options)
