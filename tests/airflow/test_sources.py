"""Sources that are no files: rows of another task, queries of a database's connection, ObjectStoragePaths."""

from __future__ import annotations

import base64
import contextlib
import json
import pickle
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.bases.xcom import BaseXCom

import hoodie
from airflow_hoodie import HoodieSQLOperator, HoodieTable, IngestOperator, UpsertOperator
from airflow_hoodie.dataset_names import source_places
from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieJobKilledError,
    HoodieSourceNotFoundError,
    HoodieValidationError,
)
from airflow_hoodie.secrets import _folder
from tests.conftest import require

from .conftest import FakeSubmit
from .test_dag import states

DAG_FILE = """
    from datetime import datetime, timezone
    from airflow.sdk import DAG, ObjectStoragePath, task
    from airflow_hoodie import HoodieTable, UpsertOperator

    def table(name):
        return HoodieTable(name=name, path={folder!r} + "/" + name, record_keys="id")

    def upsert(name, source, **given):
        return UpsertOperator(task_id=name, table=table(name), source=source, engine="local", **given)

    with DAG("sources", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
        @task
        def frame():
            import pandas as pd
            return pd.DataFrame({{"id": ["a", "b"], "n": [1, 2]}})

        @task
        def dicts():
            return [{{"id": "a", "n": 1}}, {{"id": "b", "more": "x"}}]

        @task
        def path():
            return ObjectStoragePath("file://" + {folder!r} + "/rows.parquet")

        upsert("of_frame", frame())
        upsert("of_dicts", dicts())
        upsert("of_path", path())
        upsert("of_query", {{"conn_id": "shop", "sql": "SELECT * FROM orders WHERE day = '{{{{ ds }}}}'"}},
               transform="select id, n + 1 as n from source")
        UpsertOperator.partial(task_id="mapped", table=table("mapped"), engine="local").expand(source=[
            {{"conn_id": "shop", "sql": "SELECT id, n FROM orders WHERE id = :id", "parameters": {{"id": i}}}}
            for i in ("a", "c")
        ])
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary folder of the test's own: other tests lay their rows into the user's at the same time."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    """The database of the connection `shop`."""
    require(find_spec("airflow.providers.sqlite"), "no Airflow provider of SQLite")
    path = tmp_path / "shop.db"
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "sqlite", "host": str(path)}))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as made:
        made.execute("CREATE TABLE orders (id TEXT, n INTEGER, day TEXT)")
        made.executemany("INSERT INTO orders VALUES (?, ?, '2026-01-02')", [("a", 1), ("b", None), ("c", 3)])
        yield made


@pytest.fixture
def table(tmp_path: Path) -> HoodieTable:
    return HoodieTable(name="t", path=str(tmp_path / "t"), record_keys="id")


def made(table: HoodieTable, source: Any, **given: Any) -> UpsertOperator:
    return UpsertOperator(**{"task_id": "t", "table": table, "source": source, "engine": "local", **given})


def rows(path: str | Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = hoodie.read_table(str(path), meta=False).to_pylist()
    return sorted(found, key=lambda row: str(row["id"]))


def left_here() -> list[Path]:
    return [path for path in _folder().iterdir() if path.is_dir()]


def staged(table: HoodieTable) -> list[str]:
    folder = Path(table.path, ".hoodie", ".aux", "airflow-rows")
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_tasks_write_what_others_return_and_what_databases_answer(
    load_dag: Callable[[str], Any], shop: sqlite3.Connection, jobs_here: None, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": ["p"], "n": [1]}), tmp_path / "rows.parquet")
    dag = load_dag(DAG_FILE.format(folder=str(tmp_path)))
    day = datetime(2026, 1, 2, tzinfo=timezone.utc)
    run = dag.test(logical_date=day)
    assert set(states(run).values()) == {"success"}
    assert rows(tmp_path / "of_frame") == [{"id": "a", "n": 1}, {"id": "b", "n": 2}]
    assert rows(tmp_path / "of_dicts") == [
        {"id": "a", "n": 1, "more": None},
        {"id": "b", "n": None, "more": "x"},
    ]
    assert rows(tmp_path / "of_path") == [{"id": "p", "n": 1}]
    assert rows(tmp_path / "of_query") == [{"id": "a", "n": 2}, {"id": "b", "n": None}, {"id": "c", "n": 4}]
    assert rows(tmp_path / "mapped") == [{"id": "a", "n": 1}, {"id": "c", "n": 3}]

    shop.execute("DROP TABLE orders")  # a second run of the interval finds its commits, and asks no database
    again = dag.test(logical_date=day)
    results = {ti.task_id: ti.xcom_pull(task_ids=ti.task_id) for ti in again.get_task_instances()}
    assert set(states(again).values()) == {"success"}
    assert results["of_query"]["status"] == results["of_frame"]["status"] == "already_committed"
    assert results["of_dicts"]["status"] == results["of_path"]["status"] == "already_committed"
    assert len(hoodie.instants(str(tmp_path / "mapped"))) == 2
    assert left_here() == []


POLARS_FILE = """
    from datetime import datetime, timezone
    import polars as pl
    from airflow.sdk import DAG, task
    from airflow_hoodie import HoodieTable, UpsertOperator

    @task
    def eager_rows():
        kinds = {{"id": pl.String, "n": pl.Int64, "kind": pl.Categorical}}
        return pl.DataFrame({{"id": ["a", "b"], "n": [1, None], "kind": ["x", "y"]}}, kinds)

    @task
    def lazy_rows():
        return pl.LazyFrame({{"id": ["a", "b"], "n": [1, 0]}}).filter(pl.col("n") > 0)

    with DAG("polars", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
        for name, source in (("eager", eager_rows()), ("lazy", lazy_rows())):
            table = HoodieTable(name=name, path={folder!r} + "/" + name, record_keys="id")
            UpsertOperator(task_id=name, table=table, source=source, engine="local")
"""


def test_frames_of_polars_come_by_a_backend_that_carries_them(
    load_dag: Callable[[str], Any], jobs_here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow itself has no form for them: here XComs are pickled, as a backend of one's own may do it."""

    def pickled(value: Any, **_: Any) -> str:
        return base64.b64encode(pickle.dumps(value)).decode()

    def unpickled(result: Any) -> Any:
        return pickle.loads(base64.b64decode(result.value))

    monkeypatch.setattr(BaseXCom, "serialize_value", staticmethod(pickled))
    monkeypatch.setattr(BaseXCom, "deserialize_value", staticmethod(unpickled))
    dag = load_dag(POLARS_FILE.format(folder=str(tmp_path)))
    for _ in range(2):
        run = dag.test(logical_date=datetime(2026, 1, 2, tzinfo=timezone.utc))
        assert set(states(run).values()) == {"success"}
    assert len(hoodie.instants(str(tmp_path / "eager"))) == 1, "the second run finds the rows of the first"
    assert rows(tmp_path / "eager") == [{"id": "a", "n": 1, "kind": "x"}, {"id": "b", "n": None, "kind": "y"}]
    assert rows(tmp_path / "lazy") == [{"id": "a", "n": 1}]
    assert left_here() == []


QUERY = {"conn_id": "shop", "sql": "SELECT id, n FROM orders"}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({**QUERY, "path": "/in"}, "source has sql of a connection, and path besides; give either a query"),
        ({"sql": "SELECT 1"}, "its conn_id is None"),
        ({"conn_id": "shop"}, "its sql is None"),
        ({**QUERY, "sql": "  "}, "its sql is '  '"),
        ({**QUERY, "conn_id": 3}, "its conn_id is 3"),
        ({**QUERY, "parameters": 3}, "source parameters are 3; give a list or a dict"),
        ([], r"source path is \[\]"),
        ({"path": "relative/rows.csv"}, "is relative"),
    ],
)
def test_a_dag_file_refuses_sources_that_are_none(table: HoodieTable, source: Any, said: str) -> None:
    with pytest.raises(HoodieConfigurationError, match=said):
        made(table, source)


def test_other_operators_refuse_queries(table: HoodieTable) -> None:
    with pytest.raises(HoodieConfigurationError, match="source has no field 'conn_id', 'sql'"):
        IngestOperator(task_id="t", table=table, source=QUERY)
    for item in (QUERY, {"source": QUERY}):
        with pytest.raises(HoodieConfigurationError, match="table 'news' is a query of a connection"):
            HoodieSQLOperator(
                task_id="t", table=table, sql="INSERT INTO t SELECT * FROM news", tables={"news": item}
            )
    path: Any = ObjectStoragePath("s3://keys@lake/in")
    ingest = IngestOperator(task_id="t", table=table, source=path)
    with pytest.raises(HoodieConfigurationError, match="is opened by the connection 'keys'"):
        ingest.request()


def test_a_changed_source_is_written_again(
    table: HoodieTable, shop: sqlite3.Connection, jobs_here: None
) -> None:
    first = made(table, [{"id": "a", "n": 1}], token="x").execute({})
    assert made(table, [{"id": "a", "n": 1}], token="x").execute({})["instant"] == first["instant"]
    changed = made(table, [{"id": "a", "n": 2}], token="x").execute({})
    assert (changed["status"], rows(table.path)) == ("committed", [{"id": "a", "n": 2}])
    assert any("changed" in text for text in changed["warnings"])
    by_query = made(table, QUERY, token="q").execute({})
    assert by_query["num_inserts"] == 2
    assert made(table, QUERY, token="q").execute({})["status"] == "already_committed"
    other = made(table, {**QUERY, "sql": "SELECT 'd' AS id, 4 AS n"}, token="q").execute({})
    assert (other["status"], len(rows(table.path))) == ("committed", 4)


def test_rows_take_the_types_of_the_table(
    table: HoodieTable, shop: sqlite3.Connection, jobs_here: None
) -> None:
    kinds: dict[str, pa.DataType] = {
        "id": pa.string(),
        "n": pa.int32(),
        "price": pa.decimal128(10, 2),
        "raw": pa.binary(),
    }
    typed = pa.schema(kinds)
    hoodie.write_table(typed.empty_table(), table.path, options=table.options_for("upsert"))
    made(table, [{"id": "a", "n": 1, "price": 2, "raw": None}]).execute({})
    sql = "SELECT id, n, NULL AS price, CAST('x' AS BLOB) AS raw FROM orders WHERE n > 2"
    made(table, {"conn_id": "shop", "sql": sql}).execute({})
    found = hoodie.read_table(table.path, meta=False)
    assert found.schema.types == typed.types
    assert [(row["id"], row["n"], str(row["price"]), row["raw"]) for row in rows(table.path)] == [
        ("a", 1, "2.00", None),
        ("c", 3, "None", b"x"),
    ]


def test_no_rows_are_the_commit_of_an_empty_source(
    table: HoodieTable, shop: sqlite3.Connection, jobs_here: None
) -> None:
    nothing = {"conn_id": "shop", "sql": "SELECT id, n FROM orders WHERE id = 'z'"}
    with pytest.raises(
        HoodieValidationError, match=r"column 'id' of the query has no value, .* no such column"
    ):
        made(table, nothing).execute({})
    empty = made(table, [{"id": "a", "n": 1}])
    empty.source = []  # as a task may return it
    with pytest.raises(HoodieValidationError, match="an empty list, which has no columns"):
        empty.execute({})
    made(table, [{"id": "a", "n": 1}]).execute({})
    assert made(table, nothing).execute({})["num_writes"] == 0
    empty.source = []
    assert empty.execute({})["num_writes"] == 0
    assert rows(table.path) == [{"id": "a", "n": 1}]


def test_a_dry_run_leaves_nothing(table: HoodieTable, shop: sqlite3.Connection, jobs_here: None) -> None:
    result = made(table, QUERY, dry_run=True).execute({})
    assert (result["status"], result["num_inserts"]) == ("planned", 3)
    assert not Path(table.path).exists()
    assert left_here() == []


def test_what_is_no_database_is_named(
    table: HoodieTable, shop: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HoodieConfigurationError, match="source connection 'gone' is not defined"):
        made(table, {**QUERY, "conn_id": "gone"}).execute({})
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", "hoodie://")
    with pytest.raises(HoodieConfigurationError, match="'lake' has a HoodieHook, which runs no SQL"):
        made(table, {**QUERY, "conn_id": "lake"}).execute({})
    monkeypatch.setenv("AIRFLOW_CONN_ODD", "oddity://")
    with pytest.raises(HoodieConfigurationError, match=r"'odd' has no hook on this worker: .*oddity"):
        made(table, {**QUERY, "conn_id": "odd"}).execute({})
    with pytest.raises(HoodieValidationError, match="sql returns no rows"):
        made(table, {**QUERY, "sql": "DROP TABLE orders"}).execute({})
    assert left_here() == []


def test_a_killed_task_stops_reading(table: HoodieTable, shop: sqlite3.Connection) -> None:
    task = made(table, QUERY)
    task.on_kill()
    with pytest.raises(HoodieJobKilledError, match="while its source was read"):
        task.execute({})
    assert left_here() == []


SPARK_JOB = """
    import hoodie
    from hoodie.source import Source, arrow
    path = request["source"]["path"]
    rows = arrow.read(Source.of(request["source"]))
    if request["options"].get("hoodie.table.name") == "fails":
        say("ERROR", {"code": "input", "message": "refused", "values": {}})
        sys.exit(1)
    result = hoodie.write_table(rows, request["table"], options=request["options"])
    say("RESULT", {**result.to_dict(), "warnings": path})
"""


@pytest.mark.parametrize("name", ["t", "fails"])
def test_a_job_on_spark_reads_them_in_the_folder_of_the_table(
    table: HoodieTable, shop: sqlite3.Connection, fake: FakeSubmit, name: str
) -> None:
    fake.body(SPARK_JOB)
    old = Path(table.path, ".hoodie", ".aux", "airflow-rows", "old-query.parquet")
    task = made(
        HoodieTable(name=name, path=table.path, record_keys="id"),
        QUERY, engine="spark", master="local[1]", spark_binary=str(fake.path),
    )  # fmt: skip
    if name == "fails":
        with pytest.raises(HoodieValidationError, match="refused"):
            task.execute({})
    else:
        (path,) = task.execute({})["warnings"]
        assert Path(path).parent == old.parent
        assert len(rows(table.path)) == 3
    assert (staged(table), left_here()) == ([], [])


def test_paths_behind_a_connection_are_copied(
    table: HoodieTable, tmp_path: Path, jobs_here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_DISK", '{"conn_type": "fs"}')
    folder = ObjectStoragePath(f"file://{tmp_path}/in", conn_id="disk")
    with pytest.raises(HoodieSourceNotFoundError, match="no such source: file://disk@"):
        made(table, folder).execute({})
    (tmp_path / "in" / "more").mkdir(parents=True)
    (tmp_path / "in" / "1.csv").write_text("id,n\na,1\n")
    (tmp_path / "in" / "more" / "1.csv").write_text("id,n\nb,2\n")
    (tmp_path / "in" / "_mark").write_text("no row")
    assert made(table, folder, token="x").execute({})["num_inserts"] == 2
    assert made(table, {"path": folder}, token="x").execute({})["status"] == "already_committed"
    assert rows(table.path) == [{"id": "a", "n": 1}, {"id": "b", "n": 2}]
    (tmp_path / "in" / "1.csv").write_text("id,n\na,7\n")
    assert made(table, folder, token="x").execute({})["status"] == "committed"
    assert left_here() == []


def test_what_is_shown_of_rows_is_no_row(table: HoodieTable) -> None:
    """Rendered fields are kept in Airflow's database, and their secrets are masked in all logs."""
    task = made(table, SimpleNamespace(resolve=None))
    task.source = [{"id": "a", "password": "the"}]
    task.on_rendered()
    assert str(task.source) == "list of 1 rows: id, password"
    assert source_places(task.source) == source_places(QUERY) == []
    task.source = {**QUERY, "parameters": {"password": "s3cret-text"}}
    task.on_rendered()
    assert task.source == {**QUERY, "parameters": {"password": "s3cret-text"}}
