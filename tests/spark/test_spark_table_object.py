"""The table object with a session: Spark reads and writes DataFrames, the local engine writes other rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from tests.spark.answers import Servers, interpreter

pytestmark = pytest.mark.spark
AT = dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone.utc)


@pytest.mark.full
@pytest.mark.parametrize(("version", "mode"), [("4", "classic"), ("4", "connect")])
def test_methods_on_spark(servers: Servers, tmp_path: Path, version: str, mode: str) -> None:
    path, files = str(tmp_path / "t"), tmp_path / "more.parquet"
    number = 7
    more = pa.table(
        {
            "id": [str(key) for key in range(6, 6 + number)],
            "part": pa.array([5] * number, pa.int64()),
            "ts": pa.array([5] * number, pa.int64()),
            "text": ["more"] * number,
            "m": pa.array([Decimal("9.00")] * number, pa.decimal128(9, 2)),
            "at": pa.array([AT] * number, pa.timestamp("us", "UTC")),
        }
    )
    pq.write_table(more, files)
    said = servers.ask("table_object", mode, path, str(files), python=interpreter(version))
    assert said.pop("version")
    new = [str(key) for key in range(6, 6 + number)]
    assert said == {
        "words": "committed",
        "files": number,
        "local": 1,
        "frame": ["0", "1", "10", "11", "12", "2"],
        "arrow": [13, 13, 13],
        "conditions": [["3"], ["4"], ["3", "4"], sorted(["5", *new])],
        "merged": [1, 0],
        "local_merge": 1,
        "past": 6,
        "changed": sorted(["1", "2", *new]),
        "html": True,
        "plan": 1,
        "cluster": True,
    }
    stored = {
        row["id"]: row["text"] for row in hoodie.Table(path).read(["id", "text"]).to_arrow().to_pylist()
    }
    assert (stored["1"], stored["2"], stored["3"]) == ("merged", "local", "it's")
