"""Tables as Apache Hudi's indexer leaves them while it is at work."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from hoodie.storage.local import LocalStorage
from hoodie.table import properties

STORAGE = LocalStorage()


def wound_back(path: Path, time: str, index: str) -> Callable[[], None]:
    """As it was when the indexer had made its file groups, and filled none; what makes it done."""
    folder = path / ".hoodie/metadata"
    [filled] = folder.glob(".hoodie/*004.deltacommit")
    hidden = [filled, path / f".hoodie/{time}.indexing", *folder.glob(f"{index}/*004.hfile")]
    aside = path.with_name(f"{path.name}-aside")
    aside.mkdir()
    for number, file in enumerate(hidden):
        file.rename(aside / str(number))
    beats = folder / ".hoodie/.heartbeat"
    beats.mkdir(exist_ok=True)
    (beats / filled.name.removesuffix(".deltacommit")).touch()
    begin = {properties.METADATA_PARTITIONS: "files", properties.METADATA_PARTITIONS_INFLIGHT: index}
    properties.update(STORAGE, str(path), begin)

    def put_back() -> None:
        shutil.rmtree(beats)
        for number, file in enumerate(hidden):
            (aside / str(number)).rename(file)
        done = {
            properties.METADATA_PARTITIONS: f"files,{index}",
            properties.METADATA_PARTITIONS_INFLIGHT: None,
        }
        properties.update(STORAGE, str(path), done)

    return put_back
