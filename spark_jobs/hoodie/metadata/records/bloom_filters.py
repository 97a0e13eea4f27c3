"""Records of the partition `bloom_filters` (format.md 10.3): those in the footers of base files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from hoodie.format.hfile_records import KEY_FIELD
from hoodie.metadata.keys import file_key
from hoodie.metadata.record_schema import column_type
from hoodie.metadata.records import Records
from hoodie.timeline.time import InstantTime

FILTER = "BloomFilterMetadata"
_TYPE = 4


@dataclass(frozen=True)
class Filter:
    """`text`: the footer's; None where the file was deleted. `kind` is the type of the filter."""

    partition: str
    name: str
    text: str | None
    kind: str = ""


def filter_records(instant: InstantTime, filters: Sequence[Filter]) -> Records:
    values = [
        {
            "type": item.kind,
            "timestamp": instant,
            "bloomFilter": (item.text or "").encode(),
            "isDeleted": item.text is None,
        }
        for item in filters
    ]
    columns = {
        KEY_FIELD: pa.array([file_key(item.partition, item.name) for item in filters], pa.string()),
        "type": pa.array([_TYPE] * len(filters), pa.int32()),
        FILTER: pa.array(values, column_type(FILTER)),
    }
    return Records(pa.table(columns))
