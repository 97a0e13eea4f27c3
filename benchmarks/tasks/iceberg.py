"""The twenty tasks with pyiceberg, by its documentation; a task that it does not have is not here.

The catalog, SQLite here, is open already.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.transforms import IdentityTransform

TABLE = "shop.orders"


def place(folder: Path) -> Catalog:
    uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/iceberg"
    return load_catalog("default", type="sql", uri=uri, warehouse=warehouse)


def kill_a_writer(catalog: Catalog) -> None:
    """What one leaves: a data file of no commit."""
    (Path(catalog.load_table(TABLE).location().removeprefix("file://")) / "left.parquet").write_bytes(b"PAR1")


def left(catalog: Catalog) -> Any:
    return [*Path(catalog.load_table(TABLE).location().removeprefix("file://")).glob("left.parquet")]


def create(catalog: Catalog, schema: pa.Schema) -> Any:
    catalog.create_namespace_if_not_exists("shop")
    made = catalog.create_table(TABLE, schema)
    with made.update_spec() as spec:
        spec.add_field("order_date", IdentityTransform(), "order_date")


def upsert(catalog: Catalog, frame: Any) -> Any:
    rows = pa.Table.from_pandas(frame, preserve_index=False)
    catalog.load_table(TABLE).upsert(rows, join_cols=["order_id", "order_date"])


def read_polars(catalog: Catalog) -> Any:
    return catalog.load_table(TABLE).to_polars().collect()


def filtered(catalog: Catalog) -> Any:
    scan = catalog.load_table(TABLE).scan("status == 'open'", selected_fields=("order_id", "amount"))
    return scan.to_arrow()


def rows(catalog: Catalog) -> Any:
    return catalog.load_table(TABLE).scan().to_arrow()


def newest(catalog: Catalog) -> Any:
    snapshot = catalog.load_table(TABLE).current_snapshot()
    return None if snapshot is None else snapshot.snapshot_id


def time_travel(catalog: Catalog, version: Any) -> Any:
    return catalog.load_table(TABLE).scan(snapshot_id=version).to_arrow()


def merge(catalog: Catalog, frame: Any) -> Any:
    opened = catalog.load_table(TABLE)
    gone = frame[frame["status"] == "cancelled"]["order_id"]
    stored = opened.scan().to_pandas().set_index("order_id")
    kept = frame[frame["status"] != "cancelled"].set_index("order_id")
    kept["amount"] = stored["amount"].reindex(kept.index).fillna(kept["amount"])
    rows = pa.Table.from_pandas(kept.reset_index(), preserve_index=False).select(opened.schema().column_names)
    with opened.transaction() as transaction:
        transaction.delete(f"order_id in ({', '.join(repr(key) for key in gone)})")
        transaction.upsert(rows, join_cols=["order_id", "order_date"])


def delete(catalog: Catalog) -> Any:
    catalog.load_table(TABLE).delete("status == 'void'")


def overwrite_partitions(catalog: Catalog, frame: Any) -> Any:
    rows = pa.Table.from_pandas(frame, preserve_index=False)
    catalog.load_table(TABLE).dynamic_partition_overwrite(rows)


def add_column(catalog: Catalog, frame: Any) -> Any:
    opened = catalog.load_table(TABLE)
    rows = pa.Table.from_pandas(frame, preserve_index=False)
    with opened.update_schema() as update:
        update.union_by_name(rows.schema)
    opened.append(rows)


def history(catalog: Catalog) -> Any:
    return catalog.load_table(TABLE).inspect.snapshots().select(["committed_at", "operation"]).to_pylist()


def files(catalog: Catalog) -> Any:
    return catalog.load_table(TABLE).inspect.files()["file_path"].to_pylist()


def savepoint(catalog: Catalog) -> Any:
    opened = catalog.load_table(TABLE)
    snapshot = opened.current_snapshot()
    opened.manage_snapshots().create_tag(snapshot.snapshot_id, "before").commit()
    return snapshot.snapshot_id


def restore(catalog: Catalog, version: Any) -> Any:
    catalog.load_table(TABLE).manage_snapshots().rollback_to_snapshot(version).commit()


def clean(catalog: Catalog) -> Any:
    opened = catalog.load_table(TABLE)
    stale = [item.snapshot_id for item in opened.snapshots() if item != opened.current_snapshot()]
    opened.maintenance.expire_snapshots().by_ids(stale).commit()
