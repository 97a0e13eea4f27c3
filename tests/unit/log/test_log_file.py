"""Log files block by block: whole, cut, damaged, and what of them is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hoodie.errors import TableError
from hoodie.format.log_block import BlockType, HeaderKey, LogBlock, rollback_headers
from hoodie.format.log_file import LogFileReader, LogFileWriter
from hoodie.storage.local import LocalStorage
from hoodie.timeline.time import InstantTime
from tests.unit.log.reference import MAGIC, OneFile, block

DELETE, AVRO = 1, 3
FIRST = block(AVRO, {0: "001", 2: "schema"}, b"first content")
SECOND = block(DELETE, {0: "002"}, b"second")
THIRD = block(AVRO, {0: "003"}, b"third")


def read(data: bytes) -> list[tuple[str, int, int, str | None, bytes]]:
    with LogFileReader(OneFile(data), "f.log.1") as reader:
        return [seen(reader, item) for item in reader.blocks()]


def seen(reader: LogFileReader, item: LogBlock) -> tuple[str, int, int, str | None, bytes]:
    return item.type.name, item.offset, item.length, item.instant, reader.content(item)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "deep" / ".f_001.log.1_0-0-0"
    storage = LocalStorage()
    writer = LogFileWriter(storage.output(str(path)))
    sizes = [
        writer.append(BlockType.AVRO_DATA, {HeaderKey.INSTANT_TIME: "001"}, [b"rows ", b"and rows"]),
        writer.append(BlockType.DELETE, {HeaderKey.INSTANT_TIME: "001"}, b"keys"),
        writer.append(BlockType.COMMAND, rollback_headers(InstantTime("003"), InstantTime("002"))),
    ]
    assert writer.close() == writer.size == sum(sizes) == path.stat().st_size
    with LogFileReader(storage, str(path)) as reader:
        blocks = list(reader.blocks())
        assert [item.length for item in blocks] == sizes
        assert [reader.content(item) for item in blocks] == [b"rows and rows", b"keys", b""]
    assert [item.type for item in blocks] == [BlockType.AVRO_DATA, BlockType.DELETE, BlockType.COMMAND]
    assert [item.instant for item in blocks] == ["001", "001", "003"]
    assert (blocks[2].target_instant, blocks[0].target_instant, blocks[0].schema_text) == ("002", None, None)


def test_a_writer_that_is_abandoned_leaves_whole_blocks_and_no_open_file(tmp_path: Path) -> None:
    sink = LocalStorage().output(str(tmp_path / "log"))
    writer = LogFileWriter(sink)
    writer.append(BlockType.DELETE, {HeaderKey.INSTANT_TIME: "001"}, b"keys")
    writer.abandon()
    assert sink.closed
    assert [item[0] for item in read((tmp_path / "log").read_bytes())] == ["DELETE"]
    writer.abandon()


def test_headers_of_every_key_are_read() -> None:
    headers = {4: "001,002", 0: "003", 5: "AQ==", 6: "x", 7: "true", 8: "001", 2: "\u00e4"}
    with LogFileReader(OneFile(block(AVRO, headers)), "f") as reader:
        (item,) = reader.blocks()
    assert list(item.headers.items()) == list(headers.items())
    assert item.compacted_instants == ("001", "002")
    assert (item.instant, item.schema_text) == ("003", "\u00e4")


@pytest.mark.parametrize("rest", [b"", b"#", b"#HUDI"])
def test_a_rest_that_is_shorter_than_the_magic_is_nothing(rest: bytes) -> None:
    assert read(rest) == []
    assert [item[0] for item in read(FIRST + rest)] == ["AVRO_DATA"]


@pytest.mark.parametrize("cut", range(1, len(SECOND) - 5))
def test_a_cut_last_block_is_corrupt_and_the_others_are_whole(cut: int) -> None:
    end = SECOND[:-cut]
    assert read(FIRST + end) == [*read(FIRST), ("CORRUPT", len(FIRST), len(end), None, end)]


def test_a_block_that_was_cut_in_the_middle_of_the_file_is_skipped() -> None:
    torn = SECOND[:-9]
    blocks = read(FIRST + torn + THIRD)
    assert [(item[0], item[3]) for item in blocks] == [
        ("AVRO_DATA", "001"),
        ("CORRUPT", None),
        ("AVRO_DATA", "003"),
    ]
    assert blocks[1][1:3] == (len(FIRST), len(torn))


def test_a_magic_in_a_content_is_content() -> None:
    inner = block(AVRO, {0: "009"}, b"quoted")
    blocks = read(block(AVRO, {0: "001"}, MAGIC * 3 + inner) + SECOND)
    assert [(item[0], item[3]) for item in blocks] == [("AVRO_DATA", "001"), ("DELETE", "002")]


def test_a_magic_in_a_cut_content_is_taken_for_a_block() -> None:
    """Nothing in the format tells them apart; Apache Hudi does the same."""
    torn = block(AVRO, {0: "001"}, b"text " + MAGIC + b" and text", cut=20)
    blocks = read(torn + SECOND)
    assert [item[0] for item in blocks] == ["CORRUPT", "CORRUPT", "DELETE"]
    assert b"".join(item[4] for item in blocks[:2]) == torn


@pytest.mark.parametrize("distance", [*range(-80, 9), 1 << 20, 5 << 20])
def test_the_next_magic_is_found_wherever_the_windows_end(distance: int) -> None:
    """The search goes in windows of 1 MiB; a magic may lie across two of them."""
    torn = block(AVRO, {0: "001"}, b"#" * ((1 << 20) + distance), cut=30)
    blocks = read(torn + SECOND)
    assert [(item[0], item[1], item[2]) for item in blocks] == [
        ("CORRUPT", 0, len(torn)),
        ("DELETE", len(torn), len(SECOND)),
    ]


def test_a_file_that_is_all_magic_is_read_once() -> None:
    """Every magic begins a corrupt block; the search for the next one must not start over."""
    storage = OneFile(MAGIC * 50_000)
    with LogFileReader(storage, "f") as reader:
        assert sum(item.length for item in reader.blocks()) == len(storage.data)
    assert len(storage.asked) < 100


def test_contents_are_not_read_with_the_headers() -> None:
    content = bytes(8 << 20)
    storage = OneFile(block(AVRO, {0: "001"}, content) + block(AVRO, {0: "002"}, content))
    with LogFileReader(storage, "f") as reader:
        blocks = list(reader.blocks())
        assert sum(storage.asked) < 1 << 20
        assert reader.content(blocks[1]) == content
    assert [item.instant for item in blocks] == ["001", "002"]


def test_a_header_longer_than_any_buffer_is_read() -> None:
    schema = "s" * 1_000_000
    with LogFileReader(OneFile(block(AVRO, {0: "001", 2: schema}, b"x")), "f") as reader:
        (item,) = reader.blocks()
        assert (item.schema_text, reader.content(item)) == (schema, b"x")


def test_the_upper_half_of_the_first_length_does_not_count() -> None:
    """Apache Hudi 0.15.0 casts it to 32 bits; the block is whole all the same."""
    data = bytearray(FIRST + SECOND)
    data[6] ^= 0xFF
    assert [item[0] for item in read(bytes(data))] == ["AVRO_DATA", "DELETE"]


@pytest.mark.parametrize("size", [0, 1, 7, 2**31 - 1, -1, -(2**31), 2**62])
def test_a_length_from_nowhere_makes_a_corrupt_block_and_no_buffer(size: int) -> None:
    storage = OneFile(MAGIC + size.to_bytes(8, "big", signed=True) + b"x" * 100 + SECOND)
    with LogFileReader(storage, "f") as reader:
        assert [item.type.name for item in reader.blocks()] == ["CORRUPT", "DELETE"]
    assert max(storage.asked) <= 1 << 20


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        (14, 2, "log format version 2"),
        (18, 2, "block type 2"),
        (18, 7, "block type 7"),
        (18, -1, "block type -1"),
        (22, 10, "10 headers"),
        (26, 9, "header key 9"),
        (30, 2**31 - 1, "no room for header 0"),
        (30, -5, "no room for header 0"),
    ],
)
def test_damage_between_equal_lengths_is_an_error_that_names_it(place: int, value: int, why: str) -> None:
    data = bytearray(SECOND)
    data[place : place + 4] = value.to_bytes(4, "big", signed=True)
    with LogFileReader(OneFile(FIRST + bytes(data) + THIRD), "table/f.log.1") as reader:
        blocks = reader.blocks()
        assert next(blocks).instant == "001"
        with pytest.raises(
            TableError, match=f"table/f.log.1 is damaged at byte {len(FIRST)}.*{why}"
        ) as caught:
            next(blocks)
    assert caught.value.values["offset"] == len(FIRST)


@pytest.mark.parametrize("length", [5, 7, 2**31 - 1, -1])
def test_a_content_length_that_does_not_fill_the_block_is_an_error(length: int) -> None:
    whole = block(DELETE, {}, b"second")
    place = whole.index(b"second") - 4
    data = whole[:place] + length.to_bytes(4, "big", signed=True) + whole[place + 4 :]
    with pytest.raises(TableError, match="damaged at byte 0"):
        read(data)


def test_a_command_that_is_no_rollback_is_an_error() -> None:
    with pytest.raises(TableError, match="command '1'"):
        read(block(0, {0: "002", 1: "001", 3: "1"}))


def test_a_file_that_begins_with_something_else_is_no_log_file() -> None:
    with pytest.raises(TableError, match="no block begins here"):
        read(b"PAR1" + FIRST)


def test_a_file_that_becomes_shorter_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "f.log.1"
    path.write_bytes(block(AVRO, {0: "001"}, bytes(1 << 20)) + SECOND)
    with LogFileReader(LocalStorage(), str(path)) as reader:
        blocks = list(reader.blocks())
        path.write_bytes(FIRST)
        with pytest.raises(TableError, match="became shorter"):
            reader.content(blocks[0])


def test_a_block_of_another_file_is_refused() -> None:
    with LogFileReader(OneFile(block(AVRO, {}, bytes(1000))), "f") as reader:
        (item,) = reader.blocks()
    with LogFileReader(OneFile(FIRST), "g") as other, pytest.raises(TableError, match="not of this file"):
        other.content(item)


def test_a_missing_file_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LogFileReader(LocalStorage(), str(tmp_path / "none"))


def test_a_log_that_grows_is_read_as_it_was_when_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "f.log.1"
    path.write_bytes(FIRST)
    with LogFileReader(LocalStorage(), str(path)) as reader:
        with path.open("ab") as more:
            more.write(SECOND)
        items: list[Any] = list(reader.blocks())
    assert [item.instant for item in items] == ["001"]
