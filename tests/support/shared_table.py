"""A table that we and Apache Hudi write in turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import hoodie
from hoodie.storage.local import LocalStorage
from hoodie.timeline.active import Timeline
from hoodie.timeline.archive.log_archive import LogArchive
from hoodie.timeline.instant import Action, Instant
from tests.support.archives import archive_folder
from tests.support.hudi_client import HudiServer
from tests.support.oracle import Model
from tests.support.readers import read_hudi_rs
from tests.support.rows import assert_same_rows
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows

STORAGE = LocalStorage()
KEYS: dict[str, Any] = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.index.bloom.num_entries": 200,
}
FEW: dict[str, Any] = {
    "hoodie.cleaner.commits.retained": 2,
    "hoodie.keep.min.commits": 3,
    "hoodie.keep.max.commits": 4,
}
OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
TYPE = "hoodie.datasource.write.table.type"
PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]


class Table:
    """A table that both write, and its model. An option that is None is left out."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path = path
        self.kind = kind
        self.model = Model(["id"], ["region"], "ts")

    def ours(self, version: int, options: Mapping[str, Any] = FEW) -> None:
        rows = small_rows(range(version % 3, 60, 2), version)
        given = {name: value for name, value in options.items() if value is not None}
        settings = {**KEYS, TYPE: self.kind, **given}
        if self.kind == "MERGE_ON_READ" and options is FEW:
            settings |= {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": 2}
        result = hoodie.write_table(as_table(rows, SMALL_SCHEMA), str(self.path), options=settings)
        assert [item for item in result.warnings if "without effect" not in item] == []
        self.model.upsert(rows)

    def theirs(self, server: HudiServer, version: int, options: Mapping[str, Any] = FEW) -> None:
        rows = small_rows(range(version % 3, 60, 2), version)
        settings = {
            **KEYS,
            "hoodie.clean.automatic": "true",
            "hoodie.archive.automatic": "true",
            "hoodie.metadata.enable": "false",
            **options,
            TYPE: self.kind,
            "hoodie.table.name": self.path.name,
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
            "hoodie.datasource.write.payload.class": PAYLOAD,
            "hoodie.compact.inline": "false",
        }
        texts = {name: str(value) for name, value in settings.items() if value is not None}
        server.write(self.path, as_table(rows, SMALL_SCHEMA), texts)
        self.model.upsert(rows)

    def timeline(self) -> Timeline:
        return Timeline.load(str(self.path), STORAGE)

    def cleans(self) -> list[Instant]:
        return self.timeline().filter([Action.CLEAN], completed=True)

    def commits(self) -> set[str]:
        return {str(instant.time) for instant in self.timeline().commits()}

    def archived(self) -> dict[Instant, Mapping[str, Any]]:
        entries = LogArchive(STORAGE, archive_folder(str(self.path))).entries()
        return {entry.instant: entry.record for entry in entries}

    def known_as(self, server: HudiServer) -> str:
        name = f"serviced_{self.path.name}"
        server.sql(f"drop table if exists {name}")
        server.sql(f"create table {name} using hudi location '{self.path}'")
        return name

    def check(self, what: str, servers: Iterable[HudiServer]) -> None:
        expected = self.model.table(SMALL_SCHEMA)
        assert_same_rows(hoodie.read_table(str(self.path)), expected, what=f"{what}: ours")
        assert_same_rows(read_hudi_rs(self.path), expected, what=f"{what}: hudi-rs")
        for server in servers:
            for metadata in (True, False):
                rows = server.read(self.path, metadata=metadata)
                assert_same_rows(rows, expected, what=f"{what}: Hudi {server.version}, {metadata}")
