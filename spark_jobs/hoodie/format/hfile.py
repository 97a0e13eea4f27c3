"""HFiles, version 3, as Hudi writes them: sorted keys with values, in blocks (format.md 9).

The subset that Hudi's own native reader has: blocks without encoding, one level of index, keys without
families, no tags. Codecs: none and gzip. The bytes are not trusted: sizes are checked before anything is
read or decompressed, and what does not fit is a TableError that names the file.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, NoReturn

from hoodie.codec.crc32c import crc32c
from hoodie.errors import TableError
from hoodie.storage import Storage

_DATA, _META, _ROOT_INDEX, _FILE_INFO = b"DATABLK*", b"METABLKc", b"IDXROOT2", b"FILEINF2"
_TRAILER_MAGIC = b'TRABLK"$'
_TRAILER_BYTES = 4096
_HEADER = struct.Struct(">8siiqBii")
_MAJOR_VERSION = 3
_GZIP, _NONE = 1, 2
#: uncompressed bytes of a block: far more than any writer makes (1 MiB, or one value)
_MOST_BYTES = 1 << 28
#: deflate makes at most about so many bytes of one
_MOST_EXPANSION = 1100
#: what checksums are made with, by the number in a block's header; others are not looked at
_CHECKSUMS: dict[int, Callable[[bytes], int]] = {1: zlib.crc32, 2: crc32c}

#: where the trailer has its numbers
_INFO_OFFSET, _LOAD_OFFSET, _DATA_INDEX_COUNT, _META_INDEX_COUNT = 1, 2, 5, 6
_ENTRY_COUNT, _LEVELS, _CODEC, _ENCRYPTION = 7, 8, 12, 13

Read = Callable[[int, int], bytes]


class _Damaged(Exception):
    """What is wrong with the bytes."""


@dataclass(frozen=True)
class _Entry:
    """A block in an index; `key` is at most the first key of the block."""

    offset: int
    size: int
    key: bytes


class HFileReader:
    """One HFile: its keys in order, some keys, its file info and meta blocks. A context manager; not for
    threads.

    Memory: one block. Raises TableError for damaged bytes, FileNotFoundError when there is no such file.
    """

    def __init__(self, read: Read, size: int, name: str, close: Callable[[], None] = lambda: None) -> None:
        """`read(offset, length)` gives at most `length` bytes; `name` is for errors."""
        self.name = name
        self._read = read
        self._size = size
        self._close = close
        try:
            self._open()
        except _Damaged as error:
            close()
            self._refuse(error)
        except BaseException:
            close()
            raise

    @classmethod
    def open(cls, storage: Storage, path: str) -> HFileReader:
        source = storage.open_input(path)
        return cls(_reads(source), source.seek(0, 2), path, source.close)

    @classmethod
    def of_bytes(cls, data: bytes, name: str) -> HFileReader:
        """An HFile inside of something else, a log block for example."""
        return cls(lambda offset, length: data[offset : offset + length], len(data), name)

    def __enter__(self) -> HFileReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    @property
    def entries(self) -> int:
        """Keys in the file, as its trailer says."""
        return self._numbers.get(_ENTRY_COUNT, 0)

    @property
    def info(self) -> Mapping[bytes, bytes]:
        """File info: texts of the writer by name."""
        return self._info

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        """All (key, value), in the keys' order."""
        try:
            count, last = 0, b""
            for entry in self._index:
                for key, value in self._cells(entry):
                    if key < last:
                        raise _Damaged(f"key {key!r} follows {last!r}")
                    last, count = key, count + 1
                    yield key, value
            if count != self.entries:
                raise _Damaged(f"{count} keys where the trailer says {self.entries}")
        except _Damaged as error:
            self._refuse(error)

    def get(self, keys: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) of those keys that are there, in the keys' order; each block is read once."""
        try:
            held, cells = -1, dict[bytes, bytes]()
            firsts = [entry.key for entry in self._index]
            for key in sorted(set(keys)):
                number = bisect_right(firsts, key) - 1
                if number < 0:
                    continue
                if number != held:
                    held, cells = number, dict(self._cells(self._index[number]))
                if key in cells:
                    yield key, cells[key]
        except _Damaged as error:
            self._refuse(error)

    def meta(self, name: bytes) -> bytes | None:
        """A meta block, the bloom filter for example."""
        try:
            for entry in self._meta_index:
                if entry.key == name:
                    return self._block(entry.offset, self._data_end, _META)[0]
        except _Damaged as error:
            self._refuse(error)
        return None

    def _open(self) -> None:
        if self._size < _TRAILER_BYTES:
            raise _Damaged(f"it has {self._size} bytes, fewer than a trailer")
        end = self._size - _TRAILER_BYTES
        self._numbers = _trailer(self._bytes(end, _TRAILER_BYTES))
        self._data_end = self._number(_LOAD_OFFSET)
        codec = self._number(_CODEC, _NONE)
        if codec not in (_GZIP, _NONE):
            raise _Damaged(f"codec {codec} is not supported")
        if self._number(_LEVELS, 1) > 1:
            raise _Damaged("an index of several levels is not supported")
        if self._data_end > end:
            raise _Damaged("its index begins behind its end")
        self._gzip = codec == _GZIP
        root, behind = self._block(self._data_end, end, _ROOT_INDEX)
        self._index = list(_index(root, self._number(_DATA_INDEX_COUNT), rows=True))
        firsts = [entry.key for entry in self._index]
        if firsts != sorted(firsts):
            raise _Damaged("its index is not sorted")
        count = self._number(_META_INDEX_COUNT)
        self._meta_index = list(_index(self._block(behind, end, _ROOT_INDEX)[0], count)) if count else []
        self._info = _file_info(self._block(self._number(_INFO_OFFSET), end, _FILE_INFO)[0])

    def _number(self, field: int, default: int = 0) -> int:
        return self._numbers.get(field, default)

    def _refuse(self, error: _Damaged) -> NoReturn:
        raise TableError(
            f"{self.name} is no HFile that can be read: {error}; restore the file from a copy", path=self.name
        ) from None

    def _bytes(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > self._size:
            raise _Damaged(f"{length} bytes at {offset} are not in its {self._size} bytes")
        data = self._read(offset, length)
        if len(data) != length:
            raise _Damaged(f"it became shorter than {self._size} bytes")
        return data

    def _block(self, offset: int, end: int, magic: bytes) -> tuple[bytes, int]:
        """(content of the block at an offset, where the next one begins); the block ends before `end`."""
        if not 0 <= offset <= end - _HEADER.size:
            raise _Damaged(f"no block fits at {offset}")
        header = self._bytes(offset, _HEADER.size)
        found, stored, size, _, checksum, chunk, with_header = _HEADER.unpack(header)
        payload, following = with_header - _HEADER.size, offset + _HEADER.size + stored
        if found != magic:
            raise _Damaged(f"the block at {offset} is {found!r}, not {magic!r}")
        if not 0 <= payload <= stored or following > end or not 0 <= size <= _MOST_BYTES:
            raise _Damaged(f"the block at {offset} has impossible sizes")
        raw = self._bytes(offset + _HEADER.size, stored)
        if checksum in _CHECKSUMS:
            _check_sums(_CHECKSUMS[checksum], header + raw[:payload], raw[payload:], chunk, offset)
        content = _inflated(raw[:payload], size) if self._gzip else raw[:payload]
        if len(content) != size:
            raise _Damaged(f"the block at {offset} has {len(content)} bytes, its header says {size}")
        return content, following

    def _cells(self, entry: _Entry) -> Iterator[tuple[bytes, bytes]]:
        content, following = self._block(entry.offset, self._data_end, _DATA)
        if following - entry.offset != entry.size:
            raise _Damaged(f"the block at {entry.offset} has another size than its index says")
        at, end = 0, len(content)
        while at < end:
            if at + 10 > end:
                raise _Damaged(f"a key of the block at {entry.offset} is cut")
            key_length, value_length, row_length = struct.unpack_from(">iih", content, at)
            start = at + 10
            value = at + 8 + key_length
            if not 0 <= row_length <= key_length - 2 or value_length < 0 or value + value_length >= end:
                raise _Damaged(f"a key of the block at {entry.offset} has impossible lengths")
            yield content[start : start + row_length], content[value : value + value_length]
            at = _vint(content, value + value_length)[1]


def _reads(source: BinaryIO) -> Read:
    def read(offset: int, length: int) -> bytes:
        source.seek(offset)
        return source.read(length)

    return read


def _inflated(data: bytes, size: int) -> bytes:
    """At most one byte more than `size`."""
    if size > _MOST_EXPANSION * max(1, len(data)):
        raise _Damaged(f"{len(data)} bytes can't become {size}")
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        content = inflate.decompress(data, size + 1)
    except zlib.error as error:
        raise _Damaged(f"a block can't be decompressed ({error})") from None
    if not inflate.eof:
        raise _Damaged("a compressed block is cut, or longer than its header says")
    return content


def _check_sums(made: Callable[[bytes], int], data: bytes, sums: bytes, chunk: int, offset: int) -> None:
    parts = -(-len(data) // chunk) if chunk > 0 else 0
    if parts == 0 or len(sums) < 4 * parts:
        raise _Damaged(f"the block at {offset} lacks checksums")
    for number, (expected,) in enumerate(struct.iter_unpack(">I", sums[: 4 * parts])):
        if made(data[number * chunk : (number + 1) * chunk]) != expected:
            raise _Damaged(f"the checksum of the block at {offset} is wrong")


def _trailer(data: bytes) -> dict[int, int]:
    """The numbers of the trailer by field."""
    if data[: len(_TRAILER_MAGIC)] != _TRAILER_MAGIC:
        raise _Damaged("it has no trailer")
    if int.from_bytes(data[-3:], "big") != _MAJOR_VERSION:
        raise _Damaged(f"version {int.from_bytes(data[-3:], 'big')} is not supported")
    numbers: dict[int, int] = {}
    for field, value in _message(*_sized(data, len(_TRAILER_MAGIC))):
        if field == _ENCRYPTION:
            raise _Damaged("it is encrypted, which is not supported")
        if isinstance(value, int):
            numbers[field] = value
    return numbers


def _index(data: bytes, count: int, rows: bool = False) -> Iterator[_Entry]:
    """`count` entries; with `rows` keys are those of cells, of which the row is taken."""
    at = 0
    if count > len(data):
        raise _Damaged(f"an index of {len(data)} bytes has no {count} entries")
    for _ in range(count):
        if at + 12 > len(data):
            raise _Damaged("an index is cut")
        offset, size = struct.unpack_from(">qi", data, at)
        length, at = _vint(data, at + 12)
        key = data[at : at + length]
        if length < 0 or len(key) != length:
            raise _Damaged("a key of an index is cut")
        at += length
        if rows:
            row = int.from_bytes(key[:2], "big")
            if len(key) < 2 + row:
                raise _Damaged("a key of an index is cut")
            key = key[2 : 2 + row]
        yield _Entry(offset, size, key)


def _file_info(data: bytes) -> dict[bytes, bytes]:
    if data[:4] != b"PBUF":
        raise _Damaged("its file info has an unknown form")
    found: dict[bytes, bytes] = {}
    for field, value in _message(*_sized(data, 4)):
        if field == 1 and isinstance(value, bytes):
            pair = dict(_message(value, 0))
            first, second = pair.get(1), pair.get(2, b"")
            if isinstance(first, bytes) and isinstance(second, bytes):
                found[first] = second
    return found


def _sized(data: bytes, at: int) -> tuple[bytes, int]:
    """(a protobuf message that begins with its length, 0)"""
    length, at = _varint(data, at)
    if at + length > len(data):
        raise _Damaged("a message is cut")
    return data[at : at + length], 0


def _message(data: bytes, at: int) -> Iterator[tuple[int, int | bytes]]:
    """Fields of a protobuf message: (number, integer or bytes)."""
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            number, at = _varint(data, at)
            yield tag >> 3, number
            continue
        length = 8 if kind == 1 else 4
        if kind == 2:
            length, at = _varint(data, at)
        elif kind not in (1, 5):
            raise _Damaged(f"a message has a field of kind {kind}")
        if at + length > len(data):
            raise _Damaged("a message is cut")
        yield tag >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(a protobuf varint, where it ends)"""
    number = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            raise _Damaged("a number is cut")
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
    raise _Damaged("a number is too long")


def _vint(data: bytes, at: int) -> tuple[int, int]:
    """(a Hadoop variable-length integer, where it ends)"""
    if at >= len(data):
        raise _Damaged("a number is cut")
    first = data[at] - 256 if data[at] > 127 else data[at]
    if first >= -112:
        return first, at + 1
    negative = first < -120
    length = -120 - first if negative else -112 - first
    if at + 1 + length > len(data):
        raise _Damaged("a number is cut")
    number = int.from_bytes(data[at + 1 : at + 1 + length], "big")
    return ~number if negative else number, at + 1 + length
