"""Parts of a record of Avro that has a large map: entries that are found by their keys, the first item, and
all but the map. What lies between is not decoded.

A container of one record may have a map of a hundred thousand values. A key is its length and its bytes
(Avro 1.11 specification, "Binary Encoding"), so that it can be searched for; what follows has to decode as a
value of the map.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

from hoodie.codec.avro import read_value, schema_json
from hoodie.codec.avro_container import one_datum, parsed_schema
from hoodie.codec.protobuf import varint

#: what precedes a text in a union with null: the number of its branch. A key follows the end of a value
_BRANCH = 2


def map_entries(
    name: str, field: str, data: bytes, keys: Collection[str], fits: Callable[[str, Any], bool]
) -> dict[str, Any] | None:
    """Those of these keys in the map `field` of a container's one record of the model `name`, resolved to the
    model. `fits` recognises the value of a key.

    None where the bytes are not clear: a key seems to be there twice, or is there as another text only.
    Raises ValueError for a container that is torn.
    """
    schema, datum = one_datum(data)
    written, model = _values(schema, field), _values(json.dumps(schema_json(name)), field)
    if not written or "" in keys:
        return None
    texts = {varint(len(key.encode()) << 1) + key.encode(): key for key in keys}
    pattern = b"|".join(re.escape(text) for text in sorted(texts))
    found: dict[str, Any] = {}
    seen, source = set[str](), io.BytesIO(datum)
    for hit in re.finditer(pattern, datum) if texts else ():
        key = texts[hit[0]]
        seen.add(key)
        if datum[hit.start() - 1] == _BRANCH:
            continue
        source.seek(hit.end())
        try:
            value = read_value(source, written, model)
        except ValueError:
            continue
        if value and fits(key, value):
            if key in found:
                return None
            found[key] = value
    return found if seen == found.keys() else None


def record_without(field: str, data: bytes) -> dict[str, Any]:
    """A container's one record as it was written, without the field, whose values are skipped. Raises
    ValueError for what is none.
    """
    schema, datum = one_datum(data)
    record: dict[str, Any] = read_value(io.BytesIO(datum), schema, _schema_without(schema, field))
    return record


def first_item(field: str, data: bytes) -> Any:
    """The first item of the first list in the map `field`, the first of a container's one record; None for
    a map of nothing. Raises ValueError where it is not clear.
    """
    schema, datum = one_datum(data)
    source, fields = io.BytesIO(datum), parsed_schema(schema).get("fields") or ()
    values = json.loads(_values(schema, field) or "null")
    if not fields or fields[0]["name"] != field or not isinstance(values, dict):
        raise ValueError(f"{field} is not the first field, or no map of lists")
    kinds = fields[0]["type"]
    if isinstance(kinds, list) and kinds[_long(source)] == "null":
        return None
    if not _count(source):
        return None
    read_value(source, _TEXT, _TEXT)
    if values.get("type") != "array" or not _count(source):
        raise ValueError(f"the first list of {field} has no item")
    item = json.dumps(values["items"])
    return read_value(source, item, item)


_TEXT, _LONG = '"string"', '"long"'


def _long(source: io.BytesIO) -> int:
    found: int = read_value(source, _LONG, _LONG)
    return found


def _count(source: io.BytesIO) -> int:
    """Of the items in the first block of a map or a list."""
    count = _long(source)
    if count < 0:  # then the block's bytes follow
        _long(source)
    return abs(count)


@lru_cache(maxsize=16)
def _schema_without(schema: str, field: str) -> str:
    record = parsed_schema(schema)
    return json.dumps({**record, "fields": [item for item in record["fields"] if item["name"] != field]})


@lru_cache(maxsize=16)
def _values(schema: str, field: str) -> str:
    """The schema of the map's values, as text; "" where there is no such map."""
    fields = parsed_schema(schema).get("fields") or ()
    kinds = next((item["type"] for item in fields if item["name"] == field), ())
    maps = (kind for kind in kinds if isinstance(kind, dict) and kind.get("type") == "map")
    found = next(maps, None)
    return "" if found is None else json.dumps(found["values"])
