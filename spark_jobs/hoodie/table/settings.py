"""Settings of heartbeats, of waiting for a table, and of how often it is written."""

from __future__ import annotations

from hoodie.config.key import int_key

INTERVAL_MS = int_key(
    "hoodie.client.heartbeat.interval_in_ms",
    60000,
    "Milliseconds between two beats of a live writer.",
    minimum=100,
    group="concurrency",
)
TOLERABLE_MISSES = int_key(
    "hoodie.client.heartbeat.tolerable.misses",
    2,
    "Beats a writer may miss before it counts as dead and its write is rolled back.",
    minimum=1,
    group="concurrency",
)
WAIT_MS = int_key(
    "hoodie.write.wait.for.writer.ms",
    0,
    "Milliseconds to wait until the table is free, in the order of arrival, while another writer is at work; "
    "0: a second writer is refused at once.",
    minimum=0,
    group="concurrency",
)
EXPECTED_INTERVAL_MS = int_key(
    "hoodie.write.expected.interval.ms",
    0,
    "Milliseconds that usually lie between two writes of the table, such as 86400000 for a day. Commits have "
    "it, and the table is late after three times that. 0: the data intervals of its writes say it, or the "
    "gaps between them.",
    minimum=0,
    group="write",
)
