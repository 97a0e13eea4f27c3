"""Folders outside a table, which its properties name and its caller has to allow."""

from __future__ import annotations

from hoodie.errors import TableError
from hoodie.storage import Storage, normalize
from hoodie.storage.settings import ALLOWED_FOLDERS
from hoodie.table.properties import BOOTSTRAP_BASE_PATH


def allowed_source(storage: Storage, base_path: str, source: str) -> str:
    """The folder that a table was bootstrapped from. Raises TableError where the caller does not allow it.

    The table names it, so that without the check a writer of the table could have any file read.
    """
    place = normalize(source)
    if storage.access.admits(place):
        return place
    raise TableError(
        f"table {base_path} was bootstrapped, and has its rows in files of another folder, {place} "
        f"({BOOTSTRAP_BASE_PATH} in hoodie.properties). Files outside a table are read only where the call "
        f"says so: if that folder is right, add the option {ALLOWED_FOLDERS.name}={place}",
        path=base_path,
        folder=place,
        setting=ALLOWED_FOLDERS.name,
    )
