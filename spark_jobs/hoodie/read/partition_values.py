"""Partition columns whose values are those of the partition path (format.md 4.5).

If the key generator makes the path of the values themselves, the path overrides the file's values. Apache
Hudi 1.x does so, and for base files 0.15, Hive and Trino. The two differ if a global index does not move
rows. The default partition's value is null. Rows, pruning and both engines use this module.

Times are microseconds in paths; Apache Hudi returns null for them. As other texts they depend on a time zone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

from hoodie.errors import TableError
from hoodie.read.settings import FROM_PATH
from hoodie.table.partition import part_text, partition_texts
from hoodie.table.properties import TableProperties

#: key generators whose partition paths are the columns' values as texts
_PLAIN = re.compile(r"\.(Simple|Complex)(Avro)?KeyGenerator$")
_WHOLE = re.compile(r"-?[0-9]{1,19}")
#: Java writes small ones with an exponent
_NUMBER = re.compile(r"-?[0-9]{1,38}(\.[0-9]{1,38})?(E[+-][0-9]{1,2})?")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
#: a value that the path does not contain
_ABSENT = object()


@dataclass(frozen=True)
class PathColumns:
    """The columns of a table whose values the partition path contains, with their types. Picklable.

    `every`: a path without the value of one of them is an error; otherwise the file's value counts.
    """

    props: TableProperties
    types: Mapping[str, pa.DataType]
    every: bool = False

    @classmethod
    def of(cls, props: TableProperties, schema: pa.Schema, asked: bool = False) -> PathColumns:
        """`asked` is FROM_PATH. Columns that are not in the schema, or inside of structs, are left out."""
        types = {name: schema.field(name).type for name in props.partition_fields if name in schema.names}
        if asked or props.drop_partition_columns:
            return cls(props, types, every=True)
        plain = _PLAIN.search(props.keygenerator_class or "") and not any("slash" in name for name in props)
        return cls(props, {name: kind for name, kind in types.items() if plain and is_plain(kind)})

    def values(self, partition: str) -> dict[str, Any]:
        """The columns in a path, as Python values. Raises TableError where one of `every` is missing."""
        if not self.types:
            return {}
        texts = partition_texts(self.props, partition)
        found = {}
        for name, kind in self.types.items():
            value = _value(self._text(name, texts[name]), kind, self.every) if name in texts else _ABSENT
            if value is not _ABSENT:
                found[name] = value
            elif self.every:
                raise TableError(
                    f"partition {partition!r} does not show the value of {name}, which is {kind}: its key "
                    f"generator writes other paths. Leave out {FROM_PATH.name} where files hold the column",
                    partition=partition,
                    column=name,
                )
        return found

    def above(self, folder: str) -> tuple[dict[str, Any], dict[str, str]]:
        """What the folder, if it is a partition, and all in it have in common: values of columns, and texts
        that the values of columns are, or begin with before a slash.

        Escaped texts and other types have no slash; behind a text that may have one no part is certain.
        """
        fields, values, texts = self.props.partition_fields, dict[str, Any](), dict[str, str]()
        parts = [folder] if len(fields) == 1 else folder.split("/")
        if len(parts) > len(fields) or (self.every and len(fields) > 1):
            return {}, {}
        for name, part in zip(fields, parts, strict=False):
            kind, text = self.types.get(name), part_text(self.props, name, part)
            if kind is None:
                break
            if pa.types.is_string(kind) and not (self.props.url_encode and "/" not in part):
                found = self._text(name, text)
                if isinstance(found, str):
                    texts[name] = found
                break
            value = _value(self._text(name, text), kind, self.every)
            if value is _ABSENT:
                break
            values[name] = value
        return values, texts

    def _text(self, name: str, text: str | None) -> Any:
        """A text that begins with the column may be a value, or a path older than the table's property."""
        if text is None or self.props.hive_style or not text.startswith(f"{name}="):
            return text
        return text.removeprefix(f"{name}=") if self.every else _ABSENT

    def scalars(self, partition: str) -> dict[str, pa.Scalar[Any]]:
        """`values` in the columns' types."""
        return {name: pa.scalar(value, self.types[name]) for name, value in self.values(partition).items()}

    def stored(self, partition: str, names: Sequence[str]) -> list[str]:
        """What to read from files of a partition to have these columns; at least one, to count the rows."""
        known = self.values(partition)
        return [name for name in names if name not in known] or list(names[:1])

    def put(self, rows: pa.Table, partition: str, schema: pa.Schema) -> pa.Table:
        """The columns of `schema` for rows that have what `stored` names."""
        known = self.scalars(partition)
        if not any(name in known for name in schema.names):
            return rows
        columns: list[Any] = []
        for field in schema:
            value: Any = known.get(field.name)
            columns.append(rows.column(field.name) if value is None else pa.repeat(value, rows.num_rows))
        return pa.Table.from_arrays(columns, schema=schema)


def is_plain(kind: pa.DataType) -> bool:
    """A type whose text in a path is read as a value of it."""
    types = pa.types
    tests = (
        types.is_string,
        types.is_integer,
        types.is_date32,
        types.is_boolean,
        types.is_decimal,
        is_moment,
    )
    return any(test(kind) for test in tests)


def is_moment(kind: pa.DataType) -> bool:
    """A point in time whose text in a path is a number of microseconds, which is its value."""
    return bool(pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz)


def _value(text: Any, kind: pa.DataType, cast: bool) -> Any:
    """The value of a text, _ABSENT where it is none of the type. `cast`: also of types with several texts."""
    types = pa.types
    if text is None or text is _ABSENT or types.is_string(kind):
        return text
    if types.is_boolean(kind):
        return {"true": True, "false": False}.get(text, _ABSENT)
    try:
        if types.is_integer(kind):
            return _whole(text, kind.bit_width - 1)
        if types.is_decimal(kind):
            return _decimal(text, kind)
        if is_moment(kind) and _WHOLE.fullmatch(text):
            return _EPOCH + timedelta(microseconds=int(text))
        if types.is_date32(kind):
            return date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else _ABSENT
        return pa.scalar(text).cast(kind).as_py() if cast else _ABSENT
    except (ValueError, OverflowError, pa.ArrowException):
        return _ABSENT


def _whole(text: str, bits: int) -> Any:
    whole = int(text) if _WHOLE.fullmatch(text) else None
    return whole if whole is not None and -(1 << bits) <= whole < 1 << bits else _ABSENT


def _decimal(text: str, kind: Any) -> Any:
    """Without rounding: a text with more digits is none of the type."""
    if not _NUMBER.fullmatch(text):
        return _ABSENT
    value = Decimal(text)
    pa.scalar(value, kind)
    return value
