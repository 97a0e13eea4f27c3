"""Blocks and the end of HFiles, version 3 (format.md 9.2, 9.5, 9.6), and CRC-32C of many bytes at a time.

A block is a header, the content, and its checksums:

    kind 8 bytes | stored int32 | size int32 | previous int64 | checksum 1 byte | chunk int32 | end int32
    | content | a checksum of every `chunk` bytes from the kind on, int32 each

- All numbers are big-endian.
- `size` is the length of the content as it is read. `stored` counts the compressed content and the
  checksums, `end` the header and the compressed content. `previous` is the place of the last block of the
  kind, or -1.
- The checksums are CRC-32C (Castagnoli). Gzip has a checksum of the content of its own. Only that one is
  computed for data blocks that begin as Java's gzip does.
- An HFile ends with the file info and the trailer of 4096 bytes.
"""

from __future__ import annotations

import enum
import functools
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hoodie.codec import protobuf

_CRC_ROW = 128
#: parts from which on they are worked on together
_MANY = 8
_POLYNOMIAL = 0x82F63B78


def crc32c_of_chunks(data: bytes, chunk: int) -> list[int]:
    """The checksums of consecutive parts of `chunk` bytes, the last of which may be shorter."""
    whole = len(data) // chunk if chunk % _CRC_ROW == 0 else 0
    if whole < _MANY:
        return [crc32c(data[at : at + chunk]) for at in range(0, len(data), chunk)]
    tables = _crc_tables()
    rows = np.frombuffer(data, dtype=np.uint8, count=whole * chunk).reshape(whole, -1, _CRC_ROW).copy()
    rows[:, 0, :4] ^= 255  # the register begins with ones
    parts = np.zeros(rows.shape[:2], dtype=np.uint32)
    for place in range(_CRC_ROW):
        parts ^= tables[_CRC_ROW - 1 - place][rows[:, :, place]]
    register = np.zeros(whole, dtype=np.uint32)
    ends = tables[: _CRC_ROW - 5 : -1]
    for row in parts.T:
        for place in range(4):
            row ^= ends[place][register >> np.uint32(8 * place) & np.uint32(255)]
        register = row
    rest = data[whole * chunk :]
    sums: list[int] = (register ^ np.uint32(0xFFFFFFFF)).tolist()
    return [*sums, crc32c(rest)] if rest else sums


def crc32c(data: bytes) -> int:
    """The checksum of HFile blocks; of nothing it is 0."""
    tables = _crc_tables()
    if len(data) < 4:
        register = 0xFFFFFFFF
        for byte in data:
            register = register >> 8 ^ int(tables[0, (register ^ byte) & 255])
        return register ^ 0xFFFFFFFF
    padded = np.zeros(-(-len(data) // _CRC_ROW) * _CRC_ROW, dtype=np.uint8)
    start = len(padded) - len(data)  # zeros before the first byte change nothing
    padded[start:] = np.frombuffer(data, dtype=np.uint8)
    padded[start : start + 4] ^= 255  # the register begins with ones
    rows = padded.reshape(-1, _CRC_ROW)
    parts = np.bitwise_xor.reduce(tables[np.arange(_CRC_ROW - 1, -1, -1), rows], axis=1)
    ends = [table.tolist() for table in tables[: _CRC_ROW - 5 : -1]]
    register = 0
    for part in parts.tolist():
        register = (
            part
            ^ ends[0][register & 255]
            ^ ends[1][register >> 8 & 255]
            ^ ends[2][register >> 16 & 255]
            ^ ends[3][register >> 24]
        )
    return register ^ 0xFFFFFFFF


@functools.cache
def _crc_tables() -> npt.NDArray[np.uint32]:
    """What a byte adds when so many bytes follow it in a row."""
    tables = np.zeros((_CRC_ROW, 256), dtype=np.uint32)
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, first >> 1 ^ np.uint32(_POLYNOMIAL), first >> 1)
    tables[0] = first
    for number in range(1, _CRC_ROW):
        before = tables[number - 1]
        tables[number] = before >> 8 ^ first[before & 255]
    return tables


HEADER = struct.Struct(">8siiqBii")
#: bytes that each checksum is made of, as all writers have it
_CHUNK = 1 << 14
_LEAST_CHUNK = 512
#: deflate makes at most about so many bytes of one
_MOST_EXPANSION = 1100
#: of gzip: blocks are a little larger than at Apache Hudi's, 6, in three fifths of the time
LEVEL = 4
#: as Java writes it
_GZIP_HEAD = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
#: what is the same of all releases of Java
_PLAIN_HEAD = _GZIP_HEAD[:-1]


class Kind(bytes, enum.Enum):
    DATA = b"DATABLK*"
    META = b"METABLKc"
    LEAF_INDEX = b"IDXLEAF2"
    INTERMEDIATE_INDEX = b"IDXINTE2"
    ROOT_INDEX = b"IDXROOT2"
    FILE_INFO = b"FILEINF2"


class Compression(enum.IntEnum):
    """Of all blocks of a file, as its trailer numbers them; those of others are refused."""

    GZIP = 1
    NONE = 2


class Checksum(enum.IntEnum):
    #: there are checksums' bytes, which nobody looks at: Apache Hudi 1.x has no other
    UNCHECKED = 0
    CRC32 = 1
    #: what HBase writes
    CRC32C = 2


def _crc32(data: bytes, chunk: int) -> list[int]:
    return [zlib.crc32(data[at : at + chunk]) for at in range(0, len(data), chunk)]


#: the checksums of the chunks of some bytes
_SUMS: dict[int, Callable[[bytes, int], list[int]]] = {
    Checksum.CRC32: _crc32,
    Checksum.CRC32C: crc32c_of_chunks,
}


class Damage(Exception):
    """What is wrong with the bytes of a file."""


class Block(NamedTuple):
    """`stored`: bytes in the file, with header and checksums."""

    content: bytes
    stored: int


def decode_block(
    data: memoryview, place: int, kind: Kind, compression: Compression, most: int, exact: bool = True
) -> Block:
    """The block that `data` begins with, and, where `exact`, is; of at most `most` bytes of content.

    `place` is where it lies in its file, for errors. Raises Damage.
    """
    if len(data) < HEADER.size:
        raise Damage(f"no block fits at {place}")
    found, stored, size, _, checksum, chunk, end = HEADER.unpack_from(data)
    if found != kind:
        raise Damage(f"the block at {place} is {found!r}, not {kind.value!r}")
    whole = HEADER.size + stored
    if not HEADER.size <= end <= whole <= len(data) or (exact and whole != len(data)):
        raise Damage(f"the block at {place} has impossible sizes")
    if not 0 <= size <= most:
        raise Damage(f"the block at {place} has impossible sizes: {size:,} bytes, at most {most:,} are read")
    if chunk < _LEAST_CHUNK or whole - end != 4 * -(-end // chunk):
        raise Damage(f"the block at {place} lacks checksums, or has bytes behind them")
    packed, zipped = data[HEADER.size : end], compression is Compression.GZIP
    if checksum in _SUMS:
        told_by_gzip = zipped and kind is Kind.DATA and packed[: len(_PLAIN_HEAD)] == _PLAIN_HEAD
        if not told_by_gzip and _packed(_SUMS[checksum](bytes(data[:end]), chunk)) != data[end:whole]:
            raise Damage(f"the checksum of the block at {place} is wrong")
    elif checksum != Checksum.UNCHECKED:
        raise Damage(f"the block at {place} has checksums of kind {checksum}, known are 0, 1 and 2")
    content = _unzipped(packed, size, place) if zipped else bytes(packed)
    if len(content) != size:
        raise Damage(f"the block at {place} has {len(content)} bytes, its header says {size}")
    return Block(content, whole)


def encode_block(
    kind: Kind,
    content: bytes,
    previous: int,
    compression: Compression,
    checksum: Checksum,
    level: int = LEVEL,
) -> bytes:
    packed = _zipped(content, level) if compression is Compression.GZIP else content
    end = HEADER.size + len(packed)
    sums = 4 * -(-end // _CHUNK)
    data = HEADER.pack(kind, len(packed) + sums, len(content), previous, checksum, _CHUNK, end) + packed
    if checksum is Checksum.UNCHECKED:
        return data + bytes(sums)
    return data + _packed(_SUMS[checksum](data, _CHUNK))


def _packed(sums: list[int]) -> bytes:
    return struct.pack(f">{len(sums)}I", *sums)


def _zipped(content: bytes, level: int) -> bytes:
    deflate = zlib.compressobj(level, wbits=-zlib.MAX_WBITS)
    packed = deflate.compress(content) + deflate.flush()
    return _GZIP_HEAD + packed + struct.pack("<II", zlib.crc32(content), len(content))


def _unzipped(data: memoryview, size: int, place: int) -> bytes:
    """At most one byte more than `size`."""
    if size > _MOST_EXPANSION * max(1, len(data)):
        raise Damage(f"the block at {place}: {len(data)} bytes can't become {size}")
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        content = inflate.decompress(data, size + 1)
    except zlib.error as error:
        raise Damage(f"the block at {place} can't be decompressed ({error})") from None
    if not inflate.eof or inflate.unused_data:
        raise Damage(f"the block at {place} is cut, or longer than its header says")
    return content


TRAILER_BYTES = 4096
_MAGIC = b'TRABLK"$'
_VERSION = b"\3\0\0\3"
_INFO_MAGIC = b"PBUF"
#: HBase loads the class
_COMPARATOR = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
_COMPARATOR_FIELD, _CODEC, _ENCRYPTION = 11, 12, 13
_MOST_LEVELS = 16

#: entries of the file info
SCHEMA, MIN_KEY, MAX_KEY, BLOOM_TYPE = b"schema", b"minRecordKey", b"maxRecordKey", b"bloomFilterTypeCode"
#: says that every cell ends with a version, which the greatest version of the file says is 0
CELL_VERSION, GREATEST_VERSION = b"KEY_VALUE_VERSION", b"MAX_MEMSTORE_TS_KEY"
#: name of the meta block that holds Apache Hudi's bloom filter
BLOOM_FILTER = b"bloomFilter"


@dataclass(frozen=True, kw_only=True)
class Trailer:
    """Places of blocks, and numbers of entries. `levels` are those of the index of data blocks."""

    info: int
    load_on_open: int
    index_bytes: int = 0
    all_bytes: int = 0
    data_entries: int
    meta_entries: int
    cells: int
    levels: int = 1
    first_data: int = 0
    last_data: int = 0
    compression: Compression

    @classmethod
    def parse(cls, data: bytes) -> Trailer:
        """Raises Damage."""
        if data[: len(_MAGIC)] != _MAGIC:
            raise Damage("it has no trailer")
        version = int.from_bytes(data[-3:], "big")
        if version != _VERSION[-1]:
            raise Damage(f"version {version} is not supported")
        numbers: dict[int, int] = {}
        try:
            for field, value in protobuf.read_fields(protobuf.read_delimited(data, len(_MAGIC))):
                if field == _ENCRYPTION:
                    raise Damage("it is encrypted, which is not supported")
                if isinstance(value, int):
                    numbers[field] = value
        except protobuf.Damage as error:
            raise Damage(f"its trailer: {error}") from None
        codec = numbers.pop(_CODEC, Compression.NONE)
        if codec not in list(map(int, Compression)):
            raise Damage(f"codec {codec} is not supported")
        found = {name: numbers[field] for field, name in _FIELDS.items() if field in numbers}
        trailer = cls(**{**_ABSENT, **found}, compression=Compression(codec))
        if not 1 <= trailer.levels <= _MOST_LEVELS:
            raise Damage(f"an index of {trailer.levels} levels is not supported")
        return trailer

    def to_bytes(self) -> bytes:
        parts = [protobuf.field(number, getattr(self, name)) for number, name in _FIELDS.items()]
        parts += [protobuf.field(_COMPARATOR_FIELD, _COMPARATOR), protobuf.field(_CODEC, self.compression)]
        data = _MAGIC + protobuf.delimited(b"".join(parts))
        return data.ljust(TRAILER_BYTES - len(_VERSION), b"\0") + _VERSION


_FIELDS = {
    1: "info",
    2: "load_on_open",
    3: "index_bytes",
    4: "all_bytes",
    5: "data_entries",
    6: "meta_entries",
    7: "cells",
    8: "levels",
    9: "first_data",
    10: "last_data",
}
_ABSENT = {"info": 0, "load_on_open": 0, "data_entries": 0, "meta_entries": 0, "cells": 0}


def decode_info(content: bytes) -> dict[bytes, bytes]:
    """The file info: texts and numbers of the writer by name. Raises Damage."""
    if content[: len(_INFO_MAGIC)] != _INFO_MAGIC:
        raise Damage("its file info has an unknown form")
    found: dict[bytes, bytes] = {}
    try:
        for field, value in protobuf.read_fields(protobuf.read_delimited(content, len(_INFO_MAGIC))):
            if field == 1 and isinstance(value, bytes):
                pair = dict(protobuf.read_fields(value))
                name, text = pair.get(1), pair.get(2, b"")
                if isinstance(name, bytes) and isinstance(text, bytes):
                    found[name] = text
    except protobuf.Damage as error:
        raise Damage(f"its file info: {error}") from None
    versioned = found.get(CELL_VERSION) == (1).to_bytes(4, "big")
    if versioned and any(found.get(GREATEST_VERSION, b"")):
        raise Damage("its cells have versions, which Apache Hudi does not write")
    return found


def encode_info(entries: Mapping[bytes, bytes]) -> bytes:
    """In the order of the names, as HBase writes it."""
    pairs = (protobuf.field(1, name) + protobuf.field(2, entries[name]) for name in sorted(entries))
    return _INFO_MAGIC + protobuf.delimited(b"".join(protobuf.field(1, pair) for pair in pairs))
