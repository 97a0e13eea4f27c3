"""The larger ordering value wins, in the batch and against the table; a tie goes to the incoming row.

Apache Hudi 0.15.0 DefaultHoodieRecordPayload. An older update or delete changes nothing. A stored row
without ordering value (from before the column existed) is older than anything. Without an ordering column
the incoming row always wins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Bools, Rows, pc
from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.merge import DELETED_COLUMN, Outcome
from hoodie.merge.ordering import OrderedRows, bools, check_marker_type, checked, needed, stored_is_newer
from hoodie.merge.settings import DELETE_FIELD, DELETE_MARKER


@dataclass(frozen=True)
class EventTime(OrderedRows):
    java_class = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    takes_whole_rows = True

    delete_field: str | None = None
    delete_marker: str | None = None

    @classmethod
    def make(cls, config: Config, ordering_field: str | None, schema: pa.Schema) -> EventTime:
        name, marker = config[DELETE_FIELD] or None, config[DELETE_MARKER] or None
        if (name is None) != (marker is None):
            raise ConfigError(
                f"{DELETE_FIELD.name} and {DELETE_MARKER.name} go together; set both or none.",
                field=str(name),
                marker=str(marker),
            )
        if name and name in schema.names:
            check_marker_type(name, schema.field(name).type)
        return cls(checked(ordering_field, schema), name, marker)

    @property
    def delete_ordering(self) -> tuple[str, ...]:
        return (self.ordering,) if self.ordering else ()

    @property
    def keeps_newer(self) -> bool:
        return self.ordering is not None

    def columns(self, schema: pa.Schema) -> tuple[str, ...]:
        return needed(schema, self.ordering, self.delete_field or DELETED_COLUMN)

    def merge(self, stored: pa.Table, incoming: pa.Table) -> Outcome:
        if self.ordering is None:
            take = np.ones(incoming.num_rows, np.bool_)
        else:
            take = ~stored_is_newer(stored, incoming, self.ordering)
        return Outcome(take, take & self.deleted(incoming))

    def deleted(self, rows: Rows) -> Bools:
        """Rows whose delete column holds the marker where one is configured, else flagged ones."""
        if self.delete_field is None:
            return super().deleted(rows)
        if self.delete_field not in rows.schema.names:
            return np.zeros(rows.num_rows, np.bool_)
        text = rows.column(self.delete_field).cast(pa.string())
        return bools(pc.equal(text, self.delete_marker))
