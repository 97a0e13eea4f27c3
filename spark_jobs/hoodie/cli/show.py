"""The commands that look: read, timeline, files, config."""

from __future__ import annotations

import argparse
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import hoodie
from hoodie.cli.output import Answer, grid, moment, row_values, rows_grid
from hoodie.errors import ConfigError
from hoodie.storage import normalize, storage_for
from hoodie.storage.settings import options_of
from hoodie.text import plural, size

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_SHOWN = 20
_ROW_GROUP = 1 << 18


def read(args: argparse.Namespace) -> Answer:
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


def rows_answer(reader: pa.RecordBatchReader, args: argparse.Namespace, about: dict[str, Any]) -> Answer:
    """Rows as --limit, --output and --json ask for them; `about` comes first in the document."""
    if args.output is not None:
        return _saved(reader, args.limit, args.output, options_of(dict(args.option)))
    limit = _SHOWN if args.limit is None and not args.json else args.limit
    rows, total = _first(reader, limit)
    document = {
        **about,
        "columns": [{"name": field.name, "type": str(field.type)} for field in rows.schema],
        "num_rows": total,
        "rows": row_values(rows) if args.json else [],
    }
    note = plural(total, "row")
    if rows.num_rows < total:
        note += f", {rows.num_rows:,} shown; --limit N shows more, --output FILE.parquet writes all"
    shown = [list(row.values()) for row in row_values(rows)]
    return Answer(document, f"{rows_grid(rows.column_names, shown)}\n\n{note}")


def _first(reader: pa.RecordBatchReader, limit: int | None) -> tuple[pa.Table, int]:
    """The first rows (None: all), and how many there are."""
    import pyarrow as pa

    kept = []
    total = 0
    for batch in reader:
        kept += _limited(batch, limit, total)
        total += batch.num_rows
    return pa.Table.from_batches(kept, reader.schema), total


def _limited(batch: pa.RecordBatch, limit: int | None, before: int) -> list[pa.RecordBatch]:
    """What a limit leaves of a batch after so many rows. An empty slice would hold the batch in memory."""
    if limit is None:
        return [batch]
    return [batch.slice(0, limit - before)] if before < limit else []


def _saved(
    reader: pa.RecordBatchReader, limit: int | None, output: str, options: Mapping[str, str]
) -> Answer:
    """`options`: settings of the output's storage."""
    import pyarrow.parquet as pq

    path, limited = normalize(output), _Saved(limit)
    storage = storage_for(path, options)
    if not storage.local:
        with storage.output(path) as sink:
            opened: Any = sink
            with pq.ParquetWriter(opened, reader.schema, compression="zstd") as writer:
                limited.write(reader, writer)
            written = sink.tell()
            sink.commit()
        return limited.answer(path, written)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise ConfigError(f"--output: no folder {folder}; make it first", path=folder)
    if os.path.isdir(path):
        raise ConfigError(f"--output: {path} is a folder; name a file", path=path)
    partial = os.path.join(folder, f".{os.path.basename(path)}.{uuid.uuid4().hex[:12]}")
    try:
        with pq.ParquetWriter(partial, reader.schema, compression="zstd") as writer:
            limited.write(reader, writer)
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)
    return limited.answer(path, os.path.getsize(path))


@dataclass
class _Saved:
    """Rows that were written to a file, up to a limit."""

    limit: int | None
    total: int = 0
    saved: int = 0

    def write(self, reader: pa.RecordBatchReader, writer: pq.ParquetWriter) -> None:
        pending: list[pa.RecordBatch] = []
        for batch in reader:
            pending += _limited(batch, self.limit, self.total)
            self.total += batch.num_rows
            if sum(piece.num_rows for piece in pending) >= _ROW_GROUP:
                self.saved += _write(writer, reader.schema, pending)
        self.saved += _write(writer, reader.schema, pending)

    def answer(self, path: str, written: int) -> Answer:
        note = "" if self.saved == self.total else f" of {self.total:,}"
        document = {"output": path, "num_rows": self.saved, "bytes": written}
        return Answer(document, f"{plural(self.saved, 'row')}{note} written to {path} ({size(written)})")


def _write(writer: pq.ParquetWriter, schema: pa.Schema, pending: list[pa.RecordBatch]) -> int:
    """One row group of what is pending; how many rows."""
    import pyarrow as pa

    from hoodie.engine.required import settled

    rows = settled(pa.Table.from_batches(pending, schema))
    if rows.num_rows:
        writer.write_table(rows, row_group_size=rows.num_rows)
    pending.clear()
    return rows.num_rows


def timeline(args: argparse.Namespace) -> Answer:
    instants = hoodie.instants(args.table, archived=args.archived)
    completions = ("completion",) if any("completion" in entry for entry in instants) else ()
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
        raise ConfigError(
            f"no setting has {args.name!r} in its name; `hoodie config` lists all", name=args.name
        )
    width = min(110, shutil.get_terminal_size((100, 24)).columns)
    return Answer({"settings": [pages.describe(key) for key in keys]}, pages.text(keys, width))
