"""Settings of locks; names and defaults are Apache Hudi's."""

from __future__ import annotations

from hoodie.config.key import Key, int_key
from hoodie.errors import HoodieError
from hoodie.storage import normalize


def _folder(text: str) -> str | None:
    path = text.strip()
    if not path:
        return None
    if not (path.startswith(("/", "file:/", "~")) or "://" in path):
        raise ValueError(f"{path!r} is no absolute path of a folder")
    try:
        return normalize(path)
    except HoodieError as error:
        raise ValueError(error.message) from None


PROVIDER: Key[str | None] = Key(
    "hoodie.write.lock.provider",
    None,
    "The lock that writers and services hold while they begin and while they publish: in_process, "
    "filesystem, their class names of Apache Hudi, or one of your own, `module:Class`, derived from "
    "hoodie.lock.LockProvider. All writers of a table name the same. None by default: writers of this "
    "package exclude one another without it.",
    str.strip,
    group="concurrency",
)
WAIT_TIME_MS = int_key(
    "hoodie.write.lock.wait_time_ms",
    60_000,
    "Milliseconds that one try to get a lock waits. The filesystem lock does not wait inside a try.",
    minimum=0,
    group="concurrency",
)
RETRIES = int_key(
    "hoodie.write.lock.client.num_retries",
    50,
    "Further tries to get a lock, before the write fails with lock_timeout.",
    minimum=0,
    group="concurrency",
)
RETRY_WAIT_MS = int_key(
    "hoodie.write.lock.client.wait_time_ms_between_retry",
    5000,
    "Milliseconds between two tries to get a lock; one that gets free meanwhile is taken sooner.",
    minimum=0,
    group="concurrency",
)
FILESYSTEM_PATH: Key[str | None] = Key(
    "hoodie.write.lock.filesystem.path",
    None,
    "The folder with the file `lock` of the filesystem lock; the table's .hoodie by default.",
    _folder,
    group="concurrency",
)
FILESYSTEM_EXPIRE = int_key(
    "hoodie.write.lock.filesystem.expire",
    0,
    "Minutes after which the filesystem lock of a writer that was killed is taken over; a live writer of "
    "this package renews it before. 0: never, and the file has to be deleted by hand.",
    minimum=0,
    group="concurrency",
)
