"""A lock of Hive's metastore; Apache Hudi's HiveMetastoreBasedLockProvider.

An exclusive lock of the table `database`.`table`, which need not exist. The metastore keeps those that want
it in the order in which they came, and takes it from one that was silent for its `hive.txn.timeout`. So a
holder sends heartbeats, and looks right before it publishes whether the lock is its own.
"""

from __future__ import annotations

import contextlib
import getpass
import time
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from hoodie.config.key import Config
from hoodie.errors import StorageError
from hoodie.lock import Holder, Lease, RequestExpired, WaitingLock, time_of
from hoodie.lock.settings import HEARTBEAT_MS, HMS_DATABASE, HMS_TABLE, HMS_URIS, PROVIDER
from hoodie.metastore.connection import Ask, Foreign, Refused, Unreachable, connected, server, types

if TYPE_CHECKING:
    from hoodie.table.handle import Table

_ANSWER_MS = 10_000
_WANTED = f"{PROVIDER.name}=hivemetastore"
#: how often one that waits asks
_SHORTEST_S, _LONGEST_S = 0.02, 1.0
#: that of hive.txn.timeout
_LASTS_S = 300.0


class HiveMetastoreLock(WaitingLock):
    needed = (HMS_URIS, HMS_DATABASE, HMS_TABLE)

    def __init__(self, *, table: Table, config: Config) -> None:
        super().__init__(table=table, config=config)
        self._database, self._table = str(config[HMS_DATABASE]), str(config[HMS_TABLE])
        self._servers = [
            server(uri, HMS_URIS.name) for uri in str(config[HMS_URIS]).split(",") if uri.strip()
        ]
        self._renewed_s = config[HEARTBEAT_MS] / 1000

    @property
    def name(self) -> str:
        servers = ",".join(f"{host}:{port}" for host, port in self._servers)
        return f"{self._database}.{self._table} in Hive's metastore {servers}"

    def holder(self) -> Holder | None:
        thrift = types(_WANTED)
        with self._connected() as ask:
            wanted = thrift.ShowLocksRequest(dbname=self._database, tablename=self._table)
            found = ask(lambda client: client.show_locks(wanted)).locks
        for each in found or ():
            if each.state == thrift.LockState.ACQUIRED:
                process = (each.agentInfo or "").partition(" ")[2] or f"user {each.user}"
                since = time_of(each.acquiredat) if each.acquiredat else ""
                host, _, noted = each.hostname.partition(" since ")
                return Holder.found(process=process, host=host, since=noted or since)
        return None

    def _acquire(self, timeout: float) -> Lease | None:
        """The lease has the connection, which ends with it."""
        deadline, pause, thrift = time.monotonic() + timeout, _SHORTEST_S, types(_WANTED)
        with contextlib.ExitStack() as held:
            ask = held.enter_context(self._connected())
            token, holder = uuid.uuid4().hex, Holder.this_process()
            request = thrift.LockRequest(
                component=[
                    thrift.LockComponent(
                        type=thrift.LockType.EXCLUSIVE,
                        level=thrift.LockLevel.TABLE,
                        dbname=self._database,
                        tablename=self._table,
                    )
                ],
                user=getpass.getuser(),
                hostname=f"{holder.host} since {holder.since}",
                agentInfo=f"{token} {holder.process}",
            )
            found = ask(lambda client: client.lock(request))
            lease = _Lease(ask, found.lockid, holder, token, self._renewed_s)
            # one that waits would get the lock later, and keep others away
            undo = held.enter_context(contextlib.ExitStack())
            undo.callback(lease.release)
            asked = thrift.CheckLockRequest(lockid=found.lockid)
            while found.state == thrift.LockState.WAITING and (left := deadline - time.monotonic()) > 0:
                time.sleep(min(left, pause))
                pause = min(_LONGEST_S, pause * 1.5)
                found = self._checked(ask, asked)
            if found.state != thrift.LockState.ACQUIRED:
                return None
            undo.pop_all()
            lease.connection = held.pop_all()
            return lease

    def _checked(self, ask: Ask, request: Any) -> Any:
        """The state of a lock that is waited for. Raises RequestExpired where the connection broke, too."""
        try:
            return ask(lambda client: client.check_lock(request))
        except StorageError as error:
            if isinstance(error.__cause__, (Refused, Foreign)):
                raise
            raise RequestExpired(error.message) from error

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Ask]:
        """Errors of the service that say that a lock is gone are _NoLock, others StorageError."""
        try:
            with connected(self._servers, _ANSWER_MS, _WANTED) as asked:

                def ask(request: Callable[[Any], Any]) -> Any:
                    try:
                        return asked(request)
                    except Refused as error:
                        if error.kind in _GONE:
                            raise _NoLock(str(error)) from error
                        raise self._unreachable(error) from error
                    except Unreachable as error:
                        raise self._unreachable(error) from error

                yield ask
        except Unreachable as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> StorageError:
        text = " ".join(str(error).split())[:500] or type(error).__name__
        check = (
            f"Check that the metastore runs, that this machine reaches it ({HMS_URIS.name}) and that it has "
            "the tables of its transactions"
        )
        if isinstance(error, Foreign):
            check = Foreign.remedy(HMS_URIS.name)
        return StorageError(
            f"the lock of {self.table.base_path}, {self.name}, can't be reached: {text}. {check}; then run "
            "again",
            path=self.table.base_path,
            lock=self.name,
            transient=not isinstance(error, Foreign),
        )


#: errors of the service: the lock is not there any more
_GONE = ("NoSuchLockException", "NoSuchTxnException", "TxnAbortedException")


class _NoLock(RequestExpired):
    """The metastore has no such lock."""


class _Lease(Lease):
    def __init__(self, ask: Ask, lock_id: int, holder: Holder, token: str, renewed_s: float) -> None:
        super().__init__(holder=holder, token=token)
        self.lasts_s = _LASTS_S
        self.renewed_s = renewed_s
        self.connection = contextlib.ExitStack()
        self._ask = ask
        self._id = lock_id
        self._released = False

    @property
    def held(self) -> bool:
        """Also False where the metastore can't be asked: it may have taken the lock away."""
        if self._released:
            return False
        thrift = types(_WANTED)
        asked = thrift.CheckLockRequest(lockid=self._id)
        try:
            state = self._ask(lambda client: client.check_lock(asked)).state
        except (_NoLock, StorageError):
            return False
        return bool(state == thrift.LockState.ACQUIRED)

    def renew(self) -> None:
        if not self._released:
            beat = types(_WANTED).HeartbeatRequest(lockid=self._id)
            with contextlib.suppress(_NoLock):
                self._ask(lambda client: client.heartbeat(beat))

    def release(self) -> None:
        if self._released:
            return
        asked = types(_WANTED).UnlockRequest(lockid=self._id)
        with contextlib.suppress(_NoLock):
            self._ask(lambda client: client.unlock(asked))
        self._released = True
        self.connection.close()
