"""Tables whose rows lie in other partitions than their columns say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

#: their files have other sizes than their commits say
UNVERIFIED = {"hoodie.read.verify.files": "false"}


def store_elsewhere(path: str | Path, column: str, value: Any) -> None:
    """Let all base files hold this value, as after updates that a global index does not move."""
    for file in Path(path).glob("**/*.parquet"):
        rows = pq.read_table(file, partitioning=None)
        at = rows.schema.get_field_index(column)
        values = pa.array([value] * rows.num_rows, rows.schema.field(at).type)
        pq.write_table(rows.set_column(at, rows.schema.field(at), values), file)
