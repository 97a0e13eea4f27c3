"""DuckDB's databases of predicates, used again: each query with a predicate makes one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from hoodie.read import duckdb_predicate

if TYPE_CHECKING:
    import duckdb

Made = TypeVar("Made", bound="Lent")


class Lent:
    """A connection that goes back, without what was registered with it, when it is closed."""

    def __init__(self, made: duckdb.DuckDBPyConnection, back: Callable[[Any], None]) -> None:
        self._made: Any = made
        self._back, self._names = back, set[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)

    def register(self, name: str, rows: Any) -> Any:
        self._names.add(name)
        return self._made.register(name, rows)

    def __enter__(self: Made) -> Made:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        made, self._made = self._made, None
        if made is None:
            return
        made.execute("SELECT 1").fetchall()  # ends what was not read to its end
        for name in self._names:
            made.unregister(name)
        self._back(made)


class Databases:
    """As `duckdb_predicate.connection`; those without settings of their own are used again in a process."""

    def __init__(self) -> None:
        self._make = duckdb_predicate.connection
        self._process = os.getpid()
        self._free: list[Any] = []

    def connection(self, folder: str = "", *more: str) -> Any:
        if folder or more or os.getpid() != self._process:
            return self._make(folder, *more)
        try:
            made = self._free.pop()
        except IndexError:
            made = self._make()
        return Lent(made, self._free.append)

    def close(self) -> None:
        for made in self._free:
            made.close()
