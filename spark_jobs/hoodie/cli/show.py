"""The commands that look: read, timeline, files, config."""

from __future__ import annotations

import argparse
import os
import shutil
import uuid
from collections.abc import Sequence
from typing import Any

import hoodie
from hoodie.cli.output import Answer, grid, moment, plural, rows_grid, size
from hoodie.errors import ConfigError
from hoodie.storage import normalize

_SHOWN = 20


def read(args: argparse.Namespace) -> Answer:
    columns = (
        None if args.columns is None else [name.strip() for name in args.columns.split(",") if name.strip()]
    )
    if columns == []:
        raise ConfigError("--columns is empty; name columns, or leave it out for all")
    rows = hoodie.read_table(
        args.table,
        query=args.query,
        begin=args.begin,
        end=args.end,
        as_of=args.as_of,
        columns=columns,
        where=args.where,
        meta=not args.no_meta,
        options=dict(args.option),
    )
    total = rows.num_rows
    if args.limit is not None:
        rows = rows.slice(0, args.limit)
    if args.output is not None:
        return _saved(rows, total, args.output)
    if not args.json and args.limit is None:
        rows = rows.slice(0, _SHOWN)
    document = {
        "base_path": normalize(args.table),
        "columns": [{"name": field.name, "type": str(field.type)} for field in rows.schema],
        "num_rows": total,
        "rows": rows.to_pylist(maps_as_pydicts="strict") if args.json else [],
    }
    note = plural(total, "row")
    if rows.num_rows < total:
        note += f", {rows.num_rows:,} shown; --limit N shows more, --output FILE.parquet writes all"
    shown = [list(row.values()) for row in rows.to_pylist(maps_as_pydicts="strict")]
    return Answer(document, f"{rows_grid(rows.column_names, shown)}\n\n{note}")


def _saved(rows: Any, total: int, output: str) -> Answer:
    import pyarrow.parquet as pq

    path = normalize(output)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise ConfigError(f"--output: no folder {folder}; make it first", path=folder)
    if os.path.isdir(path):
        raise ConfigError(f"--output: {path} is a folder; name a file", path=path)
    partial = os.path.join(folder, f".{os.path.basename(path)}.{uuid.uuid4().hex[:12]}")
    try:
        pq.write_table(rows, partial, compression="zstd")
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)
    written = os.path.getsize(path)
    document = {"output": path, "num_rows": rows.num_rows, "bytes": written}
    note = "" if rows.num_rows == total else f" of {total:,}"
    return Answer(document, f"{plural(rows.num_rows, 'row')}{note} written to {path} ({size(written)})")


def timeline(args: argparse.Namespace) -> Answer:
    instants = hoodie.instants(args.table, archived=args.archived)
    heads = (
        "instant",
        "action",
        "state",
        "operation",
        "inserted",
        "updated",
        "deleted",
        "files",
        "size",
        "changed (UTC)",
    )
    rows = [
        (
            entry["instant"],
            entry["action"],
            entry["state"],
            str(entry.get("operation") or "").lower() or _about(entry),
            entry.get("inserts"),
            entry.get("updates"),
            entry.get("deletes"),
            entry.get("files"),
            size(entry["bytes"]) if "bytes" in entry else "",
            moment(entry.get("changed_ms")),
        )
        for entry in instants
    ]
    document = {"base_path": normalize(args.table), "instants": instants}
    return Answer(document, f"{grid(heads, rows)}\n\n{plural(len(instants), 'instant')}")


def _about(entry: dict[str, Any]) -> str:
    """Of a rollback, a restore or a savepoint: which instants, or what it is for."""
    if entry.get("restored_to"):
        return f"to {entry['restored_to']}"
    if entry.get("undone"):
        return f"of {', '.join(entry['undone'])}"
    return ", ".join(text for text in (entry.get("user"), entry.get("comments")) if text)


def files(args: argparse.Namespace) -> Answer:
    groups = hoodie.file_groups(args.table)
    rows: list[Sequence[Any]] = []
    latest = total = slices = 0
    for group in groups:
        for place, item in enumerate(group["slices"]):
            name = (group["partition"], group["file_id"]) if place == 0 else ("", "")
            rows.append((*name, item["instant"], size(item["bytes"]), item["name"]))
            total += item["bytes"]
            latest += item["bytes"] if place == 0 else 0
            slices += 1
    note = (
        f"{plural(len(groups), 'file group')}, {plural(slices, 'file')} of {size(total)}; "
        f"the latest of each group: {size(latest)}"
    )
    document = {"base_path": normalize(args.table), "file_groups": groups}
    return Answer(document, f"{grid(('partition', 'file group', 'instant', 'size', 'file'), rows)}\n\n{note}")


def config(args: argparse.Namespace) -> Answer:
    from hoodie.config import pages

    keys = [key for key in pages.settings() if args.name.lower() in key.name.lower()]
    if not keys:
        raise ConfigError(
            f"no setting has {args.name!r} in its name; `hoodie config` lists all", name=args.name
        )
    width = min(110, shutil.get_terminal_size((100, 24)).columns)
    return Answer({"settings": [pages.describe(key) for key in keys]}, pages.text(keys, width))
