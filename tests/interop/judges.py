"""The judges judged: on tables that Apache Hudi 0.15.0 wrote, with the answers that it gave.

No suite runs this. It is for a new version of a judge: `.venv/bin/python -m pytest tests/interop/judges.py`.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.support import golden
from tests.support.golden import COPY_ON_WRITE
from tests.support.hudi_client import HudiError, HudiServer
from tests.support.oracle import Mode, Model
from tests.support.readers import DAFT_GAPS, HUDI_RS_GAPS, read_daft, read_hudi_rs
from tests.support.rows import assert_same_rows, difference
from tests.support.tables import FULL_SCHEMA, SMALL_SCHEMA, as_table, full_rows, key, small_rows, without

pytestmark = pytest.mark.interop

#: rolls back a delta commit late, which Apache Hudi itself does not read right
MERGE_ON_READ = [name for name in golden.MERGE_ON_READ if name != "mor_rollback_failed"]

HUDI_RS_FAILS = {
    "cow_droppartcol": "drop partition columns",
    "cow_hive_urlenc": "partition from path",
    "cow_tskeygen": "partition from path",
    "mor_compacted": "nested log timestamp",
    "mor_late_overwrite": "late overwrite",
    "mor_logs": "nested log timestamp",
    "mor_partial_payload": "partial payload",
    "mor_pending_compaction": "pending compaction",
}
DAFT_FAILS = {
    "cow_bulk_insert_row": "two-level list of structs",
    "cow_clustered": "two-level list of structs",
    "cow_clustered_intdecimal": "failed write",
    "cow_delete_partition": "replaced files",
    "cow_droppartcol": "drop partition columns",
    "cow_hive_noenc": "uneven statistics",
    "cow_hive_urlenc": "partition from path",
    "cow_inflight": "inflight",
    "cow_insert_overwrite": "replaced files",
    "cow_insert_overwrite_table": "replaced files",
    "cow_newlist_then_old": "two-level list of structs",
    "cow_nonpart": "two-level list of structs",
    "cow_tskeygen": "partition from path",
    "cow_types": "two-level list of structs",
    "mdt_full_cow": "two-level list of structs",
}

SMALL = without(SMALL_SCHEMA, "_hoodie_is_deleted")
LATER = 10**9


def _marked(names: list[str], fails: dict[str, str], gaps: dict[str, str]) -> list[Any]:
    return [
        pytest.param(name, marks=pytest.mark.xfail(reason=gaps[fails[name]])) if name in fails else name
        for name in names
    ]


def _table(golden: Path, name: str) -> Path:
    return golden / "0.15.0-v6" / name / "table"


def _expected(golden: Path, name: str, query: str = "snapshot") -> pa.Table:
    return pq.read_table(golden / "0.15.0-v6" / name / "expected" / f"{query}.parquet")


def _options(golden: Path, name: str) -> dict[str, str]:
    meta = json.loads((golden / "0.15.0-v6" / name / "meta.json").read_text())
    options: dict[str, str] = meta["write_options"]
    return options


def _incremental(golden: Path, name: str) -> list[tuple[str, str, pa.Table]]:
    folder = golden / "0.15.0-v6" / name / "expected"
    found = []
    for file in sorted(folder.glob("inc_*.parquet")):
        _, begin, end = file.stem.split("_")
        found.append((begin, end, pq.read_table(file)))
    assert found
    return found


@pytest.mark.parametrize("name", _marked(COPY_ON_WRITE + MERGE_ON_READ, HUDI_RS_FAILS, HUDI_RS_GAPS))
def test_hudi_rs_snapshot(golden_tables: Path, name: str) -> None:
    assert_same_rows(read_hudi_rs(_table(golden_tables, name)), _expected(golden_tables, name), what=name)


def test_hudi_rs_incremental_and_as_of(golden_tables: Path) -> None:
    name = "idx_bloom"
    path = _table(golden_tables, name)
    for begin, end, expected in _incremental(golden_tables, name):
        assert_same_rows(read_hudi_rs(path, begin=begin, end=end), expected, what=f"({begin}, {end}]")
    (file,) = (golden_tables / "0.15.0-v6" / name / "expected").glob("asof_*.parquet")
    instant = file.stem.split("_")[1]
    assert_same_rows(read_hudi_rs(path, as_of=instant), pq.read_table(file), meta=True)


def test_hudi_rs_columns(golden_tables: Path) -> None:
    got = read_hudi_rs(_table(golden_tables, "idx_bloom"), columns=["id", "val"])
    assert_same_rows(got, _expected(golden_tables, "idx_bloom").select(["id", "val"]))


@pytest.mark.parametrize("name", _marked(COPY_ON_WRITE, DAFT_FAILS, DAFT_GAPS))
def test_daft_snapshot(golden_tables: Path, name: str) -> None:
    assert_same_rows(read_daft(_table(golden_tables, name)), _expected(golden_tables, name), what=name)


@pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
def test_apache_hudi_reads_its_own(golden_tables: Path, request: pytest.FixtureRequest, version: str) -> None:
    hudi = request.getfixturevalue({"0.15.0": "hudi_015", "1.2.0": "hudi_12"}[version])
    got = hudi.read(_table(golden_tables, "cow_types"), metadata=True)
    assert_same_rows(got, _expected(golden_tables, "cow_types"), meta=True)
    name = "idx_bloom"
    path, expected = _table(golden_tables, name), _expected(golden_tables, name)
    assert_same_rows(hudi.read(path, metadata=False), expected, meta=True)
    some = hudi.read(path, columns=["id", "val"], where="ts >= 2000")
    assert 0 < some.num_rows < expected.num_rows
    assert_same_rows(some, expected.filter(pc.field("ts") >= 2000).select(["id", "val"]))
    begin, end, changed = _incremental(golden_tables, name)[0]
    assert_same_rows(hudi.read_incremental(path, begin=begin, end=end), changed)
    instants = sorted(file.name.split(".")[0] for file in (path / ".hoodie").glob("*.commit"))
    assert sorted(hudi.timeline(path)) == instants
    before = hudi.read_as_of(path, instants[0])
    assert set(before.column("_hoodie_commit_time").to_pylist()) == {instants[0]}


def test_apache_hudi_015_upserts_on_a_copy(
    golden_tables: Path, tmp_path: Path, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    name = "idx_simple"
    path = shutil.copytree(_table(golden_tables, name), tmp_path / name)
    before = read_hudi_rs(path).select(SMALL.names)
    model = Model(["id"], ["region"], "ts", Mode.COMMIT_TIME).insert(before.to_pylist())
    batch = small_rows(range(80, 130), 900)
    model.upsert(batch)
    hudi_015.write(path, as_table(batch, SMALL), _options(golden_tables, name))
    expected = model.table(SMALL)
    assert expected.num_rows > before.num_rows
    for judge in (hudi_015.read, hudi_12.read, read_hudi_rs, read_daft):
        assert_same_rows(judge(path), expected, what=str(judge))
    assert list(hudi_015.timeline(path).values())[-1] == "UPSERT"


PAYLOADS = {
    Mode.EVENT_TIME: "DefaultHoodieRecordPayload",
    Mode.COMMIT_TIME: "OverwriteWithLatestAvroPayload",
    Mode.OVERWRITE_NON_DEFAULTS: "OverwriteNonDefaultsWithLatestAvroPayload",
    Mode.PARTIAL_UPDATE: "PartialUpdateAvroPayload",
}


def _batch(chance: random.Random, ids: range, size: int, mode: Mode) -> list[dict[str, Any]]:
    """Random versions of keys with repetitions, ties, older and newer ordering values, nulls and deletes."""
    rows = []
    for _ in range(size):
        (row,) = small_rows([chance.choice(ids)], chance.randint(0, LATER), ts=chance.randint(0, 4))
        row["name"] = chance.choice((None, row["name"]))
        row["_hoodie_is_deleted"] = chance.random() < 0.2
        rows.append(row)
    if mode is Mode.PARTIAL_UPDATE:  # what Hudi makes of deletes among repeated keys is accidental
        deleted = {row["id"] for row in rows if row["_hoodie_is_deleted"]}
        last = {row["id"]: row for row in rows}
        rows = [row for row in rows if row["id"] not in deleted] + [last[name] for name in sorted(deleted)]
    return rows


@pytest.mark.parametrize("mode", list(Mode))
def test_the_oracle_agrees_with_apache_hudi(tmp_path: Path, hudi_015: HudiServer, mode: Mode) -> None:
    chance = random.Random(f"oracle/{mode}")
    options = {
        "hoodie.table.name": "oracle",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.payload.class": f"org.apache.hudi.common.model.{PAYLOADS[mode]}",
        "hoodie.metadata.enable": "false",
    }
    path = tmp_path / "oracle"
    model = Model(["id"], ["region"], "ts", mode)
    for round_ in range(3):
        batch = _batch(chance, range(60), 80, mode)
        model.upsert(batch)
        saving = "append" if round_ else "overwrite"
        hudi_015.write(path, as_table(batch, SMALL_SCHEMA), options, mode=saving)
    got = read_hudi_rs(path)
    assert 20 < got.num_rows < 60
    assert_same_rows(got, model.table(SMALL_SCHEMA))


def test_a_refusal_carries_the_java_root_cause(tmp_path: Path, hudi_015: HudiServer) -> None:
    rows = as_table([{"id": None, "ts": 1, "region": "eu"}], SMALL)
    options = {
        "hoodie.table.name": "refused",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "region",
    }
    with pytest.raises(HudiError, match='recordKey value: "null" for field: "id"'):
        hudi_015.write(tmp_path / "refused", rows, options, mode="overwrite")
    assert hudi_015.sql("select 1 as one") == [{"one": 1}]


def test_rows_differ_where_they_differ() -> None:
    rows = full_rows(range(40), 1)
    table = as_table(rows, FULL_SCHEMA)
    assert difference(table.take(list(range(39, -1, -1))), table) is None
    assert difference(table.cast(table.schema.set(4, pa.field("c_int", pa.int64()))), table) is None
    for column, value in [("c_map", []), ("c_arr", []), ("c_str", ""), ("c_bin", b"")]:
        place = next(n for n, row in enumerate(rows) if row[column])
        for changed in (None, value):
            other = [dict(row) for row in rows]
            other[place][column] = changed
            text = difference(as_table(other, FULL_SCHEMA), table)
            assert text is not None
            assert "1 missing, 1 unexpected" in text
            assert f"columns that differ: {column} (1x)" in text
            assert key(place) in text
    zero = pa.table({"x": pa.array([0.0, float("nan")])})
    assert difference(zero, zero) is None
    assert difference(pa.table({"x": pa.array([-0.0, float("nan")])}), zero) is not None
    assert difference(table.slice(1), table) is not None
    assert (
        difference(table.drop_columns(["c_map"]), table)
        == "the columns differ: missing ['c_map'], unexpected []"
    )
