"""Settings of the metadata table."""

from __future__ import annotations

from hoodie.config.key import Key, parse_bool

METADATA_ENABLE: Key[bool | None] = Key(
    "hoodie.metadata.enable",
    None,
    "Read a table's files, and statistics of them, from its metadata table. Without it queries do so where "
    "the table has one; false lists the folders.",
    parse_bool,
    group="read",
)
