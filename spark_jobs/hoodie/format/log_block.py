"""One block of a log file: its kinds, its headers, and its bytes (format.md 8.1 to 8.3, 15.5).

    #HUDI# | size int64 | version int32 | type int32 | headers | content length int64 | content | footers
           | length int64

All numbers are big-endian; `size` counts what follows it, `length` is size + 6. Headers and footers are maps:
count int32, then per entry key int32, bytes int32, UTF-8 text. Apache Hudi keeps both lengths in 32 bits and
ignores the upper half of the fields (0.15.0 HoodieLogFileReader), and so does this module.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from hoodie.errors import InputError
from hoodie.format.instant_time import InstantTime

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"#HUDI#"
#: of the log format; the only one that was ever written with today's magic
VERSION = 1
#: bytes before the part that `size` counts
PREFIX = len(MAGIC) + 8
#: bytes of the length that ends a block
TAIL = 8
MAX_SIZE = 2**31 - 1
#: "true" marks a block of Apache Hudi 1.x whose rows hold changed columns only
IS_PARTIAL = 7
#: which rows of a base file those of a block belong to (`record_positions`), and the instant of that file
RECORD_POSITIONS, POSITIONS_BASE = 5, 8
#: header keys of Apache Hudi 1.x beside those of HeaderKey
LATER_HEADERS = {
    RECORD_POSITIONS: "RECORD_POSITIONS",
    6: "BLOCK_IDENTIFIER",
    IS_PARTIAL: "IS_PARTIAL",
    POSITIONS_BASE: "BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS",
}
_LAST_HEADER_KEY = max(LATER_HEADERS)
#: those that a writer of table versions 8 and 9 may use
_WRITTEN_LATER = frozenset({RECORD_POSITIONS, IS_PARTIAL, POSITIONS_BASE})

Buffer: TypeAlias = "bytes | bytearray | memoryview | pa.Buffer"


class BlockType(enum.IntEnum):
    COMMAND = 0
    DELETE = 1
    #: never stored: what a reader reports for bytes that are no block
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


_STORED_TYPES = frozenset(map(int, BlockType)) - {int(BlockType.CORRUPT)}
#: blocks that hold rows of the table
DATA_TYPES = frozenset({BlockType.AVRO_DATA, BlockType.HFILE_DATA, BlockType.PARQUET_DATA})


class HeaderKey(enum.IntEnum):
    """What a writer of table version 6 may use; one of versions 8 and 9 has some of LATER_HEADERS, too."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4


_ROLLBACK = "0"


class DamagedBlock(Exception):
    """The two lengths of a block agree, but what is between them can't be; the text says where."""


@dataclass(frozen=True)
class LogBlock:
    """One block without its content.

    `headers` keeps the stored order; keys 5 to 8 are plain ints. `offset` is the place of the magic in the
    file and `length` the whole block's. For CORRUPT the headers are empty and the content is all of it.
    A block of log format version 0 has no headers, see `log_data`.
    """

    type: BlockType
    headers: Mapping[int, str]
    version: int
    offset: int
    length: int
    content_offset: int
    content_length: int

    @property
    def instant(self) -> InstantTime | None:
        """The deltacommit that wrote it; of a COMMAND the rollback. Archived timelines have none."""
        time = self.headers.get(HeaderKey.INSTANT_TIME)
        return None if time is None else InstantTime(time)

    @property
    def target_instant(self) -> str | None:
        """The instant whose blocks a COMMAND takes back."""
        return self.headers.get(HeaderKey.TARGET_INSTANT_TIME)

    @property
    def schema_text(self) -> str | None:
        return self.headers.get(HeaderKey.SCHEMA)

    @property
    def compacted_instants(self) -> tuple[str, ...]:
        """The instants whose blocks log compaction merged into this one; empty for other blocks."""
        text = self.headers.get(HeaderKey.COMPACTED_BLOCK_TIMES, "")
        return tuple(part for part in text.split(",") if part)


def rollback_headers(instant: InstantTime, target: InstantTime) -> dict[int, str]:
    """Headers of the COMMAND block by which the rollback `instant` takes back the blocks of `target`."""
    return {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.TARGET_INSTANT_TIME: target,
        HeaderKey.COMMAND_BLOCK_TYPE: _ROLLBACK,
    }


def encode_block(
    type_: BlockType, headers: Mapping[int, str], content: Sequence[Buffer] | Buffer = b""
) -> list[Buffer]:
    """The block's bytes in pieces, to be written one after the other; `content` is not copied.

    Headers are written in their order. ValueError for a type or a header that a log file can't have: readers
    fail on them. InputError when the block passes 2 GiB.
    """
    if type_ is BlockType.CORRUPT:
        raise ValueError("a CORRUPT block is what a reader reports; it can't be written")
    pieces: list[Buffer] = list(content) if isinstance(content, (list, tuple)) else [cast("Buffer", content)]
    length = sum(map(bytes_of, pieces))
    header = _encode_map(headers)
    size = 8 + len(header) + 8 + length + 4 + TAIL
    if size > MAX_SIZE:
        raise InputError(
            f"a log block of {size:,} bytes is too long: readers take at most 2 GiB; lower "
            "hoodie.logfile.data.block.max.size",
            size=size,
        )
    head = MAGIC + struct.pack(">qii", size, VERSION, type_) + header + struct.pack(">q", length)
    return [head, *pieces, struct.pack(">iq", 0, size + len(MAGIC))]


def bytes_of(piece: Any) -> int:
    """Length of a buffer of any kind."""
    return memoryview(piece).nbytes


def _encode_map(headers: Mapping[int, str]) -> bytes:
    out = [struct.pack(">i", len(headers))]
    for key, text in headers.items():
        data = text.encode()
        known = key if key in _WRITTEN_LATER else HeaderKey(key)
        out.append(struct.pack(">ii", known, len(data)) + data)
    return b"".join(out)


def stored_size(data: bytes) -> int | None:
    """`size` out of the 8 bytes after the magic; None for a number that no block can have."""
    size: int = struct.unpack(">4xi", data)[0]
    return size if size >= 0 else None


def tail_of(size: int) -> bytes:
    """The 8 bytes that end a block of that size."""
    return struct.pack(">q", size + len(MAGIC))


def decode_block(read: Callable[[int, int], bytes], offset: int, size: int) -> LogBlock:
    """The block at `offset` of a file, whose two lengths are known to agree; its content is not read.

    `read(offset, length)` gives bytes of the file and is asked for nothing outside the block. Raises
    DamagedBlock when the parts do not fill the block or can't be; Apache Hudi fails on such a file, too.
    """
    cursor = _Cursor(read, offset + PREFIX, offset + PREFIX + size - TAIL)
    whole = PREFIX + size
    version = cursor.int32("version")
    if version == 0:
        start = cursor.place
        return LogBlock(BlockType.AVRO_DATA, {}, version, offset, whole, start, cursor.end - start)
    if version != VERSION:
        raise DamagedBlock(f"log format version {version} (known: {VERSION})")
    type_ = _block_type(cursor.int32("type"))
    headers = cursor.map()
    if type_ is BlockType.COMMAND and headers.get(HeaderKey.COMMAND_BLOCK_TYPE) != _ROLLBACK:
        command = headers.get(HeaderKey.COMMAND_BLOCK_TYPE)
        raise DamagedBlock(f"command {command!r} (known: {_ROLLBACK!r}, rollback)")
    start, length = cursor.skip_content()
    cursor.map()  # the footers: no writer has any
    if cursor.place != cursor.end:
        raise DamagedBlock(f"{cursor.end - cursor.place} bytes are left over")
    return LogBlock(type_, headers, version, offset, whole, start, length)


def _header_key(key: int) -> int:
    return HeaderKey(key) if key <= HeaderKey.COMPACTED_BLOCK_TIMES else key


def _block_type(number: int) -> BlockType:
    if number not in _STORED_TYPES:
        raise DamagedBlock(f"block type {number}")
    return BlockType(number)


@dataclass
class _Cursor:
    """Reads the parts of one block, never past its end."""

    read: Callable[[int, int], bytes]
    place: int
    end: int

    def int32(self, what: str) -> int:
        value: int = struct.unpack(">i", self._take(4, what))[0]
        return value

    def map(self) -> dict[int, str]:
        headers: dict[int, str] = {}
        count = self.int32("number of headers")
        if count > _LAST_HEADER_KEY + 1:
            raise DamagedBlock(f"{count} headers")
        for _ in range(count):  # a negative number is none, as in Apache Hudi
            key = self.int32("header key")
            if not 0 <= key <= _LAST_HEADER_KEY:
                raise DamagedBlock(f"header key {key}")
            data = self._take(self.int32("length of a header"), f"header {key}")
            try:
                text = data.decode()
            except UnicodeDecodeError:
                raise DamagedBlock(f"header {key} is no UTF-8 text") from None
            headers[_header_key(key)] = text
        return headers

    def skip_content(self) -> tuple[int, int]:
        """(offset, length) of the content."""
        length: int = struct.unpack(">4xi", self._take(8, "content length"))[0]
        start = self.place
        if not 0 <= length <= self.end - start:
            raise DamagedBlock(f"content of {length} bytes in a block with {self.end - start} left")
        self.place += length
        return start, length

    def _take(self, length: int, what: str) -> bytes:
        if not 0 <= length <= self.end - self.place:
            raise DamagedBlock(f"no room for {what}")
        data = self.read(self.place, length)
        if len(data) != length:
            raise DamagedBlock("the file became shorter")
        self.place += length
        return data
