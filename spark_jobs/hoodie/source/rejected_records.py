"""Records of a source that can't be written: what is said of them, and which rows lack what a table needs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from hoodie.codec.arrays import pc, places
from hoodie.errors import InputError

#: `position`: the line of the record in its file, from 1; null where it is not known. `file` may be "".
_FIELDS: dict[str, pa.DataType] = {
    "file": pa.string(),
    "position": pa.int64(),
    "record": pa.string(),
    "error": pa.string(),
}
SCHEMA = pa.schema(_FIELDS)


@dataclass(frozen=True, kw_only=True)
class Required:
    """Fields that no row may lack, dotted for nested ones. Of a record key of several fields one is enough.

    Picklable: tasks use it, too.
    """

    record_key: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    ordering: str | None = None

    def problems(self, rows: pa.Table) -> Iterator[tuple[int, str]]:
        """Numbers of rows, from 0, ascending, and what each lacks; a row is named once."""
        found: dict[int, str] = {}
        for fields, what, empty in self.groups():
            lacking = _lacking(rows, fields[0], empty)
            for name in fields[1:]:
                lacking = pc.and_(lacking, _lacking(rows, name, empty))
            text = f"{what} {', '.join(fields)} is null or missing" + (", or empty" if empty else "")
            for number in places(lacking):
                found.setdefault(number, text)
        yield from sorted(found.items())

    def groups(self) -> Iterator[tuple[tuple[str, ...], str, bool]]:
        """Fields of which a row needs one, what they are, and whether an empty text is no value."""
        if self.record_key:
            yield self.record_key, "record key", True
        for name in self.partition:
            yield (name,), "partition field", True
        if self.ordering:
            yield (self.ordering,), "ordering field", False


@dataclass
class BadRows:
    """What was found so far. Raises InputError once it is more than `limit`."""

    limit: int
    items: list[dict[str, Any]] = field(default_factory=list)

    def add(self, file: str, position: int | None, record: str, error: str) -> None:
        text = error.strip().splitlines() or ["it can't be read"]
        self.items.append({"file": file, "position": position, "record": record, "error": text[0]})
        if len(self.items) > self.limit:
            raise self.too_many()

    def too_many(self) -> InputError:
        first = self.items[0]
        place = f" {first['position']}" if first["position"] is not None else ""
        return InputError(
            f"more than {self.limit} rows of the source are bad; the first: {first['error']} "
            f"({first['file'] or 'file not known'}{place}). Mend the files or the settings, or raise "
            "max_bad_rows (--max-bad-rows); nothing was written",
            file=first["file"],
        )

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self.items, SCHEMA)


@dataclass(frozen=True)
class Screened:
    """Rows that can be written, as a backend's `frame` takes them, and the records that can't."""

    rows: Any
    bad: pa.Table


def record_texts(rows: pa.Table, numbers: Sequence[int]) -> list[str]:
    """These rows as JSON, for records whose own text is not known."""
    found = rows.take(pa.array(numbers, pa.int64())).to_pylist()
    return [json.dumps(row, default=str, ensure_ascii=False) for row in found]


def located(schema: pa.Schema, name: str) -> tuple[list[str], pa.DataType] | None:
    """The path of a field, dotted for a nested one, and its type; None where the schema lacks it."""
    top, *rest = [name] if name in schema.names else name.split(".")
    if top not in schema.names:
        return None
    kind = schema.field(top).type
    for step in rest:
        if not pa.types.is_struct(kind) or kind.get_field_index(step) < 0:
            return None
        kind = kind.field(step).type
    return [top, *rest], kind


def lacking(values: Any, kind: pa.DataType, empty: bool) -> Any:
    """Mask of the values of that type that are none; of an expression, the expression of it."""
    mask = pc.is_null(values)
    if empty and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        mask = pc.or_kleene(mask, pc.equal(values, ""))
    return mask


def _lacking(rows: pa.Table, name: str, empty: bool) -> Any:
    """Mask of the rows that have no value in a field."""
    found = located(rows.schema, name)
    if found is None:
        return pa.chunked_array([pa.repeat(True, rows.num_rows)])
    (top, *rest), kind = found
    values = rows.column(top)
    for step in rest:
        values = pc.struct_field(values, step)
    return lacking(values, kind, empty)
