"""Partition columns that are stored in the path only (format.md 4.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hoodie.table.partition import partition_texts
from hoodie.table.properties import TableProperties


def partition_columns(
    props: TableProperties, schema: pa.Schema, partition: str, names: Sequence[str]
) -> dict[str, pa.Scalar[Any]]:
    """Value of each of `names` in a partition, in the column's type; the null partition gives null."""
    if not names:
        return {}
    texts = partition_texts(props, partition)
    return {
        name: pa.scalar(texts[name], pa.string()).cast(schema.field(name).type)
        for name in names
        if name in texts
    }
