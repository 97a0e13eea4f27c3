"""What counts of a metadata table's records, on one made by hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie.errors import TableError, TableNotFound
from hoodie.format.hfile_records import write_rows
from hoodie.format.hfile_writer import HFileOptions, HFileWriter
from hoodie.format.log_block import BlockType, Buffer, HeaderKey, rollback_headers
from hoodie.format.log_data import DeleteRecords, encode_data_block, encode_delete_block
from hoodie.format.log_file import LogFileWriter
from hoodie.format.schema import from_avro
from hoodie.format.settings import Codec
from hoodie.metadata.instants import LayoutOneInstants
from hoodie.metadata.partitions.files import MetadataListing
from hoodie.metadata.partitions.record_index import locate
from hoodie.metadata.table import MetadataTable
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.handle import Table
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.rollback import InstantInfo, RollbackMetadata
from hoodie.timeline.time import InstantTime
from tests.support.arrow import arrow_schema
from tests.support.requests import counted
from tests.support.stores import store_at

STORAGE = LocalStorage()
MADE = "00000000000000010"
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "HoodieMetadataRecord",
        "fields": [
            {"name": "key", "type": "string"},
            {"name": "type", "type": "int"},
            {
                "name": "filesystemMetadata",
                "type": [
                    "null",
                    {
                        "type": "map",
                        "values": {
                            "type": "record",
                            "name": "HoodieMetadataFileInfo",
                            "fields": [
                                {"name": "size", "type": "long"},
                                {"name": "isDeleted", "type": "boolean"},
                            ],
                        },
                    },
                ],
            },
        ],
    }
)
INFO = pa.struct([pa.field("size", pa.int64(), False), pa.field("isDeleted", pa.bool_(), False)])
ROWS = arrow_schema(
    [("key", pa.string()), ("type", pa.int32()), ("filesystemMetadata", pa.map_(pa.string(), INFO))]
)
WRITTEN = json.dumps({"partitionToWriteStats": {"p": [{"fileId": "f", "path": "p/f"}]}}).encode()
#: by partition: the size of a file, None where it was deleted
Files = Mapping[str, Mapping[str, int | None]]


def moment(number: int) -> str:
    return f"2024010100{number:07d}"


def rows(files: Files) -> pa.Table:
    def infos(of: Mapping[str, int | None]) -> list[tuple[str, dict[str, object]]]:
        return [(name, {"size": size or 0, "isDeleted": size is None}) for name, size in of.items()]

    return pa.Table.from_pylist(
        [{"key": key, "type": 2, "filesystemMetadata": infos(of)} for key, of in files.items()], ROWS
    )


class Made:
    """A table, and its metadata table with one file group of `files`."""

    def __init__(self, path: Path) -> None:
        self.path = path / "t"
        self.metadata = self.path / ".hoodie/metadata"
        common = {properties.TYPE: "MERGE_ON_READ"}
        named = {properties.NAME: "t", properties.METADATA_PARTITIONS: "files", **common}
        properties.create(STORAGE, str(self.path), named)
        of_metadata = {properties.NAME: "t_metadata", properties.BASE_FILE_FORMAT: "HFILE", **common}
        properties.create(STORAGE, str(self.metadata), of_metadata)
        self.done(self.metadata, MADE)
        self._version = 0

    @staticmethod
    def done(
        place: Path,
        time: str,
        action: Action = Action.DELTACOMMIT,
        data: bytes = b'{"partitionToWriteStats": {}}',
        pending: bool = False,
    ) -> None:
        state = State.INFLIGHT if pending else State.COMPLETED
        store_at(place).create(Instant(InstantTime(time), action, state), data)

    def commit(self, number: int, files: Files, *, data: bool = True, metadata: bool = True) -> None:
        """A commit with its log block; either may have failed."""
        self.block(
            BlockType.HFILE_DATA,
            number,
            encode_data_block(rows(files), SCHEMA, BlockType.HFILE_DATA, Codec.GZIP),
        )
        self.done(self.metadata, moment(number), pending=not metadata)
        self.done(self.path, moment(number), pending=not data)

    def block(self, kind: BlockType, number: int, content: list[Buffer] | bytes, target: int = 0) -> None:
        headers: dict[int, str] = {HeaderKey.INSTANT_TIME: moment(number), HeaderKey.SCHEMA: SCHEMA}
        if kind is BlockType.COMMAND:
            headers = rollback_headers(InstantTime(moment(number)), InstantTime(moment(target)))
        self._version += 1
        path = self.metadata / f"files/.files-0000-0_{MADE}.log.{self._version}_0-0-0"
        with STORAGE.output(str(path), exclusive=True) as sink:
            writer = LogFileWriter(sink)
            writer.append(kind, headers, content)
            writer.close()

    def base(self, files: Files) -> Path:
        path = self.metadata / f"files/files-0000-0_0-0-0_{MADE}.hfile"
        with STORAGE.output(str(path)) as sink:
            write_rows(sink, rows(files), SCHEMA, HFileOptions())
            sink.commit()
        return path

    def listing(self) -> MetadataListing:
        found = MetadataTable.open(Table.open(str(self.path)))
        assert found is not None
        return MetadataListing(found, str(self.path))

    def files(self, partition: str = "p") -> dict[str, int]:
        return {item.name: item.size for item in self.listing().files(partition)}


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def test_later_records_count_and_sizes_grow(made: Made) -> None:
    made.base({"__all_partitions__": {"p": 0, "q/r": 0}, "p": {"a": 10, "b": 5}, "q/r": {"z": 1}})
    made.commit(1, {"p": {"a": 20, "c": 1}})
    made.commit(2, {"p": {"b": None, "d": None, "a": 3}})
    assert made.files() == {"a": 20, "c": 1}
    made.commit(3, {"__all_partitions__": {"q/r": None, "s": 0}, "p": {"b": 7}, "q/r": {"z": None}})
    assert made.files() == {"a": 20, "b": 7, "c": 1}
    listing = made.listing()
    assert listing.partitions() == ["p", "s"]
    assert listing.partitions(lambda folder: folder != "s") == ["p"]
    listed = listing.many(["s", "q/r", "p", "none"])
    assert {name: [item.name for item in items] for name, items in listed.items()} == {
        "s": [],
        "q/r": [],
        "p": ["a", "b", "c"],
        "none": [],
    }
    first = listed["p"][0]
    assert (first.path, first.size, first.is_dir) == (f"{made.path}/p/a", 20, False)


def test_what_is_deleted_and_was_never_there_leaves_the_others(made: Made) -> None:
    """As a rollback of files whose commit the metadata table never saw is recorded."""
    made.base({"__all_partitions__": {"p": 0, "q": None}, "p": {"a": 10, "b": None}})
    assert (made.listing().partitions(), made.files()) == (["p"], {"a": 10})
    made.commit(1, {"p": {"c": None}})
    assert made.files() == {"a": 10}


def test_partitions_of_a_table_without_any(made: Made) -> None:
    made.base({"__all_partitions__": {".": 0}, ".": {"a": 10}})
    assert made.listing().partitions() == [""]
    assert made.files("") == {"a": 10}
    assert made.listing().files("")[0].path == f"{made.path}/a"


def test_partitions_in_folders_that_are_not_wanted(made: Made) -> None:
    made.base({"__all_partitions__": {"x/1": 0, "y/1": 0, "y/2": 0}})
    asked = []

    def possible(folder: str) -> bool:
        asked.append(folder)
        return folder not in ("x", "y/2")

    assert made.listing().partitions(possible) == ["y/1"]
    assert "x/1" not in asked


def test_a_block_counts_when_both_commits_are_completed(made: Made) -> None:
    made.base({"p": {"a": 10}})
    made.commit(1, {"p": {"b": 1}}, data=False)
    made.commit(2, {"p": {"c": 1}}, metadata=False)
    made.commit(3, {"p": {"d": 1}})
    assert made.files() == {"a": 10, "d": 1}


def test_a_write_that_was_rolled_back_in_both_tables(made: Made) -> None:
    made.commit(1, {"p": {"a": 10}})
    made.commit(2, {"p": {"b": 1}}, data=False)
    target = InstantInfo(InstantTime(moment(2)), "deltacommit")
    done = RollbackMetadata.of(InstantTime(moment(3)), 1, target, {}).to_bytes()
    made.done(made.path, moment(3), Action.ROLLBACK, done)
    assert made.files() == {"a": 10, "b": 1}, "the metadata table takes its own commit back"
    made.block(BlockType.COMMAND, 3, b"", target=2)
    assert made.files() == {"a": 10}


LOST: dict[str, Callable[[bytearray], object]] = {
    "cut": lambda data: data.__delitem__(slice(200, None)),
    "emptied": bytearray.clear,
    "another instant": lambda data: data.__setitem__(data.index(b"2024"), ord("9")),
}


@pytest.mark.parametrize("loss", LOST)
def test_a_committed_log_that_lost_its_block_is_refused(made: Made, loss: str) -> None:
    """Without it an older record of a key would count."""
    made.base({"p": {"a": 10}})
    made.commit(1, {"p": {"b": 11}})
    log = made.metadata / f"files/.files-0000-0_{MADE}.log.1_0-0-0"
    data = bytearray(log.read_bytes())
    LOST[loss](data)
    log.write_bytes(data)
    assert made.files() == {"a": 10}, "no commit names the log: its writer may have died"
    stat = {"fileId": "files-0000-0", "path": f"files/{log.name}", "fileSizeInBytes": 9}
    done = made.metadata / f".hoodie/{moment(1)}.deltacommit"
    done.write_text(json.dumps({"partitionToWriteStats": {"files": [stat]}}))
    with pytest.raises(TableError, match=f"{log.name} has lost blocks"):
        made.files()


def test_a_deleted_key_has_only_what_came_later(made: Made) -> None:
    made.base({"p": {"a": 10}, "q": {"b": 1}})
    made.commit(1, {"p": {"c": 1}})
    keys = DeleteRecords(pa.array(["p"]), pa.array(["files"]), None)
    made.block(BlockType.DELETE, 2, encode_delete_block(keys))
    made.done(made.metadata, moment(2))
    made.done(made.path, moment(2))
    made.commit(3, {"p": {"d": 4}})
    assert (made.files("p"), made.files("q")) == ({"d": 4}, {"b": 1})


@pytest.mark.parametrize("name", ["../a", "a/b", ".hoodie", ""])
def test_names_that_lead_elsewhere_are_refused(made: Made, name: str) -> None:
    made.base({"p": {name: 1}})
    with pytest.raises(TableError):
        made.files()


def test_partitions_that_lead_elsewhere_are_refused(made: Made) -> None:
    made.base({"__all_partitions__": {"../x": 0}})
    with pytest.raises(TableError, match="no path below the table"):
        made.listing().partitions()


def test_a_record_of_another_key_is_refused(made: Made) -> None:
    """Its cell is what was asked for."""
    path = made.base({"p": {"a": 1}})
    with STORAGE.output(str(path)) as sink:
        writer = HFileWriter(sink, HFileOptions())
        writer.append(pa.array([b"p"]), pa.array([b"\x08../x\x04\x00"]))
        writer.finish({b"schema": SCHEMA.encode()})
        sink.commit()
    with pytest.raises(TableError, match="another key than its cell"):
        made.files()


@pytest.mark.parametrize("kind", ["string", {"type": "map", "values": "string"}])
def test_records_of_other_types_are_refused(made: Made, kind: object) -> None:
    schema = json.loads(SCHEMA)
    schema["fields"][2]["type"] = kind
    path = made.base({"p": {"a": 1}})
    with STORAGE.output(str(path)) as sink:
        writer = HFileWriter(sink, HFileOptions())
        writer.append(pa.array([b"p"]), pa.array([b"\0\x04\0"]))
        writer.finish({b"schema": json.dumps(schema).encode()})
        sink.commit()
    with pytest.raises(TableError, match="a column filesystemMetadata of type"):
        made.files()


def test_damaged_files_are_named(made: Made) -> None:
    path = made.base({"p": {"a": -1}})
    with pytest.raises(TableError, match="'a' of -1 bytes"):
        made.files()
    data = bytearray(path.read_bytes())
    for place, why in ((40, "the checksum of the block at 0 is wrong"), (60, "the block at 0")):
        damaged = bytearray(data)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(TableError, match=f"{path.name} is no HFile that can be read: {why}"):
            made.files()


def test_a_folder_that_is_not_there_is_an_error(made: Made) -> None:
    STORAGE.delete_tree(str(made.metadata))
    with pytest.raises(TableNotFound):
        made.listing()


INDEX = json.dumps(
    {
        "type": "record",
        "name": "HoodieMetadataRecord",
        "fields": [
            {"name": "key", "type": "string"},
            {
                "name": "recordIndexMetadata",
                "type": {
                    "type": "record",
                    "name": "HoodieRecordIndexInfo",
                    "fields": [
                        {"name": "partitionName", "type": ["null", "string"]},
                        {"name": "fileIdHighBits", "type": ["null", "long"]},
                        {"name": "fileIdLowBits", "type": ["null", "long"]},
                        {"name": "fileIndex", "type": ["null", "int"]},
                        {"name": "fileId", "type": ["null", "string"]},
                        {"name": "instantTime", "type": ["null", "long"]},
                        {"name": "fileIdEncoding", "type": "int"},
                    ],
                },
            },
        ],
    }
)


@pytest.mark.parametrize(
    ("partition", "file", "why"),
    [
        ("../p", "f", "no path below the table"),
        (None, "f", "without a location"),
        ("p", "a/b", "no file id"),
        ("p", None, "without a location"),
    ],
)
def test_a_record_index_that_leads_elsewhere_is_refused(
    made: Made, partition: str | None, file: str | None, why: str
) -> None:
    properties.update(STORAGE, str(made.path), {properties.METADATA_PARTITIONS: "files,record_index"})
    info = {"partitionName": partition, "fileId": file, "instantTime": 1, "fileIdEncoding": 1}
    numbers = dict.fromkeys(["fileIdHighBits", "fileIdLowBits"], -1) | {"fileIndex": -1}
    rows = [{"key": "k", "recordIndexMetadata": info | numbers}]
    schema = from_avro(INDEX)
    path = made.metadata / f"record_index/record-index-0000-0_0-0-0_{MADE}.hfile"
    with STORAGE.output(str(path)) as sink:
        write_rows(sink, pa.Table.from_pylist(rows, schema), INDEX, HFileOptions())
        sink.commit()
    metadata = MetadataTable.open(Table.open(str(made.path)))
    assert metadata is not None
    with pytest.raises(TableError, match=why):
        locate(metadata, pa.array(["k"]))


def test_files_are_read_once(made: Made) -> None:
    """Also the base file, where it is small."""
    made.base({"__all_partitions__": {"p": 0, "q": 0}, "p": {"a": 10}, "q": {"b": 1}})
    for number in range(1, 4):
        made.commit(number, {"p": {f"c{number}": 1}})
    with counted(str(made.path)) as requests:
        listing = made.listing()
        assert listing.partitions() == ["p", "q"]
        assert len(listing.files("p")) + len(listing.files("q")) == 5
    opened = Counter(path.rpartition(".")[2] for name, path, _ in requests.calls if name == "open_input")
    assert opened == {"hfile": 1, "1_0-0-0": 1, "2_0-0-0": 1, "3_0-0-0": 1}, f"\n{requests}"


def test_archived_deltacommits_are_not_lacking(made: Made) -> None:
    """Older cleans may still be there."""
    for number in (1, 2, 3):
        made.done(made.path, moment(number))
        made.done(made.metadata, moment(number))
    made.done(made.metadata, f"{moment(1)}002", Action.CLEAN, b"")
    folder = made.metadata / ".hoodie"

    def lacks() -> str:
        return LayoutOneInstants().lacking(
            Timeline.load(str(made.path)), Timeline.load(str(made.metadata)), STORAGE
        )

    for name in (MADE, moment(1), moment(2)):
        (folder / f"{name}.deltacommit").unlink()
    assert lacks() == ""
    made.done(made.path, moment(4))
    assert lacks() == "", "a change of the schema"
    made.done(made.path, moment(5), data=WRITTEN)
    assert lacks() == moment(5)


def test_what_was_pending_while_the_metadata_table_was_made(made: Made) -> None:
    """Its deltacommit is older than the making, which listed all files of other instants."""
    for number in (1, 2, 3, 4):
        made.done(made.path, moment(number), data=WRITTEN)
    for name in (moment(1), f"{moment(3)}010"):
        made.done(made.metadata, name)
    (made.metadata / f".hoodie/{MADE}.deltacommit").unlink()
    timelines = Timeline.load(str(made.path)), Timeline.load(str(made.metadata))
    assert LayoutOneInstants().lacking(*timelines, STORAGE) == moment(4)
