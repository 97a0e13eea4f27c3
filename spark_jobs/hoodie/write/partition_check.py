"""Partition paths that no reader would find again, refused before anything is written.

Without URL encoding a value is a folder name, or several. Readers (ours, Hudi's, hudi-rs) take a folder
with partition metadata for a leaf and look no deeper, and Hadoop's Path takes `a:` for a scheme: one such
folder makes the whole table unreadable for Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hoodie.errors import InputError
from hoodie.format.names import join
from hoodie.keygen.settings import URL_ENCODE
from hoodie.storage import FileInfo
from hoodie.table.handle import Table
from hoodie.table.partition import PARTITION_FILE

_MAX_NAME_BYTES = 255


def check_partition(table: Table, partition: str, fields: Sequence[str], entries: Sequence[FileInfo]) -> None:
    """Raises InputError. `partition` is not empty; `entries` is what its folder holds.

    Looks for other partitions above only where values have brought in more levels than there are fields.
    """
    steps = partition.split("/")
    if ":" in partition:
        raise _refused(partition, fields, "Apache Hudi can't read a table with ':' in the name of a folder")
    for step in steps:
        if step.startswith(PARTITION_FILE):
            raise _refused(
                partition, fields, f"{PARTITION_FILE} is the name of every partition's metadata file"
            )
        if len(step.encode()) > _MAX_NAME_BYTES:
            raise _refused(partition, fields, f"a folder name has at most {_MAX_NAME_BYTES} bytes")
    if len(steps) > len(fields):
        for above in _above(partition):
            if table.storage.exists(join(table.base_path, above, PARTITION_FILE)):
                raise _nested(above, partition, fields)
    if any(item.is_dir for item in entries) and not any(
        item.name.startswith(PARTITION_FILE) for item in entries
    ):
        below = next(item.name for item in entries if item.is_dir)
        raise _nested(partition, f"{partition}/{below}", fields)


def check_apart(partitions: Iterable[str], fields: Sequence[str] = ()) -> None:
    """Raises InputError when one of `partitions` lies inside another."""
    known = set(partitions)
    for partition in sorted(known):
        for above in _above(partition):
            if above in known:
                raise _nested(above, partition, fields)


def _above(partition: str) -> list[str]:
    steps = partition.split("/")
    return ["/".join(steps[:count]) for count in range(1, len(steps))]


def _nested(outer: str, inner: str, fields: Sequence[str]) -> InputError:
    return _refused(
        inner, fields, f"it lies inside the partition {outer!r}, where no reader would find its rows"
    )


def _refused(partition: str, fields: Sequence[str], reason: str) -> InputError:
    named = f"partition column(s) {', '.join(fields)} give" if fields else "the partition values give"
    return InputError(
        f"{named} the path {partition!r}: {reason}. Clean the value, or write to a new table with "
        f"{URL_ENCODE.name}=true",
        column=",".join(fields),
        value=partition,
    )
