"""The list of SQL that means the same on both engines, proven: over edge values, each expression of the local
engine has Spark's value and Spark's type, or is an error.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hoodie.statements.local.types import of_arrow
from tests.spark.answers import Servers, interpreter
from tests.support.sql_list import ROWS, Local, edges, expressions, others, queries_of_list, said

pytestmark = [pytest.mark.spark, pytest.mark.full]


def test_values_and_types_are_those_of_spark(servers: Servers, tmp_path: Path) -> None:
    pq.write_table(edges(), tmp_path / "v.parquet")
    pq.write_table(others(), tmp_path / "u.parquet")
    local = Local()
    answers = local.values(expressions())
    good = {
        text: [row for row, there in enumerate(found.is_valid()) if there.as_py()]
        for text, found in answers.items()
    }
    asked = [(text, None if len(rows) == ROWS else rows) for text, rows in good.items()]
    found = servers.ask(
        "expressions", "classic", str(tmp_path), asked, queries_of_list(), python=interpreter("4")
    )
    wrong = [f"{text}: {error}" for text, error in found["failed"].items()]
    for place, text in enumerate(found["order"]):
        ours = pc.struct_field(answers[text], "e")
        kind = str(of_arrow(ours.type)[0])
        if kind != found["types"][text]:
            wrong.append(f"{text}: {kind}, in Spark {found['types'][text]}")
        both = zip(said(ours), said(pq.read_table(tmp_path / f"e{place}.parquet")["e"]), strict=True)
        pairs = list(both)
        differ = [(row, *pairs[row]) for row in good[text] if pairs[row][0] != pairs[row][1]]
        wrong += [f"{text}: row {row} has {one}, in Spark {other}" for row, one, other in differ[:2]]
    for place, text in enumerate(queries_of_list()):
        if text in found["failed"]:
            continue
        ours, theirs = local.query(text), pq.read_table(tmp_path / f"q{place}.parquet")
        if sorted(_lines(ours)) != sorted(_lines(theirs)):
            wrong.append(f"{text}: {sorted(_lines(ours))[:3]}, in Spark {sorted(_lines(theirs))[:3]}")
    assert not wrong, "\n".join([f"{len(wrong)} of {len(asked)}", *wrong])
    assert len(asked) > 700


def _lines(table: pa.Table) -> list[str]:
    return [" | ".join(row) for row in zip(*map(said, table.columns), strict=True)]
