"""Keys with commas and colons in buckets, beside Apache Hudi 0.15.0 and 1.2.0, which hash them otherwise.

In tables of versions 8 and 9 keys lie where 1.2.0 looks for them. In those of version 6 a key stays where
either of the two has put it, and a new one lies where 0.15.0 looks for it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import service_api
from hoodie.errors import TableError
from hoodie.index.bucket import BucketIndex
from hoodie.index.hashed_values import Hashing, HashRule, ring_hashes
from hoodie.table.hash_ring import Ring
from tests.interop.test_upgrade import upgrading
from tests.support.hudi_client import HudiServer
from tests.support.rows import difference
from tests.support.shared_table import OFF, TYPE, TYPES

pytestmark = [pytest.mark.interop, pytest.mark.full]

BUCKETS = 5
INDEX = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": str(BUCKETS)}
RINGED = {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
#: (type, engine)
KINDS = [(kind, "simple") for kind in TYPES] + [("MERGE_ON_READ", "ring")]
TEXTS = [
    *("2014-10-22 13:50:42", "2014-10-22 13:51", "a,b", "a:b", "a,b:c", "a:b,c", ",", ":", ",,a", "a,", "x:"),
    *("é日:\U0001d11e", "日,本", "k", "1", "urn:x:1", "id:1", "id:1,day:2", "a,id:3", "__null__", "day:x,y"),
    *("12:30,13:30", "p q", "a=b", "50%", "id:a,b,day:c", "id:,day:"),
]
#: record key fields, hashed fields, column types
SHAPES: dict[str, tuple[str, str, dict[str, pa.DataType]]] = {
    "text": ("id", "id", {"id": pa.string()}),
    "two": ("id,day", "id,day", {"id": pa.string(), "day": pa.string()}),
    "subset": ("day,id", "id", {"day": pa.string(), "id": pa.string()}),
    "ints": ("id,number", "number", {"id": pa.string(), "number": pa.int64()}),
    "time": ("at", "at", {"at": pa.timestamp("us", "UTC")}),
}


#: texts in all kinds of tables, the other shapes in one
CASES = [("text", *kind) for kind in KINDS] + [
    ("two", "MERGE_ON_READ", "simple"),
    ("subset", "MERGE_ON_READ", "ring"),
    ("ints", "COPY_ON_WRITE", "simple"),
    ("time", "MERGE_ON_READ", "simple"),
]


def rows(shape: str, chance: random.Random, ts: int, count: int = 40) -> pa.Table:
    """Of distinct keys, some of which come again in every batch."""
    _, _, types = SHAPES[shape]
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for _ in range(count):
        row: dict[str, Any] = {}
        for name, kind in types.items():
            if kind == pa.string():
                row[name] = chance.choice(TEXTS)
            else:
                row[name] = chance.randrange(40) * (1 if kind == pa.int64() else 61_000_001)
        found[tuple(row.values())] = {**row, "part": "p", "ts": ts, "v": f"v{ts}"}
    columns = {**types, "part": pa.string(), "ts": pa.int64(), "v": pa.string()}
    return pa.Table.from_pylist(list(found.values()), pa.schema(columns))


class Shared:
    """A table that several write. `expected` are its rows by key."""

    def __init__(self, path: Path, shape: str, kind: str, engine: str, version: int) -> None:
        self.path, self.shape = path, shape
        self.keys, self.hashed, self.types = SHAPES[shape]
        generator = "SimpleKeyGenerator" if "," not in self.keys else "ComplexKeyGenerator"
        self.options = {
            **OFF,
            **INDEX,
            **(RINGED if engine == "ring" else {}),
            TYPE: kind,
            "hoodie.datasource.write.recordkey.field": self.keys,
            "hoodie.bucket.index.hash.field": self.hashed,
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{generator}",
            "hoodie.compact.inline": "false",
            "hoodie.metadata.enable": "false",
            "hoodie.metadata.index.column.stats.enable": "false",
            "hoodie.metadata.index.partition.stats.enable": "false",
        }
        self.made = {"hoodie.table.name": "t"}
        if version > 6:
            self.made["hoodie.write.table.version"] = str(version)
        self.expected: dict[tuple[Any, ...], dict[str, Any]] = {}

    def we(self, incoming: pa.Table, operation: Any = "upsert") -> None:
        made = {name: text for name, text in self.made.items() if operation != "delete"}
        given = made if not (self.path / ".hoodie").exists() else {}
        hoodie.write_table(incoming, str(self.path), operation=operation, options={**self.options, **given})
        self._follow(incoming, operation)

    def they(self, server: HudiServer, incoming: pa.Table, operation: str = "upsert") -> None:
        mode = "append" if (self.path / ".hoodie").exists() else "overwrite"
        made = {
            name: text for name, text in self.made.items() if server.version != "0.15.0" or "name" in name
        }
        server.write(self.path, incoming, {**self.options, **made}, operation=operation, mode=mode)
        self._follow(incoming, operation)

    def _follow(self, incoming: pa.Table, operation: str) -> None:
        for row in incoming.to_pylist():
            key = tuple(row[name] for name in self.types)
            if operation == "delete":
                self.expected.pop(key, None)
            else:
                self.expected[key] = row

    def check(self, servers: Sequence[HudiServer]) -> dict[str, str]:
        """Each key is there once. The file group of each record key."""
        columns = [*self.types, "part", "ts", "v"]
        schema = hoodie.read_table(str(self.path)).select(columns).schema
        expected = pa.Table.from_pylist(list(self.expected.values()), schema)
        found = hoodie.read_table(str(self.path), meta=True)
        assert not difference(found.select(columns), expected)
        for server in servers:
            assert not difference(server.read(self.path, columns=columns), expected), server.version
        keys = found.column("_hoodie_record_key").to_pylist()
        files = [name.partition("_")[0] for name in found.column("_hoodie_file_name").to_pylist()]
        return dict(zip(keys, files, strict=True))

    def by(self, rule: HashRule, keys: Sequence[str]) -> dict[str, str]:
        """What the file id of each key's file group begins with, by a rule."""
        texts, fields = pa.array(keys, pa.string()), tuple(self.hashed.split(","))
        if RINGED.items() <= self.options.items():
            ring = Ring.first("p", BUCKETS)
            return dict(
                zip(
                    keys,
                    [ring.nodes[n].prefix for n in ring.place(ring_hashes(texts, fields, rule)).tolist()],
                    strict=True,
                )
            )
        numbers = BucketIndex(BUCKETS, fields, Hashing(rule)).place("p", texts).tolist()
        return dict(zip(keys, [f"{number:08d}-" for number in numbers], strict=True))

    def assert_by(self, rule: HashRule, found: dict[str, str]) -> None:
        expected = self.by(rule, list(found))
        assert {key: file for key, file in found.items() if not file.startswith(expected[key])} == {}


@pytest.mark.parametrize(
    ("version", "shape", "kind", "engine"),
    [(8 + number % 2, *case) for number, case in enumerate([*CASES, *CASES[:3]])],
)
def test_later_versions(
    hudi_12: HudiServer, tmp_path: Path, shape: str, kind: str, engine: str, version: int
) -> None:
    """Each begins a table, and each goes on in the file groups of the other."""
    for ours_first in (True, False):
        chance = random.Random(f"{shape} {kind} {version}")
        table = Shared(tmp_path / f"t{ours_first}", shape, kind, engine, version)
        turns = [table.we, lambda *given, to=table: to.they(hudi_12, *given)]
        first, second = turns if ours_first else reversed(turns)
        first(rows(shape, chance, 1))
        first(rows(shape, chance, 2))
        before = table.check([hudi_12])
        table.assert_by(HashRule.SINCE_1, before)
        second(rows(shape, chance, 3))
        second(rows(shape, chance, 4).slice(0, 10), "delete")
        first(rows(shape, chance, 5))
        after = table.check([hudi_12])
        table.assert_by(HashRule.SINCE_1, after)
        if kind == "MERGE_ON_READ":
            hoodie.compact_table(str(table.path), options={"hoodie.compact.inline.max.delta.commits": "1"})
            second(rows(shape, chance, 6))
            table.check([hudi_12])


@pytest.mark.parametrize(("shape", "kind", "engine"), CASES)
def test_version_6_of_015(
    hudi_015: HudiServer, hudi_12: HudiServer, tmp_path: Path, shape: str, kind: str, engine: str
) -> None:
    """0.15.0 and we write in turns."""
    for ours_first in (True, False):
        chance = random.Random(f"{shape} {kind} 6")
        table = Shared(tmp_path / f"t{ours_first}", shape, kind, engine, 6)
        turns = [table.we, lambda *given, to=table: to.they(hudi_015, *given)]
        first, second = turns if ours_first else reversed(turns)
        first(rows(shape, chance, 1))
        second(rows(shape, chance, 2))
        second(rows(shape, chance, 3).slice(0, 10), "delete")
        first(rows(shape, chance, 4))
        second(rows(shape, chance, 5))
        table.assert_by(HashRule.BEFORE_1, table.check([hudi_015, hudi_12]))


@pytest.mark.parametrize(("shape", "kind", "engine"), CASES)
def test_version_6_of_12(
    hudi_015: HudiServer, hudi_12: HudiServer, tmp_path: Path, shape: str, kind: str, engine: str
) -> None:
    """Rows that 1.2.0 has put by its own hash are updated where they are, and new ones lie where 0.15.0 looks
    for them. 1.2.0 finds again what it has put.
    """
    chance = random.Random(f"{shape} {kind} of 1.2.0")
    table = Shared(tmp_path / "t", shape, kind, engine, 6)
    first = rows(shape, chance, 1)
    table.they(hudi_12, first)
    theirs = table.check([hudi_015, hudi_12])
    table.assert_by(HashRule.SINCE_1, theirs)
    table.we(rows(shape, chance, 2))
    table.we(rows(shape, chance, 3).slice(0, 8), "delete")
    mixed = table.check([hudi_015, hudi_12])
    assert {key: file for key, file in mixed.items() if theirs.get(key, file) != file} == {}
    new = {key: file for key, file in mixed.items() if key not in theirs}
    assert new
    table.assert_by(HashRule.BEFORE_1, new)
    again = first.set_column(first.schema.get_field_index("ts"), "ts", pa.array([4] * len(first), pa.int64()))
    known = [row for row in again.to_pylist() if tuple(row[name] for name in table.types) in table.expected]
    table.they(hudi_12, pa.Table.from_pylist(known, first.schema))
    table.we(rows(shape, chance, 5))
    table.check([hudi_015, hudi_12])


def test_a_key_that_both_have_put_is_refused(
    hudi_015: HudiServer, hudi_12: HudiServer, tmp_path: Path
) -> None:
    """Until the partition is written anew."""
    table = Shared(tmp_path / "t", "text", "COPY_ON_WRITE", "simple", 6)
    incoming = rows("text", random.Random(1), 1)
    table.they(hudi_015, incoming)
    table.they(hudi_12, incoming)
    assert hoodie.read_table(str(table.path)).num_rows > incoming.num_rows
    for operation in ("upsert", "delete"):
        with pytest.raises(TableError, match=r"is in bucket \d and in bucket \d.*insert_overwrite"):
            table.we(incoming, operation)
    table.we(incoming, "insert_overwrite")
    table.we(incoming)
    table.assert_by(HashRule.BEFORE_1, table.check([hudi_015, hudi_12]))


@pytest.mark.parametrize(("kind", "engine"), KINDS)
@pytest.mark.parametrize("ours", [True, False])
def test_keys_after_a_change_of_the_version(
    hudi_015: HudiServer, hudi_12: HudiServer, tmp_path: Path, kind: str, engine: str, ours: bool
) -> None:
    """A table of 0.15.0 that we, or 1.2.0, upgrade; then back to version 6: stored keys stay, new ones go by
    the version.
    """
    chance = random.Random(f"{kind} {engine} {ours}")
    table = Shared(tmp_path / "t", "text", kind, engine, 6)
    table.they(hudi_015, rows("text", chance, 1, 12))
    old = table.check([hudi_015])
    if ours:
        service_api.upgrade_table(str(table.path), "9")
    else:
        name = f"moved_{kind[0]}_{engine}".lower()
        with upgrading(hudi_12):
            hudi_12.sql(f"create table {name} using hudi location '{table.path}'")
            hudi_12.call("upgrade_table", table=name, to_version="NINE")
    table.we(rows("text", chance, 2))
    later = table.check([hudi_12])
    assert {key: file for key, file in later.items() if old.get(key, file) != file} == {}
    table.assert_by(HashRule.SINCE_1, {key: file for key, file in later.items() if key not in old})
    service_api.downgrade_table(str(table.path), "6")
    table.we(rows("text", chance, 3, 60))
    last = table.check([hudi_015, hudi_12])
    assert {key: file for key, file in last.items() if later.get(key, file) != file} == {}
    table.assert_by(HashRule.BEFORE_1, {key: file for key, file in last.items() if key not in later})


@pytest.mark.parametrize("version", [8, 9])
def test_apache_hudi_prunes_our_buckets(hudi_12: HudiServer, tmp_path: Path, version: int) -> None:
    """A query for one key reads its bucket alone."""
    table = Shared(tmp_path / "t", "text", "COPY_ON_WRITE", "simple", version)
    count = len(TEXTS)
    table.we(pa.table({"id": TEXTS, "part": ["p"] * count, "ts": [1] * count, "v": ["v"] * count}))
    options = {name: str(text) for name, text in table.options.items()}
    for text in ("2014-10-22 13:50:42", "a,b", "a:b", "k", "é日:\U0001d11e"):
        found = hudi_12.read(table.path, where=f"id = '{text}'", options=options)
        assert found.column("id").to_pylist() == [text]
