"""The incoming row wins, but its nulls keep the stored values.

Apache Hudi 0.15.0 OverwriteNonDefaultsWithLatestAvroPayload: a column at its default keeps the stored
value, and the default of a nullable column is null. Inside a batch whole rows are chosen by the ordering
column, which plays no part against the table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hoodie.config.key import Config
from hoodie.merge import DELETED_COLUMN, Outcome
from hoodie.merge.ordering import OrderedRows, checked, filled, needed


@dataclass(frozen=True)
class OverwriteNonDefaults(OrderedRows):
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
