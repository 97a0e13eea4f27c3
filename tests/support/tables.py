"""Random rows for tests, from a seed: the same seed and ids give the same rows on every machine.

Rows are dicts of Python values (maps as lists of pairs, as Arrow gives them back); `as_table` makes the Arrow
table. The ordering field of both schemas is `ts`, the key `id`, the partition `region`.
"""

from __future__ import annotations

import datetime as dt
import decimal
import random
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

Row = dict[str, Any]

REGIONS = ("eu", "us", "apac")
TEXTS = ("plain", "ünï", "日本", "x'y\"z", "", "line\nbreak", "tab\t", "back\\slash", "a,b:c")
UTC = dt.timezone.utc

SMALL_TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "ts": pa.int64(),
    "region": pa.string(),
    "val": pa.int32(),
    "name": pa.string(),
    "_hoodie_is_deleted": pa.bool_(),
}
_INNER = pa.struct([pa.field("x", pa.float64()), pa.field("ys", pa.list_(pa.int64()))])
_ENTRY = pa.struct([pa.field("k", pa.string()), pa.field("v", pa.decimal128(10, 2))])
_MOMENT = pa.struct([pa.field("p", pa.int64()), pa.field("q", pa.timestamp("us", tz="UTC"))])
FULL_TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "ts": pa.int64(),
    "region": pa.string(),
    "c_bool": pa.bool_(),
    "c_int": pa.int32(),
    "c_long": pa.int64(),
    "c_float": pa.float32(),
    "c_double": pa.float64(),
    "c_dec9": pa.decimal128(9, 2),
    "c_dec18": pa.decimal128(18, 4),
    "c_dec38": pa.decimal128(38, 10),
    "c_str": pa.string(),
    "c_bin": pa.binary(),
    "c_date": pa.date32(),
    "c_ts": pa.timestamp("us", tz="UTC"),
    "c_ntz": pa.timestamp("us"),
    "c_arr": pa.list_(pa.string()),
    "c_arr_long": pa.list_(pa.int64()),
    "c_map": pa.map_(pa.string(), pa.int32()),
    "c_struct": pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string()), pa.field("inner", _INNER)]),
    "c_arr_struct": pa.list_(_ENTRY),
    "c_map_struct": pa.map_(pa.string(), _MOMENT),
    "_hoodie_is_deleted": pa.bool_(),
}
SMALL_SCHEMA = pa.schema(SMALL_TYPES)
FULL_SCHEMA = pa.schema(FULL_TYPES)


def key(number: int) -> str:
    """The record key of row `number`."""
    return f"k{number:05d}"


def small_rows(
    ids: Iterable[int], version: int, *, ts: int | None = None, deleted: bool = False
) -> list[Row]:
    """Rows of SMALL_SCHEMA. `version` seeds the values and, unless `ts` is given, sets the ordering value."""
    rows = []
    for number in ids:
        chance = random.Random(f"small/{number}/{version}")
        rows.append(
            {
                "id": key(number),
                "ts": 1000 * version if ts is None else ts,
                "region": REGIONS[number % 3],
                "val": None if number % 13 == 5 else chance.randint(-(2**31), 2**31 - 1),
                "name": None if number % 11 == 0 else f"{chance.choice(TEXTS)}-{number}-v{version}",
                "_hoodie_is_deleted": True if deleted else chance.choice((None, False)),
            }
        )
    return rows


def mixed_rows(chance: random.Random, distinct: bool) -> list[Row]:
    """A batch of SMALL_SCHEMA with late rows, deletes and nulls in every value; without `distinct` keys
    repeat.
    """
    numbers = chance.sample(range(40), 25) if distinct else [chance.randrange(40) for _ in range(40)]
    rows = small_rows(numbers, chance.randrange(10**6))
    for row in rows:
        row["ts"] = chance.randrange(5)
        row["val"] = chance.choice((None, row["val"]))
        row["name"] = chance.choice((None, row["name"]))
        row["_hoodie_is_deleted"] = chance.choice((False, False, chance.random() < 0.3))
    return rows


def full_rows(
    ids: Iterable[int], version: int, *, null_elements: bool = True, deleted: bool = False
) -> list[Row]:
    """Rows of FULL_SCHEMA: every type, nulls everywhere but in key, ordering and partition.

    `null_elements=False` keeps nulls out of lists: Apache Hudi writes two-level lists by default, which
    cannot hold them.
    """
    return [_full_row(number, version, null_elements, deleted) for number in ids]


def _full_row(number: int, version: int, null_elements: bool, deleted: bool) -> Row:
    chance = random.Random(f"full/{number}/{version}")

    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.15 else value

    def element(value: Any) -> Any:
        return maybe(value) if null_elements else value

    def some(make: Any, most: int = 3) -> list[Any]:
        return [make(i) for i in range(chance.randint(0, most))]

    def inner(_: int = 0) -> Row:
        ys = some(lambda i: element(chance.randint(0, 9)))
        return {"x": maybe(_double(chance)), "ys": maybe(ys)}

    def entry(i: int) -> Row:
        return {"k": maybe(f"s{i}"), "v": maybe(_decimal(chance, 10, 2))}

    def moment(i: int) -> Row:
        return {"p": maybe(chance.randint(0, 10**12)), "q": maybe(_timestamp(chance).replace(tzinfo=UTC))}

    return {
        "id": key(number),
        "ts": 1000 * version + number % 7,
        "region": REGIONS[number % 3],
        "c_bool": maybe(chance.random() < 0.5),
        "c_int": maybe(chance.choice((-(2**31), 2**31 - 1, 0, chance.randint(-(2**31), 2**31 - 1)))),
        "c_long": maybe(chance.choice((-(2**63), 2**63 - 1, 0, chance.randint(-(2**63), 2**63 - 1)))),
        "c_float": maybe(_float(chance)),
        "c_double": maybe(_double(chance)),
        "c_dec9": maybe(_decimal(chance, 9, 2)),
        "c_dec18": maybe(_decimal(chance, 18, 4)),
        "c_dec38": maybe(_decimal(chance, 38, 10)),
        "c_str": maybe(f"{chance.choice(TEXTS)}-{number}-v{version}" if number % 5 else ""),
        "c_bin": maybe(chance.randbytes(chance.randint(0, 12))),
        "c_date": maybe(dt.date(1900, 1, 1) + dt.timedelta(days=chance.randint(0, 80000))),
        "c_ts": maybe(_timestamp(chance).replace(tzinfo=UTC)),
        "c_ntz": maybe(_timestamp(chance)),
        "c_arr": maybe(some(lambda i: element(chance.choice(TEXTS)))),
        "c_arr_long": maybe(some(lambda i: element(chance.randint(-(2**63), 2**63 - 1)))),
        "c_map": maybe(some(lambda i: (f"m{i}", maybe(chance.randint(0, 99))))),
        "c_struct": maybe(
            {"a": maybe(chance.randint(0, 9)), "b": maybe(chance.choice(TEXTS)), "inner": maybe(inner())}
        ),
        "c_arr_struct": maybe(some(lambda i: element(entry(i)))),
        "c_map_struct": maybe(some(lambda i: (f"q{i}", maybe(moment(i))))),
        "_hoodie_is_deleted": True if deleted else chance.choice((None, False)),
    }


def as_table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """The rows as one Arrow table; a column that a row lacks is null."""
    return pa.Table.from_pylist([dict(row) for row in rows], schema=schema)


def without(schema: pa.Schema, *names: str) -> pa.Schema:
    """The schema less some columns (`as_table` then leaves them out of the rows as well)."""
    return pa.schema([field for field in schema if field.name not in names])


def _float(chance: random.Random) -> float:
    value = chance.choice((0.0, -0.0, 1.5, 3.4e38, float("inf"), chance.uniform(-1e3, 1e3)))
    single: float = struct.unpack("f", struct.pack("f", value))[0]
    return single


def _double(chance: random.Random) -> float:
    return chance.choice((0.0, -0.0, 1e308, -1e-300, float("nan"), chance.uniform(-1e6, 1e6)))


def _decimal(chance: random.Random, precision: int, scale: int) -> decimal.Decimal:
    largest = 10**precision - 1
    digits = chance.choice((0, largest, -largest, chance.randint(-largest, largest)))
    sign, places, _ = decimal.Decimal(digits).as_tuple()
    return decimal.Decimal((sign, places, -scale))


def _timestamp(chance: random.Random) -> dt.datetime:
    return dt.datetime(1960, 1, 1) + dt.timedelta(microseconds=chance.randint(0, 80 * 365 * 86400 * 10**6))
