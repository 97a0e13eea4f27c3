"""Settings of files: base files, their bloom filters, logs."""

from __future__ import annotations

import enum

from hoodie.config.key import Key, bool_key, enum_key, float_key, int_key, parse_fraction, parse_int
from hoodie.errors import ConfigError


class Codec(enum.Enum):
    ZSTD = "zstd"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4_raw"
    UNCOMPRESSED = "uncompressed"


COMPRESSION_CODEC = enum_key(
    "hoodie.parquet.compression.codec",
    Codec.ZSTD,
    "Parquet codec of base files. Apache Hudi's default is gzip; zstd writes many times faster "
    "at a similar size.",
    group="storage",
)
MAX_FILE_SIZE = int_key(
    "hoodie.parquet.max.file.size",
    125829120,
    "Bytes of a base file at which further new rows go to another one.",
    minimum=1,
    group="storage",
)
FILE_SLACK = float_key(
    "hoodie.parquet.compression.ratio",
    0.1,
    "Share by which the last of the new rows may take a base file over the maximum, so as to make no tiny "
    "one. Rows that are stored already stay in their file up to 1.25 times the maximum.",
    minimum=0,
    group="storage",
)
BLOCK_SIZE = int_key(
    "hoodie.parquet.block.size",
    33554432,
    "Bytes of rows (uncompressed) in one row group; also what a merge holds in memory.",
    minimum=4096,
    group="storage",
)
BLOOM_ENABLED = bool_key(
    "hoodie.parquet.bloom.filter.enabled", True, "Write a bloom filter into every base file.", group="storage"
)
BLOOM_ENTRIES: Key[int | None] = Key(
    "hoodie.index.bloom.num_entries",
    None,
    "Keys a bloom filter is sized for. Unset: those of its file and an eighth more, at least 100.",
    parse_int,
    minimum=1,
    group="index",
)
BLOOM_FPP: Key[float] = Key(
    "hoodie.index.bloom.fpp",
    1e-9,
    "False positive rate a bloom filter is sized for, between 0 and 1.",
    parse_fraction,
    group="index",
)


class BloomType(enum.Enum):
    """``hoodie.bloom.index.filter.type``; the value is the footer's type code."""

    SIMPLE = "SIMPLE"
    DYNAMIC_V0 = "DYNAMIC_V0"

    @classmethod
    def of(cls, code: str | None) -> BloomType:
        """Parse a type code, whatever its case; None, an absent footer entry, means SIMPLE."""
        try:
            return cls.SIMPLE if code is None else cls(code.upper())
        except ValueError:
            known = ", ".join(kind.value for kind in cls)
            raise ConfigError(
                f"bloom filter type {code!r} is unknown; use one of {known}", type=code
            ) from None


BLOOM_TYPE = enum_key(
    "hoodie.bloom.index.filter.type", BloomType.DYNAMIC_V0, "Kind of bloom filter written.", group="index"
)
BLOOM_MAX_ENTRIES: Key[int | None] = Key(
    "hoodie.bloom.index.filter.dynamic.max.entries",
    None,
    "Keys up to which a dynamic bloom filter grows. Unset: 100,000 where hoodie.index.bloom.num_entries is "
    "set; filters sized by their files have no such bound.",
    parse_int,
    minimum=1,
    group="index",
)


NULL_FOR_MISSING = bool_key(
    "hoodie.write.set.null.for.missing.columns",
    False,
    "Write null into columns of the table that the incoming rows lack; otherwise such rows are refused.",
)


class LogBlockFormat(enum.Enum):
    AVRO = "avro"
    PARQUET = "parquet"


LOG_FILE_MAX_SIZE = int_key(
    "hoodie.logfile.max.size", 1 << 30, "Bytes a log file may reach.", minimum=1, group="storage"
)
LOG_BLOCK_MAX_SIZE = int_key(
    "hoodie.logfile.data.block.max.size",
    1 << 28,
    "Bytes of rows in one block of a log file; also what a reader of logs holds in memory.",
    minimum=1,
    group="storage",
)
LOG_BLOCK_FORMAT = enum_key(
    "hoodie.logfile.data.block.format",
    LogBlockFormat.AVRO,
    "How rows are stored in log files.",
    group="storage",
)
RECORD_POSITIONS = bool_key(
    "hoodie.write.record.positions",
    True,
    "Log blocks name the rows of the base file that they change, where the index has found these, in tables "
    "of versions 8 and 9. Apache Hudi 1.x merges by them, and else by keys.",
    group="storage",
)
