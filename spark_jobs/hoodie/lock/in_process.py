"""A lock between the threads of one process; Apache Hudi's InProcessLockProvider."""

from __future__ import annotations

import os
import threading
import uuid

from hoodie.lock import Holder, Lease, LockProvider
from hoodie.table.heartbeat import this_process

#: by the path of the table
_HELD: dict[str, Lease] = {}
_GUARD = threading.Lock()


def _after_fork() -> None:
    """The holders are threads of the parent, which the child does not have."""
    global _GUARD
    _GUARD = threading.Lock()
    _HELD.clear()


os.register_at_fork(after_in_child=_after_fork)


class InProcessLock(LockProvider):
    advice = ". Other processes are not excluded by this lock"

    @property
    def name(self) -> str:
        return f"in process {this_process()}"

    def try_acquire(self) -> Lease | None:
        path = self.table.base_path
        with _GUARD:
            if path in _HELD:
                return None
            _HELD[path] = lease = _Lease(path)
            return lease

    def holder(self) -> Holder | None:
        lease = _HELD.get(self.table.base_path)
        return None if lease is None else lease.holder


class _Lease(Lease):
    def __init__(self, path: str) -> None:
        thread = threading.current_thread().name
        holder = Holder.here(f"thread {thread}")
        super().__init__(holder=holder, token=uuid.uuid4().hex)
        self._path = path

    @property
    def held(self) -> bool:
        return _HELD.get(self._path) is self

    def release(self) -> None:
        with _GUARD:
            if self.held:
                del _HELD[self._path]
