"""Rows that take as much of a batch as their bytes do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hoodie.engine.spark import PAD, padded, unpadded


def test_rows_without_a_value_follow_a_large_one() -> None:
    rows = pa.RecordBatch.from_pydict(
        {
            "write": pa.array([3, 1, 2, 2], pa.int32()),
            "name": ["a", None, "c", "d"],
            "payload": pa.array([b"x" * 20_000, None, b"", b"y" * 100_000], pa.binary()),
        }
    )
    found = padded(rows)
    assert found.column("write").to_pylist() == [3] * 3 + [1, 2] + [2] * 13
    assert found.column("payload").null_count == 2 + 1 + 12
    assert np.asarray(found.column(PAD)).sum() == 14
    assert unpadded(found).equals(rows)
    assert unpadded(found.slice(1, 3)).num_rows == 1


def test_small_rows_stay_as_they_are() -> None:
    rows = pa.RecordBatch.from_pydict({"payload": [b"a", b"b"]})
    assert padded(rows).num_rows == 2
    assert unpadded(padded(rows)).equals(rows)
    assert unpadded(padded(rows.slice(0, 0))).num_rows == 0
