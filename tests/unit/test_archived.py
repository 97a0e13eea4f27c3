"""Archive files and their entries."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie.codec.avro import java_strings
from hoodie.errors import TableError
from hoodie.storage.local import LocalStorage
from hoodie.timeline.archive import log_archive
from hoodie.timeline.archive.archive import ArchivedEntry
from hoodie.timeline.archive.log_archive import (
    LogArchive,
    archive_name,
    archive_version,
    encode_archive,
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
    assert [item.name for item in LogArchive(STORAGE, str(tmp_path)).files()] == [
        archive_name(n) for n in (1, 9, 10)
    ]
    assert list(LogArchive(STORAGE, str(tmp_path / "none")).entries()) == []


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


def written(folder: Path, count: int) -> list[Instant]:
    """Archive files of one completed clean each."""
    archive = LogArchive(STORAGE, str(folder))
    instants = [Instant(InstantTime(f"2026{n:013}"), Action.CLEAN, State.COMPLETED) for n in range(count)]
    for number, instant in enumerate(instants, 1):
        assert archive.append([(instant, b"", instant.time)], 10)[0] == archive_name(number)
    return instants


def test_files_that_are_merged_meanwhile_are_read_where_they_are_now(tmp_path: Path) -> None:
    instants = written(tmp_path, 4)
    archive = LogArchive(STORAGE, str(tmp_path))
    entries = archive.entries()
    assert next(entries).instant == instants[0]
    assert archive.merge(1 << 20, 4) == [archive_name(number) for number in (1, 2, 3, 4)]
    assert [entry.instant for entry in entries] == instants[1:]
    assert [item.name for item in archive.files()] == [archive_name(5)]
    assert list(archive.instants(after=instants[0].time, before=instants[3].time)) == instants[1:3]
    assert archive.newest() == set(instants)


def test_names_that_another_archiver_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the caller bears; None for all of them."""
    (clean,) = written(tmp_path, 1)
    archive = LogArchive(STORAGE, str(tmp_path))
    monkeypatch.setattr(log_archive, "_last_version", lambda files: 0)
    state = (clean, b"", clean.time)
    with pytest.raises(TableError, match="after 1 tries; run one archiver at a time"):
        archive.append([state], 10, 1)
    assert archive.append([state], 10, 2)[0] == archive_name(2)
    assert archive.append([state], 10)[0] == archive_name(3)
