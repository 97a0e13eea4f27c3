"""`hoodie sql`: one SELECT over several tables, or one statement that changes a table, without Spark."""

from __future__ import annotations

import argparse
from typing import Any

import hoodie
from hoodie.cli.output import Answer
from hoodie.cli.rows import rows_answer
from hoodie.errors import ConfigError
from hoodie.services.registry import public
from hoodie.statements.words import check_statement, is_statement
from hoodie.storage import normalize


def sql(args: argparse.Namespace) -> Answer:
    """Raises ConfigError for an option of a table that --table does not name, and of rows for a statement."""
    tables = _tables(args)
    if is_statement(args.text):
        return _statement(args, tables)
    from hoodie.backend.local import LocalBackend
    from hoodie.statements.words import named, relations

    check_statement(args.text)
    backend, (ours, rows) = LocalBackend(), named(tables, dict(args.option))
    reader = backend.sql_rows(args.text, ours, relations(rows, backend))
    about = {"tables": {name: normalize(given["path"]) for name, given in tables.items() if "path" in given}}
    return rows_answer(reader, args, about)


def _tables(args: argparse.Namespace) -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {}
    for flag, what in (("table", "path"), ("source", "source")):
        for name, path in getattr(args, flag):
            if name in tables:
                raise ConfigError(
                    f"--{flag} {name}={path}: the name is taken; give each table its own", table=name
                )
            tables[name] = {what: path}
    for option in ("query", "begin", "end", "as_of"):
        for name, value in getattr(args, option):
            if name not in tables:
                flag = "--" + option.replace("_", "-")
                raise ConfigError(f"{flag} {name}={value}: no --table {name}=PATH", table=name)
            tables[name][option] = value
    return tables


def _statement(args: argparse.Namespace, tables: dict[str, dict[str, str]]) -> Answer:
    from hoodie.cli.write import progress_for, summary

    if args.limit is not None or args.output is not None or args.format is not None:
        raise ConfigError(
            "--limit, --output and --format are for rows; leave them out for a statement that changes a table"
        )
    result: dict[str, Any] = hoodie.sql(
        args.text,
        tables=tables,
        options=dict(args.option),
        dry_run=args.dry_run,
        progress=progress_for(args),
    ).to_dict()
    service = public().get(str(result.get("operation")))
    return Answer.of(result, summary if service is None or "num_inserts" in result else service.text)
