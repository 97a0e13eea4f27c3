"""Clocks that differ by more than a heartbeat may be silent. Instants rise anyway, but people read them."""

from __future__ import annotations

import socket
import time

from hoodie.config.key import Config
from hoodie.storage import Storage
from hoodie.table.settings import INTERVAL_MS, TOLERABLE_MISSES
from hoodie.timeline.clock import instant_millis
from hoodie.timeline.time import InstantTime

_ADVICE = "Instants still rise; set the clocks right, since commits are shown with times that are not theirs"


def clock_warnings(storage: Storage, instant: InstantTime, utc: bool, config: Config) -> list[str]:
    """Of a write that has just taken its instant: how this machine's clock differs from that of the writers
    before it, and from the storage's, as far as files show it that were written. Asks the storage nothing.
    """
    limit_ms, now = config[INTERVAL_MS] * config[TOLERABLE_MISSES], time.time() * 1000
    host, found = socket.gethostname(), []
    ahead_ms = instant_millis(instant, utc) - now
    if ahead_ms > limit_ms:
        found.append(
            f"the table's instants are {ahead_ms / 1000:.0f} s ahead of the clock of {host}: it, or that of "
            f"an earlier writer, is wrong, or their time zones differ. {_ADVICE}"
        )
    off_ms = storage.now_ms() - now
    if abs(off_ms) > limit_ms:
        found.append(
            f"the clock of {host} is {abs(off_ms) / 1000:.0f} s {'behind' if off_ms > 0 else 'ahead of'} "
            f"that of the table's storage. {_ADVICE}"
        )
    return found
