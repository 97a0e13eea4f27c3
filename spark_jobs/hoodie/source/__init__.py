"""Where rows come from: files of a format, another table, or a query.

A `Source` is a description (a request of a job, arguments of the command line); `source.arrow` and
`source.spark` read it. This module needs the standard library only. Both readers follow the same rules:

* a path is a file, a folder or a glob; names that start with `_` or `.` are not data;
* CSV has a header and CSV and JSON have their types inferred, whole numbers as long. A column that the
  target table has is read as the table's type instead, so that a day whose values look different does not
  change the table;
* files whose schemas differ are read in the union of the schemas;
* a source without rows is fine, a source without files is not.
"""

from __future__ import annotations

import enum
import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hoodie.config.functions import Function, name_of
from hoodie.errors import ConfigError, HoodieError, InputError, SourceNotFound
from hoodie.storage import Found, Storage, normalize, source_storage_for
from hoodie.storage.settings import options_of


class Format(enum.Enum):
    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    AVRO = "avro"
    ORC = "orc"
    TABLE = "table"
    SQL = "sql"

    @classmethod
    def of(cls, text: str) -> Format:
        """Raises ConfigError that lists the names."""
        try:
            return cls(text.strip().lower())
        except ValueError:
            names = ", ".join(item.value for item in cls)
            raise ConfigError(f"unknown source format {text!r}; use one of {names}", format=text) from None


_SUFFIXES = {
    ".parquet": Format.PARQUET,
    ".avro": Format.AVRO,
    ".orc": Format.ORC,
    ".csv": Format.CSV,
    ".csv.gz": Format.CSV,
    ".json": Format.JSON,
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
    ".json.gz": Format.JSON,
    ".jsonl.gz": Format.JSON,
    ".ndjson.gz": Format.JSON,
}

_AS_CSV = "it is CSV with another separator: give the format csv and the option sep, such as a tab"
_UNPACK = "decompress it, or compress it by gzip and name it .csv.gz or .json.gz"
_EXPORT = "save it as CSV or Parquet"
#: what to do with files that no reader takes by their name alone
_OTHERS = {
    **dict.fromkeys((".tsv", ".tsv.gz", ".tab", ".psv"), _AS_CSV),
    **dict.fromkeys((".zst", ".bz2", ".lz4", ".xz", ".snappy", ".br", ".lzo", ".z", ".gz"), _UNPACK),
    **dict.fromkeys((".zip", ".tar", ".tgz", ".7z", ".rar"), "unpack it, and give the folder of its files"),
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".xlsb", ".ods", ".numbers"), _EXPORT),
    **dict.fromkeys((".xml", ".html", ".yaml", ".yml", ".toml", ".pdf", ".docx"), _EXPORT),
    **dict.fromkeys((".arrow", ".feather", ".ipc", ".pkl", ".pickle", ".npy", ".npz", ".mat"), _EXPORT),
    **dict.fromkeys(
        (".h5", ".hdf5", ".nc", ".db", ".sqlite", ".duckdb", ".sas7bdat", ".sav", ".dta"), _EXPORT
    ),
    **dict.fromkeys((".txt", ".log", ".dat", ".text"), "give its format, such as csv with the option sep"),
}


#: options that the local engine's reader of a format has; it has none of the formats that are not here
LOCAL_OPTIONS: Mapping[Format, tuple[str, ...]] = {
    Format.PARQUET: ("mergeSchema",),
    Format.CSV: (
        "header",
        "inferSchema",
        "sep",
        "delimiter",
        "quote",
        "escape",
        "nullValue",
        "encoding",
        "multiLine",
    ),
    Format.JSON: (),
    Format.AVRO: (),
    Format.ORC: (),
    Format.TABLE: (),
}


@dataclass(frozen=True)
class Source:
    """Paths, globs or folders (for SQL: one query) of one format; `options` are the reader's, as texts,
    `storage_options` the settings of the storages of the paths. `only`: of the files that are found, these
    are the source; empty for all. `transform`: one SELECT over the rows, which are its table `source`; a
    function of batches, as `package.module:function`, or itself where it has no such name; "" for none.
    Picklable, where such a function is.
    """

    paths: tuple[str, ...]
    format: Format
    options: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    only: tuple[str, ...] = ()
    transform: str | Function = ""

    @classmethod
    def of(
        cls,
        value: str | Sequence[str] | Mapping[str, Any],
        settings: Mapping[str, Any] | None = None,
        transform: str | Function | None = None,
    ) -> Source:
        """A path, a list of paths, or {"path", "format", "options"}. Raises ConfigError or InputError.

        Without a format the first path's suffix decides, or that of the first file below it; files with none
        are Parquet, and those of formats that there is no reader for are refused. `settings` are those of the
        call, such as hoodie.storage.s3.endpoint.
        """
        described = value if isinstance(value, Mapping) else {"path": value}
        if unknown := sorted(set(described) - {"path", "format", "options"}):
            raise ConfigError(f"a source has no {', '.join(unknown)}; use path, format, options")
        paths = _paths(described.get("path"))
        kind = described.get("format")
        options = described.get("options") or {}
        if not isinstance(options, Mapping):
            raise ConfigError(f"source options are {options!r}; give names and values")
        access = options_of(settings or {})
        return cls(
            paths,
            Format.of(str(kind)) if kind else format_of(paths[0], access),
            {str(name): _text(text) for name, text in options.items()},
            access,
            transform=_transform(transform),
        )

    def storage(self, path: str) -> Storage:
        """Of one of the paths, or of a file below it."""
        return source_storage_for(path, self.storage_options)

    def __str__(self) -> str:
        return ", ".join(self.paths)

    def flag(self, name: str, default: bool) -> bool:
        """A boolean option. Raises ConfigError for what is neither true nor false."""
        text = self.options.get(name, str(default)).strip().lower()
        if text not in ("true", "false"):
            raise ConfigError(f"source option {name}={text!r}: expected true or false", option=name)
        return text == "true"

    def local_problem(self) -> ConfigError | InputError | None:
        """The error of the local engine for a source that it has no reader for; None where it has one."""
        name = self.format.value
        if self.format not in LOCAL_OPTIONS:
            return ConfigError(f"the local engine has no {name} source; use the Spark engine", format=name)
        allowed = LOCAL_OPTIONS[self.format]
        if unknown := ", ".join(sorted(set(self.options) - set(allowed))):
            return ConfigError(
                f"the local engine's {name} source has no option {unknown}; it has "
                f"{', '.join(allowed) or 'none'}. The Spark engine takes all of Spark's",
                option=unknown,
            )
        for path in self.paths:
            try:
                normalize(path)
            except HoodieError as error:
                return InputError(f"the local engine can't read {path}: {error.message}", path=path)
        return None

    def no_such(self, detail: str = "") -> SourceNotFound:
        """The error for a path without files."""
        return SourceNotFound(
            f"no such source: {self}{f' ({detail})' if detail else ''}; check the path or the glob. A source "
            "without rows is an existing file without rows",
            source=str(self),
        )

    def unreadable(self, error: Exception | str) -> InputError:
        """The error for files that are not what their format says."""
        lines = str(error).strip().splitlines() or [type(error).__name__]
        unknown = any(_by_suffix(path) is None and "." in os.path.basename(path) for path in self.paths)
        others = "; formats of files are parquet, csv, json, avro and orc" if unknown else ""
        return InputError(
            f"can't read {self} as {self.format.value}: {lines[0]}; check the files, the format and "
            f"options{others}",
            source=str(self),
        )

    def check_no_table(self) -> None:
        """Plain reading of a table's folder would bring old versions of its rows along."""
        if self.format in (Format.TABLE, Format.SQL):
            return
        for path in self.paths:
            if self._is_table(path):
                raise InputError(
                    f"{path} is a Hudi table; read it with the source format 'table'", source=path
                )

    def _is_table(self, path: str) -> bool:
        try:
            place = normalize(path)
            return self.storage(place).exists(f"{place}/.hoodie")
        except HoodieError:
            return False  # who reads it says what is wrong; Spark may see what this process does not


class SourceFile(NamedTuple):
    """A data file; `size` is bytes."""

    path: str
    size: int


def source_files(source: Source) -> dict[str, list[SourceFile]]:
    """Data files by the folder they were found below ("" for files named directly or by a glob), each once.

    Raises InputError for a source without files, and for one that the local engine has no reader for;
    StorageError, and ConfigError of the storage's settings.
    """
    if (problem := source.local_problem()) is not None:
        raise problem
    seen: set[str] = set()
    only = frozenset(source.only)
    found: dict[str, list[SourceFile]] = {}
    for path in source.paths:
        for folder, file in _found(source.storage(path), normalize(path)):
            if file.path not in seen and (not only or file.path in only):
                seen.add(file.path)
                found.setdefault(folder, []).append(file)
    if not found:
        raise source.no_such()
    if gone := sorted(only - seen):
        raise source.no_such(f"{gone[0]} has gone since the source was listed")
    return found


def format_of(path: str, storage_options: Mapping[str, str]) -> Format:
    """By the suffix of the path, or of the first file that it stands for; else parquet. Raises InputError for
    a file that has the suffix of another format.
    """
    if kind := _by_suffix(path):
        return kind
    first = _first_file(path, storage_options)
    if kind := _by_suffix(first):
        return kind
    if what := next((what for suffix, what in _OTHERS.items() if first.lower().endswith(suffix)), ""):
        raise InputError(
            f"{first} is of a format that is not read by its name; {what}. Formats of files are parquet, "
            "csv, json, avro and orc",
            file=first,
        )
    return Format.PARQUET


def _by_suffix(path: str) -> Format | None:
    text = path.rstrip("/").lower()
    return next((kind for suffix, kind in _SUFFIXES.items() if text.endswith(suffix)), None)


def _found(storage: Storage, place: str) -> Iterator[tuple[str, SourceFile]]:
    """Data files with their folders; on this machine folder by folder. A file that the path itself names is
    one, whatever its name.
    """
    if not storage.local:
        for file in storage.find(place):
            if is_data_file(file, place):
                yield file.folder, SourceFile(file.path, file.size)
        return
    if os.path.exists(place) and not os.path.isfile(place) and not os.path.isdir(place):
        raise InputError(
            f"the source {place} is a device or a pipe; write its rows to a file, and give a file, a folder "
            "or a glob",
            source=place,
        )
    matches = [place] if os.path.exists(place) else sorted(glob.glob(place, recursive=True))
    for match in matches:
        folder = match if os.path.isdir(match) else ""
        named = [match] if match == place or _is_data(os.path.basename(match)) else []
        for path in data_files(match) if folder else named:
            yield folder, SourceFile(path, os.path.getsize(path))


def data_files(folder: str) -> Iterator[str]:
    """Files below a folder of this machine, sorted, without those whose name starts with `_` or `.`."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if _is_data(name))
        yield from (os.path.join(place, name) for name in sorted(names) if _is_data(name))


def is_data_file(file: Found, place: str) -> bool:
    """Is a file that `Storage.find` found at a place one of a source's."""
    below = file.path[len(file.folder) :] if file.folder else file.path.rpartition("/")[2]
    return file.path == place or all(_is_data(name) for name in below.split("/") if name)


def _is_data(name: str) -> bool:
    return not name.startswith((".", "_")) or "=" in name


def _first_file(path: str, storage_options: Mapping[str, str]) -> str:
    try:
        files = _found(source_storage_for(path, storage_options), normalize(path))
        return next(files, ("", SourceFile("", 0)))[1].path
    except (HoodieError, OSError):
        return ""  # who reads it says what is wrong


def _paths(value: Any) -> tuple[str, ...]:
    paths = (value,) if isinstance(value, str) else value
    if not isinstance(paths, Sequence) or not paths:
        raise InputError(f"the source's path is {value!r}; name a file, a folder or a glob")
    for path in paths:
        if not isinstance(path, str) or not path.strip():
            raise InputError(f"the source's path is {path!r}; name a file, a folder or a glob")
    return tuple(paths)


def _transform(transform: Any) -> str | Function:
    if transform is None:
        return ""
    if callable(transform):
        function: Function = transform
        return name_of(function) or function
    if not isinstance(transform, str) or not transform.strip():
        raise ConfigError(
            f"transform is {transform!r}; give one SELECT, such as 'select * from source', or a function"
        )
    return transform


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
