"""The newer write wins; the ordering column decides only inside a batch.

Apache Hudi 0.15.0 OverwriteWithLatestAvroPayload.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hoodie.config.key import Config
from hoodie.merge import Outcome
from hoodie.merge.ordering import OrderedRows, checked


@dataclass(frozen=True)
class CommitTime(OrderedRows):
    java_class = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
    takes_whole_rows = True
    ignores_stored = True

    @classmethod
    def make(cls, config: Config, ordering_field: str | None, schema: pa.Schema) -> CommitTime:
        return cls(checked(ordering_field, schema))

    def merge(self, stored: pa.Table, incoming: pa.Table) -> Outcome:
        return Outcome(np.ones(incoming.num_rows, np.bool_), self.deleted(incoming))
