"""Settings of the gate; those of locks are in hoodie.lock.settings, those of heartbeats in table.settings."""

from __future__ import annotations

import enum

from hoodie.config.key import bool_key, enum_key, int_key


class ConcurrencyMode(enum.Enum):
    SINGLE_WRITER = "SINGLE_WRITER"
    OPTIMISTIC_CONCURRENCY_CONTROL = "OPTIMISTIC_CONCURRENCY_CONTROL"
    NON_BLOCKING_CONCURRENCY_CONTROL = "NON_BLOCKING_CONCURRENCY_CONTROL"


CONCURRENCY_MODE = enum_key(
    "hoodie.write.concurrency.mode",
    ConcurrencyMode.SINGLE_WRITER,
    "SINGLE_WRITER: a second live writer is refused, or waits its turn (hoodie.write.wait.for.writer.ms). "
    "OPTIMISTIC_CONCURRENCY_CONTROL: writers work at once, and of those that change one file group the first "
    "to commit wins; needs hoodie.write.lock.provider, the same for all writers of the table. "
    "NON_BLOCKING_CONCURRENCY_CONTROL: as that, and upserts, inserts and deletes of a merge-on-read table of "
    "version 8 or 9 with the simple BUCKET index write log files only, so that none of them loses: of rows "
    "with one key the table's merge mode decides, by the order in which writers began.",
    group="concurrency",
)
CONFLICT_RETRIES = int_key(
    "hoodie.write.num.retries.on.conflict.failures",
    0,
    "How often an optimistic write that lost to another one starts again, before it fails with "
    "commit_conflict.",
    minimum=0,
    group="concurrency",
)
NEW_KEYS = bool_key(
    "hoodie.write.concurrency.check.new.keys",
    True,
    "Does an optimistic write lose to another one that inserted a key which it inserts, too. Without it, as "
    "in Apache Hudi, such a key is in the table twice; the BUCKET index, whose keys have their file group, "
    "needs no such check.",
    group="concurrency",
)
EARLY_DETECTION = bool_key(
    "hoodie.write.concurrency.early.conflict.detection.enable",
    False,
    "Does an optimistic write look, before it writes to a file group, whether a live write that began "
    "earlier has a marker of it, and lose to that one at once; see Apache Hudi's "
    "SimpleDirectMarkerBasedDetectionStrategy.",
    group="concurrency",
)
EARLY_COMMITS = bool_key(
    "hoodie.write.concurrency.early.conflict.check.commit.conflict",
    False,
    "Does that look also find commits of the file group that were completed meanwhile.",
    group="concurrency",
)
