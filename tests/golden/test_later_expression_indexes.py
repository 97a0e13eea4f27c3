"""Indexes of expressions of tables that Apache Hudi 1.2.0 made: records that we make are as its own are, and
stay true while the tables are written and served on here.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import api
from hoodie.codec.arrays import pc, whole
from hoodie.config.key import Config
from hoodie.format.hfile_records import KEY_FIELD
from hoodie.metadata.index_definitions import index_definitions
from hoodie.metadata.keys import column_key, file_key, partition_key
from hoodie.metadata.partitions.bloom_filters import bloom_filters
from hoodie.metadata.partitions.column_stats import STATS
from hoodie.metadata.partitions.files import MetadataListing
from hoodie.metadata.table import EXPRESSION_INDEX, MetadataTable
from hoodie.table.handle import Table
from hoodie.write.participants.metadata.initialization import files_of, initial_records
from hoodie.write.participants.metadata.registry import partitions_of
from tests.golden.test_later_index_writes import check_bounds, latest, stored
from tests.golden.test_later_writes import NO_SERVICES, STEPS, History

#: the results of ASCII texts, and of days
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "identity": lambda value, _: value,
    "substring": lambda value, options: value[: int(options["len"])],
    "lower": lambda value, _: value.lower() if value.isascii() else None,
    "upper": lambda value, _: value.upper() if value.isascii() else None,
    "trim": lambda value, _: value.strip(" "),
    "year": lambda value, _: value.year,
    "month": lambda value, _: value.month,
}
TABLE = "indexes/ei_cow"


@pytest.fixture
def copy(later_indexes: Path, later_more: Path, tmp_path: Path) -> Callable[[str], str]:
    def copied(name: str) -> str:
        place = later_more if name.startswith("more/") else later_indexes
        return str(shutil.copytree(place / name / "table", tmp_path / "t"))

    return copied


def indexes(path: str) -> dict[str, Any]:
    """The definitions of those that readers may use."""
    table = Table.open(path)
    there = table.properties.metadata_partitions
    return {
        name: found
        for name, found in index_definitions(table).items()
        if name.startswith(EXPRESSION_INDEX) and name in there
    }


def check_indexes(path: str) -> None:
    """Statistics bound the results of all latest files, and of all partitions; filters have them."""
    table = Table.open(path)
    metadata = MetadataTable.open(table)
    assert metadata is not None
    rows = api.read_table(path)
    for name, definition in indexes(path).items():
        (column,) = definition.source_fields
        made = [
            None if value is None else FUNCTIONS[definition.function](value, definition.options)
            for value in rows[column].to_pylist()
        ]
        places = list(
            zip(
                rows["_hoodie_partition_path"].to_pylist(), rows["_hoodie_file_name"].to_pylist(), strict=True
            )
        )
        if definition.kind == "bloom_filters":
            check_filters(metadata, name, list(zip(places, made, strict=True)))
            continue
        kind = pa.array([value for value in made if value is not None]).type
        kind = pa.int32() if pa.types.is_integer(kind) else kind
        kept = stored(metadata, name)
        of_partition = column_key(column) + partition_key("__partition_stat__")
        for item in latest(table):
            mine = [value for place, value in zip(places, made, strict=True) if place[0] == item.partition]
            check_bounds(kept.get(of_partition + partition_key(item.partition)), kind, mine)
            if item.base is not None and not item.logs:
                file = (item.partition, item.base.name)
                mine = [value for place, value in zip(places, made, strict=True) if place == file]
                check_bounds(kept.get(column_key(column) + file_key(*file)), kind, mine)


def check_filters(metadata: MetadataTable, name: str, found: list[tuple[tuple[str, str], Any]]) -> None:
    filters = dict(bloom_filters(metadata, list({place for place, _ in found}), name))
    for place, value in found:
        if place in filters and value:
            assert filters[place].might_contain(pa.array([str(value)])).tolist() == [True]


def test_records_are_those_of_apache_hudi(copy: Callable[[str], str]) -> None:
    """Statistics are the same but for bounds of letters beyond ASCII, and so are the results in filters."""
    path = copy(TABLE)
    table = Table.open(path)
    metadata = MetadataTable.open(table)
    assert metadata is not None
    listing = MetadataListing(metadata, table.base_path)
    files = files_of(table, listing, listing.partitions())
    compared = dict[str, int]()
    for kept in partitions_of(indexes(path)):
        assert not kept.unfollowed(table, Config.of({}))
        definition = indexes(path)[kept.partition]
        if definition.kind == "bloom_filters" or definition.function == "upper":
            continue
        for made in initial_records(table, Config.of({}), kept, files):
            said: dict[str, Any] = {}
            for rows in metadata.look_up(kept.partition, made.rows[KEY_FIELD], ["type", STATS]):
                said.update((row[KEY_FIELD], row) for row in rows.to_pylist())  # the last of a key counts
            for row in made.rows.select([KEY_FIELD, "type", STATS]).to_pylist():
                assert row == said[row[KEY_FIELD]]
                compared[definition.function] = compared.get(definition.function, 0) + 1
    assert compared == dict.fromkeys(("substring", "month", "trim", "year"), 12)


@pytest.mark.parametrize("name", [TABLE, "more/expr_index_bloom"])
def test_histories(copy: Callable[[str], str], name: str) -> None:
    history = History(copy(name), f"expressions {name}")
    before = indexes(history.path)
    check_indexes(history.path)
    for step in ("upsert", *(history.chance.choice(STEPS) for _ in range(4)), "change", "upsert"):
        if step == "change":
            change(history)
        else:
            history.step(step)
        history.check()
        check_indexes(history.path)
    check_queries(history.path)
    assert indexes(history.path) == before


def change(history: History) -> None:
    """Other results, and none."""
    for number, row in enumerate(history.rows.values()):
        row["name"] = None if number % 5 == 0 else f" {'äA'[number % 2]}\U0001f600{row['name']}"
        if "day" in row:
            row["day"] = None if number % 4 == 0 else dt.date(1582, 10, 4) + dt.timedelta(days=900 * number)
    data = pa.Table.from_pylist(list(history.rows.values()), schema=history.schema)
    api.write_table(data, history.path, options=NO_SERVICES)


CONDITIONS = (
    "lower(name) = 'ab1$0'",
    "lower(name) IN ('ab1$0', 'zz')",
    "upper(name) = 'AB2$1'",
    "upper(name) > 'AB2'",
    "substring(name, 1, 3) = 'Ab2'",
    "substring(name, 1, 3) < 'Ab3'",
    "substring(name, 1, 3) IS NULL",
    "name = 'Ab1$0'",
    "name IS NULL",
    "year(day) = 2024",
    "year(day) < 1700",
    "month(day) IN (3, 4)",
    "month(day) IS NULL",
)


def check_queries(path: str) -> None:
    columns = api.read_table(path).column_names
    for where in CONDITIONS:
        if "day" in columns or "day" not in where:
            found = api.read_table(path, where=where)
            expected = api.read_table(path, where=where, options={"hoodie.metadata.enable": "false"})
            assert sorted(found["_hoodie_record_key"].to_pylist()) == sorted(
                expected["_hoodie_record_key"].to_pylist()
            ), where


def test_an_index_of_an_unknown_function_goes(copy: Callable[[str], str]) -> None:
    """With a warning; the others stay."""
    path = copy(TABLE)
    there = set(indexes(path))
    file = Path(path, ".hoodie/.index_defs/index.json")
    file.write_text(file.read_text().replace('"trim"', '"reverse"'))
    rows = api.read_table(path, meta=False).slice(0, 5)
    done = api.write_table(rows, path, options=NO_SERVICES)
    assert there - set(indexes(path)) == {"expr_index_idx_trim"}
    assert any("'reverse' are not known here" in warning for warning in done.warnings)
    assert not Path(path, ".hoodie/metadata/expr_index_idx_trim").exists()
    names: Any = whole(pc.unique(api.read_table(path, where="trim(name) = 'Ab1$0'")["name"]))
    assert names.to_pylist() == ["Ab1$0"]
