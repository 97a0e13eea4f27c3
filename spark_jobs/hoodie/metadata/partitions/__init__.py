"""The partitions of a metadata table, a module each: the records that follow from what an action did to the
table, which are pure functions, and their look-up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from hoodie.codec.arrays import Array


@dataclass(frozen=True)
class Records:
    """Of one partition of the metadata table. `rows` have the columns `key`, `type`, and those of
    HoodieMetadataRecord that the partition uses, in the types of `hfile_records.decode_rows`; each key once,
    in any order. `deletes`: keys whose records go, after the rows.

    Of a record index of each partition of the table: the partitions of the rows, in which each key is once,
    and of the deletes; `new`: partitions that get so many file groups where they have none.
    """

    rows: pa.Table
    deletes: Array | None = None
    rows_in: Array | None = None
    deletes_in: Array | None = None
    new: Mapping[str, int] = field(default_factory=dict)
