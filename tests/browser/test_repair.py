"""What to run beside a table that needs a hand, and the button of the maintenance DAG, in Chromium."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_hoodie.assets.hoodie import asset_uri
from hoodie.serve.http import PageServer
from hoodie.serve.page import Page
from tests.airflow.timelines import WrittenTimeline
from tests.browser.test_page import AIRFLOW, Planned
from tests.browser.test_producers import InAirflow
from tests.support.browser import Browser

#: Airflow's API, as far as the page asks it: the posts that it got, and the answer to the next one
API = """
(() => {
  const real = window.fetch;
  window.posts = [];
  window.answer = [200, {dag_run_id: 'manual__1/2', state: 'queued'}];
  window.fetch = (url, how) => {
    if (how?.method !== 'POST') return real(url, how);
    const type = how.headers['Content-Type'];
    window.posts.push([new URL(url).pathname, how.credentials, type, JSON.parse(how.body)]);
    const [status, body] = window.answer;
    return Promise.resolve(new Response(JSON.stringify(body), {status}));
  };
})()
"""
BUTTON = "tr[data-table=failing] [data-maintain]"
SAID = "document.querySelector('tr[data-table=failing] .maintenance').innerText"


@pytest.fixture(params=["care"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Address of the page, and the folder of the table that fails."""
    tables = {name: WrittenTimeline.create(tmp_path, name) for name in ("failing", "empty")}
    tables["failing"].commit()
    tables["failing"].begin()
    paths = {name: table.path for name, table in tables.items()}
    page = InAirflow(
        lambda: paths, "", examiner=Planned(), asset=asset_uri, maintenance=lambda: str(request.param)
    )
    with PageServer(page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.url, paths["failing"]
        server.shutdown()


def opened(browser: Browser, url: str) -> None:
    """The list, with all answers, and with the row's repairs unfolded."""
    browser.open(url)
    browser.run(API)
    browser.until("document.querySelector('tr[data-table=failing] details.repairs')")
    browser.until("!document.querySelector('#overview').ariaBusy")
    browser.run("document.querySelector('tr[data-table=failing] details.repairs').open = true")


def test_a_button_asks_then_triggers_and_links_to_the_run(browser: Browser, served: tuple[str, str]) -> None:
    url, path = served
    opened(browser, url)
    text = browser.text("tr[data-table=failing] details.repairs")
    assert f"hoodie services run {path}" in text
    assert browser.run("document.querySelector('tr[data-table=empty] details.repairs')") is None
    browser.click(BUTTON)
    assert browser.run(SAID).startswith("Trigger the DAG care for failing?")
    assert browser.run("document.activeElement.innerText") == "Cancel"
    browser.press("Enter")
    assert browser.run("window.posts") == []
    browser.click(BUTTON)
    browser.click("[data-yes]")
    browser.until("document.querySelector('.maintenance a')")
    asked = {"logical_date": None, "conf": {"hoodie_table": {"name": "failing", "path": path}}}
    assert browser.run("window.posts") == [
        ["/api/v2/dags/care/dagRuns", "same-origin", "application/json", asked]
    ]
    href = browser.run("document.querySelector('.maintenance a').getAttribute('href')")
    assert href == "/dags/care/runs/manual__1%2F2"
    assert "which is queued" in browser.run(SAID)
    assert browser.errors == []
    browser.click("[data-name=failing]")
    browser.until("document.querySelector('[data-tile=failures] .maintenance')")
    browser.run("document.querySelector('[data-tile=failures]').open = true")
    assert "did not end" in browser.text("[data-tile=failures] .repair")
    assert "which is queued" in browser.text("[data-tile=failures] .maintenance")


@pytest.mark.full
@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (403, {"detail": "Forbidden"}, "You may not trigger the DAG care."),
        (404, {"detail": "not found"}, "[hoodie] maintenance_dag"),
        (401, {}, "not signed in"),
        (400, {"detail": "a param is missing"}, "400: a param is missing"),
    ],
)
def test_what_airflow_refuses_is_said(
    status: int, body: dict[str, str], said: str, browser: Browser, served: tuple[str, str]
) -> None:
    opened(browser, served[0])
    browser.run(f"window.answer = [{status}, {body!r}]")
    browser.click(BUTTON)
    browser.click("[data-yes]")
    browser.until("document.querySelector('.maintenance .bad')")
    assert said in browser.run(SAID)
    assert browser.run(f"document.querySelector('{BUTTON}') !== null")


@pytest.mark.full
@pytest.mark.parametrize("served", [""], indirect=True)
def test_without_a_dag_there_is_no_button(browser: Browser, served: tuple[str, str]) -> None:
    opened(browser, served[0])
    assert "hoodie services run" in browser.text("tr[data-table=failing] details.repairs")
    assert browser.run("document.querySelector('.maintenance')") is None


@pytest.mark.full
def test_outside_of_airflow_there_is_none(browser: Browser, tmp_path: Path) -> None:
    failing = WrittenTimeline.create(tmp_path, "failing")
    failing.begin()
    paths = {"failing": failing.path, "other": failing.path}
    with PageServer(Page(lambda: paths, AIRFLOW, examiner=Planned(), maintenance=lambda: "care")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        opened(browser, server.url)
        assert browser.run("document.querySelector('.maintenance')") is None
        server.shutdown()
