"""Settings of the storage."""

from __future__ import annotations

from hoodie.config.key import bool_key

FSYNC = bool_key(
    "hoodie.write.fsync",
    True,
    "Sync data files, timeline files and their folders to the disk before a commit is published, so that a "
    "power failure loses no commit and damages none. `false` leaves that to the operating system: for tables "
    "that can be made again.",
    group="storage",
)

#: all of them: they travel with a table to where its storage is opened
SETTINGS = (FSYNC,)
