"""Sources for the Spark engine, also without the records that can't be written. Written against a session
that the caller made; no pyspark import.

Tasks separate the bad records, with all columns at hand: Spark reads a record of text again for each choice
of columns, and does not detect a wrong value in a column that is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import array, places
from hoodie.engine.required import contains
from hoodie.engine.session import lacks_file_system, no_file_system
from hoodie.errors import ConfigError, HoodieError, InputError
from hoodie.format.schema import is_list
from hoodie.source import Format, Source
from hoodie.source.csv_file import check_no_lines_in_values
from hoodie.source.ddl import ddl, quoted
from hoodie.source.record_files import RecordFile, record_files
from hoodie.source.rejected_records import SCHEMA, BadRows, Required, Screened, record_texts
from hoodie.source.spark_text import (
    ALL_FILES,
    check_folder_columns,
    csv_frame,
    folders,
    json_frame,
    shared_options,
    stored,
    vet_encoding,
)
from hoodie.source.text_tasks import local_path
from hoodie.storage import normalize

#: Spark's names of error conditions -> is the source missing (else unreadable)
_CONDITIONS = {
    "PATH_NOT_FOUND": True,
    "UNABLE_TO_INFER_SCHEMA": True,
    "does not exist": True,
    "CANNOT_MERGE_SCHEMAS": False,
    "FAILED_READ_FILE": False,
    "CANNOT_READ_FILE_FOOTER": False,
    "PARSE_SYNTAX_ERROR": False,
    "TABLE_OR_VIEW_NOT_FOUND": False,
}

#: settings of a session that decrypts Parquet files
_CRYPTO = ("parquet.crypto.factory.class", "spark.hadoop.parquet.crypto.factory.class")

#: the column with the text of a record that can't be read
CORRUPT = "_hoodie_corrupt_record"
#: options for such records
PERMISSIVE = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
#: the column with the file of a record, where Spark has no other word for it
FILE = "_hoodie_source_file"

#: what is a timestamp in CSV: Spark would also take a time of day for one, of the day it runs on
_TIMESTAMPS = "yyyy-MM-dd[' ']['T']HH:mm[:ss][.SSSSSSSSS][XXX]"


def read(source: Source, spark: Any, known: pa.Schema | None = None, *, files: bool = True) -> Any:
    """DataFrame of a source, after its transform, or, with `files`, a pyarrow Dataset where executors had
    better read the files themselves.

    `known` is the target table's schema, whose types CSV and JSON columns take.

    A malformed value fails the job (mode FAILFAST) unless the options say otherwise: Spark's own default
    would turn it into a null. Raises InputError for a source that is missing or can't be read.
    """
    rows = _read(source, spark, known, files)
    if not source.transform:
        return rows
    from hoodie.source.transform import spark_transformed

    return spark_transformed(spark, rows, source.transform)


def read_permissive(source: Source, spark: Any, known: pa.Schema | None) -> Any:
    """DataFrame of files, before the transform; the text of a record of CSV or JSON that can't be read is in
    the column CORRUPT, which Parquet lacks. Raises as `read`.
    """
    if source.format in (Format.CSV, Format.JSON):
        if mode := {"mode", "columnnameofcorruptrecord"} & {name.lower() for name in source.options}:
            raise ConfigError(
                f"with an error table, the source takes no option {', '.join(sorted(mode))}; leave it out"
            )
        source = replace(source, options={**source.options, **PERMISSIVE})
    return _read(source, spark, known, files=False)


def _read(source: Source, spark: Any, known: pa.Schema | None, files: bool) -> Any:
    from hoodie.engine.session import setting
    from hoodie.source.arrow import parquet_dataset

    source.check_no_table()
    plain = files and source.format is Format.PARQUET and not source.transform
    if any(setting(spark, name) for name in _CRYPTO):
        plain = False  # Spark may have the keys of encrypted files
    try:
        if plain and (dataset := parquet_dataset(source)) is not None:
            return dataset
        if source.format is Format.TABLE:
            return _tables(source, spark)
        if source.format is Format.SQL:
            return spark.sql(source.paths[0])
        if source.format is Format.AVRO:
            return _by_tasks(record_files(source), spark, named=not files)
        if source.format is Format.ORC and (found := _with_times(source)) is not None:
            return _by_tasks(found, spark, named=not files)
        return _files(source, spark, known)
    except HoodieError:
        raise
    except Exception as error:
        raise _bad_file(source) or explained(source, error) from error


def _with_times(source: Source) -> list[RecordFile] | None:
    """The files of ORC that Spark's reader would change, which takes times for those of the zone of its
    machine, and cuts nanoseconds off; None for others, and for those that this process does not see.
    """
    if source.options:
        return None
    try:
        files = record_files(source)
    except HoodieError:
        return None
    assert files[0].schema is not None
    return files if any(contains(field.type, pa.types.is_timestamp) for field in files[0].schema) else None


def _bad_file(source: Source) -> InputError | None:
    """The error of a file that this process can't read, either: of ORC, Spark names none."""
    if source.format is Format.ORC:
        try:
            record_files(source)
        except InputError as error:
            return error
        except HoodieError:
            return None
    return None


def _files(source: Source, spark: Any, known: pa.Schema | None) -> Any:
    """The paths are first taken as they are given: a session may have a file system of its own for s3://."""
    reader = _text_files if source.format in (Format.CSV, Format.JSON) else _column_files
    hadoop = replace(
        source,
        paths=tuple(_of_hadoop(source, path) for path in source.paths),
        only=tuple(_of_hadoop(source, path) for path in source.only),
    )
    try:
        return reader(source, spark, known)
    except Exception as error:
        if not lacks_file_system(error):
            raise
    try:
        return reader(hadoop, spark, known)
    except Exception as error:
        if not lacks_file_system(error):
            raise
    lacking = next((path for path in hadoop.paths if "://" in path), str(source))
    otherwise = "use the local engine, which reads it without them (hoodie.storage.* or the environment)"
    if source.format is Format.PARQUET:
        otherwise = "let this process see the files (hoodie.storage.* or the environment), or " + otherwise
    raise no_file_system(lacking, otherwise)


def _of_hadoop(source: Source, path: str) -> str:
    try:
        place = normalize(path)
        return source.storage(place).spark_path(place) or path
    except HoodieError:
        return path


def _column_files(source: Source, spark: Any, known: pa.Schema | None) -> Any:
    found, columns = folders(source, spark, known)
    options = {"mergeSchema": "true", **found, **source.options}
    paths = [*(source.only or source.paths)]
    reader = spark.read.format(source.format.value)
    if columns:
        schema = reader.options(**{**options, **ALL_FILES}).load(paths).schema
        check_folder_columns(source, columns, schema.names)
        empty = [f"cast(null as {ddl(kind)}) as {quoted(name)}" for name, kind in columns.items()]
        for field in spark.range(0).selectExpr(*empty).schema.fields:
            schema = schema.add(field)
        reader = spark.read.format(source.format.value).schema(schema)
    return reader.options(**options).load(paths)


def _by_tasks(files: list[RecordFile], spark: Any, named: bool) -> Any:
    """Tasks read the files: Spark's own reader of Avro is a jar beside it. `named`: with the column FILE."""
    given = files[0].schema
    assert given is not None
    schema = pa.schema([field.with_type(stored(field.type)) for field in given])
    described = ", ".join(f"{quoted(field.name)} {ddl(field.type)}" for field in schema)
    numbers = spark.range(0, len(files), 1, len(files))
    if named:
        described += f", {FILE} string"
    read = tuple(replace(file, wanted=schema) for file in files)
    return numbers.mapInArrow(_Files(read, named), described)


@dataclass(frozen=True)
class _Files:
    """The rows of the files with these numbers."""

    files: tuple[RecordFile, ...]
    named: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_numpy():
                file = self.files[number]
                for rows in file():
                    if not self.named:
                        yield rows
                        continue
                    path = pa.repeat(pa.scalar(file.path), rows.num_rows)
                    yield rows.append_column(FILE, path)


def _tables(source: Source, spark: Any) -> Any:
    from hoodie.read.spark import read_frame

    options = source.storage_options
    frames = [read_frame(spark, path, meta=False, options=options) for path in source.paths]
    frame = frames[0]
    for other in frames[1:]:
        frame = frame.unionByName(other, allowMissingColumns=True)
    return frame


def _text_files(source: Source, spark: Any, known: pa.Schema | None) -> Any:
    """Infer, then read with a schema: the target's types where it has the column, else the inferred ones."""
    if source.format is Format.CSV and (shared := _shared(source)) is not None:
        bad = (FILE, CORRUPT) if source.options.get("columnNameOfCorruptRecord") == CORRUPT else None
        if bad is not None:
            check_no_lines_in_values(shared)
        return csv_frame(shared, spark, known, bad)
    if source.format is Format.JSON and not _own(source):
        bad = (FILE, CORRUPT) if source.options.get("columnNameOfCorruptRecord") == CORRUPT else None
        if (frame := json_frame(replace(source, options={}), spark, known, bad)) is not None:
            return frame
    found, columns = folders(source, spark, known)
    if source.format is Format.CSV:
        vet_encoding(source, spark, found)
    options = {"mode": "FAILFAST", **found, **source.options}
    kind = source.format.value
    paths = list(source.only or source.paths)
    if source.format is Format.CSV:
        options = {"header": "true", "enforceSchema": "false", **options}
        options.setdefault("inferSchema", "true")
    inferring = {"timestampFormat": _TIMESTAMPS, **options}
    if columns:
        inferring |= ALL_FILES
    inferred = spark.read.format(kind).options(**inferring).load(paths).schema
    fields = [field for field in inferred.fields if field.name != CORRUPT]
    check_folder_columns(source, columns, [field.name for field in fields])
    if source.format is Format.CSV and not fields:
        raise source.no_such("the files are empty, without even a header")
    nested = source.format is Format.JSON
    types: dict[str, Any] = {
        field.name: field.type for field in known or () if nested or not field.type.num_fields
    }
    inside = [f"{quoted(field.name)} {_type(types.get(field.name), field.dataType)}" for field in fields]
    described = ", ".join([*inside, *(f"{quoted(name)} {ddl(column)}" for name, column in columns.items())])
    if options.get("columnNameOfCorruptRecord") == CORRUPT:
        described += f"{', ' if described else ''}`{CORRUPT}` string"
    options.pop("inferSchema", None)
    return spark.read.format(kind).options(**options).schema(described).load(paths)


def _shared(source: Source) -> Source | None:
    """The source as `csv_frame` takes it, or None where Spark's own reader is asked for."""
    return shared_options(replace(source, options=_own(source)))


def _own(source: Source) -> dict[str, str]:
    """The options that the caller gave."""
    return {name: text for name, text in source.options.items() if (name, text) not in PERMISSIVE.items()}


def _type(known: Any, found: Any) -> str:
    """Spark SQL's name of the table's type of a column, with the fields that its structs, at any depth, have
    in the files beside; None: the table lacks the column. Whole numbers are bigint: tomorrow's may not fit
    what today's do.
    """
    kind: str = found.typeName()
    if kind == "struct" and (known is None or pa.types.is_struct(known)):
        there = {field.name: field.dataType for field in found.fields}
        own = {} if known is None else {field.name: field.type for field in known}
        inside = (
            f"{quoted(name)}:{_type(own.get(name), there[name]) if name in there else ddl(own[name])}"
            for name in {**own, **there}
        )
        return f"struct<{','.join(inside)}>"
    if kind == "array" and (known is None or is_list(known)):
        return f"array<{_type(None if known is None else known.value_type, found.elementType)}>"
    if known is not None:
        return ddl(known)
    text: str = found.simpleString()
    return "bigint" if text == "int" else "string" if text == "void" else text


def explained(source: Source, error: Exception) -> InputError:
    text = str(error)
    if named := re.search(r"while reading file (\S+?)\.?(\s|$)", text):
        source = replace(source, paths=(local_path(named[1]),))
    for condition, missing in _CONDITIONS.items():
        if condition in text:
            return source.no_such() if missing else source.unreadable(_cause(text))
    return source.unreadable(_cause(text))


def _cause(text: str) -> str:
    """The innermost cause of a JVM error, whose first line may only say what was called."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.partition(":")[2].strip() for line in lines if line.startswith("Caused by:")]
    named = [line for line in lines if line.startswith(("java.", "org.", "["))]
    if "Python worker" in text:
        causes = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Invalid): ", line)]
    return (causes[-1:] or named[:1] or lines or ["Spark gave no reason"])[0]


_BAD = "file string, position bigint, record string, error string"


def screened(source: Source, spark: Any, known: pa.Schema | None, required: Required, limit: int) -> Screened:
    """As hoodie.source.validation does it. Positions are not known, nor the text of a record that could be
    read: it is shown as JSON.
    """
    if source.transform:
        required = Required()
    frame = read_permissive(source, spark, known)
    names = [name for name in frame.columns if name not in (CORRUPT, FILE)]
    if not names:
        raise InputError(f"no record of {source} can be read; mend the files", source=str(source))
    plain = frame.select(*(f"`{name.replace('`', '``')}`" for name in names)).schema
    located = frame if FILE in frame.columns else frame.selectExpr("*", f"_metadata.file_path as {FILE}")
    try:
        found = located.mapInArrow(_Bad(required), _BAD).limit(limit + 1).collect()
    except HoodieError:
        raise
    except Exception as error:
        raise explained(source, error) from error
    bad = BadRows(limit)
    for row in sorted(found, key=lambda row: (row["file"] or "", row["record"])):
        bad.add(local_path(row["file"] or ""), None, row["record"], row["error"])
    rows = located.mapInArrow(_Good(required, tuple(names)), plain)
    if source.transform:
        from hoodie.source.transform import spark_transformed

        rows = spark_transformed(spark, rows, source.transform)
    return Screened(rows, bad.table())


@dataclass(frozen=True)
class _Bad:
    required: Required

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            problems = _problems(rows, self.required)
            plain = rows.drop_columns([name for name in (CORRUPT, FILE) if name in rows.column_names])
            texts = record_texts(plain, list(problems))
            corrupt = rows.column(CORRUPT) if CORRUPT in rows.column_names else None
            items = [
                {
                    "file": rows.column(FILE)[number].as_py(),
                    "position": None,
                    "record": (corrupt[number].as_py() if corrupt is not None else None) or text,
                    "error": error,
                }
                for (number, error), text in zip(problems.items(), texts, strict=True)
            ]
            yield from pa.Table.from_pylist(items, SCHEMA).to_batches()


@dataclass(frozen=True)
class _Good:
    required: Required
    names: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            problems = list(_problems(rows, self.required))
            if problems:
                kept = np.ones(rows.num_rows, np.bool_)
                kept[problems] = False
                rows = rows.filter(array(kept))
            yield from rows.select(list(self.names)).to_batches()


def _problems(rows: pa.Table, required: Required) -> dict[int, str]:
    found = dict(required.problems(rows))
    if CORRUPT in rows.column_names:
        bad = places(rows.column(CORRUPT).is_valid())
        found |= dict.fromkeys(bad, "the record can't be read in the types of its columns")
    return found
