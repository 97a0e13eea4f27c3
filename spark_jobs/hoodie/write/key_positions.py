"""Where the incoming rows of a file group are stored in its base file, as the index found them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.format.base_file import READ_BATCH_ROWS, BaseFileReader
from hoodie.index.locations import LOOK_UP
from hoodie.read.matching import Part, Places
from hoodie.write.context import STORED_ROW


def places_in(reader: BaseFileReader, parts: Sequence[Part]) -> Places:
    """The rows of a base file that `parts` have the keys of; the file is the one that the index looked at.

    No key is compared again, except where the index leaves that to the writer (LOOK_UP).
    """
    if any(_looks_up(part) for part in parts):
        return Places.looked_up(reader.record_keys(READ_BATCH_ROWS), reader.rows, parts)
    stored = [part.rows.column(STORED_ROW).to_numpy() for part in parts]
    return Places.of_rows(stored, reader.rows)


def _looks_up(part: Part) -> bool:
    return bool(pc.any(pc.equal(part.rows.column(STORED_ROW), pa.scalar(LOOK_UP, pa.int32()))).as_py())
