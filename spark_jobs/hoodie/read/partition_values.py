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
    texts = partition_texts(props, partition)
    return {
        name: pa.scalar(texts[name], pa.string()).cast(schema.field(name).type)
        for name in names
        if name in texts
    }


def partition_texts(props: TableProperties, partition: str) -> dict[str, str | None]:
    """What the path says of each partition column, None: null or an empty text; {} where it is unclear."""
    fields = props.partition_fields
    parts = [partition] if len(fields) == 1 else partition.split("/")
    if len(parts) != len(fields):
        return {}
    out: dict[str, str | None] = {}
    for field, part in zip(fields, parts, strict=True):
        text = part.removeprefix(f"{field}=") if props.hive_style else part
        text = unquote(text) if props.url_encode else text
        out[field] = None if text == DEFAULT_PARTITION else text
    return out
