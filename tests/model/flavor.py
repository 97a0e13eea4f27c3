"""What the rows of a random run look like: plain, or as odd as users' data gets."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.support.tables import SMALL_SCHEMA, small_rows

Row = dict[str, Any]
#: columns that only some writes bring
EXTRA = ("note", "count")
POLICIES = ("KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS")


@dataclass(frozen=True)
class Flavor:
    """Plain rows of one schema, or odd ones: blanks, signs and other scripts in keys, values and partitions,
    writes that lack columns, bring new ones or narrower types, and two clean policies in turn.
    """

    odd: bool
    regions: tuple[str, ...]
    keys: tuple[str, ...] = ("k{:05d}",)
    texts: tuple[str | None, ...] = ()

    def row(self, number: int, region: str, ts: int, version: int, deleted: bool = False) -> Row:
        (row,) = small_rows([number], version, ts=ts, deleted=deleted)
        row |= {"id": self.keys[number % len(self.keys)].format(number), "region": region}
        if self.odd:
            chance = random.Random(f"{number}/{version}")
            row |= {"name": chance.choice(self.texts), "note": chance.choice(self.texts)}
            row |= {"count": chance.choice((None, -1, 2**31 - 1)), "val": chance.choice((None, -(2**31), 7))}
        return row

    def schema(self, chance: random.Random) -> pa.Schema:
        """Of one write; what it lacks is null, what is narrower than the table's is widened."""
        if not self.odd:
            return SMALL_SCHEMA
        narrow = chance.random() < 0.5
        types = {field.name: field.type for field in SMALL_SCHEMA}
        types["val"] = pa.int32() if narrow else pa.int64()
        if chance.random() < 0.7:
            types |= {"note": pa.string(), "count": pa.int32() if narrow else pa.int64()}
        return pa.schema(types)

    def options(self, chance: random.Random) -> dict[str, str]:
        if not self.odd:
            return {}
        return {
            "hoodie.cleaner.policy": chance.choice(POLICIES),
            "hoodie.cleaner.fileversions.retained": chance.choice(("1", "2")),
            "hoodie.write.set.null.for.missing.columns": "true",
        }


PLAIN = Flavor(False, ("eu", "us", "apac"))
ODD = Flavor(
    True,
    ("x", "x ", " a b", "100%=+&", "\u00fc\u6771\u4eac", 'it\'s "q"'),
    ("k{:05d}", "k {:d} ", "\u00e9\U0001f600{:d}", "a:b,c{:d}", "{:d}\u0000x", "'{:d}\"", "{:d}" + "y" * 60),
    (None, "", " ", "a\tb\n", "\u0000", "\U0001f600" * 9, "null", "__null__", "x" * 5000),
)
