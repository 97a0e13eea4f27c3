"""Which small sources the driver of a Spark job reads itself; tests/spark compares the rows with Spark's."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa

from hoodie.source import Source
from hoodie.source.few import few_rows
from tests.support.record_files import FULL, NONE, avro_file

ROWS = "id,at\n1,2024-01-01 10:00:00\n"


def few(path: Path, known: pa.Schema | None = None, *, local: bool = True, **described: Any) -> int | None:
    rows = few_rows(Source.of({"path": str(path), **described}), known, local=local)
    return None if rows is None else rows.num_rows


def text(path: Path, content: str = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def test_small_files_are_read(tmp_path: Path) -> None:
    assert few(text(tmp_path / "a.csv")) == 1
    assert few(text(tmp_path / "b.csv", "id;at\n1;x\n"), options={"sep": ";"}) == 1
    assert few(text(tmp_path / "c.json", '{"id": 1}\n{"id": 2}\n')) == 2
    assert few(text(tmp_path / "d" / "1.csv").parent) == 1
    avro_file(tmp_path / "e.avro", [FULL, NONE, FULL])
    assert few(tmp_path / "e.avro") == 3


def test_instants_have_the_zone_that_spark_gives_them(tmp_path: Path) -> None:
    rows = few_rows(Source.of(str(text(tmp_path / "a.csv"))), None, local=True)
    assert rows is not None
    assert rows.schema.field("at").type == pa.timestamp("us", "UTC")


def test_what_is_left_to_spark(tmp_path: Path) -> None:
    plain, maps = text(tmp_path / "a.csv"), pa.schema([("m", pa.map_(pa.string(), pa.string()))])
    assert few(plain, local=False) is None, "files of another machine"
    assert few(plain, options={"ignoreLeadingWhiteSpace": "true"}) is None, "an option that Spark alone has"
    assert few(text(tmp_path / "day=1" / "a.csv").parent) is None, "columns in folders"
    assert few(text(tmp_path / "m.json", '{"m": {"a": "b"}}\n'), maps) is None
    assert few(tmp_path / "none.csv") is None
    assert few(text(tmp_path / "bad.json", "{")) is None
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(ROWS.encode()))
    assert few(tmp_path / "a.csv.gz") is None, "nobody knows how large it is"
    source = Source.of(str(plain), None, "select * from source")
    assert few_rows(source, None, local=True) is None, "a transform is Spark's SQL"


def test_large_ones_are_left_to_spark(tmp_path: Path) -> None:
    assert few(text(tmp_path / "wide.csv", "id,v\n" + f"1,{'x' * (5 << 20)}\n")) is None
    assert few(text(tmp_path / "long.csv", "i\n" + "1\n" * 100_000)) == 100_000
    assert few(text(tmp_path / "more.csv", "i\n" + "1\n" * 100_001)) is None
