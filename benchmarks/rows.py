"""Which rows a table holds: an order-independent digest per partition, one code for all contestants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from .workload import COLUMNS, KEY, MERGED, PARTITION, Inputs

Digest = dict[str, tuple[int, int]]
"""Partition -> (rows, sum of the 64-bit hashes of all twelve columns)."""

#: is a row of the base the record of one of the upsert
_SAME = f"b.{KEY} = u.{KEY} AND b.{PARTITION} = u.{PARTITION}"
_HASHED = ", ".join("epoch_us(event_time)" if name == "event_time" else name for name in COLUMNS)


def digest(files: Sequence[str | Path]) -> Digest:
    """Digest of Parquet files that all hold the twelve columns."""
    return _digest(_scan(files))


def expected_after_upsert(inputs: Inputs) -> Digest:
    """Digest of base and upsert merged by (partition, key): the oracle, from the input files alone."""
    base, new = _scan(parquet_files(inputs.base)), _scan(parquet_files(inputs.upsert))
    kept = f"SELECT * FROM ({base}) b ANTI JOIN ({new}) u ON {_SAME}"
    return _digest(f"{kept} UNION ALL BY NAME {new}")


def expected_after_merge(inputs: Inputs) -> Digest:
    """Digest of the base, with the columns of `merge` taken from the upsert where it has the record."""
    base, new = _scan(parquet_files(inputs.base)), _scan(parquet_files(inputs.upsert))
    columns = (
        f"CASE WHEN u.{KEY} IS NULL THEN b.{name} ELSE u.{name} END AS {name}"
        if name in MERGED
        else f"b.{name}"
        for name in COLUMNS
    )
    return _digest(f"SELECT {', '.join(columns)} FROM ({base}) b LEFT JOIN ({new}) u ON {_SAME}")


def differences(actual: Digest, expected: Digest, limit: int = 5) -> list[str]:
    """Sentences about the first partitions that differ; empty when the digests are equal."""
    found = [
        f"{day}: rows {actual.get(day, (0, 0))[0]} instead of {expected.get(day, (0, 0))[0]}"
        for day in sorted(actual.keys() | expected.keys())
        if actual.get(day) != expected.get(day)
    ]
    return found[:limit]


def parquet_files(folder: Path) -> list[Path]:
    """Data files below `folder`, hidden and underscore folders and files left out."""
    found = ((path, path.relative_to(folder).parts) for path in folder.rglob("*.parquet"))
    return sorted(path for path, parts in found if not any(part[0] in "._" for part in parts))


def latest_base_files(table: Path) -> list[Path]:
    """The newest committed base file of every file group of a copy-on-write table.

    Reads names only (`<file id>_<token>_<instant>.parquet`, `.hoodie/<instant>.commit` or, from version 8 on,
    `.hoodie/timeline/<instant>_<completion>.commit`), so that our tables are not judged by our own reader.
    """
    commits = (*(table / ".hoodie").glob("*.commit"), *(table / ".hoodie" / "timeline").glob("*.commit"))
    done = {path.name.split(".")[0].split("_")[0] for path in commits}
    newest: dict[tuple[Path, str], tuple[str, Path]] = {}
    for path in parquet_files(table):
        file_id, _, instant = path.stem.split("_")
        group = (path.parent, file_id)
        if instant in done and (group not in newest or newest[group][0] < instant):
            newest[group] = (instant, path)
    return sorted(path for _, path in newest.values())


def _scan(files: Sequence[str | Path]) -> str:
    if not files:
        raise ValueError("no Parquet file to read")
    names = ", ".join("'" + str(name).replace("'", "''") + "'" for name in files)
    return f"SELECT {', '.join(COLUMNS)} FROM read_parquet([{names}], hive_partitioning = false)"


def _digest(rows: str) -> Digest:
    with duckdb.connect(config={"threads": 2}) as connection:
        query = f"SELECT {PARTITION}, count(*), sum(hash({_HASHED})) FROM ({rows}) GROUP BY 1"
        return {day: (count, int(total)) for day, count, total in connection.execute(query).fetchall()}
