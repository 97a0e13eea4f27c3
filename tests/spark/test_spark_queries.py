"""Queries as DataFrames, on Spark 4 classic and Connect: what Apache Hudi answered on its own tables."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from tests.spark.answers import Servers
from tests.support.arrow import pc
from tests.support.bootstrap import allowed, unpacked
from tests.support.moved import UNVERIFIED, store_elsewhere
from tests.support.rows import assert_same_rows

pytestmark = pytest.mark.spark

KEYS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region,n",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
}
#: slices with logs of every type; slices with and without logs, clustered, compacted, replaced
ANSWERS = [
    ("mor_logs", "snapshot"),
    ("mor_logs", "inc_20261121000442613_20261121000450429"),
    ("mor_logs", "asof_20261121000445446"),
    ("all_instants", "ro"),
    ("all_instants", "inc_000_20261121005926757"),
    ("cow_hive_urlenc", "snapshot"),
    ("cow_droppartcol", "snapshot"),
]
#: names of partitions that are SQL, escapes, variables of Spark, or the null's
NAMES = ["eu", "it's", "${env:HOME}", "a+b", "100%", "x=y", "\u00fc", 'a\\b`"', "a/b", "[x]{a,b}*", "", None]

#: skeletons alone, beside whole files, and with logs
BOOTSTRAPPED = ("mixed", "mor", "updated")
ANSWERS[:0] = [(name, "snapshot") for name in BOOTSTRAPPED]
#: columns renamed, moved and retyped by schema-on-read evolution; one has files that are the newest's already
EVOLVED = ["evolved_cow", "evolved_mor"]
#: predicates on partitions by a decimal, a point in time and a date, and the rows that they find
TYPED = {
    "c > -1 OR c IS NULL": 4,
    "c IN (0.00000001, 7) AND NOT d = '2024-01-02'": 2,
    "m < '2024-01-02' OR m IS NULL": 3,
    "year(m) = 2024 AND d >= DATE'2024-01-02'": 4,
    "(" * 150 + "d = '2024-01-01'" + ")" * 150: 2,
}
#: predicates of tables of later versions by whose indexes files are left out, and the rows that they find
INDEXED = [
    ("si_cow", "name = 'Ab1$2'", 1),
    ("si_v8", "num IN (204, 205) AND part <> 'x'", 2),
    ("ei_cow", "upper(name) IN ('AB0$0', 'AA')", 10),
    ("ei_cow", "lower(name) = 'ab1$2' OR month(day) = 13", 1),
    ("part_rli", "id = 'k0022' AND part = '2024-01-01'", 1),
    ("part_rli", "id = 'k0003' OR ts > 5000", 0),
]
#: what Spark would run of a predicate; each was tried on Spark 4
NO_PREDICATES = [
    "try_reflect('java.lang.System', 'getenv', 'HOME') <> ''",
    "system.builtin.`reflect`('java.lang.System', 'getenv', 'HOME') <> ''",
    "(FROM `text`.`/etc/hostname`) <> ''",
    "(FROM(range(1))) = 0",
    "(MAP 1. USING 'cat' AS (a) FROM range(1)) <> ''",
    "from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '/etc/hostname')) IS NULL",
]

#: tables of versions 8 and 9
LATER_ANSWERS = [
    ("1.2.0-v8/mor_compacted", "snapshot"),
    ("1.2.0-v8/mor_compacted", "ro"),
    ("1.2.0-v8/mor_compacted", "inc_20261121005056262_20261121005107316"),
    ("1.2.0-v8/mor_compacted", "asof_20261121005056344"),
    ("1.2.0-v9/cow_types", "snapshot"),
    ("1.2.0-v9/mor_clustered", "snapshot"),
    ("1.2.0-v9/mor_clustered", "inc_20261121005700431_20261121005712386"),
    ("1.2.0-v9/mor_pending_compaction", "snapshot"),
    ("1.2.0-v9/mor_pending_compaction", "ro"),
    ("1.2.0-v9/mor_pending_compaction", "asof_20261121005627639"),
    ("1.2.0-v9/mor_types_flat", "snapshot"),
    ("1.2.0-v9/mor_types_flat", "inc_20261121002338917_20261121002349595"),
    ("1.2.0-v9/mor_logcompaction", "snapshot"),
]


def _arguments(file: str) -> dict[str, str]:
    kind, *times = file.split("_")
    return {
        "snapshot": {},
        "ro": {"query": "read_optimized"},
        "inc": {"begin": times[0], "end": times[-1]} if times else {},
        "asof": {"as_of": times[0]} if times else {},
    }[kind]


def _odd_names(folder: Path, mode: str) -> list[Any]:
    """Questions on tables whose files hold another value than their path."""
    asked: list[Any] = []
    for number, kind in enumerate(("COPY_ON_WRITE", "MERGE_ON_READ")):
        path = str(folder / f"named-{number}")
        rows = pa.table({"id": NAMES, "region": NAMES, "n": range(len(NAMES)), "ts": [1] * len(NAMES)})
        rows = rows.set_column(0, "id", pa.array([str(name) for name in range(len(NAMES))]))
        options = {**KEYS, "hoodie.datasource.write.table.type": kind}
        if number == (mode == "connect"):
            options["hoodie.datasource.write.hive_style_partitioning"] = "true"
        hoodie.write_table(rows, path, options=options)
        store_elsewhere(path, "region", "moved")
        if number:
            hoodie.write_table(rows.slice(6), path)
        common = {"options": UNVERIFIED}
        asked.append([path, common, f"{path}-rows"])
        asked.append([path, {"where": "region = 'a+b'", "columns": ["id", "n"], **common}, f"{path}-found"])
        asked.append([path, {"where": "n = 9", "columns": ["region"], **common}, f"{path}-null"])
    return asked


def _typed_partitions(folder: Path) -> list[Any]:
    """Questions on a table with partitions by a decimal, a point in time and a date; some have logs."""
    path = str(folder / "typed")
    moments = [dt.datetime(2024, 1, day, 5, microsecond=day, tzinfo=dt.timezone.utc) for day in (1, 2, 3)]
    rows = pa.table(
        {
            "id": [str(number) for number in range(6)],
            "c": pa.array(["0.00000001", "-2.5", None] * 2).cast(pa.decimal128(12, 8)),
            "m": pa.array([*moments, None, *moments[:2]], pa.timestamp("us", tz="UTC")),
            "d": [moment.date() for moment in moments] * 2,
            "ts": range(6),
        }
    )
    options = {
        **KEYS,
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.partitionpath.field": "c,m,d",
    }
    hoodie.write_table(rows, path, options=options)
    store_elsewhere(path, "c", 7)
    store_elsewhere(path, "m", moments[0].replace(year=2025))
    hoodie.write_table(rows.slice(3), path)
    asked: list[Any] = [[path, {"options": UNVERIFIED}, f"{path}-rows"]]
    for number, where in enumerate(TYPED):
        asked.append([path, {"where": where, "options": UNVERIFIED}, f"{path}-{number}"])
    return asked


@pytest.mark.full
@pytest.mark.parametrize("mode", ["classic", "connect"])
def test_queries_equal_what_apache_hudi_answers(
    golden_tables: Path,
    evolved_tables: Path,
    later_tables: Path,
    tmp_path: Path,
    servers: Servers,
    mode: str,
) -> None:
    asked: list[tuple[Path, Path, dict[str, Any], str]] = []
    bootstrapped = unpacked(tmp_path / "bootstrapped")
    for name in EVOLVED:
        file = evolved_tables / f"{name}_answers" / "snapshot.parquet"
        asked.append((evolved_tables / name, file, {}, str(tmp_path / name)))
    for name, answer in LATER_ANSWERS:
        file = later_tables / name / "expected" / f"{answer}.parquet"
        out = str(tmp_path / f"{name.replace('/', '-')}-{answer}")
        asked.append((later_tables / name / "table", file, _arguments(answer), out))
    for number, (name, answer) in enumerate(ANSWERS):
        folder = bootstrapped if name in BOOTSTRAPPED else golden_tables / "0.15.0-v6"
        file = folder / name / "expected" / f"{answer}.parquet"
        more: dict[str, Any] = {}
        if number % 2:
            more = {"columns": ["id", "ts", "_hoodie_record_key"], "where": "length(region) = 2"}
        table = folder / name / "table"
        if name in BOOTSTRAPPED:
            more["options"] = allowed(table)
        asked.append((table, file, {**_arguments(answer), **more}, str(tmp_path / f"{name}-{answer}")))
    named = [*_odd_names(tmp_path, mode), *_typed_partitions(tmp_path)]
    questions = [[str(table), arguments, out] for table, _, arguments, out in asked]
    damaged = shutil.copytree(golden_tables / "0.15.0-v6" / "cow_types" / "table", tmp_path / "damaged")
    torn = max(damaged.glob("eu/*.parquet"), key=lambda file: file.name.rpartition("_")[2])
    torn.write_bytes(torn.read_bytes()[:-1])
    broken = [str(damaged), {"options": {"hoodie.metadata.enable": "false"}}, ""]
    ways_out = [[str(asked[0][0]), {"where": where}, ""] for where in NO_PREDICATES]
    said = servers.ask("queries", mode, [*named, *questions, broken, *ways_out])
    refused, *others = said["refused"]
    assert torn.name in refused
    assert [
        where for where, text in zip(NO_PREDICATES, others, strict=True) if "not allowed" not in text
    ] == []
    for path, arguments, out in named:
        rows = hoodie.read_table(path, **arguments)
        assert_same_rows(pq.read_table(out), rows, meta=True, what=f"{path} {arguments}")
        if "typed" not in path:
            assert rows.num_rows == (1 if "where" in arguments else len(NAMES))
        elif "where" in arguments:
            assert rows.num_rows == TYPED[arguments["where"]]
    assert said["version"].startswith("4")
    for (table, file, arguments, out), columns in zip(asked, said["columns"][len(named) :], strict=True):
        expected = pq.read_table(file)
        if "where" in arguments:
            expected = expected.filter(pc.equal(pc.utf8_length(expected["region"]), 2))
            expected = expected.select(arguments["columns"])
        assert set(columns) == set(expected.column_names)
        assert_same_rows(pq.read_table(out), expected, meta=True, what=f"{table} {file.stem}")
    assert said["even"] == sum(row["ts"] % 2 == 0 for row in expected.to_pylist())


@pytest.mark.parametrize(
    ("mode", "count", "settings"),
    [
        pytest.param("classic", 120, {"spark.sql.ansi.enabled": "false"}, marks=pytest.mark.full),
        pytest.param("classic", 60, {"spark.sql.ansi.enabled": "true"}, marks=pytest.mark.full),
        pytest.param(
            "classic",
            60,
            {"spark.sql.session.timeZone": "America/New_York", "spark.sql.ansi.enabled": "false"},
            marks=pytest.mark.full,
        ),
        pytest.param("connect", 60, {"spark.sql.ansi.enabled": "false"}, marks=pytest.mark.full),
    ],
)
def test_trees_of_predicates_allow_what_spark_answers(
    servers: Servers, tmp_path: Path, mode: str, count: int, settings: dict[str, str]
) -> None:
    said = servers.ask("predicates", mode, str(tmp_path), count, count, list(settings.items()))
    assert said["wrong"] == []
    assert said["known"] > count * 6
    assert said["one"] > said["known"] / 2


@pytest.mark.full
@pytest.mark.parametrize("mode", ["classic", "connect"])
def test_indexes_of_later_versions(later_indexes: Path, tmp_path: Path, servers: Servers, mode: str) -> None:
    asked: list[list[Any]] = []
    for number, (name, where, _) in enumerate(INDEXED):
        arguments = {"where": where, "options": {"hoodie.read.record.index": "true"}}
        asked.append(
            [str(later_indexes / "indexes" / name / "table"), arguments, str(tmp_path / str(number))]
        )
    servers.ask("queries", mode, asked)
    for (path, arguments, out), (_, where, count) in zip(asked, INDEXED, strict=True):
        expected = hoodie.read_table(path, where=where, options={"hoodie.metadata.enable": "false"})
        assert expected.num_rows == count, where
        assert_same_rows(pq.read_table(out), expected, meta=True, what=f"{path} {arguments}")
