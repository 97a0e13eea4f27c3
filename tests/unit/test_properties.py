"""hoodie.properties: Java's text form, and the protocol that survives a kill between any two steps."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.errors import (
    AlreadyExists,
    CommitConflict,
    ConfigError,
    TableNotFound,
    TornProperties,
    UnsupportedVersion,
)
from hoodie.format.java_properties import format_properties, parse_properties
from hoodie.storage import Check, Storage
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.properties import (
    TableType,
    create,
    load,
    recover,
    update,
)

NOW = datetime(2026, 11, 20, 23, 52, 41, tzinfo=timezone.utc)
CREATED = {
    properties.NAME: "trips",
    properties.RECORD_KEY_FIELDS: "id,region",
    properties.PARTITION_FIELDS: "day",
    properties.PRECOMBINE_FIELD: "ts",
    properties.METADATA_PARTITIONS: "files",
}


class Killed(Exception):
    pass


class _Stopping:
    """Storage that dies before or after its n-th change."""

    def __init__(self, count: int, after: bool) -> None:
        self.inner = LocalStorage()
        self.left = count
        self.after = after

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)
        if name not in {"write", "put_if", "create", "delete", "make_dirs"}:
            return method

        def change(*args: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.after:
                raise Killed
            result = method(*args)
            if self.left == 0:
                raise Killed
            return result

        return change


def stopping(count: int, after: bool) -> Storage:
    return cast("Storage", _Stopping(count, after))


def moments() -> Iterator[tuple[int, bool]]:
    for count in range(1, 20):
        yield count, False
        yield count, True


@pytest.fixture
def storage() -> LocalStorage:
    return LocalStorage()


@pytest.fixture
def base(tmp_path: Path, storage: LocalStorage) -> str:
    path = str(tmp_path / "trips")
    create(storage, path, CREATED)
    return path


def test_text_as_java_writes_it() -> None:
    texts = {"a b": "  x=y:z#!", "schema": '{"type":"record"}', "tab\t": "é😀\\\r\n", "empty": ""}
    data = format_properties(texts, "Updated at some time", NOW)
    assert data.decode("ascii").splitlines() == [
        "#Updated at some time",
        "#Fri Nov 20 23:52:41 UTC 2026",
        r"a\ b=\  x\=y\:z\#\!",
        r'schema={"type"\:"record"}',
        r"tab\t=\u00E9\uD83D\uDE00\\\r\n",
        "empty=",
    ]
    assert parse_properties(data) == texts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a=b\nc:d\ne f\ng", {"a": "b", "c": "d", "e": "f", "g": ""}),
        (b"  a  =  b  \n", {"a": "b  "}),
        (b"a = \\\n   b,\\\n\tc\nd=1", {"a": "b,c", "d": "1"}),
        (b"a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        (b"#x=1\n  !y=2\n\n \t\nz=3", {"z": "3"}),
        (b"a=1\\\n#not a comment", {"a": "1#not a comment"}),
        (b"a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        (b"a\\=b\\ c=d", {"a=b c": "d"}),
        (b"a=\\u00e9\\x\\t", {"a": "éx\t"}),
        (b"a=\xe9", {"a": "é"}),
        (b"a==b", {"a": "=b"}),
        (b"a=1\na=2", {"a": "2"}),
        (b"a=1\\", {"a": "1"}),
    ],
)
def test_text_as_java_reads_it(text: bytes, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_malformed_escape() -> None:
    with pytest.raises(ValueError, match="uXXXX"):
        parse_properties(b"a=\\u12")


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.text(), max_size=5))
def test_text_round_trip(texts: dict[str, str]) -> None:
    assert parse_properties(format_properties(texts, "c", NOW)) == texts


def test_every_golden_file(golden_tables: Path, storage: LocalStorage) -> None:
    files = sorted(golden_tables.rglob("hoodie.properties"))
    assert len(files) > 100
    for file in files:
        props = load(storage, str(file.parent.parent))
        body = sorted(line for line in file.read_text().splitlines() if not line.startswith("#"))
        ours = format_properties(props, "c", NOW).decode().splitlines()[2:]
        assert sorted(ours) == body
        assert props[properties.CHECKSUM] == properties.checksum(props)


def test_typed_values(golden_tables: Path, storage: LocalStorage) -> None:
    def table(name: str) -> properties.TableProperties:
        return load(storage, str(golden_tables / "0.15.0-v6" / name / "table"))

    cow = table("cow_types")
    assert (cow.name, cow.table_type, cow.version) == ("cow_types", TableType.COPY_ON_WRITE, 6)
    assert (cow.record_key_fields, cow.partition_fields, cow.precombine_field) == (("id",), ("region",), "ts")
    assert cow.keygenerator_class == "org.apache.hudi.keygen.SimpleKeyGenerator"
    assert cow.payload_class is None
    assert cow.metadata_partitions == ("files",)
    assert not cow.timeline_utc
    assert cow.populate_meta_fields
    assert not table("cow_nometafields").populate_meta_fields
    assert table("cow_hive_urlenc").hive_style
    assert table("cow_hive_urlenc").url_encode
    assert table("cow_droppartcol").drop_partition_columns
    assert table("cow_nonpart").partition_fields == ()
    assert table("mdt_off").metadata_partitions == ()
    sql = table("sql_mor_merge")
    assert sql.table_type is TableType.MERGE_ON_READ
    assert sql.database == "default"
    assert sql.payload_class == properties.DEFAULT_PAYLOAD_CLASS
    assert sql.create_schema is not None
    assert '"type":"record"' in sql.create_schema


@pytest.mark.parametrize(
    ("database", "name", "expected"),
    [("", "cow1", "3815464323"), (None, "mor1_metadata", "1660910120"), ("default", "long1", "3923122974")],
)
def test_checksum(database: str | None, name: str, expected: str) -> None:
    texts = {properties.NAME: name}
    if database is not None:
        texts[properties.DATABASE] = database
    assert properties.checksum(texts) == expected


def test_create(base: str, storage: LocalStorage) -> None:
    props = load(storage, base)
    assert props.record_key_fields == ("id", "region")
    assert props.table_type is TableType.COPY_ON_WRITE
    assert props.payload_class is None
    assert props.version == 6
    folders = {str(path.relative_to(base)) for path in Path(base).rglob("*") if path.is_dir()}
    assert folders == {
        ".hoodie",
        ".hoodie/.schema",
        ".hoodie/archived",
        ".hoodie/.temp",
        ".hoodie/.aux",
        ".hoodie/.aux/.bootstrap",
        ".hoodie/.aux/.bootstrap/.partitions",
        ".hoodie/.aux/.bootstrap/.fileids",
    }


def test_create_merge_on_read_names_its_payload(tmp_path: Path, storage: LocalStorage) -> None:
    props = create(storage, str(tmp_path), {properties.NAME: "t", properties.TYPE: "merge_on_read"})
    assert props.payload_class == properties.DEFAULT_PAYLOAD_CLASS
    assert props[properties.MERGER_STRATEGY] == properties.DEFAULT_MERGER_STRATEGY


def test_create_refuses(base: str, tmp_path: Path, storage: LocalStorage) -> None:
    with pytest.raises(AlreadyExists, match="holds a table"):
        create(storage, base, CREATED)
    with pytest.raises(ConfigError, match=r"hoodie\.table\.name"):
        create(storage, str(tmp_path / "x"), {})
    with pytest.raises(ConfigError, match="COPY_ON_WRITE or MERGE_ON_READ"):
        create(storage, str(tmp_path / "x"), {properties.NAME: "t", properties.TYPE: "cow"})
    assert not (tmp_path / "x").exists()


def test_killed_creation_is_no_table_and_can_be_repeated(tmp_path: Path, storage: LocalStorage) -> None:
    finished = 0
    for count, after in moments():
        path = str(tmp_path / f"{count}-{after}")
        try:
            create(stopping(count, after), path, CREATED)
        except Killed:
            pass
        else:
            finished += 1
        if storage.exists(properties.properties_path(path)):
            assert load(storage, path).name == "trips"
            continue
        with pytest.raises(TableNotFound):
            load(storage, path, pause_s=0)
        assert create(storage, path, CREATED) == load(storage, path)
    assert finished > 2


def test_update_sets_and_removes(base: str, storage: LocalStorage) -> None:
    changes = {properties.METADATA_PARTITIONS: None, properties.CREATE_SCHEMA: '{"a": "b"}', "absent": None}
    props = update(storage, base, changes)
    assert props == load(storage, base)
    assert props.metadata_partitions == ()
    assert props.create_schema == '{"a": "b"}'
    assert not storage.exists(properties.backup_path(base))
    text = Path(properties.properties_path(base)).read_text()
    assert text.splitlines()[-1].startswith(properties.CHECKSUM)


def test_update_renames_with_a_new_checksum(base: str, storage: LocalStorage) -> None:
    props = update(storage, base, {properties.NAME: "rides"})
    assert props[properties.CHECKSUM] == properties.checksum({properties.NAME: "rides"})
    with pytest.raises(ConfigError, match="can't be removed"):
        update(storage, base, {properties.NAME: None})


def test_update_without_change_writes_nothing(base: str) -> None:
    assert update(stopping(1, False), base, {properties.PRECOMBINE_FIELD: "ts"}).precombine_field == "ts"


def test_killed_update_leaves_old_or_new(base: str, tmp_path: Path, storage: LocalStorage) -> None:
    seen = set()
    for count, after in moments():
        path = str(tmp_path / f"{count}-{after}")
        shutil.copytree(base, path)
        with contextlib.suppress(Killed):
            update(stopping(count, after), path, {properties.METADATA_PARTITIONS: None})
        found = load(storage, path, rounds=1).metadata_partitions
        seen.add(found)
        assert found in {(), ("files",)}
        assert update(storage, path, {properties.METADATA_PARTITIONS: None}).metadata_partitions == ()
        assert not storage.exists(properties.backup_path(path))
    assert seen == {(), ("files",)}


def test_update_removes_a_stale_crc(base: str, storage: LocalStorage) -> None:
    crc = Path(base, ".hoodie", ".hoodie.properties.crc")
    crc.write_bytes(b"crc")
    update(storage, base, {"hoodie.x": "1"})
    assert not crc.exists()


def test_update_during_another_update(base: str, storage: LocalStorage) -> None:
    class Racing(LocalStorage):
        def create(self, path: str, data: bytes, check: Check = None) -> None:
            Path(path).write_bytes(data)
            super().create(path, data, check)

    with pytest.raises(CommitConflict, match="another writer"):
        update(Racing(), base, {"hoodie.x": "1"})
    assert "hoodie.x" not in load(storage, base)


def test_update_that_does_not_read_back(base: str, storage: LocalStorage) -> None:
    class Lossy(LocalStorage):
        def write(self, path: str, data: bytes) -> None:
            super().write(path, data[: len(data) // 2])

    with pytest.raises(TornProperties, match="did not read back"):
        update(Lossy(), base, {"hoodie.x": "1"})
    assert "hoodie.x" not in load(storage, base)
    assert recover(storage, base)
    assert storage.exists(properties.properties_path(base))


def test_state_that_hudi_leaves_between_its_steps(base: str, storage: LocalStorage) -> None:
    """Hudi deletes the file before it writes the new one; readers go to the backup."""
    path, backup = Path(properties.properties_path(base)), Path(properties.backup_path(base))
    path.rename(backup)
    assert load(storage, base, rounds=1).name == "trips"
    path.write_bytes(backup.read_bytes()[:90])
    assert load(storage, base, rounds=1).name == "trips"
    assert recover(storage, base)
    assert not backup.exists()
    assert load(storage, base, rounds=1).name == "trips"
    assert not recover(storage, base)


def _cut_in_half(data: bytes) -> bytes:
    return data[: len(data) // 2]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda data: b"", "hoodie.table.name is missing"),
        (_cut_in_half, "is missing"),
        (lambda data: data.replace(b"=trips", b"=trps"), "its names give"),
        (lambda data: data.replace(b"hoodie.table.version=6\n", b""), "version is missing"),
        (lambda data: data.replace(b"COPY_ON_WRITE", b"COPY"), "'COPY' is neither"),
        (lambda data: data.replace(b"version=6", b"version=six"), "is no number"),
        (lambda data: data + b"x=\\u1", "uXXXX"),
    ],
)
def test_torn(base: str, storage: LocalStorage, damage: Callable[[bytes], bytes], problem: str) -> None:
    path = Path(properties.properties_path(base))
    path.write_bytes(damage(path.read_bytes()))
    naps: list[float] = []
    with pytest.raises(TornProperties, match=problem) as caught:
        load(storage, base, rounds=3, pause_s=0.5, sleep=naps.append)
    assert str(path) in str(caught.value)
    assert "restore" in str(caught.value)
    assert naps == [0.5, 0.5]


def test_every_cut_is_torn_or_whole(base: str, storage: LocalStorage) -> None:
    path = Path(properties.properties_path(base))
    data, props = path.read_bytes(), load(storage, base)
    for length in range(len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(TornProperties):
            load(storage, base, rounds=1)
    path.write_bytes(data[:-1])
    assert load(storage, base) == props


def test_load_waits_for_another_writer(base: str, storage: LocalStorage) -> None:
    path = Path(properties.properties_path(base))
    data = path.read_bytes()
    path.write_bytes(data[:50])

    def finish(_: float) -> None:
        path.write_bytes(data)

    assert load(storage, base, sleep=finish).name == "trips"


def test_both_torn(base: str, storage: LocalStorage) -> None:
    for path in (properties.properties_path(base), properties.backup_path(base)):
        Path(path).write_bytes(b"torn")
    with pytest.raises(TornProperties, match="both unreadable"):
        recover(storage, base)
    assert storage.exists(properties.backup_path(base))


def test_newer_version(base: str, storage: LocalStorage) -> None:
    path = Path(properties.properties_path(base))
    path.write_bytes(path.read_bytes().replace(b"version=6", b"version=10"))
    with pytest.raises(UnsupportedVersion, match=r"version 10.*up to 9.*version 9") as caught:
        load(storage, base)
    assert caught.value.values["version"] == 10


def test_older_version_without_checksum(tmp_path: Path, storage: LocalStorage) -> None:
    path = tmp_path / ".hoodie" / "hoodie.properties"
    path.parent.mkdir()
    path.write_bytes(b"hoodie.table.name=old\nhoodie.table.version=3\n")
    assert load(storage, str(tmp_path)).version == 3


def test_no_table(tmp_path: Path, storage: LocalStorage) -> None:
    with pytest.raises(TableNotFound, match=r"no Hudi table: no \.hoodie folder"):
        load(storage, str(tmp_path))
    (tmp_path / ".hoodie").mkdir()
    with pytest.raises(TableNotFound, match="interrupted"):
        load(storage, str(tmp_path), pause_s=0)
