"""Files of a source as Spark finds them, and the columns in the names of their folders. No pyspark import.

Spark leaves out files beside such folders, puts a folder's value into a column of the files, and gives such
columns types of its own: here the rules are those of the local engine, and what Spark can't do is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from hoodie.errors import HoodieError, InputError
from hoodie.source import Source
from hoodie.source.folders import folder_columns, folder_texts
from hoodie.source.text_tasks import local_path
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
    every = {_place(path) for path in source.only} or _files(
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
    if lost := every - _files(found):
        raise _outside(min(lost), names)
    types = folder_columns(texts, known)
    return options, {column.name: column.type for own in types.values() for column in own}


def _files(frame: Any) -> set[str]:
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


def refuse_both(source: Source, names: Iterable[str], columns: Iterable[str]) -> None:
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
