"""Rows of a query by a connection of Python's DB-API (PEP 249), spooled a batch at a time.

A column has one type for all rows: that of the table which the rows are for, where the values fit it; else
the one that the cursor names; else the one that all values have. Databases that say no types (SQLite) and
columns whose first batches are NULL need all values: batches are kept as they come, and written with the
types once the query has ended.

Memory: one batch, of 16 MiB or one row. PostgreSQL and MySQL keep the rows of a plain cursor in the client,
so that they get a cursor on the server. Cursors that answer in Arrow (ADBC) have types of their own.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import importlib
import json
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from hoodie.errors import InputError
from hoodie.source.rows import fits
from hoodie.source.spool import write_file
from hoodie.source.target import target_schema

#: rows that the first batch asks for, and the most that one does; bytes of a batch
_FIRST, _MOST, _BYTES = 1000, 50_000, 16 << 20
_POSTGRES, _MYSQL = ("psycopg2", "psycopg"), ("MySQLdb", "pymysql")
#: PostgreSQL's numbers of types
_OIDS: dict[int, pa.DataType] = {
    16: pa.bool_(),
    17: pa.binary(),
    **dict.fromkeys((18, 19, 25, 114, 142, 1042, 1043, 2950, 3802), pa.string()),
    **dict.fromkeys((20, 26), pa.int64()),
    **dict.fromkeys((21, 23), pa.int32()),
    700: pa.float32(),
    701: pa.float64(),
    1082: pa.date32(),
    1114: pa.timestamp("us"),
    1184: pa.timestamp("us", "UTC"),
}
_OIDS |= {
    array: pa.list_(_OIDS[of])
    for array, of in (
        *((1000, 16), (1005, 21), (1007, 23), (1009, 25), (1015, 1043), (1016, 20), (1021, 700), (1022, 701)),
        *((1115, 1114), (1182, 1082), (1185, 1184), (2951, 2950)),
    )
}
_NUMERIC, _JSON = 1700, (114, 3802)
#: of drivers whose cursors name types of Python
_KINDS: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    dt.date: pa.date32(),
    dt.datetime: pa.timestamp("us"),
}
#: by the names of PEP 249 for what a cursor's types are equal to
_GROUPS: dict[str, pa.DataType] = {
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATETIME": pa.timestamp("us"),
}
#: of decimals whose precision nobody says, as Spark's JDBC source has it
_PRECISION, _SCALE = 38, 18
_STEP = "give it one type by a CAST in the query"


def spool_query(
    connection: Any,
    query: str,
    parameters: Any,
    path: str,
    table: str,
    options: Mapping[str, Any],
    go_on: Callable[[], None],
) -> int:
    """Write the rows of a query into a new Parquet file at a path of this machine; returns their number.

    `connection`: an open one, which is not committed. `parameters`: as its cursor's `execute` takes them,
    None for none. `table`, `options`: the table that the rows are for, with the settings that open it.
    `go_on` is called before each batch, and may raise. Raises InputError for a statement without rows, for a
    column whose values have no one type, and for one whose type nobody knows as it has no value; errors of
    the table; those of the driver as they are.
    """
    known = target_schema(table, options)
    with contextlib.closing(_cursor(connection)) as cursor:
        if parameters is None:
            cursor.execute(query)
        else:
            cursor.execute(query, parameters)
        if hasattr(cursor, "fetch_record_batch"):
            return _of_arrow(cursor.fetch_record_batch(), path, known, go_on)
        with open(f"{path}.rows", "w+b") as kept:
            columns, rows = _write_batches(cursor, connection, kept, go_on)
            _check_names([column.name for column in columns])
            schema = pa.schema([column.field(known) for column in columns])
            kept.seek(0)
            write_file(path, schema, _read(kept, go_on))
    return rows


def _cursor(connection: Any) -> Any:
    """One that does not hold all rows here."""
    driver = _driver(connection)
    if driver in _POSTGRES:
        if connection.autocommit:
            connection.autocommit = False  # a cursor on the server lives in a transaction
        return connection.cursor(name=f"hoodie_{uuid.uuid4().hex}")
    if driver in _MYSQL:
        return connection.cursor(importlib.import_module(f"{driver}.cursors").SSCursor)
    return connection.cursor()


def _driver(connection: Any) -> str:
    """The package of the driver, also of a connection whose class derives from the driver's."""
    packages = [kind.__module__.partition(".")[0] for kind in type(connection).__mro__]
    return next((name for name in packages if name in (*_POSTGRES, *_MYSQL)), packages[0])


def _check_names(names: Sequence[str]) -> None:
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(
            f"the query has two columns {twice!r}; name one of them otherwise, by AS", column=twice
        )


# --- Arrow's own --------------------------------------------------------------------------------------


def _of_arrow(
    reader: pa.RecordBatchReader, path: str, known: pa.Schema | None, go_on: Callable[[], None]
) -> int:
    """Columns of nulls take the table's types."""
    _check_names(reader.schema.names)
    rows = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in reader:
            go_on()
            rows += batch.num_rows
            yield batch

    fields = [
        known.field(field.name)
        if known is not None and field.name in known.names and pa.types.is_null(field.type)
        else field
        for field in reader.schema
    ]
    write_file(path, pa.schema([field.with_nullable(True).remove_metadata() for field in fields]), batches())
    return rows


# --- rows of Python -----------------------------------------------------------------------------------


class _Column:
    """What is known of a column: the type that its cursor names, if any, and that of all values so far.

    `_hint`: the kind that PEP 249 has for the cursor's type, for a column without a value.
    """

    def __init__(self, described: Sequence[Any], driver: Any) -> None:
        self.name = str(described[0])
        self._named = _named(described, driver)
        self._hint = _hint(described[1], driver)
        self._is_json = driver.__name__ in _POSTGRES and described[1] in _JSON
        self._found: pa.DataType = self._named or pa.null()

    def array(self, values: Sequence[Any]) -> Any:
        """A batch's values. Raises InputError for values of no one type."""
        found = self._array(values)
        if self._named is None and pa.types.is_timestamp(found.type) and found.type.tz:
            found = found.cast(pa.timestamp("us", "UTC"))
        if found.type != self._found:
            self._found = self._together(found.type)
        return found

    def field(self, known: pa.Schema | None) -> Any:
        """Of all rows. Raises InputError where nobody knows the type."""
        found = self._found
        target = known.field(self.name).type if known is not None and self.name in known.names else None
        if target is not None and fits(found, target):
            return pa.field(self.name, target)
        if pa.types.is_null(found):
            found = self._hint or found
        if pa.types.is_null(found):
            raise InputError(
                f"column {self.name!r} of the query has no value, its driver names no type of it, and the "
                "table has no such column yet; leave it out of the query until it has values",
                column=self.name,
            )
        if pa.types.is_decimal(found) and self._named is None:
            scale = max(found.scale, _SCALE)
            fitting = found.precision - found.scale + scale <= _PRECISION
            found = pa.decimal128(_PRECISION, scale if fitting else found.scale)
        return pa.field(self.name, found)

    def _array(self, values: Sequence[Any]) -> Any:
        if self._is_json:  # the driver has parsed it
            values = [None if value is None else _json(value) for value in values]
        try:
            found = pa.array(values, type=self._named)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            found = self._plain(values)
        if self._named is None and pa.types.is_struct(found.type):
            return self._plain(values)
        return found

    def _plain(self, values: Sequence[Any]) -> Any:
        """Values of drivers' types as Arrow has them: bytes, texts of UUIDs, JSON of dictionaries."""
        try:
            return pa.array([_plain_value(value) for value in values], type=self._named)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"column {self.name!r} of the query has values of no one type: "
                f"{str(error).splitlines()[0]}; {_STEP}",
                column=self.name,
            ) from None

    def _together(self, kind: pa.DataType) -> pa.DataType:
        """The type of values of both types."""
        pair = [pa.schema([(self.name, one)]) for one in (self._found, kind)]
        try:
            both: pa.DataType = pa.unify_schemas(pair, promote_options="permissive").field(0).type
            if any(_is_number(one) != _is_number(both) for one in (self._found, kind) if one != pa.null()):
                raise pa.ArrowTypeError("values would be changed")
        except pa.ArrowException:
            raise InputError(
                f"column {self.name!r} of the query is {self._found} in one row and {kind} in another; "
                f"{_STEP}",
                column=self.name,
            ) from None
        return both


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _plain_value(value: Any) -> Any:
    if isinstance(value, (memoryview, bytearray)):
        return bytes(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, dict):
        return _json(value)
    if isinstance(value, int) and value.bit_length() > 63:
        return decimal.Decimal(value)
    return value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _named(described: Sequence[Any], driver: Any) -> pa.DataType | None:
    """The type of a column, as a cursor's description has it; None where it does not say."""
    code, precision, scale = described[1], *(tuple(described[4:6]) or (None, None))
    if driver.__name__ in _POSTGRES:
        if code == _NUMERIC:
            exact = isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= 38
            return pa.decimal128(precision, scale) if exact and precision else None
        return _OIDS.get(code)
    return _KINDS.get(code) if isinstance(code, type) else None


def _hint(code: Any, driver: Any) -> pa.DataType | None:
    if code is None:
        return None
    if driver.__name__ in _POSTGRES and code == _NUMERIC:
        return pa.decimal128(_PRECISION, _SCALE)
    return next((kind for name, kind in _GROUPS.items() if getattr(driver, name, None) == code), None)


def _write_batches(
    cursor: Any, connection: Any, kept: Any, go_on: Callable[[], None]
) -> tuple[list[_Column], int]:
    """Write the rows as they come, each batch as an Arrow stream of its own; the columns, how many rows."""
    columns: list[_Column] = []
    size, count = _FIRST, 0
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    while True:
        go_on()
        rows = cursor.fetchmany(size)
        if not columns:  # a cursor on the server knows them by its first rows
            columns = _described(cursor, connection)
        if not rows:
            return columns, count
        arrays = [
            column.array(values) for column, values in zip(columns, zip(*rows, strict=True), strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])
        with pa.ipc.new_stream(kept, batch.schema, options=options) as stream:
            stream.write_batch(batch)
        count += len(rows)
        size = max(1, min(_MOST, _BYTES * len(rows) // max(batch.nbytes, 1)))


def _described(cursor: Any, connection: Any) -> list[_Column]:
    if not cursor.description:
        raise InputError("the source's sql returns no rows; give one query, such as SELECT * FROM orders")
    driver = sys.modules[_driver(connection)]
    return [_Column(column, driver) for column in cursor.description]


def _read(kept: Any, go_on: Callable[[], None]) -> Iterator[pa.RecordBatch]:
    end = kept.seek(0, 2)
    kept.seek(0)
    while kept.tell() < end:
        go_on()
        with pa.ipc.open_stream(kept) as stream:
            yield from stream
