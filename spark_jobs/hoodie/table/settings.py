"""Settings of heartbeats, of waiting for a table, and of how often it is written."""

from __future__ import annotations

from hoodie.config.key import Key, int_key

#: digits of a place: the millisecond of the arrival, and chance
PLACE_DIGITS = 13 + 6


def _place(text: str) -> str:
    """Raises ValueError."""
    if not (text.isascii() and text.isdigit() and len(text) == PLACE_DIGITS):
        raise ValueError(f"a place has {PLACE_DIGITS} digits")
    return text


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
WAIT_PLACE = Key(
    "hoodie.write.wait.place",
    "",
    "The place that the process has in the table's queue already; it counts once. Operators set it for the "
    "job of a task that waited in Airflow's triggerer. Empty: the end of the queue.",
    _place,
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
