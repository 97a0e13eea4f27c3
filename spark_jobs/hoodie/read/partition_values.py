"""Partition columns whose values are those of the partition path (format.md 4.5).

Where the key generator makes the path of the values themselves, the path goes before what a file holds, as in
Apache Hudi 1.x, and for base files in 0.15, Hive and Trino: a global index that does not move rows leaves
others in the files. The default partition's value is null. Rows, pruning and both engines ask here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa

from hoodie.errors import TableError
from hoodie.read.settings import FROM_PATH
from hoodie.table.partition import partition_texts
from hoodie.table.properties import TableProperties

#: key generators whose partition paths are the columns' values as texts
_PLAIN = re.compile(r"\.(Simple|Complex)(Avro)?KeyGenerator$")
#: what a path does not tell
_UNTOLD = object()


@dataclass(frozen=True)
class PathColumns:
    """Which columns of a table the partition path tells, with their types. Picklable.

    `every`: a path that does not tell one of them is an error; otherwise the file's value stands.
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
        return cls(props, {name: kind for name, kind in types.items() if plain and _is_plain(kind)})

    def values(self, partition: str) -> dict[str, Any]:
        """The columns that a path tells, as Python values. Raises TableError where all have to be told."""
        if not self.types:
            return {}
        texts = partition_texts(self.props, partition)
        found = {}
        for name, kind in self.types.items():
            value = _value(self._text(name, texts[name]), kind, self.every) if name in texts else _UNTOLD
            if value is not _UNTOLD:
                found[name] = value
            elif self.every:
                raise TableError(
                    f"partition {partition!r} does not tell the value of {name}, which is {kind}: its key "
                    f"generator writes other paths. Leave out {FROM_PATH.name} where files hold the column",
                    partition=partition,
                    column=name,
                )
        return found

    def _text(self, name: str, text: str | None) -> Any:
        """A text that begins with the column may be a value, or a path older than the table's property."""
        if text is None or self.props.hive_style or not text.startswith(f"{name}="):
            return text
        return text.removeprefix(f"{name}=") if self.every else _UNTOLD

    def scalars(self, partition: str) -> dict[str, pa.Scalar[Any]]:
        """`values` in the columns' types."""
        return {name: pa.scalar(value, self.types[name]) for name, value in self.values(partition).items()}

    def stored(self, partition: str, names: Sequence[str]) -> list[str]:
        """What to read from files of a partition to have these columns; at least one, to count the rows."""
        told = self.values(partition)
        return [name for name in names if name not in told] or list(names[:1])

    def put(self, rows: pa.Table, partition: str, schema: pa.Schema) -> pa.Table:
        """The columns of `schema` for rows that have what `stored` names."""
        told = self.scalars(partition)
        if not any(name in told for name in schema.names):
            return rows
        columns: list[Any] = []
        for field in schema:
            value: Any = told.get(field.name)
            columns.append(rows.column(field.name) if value is None else pa.repeat(value, rows.num_rows))
        return pa.Table.from_arrays(columns, schema=schema)


def _is_plain(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind) or types.is_integer(kind) or types.is_date32(kind) or types.is_boolean(kind)
    )


def _value(text: Any, kind: pa.DataType, cast: bool) -> Any:
    """The value of a text, _UNTOLD where it is none of the type. `cast`: also of types with several texts."""
    if text is None or text is _UNTOLD or pa.types.is_string(kind):
        return text
    if pa.types.is_integer(kind):
        bits = kind.bit_width - 1
        whole = int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else None
        return whole if whole is not None and -(1 << bits) <= whole < 1 << bits else _UNTOLD
    if pa.types.is_boolean(kind):
        return {"true": True, "false": False}.get(text, _UNTOLD)
    try:
        if pa.types.is_date32(kind):
            return date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else _UNTOLD
        return pa.scalar(text).cast(kind).as_py() if cast else _UNTOLD
    except (ValueError, pa.ArrowException):
        return _UNTOLD
