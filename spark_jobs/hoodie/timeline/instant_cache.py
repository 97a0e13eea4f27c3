"""What an operation has read of the files of completed commits, within bounds. Standard library only."""

from __future__ import annotations

from collections.abc import Collection

from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.commit_head import CommitHead

#: bytes of completed commits that are kept; more are read again when they are asked for again
_KEPT_BYTES = 8 << 20
#: of them, those that are kept parsed, which takes about ten times the memory
_PARSED_BYTES = 1 << 20
#: characters of what commits say beside statistics
_HEAD_CHARS = 4 << 20


class InstantCache:
    """What files of completed commits contain, by name: they never change. Bounded by _KEPT_BYTES,
    _PARSED_BYTES and _HEAD_CHARS.
    """

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}
        self._left = _KEPT_BYTES
        self._parsed: dict[str, CommitMetadata] = {}
        self._left_parsed = _PARSED_BYTES
        self._heads: dict[str, CommitHead] = {}
        self._left_heads = _HEAD_CHARS

    def head(self, name: str) -> CommitHead | None:
        return self._heads.get(name)

    def keep_head(self, name: str, head: CommitHead) -> None:
        size = head.size
        if size <= self._left_heads and name not in self._heads:
            self._heads[name] = head
            self._left_heads -= size

    def parsed(self, name: str) -> CommitMetadata | None:
        return self._parsed.get(name)

    def keep_parsed(self, name: str, size: int, commit: CommitMetadata) -> None:
        """`size` is that of the file."""
        if size <= self._left_parsed and name not in self._parsed:
            self._parsed[name] = commit
            self._left_parsed -= size

    def get(self, name: str) -> bytes | None:
        return self._known.get(name)

    def keep(self, name: str, data: bytes) -> None:
        if 0 < len(data) <= self._left and name not in self._known:
            self._known[name] = data
            self._left -= len(data)

    def take(self, earlier: InstantCache, names: Collection[str]) -> None:
        """Take over what an earlier listing of the timeline knows of these files."""
        for name, data in earlier._known.copy().items():
            if name in names:
                self.keep(name, data)
                if (commit := earlier.parsed(name)) is not None:
                    self.keep_parsed(name, len(data), commit)
        for name, head in earlier._heads.copy().items():
            if name in names:
                self.keep_head(name, head)
