"""A merge-on-read table made by hand: instants, one base file, log blocks of every kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.config.key import Config
from hoodie.format.log_block import BlockType, HeaderKey, rollback_headers
from hoodie.format.log_data import DeleteRecords, encode_data_block, encode_delete_block
from hoodie.format.log_file import LogFileWriter
from hoodie.format.meta_fields import META_COLUMNS, with_meta
from hoodie.format.names import LogFileName
from hoodie.format.schema import to_avro_text
from hoodie.format.settings import Codec
from hoodie.merge import merger
from hoodie.read.log_merge import SliceContext
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.listing import StorageListing
from hoodie.table.view import FileSlice, TimelineView, merged_slices
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata, WriteStat
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.time import InstantTime
from tests.support.arrow import arrow_schema
from tests.support.stores import store_at

Row = dict[str, Any]
STORAGE = LocalStorage()
GROUP = "00000000-0000-0000-0000-000000000000-0"
SCHEMA = arrow_schema(
    [
        ("key", pa.string()),
        ("ts", pa.int64()),
        ("a", pa.string()),
        ("b", pa.float64()),
        ("c", pa.list_(pa.int32())),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
AVRO = to_avro_text(with_meta(SCHEMA), "hoodie.t.t_record")
LARGE = 1 << 30


def moment(number: int) -> str:
    """The instant of a number; they are in order."""
    return f"2024010100{number:07d}"


class LogTable:
    """One file group of one table. Log files get their versions in the order of writing."""

    def __init__(self, path: Path, payload: str | None = None, base: int = 1) -> None:
        self.path = str(path)
        self.base = base
        self._version = 0
        given = {properties.PAYLOAD_CLASS: payload} if payload else {}
        properties.create(
            STORAGE,
            self.path,
            {
                "hoodie.table.name": "t",
                properties.TYPE: "MERGE_ON_READ",
                properties.PRECOMBINE_FIELD: "ts",
                properties.RECORD_KEY_FIELDS: "key",
                **given,
            },
        )
        (path / ".hoodie_partition_metadata").write_text("partitionDepth=0\n")

    def instant(
        self, number: int, state: State = State.COMPLETED, action: Action = Action.DELTACOMMIT
    ) -> str:
        """An instant on the timeline; completed ones tell the schema and that they wrote to the group."""
        time = moment(number)
        stats = {"": (WriteStat(file_id=GROUP, path=None, partition_path=""),)}
        commit = CommitMetadata(stats, extra_metadata={"schema": to_avro_text(SCHEMA, "hoodie.t.t_record")})
        data = commit.to_json() if state is State.COMPLETED else b""
        store_at(self.path).create(Instant(InstantTime(time), action, state), data)
        return time

    def base_file(self, rows: Sequence[Row], number: int | None = None) -> str:
        """The base file of an instant, which is completed here."""
        time = self.instant(self.base if number is None else number)
        name = f"{GROUP}_0-0-0_{time}.parquet"
        pq.write_table(stored_rows(rows, time, name), Path(self.path) / name)
        return name

    def log(self, *blocks: list[Any] | bytes, version: int | None = None, token: str = "0-0-0") -> str:
        """A log file of blocks, or bytes as they are."""
        self._version = version or self._version + 1
        name = str(LogFileName(GROUP, InstantTime(moment(self.base)), self._version, token))
        with LocalStorage().output(str(Path(self.path) / name), exclusive=True) as sink:
            writer = LogFileWriter(sink)
            for block in blocks:
                if isinstance(block, bytes):
                    sink.write(block)
                else:
                    writer.append(*block)
        return name

    def slice(self, as_of: int | None = None) -> tuple[FileSlice, TimelineView]:
        """What a snapshot query reads."""
        time = None if as_of is None else InstantTime(moment(as_of))
        snapshot = TimelineView.of(Timeline.load(self.path, STORAGE), STORAGE, time)
        (found,) = merged_slices(snapshot, StorageListing(STORAGE, self.path).files, "")
        return found, snapshot

    def context(
        self, snapshot: TimelineView, payload: str = "event_time", budget: int = LARGE
    ) -> SliceContext:
        config = Config.of({"hoodie.datasource.write.payload.class": payload})
        return SliceContext(
            schema=with_meta(SCHEMA),
            snapshot=snapshot,
            merger=merger(config, "ts", SCHEMA),
            ordering="ts",
            budget=budget,
            spill_path="",
        )


def stored_rows(rows: Iterable[Row], time: str, name: str) -> pa.Table:
    """Rows with meta columns, one sequence number each."""
    meta = [
        {
            **dict.fromkeys(META_COLUMNS, ""),
            "_hoodie_commit_time": time,
            "_hoodie_commit_seqno": f"{time}_0_{number}",
            "_hoodie_record_key": row["key"],
            "_hoodie_file_name": name,
            **row,
        }
        for number, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(meta, with_meta(SCHEMA))


def data(number: int, rows: Sequence[Row], kind: BlockType = BlockType.AVRO_DATA, **more: Any) -> list[Any]:
    """A data block of an instant."""
    table = stored_rows(rows, moment(number), GROUP)
    headers = {HeaderKey.INSTANT_TIME: moment(number), HeaderKey.SCHEMA: AVRO, **_compacted(**more)}
    return [kind, headers, encode_data_block(table, AVRO, kind, Codec.ZSTD)]


def deletes(
    number: int, keys: Sequence[str], ordering: Sequence[int | None] | None = None, **more: Any
) -> Any:
    """A delete block of an instant; no ordering values, or one or None for each key."""
    values = None if ordering is None else pa.array(ordering, pa.int64())
    records = DeleteRecords(pa.array(keys, pa.string()), pa.array([""] * len(keys), pa.string()), values)
    headers = {HeaderKey.INSTANT_TIME: moment(number), HeaderKey.SCHEMA: AVRO, **_compacted(**more)}
    return [BlockType.DELETE, headers, encode_delete_block(records)]


def rollback(number: int, target: int) -> list[Any]:
    return [BlockType.COMMAND, rollback_headers(InstantTime(moment(number)), InstantTime(moment(target)))]


def _compacted(compacted: Sequence[int] = ()) -> dict[int, str]:
    """Newest first, as Apache Hudi writes them."""
    text = ",".join(moment(number) for number in reversed(compacted))
    return {HeaderKey.COMPACTED_BLOCK_TIMES: text} if text else {}
