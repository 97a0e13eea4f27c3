"""Files of a network: read by ranges, and sent to a storage elsewhere while they are written."""

from __future__ import annotations

import io
import os
from abc import abstractmethod
from collections import OrderedDict
from typing import Any

from hoodie.errors import StorageError
from hoodie.storage import Output

#: what one request reads at the end of a file that is opened: it has the footer, with the largest bloom
#: filter of Apache Hudi's default settings (862,724 bytes), or with one of our 120,000 keys
TAIL_BYTES = 1 << 20
_BLOCK = 1 << 20
#: a file's blocks in memory, and how many are read ahead where reading goes on
_BLOCKS, _AHEAD = 16, 12
#: read without being kept
_LARGE = 4 << 20


class RangedInput(io.BufferedIOBase):
    """Reads by ranges: the end of the file is there at once, what is read on and on is read ahead."""

    def __init__(self, path: str, size: int, tail: bytes) -> None:
        """`tail`: the last bytes, at most TAIL_BYTES."""
        self._path, self._size, self._tail = path, size, tail
        self._at = 0
        self._tail_at = self._size - len(self._tail)
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._next = self._ahead = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        if self.closed:
            raise ValueError("read of a closed file")
        most = max(0, self._size - self._at)
        length = most if size is None or size < 0 else min(size, most)
        data = self._bytes(self._at, self._at + length) if length else b""
        self._at += len(data)
        return data

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    read1 = read

    def close(self) -> None:
        self._blocks, self._tail = OrderedDict(), b""
        super().close()

    @abstractmethod
    def _range(self, start: int, end: int) -> bytes:
        """These bytes; fewer where the file has become shorter."""

    def _bytes(self, start: int, end: int) -> bytes:
        if end > self._tail_at:
            tail = self._tail[max(0, start - self._tail_at) : end - self._tail_at]
            return self._bytes(start, self._tail_at) + tail if start < self._tail_at else tail
        if self._tail_at > _LARGE and end - start >= _LARGE:
            return self._fetch(start, end)
        first, last = start // _BLOCK, (end - 1) // _BLOCK
        found = {number: self._blocks[number] for number in range(first, last + 1) if number in self._blocks}
        if len(found) <= last - first:
            found.update(self._load(next(n for n in range(first, last + 1) if n not in found), last))
        for number in range(first, last + 1):
            self._blocks[number] = found[number]
            self._blocks.move_to_end(number)
        while len(self._blocks) > _BLOCKS:
            self._blocks.popitem(last=False)
        data = b"".join(found[number] for number in range(first, last + 1))
        return data[start - first * _BLOCK : end - first * _BLOCK]

    def _load(self, first: int, last: int) -> dict[int, bytes]:
        """The blocks, and those after them where reading goes on; all of what is small."""
        self._ahead = min(_AHEAD, 4 * self._ahead or 1) if first == self._next else 0
        if self._tail_at <= _LARGE:
            first, last = 0, (self._tail_at - 1) // _BLOCK
        start = first * _BLOCK
        data = self._fetch(start, min(self._tail_at, (last + 1 + self._ahead) * _BLOCK))
        loaded = {first + at // _BLOCK: data[at : at + _BLOCK] for at in range(0, len(data), _BLOCK)}
        self._next = first + len(loaded)
        for number in sorted(set(loaded) - set(self._blocks)):
            self._blocks[number] = loaded[number]
        return loaded

    def _fetch(self, start: int, end: int) -> bytes:
        data = self._range(start, end)
        if len(data) != end - start:
            raise StorageError(f"{self._path} became shorter while it was read; run again", path=self._path)
        return data


class UploadOutput(Output):
    def __init__(self) -> None:
        #: bytes that were written
        self._size = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any, /) -> int:
        if self.closed:
            raise ValueError("write to a closed file")
        view = memoryview(data).cast("B")
        self._size += len(view)
        self._take(view)
        return len(view)

    def commit(self) -> None:
        if self.closed:
            return
        try:
            self._finish()
        finally:
            self.close()

    @abstractmethod
    def _take(self, view: memoryview) -> None:
        """Keep or send what is written next."""

    @abstractmethod
    def _finish(self) -> None:
        """What `commit` does."""
