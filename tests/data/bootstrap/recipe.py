"""Makes `tables.tar.gz`: tables that Apache Hudi 0.15.0 bootstrapped, and what it answers about them.

    python -m tests.data.bootstrap.recipe

A table's folder has `source` (the files it was bootstrapped from), `table`, `expected/<query>.parquet` and
`meta.json` (write options, instants). Sources lie at `<folder>/source` of the machine that made them: whoever
unpacks the tables puts the new place into `hoodie.bootstrap.base.path` (`tests.support.bootstrap`).
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.hudi_client import HudiServer

ARCHIVE = Path(__file__).with_name("tables.tar.gz")
_SIMPLE = "org.apache.hudi.keygen.SimpleKeyGenerator"
_REGEX = "org.apache.hudi.client.bootstrap.selector.BootstrapRegexModeSelector"
_FULL = "org.apache.hudi.client.bootstrap.selector.FullRecordBootstrapModeSelector"
_SELECTOR = "hoodie.bootstrap.mode.selector"
TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "ts": pa.int64(),
    "val": pa.int32(),
    "name": pa.string(),
    "price": pa.decimal128(10, 2),
    "day": pa.date32(),
    "at": pa.timestamp("us", tz="UTC"),
    "tags": pa.list_(pa.string()),
    "inner": pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())]),
}
SCHEMA = pa.schema(TYPES)


def rows(numbers: range, version: int = 1, **more: Any) -> pa.Table:
    """Rows with keys `k<number>`; `more` are columns with one value."""
    found = [
        {
            "id": f"k{number:03d}",
            "ts": 10 * version,
            "val": None if number % 5 == 3 else number * version,
            "name": f"näme {number} v{version}",
            "price": decimal.Decimal(number * version).scaleb(-2),
            "day": dt.date(2024, 1, 1) + dt.timedelta(days=number),
            "at": dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=number),
            "tags": [f"t{number}", "all"][: number % 3],
            "inner": None if number % 4 == 1 else {"a": number, "b": f"b{version}"},
        }
        for number in numbers
    ]
    table = pa.Table.from_pylist(found, schema=SCHEMA)
    for name, value in more.items():
        table = table.append_column(name, pa.array([value] * table.num_rows))
    return table


def options(name: str, partition: str = "region", **more: str) -> dict[str, str]:
    """Write options of Hudi for a table."""
    return {
        "hoodie.table.name": name,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": partition,
        "hoodie.datasource.write.keygenerator.class": _SIMPLE
        if partition
        else "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.metadata.enable": "false",
        "hoodie.index.bloom.num_entries": "100",
        "hoodie.parquet.small.file.limit": "0",
        **more,
    }


@dataclass
class Case:
    """`source` gives relative path -> rows of a file; `steps` follow the bootstrap."""

    options: Mapping[str, str]
    source: Mapping[str, pa.Table]
    schema: str = ""
    steps: list[tuple[str, pa.Table]] = field(default_factory=list)


_MOR = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
_HIVE = {
    "region=eu/part-0.parquet": rows(range(7)),
    "region=eu/part-1.snappy.parquet": rows(range(7, 10)),
    "region=us/part-0.parquet": rows(range(10, 15)),
}
CASES: dict[str, Case] = {
    "metadata_only": Case(options("metadata_only"), _HIVE),
    "updated": Case(
        options("updated"),
        _HIVE,
        steps=[
            ("upsert", rows(range(8, 9), 2, region="eu")),
            ("upsert", rows(range(12, 13), 3, region="us")),
            ("upsert", rows(range(20, 22), 2, region="us")),
            ("upsert", rows(range(22, 23), 2, region="asia")),
        ],
    ),
    "mixed": Case(
        options(
            "mixed",
            **{
                _SELECTOR: _REGEX,
                "hoodie.bootstrap.mode.selector.regex": "region=eu",
                "hoodie.bootstrap.mode.selector.regex.mode": "METADATA_ONLY",
            },
        ),
        _HIVE,
        steps=[("upsert", rows(range(1), 2, region="eu"))],
    ),
    "full_record": Case(options("full_record", **{_SELECTOR: _FULL}), _HIVE),
    "not_partitioned": Case(
        options("not_partitioned", ""), {"a.parquet": rows(range(5)), "b.parquet": rows(range(5, 8))}
    ),
    "in_file": Case(
        options("in_file", **{"hoodie.datasource.write.hive_style_partitioning": "false"}),
        {"eu/a.parquet": rows(range(5), region="eu"), "u s/b.parquet": rows(range(5, 8), region="u s")},
    ),
    "typed": Case(
        options("typed", "year,part", **{
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator"
        }),
        {
            "year=2024/part=a%3Ab/x.parquet": rows(range(3)),
            "year=2025/part=__HIVE_DEFAULT_PARTITION__/x.parquet": rows(range(3, 5)),
        },
        schema="id string, ts bigint, val int, name string, price decimal(10,2), day date, at timestamp, "
        "tags array<string>, inner struct<a: int, b: string>, year int, part string",
    ),
    "mor": Case(
        options("mor", **_MOR),
        _HIVE,
        steps=[
            ("upsert", rows(range(3, 4), 2, region="eu")),
            ("delete", rows(range(11, 12), 2, region="us")),
            ("upsert", rows(range(30, 31), 2, region="us")),
        ],
    ),
}  # fmt: skip


def make(server: HudiServer, folder: Path, name: str) -> None:
    """One table with everything that is kept of it, in `folder`."""
    case = CASES[name]
    for relative, table in case.source.items():
        path = folder / "source" / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, row_group_size=3)
    table_path = folder / "table"
    server.bootstrap(table_path, folder / "source", case.options, schema=case.schema)
    for operation, incoming in case.steps:
        server.write(table_path, incoming, case.options, operation=operation)


def expected(server: HudiServer, folder: Path) -> dict[str, pa.Table]:
    """Query name -> what Hudi answers."""
    table = folder / "table"
    instants = sorted(server.timeline(table))
    ask: dict[str, Callable[[], pa.Table]] = {
        "snapshot": lambda: server.read(table),
        "read_optimized": lambda: server.read_optimized(table),
        "first": lambda: server.read_as_of(table, instants[0]),
        "all_changes": lambda: server.read_incremental(table, begin="000"),
    }
    if len(instants) > 1:
        ask["last_changes"] = lambda: server.read_incremental(table, begin=instants[-2])
    answers = {}
    for name, question in ask.items():
        try:
            answers[name] = question()
        except Exception as error:  # noqa: BLE001 - what Hudi cannot answer itself is no expectation
            print(f"{folder.name}: {name}: {str(error)[-300:]}", file=sys.stderr)
    return answers


def main() -> None:
    """Write the archive anew."""
    with tempfile.TemporaryDirectory() as work, HudiServer("0.15.0") as server:
        for name in CASES:
            folder = Path(work) / name
            make(server, folder, name)
            (folder / "expected").mkdir()
            for query, table in expected(server, folder).items():
                pq.write_table(table, folder / "expected" / f"{query}.parquet")
            meta = {
                "options": dict(CASES[name].options),
                "instants": sorted(server.timeline(folder / "table")),
            }
            (folder / "meta.json").write_text(json.dumps(meta, indent=1))
        with tarfile.open(ARCHIVE, "w:gz") as tar:
            for name in CASES:
                tar.add(Path(work) / name, name, filter=lambda item: None if ".crc" in item.name else item)


if __name__ == "__main__":
    main()
