"""Rows with one key are laid over one another by ordering value: the newest non-null value of each column.

Apache Hudi 0.15.0 PartialUpdateAvroPayload. Against the table the row with the larger ordering value has
the upper hand (a tie: the incoming one) and its nulls are filled from the other. A delete takes effect
whatever its ordering value, as in the original. Inside a batch a delete hides the older rows, and rows newer
than it are laid over the delete row's values; the delete flag itself is always the newest row's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Bools, Column, Ints, array
from hoodie.config.key import Config
from hoodie.merge import DELETED_COLUMN, Outcome
from hoodie.merge.ordering import Groups, OrderedRows, checked, filled, needed, or_deletes, stored_is_newer


@dataclass(frozen=True)
class PartialUpdate(OrderedRows):
    java_class = "org.apache.hudi.common.model.PartialUpdateAvroPayload"

    @classmethod
    def make(cls, config: Config, ordering_field: str | None, schema: pa.Schema) -> PartialUpdate:
        return cls(checked(ordering_field, schema))

    @property
    def keeps_newer(self) -> bool:
        return self.ordering is not None

    def columns(self, schema: pa.Schema) -> None:
        return None

    def deciding_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        return needed(schema, self.ordering, DELETED_COLUMN)

    def combine_columns(self, schema: pa.Schema) -> None:
        return None

    def merge(self, stored: pa.Table, incoming: pa.Table) -> Outcome:
        take = np.ones(incoming.num_rows, np.bool_)
        newer = stored_is_newer(stored, incoming, self.ordering) if self.ordering else None
        return Outcome(take, self.deleted(incoming), filled(incoming, stored, newer))

    def fold(self, earlier: pa.Table, later: pa.Table) -> pa.Table:
        """As preCombine does it: what a newer row left null stays as it was made by all rows before.

        Meta columns and the delete flag are the later row's; a delete forgets the earlier row.
        """
        newer = stored_is_newer(earlier, later, self.ordering) if self.ordering else None
        return or_deletes(filled(later, earlier, newer), later, self.deleted(later))

    def combine(self, rows: pa.Table, keys: Column | Sequence[Column]) -> pa.Table:
        """The newest row of each key in its place, its nulls filled from the key's older rows."""
        groups = Groups.of(rows, keys, self.ordering)
        if groups is None:
            return rows
        keep = groups.once.copy()
        newest = groups.rows[groups.starts]
        keep[newest] = True
        source = np.arange(rows.num_rows)
        live = _not_hidden(groups, self.deleted(rows))
        columns = []
        for field in rows.schema:
            values = rows.column(field.name)
            if values.null_count and not field.name.startswith("_hoodie_"):
                source[newest] = _first_valid(groups, values, live)
                columns.append(values.take(array(source[keep])))
            else:
                columns.append(values.filter(array(keep)))
        return pa.table(columns, schema=rows.schema)


def _not_hidden(groups: Groups, deleted: Bools) -> Bools:
    """For each row of the groups: no newer row of its key is a delete."""
    flags = deleted[groups.rows].astype(np.int64)
    before = np.cumsum(flags) - flags
    lengths = np.diff(groups.starts, append=len(groups.rows))
    result: Bools = before == np.repeat(before[groups.starts], lengths)
    return result


def _first_valid(groups: Groups, values: Column, live: Bools) -> Ints:
    """Row number of each key's newest live non-null value; the newest row where there is none."""
    valid = np.asarray(values.is_valid())[groups.rows] & live
    at = np.where(valid, np.arange(len(valid)), len(valid))
    first = np.minimum.reduceat(at, groups.starts)
    result: Ints = groups.rows[np.where(first < len(valid), first, groups.starts)]
    return result
