"""The values of partition paths as Spark SQL, for files that Spark reads itself.

A value is computed from the row's `_hoodie_partition_path`. A path for which that gives another value than
`PathColumns` does, or which does not contain one, is named in the expression with its own. Names and values
are written in hexadecimal: the name of a partition is no SQL.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from hoodie.format.meta_fields import PARTITION_PATH
from hoodie.format.names import DEFAULT_PARTITION
from hoodie.read.partition_values import PathColumns, is_moment, is_plain
from hoodie.table.partition import partition_texts

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def value_expressions(
    path_columns: PathColumns, partitions: Collection[str], types: Mapping[str, str]
) -> dict[str, str]:
    """SQL of each column in `types` (names -> Spark types) that is in paths, for rows of these partitions."""
    values = {partition: path_columns.values(partition) for partition in partitions}
    out: dict[str, str] = {}
    for name, kind in types.items():
        if name not in path_columns.types:
            continue
        known = [found[name] for found in values.values() if name in found]
        if len(known) == len(values) and len(set(known)) == 1:
            out[name] = _literal(known[0], kind)
            continue
        own = [
            partition
            for partition in values
            if not _computes(path_columns, partition, name, values[partition])
        ]
        text = _text_of(path_columns, name)
        if is_moment(path_columns.types[name]):
            text = f"timestamp_micros(CAST({text} AS bigint))"
        text = f"CAST({text} AS {kind})"
        for partition in own:
            found = values[partition]
            value = _literal(found[name], kind) if name in found else _quoted(name)
            text = f"IF(`{PARTITION_PATH}` = {_literal(partition, 'string')}, {value}, {text})"
        out[name] = text
    return out


def _computes(path_columns: PathColumns, partition: str, name: str, found: Mapping[str, Any]) -> bool:
    """Does `_text_of`, cast to the column's type, give the path's value?"""
    if name not in found or (path_columns.props.url_encode and _BROKEN_ESCAPE.search(partition)):
        return False
    text = partition_texts(path_columns.props, partition)[name]
    return text is None or is_plain(path_columns.types[name])


def _text_of(path_columns: PathColumns, name: str) -> str:
    fields = path_columns.props.partition_fields
    part = f"`{PARTITION_PATH}`"
    if len(fields) > 1:
        part = f"get(split({part}, '/'), {fields.index(name)})"
    prefix = _literal(f"{name}=", "string")
    part = f"IF(startswith({part}, {prefix}), substring({part}, {len(name) + 2}), {part})"
    if path_columns.props.url_encode:
        part = f"url_decode(replace({part}, '+', '%2B'))"
    return f"nullif({part}, {_literal(DEFAULT_PARTITION, 'string')})"


def _literal(value: Any, kind: str) -> str:
    if value is None:
        return f"CAST(NULL AS {kind})"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"CAST(CAST(X'{text.encode().hex()}' AS string) AS {kind})"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
