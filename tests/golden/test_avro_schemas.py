"""The schemas of our Avro files against those of Apache Hudi 0.15.0: the same but for their documentation."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro

from hoodie.codec.avro import schema_json
from hoodie.format.log_file import LogFileReader
from hoodie.storage.local import LocalStorage


def undocumented(schema: Any) -> Any:
    if isinstance(schema, list):
        return [undocumented(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: undocumented(item) for name, item in schema.items() if name != "doc"}


def schemas(golden: Path) -> Iterator[tuple[str, Any]]:
    """Of the files of all timelines, metadata tables' included, and of an archive."""
    for path in golden.glob("0.15.0-v6/*/table/.hoodie/**/*"):
        if not path.is_file():
            continue
        if path.name.startswith(".commits_.archive"):
            with LogFileReader(LocalStorage(), str(path)) as reader:
                yield path.name, json.loads(next(reader.blocks()).schema_text or "")
        elif path.parent.name in (".hoodie", "metadata") or path.parent.parent.name == "metadata":
            with path.open("rb") as file:
                data = file.read() if file.read(4) == b"Obj\x01" else b""
            if data:
                header = fastavro.reader(io.BytesIO(b"Obj\x01" + data)).metadata["avro.schema"]
                yield path.name, json.loads(header)


def test_every_kind_of_file_has_the_schema_of_apache_hudi(golden_tables: Path) -> None:
    seen = set()
    for name, schema in schemas(golden_tables):
        assert undocumented(schema_json(schema["name"])) == undocumented(schema), name
        seen.add(schema["name"])
    assert seen >= {
        "HoodieArchivedMetaEntry",
        "HoodieCleanerPlan",
        "HoodieCleanMetadata",
        "HoodieCompactionPlan",
        "HoodieRequestedReplaceMetadata",
        "HoodieRollbackPlan",
        "HoodieRollbackMetadata",
        "HoodieRestorePlan",
        "HoodieRestoreMetadata",
        "HoodieSavepointMetadata",
    }
