"""The lock of a table around what a writer or service does, where the settings name a lock provider."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from hoodie.config.key import Config
from hoodie.errors import Fenced, HoodieError, LockTimeout
from hoodie.lock import Lease, LockProvider, lock_for
from hoodie.lock.settings import RETRIES, RETRY_WAIT_MS, WAIT_TIME_MS
from hoodie.progress import ProgressCallback
from hoodie.table.handle import Table

_REPORT_S = 30.0
#: a lease that lasts is renewed when this part of its time is over
_RENEWED = 1 / 3


class TableLock:
    """Nothing is done where no provider is set. For one thread.

    A try of the lock and the wait after it are one call of the provider, so that a lock that gets free is
    taken at once.
    """

    def __init__(self, table: Table, config: Config, progress: ProgressCallback) -> None:
        self._provider = lock_for(table, config)
        self._tries = config[RETRIES] + 1
        self._retry_s = config[RETRY_WAIT_MS] / 1000
        self._try_s = config[WAIT_TIME_MS] / 1000
        self._path = table.base_path
        self._progress = progress
        self._lease: Lease | None = None
        #: could not be released: it would stand in this process's own way
        self._left: Lease | None = None

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Hold the lock inside, and keep it renewed. Raises LockTimeout, with nothing held. A block inside
        another one adds nothing.
        """
        if self._provider is None or self._lease is not None:
            yield
            return
        left = self._left if self._left is not None and self._left.held else None
        self._lease = lease = left or self._acquire(self._provider)
        self._left = None
        try:
            with _renewed(lease):
                yield
        finally:
            self._lease = None
            self._release(lease, self._provider)

    @property
    def name(self) -> str:
        """What the lock is, in words; "" without one."""
        return "" if self._provider is None else self._provider.name

    def check(self) -> None:
        """Raises Fenced where the lock that is taken is another process's by now. Costs a request."""
        if self._lease is not None and self._provider is not None and not self._lease.held:
            holder = self._provider.holder()
            raise Fenced(
                f"the lock of {self._path}, {self._provider.name}, was lost: "
                + (f"it is held by {holder}" if holder else "another process removed it")
                + ". Nothing was published; run this again, and give the lock more time before it expires",
                path=self._path,
                lock=self._provider.name,
            )

    def _acquire(self, provider: LockProvider) -> Lease:
        each = self._retry_s + (self._try_s if provider.waits else 0.0)
        started = reported = time.monotonic()
        for left in reversed(range(self._tries)):
            try:
                return provider.acquire(each if left else each - self._retry_s)
            except LockTimeout as error:
                now = time.monotonic()
                if not left:
                    raise provider.timed_out(round(now - started, 1)) from error
                if now - reported >= _REPORT_S:
                    reported = now
                    self._progress("wait", f"the lock is held by {provider.holder()}")
        raise AssertionError

    def _release(self, lease: Lease, provider: LockProvider) -> None:
        """What was published stays published where this fails."""
        try:
            lease.release()
        except (OSError, HoodieError) as error:
            self._left = lease
            self._progress("lock", f"{provider.name} could not be released, others wait for it: {error}")


@contextlib.contextmanager
def _renewed(lease: Lease) -> Iterator[None]:
    if lease.lasts_s is None:
        yield
        return
    done, period = threading.Event(), lease.renewed_s or lease.lasts_s * _RENEWED

    def renew() -> None:
        while not done.wait(period):
            with contextlib.suppress(OSError, HoodieError):  # the next one may come through in time
                lease.renew()

    thread = threading.Thread(target=renew, name="hoodie-lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(timeout=5)
