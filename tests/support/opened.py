"""An index that notes each slice that it is asked about: a line in a file beside the table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.index.locations import Locations
from hoodie.index.simple import SimpleIndex
from hoodie.table.handle import TableRef
from hoodie.table.view import FileSlice

OPTIONS = {"hoodie.index.class": f"{__name__}:Noted"}


class Noted(SimpleIndex):
    def __init__(self, *, config: Config) -> None: ...

    def locate(self, table: TableRef, slices: Sequence[FileSlice], keys: pa.Array[Any]) -> Locations:
        found = super().locate(table, slices, keys)
        names = [slice_.base.name for slice_ in slices if slice_.base]
        with _notes(table.uri).open("ab", buffering=0) as notes:
            notes.write("".join(f"{os.getpid()} {name}\n" for name in names).encode())
        return found


def opened(table: Path | str) -> list[str]:
    """The files that the index was asked about since the last call."""
    notes = _notes(str(table))
    lines = notes.read_text().splitlines() if notes.exists() else []
    notes.unlink(missing_ok=True)
    return [line.partition(" ")[2] for line in lines]


def _notes(table: str) -> Path:
    return Path(f"{table}-opened")
