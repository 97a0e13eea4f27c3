"""New keys that two writers inserted at once: neither found the other's in the index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.format.base_file import BaseFileReader
from hoodie.format.names import join
from hoodie.table.handle import Table

#: partition path, file id and path in the table of base files with new rows
Inserted = Sequence[tuple[str, str, str]]
_BATCH_ROWS = 1 << 17


@dataclass(frozen=True, kw_only=True)
class SharedKey:
    """A key, and where the other writer has it."""

    key: str
    partition: str
    file_id: str


def shared_key(table: Table, own: Inserted, others: Inserted, *, everywhere: bool) -> SharedKey | None:
    """A key that files of both have, in one partition, or, `everywhere`, in any. The keys of one file of the
    other writer are held at a time. Raises FileNotFoundError where one is gone.
    """
    for partition, file_id, path in others:
        mine = [file for place, _, file in own if everywhere or place == partition]
        found = _first(table, mine, path) if mine else None
        if found is not None:
            return SharedKey(key=found, partition=partition, file_id=file_id)
    return None


def _first(table: Table, own: Sequence[str], other: str) -> str | None:
    if not table.storage.exists(join(table.base_path, other)):
        raise FileNotFoundError(other)
    theirs: Any = pa.chunked_array(list(_keys(table, other)), pa.string())
    for path in own:
        for batch in _keys(table, path):
            same = batch.filter(pc.is_in(batch, value_set=theirs))
            if len(same):
                return str(same[0].as_py())
    return None


def _keys(table: Table, path: str) -> Iterator[pa.Array[Any]]:
    with BaseFileReader(table.storage, join(table.base_path, path)) as reader:
        for batch in reader.record_keys(_BATCH_ROWS):
            for piece in batch.chunks if isinstance(batch, pa.ChunkedArray) else (batch,):
                yield piece.cast(pa.string())
