"""A lock of the user's own that shows whether two writers are at work at once.

Who publishes first waits until the timeline has the unfinished instant of another writer: of two runs one
after the other the first would wait in vain, and fail.
"""

from __future__ import annotations

import threading

from hoodie.lock import Lease
from hoodie.lock.filesystem import FilesystemLock
from hoodie.timeline.active import Timeline

#: seconds, for a writer that would never meet another one
PATIENCE_S = 120


class MeetingLock(FilesystemLock):
    """The lock file in the table's own folder, taken to publish once two writers have begun."""

    taken = 0

    def acquire(self, timeout: float) -> Lease:
        MeetingLock.taken += 1
        if MeetingLock.taken == 3:  # after those to enter and to begin
            for _ in range(PATIENCE_S * 20):
                timeline = Timeline.load(self.table.base_path, self.table.storage)
                if len(timeline.pending()) + len(timeline.commits()) > 2:  # beside the first rows
                    break
                threading.Event().wait(0.05)
            else:
                raise AssertionError("no other writer came")
        return super().acquire(timeout)
