"""Settings of the metadata table."""

from __future__ import annotations

from hoodie.config.key import Key, int_key, parse_bool

METADATA_ENABLE: Key[bool | None] = Key(
    "hoodie.metadata.enable",
    None,
    "true: writes and services keep the list of files of the table's metadata table up to date, and make one "
    "where there is none; all of them have to be given it. Otherwise they remove a metadata table first. "
    "Queries read the table's files, and statistics of them, from a metadata table that is there, unless it "
    "is false: then they list the folders.",
    parse_bool,
    group="table",
)
COMPACT_AFTER = int_key(
    "hoodie.metadata.compact.max.delta.commits",
    10,
    "Commits after which the next write compacts the metadata table, where none is pending.",
    minimum=1,
    group="table",
)
