"""Record keys and partition paths from values: texts, errors, the choice of a key generator."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.config.key import Config
from hoodie.errors import ConfigError, InputError
from hoodie.keygen import key_generator
from hoodie.keygen._text import escape
from tests.support.arrow import arrow_schema

KEY = "hoodie.datasource.write.recordkey.field"
PATH = "hoodie.datasource.write.partitionpath.field"
CLASS = "hoodie.datasource.write.keygenerator.class"
TYPE = "hoodie.datasource.write.keygenerator.type"
HIVE = "hoodie.datasource.write.hive_style_partitioning"
ENCODE = "hoodie.datasource.write.partitionpath.urlencode"
CONSISTENT = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
TIMED = "hoodie.keygen.timebased."
EVERY_DEFAULT = "__HIVE_DEFAULT_PARTITION__"


def make(rows: pa.Table, key: str = "k", path: str = "", **more: str) -> Any:
    return key_generator(Config.of({KEY: key, PATH: path, **more}), rows.schema)


def keys(rows: pa.Table, key: str = "k", path: str = "", more: dict[str, str] | None = None) -> list[str]:
    texts: list[str] = make(rows, key, path, **(more or {})).record_keys(rows).to_pylist()
    return texts


def paths(rows: pa.Table, path: str, more: dict[str, str] | None = None, key: str = "k") -> list[str]:
    texts: list[str] = make(rows, key, path, **(more or {})).partition_paths(rows).to_pylist()
    return texts


MOMENT = dt.datetime(2024, 1, 1, 12, 0, 0, 123456, tzinfo=dt.timezone.utc)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array(["a", "é b"]), ["a", "é b"]),
        (pa.array(["a"], pa.large_string()), ["a"]),
        (pa.array(["a"], pa.string_view()), ["a"]),
        (pa.array(["b", "a", "b"]).dictionary_encode(), ["b", "a", "b"]),
        (pa.array([7, -3], pa.int8()), ["7", "-3"]),
        (pa.array([2**63 - 1, -(2**63)]), ["9223372036854775807", "-9223372036854775808"]),
        (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([1.5, 1e10, 100.0, -0.0, 1e-4]), ["1.5", "1.0E10", "100.0", "-0.0", "1.0E-4"]),
        (pa.array([1.1], pa.float32()), ["1.1"]),
        (pa.array([Decimal("1.50"), Decimal("-0.01")]), ["1.50", "-0.01"]),
        (pa.array([Decimal("0E-8"), Decimal("0.0000001")], pa.decimal128(20, 8)), ["0E-8", "1.0E-7"]),
        (pa.array([dt.date(2024, 2, 29), dt.date(1, 1, 1)]), ["2024-02-29", "0001-01-01"]),
        (pa.array([MOMENT], pa.timestamp("us", "UTC")), ["1704110400123456"]),
        (pa.array([MOMENT], pa.timestamp("us", "Asia/Tokyo")), ["1704110400123456"]),
        (pa.array([1704110400123], pa.timestamp("ms")), ["1704110400123000"]),
        (pa.array([1704110400123456789], pa.timestamp("ns")), ["1704110400123456"]),
    ],
)
def test_texts_of_keys(values: pa.Array[Any], expected: list[str]) -> None:
    assert keys(pa.table({"k": values})) == expected


def test_consistent_timestamps() -> None:
    values = pa.array([MOMENT, MOMENT.replace(microsecond=0), dt.datetime(1969, 12, 31, 23, 59, 59, 999_500)])
    rows = pa.table({"k": values.cast(pa.timestamp("us", "UTC"))})
    expected = ["2024-01-01 12:00:00.123", "2024-01-01 12:00:00.0", "1970-01-01 00:00:00.0"]
    assert keys(rows, more={CONSISTENT: "true"}) == expected
    assert paths(rows, "k", {CONSISTENT: "true"}) == expected


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=5), min_size=1))
def test_partition_values_any_text(values: list[str]) -> None:
    rows = pa.table({"k": ["x"] * len(values), "p": [*values]})
    made = paths(rows, "p", {HIVE: "true", ENCODE: "true"})
    assert made == [f"p={escape(value or EVERY_DEFAULT)}" for value in values]


def test_escaping() -> None:
    assert escape("a/b=c d:%\"#'*?\\{[]^\x00\x1f\x7f") == (
        "a%2Fb%3Dc d%3A%25%22%23%27%2A%3F%5C%7B%5B%5D%5E%00%1F%7F"
    )
    assert escape("a}+&;,~é€") == "a}+&;,~é€"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ["a/b", EVERY_DEFAULT, EVERY_DEFAULT, "ü x"]),
        ({HIVE: "true"}, ["p=a/b", f"p={EVERY_DEFAULT}", f"p={EVERY_DEFAULT}", "p=ü x"]),
        ({ENCODE: "true"}, ["a%2Fb", EVERY_DEFAULT, EVERY_DEFAULT, "ü x"]),
    ],
)
def test_partition_values(more: dict[str, str], expected: list[str]) -> None:
    rows = pa.table({"k": [1, 2, 3, 4], "p": ["a/b", None, "", "ü x"]})
    made = make(rows, "k", "p", **more)
    assert made.partition_paths(rows).to_pylist() == expected
    codes = made.partition_codes(rows)
    assert codes.to_pylist() == expected
    assert sorted(codes.dictionary.to_pylist()) == sorted(set(expected))


@pytest.mark.parametrize("value", ["..", "a/../b", "/a", "a//b", "a/", ".", ".hoodie", "a\0b"])
def test_partition_value_that_leaves_the_table(value: str) -> None:
    rows = pa.table({"k": [1, 2], "p": ["fine", value]})
    with pytest.raises(InputError, match="no folder inside the table") as caught:
        paths(rows, "p")
    assert caught.value.values["value"] == value
    assert "k=2" not in str(caught.value.values["column"])
    assert repr(value) in str(caught.value)


def test_several_partition_fields() -> None:
    rows = pa.table({"k": [1, 2, 3, 1], "a": ["x", None, "y", "x"], "b": [1, 2, None, 1]})
    assert paths(rows, "a,b") == ["x/1", f"{EVERY_DEFAULT}/2", f"y/{EVERY_DEFAULT}", "x/1"]
    assert paths(rows, "a,b", {HIVE: "true"})[1] == f"a={EVERY_DEFAULT}/b=2"
    assert make(rows, "k", "a,b").key_columns == ("k", "a", "b")


def test_complex_keys() -> None:
    rows = pa.table({"a": ["x", None, ""], "b": [1, 2, 3], "p": ["q"] * 3})
    expected = ["a:x,b:1", "a:__null__,b:2", "a:__empty__,b:3"]
    assert keys(rows, "a,b", "p") == expected
    assert keys(rows, "a,b") == expected  # nonpartitioned
    assert keys(rows, "b", "p", {TYPE: "COMPLEX"}) == ["1", "2", "3"]


def test_nested_fields() -> None:
    inner = pa.array([{"b": {"c": "x"}}, {"b": {"c": "y"}}])
    rows = pa.table({"a": inner, "p": [1, 2]})
    made = make(rows, "a.b.c", "p")
    assert made.record_keys(rows).to_pylist() == ["x", "y"]
    assert made.key_columns == ("a", "p")
    rows = pa.table({"a": pa.array([{"b": "x"}, None, {"b": None}]), "k": [1, 2, 3]})
    assert paths(rows, "a.b") == ["x", EVERY_DEFAULT, EVERY_DEFAULT]
    with pytest.raises(InputError, match=r"'a\.b' is null or empty in 2 row"):
        keys(rows, "a.b")
    with pytest.raises(InputError, match=r"'a\.x' is not in the input"):
        keys(rows, "a.x")


@pytest.mark.parametrize("bad", [None, ""])
def test_missing_simple_key(bad: str | None) -> None:
    rows = pa.table({"k": ["a", bad, bad], "other": [10, 20, 30]})
    with pytest.raises(InputError, match="'k' is null or empty in 2 row") as caught:
        keys(rows)
    assert caught.value.values["column"] == "k"
    assert "other=20" in caught.value.values["row"]


def test_missing_complex_key() -> None:
    rows = pa.table({"a": ["x", None], "b": ["", ""], "c": [1, 2]})
    with pytest.raises(InputError, match="'a', 'b' are all null or empty in 1 row") as caught:
        keys(rows, "a,b")
    assert "c=2" in caught.value.values["row"]


def test_all_null_columns() -> None:
    rows = pa.table({"k": pa.nulls(2), "p": pa.nulls(2), "i": [1, 2]})
    assert paths(rows, "p", key="i") == [EVERY_DEFAULT] * 2
    with pytest.raises(InputError, match="'k' is null or empty in 2 row"):
        keys(rows)


def test_missing_columns() -> None:
    rows = pa.table({"k": [1]})
    with pytest.raises(InputError, match="record key column 'id' is not in the input; its columns are k"):
        keys(rows, "id")
    with pytest.raises(InputError, match="partition column 'p' is not in the input"):
        paths(rows, "p")


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.list_(pa.int32()), pa.struct([("a", pa.int8())]), pa.time32("s")]
)
def test_types_without_text(kind: pa.DataType) -> None:
    rows = pa.table({"k": pa.array([None], kind), "i": [1]})
    with pytest.raises(ConfigError, match="can't be part of a key"):
        keys(rows)
    with pytest.raises(ConfigError, match="can't be part of a key"):
        paths(rows, "k", key="i")


SCHEMA = arrow_schema([("k", pa.string()), ("p", pa.string()), ("t", pa.int64())])


@pytest.mark.parametrize(
    ("options", "java"),
    [
        ({KEY: "k"}, "NonpartitionedKeyGenerator"),
        ({KEY: "k", PATH: "p"}, "SimpleKeyGenerator"),
        ({KEY: "k,t", PATH: "p"}, "ComplexKeyGenerator"),
        ({KEY: "k", PATH: "p,t"}, "ComplexKeyGenerator"),
        (
            {KEY: "k", PATH: "p", CLASS: "org.apache.hudi.keygen.ComplexAvroKeyGenerator"},
            "ComplexKeyGenerator",
        ),
        ({KEY: "k", TYPE: "NON_PARTITION"}, "NonpartitionedKeyGenerator"),
        ({KEY: "k", PATH: "p:simple", CLASS: "custom"}, "CustomKeyGenerator"),
        (
            {KEY: "k", CLASS: "org.apache.hudi.keygen.CustomKeyGenerator", TYPE: "custom"},
            "CustomKeyGenerator",
        ),
    ],
)
def test_choice(options: dict[str, str], java: str) -> None:
    made = key_generator(Config.of(options), SCHEMA)
    assert made.java_class == f"org.apache.hudi.keygen.{java}"
    assert made.persisted()["hoodie.table.keygenerator.class"] == made.java_class


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({PATH: "p"}, "no record key"),
        (
            {KEY: "k", CLASS: "com.example.Mine"},
            "'com.example.Mine' is no key generator known here; use one of org",
        ),
        ({KEY: "k", PATH: "p", CLASS: "simple", TYPE: "COMPLEX"}, "ask for different key generators"),
        ({KEY: "k,t", PATH: "p", CLASS: "simple"}, "takes one record key field"),
        ({KEY: "k", CLASS: "simple"}, "takes one record key field"),
        ({KEY: "k", PATH: "p", CLASS: "nonpartitioned"}, "leave it empty"),
        ({KEY: "k", PATH: "p", CLASS: "custom"}, "p:SIMPLE or p:TIMESTAMP"),
        ({KEY: "k", PATH: "t", TYPE: "TIMESTAMP"}, r"needs hoodie\.keygen\.timebased\.timestamp\.type"),
    ],
)
def test_settings_that_do_not_fit(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        key_generator(Config.of(options), SCHEMA)


TIMESTAMP = {
    TYPE: "TIMESTAMP",
    f"{TIMED}timestamp.type": "EPOCHMILLISECONDS",
    f"{TIMED}output.dateformat": "yyyy/MM",
}


@pytest.mark.parametrize(
    ("change", "column", "message"),
    [
        ({f"{TIMED}output.dateformat": "yyyy/QQ"}, "t", "pattern letter 'QQ'"),
        ({f"{TIMED}output.dateformat": "yyyy G"}, "t", "pattern letter 'G'"),
        ({f"{TIMED}timezone": "Mars/Olympus"}, "t", "unknown time zone 'Mars/Olympus'"),
        ({}, "p", "DATE_STRING or MIXED"),
        ({f"{TIMED}timestamp.type": "DATE_STRING"}, "t", "a type that counts a unit"),
        ({f"{TIMED}timestamp.type": "DATE_STRING"}, "p", r"input\.dateformat"),
        (
            {f"{TIMED}timestamp.type": "MIXED", f"{TIMED}input.dateformat": "yyyy w"},
            "p",
            "in an input format",
        ),
    ],
)
def test_timestamp_settings_that_do_not_fit(change: dict[str, str], column: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        key_generator(Config.of({KEY: "k", PATH: column, **TIMESTAMP, **change}), SCHEMA)


def test_microseconds_and_old_setting_names() -> None:
    rows = pa.table({"k": [1, 2], "t": pa.array([MOMENT, None], pa.timestamp("us", "UTC"))})
    old = "hoodie.deltastreamer.keygen.timebased."
    more = {
        TYPE: "timestamp",
        f"{old}timestamp.type": "EPOCHMICROSECONDS",
        f"{old}output.dateformat": "yyyy-MM-dd",
    }
    assert paths(rows, "t", more) == ["2024-01-01", "1970-01-01"]
    more |= {TYPE: "CUSTOM"}
    assert paths(rows, "k:SIMPLE,t:TIMESTAMP", more) == ["1/2024-01-01", "2/1970-01-01"]
    entries = make(rows, "k", "k:SIMPLE,t:TIMESTAMP", **more).persisted()
    assert entries["hoodie.table.partition.fields"] == "k,t"
    assert entries[f"{TIMED}output.dateformat"] == "yyyy-MM-dd"
    more[f"{old}timestamp.type"] = "EPOCHMILLISECONDS"
    assert paths(rows, "k:SIMPLE,t:TIMESTAMP", more)[0].startswith("1/55971-")


@pytest.mark.parametrize(
    ("unit", "number", "expected"),
    [
        ("UNIX_TIMESTAMP", 2**63 - 1, "292278994-08-17"),
        ("UNIX_TIMESTAMP", 2**62, "292278994-08-17"),
        ("SCALAR", 2**62, "292278994-08-17"),
        ("SCALAR", -(2**63), "-292275055-05-17"),
    ],
)
def test_seconds_and_days_beyond_all_times_are_held(unit: str, number: int, expected: str) -> None:
    rows = pa.table({"k": [1], "t": pa.array([number], pa.int64())})
    more = {
        **TIMESTAMP,
        f"{TIMED}timestamp.type": unit,
        f"{TIMED}timestamp.scalar.time.unit": "DAYS",
        f"{TIMED}output.dateformat": "yyyy-MM-dd",
    }
    assert paths(rows, "t", more) == [expected]


def test_timestamp_partition_of_consistent_column() -> None:
    rows = pa.table({"k": [1], "t": pa.array([MOMENT], pa.timestamp("us", "UTC"))})
    more = {**TIMESTAMP, CONSISTENT: "true", f"{TIMED}output.dateformat": "yyyy-MM-dd HH"}
    assert paths(rows, "t", more) == ["2024-01-01 12"]


@pytest.mark.parametrize(
    ("zone", "text", "expected"),
    [
        ("America/New_York", "2024-11-03 01:30:00", "05:30"),
        ("Europe/Paris", "2024-10-27 02:30:00", "00:30"),
        ("Australia/Lord_Howe", "2024-04-07 01:45:00", "14:45"),
    ],
)
def test_of_two_instants_with_one_local_time_the_earlier(zone: str, text: str, expected: str) -> None:
    rows = pa.table({"k": [1], "t": [text]})
    more = {
        TYPE: "TIMESTAMP",
        f"{TIMED}timestamp.type": "DATE_STRING",
        f"{TIMED}input.dateformat": "yyyy-MM-dd HH:mm:ss",
        f"{TIMED}input.timezone": zone,
        f"{TIMED}output.timezone": "UTC",
        f"{TIMED}output.dateformat": "HH:mm",
    }
    assert paths(rows, "t", more) == [expected]  # as Joda-Time answers
