"""Queries of tables of Apache Hudi answer the same with their metadata tables and without."""

from __future__ import annotations

import random
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import HoodieError
from hoodie.metadata.queries import MetadataTableIgnored
from hoodie.read import duckdb_predicate
from hoodie.read.table_view import TableView
from hoodie.table.handle import Table
from tests.support.golden import COPY_ON_WRITE, FEATURES, MERGE_ON_READ, NO_METADATA
from tests.support.properties import FAST
from tests.support.tiers import full_but

WITHOUT = {"hoodie.metadata.enable": "false"}
METADATA = {"mdt_compacted", "mdt_files_only", "mdt_full_cow", "idx_rli_mor", "cow_indexing"}
NAMES = [name for name in [*COPY_ON_WRITE, *MERGE_ON_READ] if name not in NO_METADATA]
#: Apache Hudi gives a log file that was rolled back another size
ODD = {"mor_rollback_failed"}
SCALARS = (
    pa.types.is_string,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_boolean,
)


def rows_of(path: Path, where: str | None = None, **more: Any) -> list[str]:
    found = hoodie.read_table(str(path), where=where, **more)
    return sorted(map(str, found.to_pylist()))


def literal(value: Any, kind: pa.DataType) -> str:
    if pa.types.is_floating(kind):
        return f"'{value}'::DOUBLE"
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind):
        return str(value)
    quoted = str(value).replace("'", "''")
    return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}'" if pa.types.is_timestamp(kind) else f"'{quoted}'"


def predicates(rows: pa.Table, seed: int) -> Iterator[str]:
    """About columns of simple types, with values that the rows have."""
    pick = random.Random(seed)
    fields = [field for field in rows.schema if any(test(field.type) for test in SCALARS)]
    while True:
        terms = []
        for _ in range(pick.randint(1, 3)):
            field = pick.choice(fields)
            values = [value for value in rows[field.name].to_pylist() if value is not None]
            texts = [literal(pick.choice(values), field.type) for _ in range(2)] if values else []
            forms = [f"{field.name} IS NULL", f"{field.name} IS NOT NULL"]
            if texts:
                forms += [f"{field.name} {sign} {texts[0]}" for sign in ("=", "<", ">", "<=", ">=", "<>")] * 2
                forms += [f"{field.name} IN ({', '.join(texts)})", f"NOT ({field.name} > {texts[0]})"]
            if texts and pa.types.is_string(field.type):
                forms.append(f"{field.name} LIKE {texts[0][:3].rstrip(chr(39))}%'")
            terms.append(pick.choice(forms))
        yield pick.choice([" AND ", " OR "]).join(f"({term})" for term in terms)


#: of these features a list of files shows nothing, or what it shows of another table
UNSEEN = {
    "all_instants",
    "cow_archived",
    "cow_cdc",
    "cow_clustered",
    "cow_droppartcol",
    "cow_nometafields",
    "cow_savepoint",
    "cow_schema_on_read",
    "cow_types",
    "mor_bucket_compacted",
    "mor_clean_commits",
}


@pytest.mark.parametrize("name", full_but(((FEATURES - UNSEEN) | METADATA) & set(NAMES), NAMES))
def test_answers_are_those_without_the_metadata_table(golden_tables: Path, name: str) -> None:
    path = golden_tables / "0.15.0-v6" / name / "table"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if name in ODD else "error", MetadataTableIgnored)
        assert rows_of(path) == rows_of(path, options=WITHOUT)
        commits = [item["instant"] for item in hoodie.instants(str(path)) if "commit" in item["action"]]
        optimized = [{"query": "read_optimized"}] if name in MERGE_ON_READ or not FAST else []
        for more in ({"as_of": commits[-2:][0]}, {"begin": commits[0]}, *optimized):
            try:
                expected = rows_of(path, options=WITHOUT, **more)
            except HoodieError as error:
                with pytest.raises(type(error)):
                    rows_of(path, **more)
            else:
                assert rows_of(path, **more) == expected


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(METADATA))
def test_random_predicates(golden_tables: Path, name: str) -> None:
    path = golden_tables / "0.15.0-v6" / name / "table"
    some = predicates(hoodie.read_table(str(path)), 3)
    for _ in range(25):
        where = next(some)
        assert rows_of(path, where) == rows_of(path, where, options=WITHOUT), where


@pytest.mark.parametrize("name", ["mdt_compacted", "mdt_full_cow", "cow_indexing"])
def test_files_are_left_out_by_statistics(golden_tables: Path, name: str) -> None:
    table = Table.open(str(golden_tables / "0.15.0-v6" / name / "table"))
    with duckdb_predicate.connection() as connection:
        where = duckdb_predicate.parsed(connection, "ts > 1000000000")
    everything, view = TableView.load(table), TableView.load(table, where=where)
    assert (len(everything.slices) > 0, len(view.slices)) == (True, 0)
    assert {step.name: len(step.dropped) for step in view.steps}["column stats"] == len(everything.slices)


@pytest.mark.parametrize("name", full_but({"mdt_full_cow"}, ["mdt_compacted", "mdt_full_cow", "idx_rli_mor"]))
def test_the_record_index_is_asked_where_the_options_say_so(golden_tables: Path, name: str) -> None:
    path = golden_tables / "0.15.0-v6" / name / "table"
    keys = hoodie.read_table(str(path))["_hoodie_record_key"].to_pylist()
    asked = {"hoodie.read.record.index": "true"}
    for key in keys[:: 90 if FAST else 27]:
        found = hoodie.explain_read(str(path), where=f"_hoodie_record_key = '{key}'", options=asked)
        steps = {step.step: step.files for step in found.steps}
        assert found.read_files + sum(steps.values()) == found.files
        assert "record index" in steps
        where = f"_hoodie_record_key IN ('{key}', '{keys[0]}')"
        assert rows_of(path, where, options=asked) == rows_of(path, where, options=WITHOUT)
    assert rows_of(path, "_hoodie_record_key = 'new'", options=asked) == []


@pytest.mark.full
@pytest.mark.parametrize("name", ["mdt_compacted", "mdt_full_cow", "idx_rli_mor"])
def test_a_mutated_metadata_table_changes_no_answer(golden_tables: Path, tmp_path: Path, name: str) -> None:
    """Files that are gone, cut, or have other bytes; a table without one of them may be used all the same."""
    original = golden_tables / "0.15.0-v6" / name / "table"
    path = tmp_path / "t"
    shutil.copytree(original, path)
    pick, wheres = random.Random(name), predicates(hoodie.read_table(str(original)), 4)
    files = sorted(item for item in (path / ".hoodie/metadata").rglob("*") if item.is_file())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MetadataTableIgnored)
        for _ in range(40):
            file, where = pick.choice(files), next(wheres)
            whole = file.read_bytes()
            change = pick.randrange(3)
            if change == 0:
                file.unlink()
            elif change == 1:
                file.write_bytes(whole[: pick.randrange(len(whole) + 1)])
            elif whole:
                data = bytearray(whole)
                data[pick.randrange(len(data))] ^= 1 << pick.randrange(8)
                file.write_bytes(data)
            expected = rows_of(path, where, options=WITHOUT)
            assert rows_of(path, where) == expected, (file.name, change, where)
            file.write_bytes(whole)
