"""Log files: blocks one after the other, nothing before, between or after them (format.md 8.1, 8.10).

A block counts only when its two lengths agree and the next magic, or the end of the file, follows. Where that
is not so (a writer died, bytes were lost) the bytes up to the next magic are a CORRUPT block: readers skip
and count it. Damage that leaves the lengths alone can't be skipped without losing rows that were committed,
so it is an error, as in Apache Hudi.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from hoodie.errors import TableError
from hoodie.format.log_block import (
    MAGIC,
    PREFIX,
    TAIL,
    VERSION,
    BlockType,
    Buffer,
    DamagedBlock,
    LogBlock,
    bytes_of,
    decode_block,
    encode_block,
    stored_size,
    tail_of,
)
from hoodie.storage import Output, Storage

#: headers are read in pages of this size, which are kept for the neighbouring blocks
_PAGE = 1 << 16
_PAGES_KEPT = 16
#: the next magic is looked for in windows of this size
_WINDOW = 1 << 20


class LogFileReader:
    """The blocks of one log file, as the file was when it was opened. A context manager; not for threads.

    FileNotFoundError when there is no such file.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self.path = path
        self._file = _File(storage.open_input(path))

    def __enter__(self) -> LogFileReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    @property
    def size(self) -> int:
        return self._file.size

    def blocks(self) -> Iterator[LogBlock]:
        """All blocks in file order, corrupt regions among them; no content is read.

        A rest of at most 5 bytes is no block. Raises TableError, after the blocks before it, where no block
        begins, or where a block whose lengths agree has parts that can't be.
        """
        offset = 0
        while offset + len(MAGIC) <= self._file.size:
            if self._file.read(offset, len(MAGIC)) != MAGIC:
                raise self._damaged(offset, "no block begins here")
            size = self._agreed_size(offset)
            if size is None:
                block = self._corrupt(offset)
            else:
                try:
                    block = decode_block(self._file.read, offset, size)
                except DamagedBlock as error:
                    raise self._damaged(offset, str(error)) from None
            yield block
            offset += block.length

    def content(self, block: LogBlock) -> bytes:
        """The content of a block of this file, at most the file's bytes. TableError when it is not there."""
        start, length = block.content_offset, block.content_length
        if not 0 <= start <= start + length <= self._file.size:
            raise self._damaged(block.offset, "the block is not of this file")
        data = self._file.read(start, length)  # what is small is in the pages of the headers
        if len(data) != length:
            raise self._damaged(block.offset, "the file became shorter while it was read")
        return data

    def _agreed_size(self, offset: int) -> int | None:
        """The size of the block, None when it is corrupt."""
        data = self._file.read(offset + len(MAGIC), PREFIX - len(MAGIC))
        size = stored_size(data) if len(data) == PREFIX - len(MAGIC) else None
        if size is None:
            return None
        end = offset + PREFIX + size
        if self._file.read(end - TAIL, TAIL) != tail_of(size):
            return None
        following = self._file.read(end, len(MAGIC))
        return size if len(following) < len(MAGIC) or following == MAGIC else None

    def _corrupt(self, offset: int) -> LogBlock:
        end = self._file.find(MAGIC, offset + len(MAGIC))
        length = (self._file.size if end is None else end) - offset
        return LogBlock(BlockType.CORRUPT, {}, VERSION, offset, length, offset, length)

    def _damaged(self, offset: int, why: str) -> TableError:
        return TableError(
            f"log file {self.path} is damaged at byte {offset} ({why}); restore the file from a copy, or "
            "roll the table back to an instant before it",
            path=self.path,
            offset=offset,
        )


class LogFileWriter:
    """Writes one new log file, block by block; a block is visible to readers of the file once it is whole.

    The caller creates the marker first and closes the writer; only then may the file's size be reported.
    """

    def __init__(self, sink: Output) -> None:
        self._sink = sink
        #: bytes written
        self.size = 0

    def append(
        self, type_: BlockType, headers: Mapping[int, str], content: Sequence[Buffer] | Buffer = b""
    ) -> int:
        """Adds a block (see `encode_block`); returns its bytes in the file."""
        written = 0
        for piece in encode_block(type_, headers, content):
            self._sink.write(piece)
            written += bytes_of(piece)
        self.size += written
        return written

    def close(self) -> int:
        """Finish the file, which is lasting then (see Storage); returns its size in bytes."""
        self._sink.commit()
        return self.size

    def abandon(self) -> None:
        """Close a file that will not be finished; its caller deletes it. Does nothing after `close`."""
        self._sink.abandon()


class _File:
    """Small reads through a few kept pages, large ones straight from the file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = file.seek(0, os.SEEK_END)
        self._pages: OrderedDict[int, bytes] = OrderedDict()
        self._window = (0, b"")

    def close(self) -> None:
        self._file.close()

    def read(self, offset: int, length: int) -> bytes:
        """At most `length` bytes; fewer at the end of the file."""
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        if length > _PAGE:
            return self.read_through(offset, length)
        first, last = offset // _PAGE, (offset + length - 1) // _PAGE
        data = self._page(first) if first == last else self._page(first) + self._page(last)
        start = offset - first * _PAGE
        return data[start : start + length]

    def read_through(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(length)

    def find(self, pattern: bytes, start: int) -> int | None:
        """The first place of `pattern` from `start` on."""
        while start + len(pattern) <= self.size:
            first, data = self._window
            if not first <= start <= first + len(data) - len(pattern):
                first, data = start, self.read_through(start, _WINDOW)
                self._window = first, data
            place = data.find(pattern, start - first)
            if place >= 0:
                return first + place
            if len(data) < len(pattern):  # the file became shorter
                return None
            start = first + len(data) - len(pattern) + 1
        return None

    def _page(self, number: int) -> bytes:
        page = self._pages.get(number)
        if page is None:
            page = self.read_through(number * _PAGE, _PAGE)
            self._pages[number] = page
            if len(self._pages) > _PAGES_KEPT:
                self._pages.popitem(last=False)
        else:
            self._pages.move_to_end(number)
        return page
