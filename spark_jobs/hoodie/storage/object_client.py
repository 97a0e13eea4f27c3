"""The client of one bucket of an object store, by the package obstore: requests, retries, errors.

- Obstore repeats, with growing pauses and jitter, what failed by 429, 5xx or before it was sent. The client
  repeats the rest: a conditional PUT whose connection was reset, an answer that was cut off.
- Until the store has answered this process once, the client has little time. So a wrong endpoint, a wrong
  region or missing credentials show within seconds.
- Refusals of the store become errors of this package: with cause and next step, and without the request's
  content.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from hoodie.errors import AlreadyExists, ConfigError, StorageError, TableError
from hoodie.mask import Mask
from hoodie.storage.failure import BeyondEnd, failure
from hoodie.storage.settings import REQUEST_TIMEOUT_MS, RETRY_TIMEOUT_MS
from hoodie.text import install


class Changed(StorageError):
    """The object has another version than the one that is to be replaced, or is gone."""


class _Bucket(Protocol):
    @property
    def root(self) -> str: ...
    @property
    def credentials(self) -> str: ...


_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_STATUS = re.compile(r"status code: (\d{3})\b")
_URL = re.compile(r"https?://[^\s\"]+")
_TIMES = re.compile(r" in [\d.]+\S{0,2}s\b.*? - ")
_RIGHT_REGION = re.compile(r"expecting '([\w-]{1,40})'|<Region>([\w-]{1,40})</Region>")
#: where the machine's or container's role is asked for
_METADATA = (
    "://169.254.",
    "://[fd00:ec2::",
    "://metadata.google.internal",
    "/latest/api/token",
    "/latest/meta-data/",
    "/metadata/identity/",
    "/computeMetadata/",
)
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
_REGION = ("AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException")
_EXPIRED = ("ExpiredToken", "TokenRefreshRequired", "ExpiredAuthenticationToken")
_WRONG = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "AuthenticationFailed")
_BUSY = frozenset({408, 425, 429, *range(500, 600)} - {501})


def translated(error: Exception, path: str, done: str, bucket: _Bucket, mask: Mask) -> Exception:
    """What to raise for an error of the library. The text of a request or an answer is in none."""
    text, kind = str(error), type(error).__name__
    found, number = _CODE.search(text), _STATUS.search(text)
    code, status = found[1] if found else "", int(number[1]) if number else 0
    there = isinstance(error, FileNotFoundError)
    if code in _NO_BUCKET or (there and done == "written") or (status == 404 and done == "listed"):
        what = f"there is no bucket {bucket.root}"
        return failure(path, done, what, "make it, or correct the path", cause="no_bucket")
    if there and not _asked_for_role(text):
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if kind == "AlreadyExistsError":
        return AlreadyExists(f"{path} exists already", path=path, conflict=status == 409)
    if kind in ("PreconditionError", "NotModifiedError"):
        return Changed(f"{path} was changed meanwhile", path=path)
    if kind == "InvalidPathError" or (kind == "ValueError" and "parse path" in text):
        return TableError(
            f"{path!r} can't be the name of an object; whatever names it is damaged or forged", path=path
        )
    if status == 416 or "StartTooLarge" in text:
        return BeyondEnd(f"{path} ends before what is read of it", path=path)
    if status == 501 or kind in ("NotSupportedError", "NotImplementedError"):
        return unconditional(path)
    return _refused(text, code, status, path, done, bucket) or _failed(text, status, path, done, mask)


def _refused(text: str, code: str, status: int, path: str, done: str, bucket: _Bucket) -> StorageError | None:
    """The error for what the store does not allow; None for another one."""
    if _asked_for_role(text):
        step = f"set {bucket.credentials}"
        return failure(path, done, "no credentials were found", step, cause="no_credentials")
    if code in _REGION or "incorrectly configured region" in text:
        right = _RIGHT_REGION.search(text)
        where = f", {right[1] or right[2]}" if right else ""
        step = "set hoodie.storage.s3.region or AWS_REGION"
        return failure(path, done, f"the bucket is of another region{where}", step, cause="wrong_region")
    if code in _EXPIRED:
        return failure(path, done, f"the credentials have expired ({code})", "renew them", cause="expired")
    if code == "RequestTimeTooSkewed":
        return failure(path, done, f"this machine's clock is off ({code})", "set it right", cause="clock")
    if code in _WRONG or status == 401:
        what, step = f"the credentials are wrong ({code or status})", f"check {bucket.credentials}"
        return failure(path, done, what, step, cause="wrong_credentials")
    if status == 403:
        return failure(
            path,
            done,
            f"access is denied ({code or status})",
            f"permit to read, list, write and delete below {bucket.root}, or check {bucket.credentials}",
            cause="denied",
        )
    return None


def _failed(text: str, status: int, path: str, done: str, mask: Mask) -> StorageError:
    if status in _BUSY:
        what = f"the store is busy or failing ({status})"
        return failure(path, done, what, "run again later", cause="busy", transient=True)
    if not status and "HTTP error" in text:
        step = "check hoodie.storage.*.endpoint or that of the environment, and the network"
        return failure(
            path, done, "the store's endpoint does not answer", step, cause="unreachable", transient=True
        )
    line = _TIMES.sub(": ", _URL.sub("", text.partition("\n")[0].partition("<")[0]))
    return failure(
        path, done, mask.text(line)[:300].strip(), "check the store, then run again", cause="other"
    )


def _asked_for_role(text: str) -> bool:
    """Is the failure one of finding credentials on the machine."""
    return any(sign in url for url in _URL.findall(text) for sign in _METADATA)


def unconditional(path: str) -> StorageError:
    """The error for a store on which two writers could both create one file."""
    return StorageError(
        f"{path} can't be written: its store has no conditional writes, so that two writers could both "
        "create one file; use a bucket that has them (Amazon S3, Google Cloud Storage, Azure, current "
        "MinIO, Ceph)",
        path=path,
        cause="no_conditional_writes",
    )


T = TypeVar("T")

#: before the first answer
_FIRST_REQUEST_MS, _FIRST_RETRY_MS = 5_000, 8_000
_CONNECT_S = 3
_RETRIES = 12
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 10.0
#: modification times may be as coarse
_CLOCK_MS = 2_000
#: of this process's newest objects the times of writing are kept, which show the store's clock
_KEPT = 64
#: of the ends of files that are held
_HELD_BYTES = 32 << 20
_MEMORY = "MemoryStore"
_ENDPOINT = re.compile(r"https?://[^\s/?#]+[^\s?#]*", re.IGNORECASE)
#: the library reads the environment
_VARIABLES = ("AWS_", "GOOGLE_", "AZURE_")


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """One bucket (container), and how its store is opened: `kind` is obstore's class, `config` its settings.

    `root` is the beginning of every path in it, `extra` what is to be installed.
    """

    root: str
    kind: str
    extra: str
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    allow_http: bool = False
    request_ms: int = REQUEST_TIMEOUT_MS.default
    retry_ms: int = RETRY_TIMEOUT_MS.default
    #: by what a wrong or missing credential is set right, for errors
    credentials: str = ""
    #: does a range of the last bytes of an object need one request
    suffixes: bool = True
    #: is it known that creation is exclusive
    proven: bool = False

    @property
    def identity(self) -> tuple[Any, ...]:
        around = sorted(item for item in os.environ.items() if item[0].startswith(_VARIABLES))
        given = sorted(self.config.items())
        return (self.root, self.kind, tuple(given), tuple(around), self.request_ms, self.retry_ms)


class HeldEnds:
    """(size, last bytes) of files that were opened, for their next opening: of files that do not change
    while they are held. Threads share it.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._found: dict[str, tuple[int, bytes]] = {}
        self._holders = self._bytes = 0

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Ends are held inside: the first ones, within a bound."""
        with self._guard:
            self._holders += 1
        try:
            yield
        finally:
            with self._guard:
                self._holders -= 1
                if not self._holders:
                    self._found.clear()
                    self._bytes = 0

    def hold(self, path: str, size: int, tail: bytes) -> None:
        """For the next `take`, where ends are held."""
        with self._guard:
            if self._holders and path not in self._found and self._bytes + len(tail) <= _HELD_BYTES:
                self._found[path] = size, tail
                self._bytes += len(tail)

    def take(self, path: str) -> tuple[int, bytes] | None:
        """What is held of a file, which makes room for another one's; None where nothing is."""
        with self._guard:
            found = self._found.pop(path, None)
            self._bytes -= len(found[1]) if found else 0
        return found


class Client:
    """For all storages of this process that have the same bucket and settings; threads share it."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.ends = HeldEnds()
        self.mask = Mask(dict(bucket.config), {"sas.token": bucket.config.get("sas_key", "")})
        #: creation was seen to be exclusive
        self.proven = bucket.proven
        #: by how much the clock of the store is ahead of this machine's
        self.ahead_ms = 0
        self._written: dict[str, tuple[str, int, int]] = {}
        self._answered = False
        self._stores: dict[bool, Any] = {}
        self._guard = threading.Lock()

    def ask(self, path: str, done: str, request: Callable[[Any, Any], T], *, again: bool = True) -> T:
        """What `request` returns, which is given the library and the store; it is made `again`, for the retry
        time, where the store did not answer: the first one may have been done.

        Raises FileNotFoundError, AlreadyExists, Changed, and StorageError for everything else.
        """
        began, pause = time.monotonic(), _FIRST_PAUSE_S
        while True:
            try:
                return self._ask(path, done, request)
            except StorageError as error:
                left = self._patience_ms / 1000 - (time.monotonic() - began) - pause
                if not again or not error.transient or left <= 0:
                    raise
            time.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    @property
    def _patience_ms(self) -> int:
        """How long what failed is repeated: little until the store has answered once."""
        return self.bucket.retry_ms if self._answered else min(self.bucket.retry_ms, _FIRST_RETRY_MS)

    def _ask(self, path: str, done: str, request: Callable[[Any, Any], T]) -> T:
        library, store = _library(self.bucket), self._store()
        try:
            found = request(library, store)
        except (library.exceptions.BaseError, OSError, ValueError, NotImplementedError) as error:
            found_error = translated(error, path, done, self.bucket, self.mask)
            if isinstance(found_error, (FileNotFoundError, AlreadyExists, Changed)):
                self._answered = True
            raise found_error from None
        self._answered = True
        return found

    def wrote(self, path: str, tag: str | None, before_ms: int) -> None:
        """Of an object that was just put, when: `saw` compares it with the time that the store gives it."""
        if tag is not None:
            while len(self._written) >= _KEPT:
                with contextlib.suppress(KeyError, RuntimeError, StopIteration):
                    del self._written[next(iter(self._written))]
            self._written[path] = (tag, before_ms, _local_ms())

    def saw(self, path: str, tag: str | None, modified: datetime) -> None:
        """The time that the store gives an object."""
        known = self._written.pop(path, None) if self._written else None
        if known is None or known[0] != tag:
            return
        _, before, after = known
        stamped = int(modified.timestamp() * 1000)
        least, most = stamped - after, stamped + 1000 - before  # times may be cut to seconds
        near = least - _CLOCK_MS <= 0 <= most + _CLOCK_MS
        self.ahead_ms = 0 if near else (least + most) // 2

    def now_ms(self) -> int:
        return _local_ms() + self.ahead_ms

    def _store(self) -> Any:
        patient = self._answered or self.bucket.kind == _MEMORY
        with self._guard:
            found = self._stores.get(patient)
            if found is None:
                found = self._stores[patient] = self._opened(patient=patient)
        return found

    def _opened(self, *, patient: bool) -> Any:
        bucket, library = self.bucket, _library(self.bucket)
        if bucket.kind == _MEMORY:
            return library.store.MemoryStore()
        config = dict(bucket.config)
        # else those of the environment would complete them
        keys = {
            "access_key_id": config.pop("access_key_id", None),
            "secret_access_key": config.pop("secret_access_key", None),
            "token": config.pop("session_token", None),
            "expires_at": None,
        }
        request_ms = bucket.request_ms if patient else min(bucket.request_ms, _FIRST_REQUEST_MS)
        retry_ms = self._patience_ms
        try:
            return getattr(library.store, bucket.kind)(
                config=config,
                client_options={
                    "allow_http": bucket.allow_http,
                    "connect_timeout": timedelta(seconds=min(_CONNECT_S, request_ms / 1000)),
                    "timeout": timedelta(milliseconds=request_ms),
                },
                retry_config={
                    "max_retries": _RETRIES if retry_ms else 0,
                    "retry_timeout": timedelta(milliseconds=retry_ms),
                    "backoff": {
                        "init_backoff": timedelta(milliseconds=100),
                        "max_backoff": timedelta(seconds=10 if patient else 1),
                        "base": 2,
                    },
                },
                **({"credential_provider": lambda: keys} if keys["access_key_id"] else {}),
            )
        except (library.exceptions.BaseError, OSError, ValueError) as error:
            text = self.mask.text(str(error).partition("\n")[0])
            raise ConfigError(
                f"the storage of {bucket.root} can't be opened ({text}): check the settings hoodie.storage.* "
                "and the environment",
                path=bucket.root,
            ) from None


_CLIENTS: dict[tuple[Any, ...], Client] = {}
_GUARD = threading.Lock()
#: the process that uses the library: its threads are not there in a fork of it
_USER: list[int] = []


def client_of(bucket: Bucket) -> Client:
    """This process's client of the bucket; nothing is asked, and the library is not imported."""
    with _GUARD:
        return _CLIENTS.setdefault(bucket.identity, Client(bucket))


def allows_http(root: str, *endpoints: str | None) -> bool:
    """Is the first endpoint that is given one without TLS. Raises ConfigError for one that is no URL, at
    which the library would end the thread.
    """
    endpoint = next((each for each in endpoints if each), None)
    if endpoint is None:
        return False
    if not _ENDPOINT.fullmatch(endpoint):
        shown = endpoint.rpartition("@")[2][:200]  # without a password
        raise ConfigError(
            f"{root} has the endpoint {shown!r}, which is no URL: give it with http:// or https://, such "
            "as http://minio:9000 (hoodie.storage.*.endpoint, or the environment)",
            path=root,
        )
    return endpoint.lower().startswith("http:")


def environment(*names: str) -> str | None:
    """The first of these variables that is set."""
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _library(bucket: Bucket) -> Any:
    try:
        import obstore
        import obstore.store
    except ImportError as error:
        raise ConfigError(
            f"{bucket.root} lies on an object store, for which the package obstore is needed, which is not "
            f"here ({error}): {install(bucket.extra)} where the driver and the executors run",
            path=bucket.root,
        ) from None
    process = os.getpid()
    if not _USER:
        _USER.append(process)
    if _USER[0] != process:
        raise StorageError(
            f"{bucket.root} can't be used in process {process}: it was forked from process {_USER[0]}, "
            "which used an object store before, and its threads are not here; start the process anew (spawn)",
            path=bucket.root,
        )
    return obstore


def _after_fork() -> None:
    global _GUARD
    _GUARD = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def _local_ms() -> int:
    return int(time.time() * 1000)
