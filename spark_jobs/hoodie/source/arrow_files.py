"""Files of sources as Arrow opens them: of this machine, or of a storage. Picklable: tasks open them, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from hoodie.source import Source
from hoodie.storage import source_storage_for


def file_system(source: Source, path: str) -> tuple[pafs.FileSystem, str]:
    """What opens a file of the source, and the file's path there."""
    if "://" not in path:
        return pafs.LocalFileSystem(), path
    scheme, _, rest = path.partition("://")
    return pafs.PyFileSystem(_Files(scheme, source.storage_options)), rest


def open_text(source: Source, path: str) -> Any:
    """The bytes of a file of text, decompressed as its name says."""
    files, place = file_system(source, path)
    return files.open_input_stream(place, compression="detect")


def in_memory(data: bytes) -> Any:
    """Bytes as a file, of a type that Arrow's stubs don't know as one."""
    return pa.BufferReader(data)


class _Files(pafs.FileSystemHandler):
    """Files of the storages of a scheme, to be read; paths are without it."""

    def __init__(self, scheme: str, storage_options: Mapping[str, str]) -> None:
        self._scheme, self._storage_options = scheme, dict(storage_options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Files) and vars(self) == vars(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        return self._scheme

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[pafs.FileInfo]:
        return [self._info(path) for path in paths]

    def open_input_file(self, path: str) -> pa.PythonFile:
        uri = self._uri(path)
        opened: Any = source_storage_for(uri, self._storage_options).open_input(uri)
        return pa.PythonFile(opened, mode="r")

    open_input_stream = open_input_file

    def _info(self, path: str) -> pafs.FileInfo:
        uri = self._uri(path)
        found = source_storage_for(uri, self._storage_options).info(uri)
        if found is None:
            return pafs.FileInfo(path, pafs.FileType.NotFound)
        kind = pafs.FileType.Directory if found.is_dir else pafs.FileType.File
        return pafs.FileInfo(path, kind, size=None if found.is_dir else found.size)

    def _uri(self, path: str) -> str:
        return f"{self._scheme}://{path}"

    def _refuse(self, *_: Any) -> Any:
        raise NotImplementedError("files of sources are read only")

    get_file_info_selector: Any = _refuse
    create_dir: Any = _refuse
    delete_dir: Any = _refuse
    delete_dir_contents: Any = _refuse
    delete_root_dir_contents: Any = _refuse
    delete_file: Any = _refuse
    move: Any = _refuse
    copy_file: Any = _refuse
    open_output_stream: Any = _refuse
    open_append_stream: Any = _refuse
