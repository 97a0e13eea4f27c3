"""The twenty tasks with `hoodie.Table`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie

WITH_CHANGES = {"hoodie.table.cdc.enabled": "true"}
RETAINED = {"hoodie.clean.commits.retained": "1"}
SMALL_FILES = {"hoodie.clustering.plan.strategy.small.file.limit": "1000000000"}


_KILLED = """
import os, sys
import hoodie

def progress(stage, text):
    if stage == "commit":
        os._exit(1)

table = hoodie.Table(sys.argv[1])
table.upsert(table.read(), progress=progress)
"""


def place(folder: Path) -> str:
    return str(folder / "ours")


def kill_a_writer(path: str) -> None:
    """Before its commit."""
    subprocess.run([sys.executable, "-c", _KILLED, path], check=False)


def left(path: str) -> Any:
    return [entry.instant for entry in hoodie.Table(path).history() if entry.state != "completed"]


def create(path: str, schema: pa.Schema) -> Any:
    hoodie.Table.create(
        path,
        schema,
        keys="order_id",
        partition_by="order_date",
        ordering="updated_at",
        options=WITH_CHANGES,
    )


def upsert(path: str, frame: Any) -> Any:
    hoodie.Table(path).upsert(frame)


def read_polars(path: str) -> Any:
    return hoodie.Table(path).read().to_polars()


def filtered(path: str) -> Any:
    return hoodie.Table(path).read(["order_id", "amount"], where="status = 'open'").to_arrow()


def rows(path: str) -> Any:
    return hoodie.Table(path).read().to_arrow()


def newest(path: str) -> Any:
    return hoodie.Table(path).history()[-1]


def time_travel(path: str, version: Any) -> Any:
    return hoodie.Table(path).read(as_of=version).to_arrow()


def change_feed(path: str, version: Any) -> Any:
    changes = hoodie.Table(path).changes(version, format="cdc").to_arrow().to_pylist()
    return [(row["op"], json.loads(row["after"] or row["before"])["order_id"]) for row in changes]


def incremental(path: str, version: Any) -> Any:
    return hoodie.Table(path).changes(version).to_arrow()


def merge(path: str, frame: Any) -> Any:
    (
        hoodie.Table(path)
        .merge(frame)
        .when_matched_delete("source.status = 'cancelled'")
        .when_matched_update({"status": "source.status", "updated_at": "source.updated_at"})
        .when_not_matched_insert_all()
        .execute()
    )


def delete(path: str) -> Any:
    hoodie.Table(path).delete_where("status = 'void'")


def overwrite_partitions(path: str, frame: Any) -> Any:
    hoodie.Table(path).insert_overwrite(frame)


def add_column(path: str, frame: Any) -> Any:
    hoodie.Table(path).insert(frame)


def history(path: str) -> Any:
    return [(entry.instant, entry.operation) for entry in hoodie.Table(path).history()]


def files(path: str) -> Any:
    return [group.slices[0].name for group in hoodie.Table(path).files()]


def savepoint(path: str) -> Any:
    return hoodie.Table(path).savepoint().instant


def restore(path: str, version: Any) -> Any:
    hoodie.Table(path).restore(version.instant)


def compact(path: str) -> Any:
    hoodie.Table(path).cluster(options=SMALL_FILES)


def clean(path: str) -> Any:
    hoodie.Table(path).clean(options=RETAINED)


def create_index(path: str) -> Any:
    return hoodie.Table(path).create_index("column_stats").made


def fix_failed_write(path: str) -> Any:
    hoodie.Table(path).run_services(only=["repair"])


def why_late(path: str) -> Any:
    return [
        finding.text for finding in hoodie.Table(path).doctor() if finding.check in ("timeline", "pending")
    ]
