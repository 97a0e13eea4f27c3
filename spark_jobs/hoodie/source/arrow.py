"""Sources for the local engine: Parquet as a lazy dataset, CSV and JSON as tables in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.json
import pyarrow.parquet as pq

from hoodie.engine.files import read_footers
from hoodie.errors import ConfigError, InputError
from hoodie.source import Format, Source, local_files


def read(source: Source, known: pa.Schema | None = None) -> pa.Table | ds.Dataset:
    """Rows of a source. `known` is the target table's schema, whose types CSV and JSON columns take.

    Raises InputError (no such source, unreadable files), ConfigError (an option this engine lacks).
    """
    source.refuse_table()
    readers: dict[Format, Callable[[], pa.Table | ds.Dataset]] = {
        Format.PARQUET: lambda: _parquet(source),
        Format.CSV: lambda: _csv(source, known),
        Format.JSON: lambda: _json(source, known),
        Format.TABLE: lambda: _table(source),
    }
    if (problem := source.local_problem()) is not None:
        raise problem
    try:
        return readers[source.format]()
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise source.unreadable(error) from error


def _parquet(source: Source) -> ds.Dataset:
    found: list[tuple[list[str], Any]] = [
        (paths, {"partitioning": "hive", "partition_base_dir": folder} if folder else {})
        for folder, paths in local_files(source).items()
    ]
    parts = [ds.dataset(paths, format="parquet", **layout) for paths, layout in found]
    footers = [pq.read_schema(path).remove_metadata() for paths, _ in found for path in paths]
    schema = pa.unify_schemas([*footers, *(part.schema for part in parts)], promote_options="permissive")
    united: Any = [ds.dataset(paths, schema=schema, format="parquet", **layout) for paths, layout in found]
    return cast(ds.Dataset, ds.dataset(united))


def parquet_dataset(source: Source) -> ds.Dataset | None:
    """The files as a Dataset when Spark would read the same rows and types from them, else None.

    Left to Spark are paths that are not on this machine or that only its globs understand, options, partition
    columns in folder names, files whose types differ, and types or old calendars that it converts on its own.
    """
    odd_path = any(("://" in path and not path.startswith("file:")) or "{" in path for path in source.paths)
    if odd_path or set(source.options) - {"mergeSchema"}:
        return None
    try:
        found = local_files(source)
        paths = [path for group in found.values() for path in group]
        if any(
            "=" in os.path.relpath(path, folder)
            for folder, group in found.items()
            if folder
            for path in group
        ):
            return None
        dataset: Any = ds.dataset(paths, format="parquet")
        fragments = list(dataset.get_fragments())
        types: dict[str, pa.DataType] = {}
        for footer, schema in zip(
            read_footers(fragments), (file.physical_schema for file in fragments), strict=True
        ):
            if any(key.startswith(b"org.apache.spark.legacy") for key in footer.metadata or ()):
                return None
            for field in schema:
                if types.setdefault(field.name, field.type) != field.type or not _is_common(field.type):
                    return None
            if len(set(schema.names)) < len(schema.names):
                return None
        if len({name.lower() for name in types}) < len(types):
            return None
        fields = [pa.field(name, _micros(dtype)) for name, dtype in types.items()]
        return ds.FileSystemDataset(fragments, pa.schema(fields), dataset.format, dataset.filesystem)
    except (InputError, pa.ArrowException, OSError, ValueError):
        return None  # Spark's own message is the one that its users know


def _is_common(dtype: pa.DataType, units: tuple[str, ...] = ("ms", "us")) -> bool:
    if pa.types.is_timestamp(dtype):
        return dtype.unit in units and dtype.tz in (None, "UTC")
    if pa.types.is_nested(dtype):
        kind = pa.types.is_list(dtype) or pa.types.is_struct(dtype) or pa.types.is_map(dtype)
        return kind and all(_is_common(dtype.field(child).type, ("us",)) for child in range(dtype.num_fields))
    return dtype in _COMMON or pa.types.is_decimal128(dtype)


_COMMON = (
    pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32()
)  # fmt: skip


def _micros(dtype: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", dtype.tz) if pa.types.is_timestamp(dtype) else dtype


def _csv(source: Source, known: pa.Schema | None) -> pa.Table:
    options = source.options
    types = {} if known is None else {field.name: field.type for field in known if _in_csv(field.type)}
    parse = pa.csv.ParseOptions(
        delimiter=options.get("sep", options.get("delimiter", ",")),
        quote_char=options.get("quote", '"') or False,
        escape_char=options.get("escape") or False,
        newlines_in_values=source.flag("multiLine", False),
    )
    convert = pa.csv.ConvertOptions(
        column_types=types,
        null_values=["", options["nullValue"]] if "nullValue" in options else [""],
        strings_can_be_null=True,
    )
    head = pa.csv.ReadOptions(
        encoding=options.get("encoding", "utf8"), autogenerate_column_names=not source.flag("header", True)
    )
    if head.autogenerate_column_names and known is not None:
        raise ConfigError(
            "a CSV source without header has no column names; add a header line", option="header"
        )

    def one(path: str) -> pa.Table:
        if os.path.getsize(path) == 0:
            raise source.no_such(f"{path} is empty, without even a header")
        if not source.flag("inferSchema", True):
            with pa.csv.open_csv(path, head, parse) as stream:
                convert.column_types = {**dict.fromkeys(stream.schema.names, pa.string()), **types}
        return pa.csv.read_csv(path, head, parse, convert)

    return _settled(_each(source, one), lambda dtype: pa.string() if _is_odd(dtype) else dtype)


def _in_csv(dtype: pa.DataType) -> bool:
    """Timestamps are left to inference, which distinguishes those with a zone from those without."""
    return not (pa.types.is_nested(dtype) or pa.types.is_timestamp(dtype))


def _is_odd(dtype: pa.DataType) -> bool:
    """Inferred from nothing, or a time of day, which no table column can hold: kept as text."""
    return pa.types.is_null(dtype) or pa.types.is_time(dtype)


def _json(source: Source, known: pa.Schema | None) -> pa.Table:
    types = {} if known is None else {field.name: field.type for field in known}

    def one(path: str) -> pa.Table:
        if os.path.getsize(path) == 0:
            raise source.no_such(f"{path} is empty, so its columns are unknown")
        inferred = pa.json.read_json(path)
        wanted = pa.schema(
            [pa.field(field.name, types.get(field.name, _as_text(field.type))) for field in inferred.schema]
        )
        if wanted.equals(inferred.schema):
            return inferred
        flat = pa.schema([field for field in wanted if not _has_map(field.type)])
        asked = pa.schema([pa.field(field.name, _dates_as_text(field.type)) for field in flat])
        options = pa.json.ParseOptions(explicit_schema=asked)
        rows = pa.json.read_json(path, parse_options=options).select(wanted.names)
        return rows.cast(
            pa.schema(
                [flat.field(field.name) if field.name in flat.names else field for field in rows.schema]
            )
        )

    return _settled(_each(source, one), lambda dtype: dtype)


def _as_text(dtype: pa.DataType) -> pa.DataType:
    """JSON has no timestamps: what looks like one is a text, as in Spark; so is a column of nulls."""
    if pa.types.is_timestamp(dtype) or _is_odd(dtype):
        return pa.string()
    if pa.types.is_list(dtype):
        return pa.list_(_as_text(dtype.value_type))
    if pa.types.is_struct(dtype):
        return pa.struct([pa.field(field.name, _as_text(field.type)) for field in dtype])
    return dtype


def _dates_as_text(dtype: pa.DataType) -> pa.DataType:
    """The type as which Arrow's JSON reader takes it: it reads no dates, and casts do."""
    if pa.types.is_date(dtype):
        return pa.string()
    if pa.types.is_list(dtype):
        return pa.list_(_dates_as_text(dtype.value_type))
    if pa.types.is_struct(dtype):
        return pa.struct([pa.field(field.name, _dates_as_text(field.type)) for field in dtype])
    return dtype


def _has_map(dtype: pa.DataType) -> bool:
    return pa.types.is_map(dtype) or any(_has_map(dtype.field(i).type) for i in range(dtype.num_fields))


def _table(source: Source) -> pa.Table:
    from hoodie.read.arrow import read_batches

    tables = [read_batches(path, meta=False).read_all() for path in source.paths]
    return pa.concat_tables(tables, promote_options="permissive")


def _each(source: Source, one: Callable[[str], pa.Table]) -> list[pa.Table]:
    tables: list[pa.Table] = []
    for path in [path for paths in local_files(source).values() for path in paths]:
        try:
            tables.append(one(path))
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise Source((path,), source.format, source.options).unreadable(error) from error
    return tables


def _settled(tables: Sequence[pa.Table], settle: Callable[[pa.DataType], pa.DataType]) -> pa.Table:
    """One table of all files; types that were inferred from too little become text."""
    for table in tables:
        names = table.column_names
        if twice := [name for name in names if names.count(name) > 1]:
            raise InputError(f"the source has the column {twice[0]!r} more than once; rename one of them")
    rows = pa.concat_tables(tables, promote_options="permissive")
    return rows.cast(pa.schema([pa.field(field.name, settle(field.type)) for field in rows.schema]))
