"""What object stores refuse, as errors of this package: cause and next step, and nothing of what was sent."""

from __future__ import annotations

import errno
import os
import re
from typing import Protocol

from hoodie.errors import AlreadyExists, StorageError, TableError
from hoodie.mask import Mask
from hoodie.storage.failure import BeyondEnd, failure


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
