"""Record keys and partition paths of incoming rows: base class, registry.

A key generator is a class of a module of this folder, which KEY_GENERATORS names, or a caller's own. Java
class names (the Spark ones and their Avro twins) and the short types of
`hoodie.datasource.write.keygenerator.type` name the same one.

Format: format.md sections 4 and 6.3; behaviour of Apache Hudi 0.15.0's Avro key generators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from hoodie.config.key import Config
from hoodie.config.plugins import Plugins
from hoodie.errors import ConfigError
from hoodie.keygen.settings import (
    KEYGENERATOR_CLASS,
    KEYGENERATOR_TYPE,
    PARTITIONPATH_FIELD,
    RECORDKEY_FIELD,
)
from hoodie.text import argument

if TYPE_CHECKING:
    import pyarrow as pa


class KeyGenerator(ABC):
    """Pure and picklable; built once on the driver, used on executors.

    A caller's own class is called with the keyword arguments `config` and `schema` (of the incoming rows).

    `rows` is a RecordBatch or Table with at least `key_columns`. Results have one entry a row, in row order.
    """

    #: the class name that the table persists
    java_class: ClassVar[str] = ""
    #: key fields as configured, dotted for nested ones
    record_key_fields: tuple[str, ...]

    @property
    @abstractmethod
    def partition_fields(self) -> tuple[str, ...]:
        """Partition fields, bare names; () when not partitioned."""

    @property
    @abstractmethod
    def key_columns(self) -> tuple[str, ...]:
        """Top-level columns it reads."""

    @abstractmethod
    def record_keys(self, rows: pa.RecordBatch | pa.Table) -> pa.Array[Any] | pa.ChunkedArray[Any]:
        """string, no nulls; an Array for a batch, chunked for a table.

        Raises InputError that names the column and shows a row, when a key is null or empty.
        """

    @abstractmethod
    def partition_codes(self, rows: pa.RecordBatch | pa.Table) -> pa.DictionaryArray[Any, Any]:
        """The partition paths as dictionary<int32, string>, each once in the dictionary; "": not partitioned.

        Raises InputError for a value that can't be (part of) a path.
        """

    @property
    def paths_by_value(self) -> bool:
        """Do rows with the same values of the partition fields have the same path, and no others."""
        return not self.partition_fields

    def partition_paths(self, rows: pa.RecordBatch | pa.Table) -> pa.Array[Any]:
        """The same paths as string, no nulls."""
        codes = self.partition_codes(rows)
        return codes.cast(codes.type.value_type)

    @abstractmethod
    def persisted(self) -> dict[str, str]:
        """Entries for hoodie.properties when a table is created."""


_JAVA = "org.apache.hudi.keygen."
KEY_GENERATORS = Plugins(
    kind="key generator",
    base=KeyGenerator,  # type: ignore[type-abstract]
    places={
        _JAVA + "SimpleKeyGenerator": "hoodie.keygen.simple:SimpleKeys",
        _JAVA + "ComplexKeyGenerator": "hoodie.keygen.complex:ComplexKeys",
        _JAVA + "NonpartitionedKeyGenerator": "hoodie.keygen.nonpartitioned:NonpartitionedKeys",
        _JAVA + "TimestampBasedKeyGenerator": "hoodie.keygen.timestamp:TimestampKeys",
        _JAVA + "CustomKeyGenerator": "hoodie.keygen.custom:CustomKeys",
    },
    aliases={
        _JAVA + "SimpleKeyGenerator": ("simple", _JAVA + "SimpleAvroKeyGenerator"),
        _JAVA + "ComplexKeyGenerator": ("complex", _JAVA + "ComplexAvroKeyGenerator"),
        _JAVA + "NonpartitionedKeyGenerator": (
            "nonpartitioned",
            "non_partition",
            _JAVA + "NonpartitionedAvroKeyGenerator",
        ),
        _JAVA + "TimestampBasedKeyGenerator": ("timestamp", _JAVA + "TimestampBasedAvroKeyGenerator"),
        _JAVA + "CustomKeyGenerator": ("custom", _JAVA + "CustomAvroKeyGenerator"),
    },
)


def key_generator(config: Config, schema: pa.Schema) -> KeyGenerator:
    """The configured key generator, checked against the columns of the incoming rows.

    Raises ConfigError for settings that don't fit each other or a column's type, InputError for a column
    that isn't there.
    """
    names = {key: str(config[key]) for key in (KEYGENERATOR_CLASS, KEYGENERATOR_TYPE) if config[key]}
    chosen = {KEY_GENERATORS.name(name): KEY_GENERATORS.load(key.name, name) for key, name in names.items()}
    if len(chosen) > 1:
        asked = ", ".join(f"{key.name}={name}" for key, name in names.items())
        raise ConfigError(f"{asked} ask for different key generators; give one of the two.", settings=asked)
    make = next(iter(chosen.values()), None) or KEY_GENERATORS.load(
        KEYGENERATOR_TYPE.name, _by_fields(config)
    )
    if not config[RECORDKEY_FIELD]:
        how = argument("set", "give --key, or set")
        raise ConfigError(
            f"no record key: {how} {RECORDKEY_FIELD.name} to the column (or columns) that identify a record.",
            setting=RECORDKEY_FIELD.name,
        )
    return make(config=config, schema=schema)


def _by_fields(config: Config) -> str:
    if not config[PARTITIONPATH_FIELD]:
        return "nonpartitioned"
    single = len(config[PARTITIONPATH_FIELD]) == 1 and len(config[RECORDKEY_FIELD]) == 1
    return "simple" if single else "complex"
