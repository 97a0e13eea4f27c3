"""What must hold for a table, whatever happened to its writers."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from hudi import HudiReadOptions, HudiTableBuilder

import hoodie
from hoodie.errors import TableNotFound
from hoodie.format.log_block import BlockType
from hoodie.format.log_file import LogFileReader
from hoodie.format.names import LogFileName
from hoodie.storage.local import TMP_SUFFIX, LocalStorage
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from hoodie.timeline.models.rollback import RollbackMetadata, RollbackPlan
from tests.support.metadata import disagreements, has_metadata_table

STORAGE = LocalStorage()
Rows = Counter[tuple[Any, ...]]
COLUMNS = ("id", "ts", "region", "val", "name")


def counted(rows: Sequence[dict[str, Any]]) -> Rows:
    return Counter(tuple(row.get(name) for name in COLUMNS) for row in rows)


def our_rows(path: str | Path) -> Rows | None:
    """What our reader sees; None: there is no table."""
    try:
        table = hoodie.read_table(str(path), meta=False)
    except TableNotFound:
        return None
    return _counted_table(table)


def hudi_rs_rows(path: str | Path) -> Rows:
    batches = HudiTableBuilder.from_base_uri(str(path)).build().read(HudiReadOptions())
    found: Rows = Counter()
    for batch in batches:
        found += _counted_table(pa.table(batch))
    return found


def _counted_table(table: pa.Table) -> Rows:
    if not table.num_rows:
        return Counter()
    return Counter(zip(*(table.column(name).to_pylist() for name in COLUMNS), strict=True))


def committed(path: str | Path) -> frozenset[str]:
    """Times of completed commits."""
    with contextlib.suppress(TableNotFound):
        return frozenset(str(instant.time) for instant in Timeline.load(str(path), STORAGE).commits())
    return frozenset()


def _of_rollback(path: str, timeline: Timeline) -> bool:
    """Is it a log with nothing but the command block of a rollback that was completed?"""
    if path.endswith(".parquet"):
        return False
    times = {instant.time for instant in timeline.filter([Action.ROLLBACK], completed=True)}
    with LogFileReader(STORAGE, path) as reader:
        found = list(reader.blocks())
    return len(found) == 1 and found[0].type is BlockType.COMMAND and found[0].instant in times


def litter(path: Path) -> list[Path]:
    """Markers, heartbeats and temporaries."""
    folders = (".hoodie/.temp/*", ".hoodie/.heartbeat/*", f"**/*{TMP_SUFFIX}")
    return [found for pattern in folders for found in path.glob(pattern)]


def leftovers(path: str | Path) -> list[str]:
    """Everything on storage that does not belong there once no write is going on, and what lacks."""
    base = str(path)
    wrong: list[str] = []
    timeline = Timeline.load(base, STORAGE)
    wrong += [f"pending {instant}" for instant in timeline.pending()]
    expected: dict[str, int] = {}
    for instant in timeline.commits():
        for stat in timeline.commit(instant, STORAGE).write_stats:
            expected |= {str(stat.path): stat.file_size_in_bytes, **(stat.cdc_stats or {})}
    known = {timeline.name(instant) for instant in timeline} | set(timeline.mtimes) | {"hoodie.properties"}
    places = {".hoodie", timeline.layout.folder}
    for folder, folders, files in os.walk(base):
        relative = os.path.relpath(folder, base)
        if relative == ".hoodie/metadata" and has_metadata_table(base):
            wrong += disagreements(base)
            folders.clear()
            continue
        if relative in (".hoodie/.temp", ".hoodie/.heartbeat", ".hoodie/metadata"):
            wrong += [f"{relative}/{name}" for name in folders + files]
            folders.clear()
            continue
        for name in files:
            file = os.path.normpath(os.path.join(relative, name))
            if name.endswith(".crc"):  # of a file that Hudi wrote
                if name[1:-4] not in files:
                    wrong.append(file)
            elif name.endswith(TMP_SUFFIX) or (relative in places and name not in known):
                wrong.append(file)
            elif name.endswith(".parquet") or LogFileName.parse(name):
                size, path_ = expected.pop(file, None), os.path.join(folder, name)
                if size != os.path.getsize(path_) and not _of_rollback(path_, timeline):
                    wrong.append(f"{file}, {size} bytes in the commits")
    wrong += [f"missing {file}" for file in expected]
    for instant in timeline.filter([Action.ROLLBACK], completed=True):
        done = RollbackMetadata.from_bytes(timeline.read(instant, STORAGE))
        asked = RollbackPlan.from_bytes(timeline.plan(instant, STORAGE))
        if asked.instant not in done.instants or set(done.commits) & committed(base):
            wrong.append(f"{instant} rolled back {done.commits}, asked for {asked.instant}")
    return wrong
