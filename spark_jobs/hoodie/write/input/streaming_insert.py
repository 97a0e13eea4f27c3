"""Writes new file groups of a frame whose rows are not staged.
1. The first pass computes the key columns alone and counts the rows. It checks every key and reports the
   partitions to the driver. So a wrong key or partition is refused before anything is written.
2. The second pass computes the rows, shuffles them if needed, and writes them, in one job.
All other frames are staged.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.config.key import Config
from hoodie.engine import Engine, Frame
from hoodie.engine.task import Task
from hoodie.errors import HoodieError
from hoodie.format.names import new_file_id
from hoodie.format.schema import canonical
from hoodie.format.settings import MAX_FILE_SIZE
from hoodie.timeline.time import InstantTime
from hoodie.write.assign.bulk_insert import COMPRESSION
from hoodie.write.assign.inserts import appeared
from hoodie.write.assign.workload import WorkloadProfile
from hoodie.write.blobs import BLOB_SCHEMA, SUMMARY, answers, error_message, message
from hoodie.write.context import WriteContext
from hoodie.write.files.rehearsal import handles_of
from hoodie.write.files.write_task import write_new
from hoodie.write.input.incoming import chunk_bytes, chunks, keyed_rows, keys_of, unstored
from hoodie.write.input.stage import by_partition, names_and_codes
from hoodie.write.plan import WritePlan

#: so that no row is shuffled, a write may have more files than the fewest: one in so many, or as many as are
#: so large a part of a full one
_ONE_IN, _LARGE_PART = 4, 4
_TEXT_BYTES, _ITEMS = 24, 4


@dataclass(frozen=True)
class CountRows:
    """The function given to `map_batches` on the key columns; `width` is about the bytes of a whole row.

    Answers rows by partition path, and `runs`: how often the path changes from one row to the next.
    """

    context: WriteContext
    width: int

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        totals: dict[str, int] = {}
        runs, last = 0, None
        try:
            for chunk in chunks(batches, chunk_bytes(self.context)):
                _, paths = keys_of(self.context, chunk)
                names, codes = names_and_codes(paths)
                for name, rows in zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True):
                    totals[name] = totals.get(name, 0) + rows
                runs += int(np.count_nonzero(np.diff(codes))) + (names[codes[0]] != last)
                last = names[codes[-1]]
        except HoodieError as error:
            yield error_message(error)
            return
        found = [[name, "", rows, rows * self.width, []] for name, rows in totals.items()]
        yield message(SUMMARY, {"partitions": found, "runs": runs})


class Way(Enum):
    """How rows come to the tasks that write them."""

    AS_THEY_ARE = "in their order"
    ORDERED = "ordered in their tasks"
    GATHERED = "gathered"


@dataclass(frozen=True)
class WriteRows:
    """The function given to `map_batches` on the rows: each run of rows of one partition becomes new file
    groups. Only `partitions` were checked, so there are no others.
    """

    context: WriteContext
    instant: InstantTime
    partitions: frozenset[str]

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        storage = self.context.table.storage()
        try:
            with handles_of(self.context, storage, self.instant, task) as handles:
                for partition, runs in itertools.groupby(self._runs(batches), key=lambda run: run[0]):
                    yield write_new(handles, partition, new_file_id(), (rows for _, rows in runs))
        except HoodieError as error:
            yield error_message(error)

    def _runs(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
        """Rows by partition, in each chunk those of the one before first."""
        last = ""
        for chunk in chunks(batches, chunk_bytes(self.context)):
            keys, paths, rows = keyed_rows(self.context, chunk)
            names, codes = names_and_codes(paths)
            if unknown := sorted(set(names) - self.partitions):
                raise appeared(unknown[0])
            found = by_partition(unstored(keys, rows), names, codes)
            runs = sorted(found, key=lambda run: run[0] != last)
            yield from runs
            last = runs[-1][0]


@dataclass(frozen=True)
class StreamingInsertPlan:
    """`profile` is what staging would have found; `way` is how `rows` come to the tasks that write them."""

    rows: Frame
    profile: WorkloadProfile
    way: Way

    @classmethod
    def of(cls, engine: Engine, frame: Frame, plan: WritePlan) -> StreamingInsertPlan | None:
        """None where the rows have to be looked at first. Raises what is wrong with a key."""
        context, config = plan.context, plan.config
        if (
            not context.streams
            or plan.request.dry_run  # that, and explain, say how large files would be
            or not always_fits(canonical(engine.schema(frame)), context.schema)
        ):
            return None
        source = engine.repeatable(frame, context.keys.key_columns)
        if source is None:
            return None
        with engine.batches(rows=True):
            files = engine.files(frame)
            width = width_of(context.schema) if files is None else files.width
            step = CountRows(context, width)
            found = answers(engine, engine.map_batches(source.columns, step, BLOB_SCHEMA))
        profile = WorkloadProfile.of(found)
        limit = plan.write_parallelism(profile.input_partitions, engine.parallelism).limit
        way = chosen_way(found, profile, config, limit)
        if way is not Way.ORDERED:
            return cls(frame, profile, way)
        keys = context.keys
        ordered = source.ordered(keys.partition_fields) if keys.paths_by_value else None
        if ordered is None:
            return cls(frame, profile, Way.GATHERED)
        return cls(ordered, profile, way)


def chosen_way(
    found: list[dict[str, Any]], profile: WorkloadProfile, config: Config, limit: int | None
) -> Way:
    """The way with the least work that makes few files: `found` is what the tasks have counted."""
    if limit is not None and len(found) > limit:
        return Way.GATHERED
    full = config[MAX_FILE_SIZE] * COMPRESSION
    sizes = [size for _, size in profile.groups.values()]
    fewest = sum(max(1, -(-size // full)) for size in sizes)
    most = max(fewest + fewest // _ONE_IN, sum(sizes) * _LARGE_PART // full)
    if sum(answer["runs"] for answer in found) <= most:
        return Way.AS_THEY_ARE
    return Way.ORDERED if sum(len(answer["partitions"]) for answer in found) <= most else Way.GATHERED


def always_fits(incoming: pa.Schema, schema: pa.Schema) -> bool:
    """Is no value refused for a null: each column may be null, at any depth, or comes without."""
    return all(
        _nullable(field) or (field.name in incoming.names and incoming.field(field.name).equals(field))
        for field in schema
    )


def _nullable(field: pa.Field[Any]) -> bool:
    kind = field.type
    if pa.types.is_map(kind):
        return field.nullable and _nullable(kind.item_field)
    return field.nullable and all(_nullable(kind.field(place)) for place in range(kind.num_fields))


def width_of(schema: pa.Schema) -> int:
    """About the bytes of a row in memory, by the types alone."""
    return _width(pa.struct(list(schema)))


def _width(kind: pa.DataType) -> int:
    """About the bytes of a value in memory."""
    if pa.types.is_struct(kind):
        return sum(_width(kind.field(place).type) for place in range(kind.num_fields))
    if pa.types.is_nested(kind):
        return _ITEMS * sum(_width(kind.field(place).type) for place in range(kind.num_fields))
    try:
        return max(1, kind.bit_width // 8)
    except ValueError:
        return _TEXT_BYTES
