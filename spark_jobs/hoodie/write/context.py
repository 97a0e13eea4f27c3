"""What every task of a write needs to know. Picklable; built once on the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from hoodie.concurrency.early_conflict_detection import EarlyConflictDetection
from hoodie.format.base_file import BaseFileFormat
from hoodie.format.internal_schema import Evolution, FileColumns
from hoodie.format.meta_fields import IS_DELETED, RECORD_KEY, with_meta
from hoodie.index import Index, PlacingIndex
from hoodie.keygen import KeyGenerator
from hoodie.merge import Merger
from hoodie.read.key_join import looked_at
from hoodie.read.log_merge import SliceContext
from hoodie.table.handle import TableRef
from hoodie.table.view import TimelineView
from hoodie.timeline.time import InstantTime
from hoodie.write.files.cdc import ChangeFormat, LogFormat
from hoodie.write.input.delete_keys import Duplicates
from hoodie.write.operation import Operation

#: travels with a row: where the index found its key in the file group's base file (see index.locations)
STORED_ROW = "_hoodie_stored_row"
#: in its place in rows that the index has not seen yet: the number of the row's partition
PARTITION_CODE = "_hoodie_partition_code"
#: columns of travelling rows before the data columns
LEADING = 2


class FileContext(Protocol):
    """What writing a base file needs of a write's or a service's context."""

    @property
    def base_path(self) -> str: ...
    @property
    def avro_schema(self) -> str: ...
    @property
    def files(self) -> BaseFileFormat: ...
    @property
    def file_schema(self) -> pa.Schema:
        """Meta columns first."""
        ...


@dataclass(frozen=True, kw_only=True)
class WriteContext:
    """`schema` is the data columns' target schema; `index` is None when rows are inserted untagged; `logs` is
    None in a copy-on-write table, `evolution` where columns are known by name, `changes` where the table
    keeps no change data. Rows that only name keys to delete have none of the data columns.
    """

    table: TableRef
    operation: Operation
    schema: pa.Schema
    avro_schema: str
    keys: KeyGenerator
    merger: Merger
    index: Index | None
    duplicates: Duplicates
    sort: bool
    snapshot: TimelineView
    files: BaseFileFormat
    logs: LogFormat | None
    merge_budget: int
    spill_path: str
    null_for_missing: bool
    evolution: Evolution | None = None
    early: EarlyConflictDetection | None = None
    changes: ChangeFormat | None = None
    #: do rows go to logs alone, whatever of their keys is stored
    log_only: bool = False
    #: have rows a last column of their own that says which ones delete their key
    flagged: bool = False
    #: are rows counted, and not written
    dry_run: bool = False
    #: rows have these columns and those of partial log blocks alone (see `Derived`); none: they have all
    found_by: tuple[str, ...] = ()

    @property
    def base_path(self) -> str:
        return self.table.uri

    @property
    def looks_up(self) -> bool:
        """Is the index asked where keys are stored."""
        return self.index is not None and not isinstance(self.index, PlacingIndex)

    @property
    def tags(self) -> bool:
        """Do rows go to where their keys are stored; else the index only says which keys are known."""
        return self.index is not None and self.index.requires_tagging(self.operation)

    @property
    def streams(self) -> bool:
        """May rows go from where they are to new files: none is compared with another, or looked for."""
        creates = self.operation.fills_new_groups and not self.sort
        return creates and self.index is None and not self.duplicates.combine

    @property
    def incoming_schema(self) -> pa.Schema:
        """The data columns that incoming rows bring, and the flag."""
        if self.flagged:
            return self.schema.append(pa.field(IS_DELETED, pa.bool_()))
        if self.found_by:
            partial = None if self.logs is None else self.logs.partial
            assert partial is not None
            names = {*self.found_by, *partial.names}
            return pa.schema([field for field in self.schema if field.name in names])
        return self.schema if self.operation.brings_rows else pa.schema([])

    @property
    def compared(self) -> list[str]:
        """The columns of incoming rows that the merger looks at; no stored row has the flag."""
        return [*looked_at(self.merger, self.schema, wanted=self.schema.names), *self.flags]

    @property
    def flags(self) -> list[str]:
        """The column of incoming rows that no stored row has."""
        return [IS_DELETED] if self.flagged else []

    def unflagged(self, rows: pa.Table) -> pa.Table:
        """Rows that stay, as files have them."""
        return rows.drop_columns([IS_DELETED]) if self.flagged else rows

    @property
    def travel_schema(self) -> pa.Schema:
        """Schema of the rows inside blobs: the record key, its row in the stored file, the data columns."""
        return self._leading(STORED_ROW)

    @property
    def deletes_schema(self) -> pa.Schema:
        """Schema of the keys inside blobs of DELETES: the record key, its row in the stored file."""
        return pa.schema([*self.travel_schema][:LEADING])

    @property
    def staged_schema(self) -> pa.Schema:
        """Schema of the rows inside blobs that the index has not seen yet."""
        return self._leading(PARTITION_CODE)

    def _leading(self, second: str) -> pa.Schema:
        leading = [pa.field(RECORD_KEY, pa.string()), pa.field(second, pa.int32())]
        return pa.schema([*leading, *self.incoming_schema])

    @property
    def file_schema(self) -> pa.Schema:
        """Schema of base files: meta columns first."""
        return with_meta(self.schema)

    @property
    def slices(self) -> SliceContext:
        """For reading the table's file slices."""
        return SliceContext(
            schema=self.file_schema,
            snapshot=self.snapshot,
            merger=self.merger,
            ordering=self.merger.ordering,
            budget=self.merge_budget,
            spill_path=self.spill_path,
            evolution=self.evolution,
        )

    def columns(self, instant: InstantTime) -> FileColumns | None:
        """How a base file or a log block of this instant calls the columns; None: as the table does."""
        return None if self.evolution is None else self.evolution.columns(instant)
