"""Locks: one process at a time holds that of a table. Base class and registry.

Who takes a lock, and when, is the gate's affair (hoodie.concurrency.gate).
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hoodie.config.key import Config, Key
from hoodie.config.plugins import Plugins
from hoodie.errors import ConfigError, LockTimeout
from hoodie.lock.settings import OF_PROVIDERS, PROVIDER
from hoodie.table.settings import INTERVAL_MS

if TYPE_CHECKING:
    from hoodie.table.handle import Table

_SHORTEST_S, _LONGEST_S = 0.01, 1.0
#: characters of what another process left in a lock
_SHOWN = 200
#: the end of Python's calendar
_LAST_MS = 253_402_300_799_999


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

    @classmethod
    def this_process(cls) -> Holder:
        return cls.here(f"process {os.getpid()}")

    @classmethod
    def here(cls, process: str) -> Holder:
        """On this machine, from now on."""
        since = datetime.now().isoformat(" ", "milliseconds")
        return cls(process=process, host=socket.gethostname(), since=since)

    def owner(self, token: str) -> str:
        """One line for a lock that keeps its owner as a text; see `of_owner`."""
        return f"{token} {self.process} on {self.host} since {self.since}"

    @classmethod
    def of_owner(cls, text: str) -> Holder:
        """As `owner` wrote it; a text of another program's as the process."""
        token, _, rest = text.partition(" ")
        process, on, rest = rest.partition(" on ")
        host, _, since = rest.partition(" since ")
        if on and since:
            return cls.found(process=process, host=host, since=since)
        return cls(process=f"owner {shown(text if rest else token)}")

    @classmethod
    def found(cls, *, process: object, host: object, since: object) -> Holder:
        """As a lock names it that another process left."""
        return cls(process=shown(process), host=shown(host), since=shown(since))


def shown(text: object) -> str:
    """One line of at most 200 characters, for messages."""
    return " ".join(str(text)[:_SHOWN].split())


def time_of(epoch_ms: int) -> str:
    """The time, in UTC, for messages; the last one is that of the year 9999."""
    found = datetime.fromtimestamp(min(epoch_ms, _LAST_MS) / 1000, timezone.utc)
    return found.isoformat(" ", "milliseconds")


class Lease(ABC):
    """A lock that was acquired, until `release`. `token` differs from that of every other lease."""

    #: seconds after which others may take the lock, counted from the acquisition or the last `renew`; None:
    #: they never do
    lasts_s: float | None = None
    #: seconds between two renewals; None: a part of `lasts_s`
    renewed_s: float | None = None

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


class RequestExpired(Exception):
    """The server no longer has the request of a process that waits for its lock: the process slept, or its
    connection broke. `LockProvider.acquire` requests the lock again.
    """


class LockProvider(ABC):
    """The lock of one table. `try_acquire` and `holder` make one; `acquire` tries until the time is over.

    Two leases of one lock are never `held` at once, except where a holder was silent for `lasts_s`: the later
    one counts then. A process that dies loses its lease after `lasts_s`, or with itself.
    """

    #: does a try of Apache Hudi's provider of this name wait (hoodie.write.lock.wait_time_ms)
    waits = True
    #: what else may be done about a lock that does not get free
    advice = ""
    #: `lasts_s` of the leases, where the settings say it
    expires_s: float | None = None
    #: settings that say where the lock is
    needed: tuple[Key[Any], ...] = ()

    def __init__(self, *, table: Table, config: Config) -> None:
        """Checks the settings; the lock is not touched."""
        for key in self.needed:
            if not config[key]:
                raise ConfigError(
                    f"{PROVIDER.name}={config[PROVIDER]} needs {key.name}; set it as the table's other "
                    "writers do",
                    setting=key.name,
                )
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
        """The lease, within `timeout` seconds. Raises LockTimeout, which names the holder, and StorageError.

        A request that expired meanwhile is made again in the time that is left.
        """
        deadline, pause = time.monotonic() + timeout, _SHORTEST_S
        while True:
            with contextlib.suppress(RequestExpired):
                lease = self._acquire(max(0.0, deadline - time.monotonic()))
                if lease is not None:
                    return lease
            left = deadline - time.monotonic()
            if left <= 0:
                raise self.timed_out(timeout)
            time.sleep(min(left, pause * random.uniform(0.5, 1.5)))
            pause = min(_LONGEST_S, pause * 1.5)

    def _acquire(self, timeout: float) -> Lease | None:
        """One try, of at most `timeout` seconds; None where it brought no lease. Raises RequestExpired."""
        return self.try_acquire()

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


class WaitingLock(LockProvider):
    """A lock of a server that has those wait which ask for it."""

    def try_acquire(self) -> Lease | None:
        with contextlib.suppress(RequestExpired):
            return self._acquire(0.0)
        return None

    @abstractmethod
    def _acquire(self, timeout: float) -> Lease | None: ...


LOCKS: Plugins[LockProvider] = Plugins(
    kind="lock provider",
    base=LockProvider,  # type: ignore[type-abstract]
    places={
        "in_process": "hoodie.lock.in_process:InProcessLock",
        "filesystem": "hoodie.lock.filesystem:FilesystemLock",
        "zookeeper": "hoodie.lock.zookeeper:ZookeeperLock",
        "storage": "hoodie.lock.storage_based:StorageLock",
        "hivemetastore": "hoodie.lock.hivemetastore:HiveMetastoreLock",
        "dynamodb": "hoodie.lock.dynamodb:DynamoDBLock",
    },
    aliases={
        "in_process": ("org.apache.hudi.client.transaction.lock.InProcessLockProvider",),
        "filesystem": ("org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",),
        "zookeeper": ("org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",),
        "storage": ("org.apache.hudi.client.transaction.lock.StorageBasedLockProvider",),
        "hivemetastore": ("org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider",),
        "dynamodb": ("org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider",),
    },
)


def lock_for(table: Table, config: Config) -> LockProvider | None:
    """The lock that the settings name, None where they name none. Raises ConfigError; touches nothing."""
    name = config[PROVIDER]
    if name:
        made = LOCKS.load(PROVIDER.name, name)(table=table, config=config)
        _check_expiry(made, config)
        return made
    for key in OF_PROVIDERS:
        if config.given(key):
            raise ConfigError(
                f"{key.name}={config.text(key.name)!r} is of a lock, and {PROVIDER.name} names none; set "
                f"that to {key.name.split('.')[3]}, or leave this out",
                setting=key.name,
                value=config.text(key.name),
            )
    return None


def _check_expiry(lock: LockProvider, config: Config) -> None:
    """Raises ConfigError for a lock that expires sooner than its process is known to be alive."""
    if lock.expires_s is not None and lock.expires_s * 1000 < config[INTERVAL_MS]:
        raise ConfigError(
            f"the lock {lock.name} expires after {lock.expires_s:g} s, sooner than a writer beats "
            f"({INTERVAL_MS.name}={config[INTERVAL_MS]}); let it expire later, or the writer beat more often",
            setting=INTERVAL_MS.name,
            value=config[INTERVAL_MS],
        )
