"""The twenty tasks of benchmarks/tasks with `hoodie.Table`, beside a model of a table in plain Python."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from benchmarks import tasks
from benchmarks.tasks import SCHEMA, TASKS, WITHOUT, Contestant, begun, run, steps, table_text
from scripts.environment import ROOT


class Model(ModuleType):
    """A table as rows by key, for each of its versions. The place is no place."""

    def __init__(self) -> None:
        super().__init__("model")
        self._versions: list[dict[str, dict[str, Any]]] = [{}]

    def rows(self, place: object) -> list[dict[str, Any]]:
        return list(self._versions[-1].values())

    read_polars = rows

    def newest(self, place: object) -> int:
        return len(self._versions) - 1

    def time_travel(self, place: object, version: int) -> list[dict[str, Any]]:
        return list(self._versions[version].values())

    def filtered(self, place: object) -> list[dict[str, Any]]:
        some = [row for row in self.rows(place) if row["status"] == "open"]
        return [{name: row[name] for name in ("order_id", "amount")} for row in some]

    def change_feed(self, place: object, version: int) -> list[tuple[str, str]]:
        old = self._versions[version]
        return [
            ("u" if row["order_id"] in old else "i", row["order_id"])
            for row in self.incremental(place, version)
        ]

    def incremental(self, place: object, version: int) -> list[dict[str, Any]]:
        old = self._versions[version]
        return [row for row in self.rows(place) if old.get(row["order_id"]) != row]

    def upsert(self, place: object, frame: Any) -> None:
        self._put({row["order_id"]: row for row in frame.to_dict("records")})

    def merge(self, place: object, frame: Any) -> None:
        news = {row["order_id"]: row for row in frame.to_dict("records")}
        for key, stored in self._versions[-1].items():
            if key in news:
                news[key] = {**stored, "status": news[key]["status"], "updated_at": news[key]["updated_at"]}
        self._put(news)
        self._keep(lambda row: row["status"] != "cancelled")

    def delete(self, place: object) -> None:
        self._keep(lambda row: row["status"] != "void")

    def overwrite_partitions(self, place: object, frame: Any) -> None:
        days = set(frame["order_date"])
        self._keep(lambda row: row["order_date"] not in days)
        self.upsert(place, frame)

    def add_column(self, place: object, frame: Any) -> None:
        stored = {key: {**row, "note": None} for key, row in self._versions[-1].items()}
        self._put({**stored, **{row["order_id"]: row for row in frame.to_dict("records")}})

    def restore(self, place: object, version: int) -> None:
        self._versions.append(self._versions[version])

    def kill_a_writer(self, place: object) -> None:
        self._left = [place]

    def left(self, place: object) -> list[object]:
        return self._left

    def _put(self, rows: dict[str, dict[str, Any]]) -> None:
        self._versions.append({**self._versions[-1], **rows})

    def _keep(self, condition: Any) -> None:
        self._versions.append({key: row for key, row in self._versions[-1].items() if condition(row)})


def test_twenty_tasks(tmp_path: Path) -> None:
    ours, model = begun("hoodie", tmp_path), Contestant("model", Model(), "")
    assert run([ours, model]) == []
    assert {*ours.answers, *WITHOUT} == set(TASKS)
    assert len(TASKS) == 20
    final = {row["order_id"]: row["amount"] for row in ours.rows()}
    assert final == {"o0": 0.0, "o3": 3.0, "o2": 2.0, "o5": 5.0, "o9": 9.0, "o10": 1.0, "o11": 3.0}


def test_a_difference_is_said(tmp_path: Path) -> None:
    ours, model = begun("hoodie", tmp_path), Contestant("model", Model(), "")
    for one in (ours, model):
        one.do("create", SCHEMA)
    ours.do("upsert", tasks.orders(("o1", 1, 1.0, "open", 1)))
    model.do("upsert", tasks.orders(("o1", 1, 2.0, "open", 1)))
    [said] = tasks.differences("rows", {one.name: one.rows() for one in (ours, model)})
    assert said.startswith("rows: hoodie has [{")


def test_steps_are_those_of_the_page() -> None:
    found = steps()
    assert set(found["hoodie"]) == set(TASKS)
    assert table_text(found) in (ROOT / "docs" / "benchmarks.md").read_text()


def test_what_is_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = [
        "import os",
        "def create(path, schema):",
        "    with open(path) as file:",
        "        text = file.read()",
    ]
    (tmp_path / "mine.py").write_text("\n".join([*program, "    return len(text)"]))
    monkeypatch.setattr(tasks, "CONTESTANTS", {"mine": ("mine", ())})
    monkeypatch.setattr(tasks, "FOLDER", tmp_path)
    assert steps() == {"mine": {"create": tasks.Steps(statements=3, calls=3)}}


def test_rows_have_one_form() -> None:
    table = pa.table({"order_id": ["b", "a"], "amount": [1.0, 2.0], "_change_type": ["insert", "insert"]})
    expected = [{"order_id": "a", "amount": 2.0}, {"order_id": "b", "amount": 1.0}]
    assert tasks.plain(table) == tasks.plain(table.to_reader()) == tasks.plain(table.to_pylist()) == expected
