"""The merger of a delete by keys: every incoming row deletes its key, whatever is stored and however new.

As Apache Hudi 0.15.0, whose delete operation brings EmptyHoodieRecordPayloads: they have no ordering value,
so in logs they are deletes that always win. No plugin: tables don't choose it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Bools, Column, Rows, array, whole
from hoodie.merge import Merger, Outcome


class HardDelete(Merger):
    """Looks at no column but the key, so that the incoming rows need no other."""

    java_class = "org.apache.hudi.common.model.EmptyHoodieRecordPayload"
    takes_whole_rows = True
    ignores_stored = True

    def columns(self, schema: pa.Schema) -> tuple[str, ...]:
        return ()

    def combine(self, rows: pa.Table, keys: Column | Sequence[Column]) -> pa.Table:
        """The first row of each key, for keys that are one column."""
        assert isinstance(keys, (pa.Array, pa.ChunkedArray))
        codes = np.asarray(whole(keys).dictionary_encode().indices)
        first = np.unique(codes, return_index=True)[1]
        return rows if len(first) == rows.num_rows else rows.take(array(np.sort(first)))

    def merge(self, stored: pa.Table, incoming: pa.Table) -> Outcome:
        every = np.ones(incoming.num_rows, np.bool_)
        return Outcome(every, every)

    def deleted(self, rows: Rows) -> Bools:
        return np.ones(rows.num_rows, np.bool_)
