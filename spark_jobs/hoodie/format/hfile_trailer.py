"""How an HFile ends: the file info, and the trailer of 4096 bytes (format.md 9.5, 9.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hoodie.codec import protobuf
from hoodie.format.hfile_block import Compression, Damage

TRAILER_BYTES = 4096
_MAGIC = b'TRABLK"$'
_VERSION = b"\3\0\0\3"
_INFO_MAGIC = b"PBUF"
#: HBase loads the class
_COMPARATOR = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
_COMPARATOR_FIELD, _CODEC, _ENCRYPTION = 11, 12, 13
_MOST_LEVELS = 16

#: entries of the file info
SCHEMA, MIN_KEY, MAX_KEY, BLOOM_TYPE = b"schema", b"minRecordKey", b"maxRecordKey", b"bloomFilterTypeCode"
#: says that every cell ends with a version, which the greatest version of the file says is 0
CELL_VERSION, GREATEST_VERSION = b"KEY_VALUE_VERSION", b"MAX_MEMSTORE_TS_KEY"
#: name of the meta block that holds Apache Hudi's bloom filter
BLOOM_FILTER = b"bloomFilter"


@dataclass(frozen=True, kw_only=True)
class Trailer:
    """Places of blocks, and numbers of entries. `levels` are those of the index of data blocks."""

    info: int
    load_on_open: int
    index_bytes: int = 0
    all_bytes: int = 0
    data_entries: int
    meta_entries: int
    cells: int
    levels: int = 1
    first_data: int = 0
    last_data: int = 0
    compression: Compression

    @classmethod
    def parse(cls, data: bytes) -> Trailer:
        """Raises Damage."""
        if data[: len(_MAGIC)] != _MAGIC:
            raise Damage("it has no trailer")
        version = int.from_bytes(data[-3:], "big")
        if version != _VERSION[-1]:
            raise Damage(f"version {version} is not supported")
        numbers: dict[int, int] = {}
        try:
            for field, value in protobuf.read_fields(protobuf.read_delimited(data, len(_MAGIC))):
                if field == _ENCRYPTION:
                    raise Damage("it is encrypted, which is not supported")
                if isinstance(value, int):
                    numbers[field] = value
        except protobuf.Damage as error:
            raise Damage(f"its trailer: {error}") from None
        codec = numbers.pop(_CODEC, Compression.NONE)
        if codec not in list(map(int, Compression)):
            raise Damage(f"codec {codec} is not supported")
        found = {name: numbers[field] for field, name in _FIELDS.items() if field in numbers}
        trailer = cls(**{**_ABSENT, **found}, compression=Compression(codec))
        if not 1 <= trailer.levels <= _MOST_LEVELS:
            raise Damage(f"an index of {trailer.levels} levels is not supported")
        return trailer

    def to_bytes(self) -> bytes:
        parts = [protobuf.field(number, getattr(self, name)) for number, name in _FIELDS.items()]
        parts += [protobuf.field(_COMPARATOR_FIELD, _COMPARATOR), protobuf.field(_CODEC, self.compression)]
        data = _MAGIC + protobuf.delimited(b"".join(parts))
        return data.ljust(TRAILER_BYTES - len(_VERSION), b"\0") + _VERSION


_FIELDS = {
    1: "info",
    2: "load_on_open",
    3: "index_bytes",
    4: "all_bytes",
    5: "data_entries",
    6: "meta_entries",
    7: "cells",
    8: "levels",
    9: "first_data",
    10: "last_data",
}
_ABSENT = {"info": 0, "load_on_open": 0, "data_entries": 0, "meta_entries": 0, "cells": 0}


def decode_info(content: bytes) -> dict[bytes, bytes]:
    """The file info: texts and numbers of the writer by name. Raises Damage."""
    if content[: len(_INFO_MAGIC)] != _INFO_MAGIC:
        raise Damage("its file info has an unknown form")
    found: dict[bytes, bytes] = {}
    try:
        for field, value in protobuf.read_fields(protobuf.read_delimited(content, len(_INFO_MAGIC))):
            if field == 1 and isinstance(value, bytes):
                pair = dict(protobuf.read_fields(value))
                name, text = pair.get(1), pair.get(2, b"")
                if isinstance(name, bytes) and isinstance(text, bytes):
                    found[name] = text
    except protobuf.Damage as error:
        raise Damage(f"its file info: {error}") from None
    versioned = found.get(CELL_VERSION) == (1).to_bytes(4, "big")
    if versioned and any(found.get(GREATEST_VERSION, b"")):
        raise Damage("its cells have versions, which Apache Hudi does not write")
    return found


def encode_info(entries: Mapping[bytes, bytes]) -> bytes:
    """In the order of the names, as HBase writes it."""
    pairs = (protobuf.field(1, name) + protobuf.field(2, entries[name]) for name in sorted(entries))
    return _INFO_MAGIC + protobuf.delimited(b"".join(protobuf.field(1, pair) for pair in pairs))
