"""Counts what is asked of a storage, and says who asked."""

from __future__ import annotations

import contextlib
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hoodie.storage import Storage
from tests.support.storages import Delegating, wrapped

_CALLERS = 6


@dataclass
class Requests:
    """The calls of every storage that was opened inside `counted`, in their order."""

    base_path: str
    calls: list[tuple[str, str, str]] = field(default_factory=list)

    def about_the_table(self) -> list[tuple[str, str, str]]:
        """All but openings of data files, of which there is one for each reading and writing of a file."""
        return [call for call in self.calls if call[0] not in ("open_input", "output")]

    def count(self, name: str) -> int:
        return Counter(call for call, _, _ in self.calls)[name]

    def __str__(self) -> str:
        return "\n".join(f"{name:16} {path:60} {callers}" for name, path, callers in self.calls)


@contextlib.contextmanager
def counted(base_path: str) -> Iterator[Requests]:
    requests = Requests(base_path)

    with wrapped(lambda storage: _Counting(storage, requests)):
        yield requests


class _Counting(Delegating):
    def __init__(self, inner: Storage, requests: Requests) -> None:
        super().__init__(inner)
        self._requests = requests

    def ask(self, name: str, path: str, *arguments: Any) -> Any:
        callers = [
            f"{frame.filename.rpartition('/hoodie/')[2]}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_stack()
            if "/spark_jobs/hoodie/" in frame.filename
        ]
        short = path.removeprefix(self._requests.base_path)
        self._requests.calls.append((name, short, " < ".join(reversed(callers[-_CALLERS:]))))
        return super().ask(name, path, *arguments)
