"""Work of processes that race for the same files; importable, so that spawned ones can do it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

import hoodie
from hoodie.errors import AlreadyExists
from hoodie.table.handle import TableRef


def race(ref: TableRef, root: str, writer: int, names: int) -> None:
    """Creates what it can of some files, and says so in a file of its own."""
    storage, won = ref.storage(), []
    for number in range(names):
        try:
            storage.create(f"{root}/file{number}", str(writer).encode() * 5000)
            won.append(str(number))
        except AlreadyExists:
            if set(storage.read(f"{root}/file{number}")) == set(str(writer).encode()):
                won.append("the other's content is mine")
    storage.create(f"{root}/won{writer}", " ".join(won).encode())


def upsert(path: str, options: dict[str, str], count: int, versions: Sequence[int]) -> None:
    """Upserts of the keys 0 to before `count`, one for each version, in their order."""
    for version in versions:
        rows = pa.table(
            {
                "id": [str(number) for number in range(count)],
                "region": [("eu", "us")[number % 2] for number in range(count)],
                "ts": [version] * count,
            }
        )
        hoodie.write_table(rows, path, operation="upsert", options=options)
