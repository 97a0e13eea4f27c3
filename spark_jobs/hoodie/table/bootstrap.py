"""The files that the rows of a bootstrapped table lie in (Apache Hudi 0.15.0 HFileBootstrapIndex).

A metadata-only bootstrap gives each file of another data set a skeleton, a base file of the table with the
meta columns alone, and keeps the pairs in an index. A file group is pointed there until its first rewrite.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

from hoodie.codec.avro import read_record
from hoodie.errors import TableError
from hoodie.format.hfile import HFileReader
from hoodie.format.hfile_cells import pairs
from hoodie.format.names import BaseFileName, join
from hoodie.storage import Storage
from hoodie.table import properties
from hoodie.table.allowed_folders import allowed_source
from hoodie.table.partition import partition_texts
from hoodie.table.properties import BOOTSTRAP_BASE_PATH, META_FOLDER
from hoodie.table.view import BaseFile, FileSlice
from hoodie.timeline.instant import METADATA_BOOTSTRAP
from hoodie.timeline.models.clustering import SliceInfo
from hoodie.timeline.models.compaction import CompactionOperation

#: a file slice of a plan
Planned = TypeVar("Planned", SliceInfo, CompactionOperation)

INDEX_CLASS = "hoodie.bootstrap.index.class"
INDEX_ENABLED = "hoodie.bootstrap.index.enable"

_FILE_IDS = ".aux/.bootstrap/.fileids/00000000-0000-0000-0000-000000000000-0_1-0-1_00000000000001.hfile"
_INDEX_INFO = b"INDEX_INFO"
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?(?=/)")


@dataclass(frozen=True)
class Source:
    """What a skeleton's rows lie in: row i of the skeleton is row i of this file, which is below `root`.

    `size` is that of the file when it was bootstrapped. `values` are the partition columns' texts in the
    skeleton's path, None: null.
    """

    root: str
    path: str
    size: int
    values: Mapping[str, str | None]


def source_of(storage: Storage, skeleton: BaseFile) -> Source:
    """Looks the skeleton up in the index of its table.

    The index contains a file's place below the data set that was bootstrapped; the table's properties
    contain the place of that data set, and no file outside it is returned. Raises TableError.
    """
    base_path = skeleton.base_path
    props = properties.load(storage, base_path)
    place = props.get(BOOTSTRAP_BASE_PATH)
    if not place:
        _refuse(skeleton, f"the table's properties have no {BOOTSTRAP_BASE_PATH}, which says where it is")
    top = allowed_source(storage, base_path, place)
    if (props.get(INDEX_ENABLED) or "true").lower() != "true" or "NoOp" in (props.get(INDEX_CLASS) or ""):
        _refuse(skeleton, f"the table's properties switch the index off ({INDEX_ENABLED}, {INDEX_CLASS})")
    index = f"{base_path}/{META_FOLDER}/{_FILE_IDS}"
    try:
        with HFileReader.open(storage, index) as reader:
            key = f"part={skeleton.partition};fileid={skeleton.file_id}".encode()
            info, entry = reader.info.get(_INDEX_INFO), dict(pairs(reader.get([key]))).get(key)
    except FileNotFoundError:
        _refuse(skeleton, f"the index {index} is not there")
    if info is None or entry is None:
        _refuse(skeleton, f"the index {index} does not know it")
    root = _record("HoodieBootstrapIndexInfo", info, index)["bootstrapBasePath"] or ""
    status = _record("HoodieBootstrapFilePartitionInfo", entry, index)["bootstrapFileStatus"] or {}
    uri = (status.get("path") or {}).get("uri") or ""
    relative = _below(root, uri) or _below(place, uri)
    if relative is None:
        _refuse(skeleton, f"the index {index} names {uri}, which is not below {root or place}")
    size = int(status.get("length") or 0)
    return Source(top, f"{top}/{relative}", size, partition_texts(props, skeleton.partition))


def check_sources(storage: Storage, slices: Iterable[FileSlice]) -> None:
    """Raises TableError where slices have their rows outside the table and the caller does not allow that."""
    skeleton = next((item.base for item in slices if item.base and item.base.skeleton), None)
    if skeleton is not None and (
        place := properties.load(storage, skeleton.base_path).get(BOOTSTRAP_BASE_PATH)
    ):
        allowed_source(storage, skeleton.base_path, place)


def with_source_size(storage: Storage, item: FileSlice) -> FileSlice:
    """The slice; the size of a skeleton is that of its rows."""
    if item.base is None or not item.base.skeleton:
        return item
    return replace(item, base=replace(item.base, size=item.base.size + source_of(storage, item.base).size))


def with_source(storage: Storage, base_path: str, item: Planned) -> Planned:
    """A plan's slice, which says where the rows of its base file lie if not in that file."""
    parsed = BaseFileName.parse(item.base_name or "")
    if parsed is None or parsed.instant != METADATA_BOOTSTRAP:
        return item
    partition = item.partition_path
    path = join(base_path, partition, str(parsed))
    skeleton = BaseFile(partition, path, str(parsed), parsed.file_id, parsed.instant, 0)
    return replace(item, bootstrap_file=f"file:{source_of(storage, skeleton).path}")


def _below(root: str, uri: str) -> str | None:
    """The rest of `uri` below `root`, whatever their schemes; None where it is not below."""
    top, path = (posixpath.normpath(_SCHEME.sub("", text)) for text in (root, uri))
    if not root or not path.startswith(top.rstrip("/") + "/"):
        return None
    return path[len(top.rstrip("/")) + 1 :]


def _record(name: str, data: bytes, index: str) -> dict[str, Any]:
    try:
        return read_record(name, data)
    except TableError as error:
        raise TableError(
            f"{index} is damaged ({error.message}); restore it from a copy", path=index
        ) from None


def _refuse(skeleton: BaseFile, why: str) -> NoReturn:
    raise TableError(
        f"{skeleton.path} holds meta columns only, and the file with its rows can't be found: {why}; restore "
        "it, or use the table with Apache Hudi",
        path=skeleton.path,
    )
