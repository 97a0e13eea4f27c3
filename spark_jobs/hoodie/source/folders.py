"""Columns in the names of folders, such as year=2024, for formats whose reader does not know them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from hoodie.errors import InputError
from hoodie.source import SourceFile

_NULL = "__HIVE_DEFAULT_PARTITION__"
_INT32 = range(-(1 << 31), 1 << 31)


class FolderColumn(NamedTuple):
    name: str
    type: pa.DataType
    text: str | None

    def values(self, count: int) -> Any:
        """A column of that many rows."""
        value: Any = pa.scalar(self.text, pa.string()).cast(self.type)
        return pa.repeat(value, count)


def folder_columns(
    texts: Mapping[str, Mapping[str, str | None]], known: pa.Schema | None
) -> dict[str, tuple[FolderColumn, ...]]:
    """The columns of each file by its path; `texts` are those of its folders.

    A column that the table has takes its type; others are int where all values are, else text. Raises
    InputError for a value that is not of the table's type.
    """
    types: dict[str, pa.DataType] = {}
    for name in dict.fromkeys(name for found in texts.values() for name in found):
        values = [found[name] for found in texts.values() if name in found]
        types[name] = known.field(name).type if known is not None and name in known.names else _type(values)
    columns = {
        path: tuple(FolderColumn(name, types[name], text) for name, text in found.items())
        for path, found in texts.items()
    }
    for path, found in columns.items():
        for column in found:
            try:
                column.values(1)
            except pa.ArrowException as error:
                raise InputError(
                    f"{path}: the folder {column.name}={column.text} has no {column.type}, which the table's "
                    f"column {column.name!r} is; rename the folder",
                    path=path,
                ) from error
    return columns


def folder_texts(below: str) -> dict[str, str | None]:
    """The values in the names of the folders of a path."""
    found: dict[str, str | None] = {}
    for folder in below.split("/")[:-1]:
        name, equals, text = folder.partition("=")
        if equals and name:
            found[unquote(name)] = None if text == _NULL else unquote(text)
    return found


def texts_below(found: Mapping[str, Sequence[SourceFile]]) -> dict[str, dict[str, str | None]]:
    """The values in the names of the folders below each folder of a source, by the path of the file."""
    return {
        file.path: folder_texts(file.path[len(folder) :]) if folder else {}
        for folder, files in found.items()
        for file in files
    }


def check_not_twice(path: str, columns: Sequence[str], folders: Iterable[str]) -> None:
    """Raises InputError for a column that a file, with the names of its folders, has more than once."""
    names = [*columns, *folders]
    if len({*names}) == len(names):
        return
    twice = next(name for name in names if names.count(name) > 1)
    why = " (a folder of its path has its name, too)" if columns.count(twice) == 1 else ""
    raise InputError(
        f"{path} has the column {twice!r} more than once{why}; rename one of them", file=path, column=twice
    )


def _type(values: Sequence[str | None]) -> pa.DataType:
    texts = [text for text in values if text is not None]
    whole = texts and all(re.fullmatch(r"-?\d{1,10}", text) and int(text) in _INT32 for text in texts)
    return pa.int32() if whole else pa.string()
