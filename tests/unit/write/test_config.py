"""Settings: typed, checked all at once, known names without effect in one warning."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from hoodie.config.key import Config, declared
from hoodie.config.pages import default_text
from hoodie.errors import ConfigError
from hoodie.format.settings import BLOOM_FPP, COMPRESSION_CODEC, MAX_FILE_SIZE, Codec
from hoodie.keygen.settings import HIVE_STYLE, PARTITIONPATH_FIELD, RECORDKEY_FIELD
from hoodie.merge.settings import PAYLOAD_CLASS, PRECOMBINE_FIELD
from hoodie.write.settings import COMBINE_BEFORE_UPSERT, RECORD_SIZE_THRESHOLD, SMALL_FILE_LIMIT


def test_defaults() -> None:
    config = Config.of({})
    assert config[MAX_FILE_SIZE] == 125829120
    assert config[SMALL_FILE_LIMIT] == 104857600
    assert config[COMBINE_BEFORE_UPSERT] is True
    assert config[COMPRESSION_CODEC] is Codec.ZSTD
    assert config[RECORDKEY_FIELD] == ()
    assert config[PRECOMBINE_FIELD] is None
    assert not config.given(MAX_FILE_SIZE)


@pytest.mark.parametrize(
    ("key", "raw", "value"),
    [
        (MAX_FILE_SIZE, 5, 5),
        (MAX_FILE_SIZE, " 5 ", 5),
        (HIVE_STYLE, True, True),
        (HIVE_STYLE, "TRUE", True),
        (HIVE_STYLE, "false", False),
        (BLOOM_FPP, "1e-3", 0.001),
        (RECORD_SIZE_THRESHOLD, 0, 0.0),
        (COMPRESSION_CODEC, "GZIP", Codec.GZIP),
        (RECORDKEY_FIELD, "a, b ,,c", ("a", "b", "c")),
        (RECORDKEY_FIELD, ["a", "b"], ("a", "b")),
        (PARTITIONPATH_FIELD, "", ()),
        (PRECOMBINE_FIELD, " ts ", "ts"),
    ],
)
def test_values(key: Any, raw: Any, value: Any) -> None:
    config = Config.of({key.name: raw})
    assert config[key] == value
    assert type(config[key]) is type(value)
    assert config.given(key)


@pytest.mark.parametrize(
    ("name", "raw", "problem"),
    [
        ("hoodie.parquet.max.file.size", "120MB", "expected a whole number"),
        ("hoodie.parquet.max.file.size", "1.5", "expected a whole number"),
        ("hoodie.parquet.max.file.size", "", "expected a whole number"),
        ("hoodie.parquet.max.file.size", "0", "must be at least 1"),
        ("hoodie.parquet.small.file.limit", "-1", "must be at least 0"),
        ("hoodie.memory.merge.max.size", "1", "must be at least 65536"),
        ("hoodie.datasource.write.hive_style_partitioning", "yes", "expected true or false"),
        ("hoodie.index.bloom.fpp", "small", "expected a number"),
        ("hoodie.index.bloom.fpp", "0", "must be between 0 and 1"),
        ("hoodie.index.bloom.fpp", "1", "must be between 0 and 1"),
        ("hoodie.index.bloom.fpp", "nan", "expected a number"),
        ("hoodie.record.size.estimation.threshold", "inf", "expected a number"),
        (
            "hoodie.parquet.compression.codec",
            "rar",
            "expected one of GZIP, LZ4_RAW, SNAPPY, UNCOMPRESSED, ZSTD",
        ),
        ("hoodie.datasource.write.table.type", "COW", "expected one of COPY_ON_WRITE, MERGE_ON_READ"),
    ],
)
def test_malformed_values_are_errors_never_the_default(name: str, raw: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.of({name: raw})
    assert f"{name}={raw!r}: {problem}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("hoodie.datasource.write.recordkey.fields", "hoodie.datasource.write.recordkey.field"),
        ("hoodie.upsert.shuffle.paralelism", "hoodie.upsert.shuffle.parallelism"),
        ("hoodie.cleaner.commits.retainde", "hoodie.cleaner.commits.retained"),
        ("parquet.max.file.size", "hoodie.parquet.max.file.size"),
    ],
)
def test_unknown_names_come_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.of({name: "1"})
    assert f"unknown setting {name!r}, did you mean {nearest!r}?" in str(caught.value)


def test_names_that_nothing_is_near_to() -> None:
    with pytest.raises(ConfigError, match="unknown setting 'zzz' "):
        Config.of({"zzz": "1"})


def test_all_problems_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Config.of(
            {
                "hoodie.nope": 1,
                "hoodie.parquet.max.file.size": "x",
                HIVE_STYLE.name: "x",
                "hoodie.index.type": "x",
            }
        )
    assert str(caught.value).count("; ") == 3


def test_names_without_effect_give_one_warning() -> None:
    config = Config.of(
        {"hoodie.parquet.page.size": 1, "hoodie.embed.timeline.server": True, "hoodie.metrics.x.y": 1}
    )
    (warning,) = config.warnings
    expected = "hoodie.embed.timeline.server, hoodie.metrics.x.y, hoodie.parquet.page.size"
    assert warning == f"known to Apache Hudi but without effect here: {expected}"
    assert Config.of({MAX_FILE_SIZE.name: 1}).warnings == ()


def test_aliases() -> None:
    alias = "hoodie.compaction.payload.class"
    assert Config.of({alias: "event_time"})[PAYLOAD_CLASS] == "event_time"
    assert Config.of({alias: "x", PAYLOAD_CLASS.name: "x"})[PAYLOAD_CLASS] == "x"
    for options in ({alias: "x", PAYLOAD_CLASS.name: "y"}, {PAYLOAD_CLASS.name: "y", alias: "x"}):
        with pytest.raises(ConfigError, match=r"contradicts hoodie\.datasource.write.payload.class"):
            Config.of(options)


def test_a_setting_without_a_value() -> None:
    with pytest.raises(ConfigError, match=r"hoodie\.table\.name has no value; leave it out or give one"):
        Config.of({"hoodie.table.name": None})


def test_merged_settings_are_checked_and_the_first_ones_stay() -> None:
    config = Config.of({MAX_FILE_SIZE.name: 5})
    both = config.merged({SMALL_FILE_LIMIT.name: "7"})
    assert (both[MAX_FILE_SIZE], both[SMALL_FILE_LIMIT], config[SMALL_FILE_LIMIT]) == (5, 7, 104857600)
    with pytest.raises(ConfigError, match="expected a whole number"):
        config.merged({SMALL_FILE_LIMIT.name: "x"})


def test_travels_to_executors() -> None:
    config = Config.of({MAX_FILE_SIZE.name: 5})
    assert pickle.loads(pickle.dumps(config))[MAX_FILE_SIZE] == 5


def test_every_default_passes_its_own_check() -> None:
    for key in declared():
        text = default_text(key)
        if text is not None:
            assert key.read(text) == key.default, key.name
        assert key.doc.strip(), key.name
