"""CSV and JSON sources of the Spark engine: their files as Spark finds them, and the columns in the names of
their folders. No pyspark import.

Spark leaves out files next to such folders, puts a folder's value into a column of the files, and gives such
columns its own types. This module applies the rules of the local engine, and refuses what Spark can't do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from hoodie.errors import ConfigError, HoodieError, InputError
from hoodie.format.map_keys import has_map
from hoodie.format.schema import is_list
from hoodie.source import LOCAL_OPTIONS, Format, Source
from hoodie.source.csv_file import CsvFile, Dialect
from hoodie.source.ddl import ddl, quoted
from hoodie.source.folders import check_not_twice, folder_columns, folder_texts
from hoodie.source.text import JsonFile, TextFile, null_as_text
from hoodie.source.text_tasks import LINES, LOOKED, Columns, Look, Rows, Vet, local_path
from hoodie.source.together import union
from hoodie.storage import normalize

#: options of Spark by which it finds other files
_OWN = frozenset(
    ("recursivefilelookup", "basepath", "pathglobfilter", "modifiedafter", "modifiedbefore", "pathfilter")
)
#: the option by which Spark takes all files below a folder, and no name of a folder for a column
ALL_FILES = {"recursiveFileLookup": "true"}


def base_path(source: Source) -> dict[str, str]:
    """Columns in the names of folders below the source are found where some of its files are read, too."""
    path = source.paths[0]
    whole = len(source.paths) == 1 and path not in source.only and not any(mark in path for mark in "*?[{")
    return {"basePath": path} if source.only and whole else {}


def folders(
    source: Source, spark: Any, known: pa.Schema | None
) -> tuple[dict[str, str], dict[str, pa.DataType]]:
    """Options by which Spark reads all files of the source, and the columns in the names of their folders.

    Raises InputError for files that Spark would not read as the local engine does.
    """
    if {name.lower() for name in source.options} & _OWN:
        return base_path(source), {}
    paths = [*(source.only or source.paths)]
    every = {_place(path) for path in source.only} or _files_of_frame(
        spark.read.format("text").options(**ALL_FILES).load(paths)
    )
    texts = {path: folder_texts(_below(source, path)) for path in sorted(every)}
    names = {name for found in texts.values() for name in found}
    if not names:
        return ({} if source.only else ALL_FILES), {}
    others = [path for path, own in texts.items() if {*own} != names]
    if others:
        raise _outside(others[0], names)
    options = base_path(source)
    found = spark.read.format("text").options(**options).load(paths)
    columns = {name for name in found.columns if name != "value"}
    if columns != names:
        raise InputError(
            f"files of {source} lie in folders that name the columns {', '.join(sorted(names))}, of which "
            f"Spark finds {', '.join(sorted(columns)) or 'none'}; give the folder above them as the only "
            "path, or use the local engine",
            source=str(source),
        )
    if lost := every - _files_of_frame(found):
        raise _outside(min(lost), names)
    types = folder_columns(texts, known)
    return options, {column.name: column.type for own in types.values() for column in own}


def _files_of_frame(frame: Any) -> set[str]:
    return {local_path(uri) for uri in frame.inputFiles()}


def _outside(path: str, names: Iterable[str]) -> InputError:
    return InputError(
        f"{path} lies beside folders that name the columns {', '.join(sorted(names))}, where Spark reads no "
        "files; move it into such a folder, or use the local engine",
        file=path,
    )


def own_texts(source: Source, path: str, names: Iterable[str]) -> dict[str, str | None]:
    """The values of these columns in the names of a file's folders."""
    return {name: text for name, text in folder_texts(_below(source, path)).items() if name in names}


def check_folder_columns(source: Source, names: Iterable[str], columns: Iterable[str]) -> None:
    """Raises InputError for a column that the rows of files and their folders have."""
    lower = {name.lower() for name in columns}
    if twice := [name for name in names if name.lower() in lower]:
        raise InputError(
            f"{source} has the column {twice[0]!r} more than once (a folder of its path has its name, too); "
            "rename one of them",
            column=twice[0],
        )


def _place(path: str) -> str:
    try:
        return normalize(path)
    except HoodieError:
        return path


def _below(source: Source, path: str) -> str:
    """The path of a file below the source's own."""
    for given in source.paths:
        place = _place(given).rstrip("/")
        if place == path:
            return ""
        if path.startswith(f"{place}/"):
            return path[len(place) + 1 :]
        if any(mark in place for mark in "*?[{"):
            return "/".join(path.split("/")[place.count("/") + 1 :])
    return path


def shared_options(source: Source) -> Source | None:
    """The source with its options by the names of the local engine; None where it has others, which only
    Spark's own reader knows.
    """
    names = {name.lower(): name for name in LOCAL_OPTIONS[Format.CSV]}
    if any(name.lower() not in names for name in source.options):
        return None
    options = {names[name.lower()]: text for name, text in source.options.items()}
    shared = replace(source, options=options)
    return shared if shared.flag("header", True) else None


def csv_frame(
    source: Source,
    spark: Any,
    known: pa.Schema | None,
    bad: tuple[str, str] | None = None,
) -> Any:
    """DataFrame of the rows; `bad` as of `Rows`."""
    options, named = folders(source, spark, known)
    paths = list(source.only or source.paths)
    dialect = Dialect.of(source)
    # a line end is not one byte in each encoding
    whole = dialect.multiline or "\n".encode(dialect.encoding) != b"\n"
    reader = spark.read.format("text").options(**options, wholetext=str(whole).lower())
    text = reader.load(paths)
    lines = text.selectExpr(*LINES)
    plain = replace(source, storage_options={}, transform="", only=())
    looked = lines.mapInArrow(Look(plain, known, bad is not None), LOOKED).collect()
    files = _files(plain, known, looked, named)
    seen = {local_path(path) for path in files}
    if empty := sorted({local_path(path) for path in text.inputFiles()} - seen):
        raise source.no_such(f"{empty[0]} is empty, without even a header")
    if not files:
        raise source.no_such("the files are empty, without even a header")
    schema = _schema([*files.values()], known)
    return _parsed(lines, Rows(plain, known, _columns(files), schema, bad))


def json_frame(
    source: Source, spark: Any, known: pa.Schema | None, bad: tuple[str, str] | None = None
) -> Any:
    """As `csv_frame`; None for files with a column that is or has a map in the table, which the local
    engine's reader does not make of objects.
    """
    options, named = folders(source, spark, known)
    lines = spark.read.format("text").options(**options).load([*(source.only or source.paths)])
    lines = lines.selectExpr(*LINES)
    plain = replace(source, storage_options={}, transform="", only=())
    parts = _parts(lines.mapInArrow(Look(plain, known, bad is not None), LOOKED).collect())
    texts = {path: own_texts(source, local_path(path), named) for path in parts}
    columns = folder_columns(texts, known)
    files: dict[str, TextFile] = {}
    for path, found in parts.items():
        file = JsonFile(plain, path, 0, known, folders=columns[path])
        schemas = [pa.ipc.read_schema(pa.py_buffer(part["types"])) for part in found]
        with replace(file, path=local_path(path)).reading():
            files[path] = file.settled(schemas)
        check_not_twice(local_path(path), files[path].names, [folder.name for folder in file.folders])
    if not files and known is None:
        raise InputError(f"no record of {source} can be read; mend the files", source=str(source))
    maps = {field.name for field in known or () if has_map(field.type)}
    if any(maps & {*file.names} for file in files.values()):
        return None
    if files:
        files = dict(zip(files, next(iter(files.values())).agreed([*files.values()]), strict=True))
    united = _schema([*files.values()], known) if files else pa.schema([*(known or ())])
    return _parsed(lines, Rows(plain, known, _columns(files), united, bad))


def _parsed(lines: Any, rows: Rows) -> Any:
    """The lines as rows."""
    own = [pa.field(name, pa.string()) for name in rows.bad or ()]
    rows = replace(rows, schema=pa.schema([*rows.schema, *own]))
    described = ", ".join(f"{quoted(field.name)} {ddl(field.type)}" for field in rows.schema)
    return lines.mapInArrow(rows, described)


def _columns(files: Mapping[str, TextFile]) -> dict[str, Columns]:
    return {path: Columns(file.names, file.types, file.folders) for path, file in files.items()}


def _parts(looked: Sequence[Any]) -> dict[str, list[Any]]:
    """What was found of the parts of each file. Raises the first error of a part."""
    parts: dict[str, list[Any]] = {}
    for row in sorted(looked, key=lambda row: (row["file"], row["start"])):
        if row["error"]:
            raise _refused(row)
        parts.setdefault(row["file"], []).append(row)
    return parts


def vet_encoding(source: Source, spark: Any, options: Mapping[str, str]) -> None:
    """Raises InputError for text of another encoding, which Spark's own reader would change."""
    encodings = [text for name, text in source.options.items() if name.lower() in ("encoding", "charset")]
    plain = replace(
        source,
        options={"quote": "", **({"encoding": encodings[0]} if encodings else {})},
        storage_options={},
        transform="",
        only=(),
    )
    try:
        own = "\n".encode(Dialect.of(plain).encoding) == b"\n"
    except ConfigError:
        return  # Spark may know it
    if own:
        text = spark.read.format("text").options(**options).load(list(source.only or source.paths))
        found = text.selectExpr(*LINES).mapInArrow(Vet(plain), LOOKED).take(1)
        if found:
            raise _refused(found[0])


def _refused(row: Any) -> InputError:
    """The error that a task found."""
    counted = f" (lines are counted from byte {row['start']:,})" if row["start"] else ""
    return InputError(f"{row['error']}{counted}", path=local_path(row["file"]))


def _files(
    source: Source, known: pa.Schema | None, looked: Sequence[Any], named: Collection[str]
) -> dict[str, CsvFile]:
    """The files by the names that Spark gives them, in the types that they have in common."""
    parts = _parts(looked)
    texts = {path: own_texts(source, local_path(path), named) for path in parts}
    columns = folder_columns(texts, known)
    files = []
    for path, found in parts.items():
        own = columns[path]
        file = CsvFile(source, path, 0, known, tuple(found[0]["names"]), folders=own)
        schemas = [pa.ipc.read_schema(pa.py_buffer(part["types"])) for part in found]
        if wrong := [len(schema) for schema in schemas if len(schema) != len(file.names)]:
            raise replace(source, paths=(local_path(path),)).unreadable(
                f"it has rows of {wrong[0]} values, and {len(file.names)} columns"
            )
        check_not_twice(local_path(path), file.names, [folder.name for folder in own])
        files.append(file.settled([file.typed(schema) for schema in schemas]))
    common = files[0].agreed(files) if files else []
    return dict(zip(parts, common, strict=True))  # type: ignore[arg-type]


def _schema(files: Sequence[TextFile], known: pa.Schema | None) -> pa.Schema:
    """Of all files, as Spark has it."""
    united = union([(local_path(file.path), file.full_schema) for file in files])
    return pa.schema([(field.name, spark_type(field, known)) for field in united])


def spark_type(field: pa.Field[Any], known: pa.Schema | None) -> pa.DataType:
    """The type of a column of text; instants without a zone are of UTC, unless the table has none."""
    kind = null_as_text(field.type)
    if not pa.types.is_timestamp(kind):
        return kind
    own = known.field(field.name).type if known is not None and field.name in known.names else None
    without = own is not None and pa.types.is_timestamp(own) and own.tz is None and kind.tz is None
    return pa.timestamp("us") if without else pa.timestamp("us", "UTC")


def stored(kind: Any) -> Any:
    """The type as a table stores it, which is Spark's, too."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if kind in (pa.int8(), pa.int16()):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(stored(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, kind.item_field.with_type(stored(kind.item_type)))
    if is_list(kind):
        return pa.list_(kind.value_field.with_type(stored(kind.value_type)))
    return kind
