"""Bytes and names that are almost what a table has: mutations of real ones, made again from their number."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

from hoodie.codec.avro import schema_json

_NUMBERS = [0, 1, -1, 2, 127, 128, 255, 2**15, 2**31 - 1, -(2**31), 2**32, 2**53, 2**63 - 1, -(2**63), 2**64]
_TEXTS = [
    *(
        "",
        " ",
        "eu",
        ".",
        "..",
        "../x",
        "/etc",
        "a/../b",
        ".hoodie",
        "a\0b",
        "\u00b2",
        "\u0661",
        "\ud800",
        "\u2028",
    ),
    *(
        "20240101000000000",
        "9" * 17,
        "9" * 400,
        "-1",
        "NaN",
        "1e999",
        "true",
        "null",
        "%2e%2e",
        "a" * 300,
        "{}",
    ),
    *("f-0_0-0-0_20240101000000000.parquet", ".f-0_20240101000000000.log.1_0-0-0", "eu/f-0_1-2-3_4.parquet"),
    *("COMPLETED", "commit", "rollback", "DYNAMIC_V0", '{"type":"record","name":"a","fields":[]}'),
]
_ODD_JSON = [
    "NaN",
    "1e999",
    "9" * 5000,
    "-0",
    "[" * 3000,
    '{"a":' * 3000,
    '"\\ud800"',
    "[]",
    "{}",
    "null",
    "0",
    '""',
]


def mutated(chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds with a few bytes changed, lost, moved, or said twice."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        chance.choice(_BYTE_CHANGES)(chance, data)
    return bytes(data)


def _span(chance: random.Random, data: bytearray, most: int = 64) -> slice:
    start = chance.randrange(len(data) + 1)
    return slice(start, min(len(data), start + chance.randrange(most)))


def _flip(chance: random.Random, data: bytearray) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _set(chance: random.Random, data: bytearray) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)))


def _number(chance: random.Random, data: bytearray) -> None:
    form = chance.choice((">i", ">q", "<i", "<q", ">h"))
    width = struct.calcsize(form)
    value = chance.choice(_NUMBERS) % (1 << (8 * width))
    raw = value.to_bytes(width, "big" if form[0] == ">" else "little")
    start = chance.randrange(max(1, len(data) - width + 1))
    data[start : start + width] = raw


def _cut(chance: random.Random, data: bytearray) -> None:
    del data[_span(chance, data)]


def _end(chance: random.Random, data: bytearray) -> None:
    del data[chance.randrange(len(data) + 1) :]


def _twice(chance: random.Random, data: bytearray) -> None:
    part = _span(chance, data)
    data[part.stop : part.stop] = data[part] * chance.choice((1, 2, 50))


def _move(chance: random.Random, data: bytearray) -> None:
    part = _span(chance, data)
    piece = data[part]
    del data[part]
    place = chance.randrange(len(data) + 1)
    data[place:place] = piece


def _insert(chance: random.Random, data: bytearray) -> None:
    place = chance.randrange(len(data) + 1)
    piece = chance.choice((*_TEXTS, *_ODD_JSON)).encode("utf-8", "surrogatepass")
    data[place:place] = chance.choice((piece, chance.randbytes(chance.randrange(9)), bytes(200)))


_BYTE_CHANGES: list[Callable[[random.Random, bytearray], None]]
_BYTE_CHANGES = [_flip, _flip, _set, _set, _number, _number, _cut, _end, _twice, _move, _insert]


def mutated_json(chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds, JSON each, with a few values of another kind, or with bytes changed."""
    if chance.random() < 0.3:
        return mutated(chance, seeds)
    value = [json.loads(chance.choice(seeds))]
    for _ in range(chance.choice((1, 1, 2, 4))):
        _change_json(chance, value)
    text = json.dumps(value[0])
    odd = chance.choice(_ODD_JSON)
    return text.replace('"@odd@"', odd).encode("utf-8", "surrogatepass")


def _change_json(chance: random.Random, top: list[Any]) -> None:
    holder: Any = top
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return
        key = chance.choice(keys)
        inner = holder[key]
        if not isinstance(inner, (dict, list)) or chance.random() < 0.25:
            break
        holder = inner
    if isinstance(holder, dict) and chance.random() < 0.3:
        holder[chance.choice(_TEXTS)] = holder.pop(key)
    elif isinstance(holder, dict) and chance.random() < 0.2:
        del holder[key]
    else:
        holder[key] = chance.choice(
            (chance.choice(_TEXTS), chance.choice(_NUMBERS), "@odd@", None, [inner], {"a": inner})
        )


def mutated_text(chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Texts put together of parts of the seeds and of odd ones."""
    parts = []
    for _ in range(chance.randrange(1, 4)):
        part = chance.choice((chance.choice(seeds).decode(), chance.choice(_TEXTS)))
        start = chance.randrange(len(part) + 1) if chance.random() < 0.5 else 0
        parts.append(part[start:])
    return "".join(parts).encode("utf-8", "surrogatepass")


def record(chance: random.Random, model: str) -> Any:
    """A record of one of Apache Hudi's models with odd values, which the schema allows."""
    schema, named = schema_json(model), dict[str, Any]()
    _name(schema, named)
    return _value(chance, schema, named, 0)


def _name(schema: Any, named: dict[str, Any]) -> None:
    for part in schema if isinstance(schema, list) else schema.values() if isinstance(schema, dict) else ():
        _name(part, named)
    if isinstance(schema, dict) and schema.get("type") in ("record", "enum"):
        for name in (schema["name"], f"org.apache.hudi.avro.model.{schema['name']}"):
            named[name] = schema


def _value(chance: random.Random, schema: Any, named: dict[str, Any], depth: int) -> Any:
    if isinstance(schema, list):
        few = [branch for branch in schema if branch == "null"]
        return _value(
            chance, few[0] if few and (depth > 6 or chance.random() < 0.3) else schema[-1], named, depth
        )
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, (dict, list)):
        return _value(chance, kind, named, depth)
    if kind in named:
        return _value(chance, named[kind], named, depth)
    if kind == "record":
        return {field["name"]: _value(chance, field["type"], named, depth + 1) for field in schema["fields"]}
    count = chance.choice((0, 1, 1, 2)) if depth < 8 else 0
    if kind == "array":
        return [_value(chance, schema["items"], named, depth + 1) for _ in range(count)]
    if kind == "map":
        return {_text(chance): _value(chance, schema["values"], named, depth + 1) for _ in range(count)}
    if kind == "enum":
        return chance.choice(schema["symbols"])
    bits = {"int": 31, "long": 63}.get(kind)
    if bits:
        return chance.choice([number for number in _NUMBERS if -(1 << bits) <= number < 1 << bits])
    plain: dict[str, Any] = {
        "null": None,
        "boolean": chance.random() < 0.5,
        "double": chance.choice((0.0, -1.5, 1e308)),
    }
    plain |= {"float": 0.5, "bytes": b"\0\xff"}
    return plain[kind] if kind in plain else _text(chance)


def _text(chance: random.Random) -> str:
    return chance.choice(_TEXTS).encode("utf-8", "replace").decode()
