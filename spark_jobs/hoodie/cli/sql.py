"""`hoodie sql`: one SELECT over several tables, without Spark."""

from __future__ import annotations

import argparse

from hoodie.cli.output import Answer
from hoodie.cli.show import rows_answer
from hoodie.errors import ConfigError
from hoodie.storage import normalize


def sql(args: argparse.Namespace) -> Answer:
    """Raises ConfigError for an option of a table that --table does not name."""
    from hoodie.read.duckdb_sql import sql_batches
    from hoodie.read.sql_tables import sql_tables

    tables: dict[str, dict[str, str]] = {}
    for name, path in args.table:
        if name in tables:
            raise ConfigError(
                f"--table {name}={path}: the name is taken; give each table its own", table=name
            )
        tables[name] = {"path": path}
    for option in ("query", "begin", "end", "as_of"):
        for name, value in getattr(args, option):
            if name not in tables:
                flag = "--" + option.replace("_", "-")
                raise ConfigError(f"{flag} {name}={value}: no --table {name}=PATH", table=name)
            tables[name][option] = value
    reader = sql_batches(args.text, sql_tables(tables, dict(args.option)))
    about = {"tables": {name: normalize(given["path"]) for name, given in tables.items()}}
    return rows_answer(reader, args, about)
