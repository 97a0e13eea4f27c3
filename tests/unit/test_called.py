"""Python functions as transforms, with the local engine."""

from __future__ import annotations

import json
import socket
import sys
import urllib.error
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.backend.local import LocalBackend
from hoodie.cli import main
from hoodie.config.functions import identity, name_of
from hoodie.errors import ConfigError, TransformError
from hoodie.jobs._main import parse_request, run
from hoodie.progress import silent
from hoodie.source import Source
from hoodie.source import transform as transforming
from tests.support import functions

OPTIONS = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.index.bloom.num_entries": "100"}
ROWS = pa.table({"id": ["a", "b", "c"], "n": pa.array([1, 2, None], pa.int64())})
NAME = "tests.support.functions:doubled"
DOUBLED = [("a", 2, "2"), ("b", 4, "4")]


@pytest.fixture
def table(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def rows(table: str) -> list[tuple[Any, ...]]:
    found = hoodie.read_table(table, meta=False).to_pylist()
    return sorted(tuple(row.values()) for row in found)


@pytest.mark.parametrize(
    ("kind", "transform"),
    [("table", NAME), ("batch", functions.doubled), ("reader", NAME), ("dataset", functions.doubled)],
)
def test_rows_of_every_kind(table: str, tmp_path: Path, kind: str, transform: Any) -> None:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    given: Any = {
        "table": ROWS,
        "batch": ROWS.to_batches()[0],
        "reader": ROWS.to_reader(1),
        "dataset": ds.dataset(tmp_path / "rows.parquet"),
    }[kind]
    assert hoodie.write_table(given, table, options=OPTIONS, transform=transform).num_inserts == 2
    assert rows(table) == DOUBLED


def test_a_function_is_called_for_each_batch(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transforming, "BATCH_ROWS", 2)
    sizes = []

    def kept(batch: pa.RecordBatch) -> pa.RecordBatch | None:
        sizes.append(batch.num_rows)
        return batch if len(sizes) > 1 else None

    assert hoodie.write_table(ROWS, table, options=OPTIONS, transform=kept).num_inserts == 1
    assert sizes == [2, 1]
    result = hoodie.write_table(ROWS, table, options=OPTIONS, transform=lambda batch: batch.slice(0, 1))
    assert (result.num_inserts, result.num_updates) == (1, 1)


def test_no_rows(table: str) -> None:
    hoodie.write_table(ROWS, table, options=OPTIONS)
    assert hoodie.write_table(ROWS, table, options=OPTIONS, transform=functions.nothing).num_writes == 0
    none = ROWS.slice(0, 0)
    assert hoodie.write_table(none, table, options=OPTIONS, transform=functions.doubled).num_writes == 0


class Changing:
    """Answers with another schema each time; `at` says what of it changes."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    def __call__(self, batch: pa.RecordBatch) -> Any:
        return self._answers.pop(0)


def one(**columns: Any) -> pa.Table:
    return pa.table({name: [value] for name, value in columns.items()})


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (functions.wrong, "tests.support.functions:wrong returned a dict; return a pyarrow RecordBatch or"),
        (functions.fails, "tests.support.functions:fails raised ValueError: no such country"),
        ("tests.support.functions:fails", "tests.support.functions:fails raised ValueError"),
        (
            "tests.support.functions:nosuch",
            r"functions:nosuch can't be imported \(AttributeError",
        ),
        ("no.such.module:f", r"no\.such\.module:f can't be imported \(ModuleNotFoundError"),
        ("tests.support.functions:number", "is a int, no function"),
        (lambda batch: pa.table([[1], [2]], ["id", "id"]), "returned the columns id, id; name each once"),
        (Changing(one(id="a"), one(id="b", n=1)), "returned the columns id, n after id; return the same"),
        (Changing(one(id="a"), one(id=pa.scalar([1]))), r"returned other types than before \(id: list<"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(
    table: str, transform: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transforming, "BATCH_ROWS", 2)
    with pytest.raises((ConfigError, TransformError), match=message) as caught:
        hoodie.write_table(ROWS, table, options=OPTIONS, transform=transform)
    own = "imported" not in message and "no function" not in message
    assert caught.value.code == ("transform" if own else "configuration")
    assert not Path(table, ".hoodie").exists()


@pytest.mark.parametrize("named", [True, False], ids=["by its name", "itself"])
def test_an_error_of_the_function_says_where(table: str, named: bool) -> None:
    """The file and the line in the message, and its traceback, without frames of this package."""
    function: Any = "tests.support.functions:fails" if named else functions.fails
    with pytest.raises(TransformError) as caught:
        hoodie.write_table(ROWS, table, options=OPTIONS, transform=function)
    lines = Path(functions.__file__).read_text().splitlines()
    line = next(at for at, text in enumerate(lines, 1) if "no such country" in text)
    message = f"fails raised ValueError: no such country (in fails, {functions.__file__}, line {line})"
    assert caught.value.message.endswith(message)
    values = caught.value.values
    assert (values["file"], values["line"], values["error"]) == (functions.__file__, line, "ValueError")
    assert values["traceback"].splitlines()[0] == "Traceback (most recent call last):"
    assert values["traceback"].splitlines()[-1] == "ValueError: no such country"
    assert 'raise ValueError("no such country")' in values["traceback"]
    assert "transform.py" not in values["traceback"]
    assert isinstance(caught.value.__cause__, ValueError)
    assert not caught.value.transient


def test_an_error_of_a_library_names_the_line_that_called_it(table: str) -> None:
    def parses(batch: pa.RecordBatch) -> Any:
        return json.loads("{")

    with pytest.raises(TransformError, match=rf"JSONDecodeError: Exp.*\(in parses, {__file__}, line \d+\)"):
        hoodie.write_table(ROWS, table, options=OPTIONS, transform=parses)


class ConnectTimeout(OSError):
    """As that of requests, which is no TimeoutError."""


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (ConnectionResetError("reset"), True),
        (TimeoutError("10 s"), True),
        (socket.gaierror("no such host"), True),
        (ConnectTimeout("10 s"), True),
        (urllib.error.URLError(ConnectionRefusedError()), True),
        (urllib.error.URLError("unknown url type"), False),
        (FileNotFoundError("rates.csv"), False),
        (KeyError("rate"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_connections_may_work_the_next_time(table: str, error: Exception, transient: bool) -> None:
    def asks(batch: pa.RecordBatch) -> Any:
        raise error

    with pytest.raises(TransformError) as caught:
        hoodie.write_table(ROWS, table, options=OPTIONS, transform=asks)
    assert caught.value.transient is transient
    assert ("did not answer" in caught.value.message) is transient


def test_a_bug_in_what_handles_a_lost_connection_is_a_bug(table: str) -> None:
    """What was handled is no cause; what another error was raised from is one."""

    def falls_back(batch: pa.RecordBatch) -> Any:
        try:
            raise ConnectionError("lost")
        except ConnectionError:
            found: dict[str, Any] = {}
            return found["cached"]

    with pytest.raises(TransformError, match="KeyError") as caught:
        hoodie.write_table(ROWS, table, options=OPTIONS, transform=falls_back)
    assert not caught.value.transient
    with pytest.raises(TransformError, match=r": rates: no answer \(in unreachable, .*\); what it") as caught:
        hoodie.write_table(ROWS, table, options=OPTIONS, transform=functions.unreachable)
    assert caught.value.transient


def test_which_functions_other_processes_can_import(monkeypatch: pytest.MonkeyPatch) -> None:
    assert name_of(functions.doubled) == NAME
    assert name_of(functions.Made.same) == "tests.support.functions:Made.same"
    assert name_of(lambda batch: batch) is None
    assert name_of(functions.Made().same) == "tests.support.functions:Made.same"
    assert name_of(Changing()) is None

    def inner(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    assert name_of(inner) is None
    monkeypatch.setattr(inner, "__qualname__", "inner")
    monkeypatch.setattr(inner, "__module__", "unusual_prefix_a_dag")  # as Airflow calls the file of a DAG
    monkeypatch.setitem(sys.modules, "unusual_prefix_a_dag", sys.modules[__name__])
    assert name_of(inner) is None
    assert Source.of("/in", None, functions.doubled).transform == NAME


def test_another_source_text_is_another_write(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "cleaning_of_orders.py"

    def job() -> list[str]:
        sys.modules.pop("cleaning_of_orders", None)
        given = {"table": table, "source": str(tmp_path / "rows.parquet"), "options": OPTIONS, "token": "d/t"}
        request = {**given, "transform": "cleaning_of_orders:same"}
        result = run(LocalBackend(), parse_request(request, "upsert"), silent)
        return [result["status"], *result["warnings"]]

    module.write_text("def same(batch):\n    return batch\n")
    assert job() == ["committed"]
    module.write_text("# moved\nother = 1\ndef same(batch):\n    return batch\n")
    assert job() == ["already_committed"]
    module.write_text("def same(batch):\n    return batch.slice(0, 2)\n")
    status, warning = job()
    assert status == "committed"
    assert "its source changed" in warning


def test_what_has_no_def_is_known_by_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alias, number = identity("tests.support.functions:alias"), identity("tests.support.functions:number")
    assert alias.partition(" ")[2] == number.partition(" ")[2] != identity(NAME).partition(" ")[2]
    with pytest.raises(ConfigError, match=r"no\.such:f is not found here"):
        identity("no.such:f")


def test_an_ingestion_and_the_command(table: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id":"a","n":1}\nx\n{"id":"b","n":2}\n')
    errors = str(tmp_path / "errors")
    result = hoodie.ingest(
        str(tmp_path / "in"), table, options=OPTIONS, transform=functions.doubled, error_table=errors
    )
    assert (result.write.num_inserts, result.num_bad_rows) == (2, 1)
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    options = [word for name, value in OPTIONS.items() for word in ("--option", f"{name}={value}")]
    words = ["upsert", "--table", table, "--source", str(tmp_path / "rows.parquet"), *options]
    assert main([*words, "--transform", NAME]) == 0
    assert rows(table) == DOUBLED
