"""Archive files and their entries."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie.codec.avro import java_strings
from hoodie.errors import TableError
from hoodie.storage.local import LocalStorage
from hoodie.timeline.archived import (
    ArchivedEntry,
    archive_files,
    archive_name,
    archive_version,
    encode_archive,
    read_archived,
    read_file,
)
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.time import InstantTime

STORAGE = LocalStorage()


def test_names_of_archive_files(tmp_path: Path) -> None:
    assert archive_version(archive_name(12)) == 12
    assert archive_version(".commits_.archive.3") == 3
    for other in ("commits", ".commits_.archive", "..commits_.archive.1_1-0-1.crc", "mergeArchivePlan"):
        assert archive_version(other) is None
    for number in (10, 9, 1):
        (tmp_path / archive_name(number)).touch()
    assert [item.name for item in archive_files(STORAGE, str(tmp_path))] == [
        archive_name(n) for n in (1, 9, 10)
    ]
    assert list(read_archived(STORAGE, str(tmp_path / "none"))) == []


def test_entries_of_old_releases() -> None:
    record = {
        "commitTime": "20200101000000", "actionType": "commit", "actionState": None,
        "stateTransitionTime": None,
    }  # fmt: skip
    entry = ArchivedEntry.from_record(record)
    assert entry.instant == Instant(InstantTime("20200101000000"), Action.COMMIT, State.COMPLETED)
    assert (entry.metadata, entry.commit) == (None, None)
    with pytest.raises(TableError, match="not known here"):
        ArchivedEntry.from_record({**record, "actionType": "ingest"})


def test_blocks_hold_a_batch(tmp_path: Path) -> None:
    record = {"commitTime": "20200101000000000", "actionType": "commit", "actionState": "REQUESTED"}
    path = tmp_path / archive_name(1)
    path.write_bytes(encode_archive([record] * 7, 3))
    from hoodie.format.log_file import LogFileReader

    with LogFileReader(STORAGE, str(path)) as reader:
        blocks = list(reader.blocks())
    assert len(blocks) == 3
    assert all(block.headers.keys() == {2} for block in blocks)
    assert len(list(read_file(STORAGE, str(path)))) == 7


def test_texts_and_maps_alone_are_javas_strings_in_what_hudi_reads() -> None:
    items = {"name": "items", "type": {"type": "array", "items": "int"}}
    values = {"name": "values", "type": {"type": "map", "values": "string"}}
    java = {"avro.java.string": "String"}
    mended = {"name": "values", "type": {"type": "map", "values": {"type": "string", **java}, **java}}
    record = {"type": "record", "name": "entry"}
    assert java_strings({**record, "fields": [items, values]}) == {**record, "fields": [items, mended]}
