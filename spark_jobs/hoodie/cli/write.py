"""The commands that write: upsert, insert, bulk-insert, delete, insert-overwrite, delete-partition."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import hoodie
from hoodie.cli.engine import session
from hoodie.cli.meter import Meter, show_step
from hoodie.cli.output import Answer, grid
from hoodie.errors import ConfigError
from hoodie.format.java_properties import parse_properties
from hoodie.progress import ProgressCallback, silent
from hoodie.services.text import remarks
from hoodie.source import Source
from hoodie.source.target import target_schema
from hoodie.text import plural, size

#: flags for what the first write of a table needs
_WORDS = {
    "keys": ("--key", "hoodie.datasource.write.recordkey.field"),
    "partition_by": ("--partition-by", "hoodie.datasource.write.partitionpath.field"),
    "ordering": ("--ordering", "hoodie.datasource.write.precombine.field"),
}
_CHANGES = {"inserts": "inserted", "updates": "updated", "deletes": "deleted"}


def write(args: argparse.Namespace) -> Answer:
    """Write the source's rows into the table, and say what was done."""
    source, options = source_and_options(args)
    with session(args) as backend:
        result = hoodie.write_table(
            backend.read_source(source, target_schema(args.table, options)),
            args.table,
            spark=backend,
            operation=operation_of(args),
            options=options,
            dry_run=args.dry_run,
            progress=progress_for(args),
        ).to_dict()
    return Answer.of(result, summary)


def ingest(args: argparse.Namespace) -> Answer:
    """Write the source's new files into the table, and say what was done."""
    options = options_of(args)
    with session(args) as backend:
        result = hoodie.ingest(
            _described(args),
            args.table,
            spark=backend,
            operation=args.write_operation,
            max_files=args.max_files,
            max_bytes=args.max_bytes,
            lookback_s=args.lookback,
            start_after=args.start_after,
            transform=args.transform,
            error_table=args.error_table,
            max_bad_rows=args.max_bad_rows,
            max_bad_files=args.max_bad_files,
            options=options,
            dry_run=args.dry_run,
            progress=progress_for(args),
        ).to_dict()
    return Answer.of(result, ingested)


def ingested(result: dict[str, Any]) -> str:
    """An IngestResult for people."""
    if result["status"] == "nothing_new":
        name = result["table"] or result["base_path"]
        return "\n".join([f"Nothing new for {name}; nothing was written", *remarks(result)])
    left = f", {plural(result['files_left'], 'file')} left to the next run" if result["files_left"] else ""
    taken = f"  of {plural(result['num_source_files'], 'new file')}, {size(result['source_bytes'])}{left}"
    bad = [f"  {plural(result['num_bad_rows'], 'bad row')} set aside"] if result["num_bad_rows"] else []
    out = [f"  left out: {item['file']}: {item['reason']}" for item in result["bad_files"]]
    return "\n".join([summary(result), taken, *bad, *out])


def _described(args: argparse.Namespace) -> dict[str, Any]:
    return {"path": args.source, "format": args.format, "options": dict(args.source_option)}


def source_and_options(args: argparse.Namespace) -> tuple[Source, dict[str, str]]:
    """What a write reads, and its settings. Raises ConfigError, InputError."""
    options = options_of(args)
    return Source.of(_described(args), options, args.transform), options


def options_of(args: argparse.Namespace) -> dict[str, str]:
    """Settings of the command line; those of --option go before those of --properties, and flags such as
    --key are options. Raises ConfigError for an option that contradicts its flag.
    """
    options = dict(args.option)
    for name, (flag, setting) in _WORDS.items():
        columns = ",".join(getattr(args, name, None) or ())
        if columns and options.setdefault(setting, columns) != columns:
            raise ConfigError(
                f"{flag} {columns} contradicts --option {setting}={options[setting]}; leave one of them out",
                setting=setting,
            )
    return {**_properties(args.properties), **options}


def operation_of(args: argparse.Namespace) -> str:
    """The operation of a command, or of what `hoodie explain` explains."""
    named: str = args.operation if args.command == "explain" else args.command
    return "insert_overwrite_table" if getattr(args, "whole_table", False) else named


def delete_partition(args: argparse.Namespace) -> Answer:
    """Delete the named partitions, and say what was deleted."""
    result = hoodie.delete_partitions(
        args.table,
        args.partition,
        missing_ok=args.missing_ok,
        options=options_of(args),
        dry_run=args.dry_run,
        progress=progress_for(args),
    ).to_dict()
    return Answer.of(result, summary)


def _properties(path: str | None) -> dict[str, str]:
    """Settings of a Java properties file. Raises ConfigError when it is missing or malformed."""
    if path is None:
        return {}
    try:
        with open(path, "rb") as file:
            return parse_properties(file.read())
    except OSError as error:
        raise ConfigError(f"can't read the properties file {path}: {error.strerror}", path=path) from None
    except ValueError as error:
        raise ConfigError(f"{path} is no Java properties file: {error}", path=path) from None


def summary(result: dict[str, Any]) -> str:
    """A WriteResult for people."""
    if result["status"] == "planned":
        return _preview(result)
    changed = ", ".join(f"{result[f'num_{what}']:,} {name}" for what, name in _CHANGES.items())
    lines = [
        f"{result['status'].capitalize()} {result['operation']} {result['instant']} to {result['table']}: "
        f"{changed}",
        f"  {plural(result['num_files'], 'file')} of {size(result['bytes_written'])} in "
        f"{plural(len(result['partitions']), 'partition')}, {result['duration_s']:.1f} s",
    ]
    if result["num_replaced"]:
        lines.append(f"  {plural(result['num_replaced'], 'file group')} replaced")
    for item in result.get("validations") or ():
        lines.append(f"  {item['validator']} passed, found {item['found']}: {item['query']}")
    return "\n".join([*lines, *unmatched(result), *remarks(result)])


def _preview(result: dict[str, Any]) -> str:
    """What a dry run found, a line for each partition; sizes of new files are estimates."""
    lines = [*planned(result, result["planned"]), *unmatched(result)]
    return "\n".join([*lines, *(f"  warning: {warning}" for warning in result["warnings"])])


def unmatched(result: dict[str, Any]) -> list[str]:
    """Rows of which nothing is written."""
    lines = []
    if result["num_missing"]:
        lines.append(f"  {plural(result['num_missing'], 'row')} whose key is not in the table")
    if result["num_dropped"]:
        lines.append(f"  {plural(result['num_dropped'], 'row')} left out, whose key is in the table")
    return lines


def planned(result: dict[str, Any], partitions: list[dict[str, Any]]) -> list[str]:
    """What a write would do, as a whole and in each partition: a grid, with the columns that are not 0 in
    all.
    """
    head = (
        f"{result['operation']} would change {plural(len(result['partitions']), 'partition')} of "
        f"{result['table']}: {_totals(partitions)}; nothing was written"
    )
    columns = [(name, head) for name, head in _PLANNED.items() if any(item[name] for item in partitions)]
    if not columns:
        return [head]
    heads = ["partition", *(head for _, head in columns)]
    rows = [
        [item["partition"] or "(the table)", *(_shown(item, name) for name, _ in columns)]
        for item in partitions
    ]
    lines = [head, grid(heads, rows)]
    if compared := sum(item["compared"] for item in partitions):
        groups = plural(compared, "file group")
        lines.append(f"  late rows were told by the stored ordering values of {groups}, which were read")
    return lines


def _totals(partitions: list[dict[str, Any]]) -> str:
    """What a write would do in all partitions together; a job logs this line alone."""
    total = {name: sum(item[name] for item in partitions) for name in _PLANNED}
    parts = [f"{plural(total[what], 'row')} {name}" for what, name in _CHANGES.items() if total[what]]
    if total["late"]:
        parts.append(f"{plural(total['late'], 'late row')} without effect")
    if total["replaced_groups"]:
        groups, rows = plural(total["replaced_groups"], "file group"), plural(total["replaced_rows"], "row")
        parts.append(f"{groups} with {rows} replaced")
    return ", ".join(parts) or "no rows"


_PLANNED = {
    "inserts": "inserted",
    "updates": "updated",
    "deletes": "deleted",
    "late": "late",
    "files": "new files",
    "bytes": "about",
    "replaced_groups": "groups replaced",
    "replaced_rows": "their rows",
    "replaced_bytes": "their size",
}


def _shown(item: dict[str, Any], name: str) -> Any:
    return size(item[name]) if name.endswith("bytes") else item[name]


def progress_for(args: argparse.Namespace) -> ProgressCallback:
    """Steps on stderr for people, and on a terminal how far a write is; nothing for programs."""
    if args.json:
        return silent
    return Meter() if sys.stderr.isatty() else show_step
