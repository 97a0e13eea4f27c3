"""The Spark engine on Spark 4 (classic and Connect) and Spark 3.5: same rows as the oracle's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import hoodie
from tests.spark.answers import Servers, interpreter
from tests.support.at_once import OPTIMISTIC
from tests.support.oracle import Model
from tests.support.readers import read_hudi_rs
from tests.support.rows import assert_same_rows
from tests.support.tables import FULL_SCHEMA, SMALL_SCHEMA, as_table, full_rows, small_rows

pytestmark = pytest.mark.spark

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
}
#: inserts of a partition are cut among several new files
CUT = {"hoodie.copyonwrite.record.size.estimate": 1000, "hoodie.parquet.max.file.size": 20000}
#: merge-on-read, nothing packed; Parquet blocks, as hudi-rs can't read all of these types in Avro ones
LOGS = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.logfile.data.block.format": "parquet",
    "hoodie.parquet.small.file.limit": 0,
}
STORED = pa.schema(
    [pa.field("c_ntz", pa.timestamp("us", tz="UTC")) if f.name == "c_ntz" else f for f in FULL_SCHEMA]
)


#: bytes of files that the driver may read for the steps of a write of few rows
DRIVER = 64 << 20


@pytest.mark.parametrize(
    ("version", "mode", "options", "whole", "driver_bytes"),
    [
        pytest.param("4", "classic", OPTIONS, True, 0, id="spark4", marks=pytest.mark.full),
        pytest.param(
            "4", "connect", {**OPTIONS, **CUT}, False, 0, id="spark4-connect", marks=pytest.mark.full
        ),
        pytest.param(
            "4",
            "connect",
            {**OPTIONS, **CUT, "hoodie.index.type": "BLOOM"},
            True,
            0,
            id="spark4-connect-bloom",
            marks=pytest.mark.full,
        ),
        pytest.param("3.5", "classic", {**OPTIONS, **CUT}, True, 0, id="spark3.5", marks=pytest.mark.full),
        pytest.param("3.5", "classic", OPTIONS, True, DRIVER, id="spark3.5-driver", marks=pytest.mark.full),
        pytest.param("4", "classic", OPTIONS, True, DRIVER, id="spark4-driver", marks=pytest.mark.full),
        pytest.param(
            "4", "connect", {**OPTIONS, **LOGS}, True, DRIVER, id="connect-driver", marks=pytest.mark.full
        ),
        pytest.param(
            "4",
            "connect",
            {**OPTIONS, **LOGS},
            True,
            0,
            id="spark4-connect-merge-on-read",
            marks=pytest.mark.full,
        ),
    ],
)
def test_rows_of_every_type(
    tmp_path: Path,
    servers: Servers,
    version: str,
    mode: str,
    options: dict[str, Any],
    whole: bool,
    driver_bytes: int,
) -> None:
    """Not `whole`: two writes of three, and none that are refused."""
    python = interpreter(version)
    model = Model(["id"], ["region"], "ts")
    batches = [
        full_rows(range(80), 1),
        full_rows(range(50, 120), 2) + full_rows(range(3), 2, deleted=True),
        full_rows(range(10, 20), 1) + full_rows(range(100, 140), 3),
    ]
    for number, rows in enumerate(batches if whole else batches[:2]):
        pq.write_table(as_table(rows, FULL_SCHEMA), tmp_path / f"batch-{number}.parquet")
        (model.upsert if number else model.bulk_insert)(rows)
    table = tmp_path / "table"
    asked = str(tmp_path), str(table), options, whole
    answer = servers.ask("program", mode, *asked, python=python, driver_bytes=driver_bytes)
    expected = model.table(FULL_SCHEMA).cast(STORED)
    assert answer["version"].startswith(version)
    assert_same_rows(hoodie.read_table(str(table)), expected, what="Arrow reader")
    assert_same_rows(pq.read_table(tmp_path / "read.parquet").cast(STORED), expected, what="Spark reader")
    assert_same_rows(read_hudi_rs(table), expected, what="hudi-rs")
    assert answer["columns"] == ["id"]
    assert answer["few"] == sum(row["ts"] >= 2000 for row in expected.to_pylist())
    assert [result["num_inserts"] for result in answer["results"]] == [80, 40, 20][: 3 if whole else 2]
    if not whole:
        return
    codes = [error["code"] for error in answer["errors"]]
    assert codes == ["input", "input", "job"]
    assert "pyarrow.lib.ArrowInvalid: " in answer["errors"][2]["message"]
    assert answer["below"] == [None, 7, None, 7]
    assert "'id'" in answer["errors"][0]["message"]
    assert not Path(f"{table}_bad").exists(), "a refused write leaves nothing behind"


@pytest.mark.full
@pytest.mark.parametrize(("version", "mode"), [("4", "classic"), ("4", "connect"), ("3.5", "classic")])
def test_verbs(tmp_path: Path, servers: Servers, version: str, mode: str) -> None:
    python = interpreter(version)
    answer = servers.ask("verbs", mode, str(tmp_path), python=python)
    assert answer["version"].startswith(version)


def test_labels_place_rows_as_spark_hashes_them() -> None:
    """Values of Spark 4.2's `pmod(hash(x), n)` for x = 0..7, n = 5, as printed by Spark."""
    from hoodie.engine.spark import _murmur3_int, partition_labels

    hashes = _murmur3_int(np.arange(3, dtype=np.uint32))
    assert hashes.tolist() == [933211791, -559580957, 1765031574]
    labels = partition_labels(7)
    assert (_murmur3_int(np.array(labels, dtype=np.uint32)).astype(np.int64) % 7).tolist() == list(range(7))


@pytest.mark.full
@pytest.mark.parametrize(("version", "mode"), [("4", "classic"), ("4", "connect"), ("3.5", "classic")])
def test_candidate_files_are_opened_once(tmp_path: Path, servers: Servers, version: str, mode: str) -> None:
    """Whether the driver or tasks ask the index, and however the answers come back to the rows."""
    python = interpreter(version)
    rows = pa.table(
        {
            "id": [f"k{number:05d}" for number in range(660)],
            "region": [f"r{number % 12:02d}" for number in range(660)],
            "ts": [1] * 660,
        }
    )
    table = tmp_path / "table"
    options = {**OPTIONS, "hoodie.index.bloom.num_entries": 200}
    hoodie.write_table(rows.slice(0, 600), str(table), options=options)
    pq.write_table(rows, tmp_path / "rows.parquet")
    counts = (1, 64, 16) if (version, mode) == ("4", "classic") else (1, 4, 4)
    source = str(tmp_path / "rows.parquet")
    answer = servers.ask("opens", mode, source, str(table), options, counts, python=python)
    for number, (opened, updates, inserts, _) in enumerate(answer["found"]):
        assert sorted(Counter(name.partition("_")[0] for name in opened).values()) == [1] * 12
        assert (updates, inserts) == ((600, 60) if number == 0 else (660, 0))
    assert answer["deleted"] == 50
    found = hoodie.read_table(str(table))
    assert (found.num_rows, len(set(found.column("id").to_pylist()))) == (610, 610)
    if (version, mode) == ("4", "classic"):
        assert answer["found"][0][3] == 3, "jobs of a write whose keys are few: stage, shuffle, write"


@pytest.mark.full
@pytest.mark.parametrize(("version", "mode"), [("4", "classic"), ("4", "connect"), ("3.5", "classic")])
def test_bulk_inserts_of_frames(tmp_path: Path, servers: Servers, version: str, mode: str) -> None:
    """Counted by their keys, then written and shuffled at most once, if the plan is a scan; else staged."""
    python = interpreter(version)
    rows = as_table(small_rows(range(1200), 1), SMALL_SCHEMA)
    regions = np.array(rows.column("region").to_pylist())
    for folder in ("apart", "mixed"):
        (tmp_path / folder).mkdir()
    for number, region in enumerate(("apac", "eu", "us")):
        pq.write_table(rows.filter(pa.array(regions == region)), tmp_path / "apart" / f"{number}.parquet")
    for number in range(4):
        pq.write_table(rows.slice(number * 300, 300), tmp_path / "mixed" / f"{number}.parquet")
    table = tmp_path / "table"
    folders = [str(tmp_path / folder) for folder in ("apart", "mixed")]
    options = {**OPTIONS, "hoodie.index.bloom.num_entries": 200}
    answer = servers.ask("frames", mode, *folders, str(table), options, python=python)
    ways = {name: _way(steps) for name, (steps, *_) in answer["found"].items()}
    assert ways == {
        "plain": "source files",
        "apart": f"rows in their order, straight from the {'files' if mode == 'classic' else 'DataFrame'}",
        "mixed": None,
        "one": "rows ordered in their tasks, straight from the DataFrame",
        "computed": None,
    }
    for name, (_, inserts, files, _) in answer["found"].items():
        expected = rows
        if name == "one":
            expected = rows.slice(0, 300).append_column("more", pa.array(["x"] * 300))
        assert inserts == expected.num_rows, name
        assert files == 3, name
        assert_same_rows(hoodie.read_table(f"{table}_{name}"), expected, what=name)
    if (version, mode) == ("4", "classic"):
        counts = {name: jobs for name, (*_, jobs) in answer["found"].items()}
        assert (counts["apart"], counts["one"]) == (2, 2), "count, write"
        assert counts["mixed"] == 3, "count, shuffle, write"
    assert [error["code"] for error in answer["errors"]] == ["input", "input"]
    assert not Path(f"{table}_bad").exists(), "a refused write leaves nothing behind"


@pytest.mark.full
@pytest.mark.parametrize("version", ["4", "3.5"])
def test_bulk_inserts_of_frames_that_the_engine_computes(
    tmp_path: Path, servers: Servers, version: str
) -> None:
    """The rows that Spark itself writes of the same DataFrame, whatever the settings."""
    rows = as_table(small_rows(range(1200), 1), SMALL_SCHEMA)
    folders = {"mixed": rows, "apart": rows.sort_by("region")}
    for folder, written in folders.items():
        (tmp_path / folder).mkdir()
        for number in range(4):
            pq.write_table(written.slice(number * 300, 300), tmp_path / folder / f"{number}.parquet")
    paths = {folder: str(tmp_path / folder) for folder in folders}
    options = {**OPTIONS, "hoodie.index.bloom.num_entries": 200}
    python = interpreter(version)
    answer = servers.ask("computed_inserts", "classic", paths, str(tmp_path / "t"), options, python=python)
    ways = {name: _way(steps) for name, (_, steps, _) in answer["found"].items()}
    assert {name for name, way in ways.items() if way} == {"apart"}
    assert ways["apart"] == "rows in their order, straight from the files"
    for name, (here, _, files) in answer["found"].items():
        assert here, f"{name}: Spark computes it"
        expected = pq.read_table(f"{tmp_path}/t_{name}_by_spark")
        assert 1000 < expected.num_rows < rows.num_rows
        assert_same_rows(hoodie.read_table(f"{tmp_path}/t_{name}"), expected, what=name)
        assert files > 3 if name == "small files" else files == 3, name


@pytest.mark.full
@pytest.mark.parametrize(("version", "mode"), [("4", "classic"), ("4", "connect"), ("3.5", "classic")])
def test_upserts_of_frames(tmp_path: Path, servers: Servers, version: str, mode: str) -> None:
    """Of files, and of plans that are scans, the keys alone are staged."""
    python, table = interpreter(version), tmp_path / "table"
    options = {**OPTIONS, "hoodie.index.bloom.num_entries": 200}
    rows = as_table(small_rows(range(300), 1, ts=1) + small_rows(range(300, 1200), 1), SMALL_SCHEMA)
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=400)
    hoodie.write_table(rows.slice(0, 600), str(table), options=options)
    answer = servers.ask("upserts", mode, str(tmp_path / "rows.parquet"), str(table), options, python=python)
    known = sum(row is not None for row in rows.column("val").to_pylist())
    counts = {name: (inserts, updates) for name, (inserts, updates, *_) in answer["found"].items()}
    assert counts == {
        "files": (600, 600),
        "plain": (0, 1200),
        "columns": (0, 1200),
        "again": (0, 1200),
        "frame": (0, known),
        "query": (0, 1200),
        "cached": (0, 1200),
        "joined": (0, 1200),
    }
    read = {name for name, (_, _, plain, *_) in answer["found"].items() if plain}
    computed = {"frame", "query"} if mode == "classic" else set()
    assert read == {"plain", "columns", "again", *computed}
    staged = {name for name, (*_, staged, _) in answer["found"].items() if staged}
    assert staged == {"joined"}
    assert answer["kept"], "what is cached of the rows stays"
    if (version, mode) == ("4", "classic"):
        assert [jobs for name, (*_, jobs) in answer["found"].items() if name != "joined"] == [3] * 7
    assert answer["deleted"] == 50
    found = hoodie.read_table(str(table))
    keys = found.column("id").to_pylist()
    assert len(keys) == len(set(keys)) == 1150
    expected = {row["id"]: row["ts"] + 4 for row in rows.select(["id", "ts"]).to_pylist()}
    assert dict(zip(keys, found.column("ts").to_pylist(), strict=True)) == {
        key: expected[key] for key in keys
    }


@pytest.mark.full
@pytest.mark.parametrize(("version", "mode"), [("4", "classic"), ("4", "connect"), ("3.5", "classic")])
def test_a_frame_is_computed_once_over_all_attempts(
    tmp_path: Path, servers: Servers, version: str, mode: str
) -> None:
    """One task a partition reads rows that are others each time; a write that gives up frees them, too."""
    options = {
        **OPTIMISTIC,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.index.bloom.num_entries": 200,
    }
    table, reads = tmp_path / "table", tmp_path / "reads"
    reads.mkdir()
    rows = pa.table({"id": ["1", "2", "x"], "ts": [0] * 3, "val": ["old"] * 3})
    hoodie.write_table(rows, str(table), options=options)
    answer = servers.ask("retries", mode, str(reads), str(table), options, python=interpreter(version))
    assert answer["found"] == [[False, 0, 2, 0], [True, 0, 4, 0]]
    found = hoodie.read_table(str(table), columns=["id", "ts", "val"], meta=False)
    assert sorted(found.column("id").to_pylist()) == [*map(str, range(10)), "x"]
    assert len(set(found.column("val").to_pylist())) == 11
    assert {row["ts"] for row in found.to_pylist() if row["id"] != "x"} == {9}


#: what one version or mode has in another form, or in a zone of the JVM's
LEFT_TO_SPARK = {
    "d = CAST('NaN' AS DOUBLE)",
    "t < TIMESTAMP'1970-01-01 00:00:00' OR t IS NULL",
    "t = u",
    "c < i",
    "s LIKE 'a%' OR i > 0",
}


@pytest.mark.parametrize(
    "version", [pytest.param("4", marks=pytest.mark.full), pytest.param("3.5", marks=pytest.mark.full)]
)
def test_rows_that_the_engine_computes_itself(tmp_path: Path, servers: Servers, version: str) -> None:
    """Beside Spark, with ANSI mode and without: the same rows, and the same errors."""
    answer = servers.ask("computed", "classic", str(tmp_path), python=interpreter(version))
    assert answer["differ"] == []
    assert set(answer["left"]) == LEFT_TO_SPARK
    assert answer["never"] == []
    assert answer["failing"] == [["value, value"] * 6, ["job, error"] * 6]
    assert {name for name, read in answer["plans"].items() if read} == {
        "chain",
        "sql",
        "view",
        "alias",
        "another zone, without times",
    }


def _way(steps: list[str]) -> str | None:
    found = [step for step in steps if "straight from the" in step]
    if not found:
        return None
    return "source files" if "source files" in found[0] else found[0].rpartition(": ")[2]


@pytest.mark.full
@pytest.mark.parametrize(
    ("version", "mode", "options", "driver_bytes"),
    [
        ("4", "classic", {}, DRIVER),
        ("4", "classic", {}, 1),
        ("4", "classic", {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}, 1),
        ("4", "classic", {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 2}, 1),
        ("4", "classic", {}, 0),
        ("4", "connect", {}, DRIVER),
        ("4", "connect", {}, 1),
        ("3.5", "classic", {}, DRIVER),
        ("3.5", "classic", {}, 1),
    ],
)
def test_few_rows(
    tmp_path: Path, servers: Servers, version: str, mode: str, options: dict[str, Any], driver_bytes: int
) -> None:
    """The driver does the steps of their writes, and sends the rows to tasks where these read much."""
    rows: list[dict[str, Any]] = [
        {"id": f"k{number:03d}", "region": f"r{number % 3}", "ts": number % 2} for number in range(60)
    ]
    given = pa.Table.from_pylist(rows)
    pyarrow.csv.write_csv(given, tmp_path / "rows.csv")
    later = given.set_column(2, "ts", pa.array([2] * 60))
    pq.write_table(later, tmp_path / "rows.parquet")
    table = str(tmp_path / "table")
    asked = str(tmp_path), table, {**OPTIONS, **options}
    python = interpreter(version)
    told = servers.ask("few", mode, *asked, python=python, driver_bytes=driver_bytes)["told"]
    counts = {name: tuple(found[:2]) for name, found in told.items()}
    assert counts == {
        "csv": (60, 0),
        "parquet": (0, 60),
        "frame": (0, 60 if "MERGE_ON_READ" in options.values() else 0),  # rows that are late
        "constants": (1, 1),
        "aggregate": (0, 60),
    }
    model = Model(["id"], ["region"], "ts")
    for written in (rows, later.to_pylist(), rows):
        model.upsert(written)
    model.upsert([{"id": "k001", "region": "r1", "ts": 5}, {"id": "new", "region": "r9", "ts": 5}])
    model.upsert([{**row, "ts": row["ts"] + 6} for row in rows])
    assert_same_rows(hoodie.read_table(table), model.table(given.schema), what="Arrow reader")
    assert_same_rows(read_hudi_rs(table), model.table(given.schema), what="hudi-rs")
    if mode == "classic":
        jobs = {name: found[2] for name, found in told.items()}
        if driver_bytes == DRIVER:
            assert jobs["csv"] == jobs["parquet"] == 0
            assert max(jobs.values()) <= 3
        elif driver_bytes == 1:
            assert min(jobs.values()) > 0
        else:
            assert min(jobs.values()) > 1
