"""What HDFS refuses, as errors of this package: cause and next step, and nothing of what was sent."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass, field

from hoodie.errors import AlreadyExists, StorageError, TableError
from hoodie.mask import Mask
from hoodie.storage.failure import BeyondEnd, failure


class Unsure(StorageError):
    """A request that is not repeated got no answer: it may have been done."""


class Failure(Exception):
    """One attempt at a request failed with `error`.

    `again`: it may work later; `elsewhere`: on another name node; `unsure`: it may have been done; `long`:
    what keeps it from working takes its time, so that it is not waited for long.
    """

    def __init__(
        self,
        error: Exception,
        *,
        again: bool = False,
        elsewhere: bool = False,
        unsure: bool = False,
        long: bool = False,
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.again, self.elsewhere, self.unsure, self.long = again, elsewhere, unsure, long


@dataclass(frozen=True, kw_only=True)
class Request:
    """One operation of WebHDFS on a path, a URI. `done` says in errors what could not be done with it.

    `once`: it is not repeated where it may have been done.
    """

    path: str
    op: str
    done: str
    method: str = "GET"
    once: bool = False
    params: dict[str, str] = field(default_factory=dict)


#: how the name node says that the name of a new file is taken, also by one that is being written
_TAKEN = frozenset(
    {"FileAlreadyExistsException", "AlreadyBeingCreatedException", "RecoveryInProgressException"}
)
_QUOTA = frozenset(
    {"NSQuotaExceededException", "DSQuotaExceededException", "QuotaByStorageTypeExceededException"}
)
_NAMES = frozenset({"InvalidPathException", "IllegalArgumentException", "PathComponentTooLongException"})
_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
_DENIED = frozenset({"AccessControlException", "AuthorizationException"})
_SHOWN = 300


def refused(status: int, body: bytes, request: Request, server: str, mask: Mask) -> Failure:
    """The error for an answer that is none of success."""
    path, done = request.path, request.done
    name, text = _exception(body)
    line = mask.text(text.strip().partition("\n")[0])[:_SHOWN]
    if name == "FileNotFoundException":
        return Failure(FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path))
    if name in _TAKEN:
        return Failure(AlreadyExists(f"{path} exists already", path=path))
    if "out of the range" in text:
        return Failure(BeyondEnd(f"{path} ends before what is read of it", path=path))
    if name in _NAMES or text.startswith("Invalid path name"):
        return Failure(
            TableError(
                f"{path!r} can't be the name of a file in HDFS ({line}), as one with a colon; of values of "
                "partition columns, set hoodie.datasource.write.partitionpath.urlencode=true in a new table",
                path=path,
            )
        )
    if name == "StandbyException":
        step = "name all name nodes in hoodie.storage.hdfs.http.address, or wait until one of them is active"
        what = f"the name node {server} is in standby"
        return Failure(failure(path, done, what, step, cause="standby"), again=True, elsewhere=True)
    if name == "SafeModeException" or "safe mode" in text:
        step = "wait until it has left it, or have it leave it (hdfs dfsadmin -safemode leave)"
        what = f"the name node {server} is in safe mode, in which nothing changes"
        error = failure(path, done, what, step, cause="safe_mode", transient=True)
        return Failure(error, again=True, long=True)
    if name == "InvalidToken" or "InvalidToken" in text:
        step = "fetch a new one (hdfs fetchdt) for hoodie.storage.hdfs.delegation.token"
        return Failure(
            failure(path, done, "the delegation token is wrong or has expired", step, cause="expired")
        )
    if status == 401:
        step = "set hoodie.storage.hdfs.delegation.token to a delegation token (hdfs fetchdt)"
        return Failure(failure(path, done, f"{server} asks who this is", step, cause="no_credentials"))
    if name in _DENIED:
        step = (
            "permit to read, list, write and delete there, or name another user in hoodie.storage.hdfs.user "
            "or HADOOP_USER_NAME"
        )
        return Failure(failure(path, done, f"access is denied ({line})", step, cause="denied"))
    if name in _QUOTA:
        step = "delete what is not needed, or have the quota raised"
        return Failure(failure(path, done, f"a quota is used up ({line})", step, cause="quota"))
    return _failed(status, name, line, request, server)


def _failed(status: int, name: str, line: str, request: Request, server: str) -> Failure:
    path, done = request.path, request.done
    if not name and status not in _BUSY:
        step = (
            "name in hoodie.storage.hdfs.http.address the HTTP address of the name node "
            "(dfs.namenode.http-address, often port 9870), not the one of its RPC"
        )
        what = f"{server} does not answer as WebHDFS does ({status})"
        return Failure(failure(path, done, what, step, cause="no_webhdfs"))
    if status in _BUSY or name == "RetriableException":
        what = f"{server} is busy or failing ({status}{f', {line}' if line else ''})"
        error = failure(path, done, what, "run again later", cause="busy", transient=True)
        return Failure(error, again=True, elsewhere=True, unsure=status != 503)
    if "could only be written to" in line:
        step = "see that data nodes are up, have room, and can be reached from one another"
        return Failure(failure(path, done, f"no data node takes it ({line})", step, cause="full"))
    return Failure(failure(path, done, f"{name}: {line}", "check HDFS, then run again", cause="other"))


def unreachable(request: Request, server: str, error: Exception, *, data: bool, sent: bool) -> Failure:
    """The error for a server that does not answer. `sent`: the request may have come there."""
    what = f"{'data' if data else 'name'} node {server} does not answer ({_reason(error)})"
    step = (
        "let this machine reach the data nodes by the names that they have in HDFS (dfs.datanode.hostname)"
        if data
        else "see that HDFS runs, that hoodie.storage.hdfs.http.address is the HTTP address of its name node "
        "(dfs.namenode.http-address, often port 9870), and that the network leads there"
    )
    return Failure(
        failure(request.path, request.done, what, step, cause="unreachable", transient=True),
        again=True,
        elsewhere=not data,
        unsure=sent,
    )


def _exception(body: bytes) -> tuple[str, str]:
    """Name and message of Hadoop's exception; empty ones where there is none."""
    try:
        found = json.loads(body)["RemoteException"]
        return str(found["exception"]).rpartition("$")[2], str(found.get("message") or "")
    except (ValueError, TypeError, KeyError, RecursionError):
        return "", ""


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "time-out"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__)[:100]
