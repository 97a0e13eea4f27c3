"""Up to which commit a clean found nothing to delete.

Such a clean leaves no instant, and the next one would look into all partitions again: after every commit to a
table that only grows. `.hoodie/.aux/airflow-examined.json` lets it look where commits wrote since. Readers of
the format ignore the file. Where it is missing or damaged all partitions are looked into; where it says too
much, old files stay.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from hoodie.format.names import join
from hoodie.storage import Storage
from hoodie.timeline.active import meta_path
from hoodie.timeline.time import InstantTime

_NAME = "airflow-examined.json"


@dataclass(frozen=True)
class Examined:
    """Nothing that commits before `earliest` left behind can be deleted, as long as these savepoints stay."""

    earliest: InstantTime
    savepoints: tuple[str, ...]

    @classmethod
    def read(cls, storage: Storage, base_path: str) -> Examined | None:
        """None where nothing is known."""
        try:
            value = json.loads(storage.read(join(_folder(base_path), _NAME)))
            earliest, savepoints = value["earliest"], value["savepoints"]
            if isinstance(earliest, str) and isinstance(savepoints, list):
                return cls(InstantTime(earliest), tuple(map(str, savepoints)))
        except (FileNotFoundError, ValueError, TypeError, KeyError, RecursionError):
            pass
        return None

    def save(self, storage: Storage, base_path: str) -> None:
        """Replaces the file at once. Its folder is swept here: such a clean does not take the table, and so
        leaves nothing by which the next write would know that it was killed.
        """
        value = {"earliest": self.earliest, "savepoints": list(self.savepoints)}
        storage.sweep_partial(_folder(base_path), of=_NAME)
        storage.write(join(_folder(base_path), _NAME), json.dumps(value).encode())


def _folder(base_path: str) -> str:
    return f"{meta_path(base_path)}/.aux"
