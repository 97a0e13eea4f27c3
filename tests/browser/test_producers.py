"""Failures before an instant exists, in the list of all tables: runs of producers, by Airflow's API."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from airflow_hoodie.assets.hoodie import asset_uri
from hoodie.serve.http import PageServer
from hoodie.serve.page import Page, Reply
from hoodie.timeline.tokens import RUN_KEY
from tests.airflow.timelines import WrittenTimeline
from tests.browser.test_page import Planned
from tests.support.browser import Browser

ROWS = "[...document.querySelectorAll('#overview tbody tr')].map((row) => [row.dataset.table, row.innerText])"


@dataclass(frozen=True)
class InAirflow(Page):
    """The page, and the part of Airflow's API that it asks. `runs`: of tasks, newest first."""

    tasks: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    runs: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def get(self, path: str, query: str = "") -> Reply:
        if not path.startswith("/api/v2/"):
            return super().get(path, query)
        asked = parse_qs(query)
        if self.refused:
            return Reply.of({"detail": "Forbidden"}, 403)
        if path == "/api/v2/assets":
            assert asked["uri_prefix_pattern"] == ["hoodie://"]
            found = [
                {"uri": uri, "producing_tasks": [{"dag_id": dag, "task_id": name} for dag, name in tasks]}
                for uri, tasks in self.tasks.items()
            ]
            start = int(asked["offset"][0])
            return Reply.of({"assets": found[start : start + 100], "total_entries": len(found)})
        dag = path.split("/")[4]
        wanted, states = asked.get("task_id"), asked.get("state")
        runs = [
            {**run, "dag_id": task[0], "task_id": task[1]}
            for task, every in self.runs.items()
            for run in every
            if dag in ("~", task[0]) and (not wanted or task[1] in wanted)
        ]
        runs = [run for run in runs if not states or run["state"] in states]
        runs.sort(key=lambda run: str(run["start_date"]), reverse=True)
        return Reply.of({"task_instances": runs[: int(asked["limit"][0])]})


def run(state: str, minutes: float, map_index: int = -1) -> dict[str, Any]:
    """Of a task that ended so many minutes ago."""
    end = datetime.now(timezone.utc) - timedelta(minutes=minutes)
    return {
        "state": state,
        "map_index": map_index,
        "dag_run_id": f"r{minutes}",
        "start_date": (end - timedelta(seconds=30)).isoformat(),
        "end_date": end.isoformat(),
    }


@dataclass(frozen=True)
class Served:
    page: InAirflow
    url: str


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    names = ("written", "broken", "repaired", "fails")
    tables = {name: WrittenTimeline.create(tmp_path, name).path for name in names}
    for name in ("written", "broken", "repaired"):
        WrittenTimeline(tables[name]).commit(extra={RUN_KEY: f"hourly/{name}/-1/run=r1"})
    tables |= {name: str(tmp_path / name) for name in ("none", "other")}
    tasks = {asset_uri(path): [("hourly", name)] for name, path in tables.items() if name != "other"}
    for number in range(150):
        tasks[f"hoodie://file/elsewhere/{number}"] = [("hourly", "elsewhere")]
    found = InAirflow(
        lambda: tables, "", examiner=Planned(), asset=asset_uri, tasks=dict(reversed(tasks.items()))
    )
    found.runs[("hourly", "written")] = [run("failed", 60)]
    found.runs[("hourly", "broken")] = [run("up_for_retry", -0.2)]
    found.runs[("hourly", "repaired")] = [run("success", -0.2), run("failed", -0.1)]
    found.runs[("hourly", "repaired")][1]["start_date"] = "2026-01-01T00:00:00+00:00"
    found.runs[("hourly", "fails")] = [run("failed", 5, map_index=3)]
    found.runs[("hourly", "none")] = [run("failed", 12)]
    with PageServer(found) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Served(found, server.url)
        server.shutdown()


def rows(browser: Browser, served: Served) -> dict[str, str]:
    """Of the list, from top to bottom."""
    browser.open(served.url)
    browser.until("document.querySelectorAll('#overview tbody tr').length === 6")
    browser.until("!document.querySelector('#overview').ariaBusy")
    return dict(browser.run(ROWS))


@pytest.mark.full
def test_failures_before_an_instant_exists(browser: Browser, served: Served) -> None:
    """Those of each table's own producers, after its last write, unless a later run succeeded."""
    found = rows(browser, served)
    assert set(list(found)[:3]) == {"broken", "fails", "none"}
    assert list(found)[-1] == "other"
    assert "hourly.fails [3] failed 5 min ago" in found["fails"]
    assert "hourly.none failed 12 min ago" in found["none"]
    assert "not written yet" in found["none"]
    assert "to be retried" in found["broken"]
    assert "retried;" not in found["broken"]  # nothing follows
    assert all("failed" not in found[name] for name in ("written", "repaired", "other"))
    assert browser.text("#tables-count").startswith("3 of 6 tables need a hand")
    href = browser.run("document.querySelector('tr[data-table=fails] .why a').getAttribute('href')")
    assert href == "/dags/hourly/runs/r5/tasks/fails/mapped/3"
    assert browser.errors == []


@pytest.mark.full
def test_who_may_not_see_runs_sees_the_tables(browser: Browser, served: Served) -> None:
    served.page.refused.append("all")
    found = rows(browser, served)
    assert all("failed" not in text for text in found.values())
    assert set(list(found)[-3:]) == {"fails", "none", "other"}
