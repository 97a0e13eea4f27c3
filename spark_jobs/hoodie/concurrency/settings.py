"""Settings of the gate; those of locks are in hoodie.lock.settings, those of heartbeats in table.settings."""

from __future__ import annotations

import enum

from hoodie.config.key import enum_key


class ConcurrencyMode(enum.Enum):
    SINGLE_WRITER = "SINGLE_WRITER"
    OPTIMISTIC_CONCURRENCY_CONTROL = "OPTIMISTIC_CONCURRENCY_CONTROL"


CONCURRENCY_MODE = enum_key(
    "hoodie.write.concurrency.mode",
    ConcurrencyMode.SINGLE_WRITER,
    "SINGLE_WRITER: a second live writer is refused, or waits its turn (hoodie.write.wait.for.writer.ms). "
    "Others are not supported yet.",
    group="concurrency",
)
