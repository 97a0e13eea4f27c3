"""Every index gives the same table on random histories: upserts with changes of partition, deletes,
rollbacks, restores, compactions, clusterings, in both table types, beside a dictionary.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.timeline.time import InstantTime
from tests.contract.test_index import INDEXES, SCHEMA, options_of
from tests.support.properties import examples
from tests.support.record_index import misplaced
from tests.support.tables import REGIONS

KEYS = 40
STEPS = examples(14)
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
SERVICES = {
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clustering.plan.strategy.small.file.limit": "100000000",
}
#: index: does a key name one record in the whole table, and does it move
GLOBAL = {
    "scope TABLE": True,
    "GLOBAL_SIMPLE": True,
    "GLOBAL_SIMPLE without moves": False,
    "GLOBAL_BLOOM": True,
    "GLOBAL_BLOOM without moves": False,
    "HBASE": True,
    "HBASE without moves": False,
    "RECORD_INDEX": True,
    "RECORD_INDEX without moves": False,
}
#: entries of deleted keys go
FORGETS = ("HBASE without moves", "RECORD_INDEX without moves")
#: those that `make test` runs, of which each stands for others
QUICK = ("GLOBAL_SIMPLE without moves", "sees logs", "RECORD_INDEX without moves")
#: clusterings split any bucket, or merge any two neighbours
RESIZES = (
    {
        "hoodie.bucket.index.split.threshold": "0",
        "hoodie.bucket.index.merge.threshold": "0",
        "hoodie.bucket.index.max.num.buckets": "7",
    },
    {"hoodie.bucket.index.merge.threshold": "9", "hoodie.bucket.index.min.num.buckets": "2"},
)
Row = dict[str, Any]


@dataclass
class Model:
    """The rows by key, each with the partition that it is stored in. `homes` are those that an index still
    finds for keys that a log has deleted.
    """

    index: str
    merge_on_read: bool
    rows: dict[Any, tuple[str, Row]] = field(default_factory=dict)
    homes: dict[Any, str] = field(default_factory=dict)

    def key(self, row: Row) -> Any:
        return row["id"] if self.index in GLOBAL else (row["region"], row["id"])

    def upsert(self, rows: list[Row]) -> None:
        newest: dict[Any, Row] = {}
        for row in rows:
            known = newest.get(self.key(row))
            if known is None or known["ts"] <= row["ts"]:
                newest[self.key(row)] = row
        for key, row in newest.items():
            home, stored = self.rows.get(key, (self.homes.get(key), None))
            if stored is None or stored["ts"] <= row["ts"]:
                stays = home is not None and not GLOBAL.get(self.index, True)
                self.rows[key] = (str(home) if stays else row["region"], row)
                self.homes.pop(key, None)

    def delete(self, rows: list[Row]) -> None:
        for row in rows:
            home, _ = self.rows.pop(self.key(row), ("", None))
            if home and self.merge_on_read and self.index not in FORGETS:
                self.homes[self.key(row)] = home

    @property
    def shown(self) -> list[tuple[str, str, int, int]]:
        return sorted((home, row["id"], row["ts"], row["val"]) for home, row in self.rows.values())


class History:
    def __init__(
        self, path: Path, index: str, options: dict[str, Any], merge_on_read: bool, seed: int
    ) -> None:
        self.path, self.index = str(path), index
        self.random = random.Random(seed)
        self.options = {**options, **(MERGE_ON_READ if merge_on_read else {})}
        self.options["hoodie.clean.automatic"] = "false"
        kept = {name: value for name, value in options.items() if name.startswith("hoodie.metadata.")}
        self.services_options = {**SERVICES, **kept}
        self.options["hoodie.parquet.small.file.limit"] = self.random.choice(["0", "100000"])
        self.model = Model(index, merge_on_read)
        self.before: dict[str, Model] = {}
        self.savepoint = ""
        self.told: list[str] = []

    def run(self) -> None:
        self.write("upsert", [self.row(key, 0) for key in range(KEYS) for _ in range(2)])
        kinds = ["upsert"] * 6 + ["delete"] * 2 + ["insert", "rollback", "savepoint", "restore", "services"]
        for step in range(1, STEPS):
            kind = self.random.choice(kinds)
            self.told.append(kind)
            self.step(kind, step)
            self.check()

    def step(self, kind: str, step: int) -> None:
        chosen = self.random.sample(range(KEYS), self.random.choice((1, 5, 15)))
        if kind == "upsert":
            rows = [self.row(key, step) for key in chosen]
            rows += [self.row(key, step) for key in self.random.sample(chosen, len(chosen) // 3)]
            self.write("upsert", rows)
        elif kind == "delete":
            self.write("delete", [self.row(key, step) for key in chosen])
        elif kind == "insert":
            self.write("insert", [self.row(KEYS * step + key, step) for key in range(3)])
        elif kind == "rollback":
            self.rollback()
        elif kind == "savepoint":
            self.savepoint = str(hoodie.savepoint_table(self.path, options=self.services_options).instant)
            self.before[f"at {self.savepoint}"] = copy.deepcopy(self.model)
        elif kind == "restore" and self.savepoint:
            hoodie.restore_table(self.path, InstantTime(self.savepoint), options=self.services_options)
            self.model = copy.deepcopy(self.before[f"at {self.savepoint}"])
        elif kind == "services":
            self.services()

    def row(self, key: int, step: int) -> Row:
        """Some are older than what is stored."""
        late = self.random.random() < 0.2 and f"k{key:05d}" not in {
            home if isinstance(home, str) else home[1] for home in self.model.homes
        }
        return {
            "id": f"k{key:05d}",
            "ts": 100 * step + self.random.randrange(100) - (250 if late else 0),
            "region": self.random.choice(REGIONS),
            "val": self.random.randrange(10**6),
        }

    def write(self, operation: str, rows: list[Row]) -> None:
        before = copy.deepcopy(self.model)
        table = pa.Table.from_pylist(rows, SCHEMA)
        result = hoodie.write_table(table, self.path, operation=operation, options=self.options)
        self.before[result.instant] = before
        if operation == "delete":
            self.model.delete(rows)
        else:
            self.model.upsert(rows)

    def rollback(self) -> None:
        last = hoodie.instants(self.path)[-1]["instant"]
        if last in self.before and last != self.savepoint:
            hoodie.rollback_table(self.path, last, options=self.services_options)
            self.model = self.before.pop(last)

    def services(self) -> None:
        options = {**self.options, **SERVICES}
        if self.model.merge_on_read:
            hoodie.compact_table(self.path, options=options)
            self.model.homes.clear()
        if self.index == "CONSISTENT_HASHING":
            hoodie.cluster_table(self.path, options={**options, **self.random.choice(RESIZES)})
        elif self.random.random() < 0.5 and self.index != "BUCKET":
            hoodie.cluster_table(self.path, options=options)

    def check(self) -> None:
        found = hoodie.read_table(self.path, meta=True).to_pylist()
        shown = sorted((row["_hoodie_partition_path"], row["id"], row["ts"], row["val"]) for row in found)
        assert shown == self.model.shown, f"{self.index} {self.told}"
        assert all(row["region"] == row["_hoodie_partition_path"] for row in found)
        assert all(row["_hoodie_record_key"] == row["id"] for row in found)
        assert misplaced(self.path) == [], self.told


def _cases() -> list[Any]:
    cases = []
    for index in INDEXES:
        if index == "BLOOM without ranges":
            continue
        for merge_on_read in (False, True) if index != "CONSISTENT_HASHING" else (True,):
            for seed in range(4):
                quick = seed == 0 and index in QUICK and (merge_on_read or index in QUICK[:1])
                marks = [] if quick else [pytest.mark.full]
                cases.append(pytest.param(index, merge_on_read, seed, marks=marks))
    return cases


@pytest.mark.parametrize(("index", "merge_on_read", "seed"), _cases())
def test_random_histories(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    index: str,
    merge_on_read: bool,
    seed: int,
) -> None:
    if (seed + merge_on_read) % 2:  # tasks ask the index
        monkeypatch.setattr("hoodie.write.input.stage.DRIVER_KEY_BYTES", 0)
        monkeypatch.setattr("hoodie.write.tagging.tag._UNIT_BYTES", 1000)
    History(tmp_path / "t", index, options_of(index, request), merge_on_read, seed).run()
