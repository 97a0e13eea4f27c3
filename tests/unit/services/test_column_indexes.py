"""Secondary indexes and indexes of expressions are made, kept, dropped and made anew, also by SQL."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError
from hoodie.metadata.index_definitions import index_definitions
from hoodie.metadata.state import begun_indexes
from hoodie.services.index.doctor import check_metadata_table
from hoodie.table.handle import Table
from tests.golden.test_later_expression_indexes import check_indexes
from tests.golden.test_later_index_writes import check_secondary
from tests.support.faults import Faults, InjectedFault, Phase, injected
from tests.support.record_index import OF_EACH
from tests.support.tiers import full_but

COLUMNS: dict[str, pa.DataType] = {
    "id": pa.string(),
    "part": pa.string(),
    "ts": pa.int64(),
    "num": pa.int64(),
    "name": pa.string(),
    "day": pa.date32(),
    "kind": pa.list_(pa.string()),
}
SCHEMA = pa.schema(COLUMNS)
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.compact.max.delta.commits": "3",
}
FUNCTIONS = {
    "low": ("name", "lower"),
    "sub": ("name", "expr='substring',pos='1',len='2'"),
    "yr": ("day", "year"),
    "month_of_day": ("day", "expr='month'"),
}


def rows(start: int, stop: int) -> pa.Table:
    found: list[dict[str, Any]] = [
        {
            "id": f"k{number:03d}",
            "part": f"p{number % 2}",
            "ts": number,
            "num": number % 7,
            "name": None if number % 11 == 0 else f"{'aB'[number % 2]}b{number % 5}$",
            "day": None if number % 13 == 0 else dt.date(2020, 1, 1) + dt.timedelta(days=40 * number),
            "kind": [],
        }
        for number in range(start, stop)
    ]
    return pa.Table.from_pylist(found, SCHEMA)


def made(path: Path, kind: str = "COPY_ON_WRITE", version: int = 9) -> dict[str, str]:
    """A table of several files; the options that it is written with."""
    options = {
        **OPTIONS,
        "hoodie.datasource.write.table.type": kind,
        "hoodie.write.table.version": str(version),
    }
    hoodie.write_table(rows(0, 20), str(path), options=options)
    hoodie.write_table(rows(15, 30), str(path), options=options)
    return options


def ready(path: Path) -> set[str]:
    props = Table.open(str(path)).properties
    assert begun_indexes(props) == ()
    return {
        name for name in props.metadata_partitions if name.startswith(("expr_index_", "secondary_index_"))
    }


def defined(path: Path) -> set[str]:
    names = index_definitions(Table.open(str(path)))
    return {name for name in names if name.startswith(("expr_index_", "secondary_index_"))}


@pytest.mark.parametrize(
    ("kind", "version"), [("COPY_ON_WRITE", 9), ("MERGE_ON_READ", 9), ("COPY_ON_WRITE", 8)]
)
def test_indexes_of_expressions_are_made_and_kept(tmp_path: Path, kind: str, version: int) -> None:
    path = tmp_path / "t"
    options = made(path, kind, version)
    for name, (column, text) in FUNCTIONS.items():
        done = hoodie.index_table(str(path), "create", name, column=column, expression=text, options=options)
        assert (done.status, done.made) == ("created", [f"expr_index_{name}"])
    hoodie.index_table(str(path), "create", "words", column="name", using="bloom_filters")
    names = {*(f"expr_index_{name}" for name in FUNCTIONS), "expr_index_words"}
    assert ready(path) == defined(path) == names
    stored = json.loads((path / ".hoodie/.index_defs/index.json").read_text())["indexDefinitions"]
    assert stored["expr_index_sub"] == {
        "indexName": "expr_index_sub",
        "indexType": "column_stats",
        "indexFunction": "substring",
        "sourceFields": ["name"],
        "indexOptions": {"expr": "substring", "pos": "1", "len": "2"},
        "version": f"V{version - 7}",
    }
    check_indexes(str(path))
    due = {"hoodie.compact.inline.max.delta.commits": "1"}
    logs = kind == "MERGE_ON_READ"
    for step in (
        lambda: hoodie.write_table(rows(10, 25), str(path), options=options),
        lambda: hoodie.write_table(rows(0, 8), str(path), operation="delete", options=options),
        lambda: hoodie.compact_table(str(path), options=due) if logs else None,
        lambda: hoodie.write_table(rows(28, 40), str(path), options=options),
        lambda: hoodie.clean_table(str(path), options={"hoodie.cleaner.commits.retained": "1"}),
        lambda: hoodie.index_table(str(path), "rebuild", options=options),
        lambda: hoodie.write_table(rows(5, 12), str(path), options=options),
    ):
        step()
        check_indexes(str(path))
        assert ready(path) == defined(path) == names
    found = hoodie.explain_read(str(path), where="substring(name, 1, 2) = 'zz'")
    (use,) = [use for use in found.indexes if use.index == "expr_index_sub"]
    assert use.used
    assert (found.read_files < found.files) or logs


def test_secondary_indexes_are_made_kept_and_used(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = made(path)
    done = hoodie.index_table(str(path), "create", "by_name", column="name")
    assert (done.status, done.made) == ("created", ["secondary_index_by_name"])
    check_secondary(str(path))
    hoodie.write_table(rows(10, 25), str(path), options=options)
    check_secondary(str(path))
    found = hoodie.explain_read(
        str(path), where="name = 'ab1$'", options={"hoodie.read.record.index": "true"}
    )
    (use,) = [use for use in found.indexes if use.index == "secondary_index_by_name"]
    assert use.used
    again = hoodie.index_table(str(path), "create", "secondary_index_by_name", column="name")
    assert (again.status, again.made) == ("skipped", [])


def test_dropped_indexes_leave_nothing(tmp_path: Path) -> None:
    """By the name that they were made by; what is made of the record index goes with it."""
    path = tmp_path / "t"
    made(path)
    hoodie.index_table(str(path), "create", "low", column="name", expression="lower")
    hoodie.index_table(str(path), "create", column="num")
    assert ready(path) == {"expr_index_low", "secondary_index_num"}
    assert hoodie.index_table(str(path), "drop", "low").dropped == ["expr_index_low"]
    assert ready(path) == defined(path) == {"secondary_index_num"}
    assert not (path / ".hoodie/metadata/expr_index_low").exists()
    assert hoodie.index_table(str(path), "drop", "low").status == "skipped"
    done = hoodie.index_table(str(path), "drop", "record_index")
    assert done.dropped == ["record_index", "secondary_index_num"]
    assert ready(path) == defined(path) == set()
    hoodie.index_table(str(path), "create", "record_index")
    hoodie.index_table(str(path), "create", "num", column="num")
    hoodie.index_table(str(path), "drop")
    assert defined(path) == set()
    assert not (path / ".hoodie/metadata").exists()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"column": "none"}, "values of its column none are not texts or whole numbers"),
    ({"column": "kind"}, "values of its column kind are not texts or whole numbers"),
    ({"column": "none", "expression": "lower"}, "no column none whose values are in its files"),
    ({"column": "part", "expression": "lower"}, "no column part whose values are in its files"),
    ({"column": "num", "expression": "lower"}, "lower of column num, which is int64, is not known"),
    ({"column": "day", "expression": "from_unixtime"}, "'from_unixtime' are not known here"),
    ({"column": "name", "expression": "expr='lower',pos='1'"}, "its function has no option pos"),
    ({"column": "name", "expression": "expr='substring',pos='1'"}, "its options"),
    ({"column": "name", "expression": "lower("}, "are no options of an index"),
    ({"column": "name", "using": "column_stats"}, "those of the index column_stats"),
    ({"column": "name", "using": "secondary_index", "expression": "lower"}, "it has no function"),
    ({"column": "name", "indexes": "../x"}, "is no name of an index"),
    ({"column": "name", "indexes": "a,b"}, "is no name of an index"),
    ({"using": "column_stats"}, "is for mode create of an index of one column"),
    ({"indexes": "mine"}, "or give its column: --column C --indexes mine"),
]


@pytest.mark.parametrize(("given", "why"), REFUSED)
def test_what_is_refused(tmp_path: Path, given: dict[str, Any], why: str) -> None:
    """With nothing changed."""
    path = tmp_path / "t"
    made(path)
    before = sorted(str(file) for file in path.rglob("*"))
    given = {"indexes": None, **given}
    with pytest.raises(ConfigError) as caught:
        hoodie.index_table(str(path), "create", **given)
    assert why in caught.value.message
    assert sorted(str(file) for file in path.rglob("*")) == before


def test_tables_that_have_none(tmp_path: Path) -> None:
    old, each = tmp_path / "old", tmp_path / "each"
    made(old, version=6)
    with pytest.raises(ConfigError, match="a table before version 8 has none"):
        hoodie.index_table(str(old), "create", column="name")
    of_each = {**OPTIONS, **OF_EACH} | WITHOUT
    hoodie.write_table(rows(0, 5), str(each), options=of_each)
    with pytest.raises(ConfigError, match="the record index is one of each partition"):
        hoodie.index_table(str(each), "create", column="name")
    bare = tmp_path / "bare"
    hoodie.write_table(
        rows(0, 5), str(bare), options={**OPTIONS, "hoodie.write.table.version": "9"} | WITHOUT
    )
    with pytest.raises(ConfigError, match="needs a record index: set"):
        hoodie.index_table(str(bare), "create", column="name")
    asked = {"hoodie.metadata.record.index.enable": "true"}
    done = hoodie.index_table(str(bare), "create", column="name", options=asked)
    assert done.made[-2:] == ["record_index", "secondary_index_name"]
    check_secondary(str(bare))


WITHOUT = {"hoodie.metadata.record.index.enable": "false"}


def test_the_settings_of_apache_hudi_make_indexes(tmp_path: Path) -> None:
    """Of a write, as soon as the table has rows, and of the service."""
    path = tmp_path / "t"
    options = made(path)
    asked = {
        "hoodie.metadata.index.expression.column": "name",
        "hoodie.metadata.index.expression.options": "expr='substring', pos='1', len='2'",
        "hoodie.expression.index.type": "COLUMN_STATS",
        "hoodie.index.name": "sub",
    }
    dry = hoodie.index_table(str(path), "create", options=asked, dry_run=True)
    assert (dry.status, dry.made) == ("planned", ["expr_index_sub"])
    assert ready(path) == set()
    hoodie.write_table(rows(20, 22), str(path), options={**options, **asked})
    assert ready(path) == {"expr_index_sub"}
    check_indexes(str(path))
    by_num = {"hoodie.metadata.index.secondary.column": "num"}
    assert hoodie.index_table(str(path), "create", options=by_num).made == ["secondary_index_num"]
    hoodie.write_table(rows(20, 24), str(path), options={**options, **by_num})
    check_indexes(str(path))
    check_secondary(str(path))


def test_statements(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = made(path)
    tables = {"t": str(path)}

    def run(text: str) -> Any:
        return hoodie.sql(text, tables=tables, options=options)

    done = run("CREATE INDEX low ON TABLE t USING column_stats(name) OPTIONS(expr='lower')")
    assert done.made == ["expr_index_low"]
    run(
        "-- of the first letters\ncreate index if not exists sub on t using column_stats (name) "
        "options (expr = 'substring', pos = '1', len = 2);"
    )
    run("CREATE INDEX by_num ON t (num)")
    run("CREATE INDEX `words` ON t USING bloom_filters(`name`) OPTIONS (expr 'upper', numentries '100')")
    names = {"expr_index_low", "expr_index_sub", "secondary_index_by_num", "expr_index_words"}
    assert ready(path) == names
    check_indexes(str(path))
    assert run("CREATE INDEX low ON t USING column_stats(name) OPTIONS(expr='lower')").status == "skipped"
    shown = run("SHOW INDEXES FROM TABLE t")
    assert names < {item["index"] for item in shown.indexes}
    assert run("REFRESH INDEX low ON t").made == ["expr_index_low"]
    assert run("DROP INDEX IF EXISTS by_num ON t").dropped == ["secondary_index_by_num"]
    assert run("DROP INDEX by_num ON t").status == "skipped"
    run("DROP INDEX record_index ON t")
    assert hoodie.sql("CREATE INDEX record_index ON t (id)", tables=tables).made == ["record_index"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("CREATE INDEX a ON t", "where ( is wanted"),
        ("CREATE INDEX a ON t (name, num)", "is of one column"),
        ("CREATE INDEX a ON t (name OPTIONS (x = '1'))", "is of one column"),
        ("CREATE INDEX a ON t (name) OPTIONS (expr = 'lower') and more", "where the end is wanted"),
        ("CREATE INDEX a ON t USING lucene(name)", "lucene"),
        (
            "CREATE INDEX a ON t USING bloom_filters(name) OPTIONS (expr = 'it\\'s')",
            "has an option with a quote",
        ),
        ("CREATE INDEX a ON u (name)", "u is not among tables="),
        ("DROP INDEX ON t", "where ON is wanted"),
        ("SHOW INDEXES t", "where FROM or IN is wanted"),
    ],
)
def test_statements_that_are_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "t"
    hoodie.write_table(rows(0, 3), str(path), options={**OPTIONS, "hoodie.write.table.version": "9"})
    with pytest.raises(ConfigError) as caught:
        hoodie.sql(text, tables={"t": str(path)})
    assert why in caught.value.message
    assert defined(path) == set()


KILLED: dict[str, dict[str, Any]] = {
    "create": {"indexes": "sub", "column": "name", "expression": "expr='substring',pos='1',len='2'"},
    "create keys": {"indexes": "by_num", "column": "num"},
    "drop": {"indexes": "low,by_name"},
    "rebuild": {"indexes": "low,by_name"},
}


@pytest.mark.parametrize("phase", full_but({Phase.AFTER}, Phase))
@pytest.mark.parametrize("what", full_but({"create", "drop"}, KILLED))
def test_a_kill_leaves_an_index_whole_or_none(tmp_path: Path, what: str, phase: Phase) -> None:
    """No definition is of an index that nobody keeps: Apache Hudi's queries go by definitions alone. The next
    write finishes what was begun.
    """
    template = tmp_path / "template"
    options = made(template)
    hoodie.index_table(str(template), "create", "low", column="name", expression="lower")
    hoodie.index_table(str(template), "create", "by_name", column="name")

    def run(path: Path) -> None:
        hoodie.index_table(str(path), what.partition(" ")[0], **KILLED[what])

    before = hoodie.read_table(str(template)).num_rows
    faults, counted = Faults(), tmp_path / "counted"
    shutil.copytree(template, counted)
    with injected(faults):
        run(counted)
    found = set()
    for at in range(1, len(faults.log) + 1):
        path = tmp_path / f"killed{at}"
        shutil.copytree(template, path)
        with injected(Faults(at=at, phase=phase)), contextlib.suppress(InjectedFault):
            run(path)
        props = Table.open(str(path)).properties
        assert defined(path) <= {*props.metadata_partitions, *begun_indexes(props)}, at
        assert hoodie.read_table(str(path), where="lower(name) IS NOT NULL OR true").num_rows == before
        hoodie.write_table(rows(25, 32), str(path), options=options)
        assert ready(path) == defined(path), at
        check_indexes(str(path))
        found.add(frozenset(ready(path)))
        shutil.rmtree(path)
    assert frozenset(ready(counted)) in found or phase is Phase.BEFORE
    assert len(found) <= 3


@pytest.mark.parametrize(("kind", "version"), [("COPY_ON_WRITE", 9), ("MERGE_ON_READ", 8)])
def test_the_doctor_examines_indexes_of_columns(tmp_path: Path, kind: str, version: int) -> None:
    """Against the files; a rebuild mends what disagrees."""
    path = tmp_path / "t"
    options = made(path, kind, version)
    hoodie.index_table(str(path), "create", "low", column="name", expression="lower")
    hoodie.index_table(str(path), "create", "yr", column="day", expression="year")
    hoodie.index_table(str(path), "create", "words", column="name", using="bloom_filters")
    damages = {
        "expr_index_low": ('"lower"', '"upper"', "say otherwise than the files"),
        "expr_index_words": ('"identity"', '"upper"', "lacks results"),
        "expr_index_yr": ('"year"', '"month"', "say otherwise than the files"),
    }
    if kind == "COPY_ON_WRITE":
        hoodie.index_table(str(path), "create", "by_num", column="num")
        damages["secondary_index_by_num"] = ('"num"', '"ts"', "are missing")
    hoodie.write_table(rows(12, 34), str(path), options=options)
    assert [item.status for item in check_metadata_table(str(path), True, {})] == ["ok"]
    file = path / ".hoodie/.index_defs/index.json"
    stored = json.loads(file.read_text())
    for name, (old, new, said) in damages.items():
        changed = json.loads(json.dumps(stored["indexDefinitions"][name]).replace(old, new))
        text = json.dumps({"indexDefinitions": {**stored["indexDefinitions"], name: changed}})
        file.write_text(text)
        found = [item for item in check_metadata_table(str(path), True, {}) if item.status != "ok"]
        assert found
        assert all(name in item.text for item in found)
        assert any(said in item.text for item in found)
        assert found[0].status == "error"
        assert found[0].remedy.endswith(f"--indexes {name}")
        hoodie.index_table(str(path), "rebuild", name)
        assert [item.status for item in check_metadata_table(str(path), True, {})] == ["ok"]
        stored = json.loads(file.read_text())
