"""The commands that look: read, timeline, files, config."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from typing import Any

import hoodie
from hoodie.cli.output import Answer, grid, moment
from hoodie.errors import ConfigError
from hoodie.storage import normalize
from hoodie.text import nearest, plural, size
from hoodie.timeline.time import REQUESTED, InstantTime


def read(args: argparse.Namespace) -> Answer:
    from hoodie.cli.rows import rows_answer

    columns = (
        None if args.columns is None else [name.strip() for name in args.columns.split(",") if name.strip()]
    )
    if columns == []:
        raise ConfigError("--columns is empty; name columns, or leave it out for all")
    reader = hoodie.read_batches(
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
    return rows_answer(reader, args, {"base_path": normalize(args.table)})


def timeline(args: argparse.Namespace) -> Answer:
    instants = _instants(args.table, args.archived)
    known = any(entry.get("completion", entry["instant"]) != entry["instant"] for entry in instants)
    completions = ("completion",) if known else ()
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
        *completions,
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
            *(entry.get(name) for name in completions),
        )
        for entry in instants
    ]
    document = {"base_path": normalize(args.table), "instants": instants}
    return Answer(document, f"{grid(heads, rows)}\n\n{plural(len(instants), 'instant')}")


def _instants(path: str, archived: bool) -> list[dict[str, Any]]:
    """The active instants, with the archived ones before them. One that is in both timelines, as an archiver
    that was killed may leave it, is active.
    """
    before = hoodie.instants(path, archived=True) if archived else []
    active = hoodie.instants(path)
    there = {(entry["instant"], entry["action"]) for entry in active}
    found = [*(entry for entry in before if (entry["instant"], entry["action"]) not in there), *active]
    return sorted(found, key=lambda entry: REQUESTED.key(InstantTime(entry["instant"])))


def _about(entry: dict[str, Any]) -> str:
    """Of a rollback, a restore or a savepoint: which instants, or what it is for."""
    if entry.get("restored_to"):
        return f"to {entry['restored_to']}"
    if entry.get("undone"):
        return f"of {', '.join(entry['undone'])}"
    return ", ".join(text for text in (entry.get("user"), entry.get("comments")) if text)


def files(args: argparse.Namespace) -> Answer:
    groups = hoodie.file_groups(args.table, options=dict(args.option))
    rows: list[Sequence[Any]] = []
    latest = total = files = 0
    for group in groups:
        name, read = (group["partition"], group["file_id"]), True
        for item in group["slices"]:
            base = [item] if item["name"] else []
            for file in (*base, *item["logs"]):
                rows.append((*name, item["instant"], size(file["bytes"]), file["name"]))
                name = ("", "")
                total += file["bytes"]
                latest += file["bytes"] if read else 0
                files += 1
            read = read and not base
    note = (
        f"{plural(len(groups), 'file group')}, {plural(files, 'file')} of {size(total)}; "
        f"the latest of each group: {size(latest)}"
    )
    document = {"base_path": normalize(args.table), "file_groups": groups}
    return Answer(document, f"{grid(('partition', 'file group', 'instant', 'size', 'file'), rows)}\n\n{note}")


def config(args: argparse.Namespace) -> Answer:
    from hoodie.config import pages
    from hoodie.config.key import declared

    keys = [key for key in declared() if args.name.lower() in key.name.lower()]
    if not keys:
        hint = nearest(args.name, [key.name for key in declared()])
        raise ConfigError(
            f"no setting has {args.name!r} in its name{hint or '; `hoodie config` lists all'}", name=args.name
        )
    width = min(110, shutil.get_terminal_size((100, 24)).columns)
    return Answer({"settings": [pages.describe(key) for key in keys]}, pages.text(keys, width))
