"""What the package does with a table, one function for each thing, over which the corpus runs."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import hoodie
from airflow_hoodie.commits import TableReader
from airflow_hoodie.conditions import COMMITS, CommitFilter, condition
from airflow_hoodie.watch_offset import WatchOffset, new_commits
from hoodie.cli.command import main
from hoodie.serve.page import Page
from hoodie.storage import storage_for
from hoodie.table.doctor import check_table
from hoodie.timeline.active import Timeline
from hoodie.timeline.time import InstantTime
from hoodie.timeline.token_store import TokenStore
from tests.security.corpus import NEW, Lake
from tests.security.lakes import KEPT, KINDS
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows

SERVICES = {
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.compact.inline.max.delta.commits": "1",
}


LISTED = {"hoodie.metadata.enable": "false"}


def rows_of(table: Any) -> list[str]:
    """Rows without what differs from run to run, equal ones once, with their number: a bomb has millions."""
    names = [name for name in table.column_names if not name.startswith("_hoodie_")]
    counted = table.select(names).group_by(names).aggregate([([], "count_all")])
    return sorted(map(repr, counted.to_pylist()))


def _read(lake: Lake, **how: Any) -> list[str]:
    return rows_of(hoodie.read_table(str(lake.table), **how))


def _agreed(lake: Lake) -> list[str]:
    """By the metadata table, and by the folders, which have the same rows."""
    rows = _read(lake)
    assert rows == _read(lake, options=LISTED), "the metadata table gives other rows than the folders"
    return rows


def _after(action: Callable[[Lake], object]) -> Callable[[Lake], list[str]]:
    """The rows after an action that changes the table."""

    def run(lake: Lake) -> list[str]:
        action(lake)
        return _agreed(lake) if lake.kind == "kept" else _read(lake)

    return run


def _write(operation: str) -> Callable[[Lake], list[str]]:
    def run(lake: Lake) -> object:
        rows = as_table(small_rows(range(6), 9), SMALL_SCHEMA)
        return hoodie.write_table(rows, str(lake.table), operation=operation, options=KINDS[lake.kind])

    return _after(run)


def _services(lake: Lake) -> None:
    options = {**SERVICES, **(KEPT if lake.kind == "kept" else {})}
    for service in hoodie.run_services(str(lake.table), options=options).services.values():
        told = service.get("error", {})
        assert told.get("code") != "job", told


def _cli(*arguments: str) -> Callable[[Lake], object]:
    """A command by its JSON; `TABLE` stands for the table."""

    def run(lake: Lake) -> None:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            main([*(text.replace("TABLE", str(lake.table)) for text in arguments), "--json"])
        error = json.loads(out.getvalue()).get("error", {})
        assert error.get("code") not in ("internal", "storage", "usage"), error

    return run


def _logs(lake: Lake) -> None:
    for log in sorted(lake.table.rglob(".*.log.*"))[-2:]:
        _cli("log", str(log), "--records")(lake)


def _page(lake: Lake) -> None:
    page = Page(lambda: {"t": str(lake.table)})
    listed = [] if lake.meta.is_symlink() else lake.meta.glob("*.*")  # the test reads nothing outside
    times = {path.name.split(".")[0] for path in listed if path.name[0].isdigit()}
    for query in ("", "archived=true"):
        page.get("tables", query)
        page.get("tables/t/instants", query)
        for time in times:
            page.get(f"tables/t/instants/{time}", query)


def _sensors(lake: Lake) -> None:
    reader = TableReader(str(lake.table))
    timeline = reader.poll()
    conditions: dict[str, dict[str, Any]] = {
        "commits": {"partition": "eu", "min_commits": 9},
        "partitions": {"partitions": ["eu", "nowhere"]},
        "freshness": {"max_age": 1.0},
    }
    for kind, given in conditions.items():
        condition(kind, given).find(reader, timeline)


def _watcher(lake: Lake) -> None:
    reader = TableReader(str(lake.table))
    which = CommitFilter.of(COMMITS, partition="eu")
    found = new_commits(reader, reader.poll(), WatchOffset(), which)
    json.dumps(found.events)


def _tokens(lake: Lake) -> None:
    storage = storage_for(str(lake.table))
    timeline = Timeline.load(str(lake.table), storage)
    store = TokenStore(timeline, storage)
    found = store.find("token")
    store.later("d/t/-1/2024-01-01/2024-01-02", ["eu"])
    json.dumps([found.result("t", "p") if found else None, len(list(store.unsettled()))])


def _options(**more: str) -> Mapping[str, str]:
    return {**SERVICES, **more}


Action = Callable[[Lake], object]
ACTIONS: dict[str, Action] = {
    "read": _read,
    "read_optimized": lambda lake: _read(lake, query="read_optimized"),
    "incremental": lambda lake: _read(lake, query="incremental", begin="earliest"),
    "time_travel": lambda lake: _read(lake, as_of=lake.first),
    "where": lambda lake: _read(lake, where="region = 'eu' and id < 'k00010'"),
    "timeline": _cli("timeline", "--table", "TABLE"),
    "archived": _cli("timeline", "--table", "TABLE", "--archived"),
    "files": _cli("files", "--table", "TABLE"),
    "logs": _logs,
    "doctor": lambda lake: check_table(str(lake.table), deep=True) and None,
    "plan": _cli("services", "plan", "--table", "TABLE"),
    "page": _page,
    "sensors": _sensors,
    "watcher": _watcher,
    "tokens": _tokens,
    "dry_clean": lambda lake: len(hoodie.clean_table(str(lake.table), options=SERVICES, dry_run=True).reason),
    "dry_restore": lambda lake: (
        hoodie.restore_table(str(lake.table), InstantTime(lake.first), dry_run=True).status
    ),
    "upsert": _write("upsert"),
    "insert": _write("insert"),
    "bulk_insert": _write("bulk_insert"),
    "delete": _write("delete"),
    "overwrite": _write("insert_overwrite"),
    "overwrite_table": _write("insert_overwrite_table"),
    "delete_partition": _after(lambda lake: hoodie.delete_partitions(str(lake.table), ["eu"])),
    "clean": _after(lambda lake: hoodie.clean_table(str(lake.table), options=SERVICES)),
    "archive": _after(lambda lake: hoodie.archive_table(str(lake.table), options=SERVICES)),
    "rollback": _after(lambda lake: hoodie.rollback_table(str(lake.table), lake.last)),
    "rollback_new": lambda lake: hoodie.rollback_table(str(lake.table), NEW).status,
    "restore": _after(lambda lake: hoodie.restore_table(str(lake.table), InstantTime(lake.first))),
    "savepoint": _after(lambda lake: hoodie.savepoint_table(str(lake.table))),
    "unsave": _after(lambda lake: hoodie.delete_savepoint(str(lake.table), InstantTime(lake.first))),
    "cancel": lambda lake: hoodie.cancel_plan(str(lake.table), NEW).status,
    "compact": _after(lambda lake: hoodie.compact_table(str(lake.table), options=SERVICES)),
    "cluster": _after(lambda lake: hoodie.cluster_table(str(lake.table))),
    "services": _after(_services),
}

#: what meets most of the code
CORE = (
    "read",
    "time_travel",
    "doctor",
    "page",
    "tokens",
    "sensors",
    "upsert",
    "clean",
    "rollback_new",
    "services",
)

#: what meets the code of a metadata table that is read and kept
INDEXED: dict[str, Action] = {
    "read": _agreed,
    "where": lambda lake: _read(lake, where="region = 'eu' and id < 'k00010' and ts > 0"),
    "key": lambda lake: _read(lake, where="id = 'k00003'", options={"hoodie.read.record.index": "true"}),
    "time_travel": ACTIONS["time_travel"],
    "explain": lambda lake: hoodie.explain_read(str(lake.table), where="id = 'k00003'") and None,
    "doctor": ACTIONS["doctor"],
    "upsert": ACTIONS["upsert"],
    "delete": ACTIONS["delete"],
    "overwrite": ACTIONS["overwrite"],
    "clean": _after(lambda lake: hoodie.clean_table(str(lake.table), options=_options(**KEPT))),
    "services": ACTIONS["services"],
    "rollback": _after(lambda lake: hoodie.rollback_table(str(lake.table), lake.last)),
    "removed": _after(
        lambda lake: hoodie.write_table(
            as_table(small_rows(range(6), 9), SMALL_SCHEMA),
            str(lake.table),
            options={**KINDS[lake.kind], **LISTED},
        )
    ),
}
#: what meets the code of hash rings
RINGED: dict[str, Action] = {
    **{name: ACTIONS[name] for name in ("read", "upsert", "insert", "delete", "overwrite", "doctor")},
    "cluster": _after(
        lambda lake: hoodie.cluster_table(
            str(lake.table),
            options={
                **KINDS[lake.kind],
                "hoodie.bucket.index.max.num.buckets": "4",
                "hoodie.bucket.index.split.threshold": "0.00000001",
                "hoodie.bucket.index.merge.threshold": "0.000000001",
            },
        )
    ),
    "compact": _after(
        lambda lake: hoodie.compact_table(str(lake.table), options={**KINDS[lake.kind], **SERVICES})
    ),
    "rollback": _after(lambda lake: hoodie.rollback_table(str(lake.table), lake.last)),
}
