"""Tables that Apache Hudi 0.15.0 bootstrapped from Parquet files: read, changed and cleaned."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.codec.avro import read_record
from hoodie.errors import TableError
from hoodie.format.hfile import HFileReader
from hoodie.format.hfile_cells import pairs
from hoodie.storage import Storage
from hoodie.storage.local import LocalStorage
from hoodie.storage.settings import FSYNC
from hoodie.table.doctor import check_table
from hoodie.timeline.time import InstantTime
from tests.data.bootstrap.recipe import CASES, rows
from tests.support.bootstrap import allowed, point, unpacked
from tests.support.rows import assert_same_rows
from tests.support.storages import Wrapped, registered
from tests.unit.write.support import listing

QUERIES = {
    "snapshot": {},
    "read_optimized": {"query": "read_optimized"},
    "first": {"as_of": "first"},
    "all_changes": {"query": "incremental", "begin": "000"},
    "last_changes": {"query": "incremental", "begin": "before last"},
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("bootstrap"))


@pytest.fixture
def table(tables: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of one table, with a source of its own."""
    shutil.copytree(tables / request.param, tmp_path / request.param)
    point(tmp_path / request.param / "table", tmp_path / request.param / "source")
    path: Path = tmp_path / request.param / "table"
    return path


def read(table: Path, **how: Any) -> pa.Table:
    found: pa.Table = hoodie.read_table(str(table), options=allowed(table), **how)
    return found


def write(rows: pa.Table, table: Path, operation: str = "upsert") -> Any:
    return hoodie.write_table(rows, str(table), operation=operation, options=allowed(table))


#: of the others the fast tier asks for their rows; what other queries add does not depend on their layout
ASKED = {"metadata_only", "mor", "updated"}


@pytest.mark.parametrize(
    ("name", "query"),
    [
        pytest.param(name, query, marks=[] if name in ASKED or query == "snapshot" else [pytest.mark.full])
        for name in CASES
        for query in QUERIES
    ],
)
def test_queries_answer_what_apache_hudi_answers(tables: Path, name: str, query: str) -> None:
    expected = tables / name / "expected" / f"{query}.parquet"
    if not expected.exists():
        return  # the table has one commit only
    instants = hoodie.instants(str(tables / name / "table"))
    times = [str(item["instant"]) for item in instants]
    names = {"first": times[0], "before last": times[-2] if len(times) > 1 else ""}
    asked = {key: names.get(value, value) for key, value in QUERIES[query].items()}
    if (name, query) == ("mor", "all_changes"):  # Hudi's own answer has nulls in the skeletons' rows
        expected = expected.with_name("snapshot.parquet")
    got = read(tables / name / "table", **asked)
    assert_same_rows(got, pq.read_table(expected), meta=True, what=f"{name} {query}")


class Noting(Wrapped):
    opened: ClassVar[list[tuple[str, str]]] = []

    @classmethod
    def make(cls, *, uri: str, options: Mapping[str, str]) -> Storage:  # type: ignore[override]
        cls.opened.append((uri, options.get(FSYNC.name, "")))
        return super().make(uri=uri, options=options)


def test_the_storage_of_the_source_has_the_settings_of_the_call(tables: Path) -> None:
    table = tables / "metadata_only" / "table"
    Noting.opened.clear()
    with registered("file", Noting):
        hoodie.read_table(str(table), options={**allowed(table), FSYNC.name: "false"})
    assert {Path(uri) for uri, _ in Noting.opened} == {table, table.parent / "source"}
    assert {text for _, text in Noting.opened} == {"false"}


def changed(numbers: range, region: str = "eu") -> pa.Table:
    """Newer rows of some keys."""
    return rows(numbers, 5, region=region)


def by_key(table: pa.Table) -> dict[str, dict[str, Any]]:
    """Data columns by record key."""
    return {row["id"]: row for row in table.to_pylist()}


def sources(table: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in (table.parent / "source").rglob("*.parquet")}


@pytest.mark.parametrize("table", ["metadata_only", "updated", "mixed", "full_record", "mor"], indirect=True)
def test_an_upsert_rewrites_its_file_groups_whole(table: Path) -> None:
    before, files = read(table, meta=False), sources(table)
    result = write(pa.concat_tables([changed(range(2, 4)), changed(range(90, 92))]), table)
    assert (result.num_updates, result.num_inserts) == (2, 2)
    expected = by_key(before) | by_key(changed(range(2, 4))) | by_key(changed(range(90, 92)))
    assert by_key(read(table, meta=False)) == expected
    assert sources(table) == files


@pytest.mark.parametrize("table", ["metadata_only", "updated", "mixed", "mor"], indirect=True)
def test_a_delete_takes_its_rows_and_leaves_the_others(table: Path) -> None:
    before, files = by_key(read(table, meta=False)), sources(table)
    result = write(changed(range(2, 4)), table, operation="delete")
    assert result.num_deletes == 2
    expected = {key: row for key, row in before.items() if key not in ("k002", "k003")}
    assert by_key(read(table, meta=False)) == expected
    assert sources(table) == files


@pytest.mark.parametrize("table", ["mor"], indirect=True)
def test_a_compaction_merges_logs_and_source(table: Path) -> None:
    write(changed(range(2, 4)), table)
    before = read(table)
    options = {"hoodie.compact.inline.max.delta.commits": "1"}
    hoodie.compact_table(str(table), options=options | allowed(table))
    after = read(table)
    assert_same_rows(after, before, meta=True, ignore={"_hoodie_file_name"})
    assert_same_rows(read(table, query="read_optimized"), after, meta=True)
    names: list[Any] = after.column("_hoodie_file_name").to_pylist()
    assert sum(name.endswith("_00000000000001.parquet") for name in set(names)) == 1  # the slice without logs


@pytest.mark.parametrize("table", ["metadata_only", "mor"], indirect=True)
def test_clustering_takes_skeletons_in(table: Path) -> None:
    before, files = read(table, meta=False), sources(table)
    options = {
        "hoodie.clustering.inline.max.commits": "1",
        "hoodie.clustering.plan.strategy.sort.columns": "id",
    }
    hoodie.cluster_table(str(table), options=options | allowed(table))
    after = read(table)
    assert_same_rows(after.select(before.column_names), before)
    names: list[Any] = after["_hoodie_file_name"].to_pylist()
    assert not any(name.endswith("_00000000000001.parquet") for name in names)
    assert sources(table) == files


@pytest.mark.parametrize("table", ["metadata_only"], indirect=True)
def test_clustering_goes_by_the_sizes_of_sources(table: Path) -> None:
    options = {
        "hoodie.clustering.inline.max.commits": "1",
        "hoodie.clustering.plan.strategy.sort.columns": "id",
    }
    files = [path.stat().st_size for path in table.parent.rglob("source/*/*.parquet")]
    limit = {"hoodie.clustering.plan.strategy.small.file.limit": str(min(files))}
    assert hoodie.cluster_table(str(table), options=options | limit | allowed(table)).status == "skipped"
    assert hoodie.cluster_table(str(table), options=options | allowed(table)).status == "clustered"


@pytest.mark.parametrize("table", ["metadata_only", "mor"], indirect=True)
def test_new_rows_rewrite_no_skeleton(table: Path) -> None:
    before = read(table)
    write(changed(range(70, 72)), table)
    after = read(table)
    new = [row for row in after.to_pylist() if row["id"] in ("k070", "k071")]
    assert_same_rows(after, pa.concat_tables([before, pa.Table.from_pylist(new, before.schema)]), meta=True)


@pytest.mark.parametrize("table", ["metadata_only"], indirect=True)
def test_a_clean_takes_skeletons_and_never_sources(table: Path) -> None:
    files = sources(table)
    for version in range(3):
        write(rows(range(10), version + 5, region="eu"), table)
    before = read(table)
    policy = {
        "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.cleaner.fileversions.retained": "1",
    }
    hoodie.clean_table(str(table), options=policy)
    assert not list((table / "region=eu").glob("*_00000000000001.parquet"))
    assert_same_rows(read(table), before, meta=True)
    assert sources(table) == files


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ("metadata_only", "id = 'k001'"),
        ("metadata_only", "ts >= 0 AND val IS NULL"),
        ("not_partitioned", "id = 'k001'"),
        ("in_file", "ts >= 0 AND val IS NULL"),
        pytest.param("typed", "ts >= 0 AND val IS NULL", marks=pytest.mark.full),
        pytest.param("in_file", "id = 'k001'", marks=pytest.mark.full),
        pytest.param("typed", "id = 'k001'", marks=pytest.mark.full),
        pytest.param("not_partitioned", "ts >= 0 AND val IS NULL", marks=pytest.mark.full),
    ],
    indirect=["table"],
)
def test_predicates_and_columns(table: Path, where: str) -> None:
    everything = by_key(read(table, meta=False))
    found = read(table, where=where, columns=["name", "id"])
    keys = {
        key
        for key, row in everything.items()
        if (row["id"] == "k001" if where.startswith("id") else row["val"] is None)
    }
    assert found.column_names == ["name", "id"]
    assert {row["id"]: row["name"] for row in found.to_pylist()} == {
        key: everything[key]["name"] for key in keys
    }


@pytest.mark.parametrize(
    ("table", "where", "keys"),
    [
        ("metadata_only", "region = 'us'", 5),
        ("typed", "year = 2024", 3),
        ("typed", "part IS NULL", 2),
        ("in_file", "region = 'u s'", 3),
    ],
    indirect=["table"],
)
def test_partition_columns_filter(table: Path, where: str, keys: int) -> None:
    assert read(table, where=where).num_rows == keys
    names = [where.split(" ")[0]]
    assert read(table, where=where, columns=names).num_rows == keys


@pytest.mark.parametrize("table", ["metadata_only"], indirect=True)
def test_other_operations(table: Path) -> None:
    before = by_key(read(table, meta=False))
    write(changed(range(50, 52)), table, operation="bulk_insert")
    write(changed(range(52, 54)), table, operation="insert")
    expected = before | by_key(changed(range(50, 54)))
    assert by_key(read(table, meta=False)) == expected
    saved = str(hoodie.savepoint_table(str(table)).instant)
    write(changed(range(60, 61)), table, operation="insert_overwrite")
    rest = {key: row for key, row in expected.items() if row["region"] != "eu"}
    assert by_key(read(table, meta=False)) == rest | by_key(changed(range(60, 61)))
    last = str(hoodie.instants(str(table))[-1]["instant"])
    hoodie.rollback_table(str(table), last)
    assert by_key(read(table, meta=False)) == expected
    hoodie.delete_partitions(str(table), ["region=us"])
    assert {row["region"] for row in read(table).to_pylist()} == {"eu"}
    hoodie.delete_savepoint(str(table), InstantTime(saved))
    hoodie.restore_table(str(table), InstantTime("00000000000001"))
    assert by_key(read(table, meta=False)) == before
    hoodie.run_services(str(table), options=allowed(table))
    with pytest.raises(TableError, match="not rolled back here"):
        hoodie.rollback_table(str(table), "00000000000001")


@pytest.mark.parametrize("table", ["metadata_only"], indirect=True)
@pytest.mark.parametrize(
    "damage", ["source", "rows", "torn", "bytes", "index", "cut", "unnamed", "properties", "elsewhere"]
)
def test_what_is_damaged_is_an_error_before_anything_is_written(table: Path, damage: str) -> None:
    source = table.parent / "source" / "region=eu" / "part-0.parquet"
    index = next((table / ".hoodie" / ".aux" / ".bootstrap" / ".fileids").iterdir())
    if damage == "source":
        source.unlink()
    elif damage == "rows":
        shutil.copy(source.with_name("part-1.snappy.parquet"), source)
    elif damage == "torn":
        source.write_bytes(source.read_bytes()[:-100])
    elif damage == "bytes":
        source.write_bytes(source.read_bytes()[:4] + bytes(2000) + source.read_bytes()[2004:])
    elif damage == "index":
        index.unlink()
    elif damage == "cut":
        index.write_bytes(index.read_bytes()[:-5000])
    elif damage == "unnamed":
        properties = table / ".hoodie" / "hoodie.properties"
        properties.write_text(properties.read_text().replace("hoodie.bootstrap.base.path", "other"))
    elif damage == "properties":
        point(table, Path("/usr"))
    else:
        point(table, table.parent / "elsewhere")
    before = listing(table)
    with pytest.raises(TableError, match="restore"):
        read(table)
    with pytest.raises(TableError, match="restore"):
        write(changed(range(2, 4)), table)
    data = {name: size for name, size in listing(table).items() if name.endswith(".parquet")}
    assert data == {name: size for name, size in before.items() if name.endswith(".parquet")}


@pytest.mark.parametrize("table", ["metadata_only"], indirect=True)
def test_columns_of_a_source_go_by_the_spelling_of_the_table(table: Path) -> None:
    before = read(table)
    source = table.parent / "source" / "region=eu" / "part-0.parquet"
    stored = pq.read_table(source)
    other = stored.rename_columns([name.upper() for name in stored.column_names])
    pq.write_table(other.select(sorted(other.column_names)), source, row_group_size=2)
    assert_same_rows(read(table), before, meta=True)
    found = read(table, columns=["name"], where="id = 'k002'")
    assert found.to_pylist() == [{"name": "näme 2 v1"}]


@pytest.mark.parametrize("table", ["in_file"], indirect=True)
def test_a_partition_column_of_a_source_is_kept_and_its_nulls_are_filled(table: Path) -> None:
    """As Apache Hudi 0.15.0 does when it rewrites the file group; queries give the value of the path."""
    source = table.parent / "source" / "eu" / "a.parquet"
    stored = pq.read_table(source).drop_columns(["region"])
    pq.write_table(stored.append_column("region", pa.array([None, "EU", None, "eu", "x"])), source)
    expected = {"k000": "eu", "k001": "EU", "k002": "eu", "k003": "eu", "k004": "x"}
    expected |= {f"k{number:03d}": "u s" for number in range(5, 8)}
    told = {key: "eu" if key < "k005" else "u s" for key in expected}
    assert {key: row["region"] for key, row in by_key(read(table)).items()} == told
    write(changed(range(3, 4)), table)
    assert {key: row["region"] for key, row in by_key(read(table)).items()} == told
    newest = max(table.glob("eu/*.parquet"), key=lambda file: file.name.rpartition("_")[2])
    kept = by_key(pq.read_table(newest, partitioning=None))
    assert {key: row["region"] for key, row in kept.items()}.items() <= expected.items()
    assert len(kept) == 5


@pytest.mark.parametrize("table", ["in_file"], indirect=True)
def test_a_path_may_have_a_partition_column_in_another_form(table: Path) -> None:
    """As of a time stamp by the day: a column that the source has is read from there."""
    before = read(table)
    properties = table / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    assert "partition.fields=region" in text
    properties.write_text(text.replace("partition.fields=region", "partition.fields=ts"))
    assert_same_rows(read(table), before)


@pytest.mark.parametrize("table", ["metadata_only"], indirect=True)
def test_only_files_below_the_bootstrapped_folder_are_opened(table: Path) -> None:
    index = next((table / ".hoodie" / ".aux" / ".bootstrap" / ".fileids").iterdir())
    with HFileReader.open(LocalStorage(), str(index)) as reader:
        found = list(pairs(reader.scan()))
        told = read_record("HoodieBootstrapIndexInfo", reader.info[b"INDEX_INFO"])["bootstrapBasePath"]
    content = index.read_bytes()
    for _, value in found:
        uri = read_record("HoodieBootstrapFilePartitionInfo", value)["bootstrapFileStatus"]["path"]["uri"]
        outside = f"file:{told}/../".ljust(len(uri), "x")
        content = content.replace(uri.encode(), outside.encode())
    index.write_bytes(_without_checksums(content))
    with pytest.raises(TableError, match="which is not below"):
        read(table)


def _without_checksums(data: bytes) -> bytes:
    """Blocks of an HFile that say that they have none."""
    out = bytearray(data)
    for magic in (b"DATABLK*", b"IDXROOT2", b"FILEINF2"):
        at = data.find(magic)
        while at >= 0:
            out[at + 24] = 0
            at = data.find(magic, at + 1)
    return bytes(out)


@pytest.mark.parametrize("table", ["metadata_only"], indirect=True)
def test_a_bootstrap_that_was_not_completed_is_left_to_apache_hudi(table: Path) -> None:
    (table / ".hoodie" / "00000000000001.commit").unlink()
    before = listing(table)
    assert read(table).num_rows == 0
    with pytest.raises(TableError, match="00000000000001 is the bootstrap of"):
        write(changed(range(2, 4)), table)
    after = listing(table)
    after.pop(".hoodie/.heartbeat")
    assert after == before


@pytest.mark.parametrize("table", ["metadata_only", "mor"], indirect=True)
def test_sources_are_used_only_where_the_call_names_their_folder(table: Path) -> None:
    source, before = table.parent / "source", listing(table)
    told = rf"bootstrapped.*{source}.*hoodie.storage.allowed.folders={source}"
    with pytest.raises(TableError, match=told):
        hoodie.read_table(str(table))
    with pytest.raises(TableError, match=told):
        hoodie.write_table(changed(range(2, 4)), str(table))
    with pytest.raises(TableError, match=told):
        hoodie.cluster_table(str(table), options={"hoodie.clustering.inline.max.commits": "1"})
    elsewhere = {"hoodie.storage.allowed.folders": f"{source}-2,{table.parent / 'other'}"}
    with pytest.raises(TableError, match=told):
        hoodie.read_table(str(table), options=elsewhere)
    after = listing(table)
    after.pop(".hoodie/.heartbeat", None)
    assert after == before
    found = {finding.check: finding for finding in check_table(str(table), deep=True)}
    assert found["bootstrap"].status == "note"
    assert str(source) in found["bootstrap"].text
    above = {"hoodie.storage.allowed.folders": str(table.parent)}
    assert hoodie.read_table(str(table), options=above).num_rows


@pytest.mark.parametrize("table", ["metadata_only"], indirect=True)
def test_a_tables_own_property_allows_nothing(table: Path) -> None:
    properties = table / ".hoodie" / "hoodie.properties"
    with properties.open("a") as file:
        file.write(f"hoodie.storage.allowed.folders={table.parent}\n")
    with pytest.raises(TableError, match="was bootstrapped"):
        hoodie.read_table(str(table))
    with pytest.raises(TableError, match="was bootstrapped"):
        hoodie.write_table(changed(range(2, 4)), str(table))


@pytest.mark.parametrize("table", ["metadata_only"], indirect=True)
def test_the_doctor_looks_for_the_sources(table: Path) -> None:
    found = {finding.check: finding.status for finding in check_table(str(table), options=allowed(table))}
    assert found["bootstrap"] == "ok"
    assert all(finding.status == "ok" for finding in check_table(str(table), True, allowed(table)))
    source = table.parent / "source" / "region=us" / "part-0.parquet"
    content = source.read_bytes()
    source.write_bytes(content[:4] + bytes(2000) + content[2004:])
    deep = {finding.check: finding for finding in check_table(str(table), True, allowed(table))}
    assert deep["contents"].status == "error"
    assert str(source) in deep["contents"].text
    (table.parent / "source").rename(table.parent / "moved")
    found = {finding.check: finding.status for finding in check_table(str(table), options=allowed(table))}
    assert found["bootstrap"] == "warning"
