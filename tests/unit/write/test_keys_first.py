"""Rows whose keys alone are staged, and that are computed again where they are given to their file groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hoodie
from hoodie import pipeline
from hoodie.engine.local import LocalEngine, LocalFrame
from hoodie.errors import InputError, JobError
from hoodie.write.blobs import ROWS
from hoodie.write.operation import Operation, WriteRequest, WriteResult
from tests.support.rows import assert_same_rows
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.support.tiers import crossed_but
from tests.unit.write.support import (
    BUDGET,
    OPTIONS,
    ORDERING,
    PLAIN,
    check_meta,
    data_files,
    listing,
    plain,
)
from tests.unit.write.test_counted import parts

INDEX, RINGS = "hoodie.index.type", "hoodie.index.bucket.engine"
TYPE = "hoodie.datasource.write.table.type"
WAYS = {"on the driver": "on the driver", "by tasks": "by tasks"}
SHUFFLED = np.random.default_rng(7).permutation(600)


class Apart(LocalEngine):
    """The local engine with frames whose columns are computed apart. `columns` has what these are then, as if
    the rows had changed since; `rows` counts the rows that were held for a later step.
    """

    def __init__(self, columns: LocalFrame | None = None) -> None:
        super().__init__(2)
        self.columns = columns
        self.rows = 0

    def apart(self, frame: LocalFrame, names: Sequence[str]) -> LocalFrame:
        found = self.columns or frame
        schema = pa.schema([found.schema.field(name) for name in names])
        return LocalFrame(
            schema,
            [
                lambda source=source: (batch.select(list(names)) for batch in source())  # type: ignore[misc]
                for source in found.partitions
            ],
        )

    def limited(self, memory: int, folder: str, refusal: Any) -> Apart:
        return self

    def persist(self, frame: LocalFrame) -> LocalFrame:
        held = super().persist(frame)
        self.rows += sum(row["kind"] == ROWS for row in self.collect(held))
        return held


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "by tasks":
        monkeypatch.setattr("hoodie.write.input.stage.DRIVER_KEY_BYTES", 0)
    return str(request.param)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoodie.write.input.key_staging.BLOCK_ROWS", 70)


def load(
    engine: LocalEngine,
    frame: LocalFrame,
    table: Path,
    options: dict[str, Any] = OPTIONS,
    operation: Operation = Operation.UPSERT,
) -> WriteResult:
    return pipeline.write(engine, frame, WriteRequest(str(table), operation, options))


def small(*rows: list[dict[str, Any]]) -> pa.Table:
    return as_table([row for some in rows for row in some], SMALL_SCHEMA)


def mixed(rows: pa.Table) -> pa.Table:
    return rows.take(np.random.default_rng(3).permutation(rows.num_rows))


BATCHES = [
    small(small_rows(range(600), 5)),
    mixed(
        small(
            small_rows(range(300), 6),
            small_rows(range(200, 400), 7),
            small_rows(range(400, 450), 4),
            small_rows(range(450, 500), 8, deleted=True),
            small_rows(range(700, 900), 5),
            small_rows(range(800, 950), 4),
        )
    ),
]


@pytest.mark.parametrize(
    ("way", "options"),
    crossed_but(
        {
            "on the driver-merge-on-read",
            "on the driver-several files",
            "by tasks-bloom",
            "by tasks-small budget",
        },
        WAYS,
        {
            "simple": {},
            "bloom": {INDEX: "BLOOM"},
            "merge-on-read": {TYPE: "MERGE_ON_READ", "hoodie.parquet.small.file.limit": "0"},
            "several files": {
                "hoodie.copyonwrite.record.size.estimate": 1000,
                "hoodie.parquet.max.file.size": 100000,
            },
            "small budget": {BUDGET: 1 << 16},
        },
    ),
    indirect=["way"],
)
def test_the_same_table_as_of_staged_rows(tmp_path: Path, way: str, options: dict[str, Any]) -> None:
    options = {**OPTIONS, INDEX: "SIMPLE", **options}
    results: list[list[WriteResult]] = [[], []]
    for number, engine in enumerate((Apart(), LocalEngine(2))):
        for rows in BATCHES:
            frame = parts(rows.slice(0, 333), rows.slice(333, 10), rows.slice(343))
            results[number].append(load(engine, frame, tmp_path / f"t{number}", options))
        if isinstance(engine, Apart):
            assert engine.rows == 0
    counts = ("num_rows", "num_inserts", "num_updates", "num_deletes", "num_files", "partitions")
    apart, staged = ([[getattr(done, name, 0) for name in counts] for done in each] for each in results)
    assert apart == staged
    assert results[0][1].num_updates > 0
    found = hoodie.read_table(str(tmp_path / "t0"))
    assert_same_rows(found, hoodie.read_table(str(tmp_path / "t1")))
    if TYPE not in options:
        check_meta(found, tmp_path / "t0")


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({TYPE: "MERGE_ON_READ"}, marks=pytest.mark.full),
        {TYPE: "MERGE_ON_READ", RINGS: "CONSISTENT_HASHING"},
    ],
    ids=["copy-on-write", "merge-on-read", "rings"],
)
def test_rows_whose_keys_say_their_file_group(tmp_path: Path, options: dict[str, Any]) -> None:
    options = {**OPTIONS, INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": 3, **options}
    for number, engine in enumerate((Apart(), LocalEngine(2))):
        for rows in BATCHES:
            load(engine, parts(rows.slice(0, 333), rows.slice(333)), tmp_path / f"t{number}", options)
        assert not isinstance(engine, Apart) or engine.rows == 0
    assert_same_rows(hoodie.read_table(str(tmp_path / "t0")), hoodie.read_table(str(tmp_path / "t1")))


@pytest.mark.parametrize(
    "counted", [BATCHES[0].slice(0, 500), BATCHES[0].slice(0, 5)], ids=["rows", "groups"]
)
def test_more_rows_for_numbered_file_groups_than_were_counted(tmp_path: Path, counted: pa.Table) -> None:
    options = {**OPTIONS, INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": 3}
    load(Apart(), parts(BATCHES[0]), tmp_path / "t", options)
    with pytest.raises(JobError, match="input change"):
        load(Apart(parts(counted)), parts(BATCHES[1]), tmp_path / "t", options)
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), BATCHES[0])


@pytest.mark.parametrize(
    ("way", "policy"),
    crossed_but({"on the driver-fail", "by tasks-drop"}, WAYS, {"drop": "drop", "fail": "fail"}),
    indirect=["way"],
)
def test_an_insert_that_looks_for_stored_keys(tmp_path: Path, way: str, policy: str) -> None:
    options = {**OPTIONS, "hoodie.datasource.insert.dup.policy": policy}
    load(Apart(), parts(BATCHES[0]), tmp_path / "t")
    engine, more = Apart(), small(small_rows(range(500, 650), 6))
    if policy == "fail":
        with pytest.raises(hoodie.errors.DuplicateKey, match="have a key that the table has"):
            load(engine, parts(more), tmp_path / "t", options, Operation.INSERT)
        return
    done = load(engine, parts(more), tmp_path / "t", options, Operation.INSERT)
    assert (done.num_inserts, done.num_dropped, engine.rows) == (50, 100, 0)


@pytest.mark.parametrize(
    ("way", "counted"),
    crossed_but(
        {"on the driver-more rows", "on the driver-partitions", "by tasks-order", "by tasks-fewer rows"},
        WAYS,
        {
            "order": BATCHES[0].take(SHUFFLED),
            "more rows": BATCHES[0].slice(0, 500),
            "fewer rows": pa.concat_tables([BATCHES[0], BATCHES[1]]),
            "partitions": BATCHES[0].set_column(2, "region", pa.array(["us"] * 600)),
        },
    ),
    indirect=["way"],
)
def test_rows_that_change_between_the_passes_are_withdrawn(
    tmp_path: Path, way: str, counted: pa.Table
) -> None:
    load(Apart(), parts(BATCHES[0]), tmp_path / "t")
    before = {name for name in listing(tmp_path / "t") if name.endswith(".parquet")}
    with pytest.raises(JobError, match="input changes when it is read again"):
        load(Apart(parts(counted)), parts(BATCHES[0]), tmp_path / "t")
    assert {name for name in listing(tmp_path / "t") if name.endswith(".parquet")} == before
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), BATCHES[0])


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (plain(("a", 1, "x"), (None, 2, "x")), "id"),  # type: ignore[arg-type]
        (plain(("a", 1, "x"), ("b", None, "x")), "ordering column 'ts' is null in 1 row"),  # type: ignore[arg-type]
    ],
    ids=["key", "ordering"],
)
def test_bad_rows_are_refused_before_anything_is_written(tmp_path: Path, rows: pa.Table, text: str) -> None:
    with pytest.raises(InputError, match=text):
        load(Apart(), parts(rows), tmp_path / "t", PLAIN)
    assert not (tmp_path / "t").exists()


def test_a_text_that_is_none_fails_where_it_is_found(tmp_path: Path) -> None:
    load(Apart(), parts(plain(("a", 1, "x"))), tmp_path / "t", PLAIN)
    rows = plain(("a", 2, "y"), ("b", 2, "y"))
    bad: Any = pa.array([b"y", b"\xff"]).view(pa.string())
    with pytest.raises(InputError, match="no UTF-8"):
        load(Apart(), parts(rows.set_column(2, rows.schema.field(2), bad)), tmp_path / "t", PLAIN)
    assert len(data_files(tmp_path / "t")) == 1
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), plain(("a", 1, "x")))


@pytest.mark.parametrize(
    ("options", "type_of_ts"),
    [
        ({INDEX: "GLOBAL_SIMPLE"}, pa.int64()),
        ({"hoodie.write.max.amplification": "1000"}, pa.int64()),
        ({}, pa.int32()),
    ],
    ids=["whole table", "limited cost", "other types"],
)
def test_rows_that_have_to_be_looked_at_are_staged(
    tmp_path: Path, options: dict[str, Any], type_of_ts: pa.DataType
) -> None:
    options = {**PLAIN, **options}
    load(LocalEngine(2), parts(plain(("a", 1, "x"), ("b", 1, "x"))), tmp_path / "t", options)
    engine, rows = Apart(), plain(("a", 2, "y"), ("c", 2, "y"))
    load(engine, parts(rows.set_column(1, "ts", rows.column(1).cast(type_of_ts))), tmp_path / "t", options)
    assert engine.rows > 0
    assert hoodie.read_table(str(tmp_path / "t")).num_rows == 3


def test_answers_that_are_too_many_to_be_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoodie.write.input.write_input.FEW_BYTES", 100)
    engine = Apart()
    load(engine, parts(BATCHES[0]), tmp_path / "t")
    assert engine.rows == 0, "a new table has no stored keys"
    load(engine, parts(BATCHES[1]), tmp_path / "t")
    assert engine.rows > 0


def test_no_rows_make_a_commit_without_files(tmp_path: Path) -> None:
    result = load(Apart(), parts(BATCHES[0].slice(0, 0)), tmp_path / "t", {**OPTIONS, ORDERING: "ts"})
    assert (result.status, result.num_files) == ("committed", 0)


def test_spilled_rows_are_cut_by_their_real_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pass knows no texts, which are far longer than it takes them to be."""
    asked: list[int] = []
    count = hoodie.read.spill.part_count

    def noted(expected: int, budget: int) -> int:
        asked.append(expected)
        return count(expected, budget)

    monkeypatch.setattr("hoodie.write.input.combine_keys.part_count", noted)
    rows = plain(*[(f"k{number:04d}", 1, "x" * 2000) for number in range(1000)])
    load(Apart(), parts(rows), tmp_path / "t", {**PLAIN, BUDGET: 1 << 18})
    assert min(asked, default=0) >= 2_000_000
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), rows)
