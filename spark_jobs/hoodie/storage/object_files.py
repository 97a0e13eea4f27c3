"""Files of object stores: read by ranges, written in parts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from hoodie.errors import AlreadyExists, StorageError
from hoodie.storage.failure import BeyondEnd
from hoodie.storage.object_client import Client
from hoodie.storage.range_reader import TAIL_BYTES, RangedInput, UploadOutput

#: what is not larger is one PUT; a larger file is sent in parts of this size, some at a time
_WHOLE_BYTES, PART_BYTES = 16 << 20, 8 << 20
_PARTS = 3


class ObjectInput(RangedInput):
    def __init__(self, client: Client, path: str, key: str, *, lasts: bool) -> None:
        """Asks once, or not at all of a file whose end is held: one that `lasts` as it is. Raises
        FileNotFoundError.
        """
        self._client, self._key = client, key
        known = client.ends.take(path) if lasts else None
        size, tail = known or self._end(path)
        if lasts and known is None:
            client.ends.hold(path, size, tail)
        super().__init__(path, size, tail)

    def _end(self, path: str) -> tuple[int, bytes]:
        """The size and the last bytes."""

        def tail(library: Any, store: Any) -> tuple[Any, bytes]:
            found = library.get(store, self._key, options={"range": {"suffix": TAIL_BYTES}})
            return found.meta, bytes(found.bytes())

        def head(library: Any, store: Any) -> tuple[Any, bytes]:
            return library.head(store, self._key), b""

        try:
            meta, data = self._client.ask(path, "read", tail if self._client.bucket.suffixes else head)
        except BeyondEnd:  # it is empty
            meta, data = self._client.ask(path, "read", head)
        return meta["size"], data

    def _range(self, start: int, end: int) -> bytes:
        def request(library: Any, store: Any) -> bytes:
            return bytes(library.get_range(store, self._key, start=start, end=end))

        return self._client.ask(self._path, "read", request)


class ObjectOutput(UploadOutput):
    """A new object, of which nothing is seen before `commit`.

    The parts of one that a killed process had sent stay in the store, unseen, until its owner's rule for
    unfinished uploads deletes them (docs/storage.md).
    """

    def __init__(
        self,
        client: Client,
        path: str,
        key: str,
        *,
        put: Callable[[bytes], object],
        taken: Callable[[], bool] | None,
        tags: dict[str, str],
        ours: Callable[[], bool],
    ) -> None:
        """`put` makes a small object at once. `taken` says of an exclusive one whether the name is taken;
        `ours`, whether the object there is this one, by its `tags`.
        """
        super().__init__()
        self._client, self._path, self._key = client, path, key
        self._put, self._taken, self._tags, self._ours = put, taken, tags, ours
        self._small: bytearray | None = bytearray()
        self._upload: Any = None

    def _take(self, view: memoryview) -> None:
        if self._small is not None and len(self._small) + len(view) <= _WHOLE_BYTES:
            self._small += view
        else:
            self._send(view)

    def _finish(self) -> None:
        if self._small is not None:
            self._put(bytes(self._small))
        else:
            self._complete()

    def close(self) -> None:
        """Without `commit` the store never shows what was sent."""
        self._small, self._upload = None, None
        super().close()

    def _send(self, view: memoryview) -> None:
        if self._upload is not None:
            self._ask(lambda *_: self._upload.write(view))
            return

        def begun(library: Any, store: Any) -> Any:
            upload = library.open_writer(
                store, self._key, buffer_size=PART_BYTES, max_concurrency=_PARTS, attributes=self._tags
            )
            for data in (self._small, view):
                if data:
                    upload.write(bytes(data))
            return upload

        self._upload = self._client.ask(self._path, "written", begun)
        self._small = None

    def _ask(self, request: Callable[[Any, Any], Any]) -> Any:
        """Made once: the library's writer can't take the same bytes again."""
        return self._client.ask(self._path, "written", request, again=False)

    def _complete(self) -> None:
        """A store can't be asked to complete an upload on a condition, so that the look comes right
        before.
        """
        if self._taken is not None and self._taken():
            raise AlreadyExists(f"{self._path} exists already", path=self._path)
        try:
            self._ask(lambda *_: self._upload.close())
        except StorageError:  # its answer may be lost
            with contextlib.suppress(OSError, StorageError):
                if self._ours():
                    return
            raise
