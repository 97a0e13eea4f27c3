"""Actions on a table whose metadata table is kept up to date, made to fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hoodie
from hoodie.timeline.time import InstantTime
from tests.crash.clustering import NO_PACKING, SECOND, SORTED, Clustering, many_rows
from tests.crash.participants import rollback
from tests.crash.scenarios import (
    BASE,
    CHANGES,
    LOGGED,
    MOR_OPTIONS,
    NO_ROWS,
    OPTIONS,
    SCENARIOS,
    Compaction,
    Kit,
    Row,
    Scenario,
    run,
)
from tests.crash.services import SETTINGS, Answer, Service
from tests.crash.undo import MANUAL, THREE, TWO, commits, scenario, upserted
from tests.support.metadata import INDEXED
from tests.support.metadata import KEPT as ON
from tests.support.record_index import FEW_GROUPS

KEPT = {**OPTIONS, **MANUAL, **ON}
MOR_KEPT = {**MOR_OPTIONS, **MANUAL, **ON}
#: it is compacted by the write after this many
_OFTEN = {"hoodie.metadata.compact.max.delta.commits": "2"}
_DUE = {**KEPT, **_OFTEN}
#: file names have random parts, so more file groups would be written to by chance
_STATISTICS = {
    **INDEXED,
    "hoodie.metadata.index.column.stats.file.group.count": "1",
    "hoodie.metadata.index.bloom.filter.file.group.count": "1",
}
_INDEXED = {**KEPT, **_STATISTICS}
_DROPPED = {**_INDEXED, "hoodie.metadata.index.column.stats.enable": "false"}
_LIKE = ("upsert", "kept_upsert")
_ASKING = {**FEW_GROUPS, **_STATISTICS, "hoodie.index.type": "RECORD_INDEX"}
_LOCATED = {**KEPT, **_ASKING}
_MOR_LOCATED = {**MOR_KEPT, **_ASKING}
_CLUSTERED = {**NO_PACKING, **MANUAL, **ON, **_ASKING}
_ALL = ("bloom_filters", "column_stats", "files", "record_index")


def kept(kit: Kit, path: Path) -> None:
    for batch in THREE:
        run(path, batch, options=KEPT)


def without(kit: Kit, path: Path) -> None:
    for batch in THREE:
        run(path, batch, options={**OPTIONS, **MANUAL})


def located(kit: Kit, path: Path) -> None:
    for batch in THREE:
        run(path, batch, options=_LOCATED)


def located_logs(kit: Kit, path: Path) -> None:
    for batch in TWO:
        run(path, batch, options=_MOR_LOCATED)


def located_files(kit: Kit, path: Path) -> None:
    """Two in each of two partitions."""
    for batch in (BASE, SECOND):
        run(path, batch, options=_CLUSTERED)


def logs(kit: Kit, path: Path) -> None:
    for batch in TWO:
        run(path, batch, options=MOR_KEPT)


def indexed(kit: Kit, path: Path) -> None:
    for batch in THREE:
        run(path, batch, options=_INDEXED)


def indexed_logs(kit: Kit, path: Path) -> None:
    for batch in TWO:
        run(path, batch, options={**MOR_KEPT, **_STATISTICS})


def rows(kit: Kit) -> list[Row]:
    return upserted(*THREE)


def two(kit: Kit) -> list[Row]:
    return upserted(BASE, LOGGED)


def clean(path: str | Path) -> list[Any]:
    return [hoodie.clean_table(str(path), options={**SETTINGS, **ON})]


def taken_back(path: str | Path) -> Any:
    return rollback(path, ON)


def restore(path: str | Path) -> Any:
    return hoodie.restore_table(str(path), InstantTime(commits(path)[0]), options=ON)


def located_restore(path: str | Path) -> Any:
    return hoodie.restore_table(str(path), InstantTime(commits(path)[0]), options={**ON, **_ASKING})


def index(mode: str, indexes: str | None = None) -> Callable[[str | Path], list[Any]]:
    """`hoodie index`, with the numbers of file groups that the table's own writes give."""
    settings = {key: value for key, value in _ASKING.items() if key.endswith("count")}
    return lambda path: [hoodie.index_table(str(path), mode, indexes, options=settings)]


def planned(kit: Kit, path: Path) -> None:
    kept(kit, path)
    hoodie.index_table(str(path), "schedule", "column_stats,record_index")


@dataclass(frozen=True, eq=False)
class Indexing(Service):
    """Indexes made, dropped or made anew, as a person asks for it. `left`: the table's indexes in the end.
    `by_writer`: a write finishes what was begun, and not the same call.
    """

    left: tuple[str, ...] = _ALL
    by_writer: bool = field(default=False, kw_only=True)

    def again(self, path: str | Path, committed: bool) -> Answer:  # type: ignore[override]
        return Answer([run(path, NO_ROWS, options=self.options)]) if self.by_writer else self.run(path)


METADATA = {
    item.name: item
    for item in (
        Scenario("kept_upsert", kept, CHANGES, rows, options=KEPT, like=("upsert",)),
        Scenario("kept_first", None, BASE, lambda kit: None, options=KEPT, like=("first", "kept_upsert")),
        Scenario("kept_made", without, CHANGES, rows, options=KEPT, like=("kept_upsert",)),
        Scenario("kept_compacted", kept, CHANGES, rows, options=_DUE, like=("kept_upsert",)),
        Scenario("kept_delta", logs, CHANGES, two, options=MOR_KEPT, like=("mor_upsert", "kept_upsert")),
        Compaction(
            "kept_compaction",
            logs,
            NO_ROWS,
            two,
            options=MOR_KEPT,
            more=ON,
            like=("compact", "kept_upsert"),
        ),
        Service(
            "kept_clean", kept, NO_ROWS, rows, options=KEPT, service=clean, like=("clean", "kept_upsert")
        ),
        scenario(
            "kept_rollback",
            kept,
            taken_back,
            THREE,
            TWO,
            options=KEPT,
            like=("rollback_commit", "kept_upsert"),
        ),
        scenario("kept_restore", kept, restore, THREE, TWO, (BASE,), options=KEPT, like=("restore_commits",)),
        Scenario("located_upsert", located, CHANGES, rows, options=_LOCATED, like=_LIKE),
        Scenario("located_made", without, CHANGES, rows, options=_LOCATED, like=("kept_made", *_LIKE)),
        Scenario("located_delta", located_logs, CHANGES, two, options=_MOR_LOCATED, like=("kept_delta",)),
        scenario(
            "located_rollback", located, taken_back, THREE, TWO, options=_LOCATED, like=("kept_rollback",)
        ),
        Scenario("indexed_upsert", indexed, CHANGES, rows, options=_INDEXED, like=_LIKE),
        Scenario("indexed_made", kept, CHANGES, rows, options=_INDEXED, like=("kept_made",)),
        Scenario("indexed_dropped", indexed, CHANGES, rows, options=_DROPPED, like=_LIKE),
        Scenario(
            "indexed_compacted",
            indexed,
            CHANGES,
            rows,
            options={**_INDEXED, **_OFTEN},
            like=("kept_compacted",),
        ),
        Scenario(
            "indexed_delta",
            indexed_logs,
            CHANGES,
            two,
            options={**MOR_KEPT, **_STATISTICS},
            like=("kept_delta",),
        ),
        Service(
            "indexed_clean", indexed, NO_ROWS, rows, options=_INDEXED, service=clean, like=("kept_clean",)
        ),
        scenario(
            "indexed_rollback", indexed, taken_back, THREE, TWO, options=_INDEXED, like=("kept_rollback",)
        ),
        scenario(
            "located_restore",
            located,
            located_restore,
            THREE,
            TWO,
            (BASE,),
            options=_LOCATED,
            like=("kept_restore",),
        ),
        scenario(
            "located_delta_restore",
            located_logs,
            located_restore,
            TWO,
            (BASE,),
            options=_MOR_LOCATED,
            like=("located_restore", "restore_deltas"),
        ),
        Compaction(
            "located_compaction",
            located_logs,
            NO_ROWS,
            two,
            options=_MOR_LOCATED,
            more={**ON, **_ASKING},
            like=("kept_compaction",),
        ),
        Clustering(
            "located_clustering",
            located_files,
            NO_ROWS,
            many_rows,
            options=_CLUSTERED,
            settings={**SORTED, **MANUAL, **ON, **_ASKING},
            like=("cluster_schedule", "cluster_execute", "located_upsert"),
        ),
        Indexing(
            "index_created",
            without,
            NO_ROWS,
            rows,
            options={**OPTIONS, **MANUAL},
            service=index("create", "column_stats,bloom_filters,record_index"),
            like=("kept_made", "located_made"),
        ),
        Indexing(
            "index_beside",
            planned,
            NO_ROWS,
            rows,
            options=KEPT,
            service=index("execute"),
            left=("column_stats", "files", "record_index"),
            like=("index_created",),
        ),
        Indexing(
            "index_rebuilt",
            located,
            NO_ROWS,
            rows,
            options=_LOCATED,
            service=index("rebuild"),
            by_writer=True,
            like=("located_made",),
        ),
        Indexing(
            "index_rebuilt_some",
            located,
            NO_ROWS,
            rows,
            options=_LOCATED,
            service=index("rebuild", "column_stats,record_index"),
            by_writer=True,
            like=("located_made", "index_rebuilt"),
        ),
        Indexing(
            "index_dropped",
            located,
            NO_ROWS,
            rows,
            options=KEPT,
            service=index("drop", "column_stats,record_index"),
            left=("bloom_filters", "files"),
            like=("indexed_dropped",),
        ),
        Indexing(
            "index_dropped_all",
            located,
            NO_ROWS,
            rows,
            options=KEPT,
            service=index("drop"),
            left=(),
            like=("index_dropped",),
        ),
    )
}
SCENARIOS.update(METADATA)
