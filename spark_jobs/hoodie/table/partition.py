"""Partition folders and their `.hoodie_partition_metadata` (format.md 4.1)."""

from __future__ import annotations

import contextlib
import re
import time
from functools import partial
from urllib.parse import unquote

from hoodie.errors import AlreadyExists
from hoodie.format.names import DEFAULT_PARTITION, join
from hoodie.storage import Storage
from hoodie.table.properties import BOOTSTRAP_BASE_PATH, TableProperties
from hoodie.timeline.store import again
from hoodie.timeline.time import InstantTime

PARTITION_FILE = ".hoodie_partition_metadata"


def ensure_partition(storage: Storage, base_path: str, partition: str, instant: InstantTime) -> None:
    """Create the partition's metadata file unless it is there; safe under racing writers."""
    path = join(base_path, partition, PARTITION_FILE)
    if storage.exists(path):
        return
    depth = len(partition.split("/")) if partition else 0
    stamp = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime())
    text = f"#partition metadata\n#{stamp}\ncommitTime={instant}\npartitionDepth={depth}\n"
    with contextlib.suppress(AlreadyExists):
        again(partial(storage.create, path, text.encode("latin-1")))


def partition_texts(props: TableProperties, partition: str) -> dict[str, str | None]:
    """What the path says of each partition column, None: null or an empty text; {} where it is unclear.

    A bootstrapped table has the partition paths of what it was bootstrapped from, hive-style or not.
    """
    fields = props.partition_fields
    parts = [partition] if len(fields) == 1 else partition.split("/")
    if len(parts) != len(fields):
        return {}
    return {field: part_text(props, field, part) for field, part in zip(fields, parts, strict=True)}


def part_text(props: TableProperties, field: str, part: str) -> str | None:
    """What one part of a path says of its column, None: null or an empty text."""
    named = props.hive_style or BOOTSTRAP_BASE_PATH in props
    text = part.removeprefix(f"{field}=") if named else part
    text = unquote(text) if props.url_encode else text
    return None if text == DEFAULT_PARTITION else text


def is_matched(pattern: str, partition: str) -> bool:
    """Does the pattern match the partition. `*` is any text, slashes included, as in Apache Hudi's
    resolvePartitionWildcards.
    """
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), partition, re.DOTALL) is not None
