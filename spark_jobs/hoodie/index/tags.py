"""Where keys are stored, and the exact look into one file, which all indexes end with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.format.base_file import READ_BATCH_ROWS, BaseFileReader

Positions = npt.NDArray[np.int32]

#: `Tags.rows` of a key that is not stored, and of one that a file holds more than once
NOWHERE, REPEATED = -1, -2


@dataclass(frozen=True)
class Tags:
    """Where distinct keys are stored: `files` holds positions in the list of files (-1: in none), `rows` the
    key's row in that file (NOWHERE: in none, REPEATED: in several rows, which must be looked up again)."""

    files: Positions
    rows: Positions

    @classmethod
    def of(cls, count: int) -> Tags:
        return cls(np.full(count, NOWHERE, dtype=np.int32), np.full(count, NOWHERE, dtype=np.int32))


#: a key column larger than this (bytes, uncompressed) is looked at in batches
_WHOLE_COLUMN_BYTES = 64 << 20


def mark_found(reader: BaseFileReader, keys: pa.Array[Any], tags: Tags, position: int) -> None:
    """Exact look into one file: tag the keys that are in it. `keys` are distinct.

    Memory: the file's key column up to 64 MiB, else one batch of it.
    """
    step = READ_BATCH_ROWS if reader.key_column_bytes() > _WHOLE_COLUMN_BYTES else None
    start = 0
    for stored in reader.record_keys(step):
        hits: Any = pc.index_in(stored, value_set=keys)
        places: Positions = hits.fill_null(NOWHERE).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(places != NOWHERE)
        found = places[rows]
        again = tags.files[found] == position
        tags.files[found] = position
        tags.rows[found] = start + rows
        again |= tags.rows[found] != start + rows
        tags.rows[found[again]] = REPEATED
        start += len(stored)
