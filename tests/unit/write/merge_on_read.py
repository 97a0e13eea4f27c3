"""What the tests of merge-on-read writing share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie
from hoodie.format.log_block import BlockType, LogBlock
from hoodie.format.log_data import DeleteRecords, read_data_block, read_delete_block
from hoodie.format.log_file import LogFileReader
from hoodie.format.names import LogFileName
from hoodie.storage.local import LocalStorage
from tests.support.readers import read_hudi_rs
from tests.support.rows import assert_same_rows
from tests.unit.write.support import NULL_FOR_MISSING, OPTIONS, PLAIN, Pair, plain

STORAGE = LocalStorage()
TYPE = "hoodie.datasource.write.table.type"
BLOCK_FORMAT = "hoodie.logfile.data.block.format"
LOG_SIZE = "hoodie.logfile.max.size"
BLOCK_SIZE = "hoodie.logfile.data.block.max.size"
GROUPS = "hoodie.merge.small.file.group.candidates.limit"
#: no packing: new keys go to new files, all updates to logs
NO_PACKING: dict[str, Any] = {"hoodie.parquet.small.file.limit": 0}
MOR: dict[str, Any] = {**OPTIONS, TYPE: "MERGE_ON_READ"}
#: a table gets the delete flag with its first delete; later rows may lack it
PLAIN_MOR: dict[str, Any] = {**PLAIN, TYPE: "MERGE_ON_READ", **NO_PACKING, NULL_FOR_MISSING: True}


class MorPair(Pair):
    """Also read by hudi-rs, unless the table has what it can't read (see readers.HUDI_RS_GAPS)."""

    hudi_rs = True

    def check(self, what: str = "") -> None:
        super().check(what)
        if self.hudi_rs:
            assert_same_rows(read_hudi_rs(self.path), self.model.table(self.schema), what=f"hudi-rs {what}")


def log_paths(table: Path, partition: str = "") -> list[Path]:
    """Log files of a partition in the order in which they are read, by file group."""
    found = [path for path in (table / partition).iterdir() if LogFileName.parse(path.name)]
    return sorted(found, key=lambda path: (path.name.split("_")[0], parsed(path).order))


def parsed(path: Path) -> LogFileName:
    name = LogFileName.parse(path.name)
    assert name is not None
    return name


def blocks(path: Path) -> list[LogBlock]:
    with LogFileReader(STORAGE, str(path)) as reader:
        return list(reader.blocks())


def logged_rows(path: Path) -> pa.Table:
    """Rows of all data blocks of a log file, in the blocks' own schema."""
    with LogFileReader(STORAGE, str(path)) as reader:
        found = [
            read_data_block(block, reader.content(block))
            for block in reader.blocks()
            if block.type in (BlockType.AVRO_DATA, BlockType.PARQUET_DATA)
        ]
    return pa.concat_tables(found)


def logged_deletes(path: Path) -> list[DeleteRecords]:
    with LogFileReader(STORAGE, str(path)) as reader:
        return [
            read_delete_block(reader.content(block))
            for block in reader.blocks()
            if block.type is BlockType.DELETE
        ]


def stats(table: Path, instant: str) -> list[dict[str, Any]]:
    """Write statistics of a delta commit, as they are in its file."""
    commit = json.loads((table / f".hoodie/{instant}.deltacommit").read_text())
    return [stat for group in commit["partitionToWriteStats"].values() for stat in group]


def put(table: Path, *rows: tuple[str, int, str | None], **options: Any) -> Any:
    """Upsert rows of (id, ts, val) into a table without partitions."""
    named = {name.replace("__", "."): value for name, value in options.items()}
    return hoodie.write_table(plain(*rows), str(table), options={**PLAIN_MOR, **named})


def drop(table: Path, *rows: tuple[str, int], **options: Any) -> Any:
    """Upsert deletes of (id, ts)."""
    flagged = plain(*((key, ts, None) for key, ts in rows))
    flagged = flagged.append_column("_hoodie_is_deleted", pa.array([True] * len(rows)))
    named = {name.replace("__", "."): value for name, value in options.items()}
    return hoodie.write_table(flagged, str(table), options={**PLAIN_MOR, **named})
