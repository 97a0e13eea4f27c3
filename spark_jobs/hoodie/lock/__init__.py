"""Locks: one process at a time holds that of a table. Base class and registry.

Who takes a lock, and when, is the gate's affair (hoodie.concurrency.gate).
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hoodie.config.key import Config
from hoodie.config.plugins import Plugins
from hoodie.errors import ConfigError, LockTimeout
from hoodie.lock.settings import FILESYSTEM_EXPIRE, FILESYSTEM_PATH, PROVIDER

if TYPE_CHECKING:
    from hoodie.table.handle import Table

_SHORTEST_S, _LONGEST_S = 0.01, 1.0


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who has a lock, as far as it is known: `process` in words, `since` a point in time."""

    process: str = ""
    host: str = ""
    since: str = ""

    def __str__(self) -> str:
        where = f" on {self.host}" if self.host else ""
        since = f" since {self.since}" if self.since else ""
        return f"{self.process or 'an unknown process'}{where}{since}"


class Lease(ABC):
    """A lock that was acquired, until `release`. `token` differs from that of every other lease."""

    #: seconds after which others may take the lock, counted from the acquisition or the last `renew`; None:
    #: they never do
    lasts_s: float | None = None

    def __init__(self, *, holder: Holder, token: str) -> None:
        self.holder = holder
        self.token = token

    @property
    @abstractmethod
    def held(self) -> bool:
        """False once the lock was released, taken over, or removed by someone else."""

    def renew(self) -> None:  # noqa: B027  a lease that lasts needs none
        """Let the lease last from now on; without effect where it is not `held`. Other threads call it."""

    @abstractmethod
    def release(self) -> None:
        """Give the lock back. What another process holds by now is left alone."""


class LockProvider(ABC):
    """The lock of one table. `try_acquire` and `holder` make one; `acquire` has a default that asks again.

    Two leases of one lock are never `held` at once, except where a holder was silent for `lasts_s`: the later
    one counts then. A process that dies loses its lease after `lasts_s`, or with itself.
    """

    #: does a try of Apache Hudi's provider of this name wait (hoodie.write.lock.wait_time_ms)
    waits = True
    #: what else may be done about a lock that does not get free
    advice = ""

    def __init__(self, *, table: Table, config: Config) -> None:
        """Checks the settings; the lock is not touched."""
        self.table = table
        self.config = config

    @classmethod
    def make(cls, *, table: Table, config: Config) -> LockProvider:
        return cls(table=table, config=config)

    @property
    @abstractmethod
    def name(self) -> str:
        """What the lock is, in words: its path or address."""

    @abstractmethod
    def try_acquire(self) -> Lease | None:
        """The lease, at once; None while another one is held. Raises StorageError."""

    @abstractmethod
    def holder(self) -> Holder | None:
        """The holder of the lock now; None for a free one."""

    def acquire(self, timeout: float) -> Lease:
        """The lease, within `timeout` seconds. Raises LockTimeout, which names the holder."""
        deadline, pause = time.monotonic() + timeout, _SHORTEST_S
        while True:
            lease = self.try_acquire()
            if lease is not None:
                return lease
            left = deadline - time.monotonic()
            if left <= 0:
                raise self.timed_out(timeout)
            time.sleep(min(left, pause * random.uniform(0.5, 1.5)))
            pause = min(_LONGEST_S, pause * 1.5)

    def timed_out(self, waited: float) -> LockTimeout:
        """The error after so many seconds."""
        holder = self.holder() or Holder()
        return LockTimeout(
            f"the lock of {self.table.base_path}, {self.name}, was not free within {waited:g} s: it is "
            f"held by {holder}. Run this again when that is done{self.advice}",
            path=self.table.base_path,
            lock=self.name,
            holder=holder.process,
            host=holder.host,
            since=holder.since,
            waited_s=waited,
        )


LOCKS: Plugins[LockProvider] = Plugins(
    kind="lock provider",
    base=LockProvider,  # type: ignore[type-abstract]
    places={
        "in_process": "hoodie.lock.in_process:InProcessLock",
        "filesystem": "hoodie.lock.filesystem:FilesystemLock",
    },
    aliases={
        "in_process": ("org.apache.hudi.client.transaction.lock.InProcessLockProvider",),
        "filesystem": ("org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",),
    },
)


def lock_for(table: Table, config: Config) -> LockProvider | None:
    """The lock that the settings name, None where they name none. Raises ConfigError; touches nothing."""
    name = config[PROVIDER]
    if name:
        return LOCKS.load(PROVIDER.name, name)(table=table, config=config)
    for key in (FILESYSTEM_PATH, FILESYSTEM_EXPIRE):
        if config.given(key):
            raise ConfigError(
                f"{key.name}={config.text(key.name)!r} is of a lock, and {PROVIDER.name} names none; set "
                "that to filesystem, or leave this out",
                setting=key.name,
                value=config.text(key.name),
            )
    return None
