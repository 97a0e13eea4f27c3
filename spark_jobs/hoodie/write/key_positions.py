"""Where the incoming rows of a file group are stored in its base file, as the index found them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hoodie.format.base_file import READ_BATCH_ROWS, BaseFileReader
from hoodie.index.locations import LOOK_UP, Positions
from hoodie.read.key_join import Part, Places
from hoodie.write.context import STORED_ROW


def places_in(reader: BaseFileReader, parts: Sequence[Part]) -> Places:
    """The rows of a base file that `parts` have the keys of; the file is the one that the index looked at.

    No key is compared again, except where the index leaves that to the writer (LOOK_UP).
    """
    stored = [_stored_rows(part) for part in parts]
    if any((rows == LOOK_UP).any() for rows in stored):
        return Places.looked_up(reader.record_keys(READ_BATCH_ROWS), reader.rows, parts)
    return Places.of_rows(stored, reader.rows)


def _stored_rows(part: Part) -> Positions:
    """Those of the rows, then those of the keys to delete."""
    rows: Positions = part.rows.column(STORED_ROW).to_numpy()
    if part.deletes is None:
        return rows
    known = part.stored_deletes
    return np.concatenate([rows, np.full(len(part.deletes), LOOK_UP, np.int32) if known is None else known])
