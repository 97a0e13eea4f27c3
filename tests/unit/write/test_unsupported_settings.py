"""Settings that change rows, files or the table itself are obeyed or refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

import hoodie
from hoodie.config.key import hudi_settings, keys
from hoodie.errors import ConfigError, HoodieError, TableMismatch
from hoodie.storage import storage_for
from hoodie.table import properties
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.unit.write.support import OPTIONS, listing

ROWS = as_table(small_rows(range(4), 1), SMALL_SCHEMA)
#: (setting, value that a new table can't have, value that it has)
MAKES_TABLES = [
    ("hoodie.populate.meta.fields", "false", "true"),
    ("hoodie.datasource.write.drop.partition.columns", True, False),
    ("hoodie.table.base.file.format", "ORC", "parquet"),
    ("hoodie.base.file.format", "HFILE", "PARQUET"),
    ("hoodie.table.log.file.format", "HFILE_LOG", "HOODIE_LOG"),
    ("hoodie.table.version", "7", "6"),
    ("hoodie.write.table.version", 7, 6),
    ("hoodie.timeline.layout.version", "2", "1"),
    ("hoodie.partition.metafile.use.base.format", "true", "false"),
    ("hoodie.bootstrap.base.path", "/source", ""),
    ("hoodie.table.create.schema", '{"type":"record","name":"r","fields":[]}', ""),
    ("hoodie.compaction.record.merger.strategy", "00000000-0000-0000-0000-000000000000",
     "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"),
    ("hoodie.table.metadata.partitions", "files", ""),
]  # fmt: skip


LAYOUTS = {6: "1", 8: "2", 9: "2"}


@pytest.mark.parametrize("version", LAYOUTS)
def test_what_follows_from_the_version_may_be_said_beside_it(tmp_path: Path, version: int) -> None:
    own = {
        "hoodie.write.table.version": version,
        "hoodie.timeline.layout.version": LAYOUTS[version],
        "hoodie.table.initial.version": version,
    }
    for _ in ("new", "existing"):
        assert hoodie.write_table(ROWS, str(tmp_path / "t"), options={**OPTIONS, **own}).warnings == []
    other = {"hoodie.timeline.layout.version": "1" if version > 6 else "2", "hoodie.table.initial.version": 7}
    for name, value in other.items():
        with pytest.raises(ConfigError, match=f"a new table can't be made with {name}="):
            hoodie.write_table(ROWS, str(tmp_path / "other"), options={**OPTIONS, **own, name: value})


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made, and written again, with all of these settings as a new table has them."""
    path = tmp_path_factory.mktemp("made") / "t"
    options = {**OPTIONS, **{name: ours for name, _, ours in MAKES_TABLES}}
    for _ in ("new", "existing"):
        assert hoodie.write_table(ROWS, str(path), options=options).warnings == []
    return path


@pytest.mark.table_version(6)
@pytest.mark.parametrize(("name", "other"), [case[:2] for case in MAKES_TABLES])
def test_settings_that_make_a_table(tmp_path: Path, table: Path, name: str, other: object) -> None:
    new = tmp_path / "new"
    known = keys()[name].name if name in keys() else name
    with pytest.raises(ConfigError, match=f"a new table can't be made with {known}="):
        hoodie.write_table(ROWS, str(new), options={**OPTIONS, name: other})
    assert not new.exists()
    before = listing(table)
    with pytest.raises(TableMismatch, match=f"options contradict table 't': {known}="):
        hoodie.write_table(ROWS, str(table), options={**OPTIONS, name: other})
    with pytest.raises(TableMismatch, match=known):
        hoodie.clean_table(str(table), options={name: other})
    assert listing(table) == before


def test_a_setting_is_accepted_where_a_table_of_apache_hudi_has_it(tmp_path: Path) -> None:
    table, dropped = tmp_path / "t", "hoodie.datasource.write.drop.partition.columns"
    hoodie.write_table(ROWS, str(table), options=OPTIONS)
    properties.update(storage_for(str(table)), str(table), {dropped: "true"})
    hoodie.clean_table(str(table), options={dropped: True})
    with pytest.raises(ConfigError, match=r"drop.partition.columns=true, which is not written"):
        hoodie.write_table(ROWS, str(table), options={dropped: True})
    with pytest.raises(TableMismatch, match="the table has 'true'"):
        hoodie.clean_table(str(table), options={dropped: False})


@pytest.mark.parametrize("version", [6, 9])
def test_names_of_the_tables_properties_mean_the_settings(tmp_path: Path, version: int) -> None:
    options = {
        "hoodie.table.version": version,
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "region",
        "hoodie.table.precombine.field": "ts",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
        "hoodie.datasource.write.storage.type": "MERGE_ON_READ",
        "hoodie.archivelog.folder": "old",
    }
    table = tmp_path / "t"
    for _ in ("new", "existing"):
        assert hoodie.write_table(ROWS, str(table), options=options).warnings == []
    made = properties.load(storage_for(str(table)), str(table))
    assert (made.record_key_fields, made.partition_fields, made.precombine_field) == (
        ("id",),
        ("region",),
        "ts",
    )
    assert (made.table_type.value, made.archive_folder) == ("MERGE_ON_READ", "old")
    assert (table / ".hoodie" / "old").is_dir() is (version == 6), "versions 8 and 9 read another property"
    for folder in ("../out", "metadata", "", "a/b"):
        with pytest.raises(HoodieError, match="archivelog"):
            hoodie.write_table(ROWS, str(tmp_path / "n"), options={"hoodie.archivelog.folder": folder})


#: (setting, value that is refused, what the message says)
REFUSED = [
    ("hoodie.allow.operation.metadata.field", "true", "don't keep the operation"),
    ("hoodie.allow.empty.commit", False, "skip the write"),
    ("hoodie.datasource.write.reconcile.schema", True, "hoodie.write.set.null.for.missing.columns"),
    ("hoodie.datasource.write.record.merger.impls", "org.example.Mine", "hoodie.record.merge.mode"),
    ("hoodie.write.schema", "{}", "cast"),
    ("hoodie.clean.partition.filter.selected", "eu", "all partitions are cleaned"),
    ("hoodie.cleaner.policy.failed.writes", "NEVER", "rolls back"),
    ("hoodie.errortable.enable", "true", "filter"),
    ("hoodie.datasource.hive_sync.create_managed_table", "true", "external tables"),
    ("hoodie.parquet.write.config.injector.class", "org.example.Encrypts", "encrypt"),
    ("hoodie.write.rolling.metadata.keys", "checkpoint", "no metadata of earlier ones"),
]


@pytest.mark.parametrize(("name", "value", "instead"), REFUSED)
def test_what_cannot_be_ignored_is_refused(tmp_path: Path, name: str, value: object, instead: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}=.* is not supported: .*{instead}"):
        hoodie.write_table(ROWS, str(tmp_path / "t"), options={**OPTIONS, name: value})
    assert not (tmp_path / "t").exists()


def test_their_defaults_may_be_given(tmp_path: Path) -> None:
    defaults = {name: hudi_settings()[name].default for name, *_ in REFUSED}
    assert hoodie.write_table(ROWS, str(tmp_path / "t"), options={**OPTIONS, **defaults}).warnings == []


@pytest.mark.parametrize("mode", ["upsert", "strict"])
def test_the_old_mode_of_insert_into_is_refused(tmp_path: Path, mode: str) -> None:
    """Rows depend on it in Apache Hudi, where it is given."""
    name, table = "hoodie.sql.insert.mode", str(tmp_path / "t")
    hoodie.write_table(ROWS, table, options=OPTIONS)
    before, text = listing(tmp_path / "t"), "INSERT INTO t SELECT * FROM s"
    with pytest.raises(ConfigError, match=f"{name}='{mode}' is not supported: .*insert.into.operation"):
        hoodie.sql(text, tables={"t": table, "s": ROWS}, options={name: mode})
    assert listing(tmp_path / "t") == before
    done = hoodie.sql(text, tables={"t": table, "s": ROWS}, options={name: "non-strict"})
    assert done.warnings == []
    assert hoodie.read_table(table).num_rows == 2 * ROWS.num_rows


def test_a_query_is_not_another_one_than_its_options_ask_for(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    hoodie.write_table(ROWS, table, options=OPTIONS)
    for name, value in (
        ("hoodie.datasource.query.type", "incremental"),
        ("hoodie.datasource.read.begin.instanttime", "000"),
        ("hoodie.datasource.merge.type", "skip_merge"),
    ):
        with pytest.raises(ConfigError, match=name):
            hoodie.read_table(table, options={name: value})
    assert hoodie.read_table(table, options={"hoodie.datasource.query.type": "snapshot"}).num_rows == 4


def test_the_name_of_the_operation_is_no_warning(tmp_path: Path) -> None:
    name, table = "hoodie.datasource.write.operation", str(tmp_path / "t")
    for operation in ("upsert", "insert", "delete"):
        options = {**OPTIONS, name: operation}
        assert hoodie.write_table(ROWS, table, operation=operation, options=options).warnings == []
    with pytest.raises(ConfigError, match="contradicts the operation upsert"):
        hoodie.write_table(ROWS, table, options={**OPTIONS, name: "insert"})
