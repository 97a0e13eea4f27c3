"""The file groups of a record index of each partition of the table (format.md 15.12; Apache Hudi 1.2.0
HoodieTableMetadataUtil.getFileIDForFileGroup).

A file id has the partition's path, escaped. The hash of a record key says which file group of its partition
has it. A partition gets its file groups with the first commit that writes to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from hoodie.codec.arrays import Ints, array, whole
from hoodie.errors import TableError
from hoodie.metadata.keys import file_groups

_OF_ALL = re.compile(r"record-index-\d{4,}-0", re.ASCII)
_OF_ONE = re.compile(r"record-index-([^-]*)-\d{4,}-0", re.ASCII)
_UNESCAPED = re.compile(r"%([0-7][0-9A-Fa-f])")
#: as Apache Hudi escapes a path, and dots, which its readers know no file id with
_ESCAPED = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^_.-]""")
#: bytes of a path in a file's name of at most 255
_LONGEST = 180
#: the number of the file group of what belongs to none
NOWHERE = -1


def partition_of(file_id: str) -> str | None:
    """The path of the partition whose keys a file group has; None: of all. Raises TableError."""
    of_one = _OF_ONE.fullmatch(file_id)
    if of_one is not None:
        return _UNESCAPED.sub(lambda found: chr(int(found[1], 16)), of_one[1])
    if not _OF_ALL.fullmatch(file_id):
        raise TableError(
            f"the record index has a file group {file_id!r}, which is not known here", file_id=file_id
        )
    return None


def is_named(partition: str) -> bool:
    """Is there a file id with the path of a partition: names of files have at most 255 bytes."""
    return len(_escaped(partition).encode()) <= _LONGEST


def _escaped(partition: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", partition)


class PartitionGroups:
    """Their ids, by number. More are added for partitions that have none."""

    def __init__(self, ids: Sequence[str] = ()) -> None:
        """Raises TableError for file groups that are not of one partition."""
        self.ids = list(ids)
        self._of: dict[str, list[int]] = {}
        for number, file_id in enumerate(ids):
            partition = partition_of(file_id)
            if partition is None:
                raise TableError(
                    "the record index has file groups of all partitions, and its definition says that it is "
                    "one of each partition",
                    file_id=file_id,
                )
            self._of.setdefault(partition, []).append(number)

    def add(self, partition: str, count: int) -> None:
        """Give a partition so many file groups, where it has none."""
        if partition not in self._of:
            self._of[partition] = list(range(len(self.ids), len(self.ids) + count))
            self.ids += [f"record-index-{_escaped(partition)}-{place:04d}-0" for place in range(count)]

    def numbers(self, keys: Any, partitions: Any) -> Ints:
        """The number of each key's file group, NOWHERE in a partition without any. `partitions`: of each."""
        found = np.full(len(keys), NOWHERE, np.int64)
        coded: Any = whole(partitions).dictionary_encode()
        codes = np.asarray(coded.indices)
        for code, partition in enumerate(coded.dictionary.to_pylist()):
            mine, groups = np.flatnonzero(codes == code), self._of.get(partition)
            if groups:
                places = file_groups(keys.take(array(mine)), len(groups))
                found[mine] = np.asarray(groups)[places]
        return found
