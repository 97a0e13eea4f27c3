"""A metadata table made by hand for a table that has none: its files, and statistics of columns as Apache
Hudi 0.15.0 collects them, with all that is odd about them.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.codec.avro import schema_json, write_datum
from hoodie.format.base_file import BaseFileReader
from hoodie.format.hfile_block import SCHEMA
from hoodie.format.hfile_records import KEY_FIELD
from hoodie.format.hfile_writer import HFileOptions, HFileWriter
from hoodie.format.log_block import DATA_TYPES
from hoodie.format.log_data import read_data_block
from hoodie.format.log_file import LogFileReader
from hoodie.metadata.keys import NOT_PARTITIONED, column_key, file_groups, file_key
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.handle import Table
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.time import REQUESTED, InstantTime
from tests.support.stores import store_at

STORAGE = LocalStorage()
MODEL = "HoodieMetadataRecord"
_EMPTY = b'{"partitionToWriteStats": {}}'
_PREFIXES = {"column_stats": "col-stats", "bloom_filters": "bloom-filters"}
_SPACE = "org.apache.hudi.avro.model"
#: bytes of the least and the greatest value that Parquet's Java writer keeps
_LONGEST = 4096
Record = dict[str, Any]
Stats = tuple[Any, Any, int, int]


def make_metadata_table(
    path: str | Path,
    *,
    stats: Iterable[str] | None = (),
    blooms: bool = False,
    groups: int = 2,
    change: Callable[[list[Record]], list[Record]] = list,
) -> Path:
    """Of the table as it is now. `stats`: columns with statistics, None: all of them; `blooms`: with the
    bloom filters of base files. `change` is applied to the records of each partition. Returns its folder.
    """
    table = Table.open(str(path))
    folder = Path(path, ".hoodie/metadata")
    last = REQUESTED.last(item.time for item in table.timeline) or InstantTime("0" * 14)
    instant = f"{last}010"
    named = {properties.NAME: "t_metadata", properties.TYPE: "MERGE_ON_READ"}
    properties.create(STORAGE, str(folder), {**named, properties.BASE_FILE_FORMAT: "HFILE"})
    listing = table.listing()
    files = listing.many(listing.partitions())
    names = {
        partition: {item.name: item.size for item in items if "partition_metadata" not in item.name}
        for partition, items in files.items()
    }
    write_base(folder, "files", "files-0000-0", instant, change(file_records(names)))
    partitions = ["files"]
    indexed: dict[str, list[Record]] = {}
    every = [(partition, name) for partition, there in names.items() for name in there]
    if stats is None or list(stats):
        indexed["column_stats"] = [
            record
            for partition, name in every
            for record in stats_records(partition, name, collected(Path(path, partition, name)), stats)
        ]
    if blooms:
        bases = [(partition, name) for partition, name in every if name.endswith(".parquet")]
        indexed["bloom_filters"] = [bloom_record(str(path), *file) for file in bases]
    for partition, records in indexed.items():
        records = change(records)
        partitions.append(partition)
        numbers = file_groups(pa.array([record["key"] for record in records], pa.string()), groups)
        for number in range(groups):
            mine = [record for record, group in zip(records, numbers, strict=True) if group == number]
            write_base(folder, partition, f"{_PREFIXES[partition]}-{number:04d}-0", instant, mine)
    store_at(folder).create(Instant(InstantTime(instant), Action.DELTACOMMIT, State.COMPLETED), _EMPTY)
    properties.update(STORAGE, str(path), {properties.METADATA_PARTITIONS: ",".join(partitions)})
    return folder


def write_base(folder: Path, partition: str, file_id: str, instant: str, records: Sequence[Record]) -> Path:
    """A base file of records, which are sorted here."""
    there = folder / partition / f"{file_id}_0-0-0_{instant}.hfile"
    there.parent.mkdir(exist_ok=True)
    ordered = sorted(records, key=lambda record: str(record["key"]).encode())
    keys = pa.array([record["key"].encode() for record in ordered], pa.binary())
    values = pa.array([write_datum(MODEL, {**record, KEY_FIELD: ""}) for record in ordered], pa.binary())
    with STORAGE.output(str(there)) as sink:
        writer = HFileWriter(sink, HFileOptions())
        writer.append(keys, values)
        writer.finish({SCHEMA: schema_text().encode()})
        sink.commit()
    return there


@functools.cache
def schema_text() -> str:
    return json.dumps(schema_json(MODEL))


def file_records(names: Mapping[str, Mapping[str, int]]) -> list[Record]:
    def record(key: str, kind: int, infos: Mapping[str, int]) -> Record:
        there = {name: {"size": size, "isDeleted": False} for name, size in infos.items()}
        return {"key": key, "type": kind, "filesystemMetadata": there}

    own = {partition or NOT_PARTITIONED: infos for partition, infos in names.items()}
    return [
        record("__all_partitions__", 1, dict.fromkeys(own, 0)),
        *(record(partition, 2, infos) for partition, infos in own.items()),
    ]


def bloom_record(path: str, partition: str, name: str) -> Record:
    with BaseFileReader(STORAGE, f"{path}/{partition}/{name}") as reader:
        bloom = reader.bloom()
    assert bloom is not None
    return {
        "key": file_key(partition, name),
        "type": 4,
        "filesystemMetadata": None,
        "BloomFilterMetadata": {
            "type": bloom.type.value,
            "timestamp": "0",
            "bloomFilter": bloom.to_string().encode(),
            "isDeleted": False,
        },
    }


def stats_records(
    partition: str, name: str, stats: Mapping[str, Stats], columns: Iterable[str] | None
) -> list[Record]:
    wanted = stats if columns is None else [column for column in columns if column in stats]
    return [stats_record(partition, name, column, stats[column]) for column in wanted]


def stats_record(partition: str, name: str, column: str, stats: Stats, deleted: bool = False) -> Record:
    low, high, nulls, values = stats
    return {
        "key": column_key(column) + file_key(partition, name),
        "type": 3,
        "filesystemMetadata": None,
        "ColumnStatsMetadata": {
            "fileName": name,
            "columnName": column,
            "minValue": low,
            "maxValue": high,
            "valueCount": values,
            "nullCount": nulls,
            "totalSize": 0,
            "totalUncompressedSize": 0,
            "isDeleted": deleted,
        },
    }


def wrapped(kind: str, value: Any) -> Any:
    """A value as the record has it; `kind` without Wrapper."""
    return None if value is None else (f"{_SPACE}.{kind}Wrapper", {"value": value})


def collected(path: Path) -> dict[str, Stats]:
    """Of a base or log file, by column: (least, greatest, nulls, values)."""
    if path.suffix == ".parquet":
        return _of_base(path)
    found: list[pa.Table] = []
    with LogFileReader(STORAGE, str(path)) as log:
        for block in log.blocks():
            if block.type in DATA_TYPES:
                found.append(read_data_block(block, log.content(block)))
    if not found:
        return {}
    return {
        field.name: _of_values(field.type, pa.concat_tables(found)[field.name].to_pylist())
        for field in found[0].schema
        if _wrap(field.type) is not None
    }


def _of_base(path: Path) -> dict[str, Stats]:
    """Row groups joined as Hudi joins them: one without ends does not widen the others'."""
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        parts = [file.read_row_group(number) for number in range(file.metadata.num_row_groups)]
    found: dict[str, Stats] = {}
    for field in schema:
        if _wrap(field.type) is None:
            continue
        low: Any = None
        high: Any = None
        nulls = values = 0
        for part in parts:
            one = _of_group(field.type, part[field.name].to_pylist())
            ends = [end for end in (low, one[0]) if end is not None]
            low = min(ends, key=_order) if ends else None
            ends = [end for end in (high, one[1]) if end is not None]
            high = max(ends, key=_order) if ends else None
            nulls, values = nulls + one[2], values + one[3]
        found[field.name] = (low, high, nulls, values)
    return found


def _of_group(kind: pa.DataType, given: list[Any]) -> Stats:
    """A NaN leaves no ends, long ends leave nothing: then all values count as nulls."""
    plain = [value for value in given if value is not None]
    if pa.types.is_floating(kind) and any(math.isnan(value) for value in plain):
        return None, None, len(given) - len(plain), len(given)
    texts = pa.types.is_string(kind) and plain
    if texts and len(min(plain).encode()) + len(max(plain).encode()) >= _LONGEST:
        return None, None, len(given), len(given)
    return _of_values(kind, given)


def _of_values(kind: pa.DataType, given: list[Any]) -> Stats:
    wrap = _wrap(kind)
    assert wrap is not None
    plain = sorted((value for value in given if value is not None), key=_java)
    ends = (wrap(plain[0]), wrap(plain[-1])) if plain else (None, None)
    return (*ends, len(given) - len(plain), len(given))


def _java(value: Any) -> Any:
    """NaN is the greatest, -0.0 less than 0.0."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1, value))
    return value


def _order(wrapped_value: Any) -> Any:
    return _java(wrapped_value[1]["value"])


def _wrap(kind: pa.DataType) -> Callable[[Any], Any] | None:
    types = pa.types
    if types.is_decimal(kind):
        return lambda value: wrapped("Decimal", Decimal(value))
    if types.is_timestamp(kind):
        return lambda value: wrapped("Long", _micros(value))
    if types.is_date(kind):
        return lambda value: wrapped("Date", (value - dt.date(1970, 1, 1)).days)
    names = (
        (types.is_boolean, "Boolean"),
        (types.is_int32, "Int"),
        (types.is_int64, "Long"),
        (types.is_float32, "Float"),
        (types.is_float64, "Double"),
        (types.is_string, "String"),
    )
    name = next((name for test, name in names if test(kind)), None)
    return None if name is None else functools.partial(wrapped, name)


def _micros(value: dt.datetime) -> int:
    epoch = dt.datetime(1970, 1, 1, tzinfo=value.tzinfo)
    return (value - epoch) // dt.timedelta(microseconds=1)
