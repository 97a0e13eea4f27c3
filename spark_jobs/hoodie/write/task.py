"""Last pass: a task writes its buckets, one after the other, and answers one message of statistics."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.engine import Task
from hoodie.errors import HoodieError
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.timeline.commit import WriteStat
from hoodie.write.context import WriteContext
from hoodie.write.duplicates import LAST
from hoodie.write.handles import Handles
from hoodie.write.rowset import RowSet
from hoodie.write.staged import SUMMARY, decode_rows, error_message, message, values
from hoodie.write.workload import Bucket


@dataclass(frozen=True)
class WriteBuckets:
    """The function given to `map_batches` after the shuffle; batches come ordered by bucket."""

    context: WriteContext
    instant: str
    buckets: tuple[Bucket, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        storage = self.context.table.storage()
        try:
            with Handles(self.context, storage, self.instant, task) as handles:
                for number, blobs in itertools.groupby(_blobs(batches), key=lambda blob: blob[0]):
                    rows = (decode_rows(payload, self.context.travel_schema) for _, payload in blobs)
                    received, stats = self._write(handles, self.buckets[number], rows)
                    yield message(SUMMARY, {"rows": received, "stats": [stat.to_dict() for stat in stats]})
        except HoodieError as error:
            yield error_message(error)

    def _write(
        self, handles: Handles, bucket: Bucket, rows: Iterator[pa.RecordBatch]
    ) -> tuple[int, list[WriteStat]]:
        context = self.context
        with RowSet(context.travel_schema, context.merge_budget, context.spill_path, bucket.bytes) as held:
            held.extend(rows)
            merger = context.merger if context.duplicates.combine else LAST
            if bucket.slice is not None and bucket.append:
                return held.rows, handles.append(bucket.slice, held.parts(context.merger))
            if bucket.base is not None and context.duplicates.merge:
                return held.rows, handles.merge(bucket.base, held.parts(merger), iter(()))
            tables = held.stream()
            if context.duplicates.combine:
                tables = (part.rows for part in held.parts(merger))
            if bucket.base is not None:
                return held.rows, handles.merge(bucket.base, [], tables)
            if context.sort:
                tables = _sorted(tables)
            return held.rows, handles.create(bucket.partition, bucket.file_id, tables)


def _blobs(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.Buffer]]:
    for batch in batches:
        payloads: Any = batch.column("payload")
        for row, number in enumerate(values(batch, "bucket")):
            yield number, payloads[row].as_buffer()


def _sorted(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    rows = pa.concat_tables(tables)
    yield rows.take(pc.sort_indices(rows.column(RECORD_KEY)))
