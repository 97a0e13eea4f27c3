"""The examples of README and docs that need neither Airflow nor Spark run, on a table of theirs."""

from __future__ import annotations

import datetime as dt
import json
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.cli import main
from tests.house.test_docs import PAGES, blocks, commands
from tests.support.changes import keeps_changes

NEEDS_AIRFLOW = ("ORDERS", "airflow")
NEEDS_SPARK = ("engine=spark", "spark=spark", 'format("hoodie")')
KEYS = {
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.datasource.write.partitionpath.field": "order_date",
    "hoodie.datasource.write.precombine.field": "updated_at",
    "hoodie.bloom.index.filter.dynamic.max.entries": 1000,
    "hoodie.index.bloom.num_entries": 100,
}


def orders(first: int = 0) -> pa.Table:
    count, day = 6, dt.datetime(2024, 1, 1 + first // 10)
    return pa.table(
        {
            "order_id": [f"o{number}" for number in range(first, first + count)],
            "order_date": [dt.date(2024, 1, 1 + number % 2) for number in range(count)],
            "customer_id": pa.array(range(count), pa.int64()),
            "country": ["DK"] * count,
            "amount": pa.array([1.5] * count),
            "status": ["open", "paid"] * (count // 2),
            "updated_at": pa.array([day] * count, pa.timestamp("us", "UTC")),
        }
    )


def examples(page: Path) -> list[str]:
    texts = [text for text in blocks(page, "python") if not any(word in text for word in NEEDS_SPARK)]
    return [text for text in texts if not any(word in text for word in NEEDS_AIRFLOW)]


#: the quickstart has a test of its own
RUN = [page for page in PAGES if examples(page) and page.name != "quickstart.md"]


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_python_runs(page: Path, tmp_path: Path) -> None:
    table = str(tmp_path / "orders")
    kind = "MERGE_ON_READ" if page.name == "merge-on-read.md" else "COPY_ON_WRITE"
    for _ in range(2):
        hoodie.write_table(orders(), table, options={**KEYS, "hoodie.datasource.write.table.type": kind})
    if page.name == "python.md":
        hoodie.write_table(orders(), f"{table}_with_changes", options=KEYS)
        keeps_changes(Path(f"{table}_with_changes"))
    values: dict[str, Any] = {"hoodie": hoodie, "rows": orders(1)}
    for text in examples(page):
        exec(compile(text.replace("/data/orders", table), str(page), "exec"), values)  # noqa: S102
    if "options" in values:
        hoodie.write_table(orders(), table, options=values["options"])


class Tour:
    """The commands of a page, in their order, on one table."""

    def __init__(self, folder: Path) -> None:
        self.table = str(folder / "orders")
        (folder / "landing").mkdir()
        pa.csv.write_csv(orders(), folder / "landing" / "one.csv")
        pq.write_table(orders(10), folder / "new.parquet")
        (folder / "more.json").write_text(
            "\n".join(json.dumps(row, default=str) for row in orders(20).to_pylist())
        )
        pa.csv.write_csv(orders(10).slice(0, 1).select(["order_id", "order_date"]), folder / "keys.csv")
        pq.write_table(orders(30), folder / "day.parquet")

    def instant(self, command: str) -> str:
        """What the command works on, made where it is not there yet."""
        if command == "cancel":
            hoodie.write_table(orders(30), self.table)
            options = {"hoodie.compact.inline.max.delta.commits": 1}
            hoodie.compact_table(self.table, mode="schedule", options=options)
        elif command == "rollback":
            hoodie.write_table(orders(40), self.table)
        found = hoodie.instants(self.table)
        times: list[str] = [i["instant"] for i in found if command != "restore" or i["action"] == "savepoint"]
        return max(times)

    def run(self, line: list[str]) -> int:
        words = [word.replace("/data/orders", self.table) for word in line]
        if not Path(self.table).exists():
            words += ["--option", "hoodie.datasource.write.table.type=MERGE_ON_READ"]
        if "--instant" in words:
            words[words.index("--instant") + 1] = self.instant(words[0])
        if words[0] == "log":
            hoodie.write_table(orders(), self.table)
            words[1] = str(next(Path(self.table).rglob(".*.log.*")))
        return main(words)


@pytest.mark.parametrize("name", ["README.md", "cli.md", "migration.md"])
def test_the_command_line_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tour = Tour(tmp_path)
    [page] = (page for page in PAGES if page.name == name)
    for line in commands(page):
        if line[1] == "serve" or line == ["hoodie", "doctor"]:
            continue  # the one never ends, the other looks at Java and Spark, and has tests of its own
        assert tour.run(line[1:]) == 0, f"{shlex.join(line)}: {capsys.readouterr()}"
