"""What a table's indexes are of: `.hoodie/.index_defs/index.json` (format.md 15.12, HoodieIndexMetadata).

A secondary index and an index of an expression are folders of the metadata table whose names say nothing
else. A definition says the columns, the function and the version of the format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from hoodie.errors import TableError
from hoodie.format.names import META_FOLDER, join
from hoodie.metadata.partitions.secondary_index import value_parts
from hoodie.metadata.table import SECONDARY_INDEX
from hoodie.table.handle import Table

PATH = "hoodie.table.index.defs.path"
#: in `.hoodie`
INDEX_FOLDER = ".index_defs"
DEFAULT_PATH = f"{META_FOLDER}/{INDEX_FOLDER}/index.json"
#: bytes of the file, at most
_LARGEST = 1 << 22
#: versions of the format of an index; definitions of 1.0 have none, which is the first
V1, V2 = "V1", "V2"
#: the option of a record index
OF_EACH_PARTITION = "isPartitioned"
#: of the partitions that are made here, as Apache Hudi 1.2.0 has them
_MADE: Mapping[str, Mapping[str, Any]] = {
    "record_index": {
        "indexName": "record_index",
        "indexType": "record_index",
        "indexFunction": "",
        "sourceFields": [],
        "indexOptions": {OF_EACH_PARTITION: "false"},
        "version": V1,
    },
    "column_stats": {
        "indexName": "column_stats",
        "indexType": "column_stats",
        "indexFunction": "column_stats",
        "sourceFields": [],
        "indexOptions": {},
        "version": V1,
    },
}
#: the table version from which on statistics say the types of their values
_TYPED_SINCE = 9


@dataclass(frozen=True, kw_only=True)
class IndexDefinition:
    """`kind` is the type of the index: `secondary_index`, and of expressions `column_stats` or
    `bloom_filters`. `function` is computed of the source fields, `identity` for their values.
    """

    name: str
    kind: str
    function: str
    source_fields: tuple[str, ...]
    version: str = V1
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def index_definitions(table: Table) -> dict[str, IndexDefinition]:
    """By the name of the partition of the metadata table; nothing where the table has no definitions.

    Raises TableError for a file out of the table's `.hoodie`, too large a file, and one of another form.
    """
    path = _path(table)
    with _checked(path):
        return {key: _definition(key, value) for key, value in _stored(table, path).items()}


def hashed_parts(table: Table, partition: str) -> Callable[[Any], Any] | None:
    """What says the file group of a key of a partition of the metadata table; None: all of it."""
    if not partition.startswith(SECONDARY_INDEX):
        return None
    definition = index_definitions(table).get(partition)
    return value_parts if definition is not None and definition.version == V2 else None


def stats_version(table: Table, definitions: Mapping[str, IndexDefinition]) -> str:
    """That of the statistics of columns and of partitions (Apache Hudi existingIndexVersionOrDefault)."""
    found = definitions.get("column_stats") or definitions.get("partition_stats")
    if found is not None:
        return found.version
    return new_version(table)


def is_of_each_partition(definitions: Mapping[str, IndexDefinition]) -> bool:
    """Is the record index of a table one of each partition."""
    found = definitions.get("record_index")
    return found is not None and found.options.get(OF_EACH_PARTITION, "false").lower() == "true"


def define_indexes(
    table: Table, made: Mapping[str, Collection[str]], options: Mapping[str, Mapping[str, str]]
) -> None:
    """Define partitions of the metadata table that were made, before the properties name them as ready, but
    those that are defined. `made`: the columns of each; `options`: those of some, which go before what is
    defined.

    The list of files, bloom filters and statistics of partitions have no definitions. Raises as
    `index_definitions`.
    """
    path = _path(table)
    stored = _stored(table, path)
    new = {name: {**_MADE[name]} for name in made if name in _MADE and name not in stored}
    if "column_stats" in new:
        new["column_stats"].update(sourceFields=list(made["column_stats"]), version=new_version(table))
    for name in options:
        with _checked(path):
            defined = {**new.get(name, stored.get(name, {})), "indexOptions": dict(options[name])}
        if defined != stored.get(name):
            new[name] = defined
    if new:
        _write(table, path, {**stored, **new})


def new_version(table: Table) -> str:
    """Of an index that is made now (Apache Hudi 1.2.0 HoodieIndexVersion)."""
    return V1 if table.properties.version < _TYPED_SINCE else V2


def define(table: Table, definition: IndexDefinition) -> None:
    """Add a definition, or replace it. Raises as `index_definitions`."""
    path = _path(table)
    new = {
        "indexName": definition.name,
        "indexType": definition.kind,
        "indexFunction": definition.function,
        "sourceFields": list(definition.source_fields),
        "indexOptions": dict(definition.options),
        "version": definition.version,
    }
    _write(table, path, {**_stored(table, path), definition.name: new})


def add_columns(table: Table, name: str, columns: Collection[str]) -> None:
    """Add columns to a definition. Raises as `index_definitions`."""
    path = _path(table)
    stored = _stored(table, path)
    if name in stored:
        with _checked(path):
            fields = list(dict.fromkeys((*(stored[name].get("sourceFields") or ()), *columns)))
            stored[name] = {**stored[name], "sourceFields": fields}
        _write(table, path, stored)


def forget_indexes(table: Table, gone: Collection[str], again: Collection[str] = ()) -> None:
    """Take out the definitions of partitions, which the properties name no more, but of those that are made
    `again`: only the columns of `column_stats` are then those of the settings. Raises as `index_definitions`.
    """
    gone = {name for name in gone if name not in again or name == "column_stats"}
    path = _path(table)
    stored = _stored(table, path)
    left = {name: value for name, value in stored.items() if name not in gone}
    if left != stored:
        _write(table, path, left)


def _path(table: Table) -> str:
    name = table.properties.get(PATH, DEFAULT_PATH) or DEFAULT_PATH
    steps = name.split("/")
    if steps[0] != META_FOLDER or not {"", ".", ".."}.isdisjoint(steps) or "\0" in name:
        raise TableError(f"{PATH}={name[:200]!r} is no file in {META_FOLDER} of the table", path=name[:200])
    return join(table.base_path, name)


def _stored(table: Table, path: str) -> dict[str, Any]:
    """By name, as the file has them; none of a missing one."""
    try:
        with table.storage.open_input(path) as source:
            data = source.read(_LARGEST + 1)
    except (FileNotFoundError, IsADirectoryError):
        return {}
    if len(data) > _LARGEST:
        raise TableError(f"{path} has more than {_LARGEST:,} bytes, and holds no definitions", path=path)
    with _checked(path):
        return dict(json.loads(data)["indexDefinitions"].items())


def _write(table: Table, path: str, definitions: Mapping[str, Any]) -> None:
    table.storage.write(path, json.dumps({"indexDefinitions": definitions}, indent=2).encode())


@contextmanager
def _checked(path: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        text = f"{path} holds no definitions of indexes: {type(error).__name__}: {str(error)[:200]}"
        raise TableError(text, path=path) from None


def _definition(key: str, value: Any) -> IndexDefinition:
    version = value.get("version")
    return IndexDefinition(
        name=_text(value.get("indexName", key)),
        kind=_text(value.get("indexType", "")),
        function=_text(value.get("indexFunction", "")),
        source_fields=tuple(map(_text, value.get("sourceFields") or ())),
        version=V1 if version is None else _text(version),
        options={_text(name): _text(text) for name, text in (value.get("indexOptions") or {}).items()},
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.100} is no text")
    return value
