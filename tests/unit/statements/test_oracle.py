"""Statements on tables of ours and on DuckDB's own: the rows afterwards are the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import hoodie
from tests.support.statements import KINDS, Judge, for_kind, searching, statements, stored, write_tables
from tests.support.tiers import full_but


@pytest.mark.parametrize(
    ("seed", "kinds", "count"),
    [
        (1, ["day logs"], 4),
        *(pytest.param(seed, list(KINDS), 15, marks=pytest.mark.full) for seed in (2, 3, 4, 5)),
    ],
)
def test_rows_are_those_of_duckdb(tmp_path: Path, seed: int, kinds: list[str], count: int) -> None:
    pick = random.Random(seed)
    paths, target, source = write_tables(tmp_path, kinds, pick)
    judge = Judge(target, source)
    for text, plain in statements(pick, count):
        judge.run(plain)
        for kind, path in paths.items():
            hoodie.sql(for_kind(text, kind), tables={"t": path, "s": source})
            assert stored(path) == judge.rows(), (kind, text)
            assert hoodie.read_table(path, meta=False).schema.names == target.schema.names


@pytest.mark.parametrize("kind", full_but(["days"], KINDS))
def test_subqueries_in_conditions_and_functions_in_on(tmp_path: Path, kind: str) -> None:
    for number, (text, plain) in enumerate(searching()):
        paths, target, source = write_tables(tmp_path / str(number), [kind], random.Random(number))
        judge = Judge(target, source)
        before = judge.rows()
        judge.run(plain)
        hoodie.sql(for_kind(text, kind), tables={"t": paths[kind], "s": source})
        assert stored(paths[kind]) == judge.rows() != before, text
