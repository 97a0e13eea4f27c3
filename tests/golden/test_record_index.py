"""Our records of the record index beside those that Apache Hudi wrote at the same instants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hoodie.config.key import Config
from hoodie.format.hfile import HFileReader
from hoodie.format.hfile_records import decode_rows, schema_of
from hoodie.format.log_block import BlockType
from hoodie.format.log_data import read_delete_block
from hoodie.format.log_file import LogFileReader
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.record_index import RECORD, SCHEMA
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table
from hoodie.table.participant import Commit
from hoodie.timeline.clock import instant_millis
from hoodie.timeline.time import InstantTime
from hoodie.write.participants.metadata import Changed, Making
from hoodie.write.participants.metadata.record_index import RecordIndexPartition
from tests.support.record_index import Places, indexed, places_of, stored

STORAGE = LocalStorage()
NAMES = ["idx_rli_mor", "mdt_full_cow"]
KEPT = RecordIndexPartition()
#: by key: the record; None: deleted
Values = dict[str, dict[str, Any] | None]


def values(chunks: list[Records]) -> Values:
    """Rows win over deletes: a record that moved is in both."""
    found: Values = {}
    for chunk in chunks:
        deleted: Any = [] if chunk.deletes is None else chunk.deletes.to_pylist()
        found.update(dict.fromkeys(deleted))
    for chunk in chunks:
        found.update({row["key"]: row[RECORD] for row in chunk.rows.to_pylist()})
    return found


def written(metadata: Path) -> dict[str, Values]:
    """Theirs, by instant."""
    found: dict[str, Values] = {}
    for path in sorted(metadata.glob("record_index/.[!.]*.log.*")):
        with LogFileReader(STORAGE, str(path)) as log:
            for block in log.blocks():
                mine = found.setdefault(str(block.instant), {})
                if block.type is BlockType.DELETE:
                    deleted: Any = read_delete_block(log.content(block)).keys.to_pylist()
                    mine.update(dict.fromkeys(deleted))
                elif block.type is BlockType.HFILE_DATA:
                    with HFileReader.of_bytes(log.content(block), path.name) as file:
                        rows = decode_rows(file.scan(), schema_of(file), SCHEMA.names)
                    assert rows.schema == SCHEMA
                    assert set(rows.column("type").to_pylist()) == {5}
                    mine.update({row["key"]: row[RECORD] for row in rows.to_pylist()})
    return found


def without_times(found: Values, millis: int) -> Values:
    """Instants are times of the zone of the process that wrote them; theirs was UTC."""
    assert {record["instantTime"] for record in found.values() if record} <= {millis}
    return {key: record and {**record, "instantTime": 0} for key, record in found.items()}


@pytest.mark.parametrize("name", NAMES)
def test_records_of_each_instant(golden_tables: Path, name: str) -> None:
    table = Table.open(str(golden_tables / "0.15.0-v6" / name / "table"))
    theirs = written(Path(table.base_path, ".hoodie/metadata"))
    kinds = set()
    for instant in table.timeline.commits():
        commit = Commit(table=table, instant=instant, metadata=table.timeline.commit(instant, STORAGE))
        changed = Changed(data=table, config=Config.of({}), instant=instant.time, commit=commit, deleted={})
        changes = KEPT.changes(changed)
        assert changes is not None
        ours = without_times(values(list(changes)), instant_millis(instant.time, False))
        assert ours == without_times(theirs.get(instant.time, {}), instant_millis(instant.time, True))
        kinds |= {record is None for record in ours.values()}
    assert kinds == {True, False}


@pytest.mark.parametrize("name", NAMES)
def test_a_new_index_has_what_theirs_has(golden_tables: Path, name: str) -> None:
    table = Table.open(str(golden_tables / "0.15.0-v6" / name / "table"))
    listing = table.listing()
    files = {
        partition: {item.name: item.size for item in listing.files(partition)}
        for partition in listing.partitions()
    }
    making = Making(data=table, config=Config.of({}), instant=InstantTime(str(table.timeline.last_time)))
    assert KEPT.file_groups(making, files) == 10
    ours: Places = {}
    for chunk in KEPT.initial(making, files):
        ours |= places_of(chunk.rows)
    assert ours == indexed(table.base_path) == stored(table.base_path)
