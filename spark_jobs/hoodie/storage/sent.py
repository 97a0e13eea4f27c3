"""A file that is sent to a storage elsewhere while it is written."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from hoodie.storage import Output


class SentOutput(Output):
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
