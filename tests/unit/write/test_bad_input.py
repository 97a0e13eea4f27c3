"""What can't be written or read: an error that names the value and the next step, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.config.key import keys
from hoodie.errors import (
    ConfigError,
    HoodieError,
    InputError,
    TableMismatch,
    TableNotFound,
    TornProperties,
    UnsupportedVersion,
)
from hoodie.table import properties
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.support.tiers import full_but
from tests.unit.write.support import (
    HIVE_STYLE,
    KEY,
    KEYGEN,
    OPTIONS,
    ORDERING,
    PARTITION,
    PAYLOAD,
    PLAIN,
    URL_ENCODE,
    listing,
    plain,
    values,
)

ROWS = as_table(small_rows(range(9), 1), SMALL_SCHEMA)


def _column(name: str, values: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    """ROWS with other values in one column, added where it is new."""
    cells = pa.array(values * (ROWS.num_rows // len(values)), kind or ROWS.schema.field(name).type)
    if name not in ROWS.schema.names:
        return ROWS.append_column(name, cells)
    return ROWS.set_column(ROWS.schema.get_field_index(name), name, cells)


def _first_null(name: str) -> pa.Table:
    return _column(name, [*ROWS.column(name).to_pylist()[:8], None])


def _make(path: Path) -> Path:
    names = {"hoodie.table.name": "trips", "hoodie.database.name": "db"}
    hoodie.write_table(ROWS, str(path), options={**OPTIONS, **names})
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return _make(tmp_path / "t")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table for tests that check that it stays what it is."""
    return _make(tmp_path_factory.mktemp("stored") / "t")


#: name -> (rows, options on top of OPTIONS, error, message)
REFUSED: dict[str, tuple[pa.Table, dict[str, Any], type[HoodieError], str]] = {
    "no key column": (
        ROWS.drop_columns("id"),
        {},
        InputError,
        "record key column 'id' is not in the input.*ts, region",
    ),
    "no key setting": (ROWS, {KEY: ""}, ConfigError, f"no record key: set {KEY}"),
    "unknown key column": (ROWS, {KEY: "uuid"}, InputError, "'uuid' is not in the input"),
    "no partition column": (
        ROWS,
        {PARTITION: "day"},
        InputError,
        "partition column 'day' is not in the input",
    ),
    "no ordering column": (
        ROWS,
        {ORDERING: "at"},
        InputError,
        f"ordering column 'at' is not in the input.*{ORDERING}",
    ),
    "null key": (
        _first_null("id"),
        {},
        InputError,
        r"column 'id' is null or empty in 1 row\(s\), first \{id=None, region='apac', ts=1000",
    ),
    "empty key": (_column("id", [""]), {}, InputError, r"'id' is null or empty in 9 row\(s\)"),
    "null keys of a complex key": (
        _column("id", [None]),
        {KEY: "id,name", KEYGEN: "complex"},
        InputError,
        "columns 'id', 'name' are all null or empty",
    ),
    "null ordering value": (
        _first_null("ts"),
        {},
        InputError,
        rf"ordering column 'ts' is null in 1 row\(s\), first .*id='k00008'.*{ORDERING}",
    ),
    "null nested ordering value": (
        _column("meta", [{"at": 1}, None, {"at": None}], pa.struct([("at", pa.int64())])),
        {ORDERING: "meta.at"},
        InputError,
        r"ordering column 'meta.at' is null in 6 row\(s\)",
    ),
    "key of an unusable type": (
        _column("k", [b"x"], pa.binary()),
        {KEY: "k"},
        ConfigError,
        "'k' has type binary, which can't be part of a key",
    ),
    "unknown type": (
        _column("t", [1], pa.time64("us")),
        {},
        InputError,
        "column 't' has type time64.*cast it to int64 or string",
    ),
    "unsigned long": (_column("u", [2**63], pa.uint64()), {}, InputError, "column 'u' has type uint64"),
    "only nulls": (
        _column("n", [None], pa.null()),
        {},
        InputError,
        "column 'n' has type null.*holds only nulls",
    ),
    "map with other keys": (
        _column("m", [[(1, 2)]], pa.map_(pa.int32(), pa.int32())),
        {},
        InputError,
        "column 'm' is a map with int keys",
    ),
    "duplicate columns": (
        ROWS.append_column("val", ROWS.column("val")),
        {},
        InputError,
        "column name appears twice: 'val', 'val'",
    ),
    "columns that differ in case": (
        ROWS.append_column("VAL", ROWS.column("val")),
        {},
        InputError,
        "differs in case only: 'val', 'VAL'",
    ),
    "name that Avro refuses": (
        _column("a b", [1], pa.int32()),
        {},
        InputError,
        "column name 'a b' is no Avro name",
    ),
    "reserved column": (
        _column("_hoodie_commit_time", ["x"], pa.string()),
        {},
        InputError,
        "reserved columns _hoodie_commit_time.*drop or rename",
    ),
    "delete flag of another type": (
        _column("_hoodie_is_deleted", ["yes"], pa.string()),
        {},
        InputError,
        "_hoodie_is_deleted has type string.*cast it to boolean",
    ),
    "timestamp that loses digits": (
        _column("at", [1], pa.timestamp("ns")),
        {},
        InputError,
        "column at: .* does not fit",
    ),
    "merge on read with a merger of one's own": (
        ROWS,
        {
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.payload.class": "tests.unit.write.test_merge_modes:FirstWins",
        },
        ConfigError,
        "merger of your own, which other readers",
    ),
    "several writers": (
        ROWS,
        {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"},
        ConfigError,
        "needs a lock that all writers of the table take",
    ),
    "index that is not there": (
        ROWS,
        {"hoodie.index.type": "RECORD_INDEX"},
        ConfigError,
        "RECORD_INDEX needs the record index of a metadata table",
    ),
    "another operation": (
        ROWS,
        {"hoodie.datasource.write.operation": "delete"},
        ConfigError,
        "'delete' contradicts the operation upsert",
    ),
    "two key generators": (
        ROWS,
        {KEYGEN: "simple", "hoodie.datasource.write.keygenerator.type": "COMPLEX"},
        ConfigError,
        "ask for different key generators",
    ),
    "unknown payload": (
        ROWS,
        {PAYLOAD: "org.apache.hudi.Nothing"},
        ConfigError,
        "is no payload known here; use one of",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    rows, options, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        hoodie.write_table(rows, str(tmp_path / "t"), options={**OPTIONS, **options})
    assert listing(tmp_path) == {}


#: other options contradict the table
ANYTIME = {"hoodie.write.concurrency.mode", "hoodie.index.type", "hoodie.datasource.write.operation"}


@pytest.mark.parametrize("name", [name for name, case in REFUSED.items() if set(case[1]) <= ANYTIME])
def test_refused_by_an_existing_table(stored: Path, name: str) -> None:
    rows, options, error, message = REFUSED[name]
    before = listing(stored)
    with pytest.raises(error, match=message):
        hoodie.write_table(rows, str(stored), options=options)
    assert listing(stored) == before


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_inserts_refuse_null_keys_too(tmp_path: Path, operation: str) -> None:
    with pytest.raises(InputError, match="null or empty"):
        hoodie.write_table(_first_null("id"), str(tmp_path / "t"), operation=operation, options=OPTIONS)
    assert listing(tmp_path) == {}


def test_a_null_deep_in_the_input_is_found_before_anything_is_written(tmp_path: Path) -> None:
    """Several input partitions and batches; the last row of all is bad."""
    many = plain(*[(f"k{number}", number, "x") for number in range(140_000)], (None, 1, "x"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"'id' is null or empty in 1 row\(s\)"):
        hoodie.write_table(many, str(tmp_path / "t"), options=PLAIN)
    assert listing(tmp_path) == {}


def test_all_wrong_settings_are_told_at_once(tmp_path: Path) -> None:
    options = {
        **PLAIN,
        "hoodie.parquet.max.file.siz": "1",
        "hoodie.parquet.small.file.limit": "1MB",
        "hoodie.combine.before.insert": "maybe",
        "hoodie.bulkinsert.sort.mode": "RANDOM",
        "hoodie.index.bloom.fpp": "1.5",
        "hoodie.nothing.like.this.anywhere": "x",
        "spark.executor.memory": "1g",
        "hoodie.database.name": None,
    }
    with pytest.raises(ConfigError) as caught:
        hoodie.write_table(ROWS, str(tmp_path / "t"), options=options)
    text = str(caught.value)
    for part in (
        "unknown setting 'hoodie.parquet.max.file.siz', did you mean 'hoodie.parquet.max.file.size'?",
        "hoodie.parquet.small.file.limit='1MB': expected a whole number",
        "hoodie.combine.before.insert='maybe': expected true or false",
        "hoodie.bulkinsert.sort.mode='RANDOM': expected one of GLOBAL_SORT, NONE, PARTITION_PATH_REPARTITION",
        "hoodie.index.bloom.fpp='1.5': must be between 0 and 1",
        "unknown setting 'hoodie.nothing.like.this.anywhere'",
        "unknown setting 'spark.executor.memory'",
        "hoodie.database.name has no value",
        "`hoodie config` lists every setting",
    ):
        assert part in text
    assert not (tmp_path / "t").exists()


# --- the table -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (KEY, "name"),
        (KEY, "id,region"),
        (PARTITION, "name"),
        (PARTITION, ""),
        (PARTITION, "region,name"),
        (ORDERING, "val"),
        (KEYGEN, "org.apache.hudi.keygen.ComplexKeyGenerator"),
        ("hoodie.datasource.write.keygenerator.type", "TIMESTAMP"),
        (PAYLOAD, "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"),
        ("hoodie.record.merge.mode", "COMMIT_TIME_ORDERING"),
        (HIVE_STYLE, True),
        (URL_ENCODE, "true"),
        ("hoodie.datasource.write.table.type", "MERGE_ON_READ"),
        ("hoodie.table.name", "other"),
        ("hoodie.database.name", "other"),
        ("hoodie.table.timeline.timezone", "UTC"),
        # names of properties
        ("hoodie.table.recordkey.fields", "name"),
        ("hoodie.table.partition.fields", "name"),
        ("hoodie.table.precombine.field", "val"),
        ("hoodie.table.keygenerator.class", "org.apache.hudi.keygen.CustomKeyGenerator"),
        ("hoodie.table.version", "8"),
        ("hoodie.populate.meta.fields", False),
        ("hoodie.datasource.write.drop.partition.columns", True),
        ("hoodie.table.cdc.enabled", True),
        ("hoodie.table.base.file.format", "ORC"),
    ],
)
def test_options_that_contradict_the_table(stored: Path, option: str, value: Any) -> None:
    before = listing(stored)
    with pytest.raises(TableMismatch, match=r"options contradict table 'trips': .*Leave them out") as caught:
        hoodie.write_table(ROWS, str(stored), options={option: value})
    text = str(value).lower() if isinstance(value, bool) else str(value)
    name = keys()[option].name if option in keys() else option
    assert f"{name}={text!r}, the table has " in str(caught.value)
    assert listing(stored) == before


def test_time_settings_that_contradict_the_table(tmp_path: Path) -> None:
    timed = "hoodie.keygen.timebased."
    options = {
        **OPTIONS,
        PARTITION: "ts",
        KEYGEN: "timestamp",
        f"{timed}timestamp.type": "UNIX_TIMESTAMP",
        f"{timed}output.dateformat": "yyyy-MM",
    }
    hoodie.write_table(ROWS, str(tmp_path / "t"), options=options)
    hoodie.write_table(ROWS, str(tmp_path / "t"), options={f"{timed}output.dateformat": "yyyy-MM"})
    before = listing(tmp_path)
    with pytest.raises(TableMismatch, match=r"output\.dateformat='yyyy', the table has 'yyyy-MM'"):
        hoodie.write_table(ROWS, str(tmp_path / "t"), options={f"{timed}output.dateformat": "yyyy"})
    assert listing(tmp_path) == before


def test_every_contradiction_is_told_at_once(stored: Path) -> None:
    with pytest.raises(TableMismatch) as caught:
        hoodie.write_table(ROWS, str(stored), options={KEY: "name", ORDERING: "val", HIVE_STYLE: True})
    assert all(name in str(caught.value) for name in (KEY, ORDERING, HIVE_STYLE))


def test_the_tables_own_values_may_be_repeated(table: Path) -> None:
    options = {
        **OPTIONS,
        KEYGEN: "simple",
        "hoodie.datasource.write.keygenerator.type": "SIMPLE",
        "hoodie.table.name": "trips",
        "hoodie.database.name": "db",
        "hoodie.table.type": "copy_on_write",
        URL_ENCODE: "False",
        "hoodie.table.recordkey.fields": "id",
    }
    assert hoodie.write_table(ROWS, str(table), options=options).num_updates == 9


def _properties(table: Path, change: Callable[[str], str]) -> None:
    path = table / ".hoodie" / "hoodie.properties"
    path.write_text(change(path.read_text()))


@pytest.mark.table_version(6)
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda text: text[: len(text) // 2],
            TornProperties,
            "no whole hoodie.properties .*restore the file",
        ),
        (lambda text: "", TornProperties, "hoodie.table.name is missing"),
        (
            lambda text: text.replace("name=trips", "name=other"),
            TornProperties,
            "hoodie.table.checksum=.* but",
        ),
        (
            lambda text: text.replace("table.version=6", "table.version=10"),
            UnsupportedVersion,
            "has table version 10; this package reads versions up to 9",
        ),
    ],
)
def test_torn_or_newer_properties(
    table: Path,
    change: Callable[[str], str],
    error: type[HoodieError],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(properties.load.__kwdefaults__ or {}, "pause_s", 0.001)
    _properties(table, change)
    before = listing(table)
    with pytest.raises(error, match=message):
        hoodie.write_table(ROWS, str(table))
    reads: list[Callable[[str], Any]] = [hoodie.read_table, hoodie.file_groups, hoodie.instants]
    for read in reads:
        with pytest.raises(error, match=message):
            read(str(table))
    assert listing(table) == before


@pytest.mark.parametrize("read", [hoodie.read_table, hoodie.instants, hoodie.file_groups])
def test_reading_a_path_that_is_no_table(tmp_path: Path, read: Callable[[str], Any]) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(TableNotFound, match=f"{path} is no Hudi table.*check the path"):
            read(str(path))
    assert sorted(listing(tmp_path)) == ["file"]


def test_writing_to_a_folder_that_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,b\n")
    before = listing(tmp_path)
    with pytest.raises(
        TableNotFound, match=r"holds 'data.csv' and is no Hudi table; write to an empty or new folder"
    ):
        hoodie.write_table(ROWS, str(tmp_path), options=OPTIONS)
    with pytest.raises(TableNotFound, match=r"data.csv is a file; a table is a folder"):
        hoodie.write_table(ROWS, str(tmp_path / "data.csv"), options=OPTIONS)
    with pytest.raises(ConfigError, match="no storage for scheme 'ftp'"):
        hoodie.write_table(ROWS, "ftp://bucket/t", options=OPTIONS)
    assert listing(tmp_path) == before


def test_an_empty_folder_and_a_half_made_table_become_tables(tmp_path: Path) -> None:
    for name in ("empty", "half"):
        (tmp_path / name).mkdir()
    (tmp_path / "half" / ".hoodie" / ".aux").mkdir(parents=True)
    for name in ("empty", "half"):
        hoodie.write_table(ROWS, str(tmp_path / name), options=OPTIONS)
        assert hoodie.read_table(str(tmp_path / name)).num_rows == 9


def test_extra_metadata_must_be_text_and_not_the_writers_own(table: Path) -> None:
    before = listing(table)
    with pytest.raises(ConfigError, match="extra metadata 'schema' is the writer's own"):
        hoodie.write_table(ROWS, str(table), extra_metadata={"schema": "x"})
    with pytest.raises(ConfigError, match="extra metadata 'run': 7: names and values must be texts"):
        hoodie.write_table(ROWS, str(table), extra_metadata={"run": 7})  # type: ignore[dict-item]
    assert listing(table) == before


# --- no rows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", full_but({"upsert"}, ["upsert", "insert", "bulk_insert"]))
def test_an_empty_source_makes_a_commit_without_files(table: Path, operation: str) -> None:
    before = hoodie.read_table(str(table))
    result = hoodie.write_table(
        ROWS.slice(0, 0), str(table), operation=operation, extra_metadata={"run": "1"}
    )
    assert (result.status, result.num_files, result.num_writes, result.partitions) == ("committed", 0, 0, [])
    newest = hoodie.instants(str(table))[-1]
    assert (newest["instant"], newest["state"], newest["files"]) == (result.instant, "completed", 0)
    assert hoodie.read_table(str(table)) == before
    assert hoodie.write_table(as_table(small_rows(range(20), 2), SMALL_SCHEMA), str(table)).num_updates == 9


def test_an_empty_source_may_be_the_first_commit(tmp_path: Path) -> None:
    hoodie.write_table(ROWS.slice(0, 0), str(tmp_path / "t"), options=OPTIONS)
    empty = hoodie.read_table(str(tmp_path / "t"))
    assert (empty.num_rows, empty.schema.names[5:]) == (0, SMALL_SCHEMA.names)
    wrong = ROWS.set_column(3, "val", ROWS.column("name"))
    with pytest.raises(InputError, match="can't become the table's"):
        hoodie.write_table(wrong.drop_columns("ts"), str(tmp_path / "t"))
    hoodie.write_table(ROWS, str(tmp_path / "t"))
    assert values(tmp_path / "t", "id") == ROWS.column("id").to_pylist()


def test_sources_without_batches(tmp_path: Path) -> None:
    import pyarrow.dataset as ds

    for name, source in {
        "reader": pa.RecordBatchReader.from_batches(SMALL_SCHEMA, []),
        "table": SMALL_SCHEMA.empty_table(),
        "no chunks": pa.Table.from_batches([], SMALL_SCHEMA),
        "dataset": ds.dataset(SMALL_SCHEMA.empty_table()),
    }.items():
        assert hoodie.write_table(source, str(tmp_path / name), options=OPTIONS).num_files == 0
        assert hoodie.read_table(str(tmp_path / name)).num_rows == 0


# --- warnings --------------------------------------------------------------------------------------------


def test_settings_without_effect_give_one_warning(tmp_path: Path) -> None:
    idle = {
        "hoodie.embed.timeline.server": "false",
        "hoodie.bootstrap.data.queries.only": "false",
        "hoodie.metrics.jmx.port": "9889",
    }
    for _ in ("new", "existing"):
        result = hoodie.write_table(ROWS, str(tmp_path / "t"), options={**OPTIONS, **idle})
        (warning,) = result.warnings
        assert warning.startswith("known to Apache Hudi but without effect here: ")
        assert all(name in warning for name in idle)
