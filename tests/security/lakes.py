"""Lakes with a table of each kind, another table and a folder that belongs to somebody."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.security.corpus import ABOUT, Lake
from tests.support.later_tables import new_tables_of
from tests.unit.services.clean_support import MANUAL, MOR, written

#: a metadata table is kept
KEPT: Mapping[str, str] = {"hoodie.metadata.enable": "true"}
RINGED: Mapping[str, Any] = {
    **MOR,
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "2",
}
#: the options of the writes of each kind
KINDS: Mapping[str, Mapping[str, Any]] = {
    "cow": MANUAL,
    "mor": MOR,
    "kept": {**MANUAL, **KEPT},
    "ringed": RINGED,
}


def make_lake(path: Path, kind: str) -> Path:
    """Its tables are of version 6, as the files that the cases forge."""
    lake = Lake(path)
    lake.victim.mkdir(parents=True)
    for name in ("a.parquet", "module.py", ".f_1.log.1_0-0-0"):
        (lake.victim / name).write_text("precious")
    with new_tables_of(6):
        written(path / "other", 1)
        written(lake.table, 4, KINDS[kind])
    (path / ABOUT).write_text(" ".join([kind, *lake.commits()]))
    return path
