"""The twenty tasks with delta-rs, by its documentation; a task that it does not have is not here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

WITH_CHANGES = {"delta.enableChangeDataFeed": "true"}
ON = "target.order_id = source.order_id AND target.order_date = source.order_date"
WRITTEN = ("insert", "update_postimage")


def place(folder: Path) -> str:
    return str(folder / "delta")


def kill_a_writer(path: str) -> None:
    """What one leaves: a data file of no commit."""
    (Path(path) / "left.parquet").write_bytes(b"PAR1")


def left(path: str) -> Any:
    return [*Path(path).glob("left.parquet")]


def create(path: str, schema: pa.Schema) -> Any:
    DeltaTable.create(path, schema, partition_by=["order_date"], configuration=WITH_CHANGES)


def upsert(path: str, frame: Any) -> Any:
    (
        DeltaTable(path)
        .merge(frame, ON, source_alias="source", target_alias="target")
        .when_matched_update_all("source.updated_at >= target.updated_at")
        .when_not_matched_insert_all()
        .execute()
    )


def read_polars(path: str) -> Any:
    return pl.read_delta(path)


def filtered(path: str) -> Any:
    return DeltaTable(path).scan(["order_id", "amount"], predicate="status = 'open'")


def rows(path: str) -> Any:
    return DeltaTable(path).scan()


def newest(path: str) -> Any:
    return DeltaTable(path).version()


def time_travel(path: str, version: Any) -> Any:
    return DeltaTable(path, version=version).scan()


def change_feed(path: str, version: Any) -> Any:
    changes = pa.table(DeltaTable(path).load_cdf(starting_version=version + 1)).to_pylist()
    return [
        (row["_change_type"][0], row["order_id"])
        for row in changes
        if row["_change_type"] != "update_preimage"
    ]


def incremental(path: str, version: Any) -> Any:
    changes = pa.table(DeltaTable(path).load_cdf(starting_version=version + 1)).to_pylist()
    return [row for row in changes if row["_change_type"] in WRITTEN]


def merge(path: str, frame: Any) -> Any:
    (
        DeltaTable(path)
        .merge(frame, ON, source_alias="source", target_alias="target")
        .when_matched_delete("source.status = 'cancelled'")
        .when_matched_update({"status": "source.status", "updated_at": "source.updated_at"})
        .when_not_matched_insert_all()
        .execute()
    )


def delete(path: str) -> Any:
    DeltaTable(path).delete("status = 'void'")


def overwrite_partitions(path: str, frame: Any) -> Any:
    days = ", ".join(f"'{day}'" for day in frame["order_date"].unique())
    write_deltalake(path, frame, mode="overwrite", predicate=f"order_date IN ({days})")


def add_column(path: str, frame: Any) -> Any:
    write_deltalake(path, frame, mode="append", schema_mode="merge")


def history(path: str) -> Any:
    return [(entry["timestamp"], entry["operation"]) for entry in DeltaTable(path).history()]


def files(path: str) -> Any:
    return DeltaTable(path).file_uris()


def restore(path: str, version: Any) -> Any:
    DeltaTable(path).restore(version)


def compact(path: str) -> Any:
    DeltaTable(path).optimize.compact()


def clean(path: str) -> Any:
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def fix_failed_write(path: str) -> Any:
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
