"""Avro schemas as trees that the batch codec walks, and the Arrow types of their values (format.md 6.2, 6.5).

`parse` reads a record schema (Avro 1.11 specification, "Schema Declaration"); named types that are used again
become the same node. `arrow_field` says what a field is in Arrow; it is the only place of the mapping, for
tables (`hoodie.format.schema.from_avro`) and for log blocks (`hoodie.codec.arrow_avro`) alike.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeGuard, cast

import pyarrow as pa

from hoodie.errors import SchemaError

#: Avro's names for timestamps, by (has a zone, Arrow unit)
TIMESTAMP_LOGICAL_TYPES = {
    (True, "us"): "timestamp-micros",
    (True, "ms"): "timestamp-millis",
    (False, "us"): "local-timestamp-micros",
    (False, "ms"): "local-timestamp-millis",
}
_LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    **{
        ("long", text): pa.timestamp(cast(Any, unit), "UTC" if zone else None)
        for (zone, unit), text in TIMESTAMP_LOGICAL_TYPES.items()
    },
}
PRIMITIVES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}

#: columns, and parts of them, that a schema may have once its named types are written out
MOST_PARTS = 100_000

#: bytes of the kinds whose values all have the same size
_WIDTHS = {"null": 0, "boolean": 1, "float": 4, "double": 8}


@dataclass(frozen=True)
class Leaf:
    """A value without parts: `kind` is Avro's type name, `size` the bytes of a fixed, `symbols` an enum's."""

    kind: str
    dtype: pa.DataType
    size: int = 0
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True)
class Field:
    name: str
    type: Node


@dataclass(frozen=True)
class Record:
    """`name` is the type's, without its namespace."""

    fields: tuple[Field, ...]
    name: str = field(default="", compare=False)


@dataclass(frozen=True)
class Array:
    item: Node


@dataclass(frozen=True)
class Map:
    value: Node

    @property
    def entry(self) -> Record:
        """What the blocks of a map hold, one after the other."""
        return Record((Field("key", Leaf("string", pa.string())), Field("value", self.value)))


@dataclass(frozen=True)
class Union:
    """`text` is the union as the schema has it, for messages."""

    branches: tuple[Node, ...]
    text: str = field(compare=False)

    @functools.cached_property
    def null(self) -> int | None:
        """Index of the null branch."""
        return next((i for i, node in enumerate(self.branches) if is_null(node)), None)

    @functools.cached_property
    def values(self) -> tuple[Node, ...]:
        """The branches that are not null."""
        return tuple(node for node in self.branches if not is_null(node))


Node: TypeAlias = Leaf | Record | Array | Map | Union


def is_null(node: Node) -> bool:
    """Is this type the null alone (`"null"` or `["null"]`)?"""
    if isinstance(node, Union):
        return not node.values
    return isinstance(node, Leaf) and node.kind == "null"


def fixed_width(node: Node) -> int | None:
    """Bytes of each value where all values of the type have the same size."""
    if isinstance(node, Leaf):
        return node.size if node.kind == "fixed" else _WIDTHS.get(node.kind)
    if isinstance(node, Record):
        widths = [fixed_width(part.type) for part in node.fields]
        return None if None in widths else sum(cast("list[int]", widths))
    return None


# --- Arrow types ---------------------------------------------------------------------------------------


def arrow_field(name: str, node: Node, path: str, unions: bool = False) -> pa.Field[Any]:
    """Arrow field of an Avro field; `path` names the column in errors.

    Raises SchemaError for what no column can be: null alone, and, without `unions`, unions of several types.
    With it these are structs of their types by name (`branch_names`), of which at most one has a value.
    """
    nullable = False
    if isinstance(node, Union):
        nullable = node.null is not None
        if len(node.values) > 1 and unions:
            return pa.field(name, _branches_type(node, path), nullable)
        if len(node.values) != 1:
            raise SchemaError(
                f"column {path!r} has Avro type {node.text}: only unions of null and one type can be read",
                column=path,
            )
        node = node.values[0]
    return pa.field(name, _arrow_type(node, path, unions), nullable)


def branch_names(node: Union) -> list[str]:
    """Of the branches that are not null: names of records, kinds of others."""
    kinds = {Array: "array", Map: "map"}
    return [
        branch.name
        if isinstance(branch, Record)
        else branch.kind
        if isinstance(branch, Leaf)
        else kinds[type(branch)]
        for branch in node.values
    ]


def _branches_type(node: Union, path: str) -> pa.DataType:
    names = branch_names(node)
    if len(set(names)) < len(names):
        raise _unreadable(node.text, path)
    fields = [
        arrow_field(name, branch, f"{path}.{name}", True)
        for name, branch in zip(names, node.values, strict=True)
    ]
    return pa.struct([field.with_nullable(True) for field in fields])


def _arrow_type(node: Node, path: str, unions: bool) -> pa.DataType:
    if isinstance(node, Record):
        return pa.struct([arrow_field(f.name, f.type, f"{path}.{f.name}", unions) for f in node.fields])
    if isinstance(node, Array):
        item = arrow_field("element", node.item, f"{path}.element", unions)
        return array_of(item.type, item.nullable)
    if isinstance(node, Map):
        value = arrow_field("value", node.value, f"{path}.value", unions)
        return map_of(value.type, value.nullable)
    assert isinstance(node, Leaf)  # unions hold no unions
    if is_null(node):
        raise _unreadable("null", path)
    return node.dtype


def array_of(item: pa.DataType, nullable: bool = True) -> pa.DataType:
    """List type with the element name of 3-level Parquet lists."""
    return pa.list_(pa.field("element", item, nullable))


def map_of(item: pa.DataType, nullable: bool = True) -> pa.DataType:
    value = cast(Any, pa.field("value", item, nullable))  # the stubs know types only
    return cast(pa.DataType, pa.map_(pa.string(), value))


def is_list(dtype: pa.DataType) -> TypeGuard[pa.ListType[Any]]:
    """Any of Arrow's list layouts."""
    checks = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, *_LIST_VIEWS)
    return any(check(dtype) for check in checks)


_LIST_VIEWS = tuple(
    getattr(pa.types, name) for name in ("is_list_view", "is_large_list_view") if hasattr(pa.types, name)
)


def qualified_name(avro: Mapping[str, Any], space: str) -> str:
    """Full name of a named type that is declared inside the namespace `space`."""
    name = str(avro["name"])
    if "." in name:
        return name
    own = str(avro.get("namespace", space))
    return f"{own}.{name}" if own else name


# --- parsing -------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def parse_text(text: str) -> Record:
    """`parse` of JSON text; results are kept, as all blocks of a write have one schema."""
    try:
        avro = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(
            f"the table's Avro schema is no JSON ({error}); check the last commit's metadata", schema=text
        ) from None
    return parse(avro)


def parse(avro: Any) -> Record:
    """The tree of a parsed JSON record schema.

    Raises SchemaError when it is no record or has a type that Avro, Arrow or this package does not know.
    """
    if not isinstance(avro, Mapping) or avro.get("type") != "record":
        raise SchemaError(
            f"the table's Avro schema is no record: {str(avro)[:200]}; check the last commit's metadata"
        )
    try:
        node = _Parser().node(avro, "", "")
    except RecursionError:
        raise SchemaError(
            "the table's Avro schema is nested too deep; check the last commit's metadata"
        ) from None
    assert isinstance(node, Record)
    return node


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, Node] = {}
        self._parts = 0
        #: of each named type, by its node
        self._parts_of: dict[int, int] = {}

    def node(self, avro: Any, space: str, path: str) -> Node:
        """`space` is the namespace around, `path` the column in errors."""
        if isinstance(avro, list):
            text = json.dumps(avro)
            branches = tuple(self.node(branch, space, path) for branch in avro)
            if any(isinstance(branch, Union) for branch in branches):
                raise _unreadable(text, path)
            return Union(branches, text)
        if isinstance(avro, str):
            return self._reference(avro, space, path)
        if not isinstance(avro, Mapping):
            raise _unreadable(avro, path)
        kind = avro.get("type")
        if isinstance(kind, (dict, list)):
            return self.node(kind, space, path)
        try:
            return self._declared(avro, str(kind), space, path)
        except (KeyError, TypeError, ValueError, pa.ArrowInvalid) as error:
            raise _unreadable(f"{kind} ({type(error).__name__}: {error})", path) from None

    def _reference(self, name: str, space: str, path: str) -> Node:
        if name in PRIMITIVES:
            return Leaf(name, PRIMITIVES[name])
        if name == "null":
            return Leaf(name, pa.null())
        known = self._named.get(name if "." in name else f"{space}.{name}", self._named.get(name))
        if known is None:
            raise _unreadable(name, path)
        self._count(self._parts_of[id(known)], path)
        return known

    def _count(self, parts: int, path: str) -> None:
        """Types that name each other twice are short texts of endless schemas."""
        self._parts += parts
        if self._parts > MOST_PARTS:
            raise SchemaError(
                f"the table's Avro schema has more than {MOST_PARTS} columns and parts of them at {path!r}; "
                "check the last commit's metadata",
                column=path,
            )

    def _declared(self, avro: Mapping[str, Any], kind: str, space: str, path: str) -> Node:
        before = self._parts
        self._count(1, path)
        if kind == "array":
            item = self.node(avro["items"], space, f"{path}.element")
            if not fixed_width(item) and fixed_width(item) is not None:
                raise ValueError("its values have no bytes")  # any number of them would fit everywhere
            return Array(item)
        if kind == "map":
            return Map(self.node(avro["values"], space, f"{path}.value"))
        if kind == "record":
            node: Node = self._record(avro, space, path)
        elif kind == "fixed":
            size, decimal = int(avro["size"]), _decimal(avro)
            if not (1 if decimal else 0) <= size < 1 << 31:
                raise ValueError(f"size {size}")
            node = Leaf(kind, decimal or pa.binary(), size)
        elif kind == "enum":
            node = Leaf(kind, pa.string(), symbols=tuple(map(str, avro["symbols"])))
        elif kind in PRIMITIVES:
            dtype = _LOGICAL.get((kind, str(avro.get("logicalType"))), PRIMITIVES[kind])
            return Leaf(kind, (_decimal(avro) if kind == "bytes" else None) or dtype)
        else:
            return self._reference(kind, space, path)
        self._named[qualified_name(avro, space)] = node
        self._parts_of[id(node)] = self._parts - before
        return node

    def _record(self, avro: Mapping[str, Any], space: str, path: str) -> Record:
        names = [str(part["name"]) for part in avro["fields"]]
        if len(set(names)) < len(names):
            raise ValueError("a field twice")
        inner = qualified_name(avro, space).rpartition(".")[0]
        prefix = f"{path}." if path else ""
        return Record(
            tuple(
                Field(str(part["name"]), self.node(part["type"], inner, f"{prefix}{part['name']}"))
                for part in avro["fields"]
            ),
            qualified_name(avro, space).rpartition(".")[2],
        )


def _decimal(avro: Mapping[str, Any]) -> pa.DataType | None:
    if avro.get("logicalType") != "decimal":
        return None
    return pa.decimal128(int(avro["precision"]), int(avro.get("scale", 0)))


def _unreadable(kind: Any, path: str) -> SchemaError:
    return SchemaError(
        f"column {path!r} has Avro type {kind!r}, which is not supported; rewrite the table without it",
        column=path,
    )
