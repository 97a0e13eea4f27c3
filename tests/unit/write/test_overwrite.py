"""insert_overwrite with named partitions, and with the overwrite mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.errors import ConfigError, InputError
from tests.support.tiers import crossed_but, full_but
from tests.unit.write.support import PARTITION, PLAIN, listing, plain, values

MODE = "hoodie.datasource.overwrite.mode"
PATHS = "hoodie.static.overwrite.partition.paths"
TYPE = "hoodie.datasource.write.table.type"


def made(path: Path, kind: str = "COPY_ON_WRITE") -> dict[str, Any]:
    """A table of the partitions x, y and z, a row in each; its options."""
    options = {**PLAIN, PARTITION: "val", TYPE: kind}
    rows = plain(("a", 1, "x"), ("b", 1, "y"), ("c", 1, "z"))
    hoodie.write_table(rows, str(path), options=options)
    return options


def overwrite(path: Path, options: dict[str, Any], *rows: tuple[str, int, str], **more: Any) -> Any:
    operation = more.pop("operation", "insert_overwrite")
    return hoodie.write_table(plain(*rows), str(path), operation=operation, options=options, **more)


@pytest.mark.parametrize(
    ("mode", "kind"),
    crossed_but(
        {"unset-COPY_ON_WRITE", "static-MERGE_ON_READ"},
        {"unset": {}, "static": {MODE: "static"}},
        {kind: kind for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")},
    ),
)
def test_named_partitions_are_replaced_with_rows_for_them_or_not(
    tmp_path: Path, kind: str, mode: dict[str, Any]
) -> None:
    table = tmp_path / "t"
    options = {**made(table, kind), PATHS: "x,y", **mode}
    planned = overwrite(table, options, ("a", 2, "x"), dry_run=True)
    assert (planned.partitions, planned.num_replaced) == (["x", "y"], 2)
    assert [(item.replaced_rows, item.deletes) for item in planned.planned] == [(1, 0), (1, 0)]
    result = overwrite(table, options, ("a", 2, "x"))
    assert (result.operation, result.partitions, result.num_replaced) == ("insert_overwrite", ["x", "y"], 2)
    assert values(table, "id", "ts", "val") == [("a", 2, "x"), ("c", 1, "z")]


def test_an_empty_input_empties_the_named_partitions(tmp_path: Path) -> None:
    table = tmp_path / "t"
    options = {**made(table), PATHS: "x,w"}
    result = overwrite(table, options)
    assert result.warnings == ["no partition 'w' with rows in the table; nothing to delete"]
    assert values(table, "id") == ["b", "c"]
    assert overwrite(table, {**options, PATHS: "w"}, ("n", 1, "w")).warnings == [], "a new partition"
    assert values(table, "id") == ["b", "c", "n"]


@pytest.mark.parametrize("dry_run", [True, False])
def test_rows_of_other_partitions_are_refused(tmp_path: Path, dry_run: bool) -> None:
    """Apache Hudi would put them beside what is there."""
    table = tmp_path / "t"
    options = {**made(table), PATHS: "x"}
    before = listing(table)
    with pytest.raises(InputError, match=r"rows of partition 'z'.*Nothing was written"):
        overwrite(table, options, ("a", 2, "x"), ("c", 7, "z"), dry_run=dry_run)
    assert listing(table) == before


def test_three_partitions_that_are_not_named_are_told(tmp_path: Path) -> None:
    table = tmp_path / "t"
    options = {**made(table), PATHS: "x"}
    for others, told in (("dcb", "'b', 'c', 'd', and"), ("edcb", "'b', 'c', 'd', …, and")):
        with pytest.raises(InputError, match=f"rows of partition {told} only 'x' are to be replaced"):
            overwrite(table, options, *((f"k{other}", 1, other) for other in others))


@pytest.mark.parametrize("kind", full_but({"COPY_ON_WRITE"}, ["COPY_ON_WRITE", "MERGE_ON_READ"]))
def test_static_without_names_replaces_the_table(tmp_path: Path, kind: str) -> None:
    """As Apache Hudi's INSERT OVERWRITE without PARTITION; its DataFrame writer does not look at the mode."""
    table = tmp_path / "t"
    options = {**made(table, kind), MODE: "STATIC"}
    result = overwrite(table, options, ("a", 2, "x"))
    assert result.operation == "insert_overwrite_table"
    (warning,) = result.warnings
    assert "all partitions are replaced" in warning
    assert values(table, "id", "ts") == [("a", 2)]
    assert overwrite(table, options, ("b", 1, "y"), operation="insert_overwrite_table").warnings == []


def test_dynamic_replaces_the_partitions_of_the_rows(tmp_path: Path) -> None:
    table = tmp_path / "t"
    options = {**made(table), MODE: "DYNAMIC"}
    result = overwrite(table, options, ("a", 2, "x"))
    assert (result.operation, result.warnings) == ("insert_overwrite", [])
    assert values(table, "id", "ts") == [("a", 2), ("b", 1), ("c", 1)]
    assert overwrite(table, options, ("a", 3, "x"), operation="upsert").num_updates == 1, "no overwrite"


@pytest.mark.parametrize(
    ("operation", "settings"),
    [
        ("insert_overwrite", {MODE: "DYNAMIC", PATHS: "x"}),
        ("insert_overwrite_table", {MODE: "DYNAMIC"}),
        ("insert_overwrite_table", {PATHS: "x"}),
        ("insert_overwrite", {MODE: "BOTH"}),
    ],
)
def test_settings_that_do_not_fit(tmp_path: Path, operation: str, settings: dict[str, Any]) -> None:
    options = {**PLAIN, PARTITION: "val", **settings}
    with pytest.raises(ConfigError, match=r"contradicts|expected one of DYNAMIC, STATIC"):
        overwrite(tmp_path / "t", options, ("a", 1, "x"), operation=operation)
    assert not (tmp_path / "t").exists()
