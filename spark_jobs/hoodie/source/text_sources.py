"""The files of sources of text, each with the piece that reads its format."""

from __future__ import annotations

import pyarrow as pa

from hoodie.errors import ConfigError
from hoodie.source import Format, Source, source_files
from hoodie.source.csv_file import CsvFile
from hoodie.source.folders import folder_columns, texts_below
from hoodie.source.text import JsonFile, TextFile


def text_files(source: Source, known: pa.Schema | None) -> list[TextFile]:
    """The files of a CSV or JSON source. Raises InputError, ConfigError."""
    csv = source.format is Format.CSV
    if csv and known is not None and not source.flag("header", True):
        raise ConfigError(
            "a CSV source without header has no column names; add a header line", option="header"
        )
    found = source_files(source)
    folders = folder_columns(texts_below(found), known)
    kind = CsvFile if csv else JsonFile
    lacks = "without even a header" if csv else "so its columns are unknown"
    read: list[TextFile] = []
    for file in (file for files in found.values() for file in files):
        if file.size == 0:
            raise source.no_such(f"{file.path} is empty, {lacks}")
        read.append(kind(source, file.path, file.size, known, folders=folders[file.path]))
    return read
