"""Entries of a map in a record of Avro, found by their keys: what lies between them is not decoded.

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


@lru_cache(maxsize=16)
def _values(schema: str, field: str) -> str:
    """The schema of the map's values, as text; "" where there is no such map."""
    fields = parsed_schema(schema).get("fields") or ()
    kinds = next((item["type"] for item in fields if item["name"] == field), ())
    maps = (kind for kind in kinds if isinstance(kind, dict) and kind.get("type") == "map")
    found = next(maps, None)
    return "" if found is None else json.dumps(found["values"])
