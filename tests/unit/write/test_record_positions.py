"""Log blocks name the rows of the base file that theirs change, where the index has found these."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.format.log_block import POSITIONS_BASE, RECORD_POSITIONS, BlockType, LogBlock
from hoodie.format.log_data import is_partial, read_data_block, read_delete_block
from hoodie.format.log_file import LogFileReader
from hoodie.format.names import BaseFileName
from hoodie.storage.local import LocalStorage
from tests.unit.log.reference import positions_of
from tests.unit.write.merge_on_read import BLOCK_FORMAT, BLOCK_SIZE, LOG_SIZE, TYPE, log_paths

KEY = "_hoodie_record_key"
VERSION = "hoodie.write.table.version"
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    TYPE: "MERGE_ON_READ",
    "hoodie.parquet.small.file.limit": "0",
    VERSION: "9",
}
BASE = range(100)
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
RECORD_INDEX = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}


def row(number: int, ts: int, **more: Any) -> dict[str, Any]:
    return {"id": f"k{number:03}", "ts": ts, "v": f"{number} {ts}", "_hoodie_is_deleted": False, **more}


class Written:
    """A table of one base file, whose rows are not in the order of their keys."""

    def __init__(
        self,
        path: Path,
        options: dict[str, str] | None = None,
        *,
        base: list[int] | None = None,
        flag: bool = True,
    ) -> None:
        self.folder = path
        self.options = {**OPTIONS, **(options or {})}
        order = [7 * number % len(BASE) for number in BASE] if base is None else base
        operation = "insert" if options == BUCKETS else "bulk_insert"
        rows = [row(number, 10) for number in order]
        if not flag:
            rows = [{name: item[name] for name in ("id", "ts", "v")} for item in rows]
        self.write(rows, operation)

    def write(self, rows: list[dict[str, Any]], operation: str = "upsert", **options: Any) -> None:
        hoodie.write_table(rows, str(self.folder), operation=operation, options={**self.options, **options})

    @property
    def bases(self) -> dict[str, list[str]]:
        """The keys of each base file in the order of its rows, by its instant."""
        found = dict[str, Any]()
        for path in self.folder.glob("*.parquet"):
            name = BaseFileName.parse(path.name)
            assert name is not None
            found[str(name.instant)] = pq.read_table(path, columns=[KEY]).column(0).to_pylist()
        return found

    def blocks(self) -> Iterator[tuple[LogBlock, list[str]]]:
        """Each block of the logs with the keys of its records, in their order."""
        for path in sorted(log_paths(self.folder), key=lambda path: path.name.split("_")[1]):
            with LogFileReader(LocalStorage(), str(path)) as reader:
                for block in reader.blocks():
                    content = reader.content(block)
                    keys: Any
                    if block.type is BlockType.DELETE:
                        keys = read_delete_block(content).keys
                    else:
                        keys = read_data_block(block, content, partial=True).column(KEY)
                    yield block, keys.to_pylist()

    def check(self, *expected: set[int]) -> list[LogBlock]:
        """Each block names the rows of its records in the base file; their numbers are those expected."""
        found = list(self.blocks())
        for block, keys in found:
            stored = self.bases[block.headers[POSITIONS_BASE]]
            assert [stored[place] for place in positions_of(block.headers[RECORD_POSITIONS])] == keys
        assert [{int(key[1:]) for key in keys} for _, keys in found] == [*expected]
        return [block for block, _ in found]

    def check_none(self) -> None:
        found = [block for block, _ in self.blocks()]
        assert found
        assert not any({RECORD_POSITIONS, POSITIONS_BASE} & {*block.headers} for block in found)


@pytest.mark.parametrize("version", ["8", "9"])
@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
def test_updates_and_deletes(tmp_path: Path, index: str, version: str) -> None:
    table = Written(tmp_path / "t", {"hoodie.index.type": index, VERSION: version})
    table.write([row(number, 11, _hoodie_is_deleted=number % 4 == 0) for number in (9, 50, 3, 4, 99, 0, 8)])
    table.write([row(number, 12) for number in (60, 3, 41)], "delete")
    table.write([row(number, 13) for number in (8, 3, 200)])
    blocks = table.check({9, 50, 3, 99}, {4, 0, 8}, {60, 3, 41}, {8, 3})
    data, delete = BlockType.AVRO_DATA, BlockType.DELETE
    assert [block.type for block in blocks] == [data, delete, delete, data]


def test_blocks_of_several_log_files(tmp_path: Path) -> None:
    table = Written(tmp_path / "t")
    some: dict[str, Any] = {BLOCK_FORMAT: "parquet", LOG_SIZE: 1, BLOCK_SIZE: 2000}
    table.write([row(number, 11) for number in range(0, 100, 2)], **some)
    table.write([row(number, 12) for number in range(50)], "delete", **some)
    found = list(table.blocks())
    assert len(log_paths(tmp_path / "t")) == len(found) > 4
    numbers = [{int(key[1:]) for key in keys} for _, keys in found]
    table.check(*numbers)
    assert sorted(number for block in numbers for number in block) == sorted([*range(0, 100, 2), *range(50)])


def test_blocks_of_changed_columns(tmp_path: Path) -> None:
    table = Written(tmp_path / "t", flag=False)
    source = pa.table({"id": ["k042", "k007", "k090"], "n": [11, 12, 13]})
    hoodie.sql(
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.ts = s.n",
        tables={"t": str(table.folder), "s": source},
        options=table.options,
    )
    (block,) = table.check({42, 7, 90})
    assert is_partial(block)


def test_the_base_file_is_the_newest_one(tmp_path: Path) -> None:
    table = Written(tmp_path / "t")
    table.write([row(5, 11), row(6, 11)])
    due = {"hoodie.compact.inline.max.delta.commits": "1"}
    hoodie.compact_table(str(table.folder), mode="schedule", options=due)
    table.write([row(5, 12)])
    (first, beside) = table.check({5, 6}, {5})
    assert first.headers[POSITIONS_BASE] == beside.headers[POSITIONS_BASE], (
        "that of the compaction is not there"
    )
    hoodie.compact_table(str(table.folder), mode="execute")
    table.write([row(5, 13)])
    (*_, last) = table.check({5, 6}, {5}, {5})
    assert last.headers[POSITIONS_BASE] == max(table.bases) > first.headers[POSITIONS_BASE]


@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.write.record.positions": "false"},
        {VERSION: "6"},
        {VERSION: "6", "hoodie.write.record.positions": "true"},
        BUCKETS,
        RECORD_INDEX,
    ],
    ids=["off", "version 6", "version 6, on", "buckets", "record index"],
)
def test_none(tmp_path: Path, options: dict[str, str]) -> None:
    table = Written(tmp_path / "t", options)
    table.write([row(number, 11, _hoodie_is_deleted=number % 4 == 0) for number in (9, 50, 3, 4)])
    table.write([row(60, 12)], "delete")
    table.check_none()


def test_a_key_that_has_several_rows_leaves_them_out(tmp_path: Path) -> None:
    table = Written(tmp_path / "t", base=[1, 2, 1, 3])
    table.write([row(1, 11), row(2, 11)])
    table.write([row(1, 12)], "delete")
    table.check_none()
    table.write([row(3, 13)])
    *_, (last, _) = table.blocks()
    assert positions_of(last.headers[RECORD_POSITIONS]) == [3]
