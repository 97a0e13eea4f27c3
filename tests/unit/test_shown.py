"""Results in a shell and in a notebook: several lines, a table, nothing that a table says is obeyed."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie import services
from hoodie.services.results import ServiceResult
from hoodie.shown import Records, Shown


def orders(*days: str) -> pa.Table:
    return pa.table({"id": [f"o{number}" for number in range(len(days))], "day": list(days)})


@pytest.fixture
def table(tmp_path: Path) -> hoodie.Table:
    made = hoodie.Table(tmp_path / "orders")
    made.upsert(orders("1", "1", "2"), keys="id", partition_by="day")
    return made


def facts(text: str) -> dict[str, str]:
    """The lines of a repr below its title, but for those of records."""
    lines = [line.strip() for line in text.splitlines()[1:] if not line.startswith("    ")]
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_a_write_has_a_line_for_each_field_with_a_value(table: hoodie.Table) -> None:
    result = table.upsert(orders("1", "1", "2", "3"))
    shown = facts(repr(result))
    assert (shown["status"], shown["num_inserts"], shown["num_updates"]) == ("committed", "1", "3")
    assert (shown["instant"], shown["partitions"]) == (result.instant, "1, 2, 3")
    assert not {"num_deletes", "warnings", "planned", "metadata_table_removed"} & shown.keys()
    html = result._repr_html_()
    assert html.startswith("<table><caption>WriteResult</caption>")
    assert html.count("<tr>") == len(shown)


def test_records_of_a_result_are_lines_below_it(table: hoodie.Table) -> None:
    planned = table.upsert(orders("1", "3"), dry_run=True)
    text = repr(planned)
    assert facts(text)["planned"] == "2"
    assert "\n    partition=3, inserts=1, " in text
    assert "<th" in planned._repr_html_().split("planned", 2)[2]
    many = table.insert(orders(*(f"{number:02}" for number in range(12))), dry_run=True)
    assert "\n    and 2 more" in repr(many)
    assert "and 2 more" in many._repr_html_()


def test_services_and_explanations(table: hoodie.Table) -> None:
    done = table.run_services()
    assert "\n    clean, status=skipped, " in repr(done)
    assert facts(repr(table.plan_services()))["services"] == str(len(table.plan_services().services))
    read = table.explain("day = '1'")
    assert (facts(repr(read))["read_files"], "<caption>ReadExplanation" in read._repr_html_()) == ("1", True)
    write = table.explain_write(orders("1"))
    assert facts(repr(write))["num_updates"] == "1"
    assert "<caption>WriteExplanation" in write._repr_html_()


def test_history_files_and_findings_are_tables(table: hoodie.Table) -> None:
    table.delete(orders("1"))
    history = table.history()
    title, head, *rows = repr(history).splitlines()
    assert title == "list of 2 HistoryEntry"
    columns = [name for name in head.split() if name != "completion"]  # which version 6 has not got
    assert columns[:6] == ["instant", "action", "state", "changed", "operation", "partitions"]
    assert [row.split()[0] for row in rows] == [entry.instant for entry in history]
    assert [entry.operation for entry in history] == ["upsert", "delete"]
    assert history._repr_html_().count("<tr>") == 3
    assert (history[-1:], type(history[-1:])) == ([history[-1]], Records)
    files = table.files()
    assert [line.split()[-1] for line in repr(files).splitlines()[2:]] == ["2", "1"]
    assert f"name={files[0].slices[0].name}, " in repr(files[0])
    assert "timeline" in repr(table.doctor())


def test_a_long_list_has_its_ends() -> None:
    entries = Records[Numbered]()
    assert (repr(entries), entries._repr_html_()) == ("[]", "[]")
    _, _, *rows = repr(Records(Numbered(number=number) for number in range(1, 101))).splitlines()
    assert [row.strip() for row in rows] == [*map(str, range(1, 11)), "…", *map(str, range(91, 101))]


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Numbered(Shown):
    number: int
    text: str = ""


def test_what_a_table_says_is_not_obeyed() -> None:
    hostile = Numbered(number=1, text="<script>\x1b[2J\n" + "x" * 500)
    for text in (repr(hostile), repr(Records([hostile]))):
        assert not re.search(r"\x1b|x{300}", text)
        assert "\\x1b[2J\\n" in text
    for text in (hostile._repr_html_(), Records([hostile])._repr_html_()):
        assert "&lt;script&gt;" in text
        assert not re.search(r"<script|\x1b|x{300}", text)


def test_every_service_has_such_a_result() -> None:
    for module in pkgutil.walk_packages(services.__path__, "hoodie.services."):
        importlib.import_module(module.name)
    found = [ServiceResult]
    for kind in found:
        found += kind.__subclasses__()
    # a test of the house makes a service, and takes it away again
    own = [kind for kind in found if kind.__module__.startswith("hoodie.") and kind.__module__ in sys.modules]
    assert len(own) > 14
    assert [kind for kind in own if kind.__repr__ is not Shown.__repr__] == []


def test_the_package_lists_its_public_names_alone() -> None:
    assert {name for name in dir(hoodie) if not name.startswith("__")} == {
        name for name in hoodie.__all__ if not name.startswith("__")
    }
