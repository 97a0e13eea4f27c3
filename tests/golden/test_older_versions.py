"""Tables of versions 0 to 5, as Apache Hudi 0.15.0 leaves them when it takes one back a version at a time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.storage.local import LocalStorage
from hoodie.table import properties

VERSIONS = range(6)


def batch(ids: range, ts: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{number}" for number in ids],
            "part": [f"p{number % 2}" for number in ids],
            "ts": pa.array([ts] * len(ids), pa.int64()),
            "v": [f"{ts}-{number}" for number in ids],
        }
    )


def rows(path: str, **how: Any) -> dict[str, tuple[int, str]]:
    found = hoodie.read_table(path, **how).to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: (row["ts"], row["v"]) for row in found}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_it_is_continued_and_keeps_its_version(
    older_tables: Path, tmp_path: Path, kind: str, version: int
) -> None:
    """By the ordering column; the second batch of ours is late."""
    path = str(tmp_path / "t")
    shutil.copytree(older_tables / f"{kind}{version}", path)
    expected = {f"k{number}": (1, f"1-{number}") for number in range(8)}
    expected |= {f"k{number}": (2, f"2-{number}") for number in range(4, 10)}
    assert rows(path) == rows(path, begin="earliest") == expected
    hoodie.write_table(batch(range(6, 12), 3), path)
    hoodie.write_table(batch(range(2), 0), path)
    expected |= {f"k{number}": (3, f"3-{number}") for number in range(6, 12)}
    assert rows(path) == expected
    if kind == "mor":
        hoodie.compact_table(path, options={"hoodie.compact.inline.max.delta.commits": 1})
        assert rows(path, query="read_optimized") == expected
    hoodie.write_table(batch(range(1), 9).select(["id", "part"]), path, operation="delete")
    hoodie.clean_table(path, options={"hoodie.cleaner.commits.retained": 1})
    del expected["k0"]
    assert rows(path) == expected
    assert properties.load(LocalStorage(), path).version == version
