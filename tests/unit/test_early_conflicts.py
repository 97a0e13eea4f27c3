"""A writer that looks for conflicts early, beside one whose markers are in few files, as Hudi has them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie.concurrency.early_conflict_detection import EarlyConflictDetection
from hoodie.config.key import Config
from hoodie.errors import CommitConflict
from hoodie.table.handle import Table
from hoodie.table.markers import marker_folder
from hoodie.timeline.time import InstantTime
from hoodie.write.transaction import Transaction

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
}
LATER = InstantTime("99990101000000000")


def test_markers_in_few_files(tmp_path: Path) -> None:
    """Of another file group of the partition, or of another partition, they are in nobody's way."""
    path = str(tmp_path / "t")
    hoodie.write_table(pa.table({"id": [1], "part": ["p"]}), path, options=OPTIONS)
    detection = EarlyConflictDetection(interval_ms=60_000, misses=2)
    with Transaction(Table.open(path), Config.of(OPTIONS), utc=False) as writer:
        writer.begin()
        instant = writer.instant
        assert instant is not None
        folder = Path(marker_folder(path, instant))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
        (folder / "MARKERS0").write_text(f"p/one_0-1-2_{instant}.parquet.marker.MERGE\n")
        ref, storage = Table.open(path).ref, Table.open(path).storage
        for partition, file_id in (("p", "other"), ("q", "one")):
            detection.check(ref, storage, LATER, partition, file_id)
        with pytest.raises(CommitConflict, match="one"):
            detection.check(ref, storage, LATER, "p", "one")
