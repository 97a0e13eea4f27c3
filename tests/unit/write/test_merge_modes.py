"""How a row with a known key is merged, end to end; and that a table keeps its way."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError, HoodieError
from hoodie.format.java_properties import parse_properties
from hoodie.merge.commit_time import CommitTime
from tests.support.oracle import Mode
from tests.support.tables import SMALL_SCHEMA, as_table, mixed_rows, small_rows
from tests.support.tiers import crossed_but
from tests.unit.write.support import (
    BUDGET,
    KEY,
    OPTIONS,
    ORDERING,
    PARTITION,
    PAYLOAD,
    PLAIN,
    SMALL_FILE,
    VERSION,
    Pair,
    listing,
    plain,
    values,
)

pytestmark = pytest.mark.table_version(6)

MERGE_MODE = "hoodie.record.merge.mode"
TYPE = "hoodie.datasource.write.table.type"
EVENT_TIME = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
COMMIT_TIME = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize(
    ("mode", "budget"),
    crossed_but(
        {"COMMIT_TIME-large", "EVENT_TIME-small", "OVERWRITE_NON_DEFAULTS-large", "PARTIAL_UPDATE-small"},
        {mode.name: mode for mode in Mode},
        {"large": None, "small": 1 << 16},
    ),
)
def test_every_mode_equals_the_oracle(tmp_path: Path, mode: Mode, budget: int | None, version: int) -> None:
    rng = random.Random(mode.value)
    options = {**OPTIONS, PAYLOAD: mode.value, VERSION: version} | ({BUDGET: budget} if budget else {})
    table = Pair(tmp_path / "t", options, mode=mode)
    # by payload, what a delete inside a batch does is told in test_partial_update_in_a_batch
    distinct = mode is Mode.PARTIAL_UPDATE and version < 9
    for _ in range(5):
        table.write(mixed_rows(rng, distinct=distinct))


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("mode", [Mode.COMMIT_TIME, Mode.OVERWRITE_NON_DEFAULTS])
def test_rows_of_logs_merge_in_the_order_of_their_writes(tmp_path: Path, mode: Mode, version: int) -> None:
    rng = random.Random(mode.value)
    more = {TYPE: "MERGE_ON_READ", SMALL_FILE: 0, VERSION: version}
    table = Pair(tmp_path / "t", {**OPTIONS, PAYLOAD: mode.value, **more}, mode=mode)
    for _ in range(4):
        table.write(mixed_rows(rng, distinct=False))
    hoodie.compact_table(str(table.path), options={"hoodie.compact.inline.max.delta.commits": 1})
    table.check("after the compaction")


def test_an_upgrade_keeps_no_logs_that_merge_otherwise_afterwards(tmp_path: Path) -> None:
    """In version 6 the logged row with the greatest ordering value is laid over that of the base file."""
    path = str(tmp_path / "t")
    options = {**PLAIN, PAYLOAD: "overwrite_non_defaults", TYPE: "MERGE_ON_READ", SMALL_FILE: 0}
    for row in (("a", 1, "base"), ("a", 5, None), ("a", 3, "late")):
        hoodie.write_table(plain(row), path, options=options)
    assert values(Path(path), "ts", "val") == [(5, "base")]
    assert hoodie.upgrade_table(path, to="8").drops_history, "logs of earlier states mean other rows"
    assert values(Path(path), "ts", "val") == [(5, "base")]


def test_partial_update_in_a_batch(tmp_path: Path) -> None:
    options = {**OPTIONS, PAYLOAD: "partial_update"}
    rows = [
        {"id": "a", "ts": 1, "region": "eu", "val": 1, "name": "old"},
        {"id": "a", "ts": 2, "region": "eu", "val": None, "name": "new"},
    ]
    hoodie.write_table(as_table(rows, SMALL_SCHEMA), str(tmp_path / "t"), options=options)
    assert values(tmp_path / "t", "ts", "val", "name") == [(2, 1, "new")]


@pytest.mark.parametrize(
    ("options", "stored", "late"),
    [
        ({ORDERING: "ts"}, EVENT_TIME, "kept"),
        ({}, COMMIT_TIME, "replaced"),
        ({ORDERING: "ts", MERGE_MODE: "COMMIT_TIME_ORDERING"}, COMMIT_TIME, "replaced"),
        ({ORDERING: "ts", MERGE_MODE: "EVENT_TIME_ORDERING"}, EVENT_TIME, "kept"),
        ({ORDERING: "ts", PAYLOAD: COMMIT_TIME}, COMMIT_TIME, "replaced"),
        ({ORDERING: "ts", "hoodie.compaction.payload.class": COMMIT_TIME}, COMMIT_TIME, "replaced"),
        ({ORDERING: "ts", PAYLOAD: "event_time"}, EVENT_TIME, "kept"),
    ],
)
def test_the_mode_is_persisted_and_obeyed_by_the_next_write(
    tmp_path: Path, options: dict[str, str], stored: str, late: str
) -> None:
    table = tmp_path / "t"
    hoodie.write_table(plain(("a", 5, "kept")), str(table), options={KEY: "id", **options})
    props = parse_properties((table / ".hoodie" / "hoodie.properties").read_bytes())
    assert props["hoodie.compaction.payload.class"] == stored
    hoodie.write_table(plain(("a", 4, "replaced")), str(table))
    assert values(table, "val") == [late]


@pytest.mark.parametrize(
    "options",
    [
        {PAYLOAD: COMMIT_TIME},
        {PAYLOAD: "partial_update"},
        {"hoodie.compaction.payload.class": COMMIT_TIME},
        {MERGE_MODE: "COMMIT_TIME_ORDERING"},
        {PAYLOAD: f"{__name__}:FirstWins"},
    ],
)
def test_another_mode_on_an_existing_table_is_refused(tmp_path: Path, options: dict[str, str]) -> None:
    hoodie.write_table(plain(("a", 5, "x")), str(tmp_path / "t"), options=PLAIN)
    before = listing(tmp_path)
    with pytest.raises(HoodieError, match="contradict") as caught:
        hoodie.write_table(plain(("a", 6, "y")), str(tmp_path / "t"), options=options)
    assert caught.value.code == "table_mismatch"
    assert next(iter(options)).rpartition(".")[2] in str(caught.value)
    assert EVENT_TIME in str(caught.value), "the message says what the table has"
    assert listing(tmp_path) == before


@pytest.mark.parametrize(
    "options",
    [{PAYLOAD: EVENT_TIME}, {PAYLOAD: "DefaultHoodieRecordPayload"}, {MERGE_MODE: "EVENT_TIME_ORDERING"}],
)
def test_the_tables_own_mode_may_be_named(tmp_path: Path, options: dict[str, str]) -> None:
    hoodie.write_table(plain(("a", 5, "x")), str(tmp_path / "t"), options=PLAIN)
    hoodie.write_table(plain(("a", 6, "y")), str(tmp_path / "t"), options=options)
    assert values(tmp_path / "t", "val") == ["y"]


def test_a_soft_delete_is_an_ordinary_update(tmp_path: Path) -> None:
    table = tmp_path / "t"
    hoodie.write_table(plain(("a", 1, "secret"), ("b", 1, "x")), str(table), options=PLAIN)
    result = hoodie.write_table(plain(("a", 2, None)), str(table))
    assert (result.num_updates, result.num_deletes) == (1, 0)
    assert values(table, "id", "val") == [("a", None), ("b", "x")]


def test_a_delete_marker_of_ones_own(tmp_path: Path) -> None:
    options = {**PLAIN, "hoodie.payload.delete.field": "val", "hoodie.payload.delete.marker": "D"}
    hoodie.write_table(
        plain(("a", 1, "x"), ("b", 1, "y"), ("c", 1, "D")), str(tmp_path / "t"), options=options
    )
    assert values(tmp_path / "t", "id") == ["a", "b"]
    result = hoodie.write_table(plain(("a", 2, "D"), ("b", 0, "D")), str(tmp_path / "t"), options=options)
    assert (result.num_deletes, values(tmp_path / "t", "id")) == (1, ["b"])


class FirstWins(CommitTime):
    """A merger of one's own: what is stored stays."""

    java_class = "org.example.FirstWins"

    def __init__(self, *, config: Any, ordering_field: str | None, schema: pa.Schema) -> None:
        super().__init__(ordering_field)

    def merge(self, stored: pa.Table, incoming: pa.Table) -> Any:
        outcome = super().merge(stored, incoming)
        return type(outcome)(~outcome.take, outcome.delete & False)


def test_a_merger_of_ones_own(tmp_path: Path) -> None:
    options = {**PLAIN, PAYLOAD: f"{__name__}:FirstWins"}
    hoodie.write_table(plain(("a", 1, "first")), str(tmp_path / "t"), options=options)
    hoodie.write_table(plain(("a", 9, "second"), ("b", 1, "other")), str(tmp_path / "t"), options=options)
    assert values(tmp_path / "t", "val") == ["first", "other"]


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("name", [PAYLOAD, "hoodie.compaction.payload.class"])
def test_a_merger_of_ones_own_is_refused_where_the_table_has_a_mode(
    tmp_path: Path, version: int, name: str
) -> None:
    """It would merge nothing: the mode of the table does."""
    table = str(tmp_path / "t")
    made = {**PLAIN, VERSION: version}
    hoodie.write_table(plain(("a", 5, "x")), table, options=made)
    for payload, error in ((f"{__name__}:FirstWins", "org.example.FirstWins"), ("nowhere:Merger", "nowhere")):
        with pytest.raises(HoodieError, match=error):
            hoodie.write_table(plain(("a", 6, "y")), table, options={name: payload})
    assert values(Path(table), "val") == ["x"]


def test_a_merger_that_cannot_be_imported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'nowhere:Merger' can't be imported"):
        hoodie.write_table(
            plain(("a", 1, "x")), str(tmp_path / "t"), options={**PLAIN, PAYLOAD: "nowhere:Merger"}
        )
    assert not (tmp_path / "t").exists()


def test_ordering_in_no_partition_and_in_partitions_alike(tmp_path: Path) -> None:
    for name, partition in (("flat", ""), ("parted", "region")):
        options = {**OPTIONS, PARTITION: partition}
        table = str(tmp_path / name)
        hoodie.write_table(as_table(small_rows(range(9), 3), SMALL_SCHEMA), table, options=options)
        hoodie.write_table(as_table(small_rows(range(0, 9, 2), 2), SMALL_SCHEMA), table)
    flat, parted = (
        hoodie.read_table(str(tmp_path / name), meta=False).sort_by("id") for name in ("flat", "parted")
    )
    assert flat == parted
