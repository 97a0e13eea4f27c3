"""Partition columns that are stored in the path only (format.md 4.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from hoodie.keygen import DEFAULT_PARTITION
from hoodie.table.properties import TableProperties


def partition_columns(
    props: TableProperties, schema: pa.Schema, partition: str, names: Sequence[str]
) -> dict[str, pa.Scalar[Any]]:
    """Value of each of `names` in a partition, in the column's type; the null partition gives null."""
    if not names:
        return {}
    fields = props.partition_fields
    parts = [partition] if len(fields) == 1 else partition.split("/")
    out: dict[str, pa.Scalar[Any]] = {}
    for field, part in zip(fields, parts, strict=False):
        if field not in names:
            continue
        text = part.removeprefix(f"{field}=") if props.hive_style else part
        text = unquote(text) if props.url_encode else text
        value = pa.scalar(None if text == DEFAULT_PARTITION else text, pa.string())
        out[field] = value.cast(schema.field(field).type)
    return out
