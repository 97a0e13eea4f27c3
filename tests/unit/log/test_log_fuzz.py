"""Every byte of small logs flipped, every truncation tried: read by us and by the book (`reference.walk`)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from hoodie.errors import TableError
from hoodie.format.log_block import BlockType, LogBlock, encode_block, rollback_headers
from hoodie.format.log_data import (
    DeleteRecords,
    encode_data_block,
    encode_delete_block,
    read_data_block,
    read_delete_block,
)
from hoodie.format.log_file import LogFileReader
from hoodie.format.schema import to_avro_text
from hoodie.format.settings import Codec
from hoodie.timeline.time import InstantTime
from tests.support.arrow import arrow_schema
from tests.support.tiers import full_but
from tests.unit.log.reference import OneFile, walk

TABLE = arrow_schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.float64())])
TEXT = to_avro_text(TABLE, "t")
#: what a content of these sizes may take in memory, also where a damaged byte claims more
MEMORY = 64 << 20


def rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table(
        [list(ids), [None if i % 3 == 0 else f"name {i}" for i in ids], [i / 4 for i in ids]], schema=TABLE
    )


def data_block(kind: BlockType, instant: str, table: pa.Table) -> bytes:
    content = encode_data_block(table, TEXT, kind, Codec.ZSTD)
    return b"".join(map(bytes, encode_block(kind, {0: instant, 2: TEXT}, content)))


def delete_block(instant: str) -> bytes:
    ordering: Any = pa.array([5, None, 300], pa.int64())
    records = DeleteRecords(pa.array(["k1", "k2", "k3"]), pa.array(["p", "p", ""]), ordering)
    return b"".join(map(bytes, encode_block(BlockType.DELETE, {0: instant}, encode_delete_block(records))))


def command_block(instant: str, target: str) -> bytes:
    return b"".join(
        map(
            bytes,
            encode_block(BlockType.COMMAND, rollback_headers(InstantTime(instant), InstantTime(target))),
        )
    )


AVRO = [
    data_block(BlockType.AVRO_DATA, "20240101000000000", rows(1, 3)),
    delete_block("20240101000000000"),
    command_block("20240102000000000", "20240101000000000"),
    data_block(BlockType.AVRO_DATA, "20240103000000000", rows(7, 2)),
]
PARQUET = [
    delete_block("20240101000000000"),
    data_block(BlockType.PARQUET_DATA, "20240102000000000", rows(1, 5)),
    command_block("20240103000000000", "20240102000000000"),
]


@pytest.fixture
def pool() -> Iterator[pa.MemoryPool]:
    """What Arrow takes during one test."""
    usual = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counted)
    yield counted
    pa.set_memory_pool(usual)


@dataclass(frozen=True)
class Answer:
    """What one block said: its headers, and its rows or how their reading failed."""

    block: LogBlock
    content: bytes
    rows: Any


def read(data: bytes) -> tuple[list[Answer], bool]:
    """(blocks, did the reading end in an error). Anything but a TableError goes through."""
    answers: list[Answer] = []
    with LogFileReader(OneFile(data), "f.log.1") as reader:
        try:
            for block in reader.blocks():
                content = reader.content(block)
                answers.append(Answer(block, content, decoded(block, content)))
        except TableError:
            return answers, True
    return answers, False


def decoded(block: LogBlock, content: bytes) -> Any:
    try:
        if block.type is BlockType.DELETE:
            deletes = read_delete_block(content, pa.int64())
            ordering = None if deletes.ordering is None else deletes.ordering.to_pylist()
            return deletes.keys.to_pylist(), deletes.partitions.to_pylist(), ordering
        if block.type in (BlockType.COMMAND, BlockType.CORRUPT):
            return None
        return read_data_block(block, content, TABLE).to_pylist()
    except TableError:
        return TableError


def check(data: bytes, whole: list[Answer], damage: int) -> tuple[list[Answer], bool]:
    """What `read` says, which must be right; `damage` is the first byte that is not what was written."""
    answers, failed = read(data)
    expected, expected_failed = walk(data)
    seen = [(a.block.type, a.block.offset, a.block.length, dict(a.block.headers), a.content) for a in answers]
    assert seen == [(s.type, s.offset, s.length, s.headers, s.content) for s in expected]
    assert failed == expected_failed
    # the magic after a block is part of the proof that the block is whole
    before = [answer for answer in whole if answer.block.offset + answer.block.length + 6 <= damage]
    assert answers[: len(before)] == before
    known = {answer.block.offset: answer for answer in whole}
    for answer in answers:
        there = known.get(answer.block.offset)
        if there and answer.block == there.block and answer.content == there.content:
            assert answer.rows == there.rows
    return answers, failed


def places(log: list[bytes], long: int) -> Iterator[Any]:
    """Blocks of a log by the places of their bytes, so that a failure says where it was; of the long one each
    fourth byte, as the others are in the full tier.
    """
    start = 0
    for number, block in enumerate(log):
        end = start + len(block)
        if number == long:
            yield pytest.param(log, range(start, end, 4), id=f"block {number}, each fourth")
            rest = [place for place in range(start, end) if (place - start) % 4]
            yield pytest.param(log, rest, id=f"block {number}, the others", marks=pytest.mark.full)
        else:
            yield pytest.param(log, range(start, end), id=f"block {number}")
        start = end


@pytest.mark.parametrize(("log", "range_"), [*places(AVRO, 3), *places(PARQUET, 1)])
@pytest.mark.parametrize("flip", full_but({0x80}, [0x01, 0x80, 0xFF]))
def test_every_flipped_byte(pool: pa.MemoryPool, log: list[bytes], range_: Sequence[int], flip: int) -> None:
    data = b"".join(log)
    whole, failed = read(data)
    assert not failed
    assert len(whole) == len(log)
    assert TableError not in [answer.rows for answer in whole]
    for place in range_:
        damaged = data[:place] + bytes([data[place] ^ flip]) + data[place + 1 :]
        check(damaged, whole, place)
    peak = pool.max_memory()
    assert peak is not None
    assert peak < MEMORY


LOGS = pytest.mark.parametrize(
    "log", [pytest.param(AVRO, id="avro"), pytest.param(PARQUET, id="parquet", marks=pytest.mark.full)]
)
#: each third place, and in the fast tier all around the beginnings of blocks
THIRDS = pytest.mark.parametrize("third", full_but({0}, range(3)))


def ends(log: list[bytes], third: int) -> list[int]:
    starts = [0, *itertools.accumulate(map(len, log))]
    near = {place for start in starts for place in range(start - 7, start + 7)} if third == 0 else set()
    return [end for end in range(starts[-1]) if end % 3 == third or end in near]


@LOGS
@THIRDS
def test_every_truncation(log: list[bytes], third: int) -> None:
    data = b"".join(log)
    whole, _ = read(data)
    for end in ends(log, third):
        answers, failed = read(data[:end])
        assert not failed
        expected, _ = walk(data[:end])
        assert [(a.block.offset, a.block.length) for a in answers] == [(s.offset, s.length) for s in expected]
        complete = [answer for answer in whole if answer.block.offset + answer.block.length <= end]
        assert answers[: len(complete)] == complete
        torn = answers[len(complete) :]
        assert [answer.block.type for answer in torn] == [BlockType.CORRUPT] * len(torn)


@LOGS
@THIRDS
def test_every_block_that_was_never_finished_and_another_after_it(log: list[bytes], third: int) -> None:
    """A writer died, the next one appended to its file: the next one's block is there, with one exception."""
    data, last = b"".join(log), AVRO[3]
    whole, _ = read(data + last)
    starts = [answer.block.offset for answer in whole]
    for end in ends(log, third):
        damaged = data[:end] + last
        answers, failed = check(damaged, whole, end)
        if 0 < end < 5:
            assert (answers, failed) == ([], True)  # the file begins with a piece of the magic
        elif end - 5 in starts:
            # "#HUDI" + "#HUDI#": the first magic takes the last one's "#", so Apache Hudi misses that block
            assert (answers[-1].block.type, failed) == (BlockType.CORRUPT, False)
        else:
            assert (answers[-1].rows, failed) == (whole[-1].rows, False)


def test_the_logs_are_what_they_say() -> None:
    (first, deletes, command, second), _ = read(b"".join(AVRO))
    assert (first.rows, second.rows) == (rows(1, 3).to_pylist(), rows(7, 2).to_pylist())
    assert deletes.rows == (["k1", "k2", "k3"], ["p", "p", ""], [5, None, 300])
    assert command.block.target_instant == "20240101000000000"
    assert json.loads(str(first.block.schema_text))["type"] == "record"
    assert read(b"".join(PARQUET))[0][1].rows == rows(1, 5).to_pylist()
