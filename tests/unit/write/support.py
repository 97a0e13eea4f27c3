"""What the tests of the write path share: options, folder listings, and the model beside the table."""

from __future__ import annotations

import copy
import hashlib
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq

import hoodie
from hoodie.write.operation import WriteResult
from hoodie.write.settings import TABLE_VERSION
from tests.support.arrow import arrow_schema
from tests.support.oracle import Mode, Model
from tests.support.rows import assert_same_rows
from tests.support.tables import SMALL_SCHEMA, as_table

KEY = "hoodie.datasource.write.recordkey.field"
PARTITION = "hoodie.datasource.write.partitionpath.field"
ORDERING = "hoodie.datasource.write.precombine.field"
KEYGEN = "hoodie.datasource.write.keygenerator.class"
PAYLOAD = "hoodie.datasource.write.payload.class"
HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
URL_ENCODE = "hoodie.datasource.write.partitionpath.urlencode"
MAX_FILE = "hoodie.parquet.max.file.size"
SMALL_FILE = "hoodie.parquet.small.file.limit"
RECORD_SIZE = "hoodie.copyonwrite.record.size.estimate"
BLOCK_SIZE = "hoodie.parquet.block.size"
BUDGET = "hoodie.memory.merge.max.size"
SORT_MODE = "hoodie.bulkinsert.sort.mode"
VERSION = "hoodie.write.table.version"
NULL_FOR_MISSING = "hoodie.write.set.null.for.missing.columns"

#: keys, partition and ordering of SMALL_SCHEMA and FULL_SCHEMA
OPTIONS: dict[str, Any] = {KEY: "id", PARTITION: "region", ORDERING: "ts"}

#: key, ordering and one value, no partition
PLAIN: dict[str, Any] = {KEY: "id", ORDERING: "ts"}
PLAIN_SCHEMA = arrow_schema([("id", pa.string()), ("ts", pa.int64()), ("val", pa.string())])


def plain(*rows: tuple[str, int, str | None], schema: pa.Schema = PLAIN_SCHEMA) -> pa.Table:
    """Rows of (id, ts, val)."""
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def values(table: Path, *names: str) -> list[Any]:
    """Sorted rows of the snapshot: tuples of these columns, or bare values of one."""
    rows = hoodie.read_table(str(table)).select(list(names)).to_pylist()
    found = [tuple(row.values()) for row in rows]
    return sorted((row[0] for row in found) if len(names) == 1 else found, key=repr)


def listing(folder: Path) -> dict[str, str]:
    """Every path below `folder` with a digest of its content; equal when nothing was written."""
    return {
        str(path.relative_to(folder)): "" if path.is_dir() else hashlib.md5(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
    }


def data_files(table: Path, partition: str | None = None) -> list[Path]:
    """The latest committed base files, in the order of `hoodie.file_groups`."""
    return [
        table / group["partition"] / group["slices"][0]["name"]
        for group in hoodie.file_groups(str(table))
        if partition is None or group["partition"] == partition
    ]


def stored_keys(file: Path) -> list[str]:
    """Record keys of a base file, in file order."""
    return pq.ParquetFile(file).read(["_hoodie_record_key"]).column(0).to_pylist()  # type: ignore[return-value]


class Pair:
    """A table and its model; every write goes to both."""

    def __init__(
        self,
        path: Path,
        options: Mapping[str, Any],
        schema: pa.Schema = SMALL_SCHEMA,
        *,
        keys: Sequence[str] = ("id",),
        partition: Any = ("region",),
        ordering: str | None = "ts",
        mode: Mode | str = Mode.EVENT_TIME,
    ) -> None:
        self.path = path
        self.options = dict(options)
        self.schema = schema
        version = int(self.options.get(VERSION, TABLE_VERSION.default))
        self.model = Model(keys, partition, ordering, mode, version)

    def write(self, rows: Sequence[Mapping[str, Any]], operation: str = "upsert", **more: Any) -> WriteResult:
        """Write to both, and compare."""
        options = {**self.options, **{name.replace("__", "."): value for name, value in more.items()}}
        table = as_table(rows, self.schema)
        result = hoodie.write_table(table, str(self.path), operation=operation, options=options)
        if operation in ("upsert", "delete"):
            getattr(self.model, operation)(rows)
        else:
            combine = str(options.get("hoodie.combine.before.insert", "")).lower() == "true"
            getattr(self.model, operation)(rows, combine=combine)
        self.check(f"after {operation}")
        return result

    def check(self, what: str = "") -> None:
        rows = hoodie.read_table(str(self.path))
        assert_same_rows(rows, self.model.table(self.schema), what=what)
        numbers = rows.column("_hoodie_commit_seqno").to_pylist()
        assert len(set(numbers)) == len(numbers), f"sequence numbers repeat {what}"


P = TypeVar("P", bound=Pair)


class Templates:
    """Tables that tests begin with and change: each is made once and copied for every test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[Any, str, int | None], Pair] = {}

    def copy(self, path: Path, make: Callable[..., P], *arguments: Any) -> P:
        """What `make(path, *arguments)` gives; names of tables are those of their folders."""
        key = (make, repr(arguments), TABLE_VERSION.default)
        if key not in self._made:
            self._made[key] = make(self._folder / str(len(self._made)) / path.name, *arguments)
        template = cast(P, self._made[key])
        found = copy.deepcopy(template)
        found.path = path
        shutil.copytree(template.path, path)
        return found


def check_meta(table: pa.Table, base: Path) -> None:
    """Meta columns of a snapshot are consistent: keys, paths, file names, unique sequence numbers."""
    numbers = table.column("_hoodie_commit_seqno").to_pylist()
    assert len(set(numbers)) == len(numbers), "sequence numbers repeat"
    columns = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_partition_path", "_hoodie_file_name")
    found: set[tuple[str, str]] = set()
    for time, number, partition, name in zip(*(table.column(c).to_pylist() for c in columns), strict=True):
        assert number.startswith(f"{time}_")
        found.add((partition, name))
    for partition, name in found:
        rows = pq.ParquetFile(base / partition / name).read(["_hoodie_file_name", "_hoodie_partition_path"])
        assert set(rows.column(0).to_pylist()) == {name}
        assert set(rows.column(1).to_pylist()) == {partition}


def ids(numbers: Iterable[int]) -> list[str]:
    return [f"k{number:05d}" for number in numbers]
