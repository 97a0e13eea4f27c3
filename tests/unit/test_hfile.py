"""HFiles: those that Apache Hudi wrote, some put together by hand, and damaged ones."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie.codec.avro import read_record
from hoodie.errors import TableError
from hoodie.format.hfile import HFileReader
from hoodie.format.hfile_block import crc32c, crc32c_of_chunks
from hoodie.format.hfile_cells import CELLS, pairs
from hoodie.storage.local import LocalStorage
from tests.support.bootstrap import unpacked
from tests.support.properties import examples

STORAGE = LocalStorage()
NONE, GZIP = 2, 1


@pytest.fixture(scope="module")
def bootstrapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("bootstrapped"))


def test_checksums() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # of the CRC catalogue
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720
    assert [crc32c(b""), crc32c(b"a")] == [0, 0xC1D04330]
    data = random.Random(1).randbytes(20 * 1024 + 7)
    for chunk in (512, 640, 700, 1 << 14):
        parts = [data[at : at + chunk] for at in range(0, len(data), chunk)]
        assert crc32c_of_chunks(data, chunk) == list(map(crc32c, parts))


def test_a_flipped_bit_is_found(bootstrapped: Path) -> None:
    data = bytearray(next(bootstrapped.rglob("*.hfile")).read_bytes())
    data[200] ^= 4
    with pytest.raises(TableError, match="checksum"), HFileReader.of_bytes(bytes(data), "flipped") as reader:
        list(reader.scan())


def test_the_index_of_a_bootstrap(bootstrapped: Path) -> None:
    for file in bootstrapped.rglob("*.hfile"):
        with HFileReader.open(STORAGE, str(file)) as reader:
            found = cells(reader.scan())
            assert len(found) == reader.entries > 0
            assert cells(reader.get(key for key, _ in reversed(found))) == found
            told = read_record("HoodieBootstrapIndexInfo", reader.info[b"INDEX_INFO"])
            assert told["numKeys"] == len(found)


def cells(batches: Iterable[pa.RecordBatch]) -> list[tuple[bytes, bytes]]:
    """All cells; batches are of one form, and none is empty."""
    held = list(batches)
    assert all(batch.schema == CELLS and batch.num_rows for batch in held)
    return list(pairs(held))


def _block(magic: bytes, content: bytes, codec: int) -> bytes:
    data = gzip.compress(content) if codec == GZIP else content
    sums = bytes(4 * -(-(33 + len(data)) // 16384))
    sizes = struct.pack(">iiqBii", len(data) + len(sums), len(content), -1, 0, 16384, 33 + len(data))
    return magic + sizes + data + sums


def _cell_key(row: bytes) -> bytes:
    return struct.pack(">h", len(row)) + row + b"\0" + struct.pack(">q", 2**63 - 1) + b"\4"


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def _vint(number: int) -> bytes:
    """As Hadoop writes lengths."""
    size = -(-number.bit_length() // 8)
    return bytes([number]) if number < 128 else bytes([144 - size]) + number.to_bytes(size, "big")


def hfile(rows: list[tuple[bytes, bytes]], codec: int = NONE, per_block: int = 3) -> bytes:
    """An HFile as format.md 9 describes it, without checksums."""
    data, index = b"", b""
    for start in range(0, len(rows), per_block):
        cells = b""
        for row, value in rows[start : start + per_block]:
            key = _cell_key(row)
            cells += struct.pack(">ii", len(key), len(value)) + key + value + b"\0"
        block, first = _block(b"DATABLK*", cells, codec), _cell_key(rows[start][0])
        index += struct.pack(">qi", len(data), len(block)) + _vint(len(first)) + first
        data += block
    root = _block(b"IDXROOT2", index, codec)
    root += _block(b"IDXROOT2", b"", codec)
    info = _block(b"FILEINF2", b"PBUF" + _varint(0), codec)
    numbers = {1: len(data) + len(root), 2: len(data), 5: -(-len(rows) // per_block), 6: 0, 7: len(rows)}
    text = b"".join(
        _varint(field << 3) + _varint(value) for field, value in (numbers | {8: 1, 12: codec}).items()
    )
    trailer = b'TRABLK"$' + _varint(len(text)) + text
    return data + root + info + trailer.ljust(4092, b"\0") + b"\3\0\0\3"


ROWS = [(f"key {number:03d}".encode(), b"v" * (number % 7)) for number in range(50)]


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_keys_of_many_blocks(codec: int) -> None:
    with HFileReader.of_bytes(hfile(ROWS, codec), "made") as reader:
        assert cells(reader.scan()) == ROWS
        chosen = ROWS[::7]
        asked = [key for key, _ in chosen] + [b"a", b"key 0005", b"z"]
        assert cells(reader.get(reversed(asked))) == chosen
        assert cells(reader.get([])) == []
        assert cells(reader.scan(b"key 007", b"key 0111")) == ROWS[7:12]
        assert cells(reader.get_prefixes([b"key 02", b"key 01", b"x", b"key 021"])) == ROWS[10:30]
    with HFileReader.of_bytes(hfile([], codec), "empty") as reader:
        assert cells(reader.scan()) == cells(reader.get([b"a"])) == cells(reader.get_prefixes([b""])) == []


def test_keys_longer_than_a_byte_tells() -> None:
    rows = [(bytes([65 + number]) * 100 * number, b"v") for number in range(1, 6)]
    with HFileReader.of_bytes(hfile(rows, per_block=1), "made") as reader:
        assert cells(reader.scan()) == cells(reader.get([key for key, _ in rows])) == rows


def _read(data: bytes) -> list[tuple[bytes, bytes]]:
    with HFileReader.of_bytes(data, "damaged.hfile") as reader:
        cells(reader.get([ROWS[0][0], ROWS[-1][0]]))
        return cells(reader.scan())


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_damaged_bytes_are_an_error_that_names_the_file(codec: int) -> None:
    whole, chance = hfile(ROWS, codec, per_block=10), random.Random(codec)
    refused = 0
    for _ in range(examples(400)):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 1, 4))):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
        cut = bytes(data[: chance.randrange(len(data))] if chance.random() < 0.2 else data)
        try:
            _read(cut)
        except TableError as error:
            refused += "damaged.hfile" in str(error)
    assert refused > examples(400) / 4


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        (5, 1 << 40, "no .* entries"),
        (8, 2, "not b'IDXLEAF2'"),
        (8, 1 << 20, "1048576 levels"),
        (7, 49, "50 cells where the trailer says 49"),
        (1, 0, "file info is not at 0"),
        (12, 3, "codec 3"),
        (2, 1 << 60, "behind its end"),
    ],
)
def test_numbers_of_the_trailer_are_checked(field: int, value: int, why: str) -> None:
    whole = hfile(ROWS)
    text = _varint(field << 3) + _varint(value)
    at = whole.index(b'TRABLK"$') + 8
    length = whole[at]
    data = whole[:at] + bytes([length + len(text)]) + whole[at + 1 : at + 1 + length] + text
    with pytest.raises(TableError, match=why):
        _read(data.ljust(len(whole) - 4, b"\0") + whole[-4:])


def test_a_block_that_promises_too_much_is_not_decompressed() -> None:
    whole = hfile(ROWS, GZIP)
    bomb = bytearray(whole)
    bomb[12:16] = struct.pack(">i", 1 << 28)
    with pytest.raises(TableError, match="can't become"):
        _read(bytes(bomb))
    bomb[12:16] = struct.pack(">i", 2**31 - 1)
    with pytest.raises(TableError, match="impossible sizes"):
        _read(bytes(bomb))
