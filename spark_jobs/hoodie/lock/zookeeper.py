"""A lock in ZooKeeper; Apache Hudi's ZookeeperBasedLockProvider.

`<base_path>/<lock_key>` is a node with one ephemeral child for each process that waits for the lock or has
it. Apache Hudi uses Curator's InterProcessMutex. Its children have names `...-lock-<number>`, and the child
with the smallest text after `lock-` is the holder's. The children of this module have such names too, so that
each side excludes the other. (Curator sorts those of kazoo's own Lock, `...__lock__<number>`, otherwise, and
both would hold the lock.)

ZooKeeper removes the child of a dead or silent process after its session has timed out. So a holder checks
right before it publishes that its child still exists.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hoodie.config.key import Config
from hoodie.errors import ConfigError, StorageError
from hoodie.lock import Holder, Lease, RequestExpired, WaitingLock, shown, time_of
from hoodie.lock.settings import (
    PROVIDER,
    ZK_BASE_PATH,
    ZK_CONNECT_MS,
    ZK_KEY,
    ZK_PORT,
    ZK_SESSION_MS,
    ZK_URL,
)
from hoodie.text import install

if TYPE_CHECKING:
    from hoodie.table.handle import Table

_NAME = "-lock-"
_SORTED_BY = "lock-"
#: how often one that waits looks for itself, beside the watch of the node before it
_LOOK_S = 1.0


class ZookeeperLock(WaitingLock):
    needed = (ZK_URL, ZK_BASE_PATH, ZK_KEY)

    def __init__(self, *, table: Table, config: Config) -> None:
        super().__init__(table=table, config=config)
        self._hosts = ",".join(_with_port(host, config[ZK_PORT]) for host in str(config[ZK_URL]).split(","))
        self._path = "/" + "/".join(
            part for part in f"{config[ZK_BASE_PATH]}/{config[ZK_KEY]}".split("/") if part
        )
        self._session_s = config[ZK_SESSION_MS] / 1000
        self._connect_s = config[ZK_CONNECT_MS] / 1000

    @property
    def name(self) -> str:
        return f"{self._path} in ZooKeeper {self._hosts}"

    def holder(self) -> Holder | None:
        with self._connected() as client, self._requests():
            if not client.exists(self._path):
                return None
            for name in _in_order(client.get_children(self._path)):
                with contextlib.suppress(_library().exceptions.NoNodeError):
                    data, found = client.get(f"{self._path}/{name}")
                    return _holder(data, found.ctime)
        return None

    def _acquire(self, timeout: float) -> Lease | None:
        """The lease has the connection, which ends with it: a child goes with its session."""
        deadline = time.monotonic() + timeout
        with contextlib.ExitStack() as held:
            client = held.enter_context(self._connected())
            with self._requests(), _expiring():
                token, holder = uuid.uuid4().hex, Holder.this_process()
                path = self._join(client, token, holder)
                if not self._wait(client, path.rpartition("/")[2], deadline):
                    return None
            return _Lease(client, path, holder, token, held.pop_all())

    def _join(self, client: Any, token: str, holder: Holder) -> str:
        """The path of a new child. Nodes above it are made one by one, as Apache Hudi makes them."""
        place = ""
        for part in self._path.split("/")[1:]:
            place += f"/{part}"
            if not client.exists(place):
                with contextlib.suppress(_library().exceptions.NodeExistsError):
                    client.create(place, b"")
        content = {"process": holder.process, "host": holder.host, "since": holder.since}
        made: str = client.create(
            f"{self._path}/{token}{_NAME}", json.dumps(content).encode(), ephemeral=True, sequence=True
        )
        return made

    def _wait(self, client: Any, own: str, deadline: float) -> bool:
        """Is the child the first one, by the deadline at the latest."""
        while True:
            names = _in_order(client.get_children(self._path))
            if own not in names:
                raise RequestExpired
            if names[0] == own:
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            gone = threading.Event()
            before = f"{self._path}/{names[names.index(own) - 1]}"
            if client.exists(before, watch=lambda _, gone=gone: gone.set()):
                gone.wait(min(left, _LOOK_S))

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        library = _library()
        client = library.client.KazooClient(
            self._hosts,
            timeout=self._session_s,
            connection_retry={"max_tries": -1, "max_delay": 1.0},
            command_retry={"max_tries": 3, "max_delay": 1.0},
        )
        connected = client.start_async()
        if not connected.wait(self._connect_s):
            # which waits for a server that does not answer
            threading.Thread(target=_ended, args=(client,), name="hoodie-zookeeper", daemon=True).start()
            raise self._unreachable(f"no connection within {self._connect_s:g} s")
        try:
            yield client
        finally:
            _ended(client)

    @contextlib.contextmanager
    def _requests(self) -> Iterator[None]:
        library = _library()
        try:
            yield
        except (library.exceptions.KazooException, library.handlers.threading.KazooTimeoutError) as error:
            raise self._unreachable(str(error).strip() or type(error).__name__) from error

    def _unreachable(self, text: str) -> StorageError:
        return StorageError(
            f"the lock of {self.table.base_path}, {self.name}, can't be reached: {text}. Check that the "
            f"server runs, that this machine reaches it ({ZK_URL.name}) and that {self._path} may be "
            "written; then run again",
            path=self.table.base_path,
            lock=self.name,
            transient=True,
        )


class _Lease(Lease):
    def __init__(
        self, client: Any, path: str, holder: Holder, token: str, connection: contextlib.ExitStack
    ) -> None:
        super().__init__(holder=holder, token=token)
        self._client = client
        self._path = path
        self._connection = connection
        self._released = False

    @property
    def held(self) -> bool:
        """Also False where the server can't be asked: its session may be over."""
        if self._released:
            return False
        library = _library()
        try:
            found = self._client.retry(self._client.exists, self._path)
        except (library.exceptions.KazooException, library.handlers.threading.KazooTimeoutError):
            return False
        # a name is not used again, but another session would mean that this one had ended
        return found is not None and found.ephemeralOwner == self._client.client_id[0]

    def release(self) -> None:
        """The session ends, also where the child can't be deleted."""
        if self._released:
            return
        self._released = True
        library = _library()
        with self._connection, contextlib.suppress(library.exceptions.KazooException):
            self._client.delete(self._path)


def _ended(client: Any) -> None:
    client.stop()
    client.close()


@contextlib.contextmanager
def _expiring() -> Iterator[None]:
    """Raises RequestExpired where the session or its connection ended: the child is gone, or goes soon."""
    ended = _library().exceptions
    try:
        yield
    except (ended.SessionExpiredError, ended.ConnectionLoss, ended.ConnectionClosedError) as error:
        raise RequestExpired from error


def _in_order(names: list[str]) -> list[str]:
    """As Curator sorts them."""
    return sorted(names, key=lambda name: name.rpartition(_SORTED_BY)[2])


def _holder(data: bytes, created_ms: int) -> Holder:
    """Curator's nodes contain the address of the machine."""
    try:
        found = json.loads(data)
        return Holder.found(process=found["process"], host=found["host"], since=found["since"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return Holder(host=shown(data.decode("ascii", "replace")), since=time_of(created_ms))


def _with_port(host: str, port: int) -> str:
    host = host.strip()
    return host if ":" in host else f"{host}:{port}"


def _library() -> Any:
    try:
        import kazoo
        import kazoo.client
        import kazoo.exceptions
        import kazoo.handlers.threading
    except ImportError as error:
        raise ConfigError(
            f"{PROVIDER.name}=zookeeper needs the package kazoo, which is not here ({error}): "
            f"{install('zookeeper')} where the driver runs",
            value="zookeeper",
        ) from None
    return kazoo
