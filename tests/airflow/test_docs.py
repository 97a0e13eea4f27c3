"""The Airflow examples of README and docs: each page's DAGs and tasks are made, its connections read."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import airflow_hoodie
from scripts.environment import ROOT
from tests.house.test_docs import PAGES, blocks

airflow = pytest.importorskip("airflow.sdk")
[TABLE] = (text for page in PAGES if page.name == "airflow.md" for text in blocks(page, "python")[:1])
DAGS = sorted((ROOT / "dags_examples").glob("*.py"))
AIRFLOW = re.compile(r"airflow(?!\.token)|ORDERS")


def parts(file: Path) -> list[tuple[str, str]]:
    """What is between the marks of an example, by their names."""
    text = file.read_text()
    names = re.findall(r"# \[START (\w+)\]", text)
    assert sorted(names) == sorted(re.findall(r"# \[END (\w+)\]", text)), file.name
    return [(name, text.split(f"[START {name}]")[1].split(f"[END {name}]")[0]) for name in names]


def examples(page: Path) -> list[str]:
    return [text for text in blocks(page, "python") if AIRFLOW.search(text)]


@pytest.mark.parametrize("page", [page for page in PAGES if examples(page)], ids=lambda page: page.name)
def test_airflow_accepts_them(page: Path) -> None:
    values: dict[str, Any] = {}
    with airflow.DAG("table", schedule=None):
        exec(TABLE, values)  # noqa: S102
    with airflow.DAG("docs", schedule=None, start_date=dt.datetime(2026, 1, 1)):
        for text in examples(page):
            exec(compile(text, str(page), "exec"), values)  # noqa: S102


def test_each_operator_and_sensor_has_an_example() -> None:
    """The table of docs/airflow.md: a page with a code block that runs, and a marked part of a DAG."""
    page = ROOT / "docs" / "airflow.md"
    rows = [line.strip("| ").split(" | ") for line in page.read_text().splitlines() if line.startswith("| `")]
    shown: dict[str, list[str]] = {
        name: cells for cells in rows if "](" in cells[1] for name in re.findall(r"`(\w+)`", cells[0])
    }
    kinds = ("Operator", "Sensor", "Notifier")
    assert set(shown) == {name for name in airflow_hoodie.__all__ if name.endswith(kinds)}
    marked = {name: text for file in DAGS for name, text in parts(file)}
    for name, (_, section, *dag) in shown.items():
        target = re.findall(r"\]\(([\w-]*\.md)?", section)[0]
        code = "\n".join(blocks(page.parent / target if target else page, "python"))
        assert re.search(rf"\b{name}(\.partial)?\(", code), f"{name}: {section}"
        if dag:
            [marker] = re.findall(r"`(howto_\w+)`", dag[0])
            assert marker == "howto" + re.sub("(?=[A-Z])", "_", name).lower()
            assert re.search(rf"\b{name}(\.partial)?\(", marked.pop(marker)), f"{name}: {marker}"
    assert marked == {}


def exports() -> list[tuple[str, str]]:
    text = "\n".join(text for page in PAGES for text in blocks(page, "bash"))
    words = shlex.split(text, comments=True)
    pairs = [word.partition("=") for before, word in pairwise(words) if before == "export"]
    return [(name, value) for name, _, value in pairs]


@pytest.mark.parametrize(("name", "value"), exports(), ids=[name for name, _ in exports()])
def test_exports_are_read(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name.startswith("AIRFLOW_CONN_"):
        from airflow.models.connection import Connection

        connection = Connection.from_json(value)
        assert connection.conn_type in ("aws", "hoodie", "hoodie_lock", "spark")
        assert isinstance(connection.extra_dejson, dict)
    elif name == "AIRFLOW__HOODIE__TABLES":
        assert all(os.path.isabs(path) for path in json.loads(value).values())
    elif name == "AIRFLOW__HOODIE__MAINTENANCE_DAG":
        assert value == "maintenance"
    else:
        assert name == "AIRFLOW__HOODIE__TABLES_OF_ASSETS"
        assert value in ("True", "False")
