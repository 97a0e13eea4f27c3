"""A map of texts to small JSON objects in a folder, which stays fast however much it contains, and the data
interval of a commit, by its token. Standard library only.

- **The map is a tree.** A node has facts (keys with values) and up to 16 children. A key belongs to the
  child that the next hexadecimal digit of its hash names.
- **New facts** go to the root. A node with too many facts passes them down. So a look-up reads one node of
  each level, and a change writes mostly the root alone.
- **Facts are only added.** Two of one key become one (`merge`), in any order and any number of times.
- **Nodes never change.** The root is the one of the greatest number. A change makes new nodes, and then, by
  an exclusive create, the root of the next number, which shows it. Of processes that change at once, one
  wins and the others begin again.
- **A kill** before leaves nodes that nothing names, and one afterwards those that were replaced. Old roots
  stay for a while: a listing shows one of them at least.
- **A data interval** is in the token (timeline.tokens): `DAG/task/map index/start/end`. The token of a run
  without one ends with its logical date. Partition keys and run ids have no order.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import uuid
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hoodie.config.limits import MAX_READ_BYTES
from hoodie.errors import AlreadyExists, CommitConflict, StorageError, TableError
from hoodie.storage import Storage

#: what a key maps to
Fact = Mapping[str, Any]
#: of two facts of a key, the one that stays; neither order nor repetition may matter
Merge = Callable[[str, Fact, Fact], Fact]

#: characters of facts that a node keeps before it hands them to its children
NODE_SIZE = 128 * 1024
_MAGIC = b"airflow-hoodie token index 1\n"
_HEAD = len(_MAGIC) + 32
_DEPTH = 16
_ATTEMPTS = 20
#: roots that stay beside the newest one
_OLD_ROOTS = 2
_ROOT = re.compile(r"\d{1,15}", re.ASCII)
_NODE = re.compile(r"[0-9a-f]{32}")
_DIGITS = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class _Node:
    """`children`: names of nodes by the next digit of the hash."""

    facts: Mapping[str, Fact] = field(default_factory=dict)
    children: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        text = json.dumps({"facts": dict(self.facts), "children": dict(self.children)}, sort_keys=True)
        data = zlib.compress(text.encode(), 6)
        return _MAGIC + hashlib.sha256(data).digest() + data

    @classmethod
    def decode(cls, data: bytes, path: str) -> _Node:
        if not data.startswith(_MAGIC) or hashlib.sha256(data[_HEAD:]).digest() != data[len(_MAGIC) : _HEAD]:
            raise _damaged(path)
        try:
            unpacker = zlib.decompressobj()
            text = unpacker.decompress(data[_HEAD:], MAX_READ_BYTES)
            if not unpacker.eof:
                raise ValueError
            value = json.loads(text)
            node = cls(value["facts"], value["children"])
            whole = all(isinstance(fact, dict) for fact in node.facts.values()) and all(
                digit in _DIGITS and _NODE.fullmatch(name) for digit, name in node.children.items()
            )
        except (zlib.error, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise _damaged(path) from None
        if not whole:
            raise _damaged(path)
        return node


class _Outdated(Exception):
    """A node has gone: another process has changed the index since the root was read."""


class TokenIndex:
    """Of one look at the storage: nodes that were read are not read again. `folder` need not exist."""

    def __init__(self, storage: Storage, folder: str, merge: Merge) -> None:
        self.folder = folder
        self._storage = storage
        self._merge = merge
        self._number, self._root = 0, _Node()
        self._open = False
        self._known: dict[str, _Node] = {}

    @property
    def roots(self) -> str:
        """The folder of the roots."""
        return f"{self.folder}/roots"

    def get(self, key: str) -> Fact | None:
        """Raises TableError where the index is damaged or a part of it is missing."""
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(_Outdated):
                return self._find(key)
        raise self._contended()

    def update(self, facts: Mapping[str, Fact]) -> None:
        """Add facts; they are there, lastingly, once it returns. Raises TableError as `get` does,
        StorageError, and CommitConflict where other processes never let it.
        """
        for _ in range(_ATTEMPTS if facts else 0):
            self._open = False
            with contextlib.suppress(_Outdated):
                change = _Change(self)
                root = change.add(self._opened(), facts, 0)
                if root == self._root or self._publish(root, change):
                    return
        if facts:
            raise self._contended()

    def _find(self, key: str) -> Fact | None:
        found: Fact | None = None
        node, digits = self._opened(), _hash(key)
        for depth in range(_DEPTH + 1):
            fact = node.facts.get(key)
            if fact is not None:
                found = fact if found is None else self._merge(key, found, fact)
            name = node.children.get(digits[depth])
            if name is None:
                break
            node = self._known[name] = self._known.get(name) or self.read(name)
        return found

    def _opened(self) -> _Node:
        for _ in range(0 if self._open else _ATTEMPTS):
            numbers = self._numbers()
            try:
                self._number = numbers[-1] if numbers else 0
                self._root = self._read(f"{self.roots}/{self._number}") if numbers else _Node()
            except FileNotFoundError:
                continue
            self._open = True
            return self._root
        if not self._open:
            raise self._contended()
        return self._root

    def _numbers(self) -> list[int]:
        return sorted(int(name) for name in self._storage.names(self.roots) if _ROOT.fullmatch(name))

    def read(self, name: str) -> _Node:
        """Raises _Outdated where it has gone because there is a newer root."""
        path = f"{self.folder}/nodes/{name}"
        try:
            return self._read(path)
        except FileNotFoundError:
            self._open = False
            if (self._numbers() or [0])[-1] != self._number:
                raise _Outdated from None
            raise _damaged(path, "is missing") from None

    def make(self, node: _Node) -> str:
        """A new node's name."""
        name = uuid.uuid4().hex
        self._storage.create(f"{self.folder}/nodes/{name}", node.encode())
        return name

    def delete(self, names: list[str]) -> None:
        self._storage.delete_many([f"{self.folder}/nodes/{name}" for name in names])

    def merged(self, facts: Mapping[str, Fact], more: Mapping[str, Fact]) -> dict[str, Fact]:
        found = dict(facts)
        for key, fact in more.items():
            found[key] = self._merge(key, found[key], fact) if key in found else fact
        return found

    def _read(self, path: str) -> _Node:
        return _Node.decode(self._storage.read(path), path)

    def _publish(self, root: _Node, change: _Change) -> bool:
        """False where another process was first."""
        number, data = self._number + 1, root.encode()
        path = f"{self.roots}/{number}"
        try:
            self._storage.create(path, data)
        except AlreadyExists:
            if not self._holds(path, data):
                self.delete(change.made)
                return False
        except (OSError, StorageError):
            if not self._holds(path, data):  # else the answer was lost, not the file
                raise
        numbers = self._numbers()
        if numbers[-1:] != [number]:  # this process slept: what it has made may count, or be of an old root
            return False
        old = [each for each in numbers if each < number - _OLD_ROOTS]
        self._storage.delete_many([f"{self.roots}/{each}" for each in old])
        self.delete(change.gone)
        self._number, self._root, self._known = number, root, {}
        return True

    def _holds(self, path: str, data: bytes) -> bool:
        try:
            return self._storage.read(path) == data
        except FileNotFoundError:
            return False

    def _contended(self) -> CommitConflict:
        return CommitConflict(
            f"{self.folder} was changed by other processes in {_ATTEMPTS} attempts; run it again",
            path=self.folder,
        )


class _Change:
    """New nodes of one attempt. `made`: their names; `gone`: of those that they take the place of."""

    def __init__(self, index: TokenIndex) -> None:
        self.made: list[str] = []
        self.gone: list[str] = []
        self._index = index

    def add(self, node: _Node, facts: Mapping[str, Fact], depth: int) -> _Node:
        merged = self._index.merged(node.facts, facts)
        if depth == _DEPTH or len(merged) < 2 or len(json.dumps(merged)) <= NODE_SIZE:
            return _Node(merged, node.children)
        parts: dict[str, dict[str, Fact]] = {}
        for key, fact in merged.items():
            parts.setdefault(_hash(key)[depth], {})[key] = fact
        children = dict(node.children)
        for digit, part in parts.items():
            before = children.get(digit)
            child = self.add(self._index.read(before) if before else _Node(), part, depth + 1)
            children[digit] = self._index.make(child)
            self.made.append(children[digit])
            if before:
                self.gone.append(before)
        return _Node({}, children)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _damaged(path: str, what: str = "is damaged") -> TableError:
    return TableError(
        f"{path} {what}: which data intervals were written can't be seen; restore it from a copy. Without "
        "one, delete the folder `index` that it lies in: a task whose commit is archived would then write "
        "again, if it runs again",
        path=path,
    )


_DAG_TASK_MAP = 3


@dataclass(frozen=True, order=True)
class Interval:
    """From `start` to `end`; both are one where a run has a logical date only."""

    start: datetime
    end: datetime

    def __str__(self) -> str:
        return f"{self.start.isoformat()}/{self.end.isoformat()}"


def interval_of(token: str) -> tuple[str, Interval] | None:
    """The task ("DAG/task") of a token, and its interval; None for a token without one."""
    parts = token.split("/")
    if len(parts) not in (_DAG_TASK_MAP + 1, _DAG_TASK_MAP + 2):
        return None
    try:
        start, end = datetime.fromisoformat(parts[_DAG_TASK_MAP]), datetime.fromisoformat(parts[-1])
    except ValueError:
        return None
    if (start.tzinfo is None) != (end.tzinfo is None):
        return None
    return "/".join(parts[:2]), Interval(start, end)
