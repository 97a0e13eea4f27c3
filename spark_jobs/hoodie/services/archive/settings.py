"""Settings of the archive."""

from __future__ import annotations

from hoodie.config.key import bool_key, int_key

MERGE_ENABLED = bool_key(
    "hoodie.archive.merge.enable",
    False,
    "Merge small archive files into larger ones.",
    group="archive",
)
MERGE_SMALL_FILE_LIMIT = int_key(
    "hoodie.archive.merge.small.file.limit.bytes",
    20 << 20,
    "Bytes up to which an archive file is small.",
    minimum=0,
    group="archive",
)
MERGE_BATCH = int_key(
    "hoodie.archive.merge.files.batch.size",
    10,
    "The number of small archive files, the newest in a row, that are merged.",
    minimum=2,
    group="archive",
)
AUTOMATIC = bool_key(
    "hoodie.archive.automatic",
    True,
    "After each write, and after its clean, move old instants into the archived timeline. A failure there "
    "is a warning of the write; its commit stays.",
    group="archive",
)
MAX_COMMITS = int_key(
    "hoodie.keep.max.commits",
    30,
    "Commits, cleans and rollbacks, each counted apart, that the active timeline may have; beyond it the "
    "oldest are archived.",
    minimum=2,
    group="archive",
)
MIN_COMMITS = int_key(
    "hoodie.keep.min.commits",
    20,
    "The number of newest commits, cleans and rollbacks that stay on the active timeline. More than "
    "hoodie.cleaner.commits.retained, else as many as the cleaner needs.",
    minimum=1,
    group="archive",
)
BATCH = int_key(
    "hoodie.commits.archival.batch",
    10,
    "Instant files in one block of an archive file.",
    minimum=1,
    group="archive",
)
BEYOND_SAVEPOINT = bool_key(
    "hoodie.archive.beyond.savepoint",
    False,
    "Archive commits that are newer than a savepoint, too; those with a savepoint stay.",
    group="archive",
)
