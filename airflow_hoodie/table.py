"""HoodieTable: what a DAG author declares once and hands to every operator and sensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_hoodie.arguments import check_path, is_later, is_template, known_options, option_texts
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.locks import lock_options
from hoodie.config.versions import OF_NEW_TABLES

if TYPE_CHECKING:
    from airflow.sdk import Asset

TABLE_TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")

TABLE_NAME = "hoodie.table.name"
TABLE_TYPE = "hoodie.datasource.write.table.type"
RECORD_KEY = "hoodie.datasource.write.recordkey.field"
PARTITION_PATH = "hoodie.datasource.write.partitionpath.field"
ORDERING = "hoodie.datasource.write.precombine.field"
OPERATION = "hoodie.datasource.write.operation"
VERSION = "hoodie.write.table.version"


@dataclass(frozen=True, kw_only=True)
class HoodieTable:
    """A table: immutable, JSON-able (`to_dict`, `from_dict`), validated at construction.

    name: the table's name in `hoodie.properties`.
    path: absolute path or URI of the table's folder; it, the name and option values may hold Jinja. With
        `hoodie_conn_id` it may be relative to that connection's warehouse.
    record_keys: columns that identify a row, at least one; a single text is one column.
    partition_fields: columns that make the partition path; none for an unpartitioned table.
    ordering_field: of two rows with one key, the one with the greater value is kept.
    options: further `hoodie.*` settings of every write; values are kept as texts.
    hoodie_conn_id: connection of type `hoodie`: its warehouse, its options, which those here go over, the
        credentials of its storage, and its Spark connection. Looked up when a task runs.
    lock: lets several writers work at once, jobs of Apache Hudi with the same lock among them: the id of a
        connection of type `hoodie_lock`, looked up when a task runs, or settings such as
        {"provider": "storage"}. Options go over what it says.
    version: table version of a new table, 6, 8 or 9. Tasks refuse a table that has another one, unless the
        option hoodie.write.auto.upgrade lets a write upgrade it first. None: that of the settings, and a
        table is taken as it is.

    Raises HoodieConfigurationError, also when an option contradicts a field.
    """

    name: str
    path: str
    record_keys: tuple[str, ...]
    table_type: str = "COPY_ON_WRITE"
    partition_fields: tuple[str, ...] = ()
    ordering_field: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    hoodie_conn_id: str | None = None
    lock: str | Mapping[str, str] | None = field(default=None, hash=False)
    version: int | None = None

    if TYPE_CHECKING:  # what is given is wider than what is kept

        def __init__(
            self,
            *,
            name: str,
            path: str,
            record_keys: str | Iterable[str],
            table_type: str = "COPY_ON_WRITE",
            partition_fields: str | Iterable[str] = (),
            ordering_field: str | None = None,
            options: Mapping[str, Any] | None = None,
            hoodie_conn_id: str | None = None,
            lock: str | Mapping[str, Any] | None = None,
            version: int | str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "record_keys", _columns("record_keys", self.record_keys))
        object.__setattr__(self, "partition_fields", _columns("partition_fields", self.partition_fields))
        object.__setattr__(self, "options", option_texts(self.options))
        object.__setattr__(self, "lock", _lock(self.lock))
        object.__setattr__(self, "version", _version(self.version))
        if not isinstance(self.name, str) or not self.name.strip():
            raise HoodieConfigurationError(f"HoodieTable: name is {self.name!r}; give the table a name")
        check_path(self.path, relative=bool(self.hoodie_conn_id))
        if self.table_type not in TABLE_TYPES:
            raise HoodieConfigurationError(
                f"HoodieTable {self.name!r}: table_type is {self.table_type!r}; "
                f"use one of {', '.join(TABLE_TYPES)}"
            )
        if not self.record_keys:
            raise HoodieConfigurationError(
                f"HoodieTable {self.name!r}: record_keys is empty; name the columns that identify a row"
            )
        if self.ordering_field is not None and not self.ordering_field.strip():
            raise HoodieConfigurationError(
                f"HoodieTable {self.name!r}: ordering_field is blank; name a column or leave it None"
            )
        self._check_options()

    def _check_options(self) -> None:
        if OPERATION in self.options:
            raise HoodieConfigurationError(
                f"HoodieTable {self.name!r}: option {OPERATION} is the operator's choice; remove it and use "
                "UpsertOperator, InsertOperator or BulkInsertOperator"
            )
        for name, own in self._own_options().items():
            given = self.options.get(name, own)
            if given != own and not is_template(given) and not is_template(own):
                raise HoodieConfigurationError(
                    f"HoodieTable {self.name!r}: option {name}={given!r} contradicts the table's own "
                    f"{own!r}; remove the option"
                )

    def _own_options(self) -> dict[str, str]:
        own = {
            TABLE_NAME: self.name,
            TABLE_TYPE: self.table_type,
            RECORD_KEY: ",".join(self.record_keys),
            PARTITION_PATH: ",".join(self.partition_fields),
        }
        if self.ordering_field is not None:
            own[ORDERING] = self.ordering_field
        if self.version is not None:
            own[VERSION] = str(self.version)
        return own

    def options_for(self, operation: str, overrides: Mapping[str, Any] | None = None) -> dict[str, str]:
        """All `hoodie.*` settings of one write: the table's, and `overrides` over its options.

        Raises HoodieConfigurationError when an override contradicts the table or the operation. The
        operation itself is no setting of a job but a part of its request.
        """
        texts = option_texts(overrides)
        given = texts.pop(OPERATION, operation)
        if given != operation:
            raise HoodieConfigurationError(
                f"option {OPERATION}={given!r} contradicts the operator, which does {operation}; "
                "remove the option"
            )
        merged = self
        if texts:
            own = {item.name: getattr(self, item.name) for item in fields(self)}
            merged = HoodieTable(**{**own, "options": {**self.options, **texts}})
        locking = lock_options(self.lock, self.name) if isinstance(self.lock, Mapping) else {}
        return {**locking, **merged.options, **merged._own_options()}

    @cached_property
    def asset(self) -> Asset:
        """The asset of the table, whose events the writing operators emit: `schedule=[table.asset]`."""
        from airflow_hoodie.assets.hoodie import table_asset

        return table_asset(self)

    @property
    def partitions(self) -> Asset:
        """The asset of events with partition keys: `PartitionedAssetTimetable(assets=table.partitions)`."""
        from airflow_hoodie.assets.hoodie import partition_asset

        return partition_asset(self)

    def commits(self, **arguments: Any) -> Asset:
        """The asset with an event for every commit, of all writers: `schedule=[table.commits()]`.

        Arguments: start, actions, partition, extra_metadata, services, poke_interval; see
        airflow_hoodie.triggers.commits.CommitEventTrigger.
        """
        from airflow_hoodie.assets.hoodie import commit_asset

        return commit_asset(self, **arguments)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form; `from_dict` takes it back."""
        return {
            "name": self.name,
            "path": self.path,
            "table_type": self.table_type,
            "record_keys": list(self.record_keys),
            "partition_fields": list(self.partition_fields),
            "ordering_field": self.ordering_field,
            "options": dict(self.options),
            **({"hoodie_conn_id": self.hoodie_conn_id} if self.hoodie_conn_id else {}),
            **({"lock": self.lock if isinstance(self.lock, str) else dict(self.lock)} if self.lock else {}),
            **({"version": self.version} if self.version is not None else {}),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> HoodieTable:
        """Raises HoodieConfigurationError for unknown or missing fields."""
        known = {item.name for item in fields(cls)}
        if unknown := sorted(set(value) - known):
            raise HoodieConfigurationError(
                f"HoodieTable has no field {', '.join(map(repr, unknown))}; "
                f"fields are {', '.join(sorted(known))}"
            )
        if missing := sorted({"name", "path", "record_keys"} - set(value)):
            raise HoodieConfigurationError(f"HoodieTable needs {', '.join(missing)}")
        return cls(**value)

    @classmethod
    def of(cls, value: HoodieTable | Mapping[str, Any]) -> HoodieTable:
        """A table as it is, or its dict form."""
        if isinstance(value, HoodieTable):
            return value
        if isinstance(value, Mapping):
            return cls.from_dict(value)
        raise HoodieConfigurationError(f"table is {value!r}; pass a HoodieTable or its to_dict() form")


def check_options(operation: str, table: Any, options: Any) -> None:
    """What is known of them when the DAG is read. Raises HoodieConfigurationError."""
    if not is_later(table):
        HoodieTable.of(table).options_for(operation, known_options(options))


def _lock(lock: Any) -> Any:
    if lock is None or (isinstance(lock, str) and lock.strip()):
        return lock
    if isinstance(lock, Mapping) and lock:
        return option_texts(lock)
    raise HoodieConfigurationError(
        f"lock is {lock!r}; give the id of a connection, or settings such as {{'provider': 'storage'}}"
    )


def _version(version: Any) -> int | None:
    if version is None:
        return None
    if str(version).strip() in map(str, OF_NEW_TABLES):
        return int(version)
    raise HoodieConfigurationError(
        f"HoodieTable: version is {version!r}; use one of {', '.join(map(str, OF_NEW_TABLES))}, or None"
    )


def _columns(what: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, Iterable):
        raise HoodieConfigurationError(f"HoodieTable: {what} is {value!r}; give a list of column names")
    columns = tuple(value)
    for column in columns:
        if not isinstance(column, str) or not column.strip() or "," in column:
            raise HoodieConfigurationError(
                f"HoodieTable: {what} holds {column!r}; give one column name per item"
            )
    if len(set(columns)) != len(columns):
        raise HoodieConfigurationError(f"HoodieTable: {what} {columns!r} names a column twice")
    return columns
