"""Record keys and partition paths of incoming rows: protocol, settings, registry.

A key generator is a module of this folder that defines `PLUGIN`, a class with `java_class`, `aliases` and
`make(config, schema)`. The folder is the registry; Java class names (the Spark ones and their Avro twins)
and the short types of `hoodie.datasource.write.keygenerator.type` name the same plugin.

Format: format.md sections 4 and 6.3; behaviour of Apache Hudi 0.15.0's Avro key generators.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.keygen.settings import KEYGENERATOR_CLASS, KEYGENERATOR_TYPE, PARTITIONPATH_FIELD, RECORDKEY_FIELD

if TYPE_CHECKING:
    import pyarrow as pa


class KeyGenerator(Protocol):
    """Pure and picklable; built once on the driver, used on executors.

    `rows` is a RecordBatch or Table with at least `key_columns`. Results have one entry a row, in row order.
    """

    java_class: str

    @property
    def record_key_fields(self) -> tuple[str, ...]:
        """Key fields as configured, dotted for nested ones."""

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """Partition fields, bare names; () when not partitioned."""

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Top-level columns it reads."""

    def record_keys(self, rows: pa.RecordBatch | pa.Table) -> pa.Array[Any] | pa.ChunkedArray[Any]:
        """string, no nulls; an Array for a batch, chunked for a table.

        Raises InputError that names the column and shows a row, when a key is null or empty.
        """

    def partition_paths(self, rows: pa.RecordBatch | pa.Table) -> pa.Array[Any]:
        """string, no nulls; "" when not partitioned.

        Raises InputError for a value that can't be (part of) a path.
        """

    def partition_codes(self, rows: pa.RecordBatch | pa.Table) -> pa.DictionaryArray[Any, Any]:
        """The same paths as dictionary<int32, string>, each path once in the dictionary."""

    def persisted(self) -> dict[str, str]:
        """Entries for hoodie.properties when a table is created."""


def key_generator(config: Config, schema: pa.Schema) -> KeyGenerator:
    """The configured key generator, checked against the columns of the incoming rows.

    Raises ConfigError for settings that don't fit each other or a column's type, InputError for a column
    that isn't there.
    """
    plugins = registry()
    names = {key: config[key] for key in (KEYGENERATOR_CLASS, KEYGENERATOR_TYPE) if config[key]}
    chosen = {key.name: _lookup(plugins, key.name, str(name)) for key, name in names.items()}
    if len(set(chosen.values())) > 1:
        asked = ", ".join(f"{key.name}={name}" for key, name in names.items())
        raise ConfigError(f"{asked} ask for different key generators; give one of the two.", settings=asked)
    plugin = next(iter(chosen.values()), None) or plugins[_by_fields(config)]
    if not config[RECORDKEY_FIELD]:
        raise ConfigError(
            f"no record key: set {RECORDKEY_FIELD.name} to the column (or columns) that identify a record.",
            setting=RECORDKEY_FIELD.name,
        )
    made: KeyGenerator = plugin.make(config, schema)
    return made


@lru_cache(maxsize=1)
def registry() -> dict[str, Any]:
    """Every plugin class of this folder by lower-case name: Java classes and short names."""
    plugins: dict[str, Any] = {}
    for info in pkgutil.iter_modules(__path__):
        if not info.name.startswith("_") and info.name != "settings":
            plugin = importlib.import_module(f"{__name__}.{info.name}").PLUGIN
            plugins.update({name.lower(): plugin for name in (plugin.java_class, *plugin.aliases)})
    return plugins


def _lookup(plugins: dict[str, Any], setting: str, name: str) -> Any:
    try:
        return plugins[name.lower()]
    except KeyError:
        known = ", ".join(sorted({plugin.java_class for plugin in plugins.values()}))
        raise ConfigError(
            f"{setting}={name!r} is no key generator known here; use one of {known}.",
            setting=setting,
            value=name,
        ) from None


def _by_fields(config: Config) -> str:
    if not config[PARTITIONPATH_FIELD]:
        return "nonpartitioned"
    single = len(config[PARTITIONPATH_FIELD]) == 1 and len(config[RECORDKEY_FIELD]) == 1
    return "simple" if single else "complex"
