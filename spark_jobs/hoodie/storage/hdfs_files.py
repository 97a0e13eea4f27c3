"""Files of HDFS: read by ranges, written in one piece or in parts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

from hoodie.errors import StorageError
from hoodie.storage.ranged import TAIL_BYTES, RangedInput
from hoodie.storage.sent import SentOutput
from hoodie.storage.webhdfs_client import Client, Upload
from hoodie.storage.webhdfs_errors import Failure

T = TypeVar("T")

#: a smaller file is sent at its commit, and sent again where that fails; a larger one while it is written
WHOLE_BYTES = 8 << 20
_PIECE = 1 << 20


class HdfsInput(RangedInput):
    def __init__(self, client: Client, path: str) -> None:
        """Raises FileNotFoundError."""
        self._client = client
        status = client.status(path)
        if status.kind != "FILE":
            raise StorageError(
                f"{path} is a folder where a file belongs; look what made it, and move it away", path=path
            )
        length = min(status.length, TAIL_BYTES)
        tail = client.read(path, status.length - length, length) if length else b""
        super().__init__(path, status.length, tail)

    def _range(self, start: int, end: int) -> bytes:
        return self._client.read(self._path, start, end - start)


class HdfsOutput(SentOutput):
    """A new file, which HDFS shows while it is written; the writer deletes one without a commit."""

    def __init__(self, client: Client, path: str, *, exclusive: bool, sync: bool) -> None:
        super().__init__()
        self._client, self._path, self._exclusive, self._sync = client, path, exclusive, sync
        self._kept = bytearray()
        self._upload: Upload | None = None

    def _take(self, view: memoryview) -> None:
        self._kept += view
        if self._upload is None and self._size > WHOLE_BYTES:
            self._upload = self._client.upload(self._path, overwrite=not self._exclusive, sync=self._sync)
        if self._upload is not None and len(self._kept) >= _PIECE:
            self._send(self._upload)

    def _finish(self) -> None:
        if self._upload is None:
            self._client.create(self._path, bytes(self._kept), overwrite=not self._exclusive, sync=self._sync)
        else:
            self._send(self._upload)
            _tried(self._upload.finish)

    def close(self) -> None:
        if self._upload is not None:
            with contextlib.suppress(OSError):
                self._upload.close()
        self._kept = bytearray()
        super().close()

    def _send(self, upload: Upload) -> None:
        data, self._kept = bytes(self._kept), bytearray()
        _tried(lambda: upload.send(data))


def _tried(action: Callable[[], T]) -> T:
    try:
        return action()
    except Failure as failed:
        raise failed.error from None
