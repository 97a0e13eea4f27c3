"""The incoming row wins, but its nulls keep the stored values.

Apache Hudi 0.15.0 OverwriteNonDefaultsWithLatestAvroPayload: a column at its default keeps the stored
value, and the default of a nullable column is null. Inside a batch whole rows are chosen by the ordering
column, which plays no part against the table. Rows of logs are chosen like those of a batch; since table
version 8 they are laid over one another in their order, and a delete always wins (Apache Hudi 1.2.0
BufferedRecordMergerFactory, HoodieAvroRecordMerger).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Bools, Column
from hoodie.config.key import Config
from hoodie.merge import DELETED_COLUMN, Merger, Outcome
from hoodie.merge.ordering import OrderedRows, checked, filled, needed, or_deletes


@dataclass(frozen=True)
class OverwriteNonDefaults(OrderedRows):
    """in_order: rows of logs meet in their order."""

    in_order: bool = False

    java_class = "org.apache.hudi.common.model.OverwriteNonDefaultsWithLatestAvroPayload"

    @classmethod
    def make(cls, config: Config, ordering_field: str | None, schema: pa.Schema) -> OverwriteNonDefaults:
        return cls(checked(ordering_field, schema))

    def columns(self, schema: pa.Schema) -> None:
        return None

    def deciding_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        return needed(schema, None, DELETED_COLUMN)

    def merge(self, stored: pa.Table, incoming: pa.Table) -> Outcome:
        take = np.ones(incoming.num_rows, np.bool_)
        return Outcome(take, self.deleted(incoming), filled(incoming, stored))

    def of_later(self) -> Merger:
        return replace(self, in_order=True) if type(self) is OverwriteNonDefaults else self

    @property
    def folds(self) -> bool:
        return self.in_order

    def fold(self, earlier: pa.Table, later: pa.Table) -> pa.Table:
        return or_deletes(filled(later, earlier), later, self.deleted(later))

    def outlives(self, rows: pa.Table, ordering: Column) -> Bools:
        if self.in_order:
            return np.zeros(rows.num_rows, np.bool_)
        return super().outlives(rows, ordering)
