"""The bytes of one block, as Apache Hudi 0.15.0 writes them."""

from __future__ import annotations

import pytest

from hoodie.errors import InputError
from hoodie.format.log_block import BlockType, HeaderKey, encode_block, rollback_headers
from hoodie.timeline.time import InstantTime
from tests.unit.log import reference

#: format.md 8.6, a whole log file of Apache Hudi 0.15.0
COMMAND = bytes.fromhex(
    "23 48 55 44 49 23  00 00 00 00 00 00 00 5b  00 00 00 01  00 00 00 00  00 00 00 03"
    "00 00 00 00  00 00 00 11" + b"20261120235726656".hex() + "00 00 00 01  00 00 00 11"
    + b"20261120235724239".hex() + "00 00 00 03  00 00 00 01" + b"0".hex()
    + "00 00 00 00 00 00 00 00  00 00 00 00  00 00 00 00 00 00 00 61"
)  # fmt: skip


def test_a_rollback_block_is_the_105_bytes_of_apache_hudi() -> None:
    headers = rollback_headers(InstantTime("20261120235726656"), InstantTime("20261120235724239"))
    assert len(COMMAND) == 105
    assert b"".join(map(bytes, encode_block(BlockType.COMMAND, headers))) == COMMAND


@pytest.mark.parametrize("content", [b"", b"\x00" * 1000, [b"one", bytearray(b"two"), memoryview(b"three")]])
def test_a_block_has_its_parts_in_order(content: bytes | list[bytes]) -> None:
    whole = content if isinstance(content, bytes) else b"".join(content)
    headers: dict[int, str] = {
        HeaderKey.SCHEMA: '"\u00e4"',
        HeaderKey.INSTANT_TIME: "001",
        HeaderKey.COMPACTED_BLOCK_TIMES: "1,2",
    }
    made = b"".join(map(bytes, encode_block(BlockType.AVRO_DATA, headers, content)))
    assert made == reference.block(3, {2: '"\u00e4"', 0: "001", 4: "1,2"}, whole)


def test_the_content_is_not_copied() -> None:
    content = bytes(1000)
    assert any(piece is content for piece in encode_block(BlockType.PARQUET_DATA, {}, content))


@pytest.mark.parametrize("key", [6, 9, -1])
def test_headers_that_no_writer_has_are_refused(key: int) -> None:
    with pytest.raises(ValueError, match="HeaderKey"):
        encode_block(BlockType.AVRO_DATA, {key: "x"})


def test_a_corrupt_block_is_never_written() -> None:
    with pytest.raises(ValueError, match="CORRUPT"):
        encode_block(BlockType.CORRUPT, {})


def test_a_block_beyond_2_gib_is_refused() -> None:
    part = memoryview(bytearray(1 << 28))
    with pytest.raises(InputError, match=r"hoodie\.logfile\.data\.block\.max\.size"):
        encode_block(BlockType.AVRO_DATA, {}, [part] * 8)
