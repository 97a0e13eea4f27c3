"""Hash rings of consistent hashing: which file group of a partition a key's hash belongs to (format.md 5.4).

As Apache Hudi 0.15.0 (HoodieConsistentHashingMetadata, ConsistentBucketIdentifier,
ConsistentBucketIndexUtils). The first ring of a partition follows from its path and the number of buckets, so
that whoever makes it first makes the same one. A later ring belongs to the replacecommit under whose instant
it is stored: a clustering, which splits and merges ranges, or an overwrite or delete of the partition, after
which every range has a new file group, as nobody looks into replaced ones.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hoodie.codec.arrays import Ints
from hoodie.codec.hashing import UInt32Array
from hoodie.errors import TableError
from hoodie.format.names import BaseFileName, join, new_file_prefix
from hoodie.storage import Storage
from hoodie.table.handle import TableRef
from hoodie.table.view import TimelineView
from hoodie.timeline.active import meta_path
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime

#: folder below `.hoodie`
FOLDER = ".bucket_index/consistent_hashing_metadata"
#: of rings that follow from path and number of buckets
FIRST = InstantTime("00000000000000")
#: the greatest hash
MOST = 2**31 - 1
_SUFFIX, _MARKER = ".hashing_meta", ".commit"
_NAME = re.compile(r"([0-9]{14,23})\.hashing_meta")
_PREFIX = re.compile(r"[0-9A-Za-z-]{1,64}")
#: a partition has one file group a range, which never rolls to a second file
_ONLY = "-0"
_READERS = 16
#: of the text of a ring: what it becomes in memory is some twenty times as much
_MOST_BYTES = 8 << 20


@dataclass(frozen=True)
class Node:
    """A range of hashes: those up to `end` that are greater than the end of the range before. `prefix` is
    that of its file group's id; "" in a change of a ring: the range goes to the one after it.
    """

    end: int
    prefix: str

    @property
    def file_id(self) -> str:
        return self.prefix + _ONLY

    def to_record(self, tag: str) -> dict[str, Any]:
        return {"value": self.end, "fileIdPrefix": self.prefix or None, "tag": tag}

    def to_change(self) -> dict[str, Any]:
        """As clustering plans have it."""
        return self.to_record("REPLACE" if self.prefix else "DELETE")

    @classmethod
    def from_record(cls, record: Any) -> Node:
        """Raises ValueError, KeyError, TypeError for what is none."""
        end, prefix = record["value"], record["fileIdPrefix"]
        if not isinstance(end, int) or not 0 <= end <= MOST:
            raise ValueError(f"{end!r} is no hash")
        if prefix is None and record.get("tag") == "DELETE":
            return cls(end, "")
        if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
            raise ValueError(f"{prefix!r} can't be part of a file's name")
        return cls(end, prefix)


@dataclass(frozen=True)
class Ring:
    """`nodes` by end, ascending; beyond the last one the first one goes on. `buckets` is how many there were
    at first, `sequence` how often the ring was changed.
    """

    partition: str
    nodes: tuple[Node, ...]
    buckets: int
    instant: InstantTime = FIRST
    sequence: int = 0

    @classmethod
    def first(cls, partition: str, buckets: int) -> Ring:
        step = (MOST + buckets - 1) // buckets
        ends = [min(step * number, MOST) for number in range(1, buckets + 1)]
        pairs = zip([0, *ends], ends, strict=False)
        nodes = tuple(Node(end, _first_prefix(start, end, partition)) for start, end in pairs)
        return cls(partition, nodes, buckets)

    @classmethod
    def parse(cls, data: bytes, partition: str, path: str) -> Ring:
        """Raises TableError for what is no ring."""
        try:
            if len(data) > _MOST_BYTES:
                raise ValueError(f"it has {len(data):,} bytes, more than {_MOST_BYTES:,}")
            record = json.loads(data)
            nodes = tuple(sorted(map(Node.from_record, record["nodes"]), key=lambda node: node.end))
            if not nodes or not all(node.prefix for node in nodes):
                raise ValueError("a range has no file group")
            distinct = {node.end for node in nodes}, {node.prefix for node in nodes}
            if any(len(each) < len(nodes) for each in distinct):
                raise ValueError("two of its ranges are one")
            buckets, sequence = record.get("numBuckets"), record.get("seqNo")
            return cls(
                partition,
                nodes,
                int(buckets or len(nodes)),
                InstantTime(record["instant"]),
                int(sequence or 0),
            )
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise TableError(
                f"{path} is no hashing metadata ({error}), so that it can't be seen where the keys of "
                f"partition {partition!r} are; restore the file, or delete it if that partition has no rows",
                path=path,
                partition=partition,
            ) from error

    def to_json(self) -> bytes:
        record = {
            "version": 0,
            "partitionPath": self.partition,
            "instant": self.instant,
            "numBuckets": self.buckets,
            "seqNo": self.sequence,
            "nodes": [node.to_record("NORMAL") for node in self.nodes],
        }
        return json.dumps(record, indent=2).encode()

    @cached_property
    def _ends(self) -> Ints:
        return np.array([node.end for node in self.nodes], dtype=np.int64)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {node.file_id: number for number, node in enumerate(self.nodes)}

    def place(self, hashes: UInt32Array) -> Ints:
        """The numbers of the nodes whose ranges have these hashes of 32 bits, whose sign is dropped."""
        places = np.searchsorted(self._ends, (hashes & np.uint32(MOST)).astype(np.int64))
        return np.where(places == len(self.nodes), 0, places)

    def number(self, file_id: str) -> int | None:
        """Of the node with a file group; None: the ring has no such."""
        return self._numbers.get(file_id)

    def renewed(self, instant: InstantTime = NO_TIME) -> Ring:
        """The ring after the replacecommit of all its file groups. Repeated, it gives the same file ids."""
        sequence = self.sequence + 1
        nodes = (Node(node.end, _named(f"{node.prefix} {sequence}".encode())) for node in self.nodes)
        return Ring(self.partition, tuple(nodes), self.buckets, instant, sequence)

    def changed(self, changes: Iterable[Node], instant: InstantTime) -> Ring:
        """The ring after a clustering."""
        nodes = {node.end: node for node in self.nodes}
        for change in changes:
            if change.prefix:
                nodes[change.end] = change
            else:
                nodes.pop(change.end, None)
        ordered = tuple(nodes[end] for end in sorted(nodes))
        return Ring(self.partition, ordered, self.buckets, instant, self.sequence + 1)

    def before(self, number: int) -> int:
        """The number of the node before one, in the circle."""
        return (number - 1) % len(self.nodes)

    def split(self, number: int) -> list[Node]:
        """The changes that halve a range; none of one that is too small."""
        node, former = self.nodes[number], self.nodes[self.before(number)].end
        middle = former + node.end + (0 if former < node.end else MOST + 1) >> 1 & MOST
        if middle in (former, node.end):
            return []
        return [Node(middle, new_file_prefix()), Node(node.end, new_file_prefix())]

    def merge(self, numbers: Sequence[int]) -> list[Node]:
        """The changes that make one range of several, which follow one another."""
        *others, last = (self.nodes[number].end for number in numbers)
        return [*(Node(end, "") for end in others), Node(last, new_file_prefix())]


def _first_prefix(start: int, end: int, partition: str) -> str:
    return _named(struct.pack(">qq", start, end) + partition.encode())


def _named(name: bytes) -> str:
    """Java's UUID.nameUUIDFromBytes."""
    return str(uuid.UUID(bytes=hashlib.md5(name, usedforsecurity=False).digest(), version=3))


def rings_folder(base_path: str) -> str:
    return join(meta_path(base_path), FOLDER)


def ring_path(base_path: str, partition: str, instant: InstantTime) -> str:
    return join(rings_folder(base_path), partition, instant + _SUFFIX)


def ring_instant(name: str) -> InstantTime | None:
    """The instant of a ring by the name of its file; None for other files."""
    match = _NAME.fullmatch(name)
    return InstantTime(match.group(1)) if match else None


@dataclass(frozen=True)
class Rings:
    """The rings of a table that a view of its timeline shows. Each is read once, when it is first needed; the
    threads of a process may share this.
    """

    table: TableRef
    snapshot: TimelineView
    _known: dict[str, Ring | None] = field(default_factory=dict, compare=False, repr=False)

    def of(self, partition: str) -> Ring | None:
        """None for a partition that has none yet. Raises TableError for a torn one."""
        if partition not in self._known:
            self._known[partition] = self._read(self.table.storage(), partition)
        return self._known[partition]

    def load(self, partitions: Iterable[str]) -> None:
        """Read those of several partitions, some at a time."""
        wanted = [partition for partition in dict.fromkeys(partitions) if partition not in self._known]
        if len(wanted) > 1:
            storage = self.table.storage()
            with ThreadPoolExecutor(_READERS) as pool:
                found = pool.map(lambda partition: self._read(storage, partition), wanted)
                self._known.update(zip(wanted, found, strict=True))

    def _read(self, storage: Storage, partition: str) -> Ring | None:
        names = storage.names(join(rings_folder(self.table.uri), partition))
        for instant in sorted(filter(None, map(ring_instant, names)), key=REQUESTED.key, reverse=True):
            if instant == FIRST or self.snapshot.shows(instant):
                path = ring_path(self.table.uri, partition, instant)
                ring = Ring.parse(storage.read(path), partition, path)
                known = instant == FIRST or instant in self.snapshot.committed or instant + _MARKER in names
                if known or self._has_files(storage, ring):
                    return ring
        return None

    def _has_files(self, storage: Storage, ring: Ring) -> bool:
        """Of an instant older than the timeline: was it committed, not rolled back? Apache Hudi takes the
        base files of its ranges as the sign.
        """
        names = map(BaseFileName.parse, storage.names(join(self.table.uri, ring.partition)))
        return any(name is not None and ring.number(name.file_id) is not None for name in names)
