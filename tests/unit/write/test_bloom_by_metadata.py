"""BLOOM and GLOBAL_BLOOM that rule files out by the metadata table: which files they open, and the rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.index import bloom
from hoodie.metadata.queries import MetadataTableIgnored
from hoodie.table import skeleton
from tests.support.metadata_index import make_metadata_table, wrapped
from tests.support.tiers import crossed_but
from tests.unit.write.support import OPTIONS, Pair

BY_METADATA = {"hoodie.bloom.index.use.metadata": "true"}
SETTINGS = {**OPTIONS, "hoodie.parquet.small.file.limit": "0", "hoodie.clean.automatic": "false"}
KINDS = ("BLOOM", "GLOBAL_BLOOM")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the base files that the index opens."""
    names: list[str] = []

    def open_base(storage: Any, base: Any, schema: Any) -> Any:
        names.append(base.name)
        return skeleton.open_base(storage, base, schema)

    monkeypatch.setattr(bloom, "open_base", open_base)
    return names


def row(key: str, version: int) -> dict[str, Any]:
    return {"id": key, "region": "eu", "ts": version, "name": f"n{version}", "amount": 1.0}


def made(
    path: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = list, **more: Any
) -> Pair:
    """A file of ten keys each for a, b, c."""
    pair = Pair(path, SETTINGS)
    for letter in "abc":
        pair.write([row(f"{letter}{number}", 1) for number in range(10)], "insert")
    make_metadata_table(path, stats=["_hoodie_record_key"], blooms=True, change=change, **more)
    return pair


@pytest.mark.table_version(6)
@pytest.mark.parametrize(
    ("asked", "kind"),
    crossed_but(
        {"stored-GLOBAL_BLOOM", "new-BLOOM"},
        {"stored": (["b3", "b33"], 1), "new": (["x1"], 0)},
        {kind: kind for kind in KINDS},
    ),
)
def test_only_files_that_may_have_a_key_are_opened(
    tmp_path: Path, opened: list[str], kind: str, asked: tuple[list[str], int]
) -> None:
    keys, files = asked
    pair = made(tmp_path / "t")
    pair.options = {**SETTINGS, **BY_METADATA, "hoodie.index.type": kind}
    with warnings.catch_warnings():
        warnings.simplefilter("error", MetadataTableIgnored)
        pair.write([row(key, 2) for key in keys])
    assert len(opened) == files
    pair.check()
    assert hoodie.read_table(str(pair.path)).num_rows == 31


@pytest.mark.table_version(6)
def test_by_footers_every_file_is_opened(tmp_path: Path, opened: list[str]) -> None:
    pair = made(tmp_path / "t")
    pair.options = {**SETTINGS, "hoodie.index.type": "BLOOM"}
    pair.write([row("b3", 2)])
    assert len(opened) == 3


@pytest.mark.table_version(6)
def test_a_file_that_the_index_does_not_know_is_opened_with_a_warning(
    tmp_path: Path, opened: list[str]
) -> None:
    def two(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        blooms = [record for record in records if record["type"] == 4]
        return [record for record in records if record not in blooms[:1] and record["type"] != 3]

    pair = made(tmp_path / "t", change=two)
    pair.options = {**SETTINGS, **BY_METADATA, "hoodie.index.type": "BLOOM"}
    with pytest.warns(MetadataTableIgnored, match="it has no bloom filter of 1 files, which are opened"):
        pair.write([row("x", 2)])
    assert len(opened) == 1
    pair.check()


def test_without_the_index_footers_are_read_with_a_warning(tmp_path: Path, opened: list[str]) -> None:
    pair = Pair(tmp_path / "t", SETTINGS)
    pair.write([row("a", 1)], "insert")
    pair.options = {**SETTINGS, **BY_METADATA, "hoodie.index.type": "BLOOM"}
    with pytest.warns(MetadataTableIgnored, match="has no index bloom_filters"):
        pair.write([row("a", 2)])
    assert len(opened) == 1
    pair.check()


@pytest.mark.table_version(6)
def test_ranges_of_a_row_group_without_statistics_rule_nothing_out(tmp_path: Path, opened: list[str]) -> None:
    """Apache Hudi counts nulls of -1 there, as Parquet's Java reader does."""

    def narrow(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for record in records:
            stats = record.get("ColumnStatsMetadata")
            if stats and stats["columnName"] == "_hoodie_record_key":
                stats |= {"maxValue": wrapped("String", "a0"), "nullCount": -1}
        return records

    pair = made(tmp_path / "t", change=narrow)
    pair.options = {**SETTINGS, **BY_METADATA, "hoodie.index.type": "BLOOM"}
    pair.write([row("c7", 2)])
    assert len(opened) == 1
    pair.check()
    assert hoodie.read_table(str(pair.path)).num_rows == 30
