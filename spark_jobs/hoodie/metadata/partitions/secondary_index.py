"""Secondary indexes of the metadata table (format.md 15.12): their keys, their records and their look-up.

The key of a record is `<value>$<record key>`, both escaped (Apache Hudi 1.2.0 SecondaryIndexKeyUtils), and
the record says only whether it was deleted. Version 1 distributes records among file groups by the hash of
the whole key, version 2 by that of `<value>$`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import pyarrow as pa

from hoodie.codec.arrays import Array, pc, whole
from hoodie.errors import TableError
from hoodie.format.hfile_records import KEY_FIELD
from hoodie.metadata.partitions import Records
from hoodie.metadata.table import MetadataTable, by_prefixes

#: the column of the records
SECONDARY = "SecondaryIndexMetadata"
_TYPE = 7
#: the value of rows without one
_NULL = "\0"
_TO_ESCAPE = r"[\\$\x{00}]"
_SPECIAL, _ESCAPED = re.compile(r"[\\$\0]"), re.compile(r"\\(.)", re.DOTALL)
#: a key: a value, and the record key behind the first $ that is not escaped
_KEY = re.compile(r"(?:[^\\$]|\\.)*\$((?:[^\\]|\\.)*)", re.DOTALL)


def prefix_of(value: str) -> str:
    """With which the keys of a value begin."""
    return _SPECIAL.sub(r"\\\g<0>", value) + "$"


def index_keys(values: Any, keys: Any) -> Any:
    """The keys of rows, whose values are texts or null, by an array of each."""
    escaped = pc.replace_substring_regex(values, pattern=_TO_ESCAPE, replacement=r"\\\0")
    parts = [pc.fill_null(escaped, _NULL), pc.replace_substring_regex(keys, _TO_ESCAPE, r"\\\0"), "$"]
    return pc.binary_join_element_wise(*parts)


def index_records(new: Array, gone: Array) -> Records:
    """Of keys that come, and of keys that go."""
    count = len(new)
    there = pa.StructArray.from_arrays([pa.array([False] * count, pa.bool_())], ["isDeleted"])
    types = pa.array([_TYPE] * count, pa.int32())
    rows = pa.table({KEY_FIELD: new, "type": types, SECONDARY: there})
    return Records(rows, deletes=gone)


def value_parts(keys: Any) -> Any:
    """What the hash of keys of version 2 is of: the value with its $."""
    return pc.extract_regex(keys, r"(?s)^(?P<value>(?:[^\\$]|\\.)*\$)").field("value")


def record_keys(
    metadata: MetadataTable, index: str, values: Collection[str], *, by_value: bool
) -> frozenset[str]:
    """The record keys of the rows that have one of the values. `index` is the partition of the metadata
    table, `by_value`: it is of version 2.

    Raises TableError for a key of another form, and as `look_up`.
    """
    prefixes = pa.array(sorted(map(prefix_of, values)), pa.string())
    parts = metadata.look_up_in([metadata.slices(index)], prefixes, [SECONDARY], by_prefixes, by_value)
    found: dict[str, bool] = {}
    for rows in parts:
        there: Any = whole(rows.column(KEY_FIELD)).to_pylist()
        for key, deleted in zip(there, _deleted(rows, index), strict=True):
            found[key] = deleted is False  # the last record of a key counts
    return frozenset(_record_key(key, index) for key, there in found.items() if there)


def _deleted(rows: pa.Table, index: str) -> list[Any]:
    column: Any = whole(rows.column(SECONDARY)) if SECONDARY in rows.schema.names else None
    if column is None or not pa.types.is_struct(column.type) or column.type.get_field_index("isDeleted") < 0:
        raise TableError(f"records of {index} do not say whether they were deleted", partition=index)
    found: list[Any] = column.field("isDeleted").to_pylist()
    return found


def _record_key(key: str, index: str) -> str:
    match = _KEY.fullmatch(key)
    if match is None or match[1] == "\0":
        raise TableError(f"{index} has the key {key[:200]!r}, which has no record key", partition=index)
    return _ESCAPED.sub(r"\1", match[1])
