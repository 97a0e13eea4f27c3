"""Settings about rows with one key: of the batch, and of the table. What Apache Hudi does is in
tests/interop/test_row_settings.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.errors import ConfigError, DuplicateKey
from tests.support.tiers import crossed_but
from tests.unit.write.support import (
    PARTITION,
    PLAIN,
    SMALL_FILE,
    data_files,
    listing,
    plain,
    values,
)

DROP = "hoodie.datasource.write.insert.drop.duplicates"
POLICY = "hoodie.datasource.insert.dup.policy"
ALLOW = "hoodie.merge.allow.duplicate.on.inserts"
COMBINE_UPSERT = "hoodie.combine.before.upsert"
COMBINE_INSERT = "hoodie.combine.before.insert"
COMBINE_DELETE = "hoodie.combine.before.delete"
TYPE = "hoodie.datasource.write.table.type"

TYPES = {"COPY_ON_WRITE": "COPY_ON_WRITE", "MERGE_ON_READ": "MERGE_ON_READ"}
KINDS = pytest.mark.parametrize("kind", TYPES)
#: base files that are merged are so in tables of both types
MERGED = pytest.mark.parametrize("kind", crossed_but({"COPY_ON_WRITE"}, TYPES))
DROPPING: dict[str, dict[str, Any]] = {
    "True": {DROP: True},
    "drop": {POLICY: "drop"},
    "true-DROP": {DROP: "true", POLICY: "DROP"},
}


def made(path: Path, kind: str, *rows: tuple[str, int, str], **more: Any) -> dict[str, Any]:
    """A table with these rows; its options."""
    options = {**PLAIN, TYPE: kind, **more}
    hoodie.write_table(plain(*rows), str(path), options=options)
    return options


def write(
    path: Path, operation: str, options: dict[str, Any], *rows: tuple[str, int, str], **more: Any
) -> Any:
    return hoodie.write_table(plain(*rows), str(path), operation=operation, options=options, **more)


@pytest.mark.parametrize(
    ("operation", "dropping", "kind"),
    crossed_but(
        {"insert-True-COPY_ON_WRITE", "bulk_insert-drop-MERGE_ON_READ", "insert-true-DROP-MERGE_ON_READ"},
        {"insert": "insert", "bulk_insert": "bulk_insert"},
        DROPPING,
        TYPES,
    ),
)
def test_rows_whose_key_is_stored_are_dropped(
    tmp_path: Path, kind: str, dropping: dict[str, Any], operation: str
) -> None:
    """And counted; the batch is combined before. A dry run tells the same."""
    table = tmp_path / "t"
    options = {**made(table, kind, ("a", 1, "stored")), **dropping}
    rows = (("a", 9, "again"), ("b", 2, "newer"), ("b", 1, "older"))
    planned = write(table, operation, options, *rows, dry_run=True)
    assert (planned.num_dropped, planned.num_inserts) == (1, 1)
    result = write(table, operation, options, *rows)
    assert (result.num_dropped, result.num_inserts, result.num_updates) == (1, 1, 0)
    assert values(table, "val") == ["newer", "stored"]
    every = write(table, operation, options, *rows)
    assert (every.num_dropped, every.num_files) == (3, 0), "a commit without files"
    assert values(table, "val") == ["newer", "stored"]


@MERGED
def test_the_count_of_dropped_rows_is_told_again_to_the_token(tmp_path: Path, kind: str) -> None:
    table = tmp_path / "t"
    options = {**made(table, kind, ("a", 1, "stored")), DROP: True}
    token = {"extra_metadata": {"airflow.token": "d.t.2024-01-01"}}
    assert write(table, "insert", options, ("a", 2, "x"), ("b", 2, "y"), **token).num_dropped == 1
    again = write(table, "insert", options, ("a", 2, "x"), ("b", 2, "y"), **token)
    assert (again.status, again.num_dropped, again.num_inserts) == ("already_committed", 1, 1)


@pytest.mark.parametrize(
    ("dropping", "kind"), crossed_but({"True-COPY_ON_WRITE", "drop-MERGE_ON_READ"}, DROPPING, TYPES)
)
def test_an_upsert_that_drops_is_an_insert(tmp_path: Path, kind: str, dropping: dict[str, Any]) -> None:
    table = tmp_path / "t"
    options = {**made(table, kind, ("a", 1, "stored")), **dropping}
    result = write(table, "upsert", options, ("a", 9, "again"), ("b", 1, "new"))
    assert (result.operation, result.num_dropped) == ("insert", 1)
    (warning,) = result.warnings
    assert "the upsert is an insert" in warning
    assert values(table, "val") == ["new", "stored"]


def test_overwrites_know_no_policy(tmp_path: Path) -> None:
    """Apache Hudi leaves them alone, too: what is replaced is no duplicate."""
    table = tmp_path / "t"
    options = made(table, "COPY_ON_WRITE", ("a", 1, "stored"))
    result = write(table, "insert_overwrite", {**options, DROP: True}, ("a", 3, "x"), ("a", 4, "y"))
    assert (result.num_dropped, values(table, "val")) == (0, ["y"])


def test_the_same_key_in_another_partition_is_no_duplicate(tmp_path: Path) -> None:
    table = tmp_path / "t"
    options = made(table, "COPY_ON_WRITE", ("a", 1, "x"), **{PARTITION: "val"})
    result = write(table, "insert", {**options, POLICY: "fail"}, ("a", 1, "y"))
    assert (result.num_inserts, values(table, "val")) == (1, ["x", "y"])


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_a_key_that_a_log_deleted_is_not_there(tmp_path: Path, operation: str) -> None:
    """Its base file still has it, and Apache Hudi would drop the row."""
    table = tmp_path / "t"
    options = {**made(table, "MERGE_ON_READ", ("a", 1, "gone"), ("b", 1, "stays")), DROP: True}
    hoodie.write_table(plain(("a", 1, "")), str(table), operation="delete", options=options)
    result = write(table, operation, options, ("a", 2, "back"), ("b", 2, "again"))
    assert (result.num_dropped, result.num_inserts) == (1, 1)
    assert values(table, "val") == ["back", "stays"]
    del options[DROP]
    write(table, "upsert", options, ("a", 3, "updated"))
    assert values(table, "val") == ["stays", "updated"]


@pytest.mark.parametrize(
    ("dry_run", "operation", "kind"),
    crossed_but(
        {
            "dry run-bulk_insert-MERGE_ON_READ",
            "write-insert-COPY_ON_WRITE",
            "write-bulk_insert-COPY_ON_WRITE",
            "write-upsert-MERGE_ON_READ",
        },
        {"dry run": True, "write": False},
        {"insert": "insert", "bulk_insert": "bulk_insert", "upsert": "upsert"},
        TYPES,
    ),
)
def test_the_policy_fail_refuses_a_stored_key(
    tmp_path: Path, kind: str, operation: str, dry_run: bool
) -> None:
    table = tmp_path / "t"
    options = {**made(table, kind, ("a", 1, "stored")), POLICY: "fail"}
    before = listing(table)
    with pytest.raises(DuplicateKey, match=r"1 of 2 rows .* such as 'a'.*nothing was written") as caught:
        write(table, operation, options, ("b", 2, "new"), ("a", 9, "again"), dry_run=dry_run)
    assert caught.value.values["key"] == "a"
    assert listing(table) == before
    assert write(table, operation, options, ("b", 2, "new")).num_inserts == 1


def test_settings_that_contradict_each_other(tmp_path: Path) -> None:
    for operation in ("insert", "upsert"):
        with pytest.raises(ConfigError, match=f"{DROP}=true contradicts {POLICY}=fail"):
            write(tmp_path / "t", operation, {**PLAIN, DROP: True, POLICY: "fail"}, ("a", 1, "x"))
    with pytest.raises(ConfigError, match="expected one of DROP, FAIL, NONE"):
        write(tmp_path / "t", "insert", {**PLAIN, POLICY: "ignore"}, ("a", 1, "x"))
    assert not (tmp_path / "t").exists()


@MERGED
def test_inserts_into_a_small_file_are_merged_with_its_rows_where_duplicates_are_not_allowed(
    tmp_path: Path, kind: str
) -> None:
    """Of the batch the last row counts, then the ordering column against the stored row."""
    table = tmp_path / "t"
    options = made(table, kind, ("a", 1, "a1"), ("b", 5, "b5"))
    rows = (("a", 5, "a5"), ("a", 3, "a3"), ("b", 2, "b2"), ("c", 2, "c2"), ("c", 1, "c1"))
    result = write(table, "insert", {**options, ALLOW: False}, *rows)
    assert (result.num_inserts, result.num_updates) == (1, 1)
    assert values(table, "val") == ["a3", "b5", "c1"]
    write(table, "insert", {**options, ALLOW: False, COMBINE_INSERT: True}, ("a", 7, "a7"), ("a", 6, "a6"))
    assert values(table, "val") == ["a7", "b5", "c1"]
    write(table, "insert", options, ("a", 8, "a8"))
    assert values(table, "val") == ["a7", "a8", "b5", "c1"], "allowed by default"
    write(table, "insert", {**options, ALLOW: False, SMALL_FILE: 0}, ("a", 9, "a9"))
    assert values(table, "val") == ["a7", "a8", "a9", "b5", "c1"], "another file"
    assert len(data_files(table)) == 2


@KINDS
def test_an_upsert_that_does_not_combine(tmp_path: Path, kind: str) -> None:
    """A stored key stays one row; of a new key in a new file every row is stored."""
    twice, raw = (("a", 5, "a5"), ("a", 3, "a3")), {COMBINE_UPSERT: False}
    logs = kind == "MERGE_ON_READ"
    stored = {**made(tmp_path / "stored", kind, ("a", 1, "a1")), **raw}
    assert write(tmp_path / "stored", "upsert", stored, *twice).warnings == []
    assert values(tmp_path / "stored", "val") == (["a5"] if logs else ["a3"])
    late = {**made(tmp_path / "late", kind, ("a", 4, "a4")), **raw}
    write(tmp_path / "late", "upsert", late, *twice)
    assert values(tmp_path / "late", "val") == (["a5"] if logs else ["a4"])
    write(tmp_path / "new", "upsert", {**PLAIN, TYPE: kind, **raw}, *twice)
    assert values(tmp_path / "new", "val") == ["a3", "a5"]
    write(tmp_path / "new", "upsert", {}, ("a", 9, "a9"))
    assert values(tmp_path / "new", "val") == ["a9", "a9"]
    packed = {**made(tmp_path / "packed", kind, ("b", 1, "b1")), **raw}
    write(tmp_path / "packed", "upsert", packed, *twice)
    assert values(tmp_path / "packed", "val") == ["a3", "b1"]


@pytest.mark.parametrize(
    ("combine", "kind"),
    crossed_but(
        {"combined-COPY_ON_WRITE", "as it is-MERGE_ON_READ"}, {"combined": True, "as it is": False}, TYPES
    ),
)
def test_a_key_is_deleted_once(tmp_path: Path, kind: str, combine: bool) -> None:
    table = tmp_path / "t"
    options = {**made(table, kind, ("a", 1, "x"), ("b", 1, "y")), COMBINE_DELETE: combine}
    result = write(table, "delete", options, ("a", 1, ""), ("a", 1, ""))
    assert (result.num_deletes, result.warnings) == (1, [])
    assert values(table, "val") == ["y"]


@pytest.mark.parametrize("combine", ["yes", "1"])
def test_other_values_of_a_setting_without_effect_are_refused(tmp_path: Path, combine: str) -> None:
    table = tmp_path / "t"
    options = {**made(table, "COPY_ON_WRITE", ("a", 1, "x")), COMBINE_DELETE: combine}
    with pytest.raises(ConfigError, match="expected true or false"):
        write(table, "delete", options, ("a", 1, ""))
    assert values(table, "val") == ["x"]
