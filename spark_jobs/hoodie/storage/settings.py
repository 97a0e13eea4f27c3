"""Settings of the storage."""

from __future__ import annotations

import os

from hoodie.config.key import Config, Key, bool_key, parse_fields
from hoodie.errors import HoodieError
from hoodie.storage import Access, normalize

FSYNC = bool_key(
    "hoodie.write.fsync",
    True,
    "Sync data files, timeline files and their folders to the disk before a commit is published, so that a "
    "power failure loses no commit and damages none. `false` leaves that to the operating system: for tables "
    "that can be made again.",
    group="storage",
)


def _folders(text: str) -> tuple[str, ...]:
    found = []
    for path in parse_fields(text):
        try:
            folder = os.path.realpath(normalize(path))
        except HoodieError as error:
            raise ValueError(error.message) from None
        if not path.startswith(("/", "file:/", "~")) or folder == "/":
            raise ValueError(f"{path!r} is no absolute path of a folder")
        found.append(folder)
    return tuple(found)


ALLOWED_FOLDERS: Key[tuple[str, ...]] = Key(
    "hoodie.storage.allowed.folders",
    (),
    "Folders outside the table, with commas, whose files a call may use as the table's own: those that a "
    "partition which is a link leads to, and those of a table that Apache Hudi bootstrapped "
    "(hoodie.bootstrap.base.path). Everyone who may write into the table decides which files below them are "
    "read and deleted. None by default: such a link, and such a table, is refused.",
    _folders,
    group="storage",
)


def access(config: Config) -> Access:
    """What these settings say; call it with those of a caller, before any of the table's are added."""
    return Access(config[FSYNC], config[ALLOWED_FOLDERS])


#: all of them: they travel with a table to where its storage is opened
SETTINGS = (FSYNC, ALLOWED_FOLDERS)
