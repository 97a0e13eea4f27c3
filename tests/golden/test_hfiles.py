"""HFiles of metadata tables that Apache Hudi wrote."""

from __future__ import annotations

from pathlib import Path

from hoodie.format.hfile import HFileReader
from hoodie.storage.local import LocalStorage


def test_metadata_tables(golden_tables: Path) -> None:
    files = list(golden_tables.rglob("*.hfile"))
    assert files
    for file in files:
        with HFileReader.open(LocalStorage(), str(file)) as reader:
            found = list(reader.scan())
            assert len(found) == reader.entries
            assert b"HoodieMetadataRecord" in reader.info[b"schema"]
            assert list(reader.get([key for key, _ in found] + [b"", b"\xff"])) == found
            bloom = reader.meta(b"bloomFilter")
            assert bloom is None or len(bloom) > 100
            assert reader.meta(b"other") is None
