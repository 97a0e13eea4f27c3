"""Queries that ask a metadata table which files there are, and which of them can have rows of the answer."""

from __future__ import annotations

import pickle
import random
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.metadata.partitions.column_stats import ColumnStats
from hoodie.metadata.queries import MetadataTableIgnored
from hoodie.read import duckdb_predicate
from hoodie.read.bounds import EMPTY, UNKNOWN, Bounds
from hoodie.read.column_bounds import bounds_of_stats
from hoodie.read.table_view import TableView
from hoodie.table.handle import Table
from tests.support.metadata_index import Record, make_metadata_table
from tests.support.predicates import SCHEMA, predicate, rows
from tests.support.requests import counted
from tests.support.tiers import full_but

#: of the metadata tables that `make_metadata_table` makes
pytestmark = pytest.mark.table_version(6)

WITHOUT = {"hoodie.metadata.enable": "false"}
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.table.services.enabled": "false",
}
Change = Callable[[list[Record]], list[Record]]


def opened(path: Path | str, where: str | None = None, **options: Any) -> TableView:
    """What a query without Spark looks at."""
    from hoodie.config.key import Config

    config = Config.of(options)
    if where is None:
        return TableView.load(Table.open(str(path)), config=config)
    with duckdb_predicate.connection() as connection:
        parsed = duckdb_predicate.parsed(connection, where)
        return TableView.load(Table.open(str(path)), config=config, where=parsed)


def answer(path: Path | str, where: str | None = None, **more: Any) -> list[dict[str, Any]]:
    found = hoodie.read_table(str(path), where=where, **more)
    texts = [str(row) for row in found.to_pylist()]
    return [{"row": text} for text in sorted(texts)]


def same(path: Path | str, where: str | None = None, **more: Any) -> int:
    """The answer is that of a query that does without the metadata table; how many rows."""
    found = answer(path, where, **more)
    assert found == answer(path, where, **{**more, "options": WITHOUT}), where
    return len(found)


def batch(seed: int, ids: range, ts: int = 0) -> pa.Table:
    """Random rows in three partitions."""
    made = rows(random.Random(seed), len(ids))
    columns = {"id": [f"k{number:04d}" for number in ids], "part": [f"p{number % 3}" for number in ids]}
    table = pa.table(
        {**{name: pa.array(values) for name, values in columns.items()}, "ts": pa.array([ts] * len(ids))}
    )
    for field in SCHEMA:
        table = table.append_column(field, made.column(field.name))
    return table


@pytest.fixture(scope="module", params=full_but({"MERGE_ON_READ"}, ["COPY_ON_WRITE", "MERGE_ON_READ"]))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of four inserts; in merge-on-read two commits of logs on top, one of them of deletes."""
    path = tmp_path_factory.mktemp("indexed") / "t"
    options = {**OPTIONS, "hoodie.datasource.write.table.type": request.param}
    for number in range(4):
        given = batch(number, range(number * 9, number * 9 + 9))
        hoodie.write_table(given, str(path), operation="insert", options=options)
    if request.param == "MERGE_ON_READ":
        hoodie.write_table(batch(9, range(0, 36, 4), 1), str(path), options=options)
        hoodie.write_table(batch(10, range(1, 36, 9), 2), str(path), operation="delete", options=options)
    make_metadata_table(path, stats=None, blooms=True)
    return path


@pytest.fixture
def table(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "t")
    return tmp_path / "t"


def test_the_folders_are_not_listed(made: Path) -> None:
    with counted(str(made)) as requests:
        found = answer(made)
    listed = {path for name, path, _ in requests.calls if name in ("list", "names", "tree")}
    assert all(".hoodie" in path for path in listed)
    assert found
    assert found == answer(made, options=WITHOUT)


def test_a_query_of_10_000_partitions_lists_no_folder(tmp_path: Path) -> None:
    """The table's commit names no file, so that none has to be there."""
    path = tmp_path / "t"
    hoodie.write_table(batch(0, range(9)), str(path), options=OPTIONS)
    file = next(path.glob("p0/*.parquet"))

    def many(records: list[Record]) -> list[Record]:
        names = [f"p{number}" for number in range(3, 10_000)]
        everything, *others = records
        there = {name: {"size": 0, "isDeleted": False} for name in names}
        everything["filesystemMetadata"].update(there)
        infos = {file.name: {"size": file.stat().st_size, "isDeleted": False}}
        return [
            everything,
            *others,
            *({"key": name, "type": 2, "filesystemMetadata": infos} for name in names),
        ]

    make_metadata_table(path, change=many)
    with counted(str(path)) as requests:
        assert len(opened(path).slices) == 10_000
        assert len(opened(path, "part = 'p7777' OR part = 'p2'").slices) == 2
    listed = {place for name, place, _ in requests.calls if name in ("list", "names", "tree")}
    assert all(place.startswith("/.hoodie") for place in listed)
    assert len(requests.calls) <= 2 * 20, f"\n{requests}"


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 3), *(pytest.param(seed, 8, marks=pytest.mark.full) for seed in range(6))]
)
def test_random_predicates_answer_the_same(made: Path, seed: int, count: int) -> None:
    pick = random.Random(seed)
    counts = [same(made, predicate(pick), columns=["id", "ts"]) for _ in range(count)]
    assert any(counts)


@pytest.mark.parametrize(
    ("where", "dropped"),
    full_but(
        {"id < 'k0009'", "id IS NULL", "length(id) = 5"},
        [
            ("id < 'k0009'", True),
            ("id LIKE 'k000%'", True),
            ("id IN ('k0001', 'k0003')", True),
            ("NOT (id >= 'k0009')", True),
            ("id = 'k0001' OR n = 12345", True),
            ("id IS NULL", True),
            ("id IS NOT NULL", False),
            ("length(id) = 5", False),
        ],
    ),
)
def test_files_that_can_t_match_are_left_out(made: Path, where: str, dropped: bool) -> None:
    everything = opened(made)
    view = opened(made, where)
    assert (len(view.slices) < len(everything.slices)) == dropped
    assert sum(len(step.dropped) for step in view.steps) == len(everything.slices) - len(view.slices)
    same(made, where)
    off = opened(made, where, **{"hoodie.enable.data.skipping": "false"})
    assert len(off.slices) == len(everything.slices)


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("_hoodie_record_key = 'k0010'", 1),
        ("id = 'k0010'", 1),
        ("id IN ('k0010', 'k0011') AND (n > 0 OR true)", 2),
        ("id = 'k0010' OR _hoodie_record_key = 'k0010'", None),
        ("id = 'k0010' OR ts = 7", None),
        ("(id = 'k0010') IS TRUE", 1),
        ("id = 'k0010x'", 0),
        ("id = 'k0010' AND id = 'k0011'", 0),
        ("id IS NOT DISTINCT FROM 'k0010'", 1),
        ("id <> 'k0010'", None),
        ("id = ''", None),
        ("lower(id) = 'k0010'", None),
    ],
)
def test_bloom_filters_rule_out_files_without_a_key(
    tmp_path_factory: pytest.TempPathFactory, where: str, files: int | None
) -> None:
    """Three partitions of two files each, whose key ranges are no help; None: all."""
    path = tmp_path_factory.getbasetemp() / "blooms"
    if not path.exists():
        for number in range(2):
            given = batch(number, range(number, 36, 2))
            hoodie.write_table(given, str(path), operation="insert", options=OPTIONS)
        make_metadata_table(path, blooms=True)
    view = opened(path, where)
    assert len(view.slices) == (6 if files is None else files)
    same(path, where)


@pytest.mark.parametrize("where", full_but({"id < 'k0009'"}, ["id < 'k0009'", "n > 0", None]))
def test_other_queries_skip_files_too(made: Path, where: str | None) -> None:
    commits = [item["instant"] for item in hoodie.instants(str(made))]
    for more in ({"as_of": commits[1]}, {"begin": commits[0]}, {"query": "read_optimized"}):
        same(made, where, **more)
    first = hoodie.read_table(str(made), as_of=commits[0])
    assert first.num_rows == 9


def disagreeing(change: Change) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        shutil.rmtree(path / ".hoodie/metadata")
        make_metadata_table(path, stats=None, change=change)

    return damage


def without_a_file(records: list[Record]) -> list[Record]:
    for record in records:
        infos = record["filesystemMetadata"] or {}
        for name in sorted(infos)[:1]:
            if record["type"] == 2:
                del infos[name]
    return records


def with_another_size(records: list[Record]) -> list[Record]:
    for record in records:
        for info in (record["filesystemMetadata"] or {}).values():
            info["size"] = max(0, info["size"] - 1)
    return records


def without_a_partition(records: list[Record]) -> list[Record]:
    return [
        {**record, "filesystemMetadata": {name: info for name, info in infos.items() if name != "p1"}}
        if (infos := record["filesystemMetadata"])
        else record
        for record in records
        if record["key"] != "p1"
    ]


def torn(place: int) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        file = next((path / ".hoodie/metadata/files").glob("*.hfile"))
        data = bytearray(file.read_bytes())
        data[place] ^= 0x10
        file.write_bytes(data)

    return damage


def gone(pattern: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        for place in (path / ".hoodie/metadata").glob(pattern):
            shutil.rmtree(place) if place.is_dir() else place.unlink()

    return damage


DAMAGES: dict[str, Callable[[Path], None]] = {
    "no folder": lambda path: shutil.rmtree(path / ".hoodie/metadata"),
    "no partition": gone("files"),
    "no file": gone("files/*.hfile"),
    "no timeline": gone(".hoodie/*.deltacommit*"),
    "no properties": gone(".hoodie/hoodie.properties*"),
    "torn block": torn(40),
    "torn trailer": torn(-1),
    "a file less": disagreeing(without_a_file),
    "another size": disagreeing(with_another_size),
    "a partition less": disagreeing(lambda records: [item for item in records if item["key"] != "p1"]),
    "no partitions": disagreeing(lambda records: []),
    "a partition not listed": disagreeing(without_a_partition),
}


@pytest.mark.parametrize("damage", full_but({"torn block", "a file less"}, DAMAGES))
def test_a_damaged_metadata_table_is_not_used(table: Path, damage: str) -> None:
    expected = answer(table, options=WITHOUT)
    DAMAGES[damage](table)
    for where in (None, "part = 'p1'"):
        with pytest.warns(MetadataTableIgnored, match="its folders are listed instead"):
            found = answer(table, where)
        assert found == answer(table, where, options=WITHOUT)
        if where is None:
            assert found == expected


def test_a_commit_that_the_metadata_table_lacks(table: Path) -> None:
    """As a writer leaves it that knows of no metadata table."""
    from hoodie.table import properties

    place = table / ".hoodie/metadata"
    kept = shutil.copytree(place, table.parent / "kept")
    options = {**OPTIONS, "hoodie.metadata.enable": "false"}
    hoodie.write_table(batch(20, range(100, 109)), str(table), options=options)
    shutil.copytree(kept, place)
    properties.update(
        Table.open(str(table)).storage, str(table), {properties.METADATA_PARTITIONS: "files,column_stats"}
    )
    with pytest.warns(MetadataTableIgnored, match="it lacks instant"):
        assert len(answer(table, "id >= 'k0100'")) == 9


def test_damaged_indexes_rule_nothing_out(table: Path) -> None:
    for name in ("column_stats", "bloom_filters"):
        for file in (table / ".hoodie/metadata" / name).glob("*.hfile"):
            data = bytearray(file.read_bytes())
            data[40] ^= 0x10
            file.write_bytes(data)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", MetadataTableIgnored)
        found = answer(table, "id = 'k0009'")
    assert found == answer(table, "id = 'k0009'", options=WITHOUT)
    ends = {str(warning.message).rpartition("; ")[2] for warning in told}
    assert ends
    assert ends <= {f"its {name} rule nothing out" for name in ("column stats", "bloom filters")}


@pytest.mark.full
def test_flipped_bytes_never_change_an_answer(table: Path) -> None:
    pick = random.Random(5)
    expected = answer(table, "id < 'k0020'", options=WITHOUT)
    files = sorted((table / ".hoodie/metadata").rglob("*.hfile"))
    for _ in range(60):
        file = pick.choice(files)
        whole = file.read_bytes()
        data = bytearray(whole)
        data[pick.randrange(len(data))] ^= 1 << pick.randrange(8)
        file.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MetadataTableIgnored)
            assert answer(table, "id < 'k0020'") == expected
        file.write_bytes(whole)


def test_a_metadata_table_that_goes_meanwhile(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer takes its entry out of the properties, then deletes the folder file by file."""
    from hoodie.metadata.partitions.files import MetadataListing
    from hoodie.table import properties

    read = MetadataListing.many

    def many(listing: MetadataListing, partitions: Any) -> Any:
        found = read(listing, partitions)
        properties.update(Table.open(str(table)).storage, str(table), {properties.METADATA_PARTITIONS: None})
        return found

    monkeypatch.setattr(MetadataListing, "many", many)
    with pytest.warns(MetadataTableIgnored, match="removed meanwhile"):
        assert opened(table).slices


def test_a_view_travels(made: Path) -> None:
    view = opened(made, "id < 'k0009'")
    assert pickle.loads(pickle.dumps(view)).slices == view.slices


def stats(kind: str, low: Any, high: Any, nulls: int | None = 0, values: int | None = 1000) -> ColumnStats:
    return ColumnStats(low, high, f"{kind}Wrapper", values, nulls, 100)


def ours(given: ColumnStats) -> ColumnStats:
    """... of a file that was written here."""
    return replace(given, true=True)


NAN = float("nan")
MICROS = 10**15
LAST = "\ud7ff\U0010ffff"
TEXT, MOMENT = pa.string(), pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("kind", "given", "log", "expected"),
    [
        (pa.int64(), stats("Int", -1, 7), False, Bounds(-1, 7, nulls=False)),
        (pa.int64(), stats("Long", -1, 7, 5), False, Bounds(-1, 7)),
        (pa.int32(), stats("Long", -1, 7, None), False, Bounds(-1, 7)),
        (pa.int32(), stats("Long", 7, -1), False, Bounds(nulls=False)),
        (pa.int32(), stats("String", "7", "8"), False, Bounds(nulls=False)),
        (pa.int32(), stats("Int", None, None, 1000), False, Bounds()),
        (pa.int32(), stats("Int", None, None, 0, 0), True, EMPTY),
        (pa.bool_(), stats("Boolean", False, True), False, Bounds(False, True, nulls=False)),
        (pa.float64(), stats("Double", -0.0, 7.0), False, Bounds(nulls=False, nan=True)),
        (pa.float64(), stats("Double", 0.0, 0.0, 0, 100), False, Bounds(nulls=False, nan=True)),
        (pa.float64(), ours(stats("Double", -0.0, 7.0)), False, Bounds(-0.0, 7.0, nulls=False, nan=True)),
        (pa.int32(), stats("Int", 0, 0, 1000), False, Bounds()),
        (pa.int32(), ours(stats("Int", 0, 0, 1000)), False, Bounds(0, 0)),
        (pa.float64(), stats("Double", 1.0, NAN), True, Bounds(1.0, None, nulls=False, nan=True)),
        (pa.float64(), stats("Float", 1.0, 2.0), True, Bounds(nulls=False, nan=True)),
        (pa.float32(), stats("Float", 1.0, 2.0), True, Bounds(1.0, 2.0, nulls=False, nan=True)),
        (pa.date32(), stats("Date", 5, 7), False, Bounds(5, 7, nulls=False)),
        (pa.date32(), stats("Int", 5, 7), False, Bounds(5, 7, nulls=False)),
        (pa.date32(), stats("Date", -200_000, -150_000), False, Bounds(None, -141_427, nulls=False)),
        (MOMENT, stats("Long", -MICROS, MICROS), False, Bounds(-MICROS, MICROS, nulls=False)),
        (MOMENT, stats("Long", 1_700_000_000_000, 1_700_000_000_001), False, Bounds(nulls=False)),
        (pa.timestamp("ms"), stats("Long", MICROS, MICROS), False, Bounds(nulls=False)),
        (pa.decimal128(38, 2), stats("Decimal", Decimal(1), Decimal(2)), False, Bounds(1, 2, nulls=False)),
        (TEXT, stats("String", "a", "b"), False, Bounds("a", "b", nulls=False)),
        (TEXT, stats("String", "a", "b", 1), False, Bounds()),
        (TEXT, stats("String", "a", "b", 1, 100), False, Bounds("a", "b")),
        (TEXT, replace(stats("String", "a", "b"), size=5000), False, Bounds(nulls=False)),
        (TEXT, replace(stats("String", "a", "b"), size=0), False, Bounds(nulls=False)),
        (TEXT, stats("String", "a", "b", 1), True, Bounds("a", "b")),
        (TEXT, stats("String", "a\U0001f600z", "b\ue000z"), True, Bounds("a", "c", nulls=False)),
        (TEXT, stats("String", "a\ufffd", "\ufffd"), False, Bounds("a", None, nulls=False)),
        (TEXT, stats("String", "", "y" * 64), False, Bounds("", "y" * 63 + "z", nulls=False)),
        (TEXT, stats("String", "", LAST * 20), False, Bounds("", LAST * 19 + "\ue000", nulls=False)),
    ],
)
def test_statistics_bound_no_less_than_the_values(
    kind: pa.DataType, given: ColumnStats, log: bool, expected: Bounds
) -> None:
    assert bounds_of_stats(given, kind, log) == expected


def test_bytes_of_a_decimal_have_all_their_digits() -> None:
    """What a compaction of the metadata table by Apache Hudi makes of decimals; of logs it is not used."""
    digits = 123456789012345678901234567890
    data = [number.to_bytes(13, "big", signed=True) for number in (-digits, digits)]
    given = ColumnStats(data[0], data[1], "BytesWrapper", 5, 0)
    found = bounds_of_stats(given, pa.decimal128(38, 10), False)
    text = "123456789012345.678901234567890"
    assert (found.low, found.high) == (Decimal(f"-{text}"), Decimal(text))
    assert bounds_of_stats(given, pa.decimal128(38, 10), True) == Bounds(nulls=False)


def test_bounds_of_several_files_join() -> None:
    low, high = Bounds(1, 5, nulls=False), Bounds(4, 9)
    assert low.joined(high) == Bounds(1, 9)
    assert low.joined(EMPTY) == EMPTY.joined(low) == low
    assert low.joined(UNKNOWN) == UNKNOWN
    assert EMPTY.joined(Bounds(values=False)) == Bounds(values=False)


#: rows of two row groups of which one has statistics only
ODD: dict[str, tuple[pa.DataType, list[Any], list[Any], list[str]]] = {
    "NaN": (pa.float64(), [50.0, NAN], [1.0, 2.0], ["v = 50", "v > 40", "isnan(v)", "v = 'NaN'::DOUBLE"]),
    "long texts": (TEXT, ["m", "z" * 5000], ["a", "b"], ["v = 'm'", "v > 'c'", "v IS NOT NULL"]),
    "nulls": (TEXT, [None, None], ["a", "b"], ["v IS NULL", "v = 'a'", "v IS DISTINCT FROM 'a'"]),
    "zeros": (pa.float64(), [0.0], [-0.0], ["v = 0", "v < 0", "v >= 0"]),
}


@pytest.fixture
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, list[str]]:
    """A file of more rows than make one row group; each half has one."""
    import pyarrow.parquet as pq

    kind, first, second, asked = ODD[request.param]
    path = tmp_path / "t"
    values = first * 100 + second * 100
    given = pa.table(
        {
            "id": [f"k{number:05d}" for number in range(len(values))],
            "part": ["p0"] * len(values),
            "ts": [0] * len(values),
            "v": pa.array(values, kind),
        }
    )
    hoodie.write_table(given, str(path), operation="bulk_insert", options=OPTIONS)
    (file,) = path.glob("p0/*.parquet")
    written = pq.read_table(file).sort_by("id")
    size = file.stat().st_size
    metadata = pq.read_metadata(file).metadata
    assert metadata is not None
    with pq.ParquetWriter(file, written.schema.with_metadata(metadata)) as writer:
        writer.write_table(written.slice(0, len(first) * 100))
        writer.write_table(written.slice(len(first) * 100))
    for commit in path.glob(".hoodie/*.commit"):
        commit.write_text(commit.read_text().replace(str(size), str(file.stat().st_size)))
    make_metadata_table(path, stats=None)
    return path, asked


@pytest.mark.parametrize("odd", ODD, indirect=True)
def test_row_groups_without_statistics_lose_no_rows(odd: tuple[Path, list[str]]) -> None:
    path, asked = odd
    for where in asked:
        same(path, where)
