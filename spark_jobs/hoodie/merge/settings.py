"""Settings of how rows with one key are merged."""

from __future__ import annotations

from hoodie.config.key import Key, parse_enum, str_key
from hoodie.table.merge_rule import MergeMode as MergeMode

PRECOMBINE_FIELD = str_key(
    "hoodie.datasource.write.precombine.field",
    None,
    "Ordering column: of two rows with the same key the larger value wins. Unset: the later row.",
    aliases=(
        "hoodie.payload.ordering.field",
        "hoodie.table.ordering.fields",
        "hoodie.table.precombine.field",
    ),
    group="merge",
)
PAYLOAD_CLASS = str_key(
    "hoodie.datasource.write.payload.class",
    None,
    "How rows with the same key are merged: Apache Hudi's payload class name, a short name (event_time, "
    "commit_time, overwrite_non_defaults, partial_update) or your own `module:Class`, "
    "derived from hoodie.merge.Merger. Unset: event_time where there is an ordering column, else "
    "commit_time.",
    aliases=("hoodie.compaction.payload.class",),
    group="merge",
)


MERGE_MODE: Key[MergeMode | None] = Key(
    "hoodie.record.merge.mode",
    None,
    "EVENT_TIME_ORDERING (larger ordering value wins, also against the table), COMMIT_TIME_ORDERING (the "
    "newer write wins) or CUSTOM (the payload class decides).",
    parse_enum(MergeMode),
    aliases=("hoodie.write.record.merge.mode",),
    group="merge",
)
DELETE_FIELD = str_key(
    "hoodie.payload.delete.field",
    None,
    "Column that marks deletes (event_time only), instead of `_hoodie_is_deleted`.",
    group="merge",
)
DELETE_MARKER = str_key(
    "hoodie.payload.delete.marker",
    None,
    "Value of the delete column that means: delete this record.",
    group="merge",
)
