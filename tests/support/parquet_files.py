"""Parquet files that Arrow does not write by itself."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

#: encrypted in the ways that there are: columns below a plain footer, the footer too, all by one key
ENCRYPTIONS: dict[str, dict[str, Any]] = {
    "columns": {"column_keys": {"c": ["v"]}, "plaintext_footer": True},
    "footer": {"column_keys": {"c": ["v"]}, "plaintext_footer": False},
    "all": {"uniform_encryption": True},
}


def encrypted(path: Path, kind: str, rows: pa.Table) -> str:
    """A file whose column v, at least, nobody has the key of."""
    import pyarrow.parquet.encryption as encryption

    given: Any = encryption

    class Keys(given.KmsClient):  # type: ignore[misc]
        def __init__(self, _: Any) -> None:
            super().__init__()

        def wrap_key(self, key: bytes, _: str) -> bytes:
            return base64.b64encode(key)

        def unwrap_key(self, wrapped: bytes, _: str) -> bytes:
            return base64.b64decode(wrapped)

    properties = given.CryptoFactory(Keys).file_encryption_properties(
        given.KmsConnectionConfig(), given.EncryptionConfiguration(footer_key="f", **ENCRYPTIONS[kind])
    )
    with pq.ParquetWriter(path, rows.schema, encryption_properties=properties) as writer:
        writer.write_table(rows)
    return str(path)


def enums(path: Path, rows: pa.Table, column: str = "v") -> str:
    """A file whose texts of a name are of the logical type ENUM; the name is one letter."""
    pq.write_table(rows, path, store_schema=False)
    data = path.read_bytes()
    # the name, the converted type and the logical type in the footer: UTF8 and STRING, ENUM and ENUM
    name = b"\x18\x01" + column.encode()
    text, enum = b"\x25\x00\x4c\x1c\x00\x00\x00", b"\x25\x08\x4c\x4c\x00\x00\x00"
    assert data.count(name + text) == 1
    path.write_bytes(data.replace(name + text, name + enum))
    return str(path)
