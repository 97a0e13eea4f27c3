"""The questions: what is written, by whom, and what the answer must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

from .workload import ACCOUNTS, SINCE, STATEMENTS, WHERE, Workload, account_of, key_of

UPDATE_DAYS = 3
BYTES_A_ROW = 115
"""Snappy Parquet of the workload's twelve columns and the meta columns, roughly."""


@dataclass(frozen=True)
class Case:
    """One timed operation; `options` reach our writer and Hudi, the others have no such settings."""

    name: str
    operation: str
    workload: Workload
    load_options: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    prepared: tuple[str, ...] = ()
    """Operations that follow the load before anything is timed."""
    table_type: str = "COPY_ON_WRITE"
    session: dict[str, str] = field(default_factory=dict)
    """Spark settings of all contestants."""

    @property
    def base_label(self) -> str:
        """Names the table that the timed operation starts from."""
        kind = () if self.table_type == "COPY_ON_WRITE" else ("mor",)
        upserts = (self.workload.upsert_label,) if self.prepared else (self.workload.base_label,)
        return "-".join((*upserts, *kind, *self.prepared))

    def __post_init__(self) -> None:
        if self.workload.rows % self.workload.days:
            raise SystemExit(
                f"--rows must be a multiple of {self.workload.days} partitions, not {self.workload.rows}"
            )


@dataclass(frozen=True)
class Scenario:
    name: str
    rows: int
    contestants: tuple[str, ...]
    cases: Callable[[int, Late], list[Case]]


class Late(Enum):
    """Where the late twentieth of the daily rows lies, and so how many files a daily upsert rewrites."""

    OLD = "old"
    """Spread over all days before the last three: every file of the table is rewritten."""
    RECENT = "recent"
    """In the last three days, beside the updates: a fifth of the files is touched."""


def daily(rows: int, late_in: Late, days: int = 20) -> Workload:
    """A tenth of the table: half updates of the last three days, nine twentieths a new day, the rest late."""
    batch = rows // 10
    late = batch // 20
    updates = batch // 2
    return Workload(
        rows=rows,
        days=days,
        updates=updates,
        update_days=(days - UPDATE_DAYS, days),
        new=batch - updates - late,
        late=late,
        late_days=(0, days - UPDATE_DAYS) if late_in is Late.OLD else (days - UPDATE_DAYS, days),
    )


def _small_upsert(rows: int, days: int, touched: int) -> Workload:
    """2,000 rows, half updates and half inserts, into the last `touched` partitions."""
    last = (days - touched, days)
    return Workload(rows=rows, days=days, updates=1000, update_days=last, new=0, late=1000, late_days=last)


def _upsert(rows: int, late: Late) -> list[Case]:
    return [Case("upsert", "upsert", daily(rows, late))]


def _large(rows: int, late_in: Late) -> list[Case]:
    """A fortieth of the table, in 200 partitions: half of it updates of the last 20 days, nine twentieths a
    new day, the rest late, in older days or in those that are updated.
    """
    days, updated, batch = 200, 20, rows // 40
    late, updates = batch // 20, batch // 2
    last, old = (days - updated, days), (0, days - updated)
    work = Workload(
        rows=rows,
        days=days,
        updates=updates,
        update_days=last,
        new=batch - updates - late,
        late=late,
        late_days=old if late_in is Late.OLD else last,
    )
    return [Case("large_upsert", "upsert", work)]


def _bulk_insert(rows: int, late: Late) -> list[Case]:
    """From files of one day each, and from files that have rows of all days."""
    work = daily(rows, late)
    return [
        Case("bulk_insert", "bulk_insert", work),
        Case("bulk_insert_mixed", "bulk_insert", replace(work, mixed=True)),
    ]


def _frames(rows: int, late: Late) -> list[Case]:
    """What is saved of DataFrames, which their plans allow: files that are read without Spark (a plain read;
    filters and columns that are computed by Arrow), and keys that are computed before the rows.
    """
    return [*_bulk_insert(rows, late)[:1], *_upsert(rows, late)]


def _merge_on_read(rows: int, late: Late) -> list[Case]:
    """The daily upsert into log files, their compaction, and queries before it: every row and column of the
    snapshot and of the days that were updated, which have the logs, an aggregate, and the base files alone,
    which is what the first costs without any log.

    After one upsert, and after five, which is when a compaction is due by default.

    Packing is off on both sides: a late row that is packed makes both rewrite the base file at once, and
    nothing would be left to log.
    """
    table = {
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.parquet.small.file.limit": "0",
    }
    trigger = "hoodie.compact.inline.max.delta.commits"
    # Apache Hudi's data source compacts by itself when it is due
    never = {trigger: "100"}
    work = daily(rows, late)
    recent = {SINCE: work.first_updated_day}

    def case(name: str, operation: str, *prepared: str, **options: str) -> Case:
        return Case(name, operation, work, table | never, table | options, prepared, "MERGE_ON_READ")

    a_day, five_days = ("upsert",), ("upsert",) * 5
    return [
        case("mor_upsert", "upsert", **never),
        case("mor_compaction_1", "compact", *a_day, **{trigger: "1"}),
        case("mor_compaction_5", "compact", *five_days),
        case("mor_snapshot_1", "snapshot", *a_day),
        case("mor_snapshot_5", "snapshot", *five_days),
        case("mor_recent_1", "recent", *a_day, **recent),
        case("mor_recent_5", "recent", *five_days, **recent),
        case("mor_aggregate_1", "aggregate", *a_day),
        case("mor_aggregate_5", "aggregate", *five_days),
        case("mor_read_optimized_5", "read_optimized", *five_days),
    ]


def _logged(rows: int, late: Late) -> list[Case]:
    """Queries of a merge-on-read table each of whose file slices has logs, so that none is read as it is: a
    tenth of the rows of every day is updated, once and five times.
    """
    every, tenth = (0, 20), rows // 10
    work = Workload(rows=rows, days=20, updates=tenth, update_days=every, new=0, late=0, late_days=every)
    return [
        replace(case, name=case.name.replace("mor_", "logged_"), workload=work)
        for case in _merge_on_read(rows, late)
        if case.operation in ("snapshot", "aggregate")
    ]


def _clustering(rows: int, late: Late) -> list[Case]:
    """Small files of each day sorted into larger ones; of the whole table where it has one partition only."""
    prefix = "hoodie.clustering.plan.strategy."
    small = {"hoodie.parquet.max.file.size": str(4 << 20)}
    options = {prefix + "sort.columns": "account,event_time", prefix + "target.file.max.bytes": str(64 << 20)}
    whole = daily(rows, late, days=4)

    def case(name: str, work: Workload, **more: str) -> Case:
        named = {f"hoodie.layout.optimize.{key}": value for key, value in more.items()}
        return Case(name, "cluster", work, small, options | named)

    return [
        case("clustering_linear", daily(rows, late)),
        case("clustering_hilbert", daily(rows, late), strategy="hilbert"),
        case("clustering_4_partitions", whole),
    ]


def _queries(rows: int, late: Late) -> list[Case]:
    """A thousandth of the rows, by the column that sorted them into small files; one key, and 10,000."""
    prefix = "hoodie.clustering.plan.strategy."
    sorted_ = {prefix + "sort.columns": "account", prefix + "target.file.max.bytes": str(8 << 20)}
    small = {"hoodie.parquet.max.file.size": str(4 << 20), **sorted_}
    work = daily(rows, late, days=4)
    width = ACCOUNTS // 1000
    between = f"account >= {width * 500} AND account < {width * 501}"
    keys = [key_of(number * (rows // 10_000)) for number in range(10_000)]
    in_ = ", ".join(f"'{key}'" for key in keys)

    def case(name: str, where: str) -> Case:
        options, prepared = {WHERE: where}, ("cluster",)
        return Case(name, "selective", work, small, options, prepared)

    return [
        case("query_clustered", between),
        case("lookup_1", f"key = '{keys[5000]}'"),
        case("lookup_10000", f"key IN ({in_})"),
    ]


def _later(rows: int, late_in: Late) -> list[Case]:
    """Queries of a table that Apache Hudi made: with logs, of a key, of the value of a secondary index, and
    of rows that the statistics of partitions tell from others.
    """
    work = replace(daily(rows, late_in), days=20)
    kind = "hoodie.datasource.write.table.type"
    logs = {kind: "MERGE_ON_READ", "hoodie.compact.inline": "false", "hoodie.parquet.small.file.limit": "0"}
    statements = (
        "set hoodie.write.lock.provider=org.apache.hudi.client.transaction.lock.InProcessLockProvider",
        "create table bench using hudi location '{table}'",
        "create index by_account on bench (account)",
    )
    indexed = {STATEMENTS: "\n".join(statements)}
    day = "event_time >= '2024-01-11 00:00:00' AND event_time < '2024-01-12 00:00:00' AND quantity = 77"

    def case(name: str, where: str) -> Case:
        return Case(name, "selective", work, indexed, {WHERE: where}, ("statements",))

    return [
        Case("later_snapshot", "snapshot", work, logs, prepared=("upsert",), table_type="MERGE_ON_READ"),
        Case("later_aggregate", "aggregate", work, logs, prepared=("upsert",), table_type="MERGE_ON_READ"),
        case("later_key", f"key = '{key_of(rows // 2)}'"),
        case("later_secondary", f"account = {account_of(work)}"),
        case("later_partitions", day),
    ]


def _version_9(rows: int, late: Late) -> list[Case]:
    """The daily upsert of both types, a compaction after it, and a MERGE INTO that sets two columns."""
    found = {case.name: case for case in _merge_on_read(rows, late)}
    logged = found["mor_upsert"]
    return [
        *_upsert(rows, late),
        logged,
        found["mor_compaction_1"],
        replace(logged, name="partial_update", operation="merge"),
    ]


def _partitions(rows: int, _: Late) -> list[Case]:
    cases = [
        Case(f"{days}-partitions-5-touched", "upsert", _small_upsert(rows, days, 5))
        for days in (20, 200, 1000, 2000)
    ]
    return [*cases, Case("1000-partitions-1000-touched", "upsert", _small_upsert(rows, 1000, 1000))]


def _scattered(rows: int, _: Late) -> list[Case]:
    """Half of the table's rows are updated, by 200 files that are an input partition each; every one has rows
    of each of 1,000 base files.
    """
    days = (0, 1000)
    work = Workload(
        rows=rows,
        days=1000,
        updates=rows // 2,
        update_days=days,
        new=0,
        late=0,
        late_days=days,
        upsert_files=200,
    )
    a_file_a_task = {"spark.sql.files.openCostInBytes": str(128 << 20)}
    return [Case("200-partitions-over-1000-files", "upsert", work, session=a_file_a_task)]


def _memory(rows: int, _: Late) -> list[Case]:
    """The budget is a tenth of the large file group; the small group shows what a task takes beside it."""
    budget = {"hoodie.memory.merge.max.size": str(rows * BYTES_A_ROW // 10)}
    whole = {"hoodie.parquet.max.file.size": str(8 << 30)}
    cases = []
    for name, size in (("group-of-1x-budget", rows // 10), ("group-of-10x-budget", rows)):
        everything = (0, 1)
        work = Workload(
            rows=size, days=1, updates=size // 10, update_days=everything, new=0, late=0, late_days=everything
        )
        cases.append(Case(name, "upsert", work, load_options=whole, options=whole | budget))
    return cases


HUDI = ("hudi-0.15.0-bloom", "hudi-0.15.0-simple", "hudi-1.2.0-bloom", "hudi-1.2.0-simple")
#: tables of their own, hashed into four buckets a day
BUCKET = ("ours-bucket", "hudi-0.15.0-bucket")
#: without a metadata table, with the list of files, and with indexes
METADATA = (
    *("ours-plain", "ours-files", "ours-indexed"),
    *("hudi-0.15.0-plain", "hudi-0.15.0-simple", "hudi-0.15.0-indexed"),
)
#: upserts that find keys by the metadata table
LOOK_UPS = tuple(
    f"{name}-{index}" for name in ("ours", "hudi-0.15.0") for index in ("record-index", "metadata-bloom")
)
#: DataFrames by what they compute, each also without what its plan saves
FRAMES = tuple(
    f"ours-{kind}{way}"
    for kind in ("frame", "computed", "function", "joined", "udf")
    for way in ("", "-staged")
)
SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("upsert", 4_000_000, ("ours", "ours-3.5", *HUDI, *BUCKET, "delta", "spark-floor"), _upsert),
        Scenario(
            "bulk_insert",
            4_000_000,
            ("ours", "ours-3.5", "hudi-0.15.0-simple", "hudi-1.2.0-simple", "spark-floor", "spark-floor-3.5"),
            _bulk_insert,
        ),
        Scenario("frames", 4_000_000, FRAMES, _frames),
        Scenario("large", 40_000_000, ("ours", "ours-local", "hudi-0.15.0-simple"), _large),
        Scenario("mor", 4_000_000, ("ours", "hudi-0.15.0-simple"), _merge_on_read),
        Scenario("logged", 4_000_000, ("ours", "ours-local", *HUDI[1::2]), _logged),
        Scenario("clustering", 2_000_000, ("ours", "ours-local", "hudi-0.15.0-simple"), _clustering),
        Scenario("partitions", 2_000_000, ("ours", "ours-local", *HUDI[:2]), _partitions),
        Scenario("scattered", 4_000_000, ("ours-frame", "hudi-0.15.0-simple"), _scattered),
        Scenario("memory", 4_000_000, ("ours",), _memory),
        Scenario("indexed_upsert", 4_000_000, METADATA, _upsert),
        Scenario("looked_up", 4_000_000, LOOK_UPS, _upsert),
        Scenario("later", 4_000_000, ("ours-later", "ours-later-local", "hudi-1.2.0-later"), _later),
        Scenario(
            "version_9",
            4_000_000,
            ("ours", "ours-9", "ours-9-files", "ours-9-plain", "hudi-1.2.0-9"),
            _version_9,
        ),
        Scenario(
            "queries", 4_000_000, ("ours-indexed", "ours-indexed-local", "hudi-0.15.0-indexed"), _queries
        ),
    )
}
