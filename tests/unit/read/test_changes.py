"""Change data, found by comparing the states before and after a commit, and what can't be told."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError, StateUnavailable
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from tests.support.arrow import arrow_schema
from tests.support.changes import FORMAT, ask, changes, images, keeps_changes, replayed
from tests.support.stores import after
from tests.support.tiers import full_but
from tests.unit.write.support import OPTIONS, PAYLOAD, PLAIN, SMALL_FILE, plain

TYPE = "hoodie.datasource.write.table.type"
#: of a merge-on-read table whose updates and deletes go to logs
LOGS: dict[str, Any] = {**OPTIONS, TYPE: "MERGE_ON_READ", "hoodie.clean.automatic": "false"}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 2}
LOGGED, MODE = {"hoodie.table.cdc.enabled": "true"}, "hoodie.table.cdc.supplemental.logging.mode"
EVENT_TIME = {PAYLOAD: "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}
SCHEMA = arrow_schema(
    [("id", pa.string()), ("ts", pa.int64()), ("region", pa.string()), ("val", pa.list_(pa.float64()))]
)


class History:
    """A table and its states, commit by commit."""

    def __init__(self, path: Path, seed: int, options: dict[str, Any]) -> None:
        self.path, self.options = str(path), options
        self.logs = options[TYPE] == "MERGE_ON_READ"
        self.chance = random.Random(seed)
        self.states: list[list[str]] = [[]]
        self.write("insert", [f"k{number}" for number in range(12)])

    def write(self, operation: str, keys: list[str], region: str | None = None) -> None:
        hoodie.write_table(self._rows(keys, region), self.path, operation=operation, options=self.options)
        self.look()

    def look(self) -> None:
        rows = hoodie.read_table(self.path, meta=False)
        self.states.append(images(rows))
        self.there = {row["id"]: row["region"] for row in rows.to_pylist()}

    def _rows(self, keys: list[str], region: str | None) -> pa.Table:
        rows = [
            {
                "id": key,
                "ts": self.chance.randrange(100),
                "region": region or self.region(key),
                "val": self.chance.choice([None, [], [self.chance.random(), None]]),
            }
            for key in keys
        ]
        return pa.Table.from_pylist(rows, schema=SCHEMA)

    def region(self, key: str) -> str:
        return ("eu", "us")[int(key[1:]) % 2]

    def some(self) -> list[str]:
        there = sorted(self.there)
        return self.chance.sample(there, min(len(there), 4))

    def new(self) -> list[str]:
        return [f"k{number}" for number in self.chance.sample(range(100, 999), 3)]

    def step(self) -> None:
        kind = self.chance.choice(
            ["upsert"] * 4
            + ["delete", "insert", "overwrite", "delete_partition", "plan", "compact", "cluster"]
        )
        if kind in ("upsert", "delete"):
            keys = [*self.some(), *(self.new() if kind == "upsert" else [])]
            if keys:
                self.write(kind, keys)
        elif kind == "insert":
            self.write("insert", self.new())
        elif kind == "overwrite":
            keys = [key for key in [*self.some(), *self.new()] if self.region(key) == "eu"]
            if keys:
                self.write("insert_overwrite", keys)
        elif kind == "delete_partition" and "us" in self.there.values():
            hoodie.delete_partitions(self.path, "us", options=self.options)
            self.look()
        elif kind in ("plan", "compact") and self.logs:
            mode = "schedule" if kind == "plan" else "run"
            options = {**self.options, "hoodie.compact.inline.max.delta.commits": 1}
            hoodie.compact_table(self.path, mode=mode, options=options)
        elif kind == "cluster" and "hoodie.index.type" not in self.options:
            hoodie.cluster_table(self.path, options=self.options)


@pytest.mark.parametrize(
    "more",
    [
        {},
        BUCKETS,
        {SMALL_FILE: 0, **EVENT_TIME},
        {TYPE: "COPY_ON_WRITE"},
        {TYPE: "COPY_ON_WRITE", **LOGGED},
        {**LOGGED, MODE: "DATA_BEFORE"},
        {TYPE: "COPY_ON_WRITE", **EVENT_TIME, **LOGGED, MODE: "OP_KEY_ONLY"},
    ],
    ids=["merge_on_read", "buckets", "late", "copy_on_write", "logged", "logged before", "logged keys"],
)
@pytest.mark.parametrize("seed", full_but({1}, range(12)))
def test_changes_lead_from_state_to_state(tmp_path: Path, more: dict[str, Any], seed: int) -> None:
    history = History(tmp_path / "t", seed, {**LOGS, **more})
    for _ in range(7):
        history.step()
    keeps_changes(tmp_path / "t")
    states = [state for _, state in replayed(changes(ask(history.path)), ["id"])]
    assert len(states) >= sum(
        old != new for old, new in zip(history.states, history.states[1:], strict=False)
    )
    assert [state for state in states if state not in history.states] == []
    assert states[-1] == history.states[-1]


def test_rows_of_a_late_write_are_no_change(tmp_path: Path) -> None:
    path, options = tmp_path / "t", {**PLAIN, TYPE: "MERGE_ON_READ", **EVENT_TIME}
    hoodie.write_table(plain(("a", 5, "new"), ("b", 5, "b")), str(path), options=options)
    second = hoodie.write_table(plain(("a", 1, "late"), ("b", 6, "b")), str(path), options=options).instant
    keeps_changes(path)
    image = {"id": "b", "ts": 5, "val": "b"}
    assert changes(ask(str(path)))[-1] == ("u", second, image, {**image, "ts": 6})
    assert len(changes(ask(str(path)))) == 3


@pytest.mark.table_version(6)
def test_deletes_of_rows_that_were_not_there(tmp_path: Path) -> None:
    """Apache Hudi counts in a new file the rows that its writer was given as deleted."""
    path = tmp_path / "t"
    first = hoodie.write_table(plain(("a", 5, "a")), str(path), options={**PLAIN, **EVENT_TIME}).instant
    file = path / ".hoodie" / f"{first}.commit"
    commit = json.loads(file.read_text())
    for stats in commit["partitionToWriteStats"].values():
        stats[0]["numDeletes"] = 2
    file.write_text(json.dumps(commit))
    keeps_changes(path)
    assert changes(ask(str(path))) == [("i", first, None, {"id": "a", "ts": 5, "val": "a"})]


def test_a_change_log_without_records(tmp_path: Path) -> None:
    path, options = tmp_path / "t", {**PLAIN, **EVENT_TIME, **LOGGED}
    first = hoodie.write_table(plain(("a", 5, "a")), str(path), options=options).instant
    hoodie.write_table(plain(("a", 1, "late")), str(path), options=options)
    assert list(path.glob(".*.cdc"))
    assert [row[:2] for row in changes(ask(str(path)))] == [("i", first)]


def test_a_key_that_is_stored_twice_changes_twice(tmp_path: Path) -> None:
    path, options = tmp_path / "t", {**PLAIN, TYPE: "MERGE_ON_READ"}
    hoodie.write_table(plain(("a", 1, "x")), str(path), operation="insert", options=options)
    second = hoodie.write_table(plain(("a", 2, "y")), str(path), operation="insert", options=options).instant
    third = hoodie.write_table(plain(("a", 3, "z")), str(path), options=options).instant
    fourth = hoodie.write_table(plain(("a", 3, "")).select(["id"]), str(path), operation="delete").instant
    keeps_changes(path)
    x, y, z = ({"id": "a", "ts": ts, "val": val} for ts, val in ((1, "x"), (2, "y"), (3, "z")))
    assert changes(ask(str(path)))[1:] == [
        ("i", second, None, y),
        ("u", third, x, z),
        ("u", third, y, z),
        ("d", fourth, z, None),
        ("d", fourth, z, None),
    ]


def test_what_has_no_changes_to_tell(tmp_path: Path) -> None:
    path = tmp_path / "t"
    hoodie.write_table(plain(("a", 1, "a")), str(path), options=PLAIN)
    with pytest.raises(ConfigError, match=r"keeps no change log \(hoodie\.table\.cdc\.enabled=false\)"):
        ask(str(path))
    keeps_changes(path)
    options = {FORMAT: "cdc"}
    with pytest.raises(ConfigError, match="is asked of a query of type snapshot; ask incrementally"):
        hoodie.read_table(str(path), options=options)
    with pytest.raises(ConfigError, match="needs begin"):
        hoodie.read_table(str(path), query="incremental", options=options)
    table = {"path": str(path), "query": "incremental", "begin": "earliest", "options": options}
    with pytest.raises(ConfigError, match="=cdc is answered by read_table"):
        hoodie.sql("SELECT * FROM t", tables={"t": table})
    with pytest.raises(ConfigError, match="=cdc is answered by read_table"):
        hoodie.explain_read(str(path), query="incremental", begin="earliest", options=options)
    with pytest.raises(ConfigError, match="no column id"):
        ask(str(path), columns=["id"])
    with pytest.raises(ConfigError, match="nonsense"):
        ask(str(path), where="nonsense > 1")
    properties.update(LocalStorage(), str(path), {properties.POPULATE_META_FIELDS: "false"})
    with pytest.raises(ConfigError, match=r"keeps no meta columns \(hoodie\.populate\.meta\.fields=false\)"):
        ask(str(path))


def test_changes_of_archived_commits_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {"hoodie.clean.commits.retained": 1, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    written = _updated(path, options)
    with pytest.raises(StateUnavailable, match=r"commits up to (\d+) are archived.* Take begin=\1") as error:
        ask(str(path))
    begin = after(path, written[-2])
    assert begin > str(error.value.values["earliest"])
    assert [row[:2] for row in changes(ask(str(path), begin))] == [("u", written[-1])]


def test_changes_of_cleaned_files_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t"
    written = _updated(path, {"hoodie.clean.commits.retained": 1})
    with pytest.raises(StateUnavailable, match=f"the changes of commit {written[0]} can't be told any more"):
        ask(str(path))
    assert [row[:2] for row in changes(ask(str(path), after(path, written[-2])))] == [("u", written[-1])]


def _updated(path: Path, options: dict[str, Any]) -> list[str]:
    """A table of one row that commits updated."""
    rows = [plain(("a", number, "v")) for number in range(4)]
    written = [hoodie.write_table(row, str(path), options={**PLAIN, **options}).instant for row in rows]
    keeps_changes(path)
    return written


def test_a_replaced_group_of_which_files_are_gone_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t"
    first = hoodie.write_table(plain(("a", 1, "a"), ("b", 1, "b")), str(path), options=PLAIN).instant
    second = hoodie.write_table(
        plain(("c", 1, "c")), str(path), operation="insert_overwrite_table", options=PLAIN
    ).instant
    keeps_changes(path)
    assert [row[:2] for row in changes(ask(str(path), after(path, first)))] == [
        ("d", second),
        ("d", second),
        ("i", second),
    ]
    next(path.glob(f"*_{first}.parquet")).unlink()
    with pytest.raises(StateUnavailable, match=f"the changes of commit {second} can't be told any more"):
        ask(str(path), after(path, first))
