"""The archive of a table, and its files as releases before Java's strings wrote them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hoodie.codec.avro import JAVA_STRING
from hoodie.format.log_block import HeaderKey, encode_block
from hoodie.format.log_file import LogFileReader
from hoodie.storage.local import LocalStorage
from hoodie.timeline.archived import archive_files
from hoodie.timeline.layouts.one import ONE

STORAGE = LocalStorage()


def archive_folder(base_path: str) -> str:
    """Of a table with the default of hoodie.archivelog.folder."""
    return ONE.archive_folder(base_path, "archived")


def without_property(schema: Any) -> Any:
    """A schema as JSON values without the property of Java's strings."""
    if isinstance(schema, list):
        return [without_property(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: without_property(item) for name, item in schema.items() if name != JAVA_STRING}


def age(table: str | Path) -> list[str]:
    """Make all archive files of a table old ones; their names."""
    files = archive_files(STORAGE, archive_folder(str(table)))
    for item in files:
        pieces: list[bytes] = []
        with LogFileReader(STORAGE, item.path) as reader:
            for block in reader.blocks():
                schema = without_property(json.loads(block.schema_text or ""))
                headers = {**block.headers, HeaderKey.SCHEMA: json.dumps(schema, separators=(",", ":"))}
                pieces += map(bytes, encode_block(block.type, headers, reader.content(block)))
        STORAGE.write(item.path, b"".join(pieces))
    return [item.name for item in files]
