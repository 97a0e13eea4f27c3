"""What every method of the table object needs: path, settings, session, and the table as it is now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hoodie.config.key import Config
from hoodie.errors import ConfigError, TableNotFound
from hoodie.table.handle import Table as OpenTable

if TYPE_CHECKING:
    from hoodie.table.properties import TableProperties


class TableAccess:
    """settings: of all calls. session: what reads, and runs services; None for the local engine."""

    def __init__(self, path: str, settings: Mapping[str, Any], session: Any) -> None:
        self._path = path
        self._settings = dict(settings)
        self._session = session

    @property
    def path(self) -> str:
        """Absolute, or with its scheme."""
        return self._path

    def _options(self, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return {**self._settings, **(more or {})}

    def _open(self) -> OpenTable:
        """Raises TableError."""
        return OpenTable.open(self._path, Config.of(self._settings))

    def _stored_properties(self) -> TableProperties | None:
        """None where there is no table. Raises TableError for one that can't be read."""
        try:
            return self._open().properties
        except TableNotFound:
            return None


def session_of(engine: Any) -> Any:
    """What the functions take as `spark`. Raises ConfigError for an engine that is neither `local` nor a
    session.
    """
    if engine is None or engine == "local":
        return None
    if hasattr(engine, "createDataFrame"):
        return engine
    raise ConfigError(
        f"engine is {engine!r}; give 'local', or a session of SparkSession.builder.getOrCreate()"
    )
