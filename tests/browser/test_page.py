"""The timeline page in Chromium: what it shows, by keyboard, in the dark, of long timelines, of errors."""

from __future__ import annotations

import itertools
import json
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import hoodie
from hoodie.concurrency.queue import FOLDER
from hoodie.errors import TableError
from hoodie.serve.health import Examiner
from hoodie.serve.health import health as health_of
from hoodie.serve.http import PageServer
from hoodie.serve.page import Page
from hoodie.serve.tables import ShownTable
from hoodie.table.heartbeat import Heartbeat, Work
from hoodie.timeline.archive.log_archive import LogArchive
from hoodie.timeline.commit import VALIDATIONS_KEY
from hoodie.timeline.tokens import RUN_KEY
from tests.airflow.timelines import WrittenTimeline
from tests.support.browser import Browser
from tests.support.handles import table_at

AIRFLOW = "http://airflow.example:8080"
EVIL = '<img src=x onerror="document.title=1">'
FOCUSED = "document.activeElement"
MARKS = "document.querySelectorAll('.mark').length"


class Planned(Examiner):
    """Answers as another process would, at once: tests of the page need none."""

    def ask(self, what: str, table: ShownTable, again: bool = False) -> dict[str, Any]:
        if what == "doctor":
            return {"findings": [{"check": "files", "status": "error", "text": EVIL, "remedy": "mend it"}]}
        service = {"service": "clean", "due": True, "would": EVIL, "reason": "9 commits", "error": None}
        return {"due": ["clean"], "services": [service], "others": [], "writers": [], "warnings": []}


@dataclass(frozen=True)
class Site:
    server: PageServer
    tables: dict[str, str]
    written: dict[str, WrittenTimeline]

    def url(self, **query: str) -> str:
        return f"{self.server.url}?{urlencode(query)}"


@pytest.fixture(scope="module")
def site(golden_tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("tables")
    names = ("long", "empty", "torn", "runs")
    written = {name: WrittenTimeline.create(folder, name) for name in names}
    written["long"].fill(1200)
    written["runs"].commit(extra={RUN_KEY: "hourly/upsert/-1/run=r1"})
    validation = {"validator": "v", "query": EVIL, "passed": True, "expected": "0", "found": "0"}
    written["runs"].commit(EVIL, extra={"note": EVIL, VALIDATIONS_KEY: json.dumps([validation])})
    Path(written["torn"].path, ".hoodie", "hoodie.properties").write_text("hoodie.table.name=torn\n")
    tables = {name: table.path for name, table in written.items()}
    for name in ("all_instants", "mor_archived"):
        tables[name] = str(golden_tables / "0.15.0-v6" / name / "table")
    tables["gone"] = str(folder / "nowhere")
    with PageServer(Page(lambda: tables, AIRFLOW, examiner=Planned())) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Site(server, tables, written)
        server.shutdown()


def focused(browser: Browser) -> str:
    """What the focused mark, row or control is called."""
    name: str = browser.run(
        f"{FOCUSED}.dataset.key ?? {FOCUSED}.closest('tr')?.dataset.key ?? {FOCUSED}.id ?? ''"
    )
    return name


def listed(table: str) -> list[str]:
    return [f"{item['instant']}/{item['action']}" for item in hoodie.instants(table)]


def test_it_shows_every_instant_and_asks_nobody_else(browser: Browser, site: Site) -> None:
    expected = listed(site.tables["all_instants"])
    browser.open(site.url(table="all_instants"))
    browser.until(MARKS)
    marks = browser.run("[...document.querySelectorAll('.mark')].map((mark) => mark.dataset.key)")
    rows = browser.run("[...document.querySelectorAll('.list tbody tr')].map((row) => row.dataset.key)")
    assert sorted(marks) == sorted(expected)
    assert sorted(rows, reverse=True) == rows
    assert sorted(rows) == sorted(expected)
    lanes = browser.run("[...document.querySelectorAll('.lane')].map((lane) => lane.ariaLabel)")
    names = "deltacommit replacecommit compaction clustering clean savepoint rollback restore"
    assert lanes == names.split()
    assert browser.text("#count") == "19 of 19 instants, 2 unfinished"
    assert "local time of the writers" in browser.text("#about")
    browser.click(f'.mark[data-key="{expected[9]}"]')
    browser.until("document.querySelector('#details h2')")
    assert "14 inserted, 26 updated, 0 deleted" in browser.text("#details")
    assert {"scheduled", "open"} <= set(browser.text(".list").split())
    assert browser.errors == []
    assert [url for url in browser.requests if not url.startswith(site.server.url)] == []


def test_by_keyboard(browser: Browser, site: Site) -> None:
    order = listed(site.tables["all_instants"])
    browser.open(site.url(table="all_instants"))
    browser.until(MARKS)
    reached: list[str] = []
    while not reached or reached[-1] != order[-1]:
        browser.press("Tab")
        reached.append(focused(browser))
        assert browser.run(f"getComputedStyle({FOCUSED}).outlineStyle") != "none", reached
        assert len(reached) < 20, reached
    assert {"table", "refresh", "by-time", "by-order", "zoom-in"} <= set(reached)
    browser.press("ArrowLeft", "ArrowLeft", "ArrowLeft")
    assert focused(browser) == order[-4]
    assert browser.text("#readout").startswith(
        "deltacommit 2026-11-21 00:59:24; completed; insert; 20 inserted"
    )
    browser.press("Home")
    assert focused(browser) == order[0]
    browser.press("PageDown", "ArrowRight")
    assert focused(browser) == order[11]
    browser.press("End", "ArrowDown")
    assert focused(browser).endswith("/replacecommit")
    browser.press("ArrowUp")
    assert focused(browser).endswith("/deltacommit")
    chosen = focused(browser)
    browser.press("Enter")
    browser.until(f"{FOCUSED}.tagName === 'H2'")
    assert browser.run("document.querySelector('.mark[aria-selected=true]').dataset.key") == chosen
    assert browser.run("document.querySelector('tr[aria-current]').dataset.key") == chosen
    browser.press("Escape")
    assert focused(browser) == chosen
    browser.press("Tab")
    while not browser.run(f"Boolean({FOCUSED}.closest('tr'))"):
        browser.press("Tab")
    row = focused(browser)
    assert row == chosen, "the list is entered at the instant that is chosen"
    browser.press("ArrowDown", "Enter")
    browser.until(f"{FOCUSED}.tagName === 'H2'")
    below = order[order.index(chosen) - 1]
    assert below.split("/")[0] in browser.text("#details h2")
    browser.press("Tab", shift=True)
    assert focused(browser) == below
    assert browser.errors == []


def test_what_assistive_technology_is_told(browser: Browser, site: Site) -> None:
    browser.open(site.url(table="all_instants"))
    browser.until(MARKS)
    browser.send("Accessibility.enable")
    nodes = browser.send("Accessibility.getFullAXTree")["nodes"]
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored") and "role" in node
    ]
    assert ("listbox", "Instants") in named
    options = [name for role, name in named if role == "option" and " 2026-11-21 " in name]
    assert len(options) == 19
    assert any("clean 2026-11-21 00:59:21; completed" in name for name in options)
    assert [name for role, name in named if role == "table"] == ["Instants, newest first"]
    unnamed = [role for role, name in named if role in ("button", "combobox", "link", "option") and not name]
    assert unnamed == []


#: contrast of an element's text with what is behind it, after WCAG 2
CONTRAST = """(selector) => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const pixel = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 :
    ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const text = document.querySelector(selector);
  const clear = (e) => getComputedStyle(e).backgroundColor.replace(/ /g, '') === 'rgba(0,0,0,0)';
  let back = text;
  while (back && clear(back)) back = back.parentElement;
  const pair = [getComputedStyle(text).color, getComputedStyle(back ?? document.body).backgroundColor];
  const [a, b] = pair.map(pixel).map(light).sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}"""


@pytest.mark.full
@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark(browser: Browser, site: Site, dark: bool) -> None:
    browser.dark(dark)
    browser.open(site.url(table="all_instants", instant=listed(site.tables["all_instants"])[9].split("/")[0]))
    browser.until("document.querySelector('#details h2')")
    back = browser.run("getComputedStyle(document.body).backgroundColor")
    assert back == ("rgb(17, 20, 24)" if dark else "rgb(255, 255, 255)")
    for selector in (
        "h1", "#about", "#count", "#by-time", "#table", ".name", ".tick", "th", ".list tbody td",
        "tr[aria-current] .instant", ".operation", "dt", "dd", "#details h3", "summary", "kbd",
    ):  # fmt: skip
        assert browser.run(f"({CONTRAST})({json.dumps(selector)})") >= 4.5, selector


def test_a_long_timeline(browser: Browser, site: Site) -> None:
    order = site.written["long"].commits
    browser.open(site.url(table="long"))
    browser.until(f"{MARKS} === 200")
    assert browser.text("#count") == "200 of 1,200 instants"
    for number in range(2, 7):
        browser.click("#older")
        browser.until(f"{MARKS} === {200 * number}")
    assert browser.run("document.querySelector('#older').disabled")
    assert browser.run("document.querySelector('.list').getAttribute('aria-rowcount')") == "1201"
    browser.run("document.querySelector('.mark[tabindex=\"0\"]').focus()")
    browser.press("Home")
    assert focused(browser) == f"{order[0]}/commit"
    width = "document.querySelector('.lanes').offsetWidth"
    seen = (
        "(() => { const r = document.activeElement.getBoundingClientRect(), p = document.querySelector("
        "'.plot').getBoundingClientRect(); return r.left >= p.left && r.right <= p.right; })()"
    )
    before = browser.run(width)
    browser.press("+", "+", "+")
    assert browser.run(width) == 8 * before
    browser.press("End")
    assert focused(browser) == f"{order[-1]}/commit"
    assert browser.run(seen)
    browser.press("0")
    assert browser.run(width) == before
    browser.click("#by-order")
    assert browser.run("document.querySelector('#by-order').ariaPressed") == "true"
    lefts = browser.run("[...document.querySelectorAll('.mark')].map((mark) => mark.offsetLeft)")
    assert all(later - earlier >= 17 for earlier, later in itertools.pairwise(lefts))
    assert browser.errors == []


#: rows and marks that were made since
COUNTED = """window.made = 0; new MutationObserver((changes) => {
  for (const node of changes.flatMap((change) => [...change.addedNodes]))
    window.made += node.nodeType === 1 && node.matches('tr[data-key], .mark');
}).observe(document.body, {childList: true, subtree: true}); 0"""
#: the row in the middle of the list: its key, and which one it is by what assistive technology is told
MIDDLE = """new Promise(requestAnimationFrame).then(() => {
  const r = document.querySelector('#list').getBoundingClientRect();
  const row = document.elementFromPoint(r.x + 20, r.y + r.height / 2)?.closest('tr');
  return [row?.dataset.key, Number(row?.ariaRowIndex)];
})"""


@pytest.mark.full
def test_of_a_long_list_what_is_seen_is_drawn(browser: Browser, tmp_path: Path) -> None:
    """Wherever it is scrolled to, and without what has the focus, or is chosen, being lost."""
    table = WrittenTimeline.create(tmp_path)
    table.fill(1200)
    newest = [f"{time}/commit" for time in reversed(table.commits)]
    rows = "document.querySelectorAll('.list tbody tr[data-key]').length"
    with PageServer(Page(lambda: {"orders": table.path}, examiner=Planned())) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        browser.open(f"{server.url}?table=orders&instant={table.commits[2]}")
        browser.until("document.querySelector('#details h2')")
        browser.until("document.querySelector('.tile')")
        assert browser.run(MARKS) == 1200
        assert 0 < browser.run(rows) < 150
        assert browser.run("document.querySelector('tr[aria-current]').dataset.key") == newest[1197]
        height = browser.run("document.querySelector('tr[aria-current]').getBoundingClientRect().height")
        for place in (1190, 600, 30, 0, 900):
            browser.run(f"document.querySelector('#list').scrollTop = {place * height}; 0")
            key, index = browser.run(MIDDLE)
            assert key == newest[index - 2]
            assert place <= index - 2 <= min(place + 30, 1199)
            assert browser.run(rows) < 150
        assert browser.run("document.querySelector('tr[aria-current]').ariaRowIndex") == "1199"
        browser.run(f"document.querySelector('tr[data-key=\"{key}\"] button').focus()")
        place = newest.index(key)
        browser.press(*["ArrowDown"] * 60)
        assert focused(browser) == newest[place + 60]
        browser.run("document.querySelector('#list').scrollTop = 0; 0")
        browser.run(MIDDLE)
        assert focused(browser) == newest[place + 60], "it is out of sight, and has the focus"
        browser.press("ArrowUp")
        assert focused(browser) == newest[place + 59]
        browser.run("document.querySelector('#list').scrollTop = 9000; 0")
        key, _ = browser.run(MIDDLE)
        top = f"document.querySelector('tr[data-key=\"{key}\"]').getBoundingClientRect().top"
        before = browser.run(top)
        browser.run(COUNTED)
        table.commit()
        browser.run("document.querySelector('#refresh').click()")
        browser.until(f"{MARKS} === 1201")
        assert abs(browser.run(top) - before) < 1.5
        assert focused(browser) == newest[place + 59]
        assert browser.run("window.made") <= 4, "a refresh makes what is new"
        browser.run("window.made = 0; document.querySelector('#search').focus()")
        browser.press("0")
        browser.until("document.querySelector('#count').innerText.includes('found')")
        assert browser.run("window.made") < 150, "a keystroke makes what is seen"
        assert browser.errors == []
        server.shutdown()


@pytest.mark.full
def test_an_address_of_an_old_instant(browser: Browser, site: Site) -> None:
    time = site.written["long"].commits[2]
    browser.open(site.url(table=site.tables["long"], instant=time))
    browser.until("document.querySelector('#details h2')")
    assert time in browser.text("#details h2")
    assert browser.run("document.querySelector('.mark[aria-selected=true]').dataset.key") == f"{time}/commit"
    browser.open(site.url(table="long", instant="20200101000000000"))
    browser.until("document.querySelector('#details .problem')")
    assert "20200101000000000" in browser.text("#details")


@pytest.mark.full
def test_the_archive_on_demand(browser: Browser, site: Site) -> None:
    path = site.tables["mor_archived"]
    browser.open(site.url(table="mor_archived"))
    browser.until(MARKS)
    active, archived = hoodie.instants(path), hoodie.instants(path, archived=True)
    assert browser.run(MARKS) == len(active)
    browser.click("#archived")
    browser.until("document.querySelector('.mark.archived')")
    keys = {f"{item['instant']}/{item['action']}" for item in (*active, *archived)}
    assert browser.run(MARKS) == len(keys)
    oldest = archived[0]
    browser.click(f'.mark[data-key="{oldest["instant"]}/{oldest["action"]}"]')
    browser.until("document.querySelector('#details h2')")
    assert f"{oldest['inserts']} inserted" in browser.text("#details")
    assert browser.errors == []


def test_an_archive_that_cannot_be_read(
    browser: Browser, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(archive: LogArchive) -> Iterator[None]:
        raise TableError(f"archive file {archive.folder}/1 is damaged")

    browser.open(site.url(table="mor_archived"))
    browser.until(MARKS)
    before = browser.run(MARKS)
    monkeypatch.setattr(LogArchive, "entries", refuse)
    monkeypatch.setattr(site.server.page.summaries, "_archives", OrderedDict())
    browser.click("#archived")
    browser.until("document.querySelector('#message').innerText.includes('is damaged')")
    assert browser.run(MARKS) == before
    assert browser.text("#timeline")


def test_task_runs_are_links_and_texts_are_texts(browser: Browser, site: Site) -> None:
    browser.open(site.url(table="runs"))
    browser.until(MARKS)
    [href] = browser.run("[...document.querySelectorAll('.list a')].map((a) => a.href)")
    assert href == f"{AIRFLOW}/dags/hourly/runs/r1/tasks/upsert"
    browser.press("Tab")
    browser.click(f'.mark[data-key="{site.written["runs"].commits[1]}/commit"]')
    browser.until("document.querySelector('#details h2')")
    assert browser.text("#details").count(EVIL) == 3
    assert "Validators: 1" in browser.text("#details")
    assert "airflow.validations" not in browser.text("#details"), "they are a table"
    assert browser.run("document.title") == "Hoodie timeline"
    assert browser.errors == []


@pytest.mark.full
def test_nothing_moves_when_the_strip_comes(
    browser: Browser, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, health = threading.Event(), health_of

    def late(*asked: Any) -> dict[str, Any]:
        seen.wait(30)
        return health(*asked)

    monkeypatch.setattr("hoodie.serve.page.health", late)
    row = "document.querySelector('.list tbody tr').getBoundingClientRect().top"
    browser.open(site.url(table="runs"))
    browser.until(MARKS)
    before = browser.run(row)
    seen.set()
    browser.until("document.querySelector('.tile')")
    assert browser.run(row) == before


@pytest.mark.parametrize(
    ("table", "says"),
    [
        pytest.param("gone", "is no Hudi table", marks=pytest.mark.full),
        ("torn", "restore the file"),
        pytest.param("empty", "has no instants yet", marks=pytest.mark.full),
        pytest.param("elsewhere", "elsewhere is not on this page's list", marks=pytest.mark.full),
    ],
)
def test_what_is_wrong_is_said(browser: Browser, site: Site, table: str, says: str) -> None:
    browser.open(site.url(table=table))
    browser.until("!document.querySelector('#message').hidden")
    assert says in browser.text("#message")
    assert browser.run("document.querySelector('#message').role") == "alert"
    browser.run("(() => { const s = document.querySelector('#table'); s.value = 'runs';"
                " s.dispatchEvent(new Event('change')); })()")  # fmt: skip
    browser.until(f"{MARKS} === 2")
    assert browser.run("document.querySelector('#message').hidden")


@pytest.mark.full
def test_a_list_without_tables(browser: Browser) -> None:
    with PageServer(Page(dict)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.open(server.url)
        browser.until("!document.querySelector('#message').hidden")
        assert "No table is on this page's list yet" in browser.text("#message")
        browser.send(
            "Network.emulateNetworkConditions",
            offline=True,
            latency=0,
            downloadThroughput=-1,
            uploadThroughput=-1,
        )
        browser.click("#refresh")
        browser.until("document.querySelector('#message').innerText.includes('does not answer')")
        server.shutdown()


# In an incident -----------------------------------------------------------------------------------

PANE = "document.querySelector('#details')"
ROWS = "[...document.querySelectorAll('.list tbody tr')].map((row) => row.dataset.key)"
TILES = "Object.fromEntries([...document.querySelectorAll('.tile')].map((t) => [t.dataset.tile, t]))"


def test_reading_again_keeps_the_place(browser: Browser, tmp_path: Path) -> None:
    """New commits come in: what is chosen, open, scrolled to and focused stays, and so does a search."""
    table = WrittenTimeline.create(tmp_path)
    table.fill(60)
    begun = table.begin()
    chosen, seen = table.commits[30], table.commits[20]
    with PageServer(Page(lambda: {"orders": table.path}, examiner=Planned())) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        browser.open(server.url)
        browser.until(f"{MARKS} === 61")
        assert browser.run(f"{PANE}.hidden"), "no pane while there is nothing to show"
        browser.click(f'tr[data-key="{chosen}/commit"]')
        browser.until(f"!{PANE}.hidden")
        browser.until("document.querySelector('.tile')")
        browser.run(f"{PANE}.querySelector('details').open = true")
        browser.run("document.querySelector('[data-tile=write]').open = true")
        top = f"document.querySelector('tr[data-key=\"{seen}/commit\"]').getBoundingClientRect().top"
        browser.run("document.querySelector('#list').scrollTop = 700; 0")
        browser.run(f"document.querySelector('tr[data-key=\"{seen}/commit\"] button').focus()")
        before = browser.run(top)
        table.commit(begun=begun)
        table.commit()
        browser.run("document.querySelector('#refresh').click()")
        browser.until(f"{MARKS} === 62")
        assert abs(browser.run(top) - before) < 1.5
        assert focused(browser) == f"{seen}/commit"
        assert chosen in browser.text("#details h2")
        assert browser.run(f"{PANE}.querySelector('details').open")
        assert browser.run("document.querySelector('[data-tile=write]').open")
        assert browser.run("document.querySelector('tr[aria-current]').dataset.key") == f"{chosen}/commit"
        browser.run("document.querySelector('#auto').dataset.every = '0.2'")
        browser.click("#auto")
        browser.click("#auto")
        table.commit(extra={RUN_KEY: "nightly/load/-1/run=r2"})
        browser.until(f"{MARKS} === 63")
        browser.run("(() => { const s = document.querySelector('#search'); s.value = 'Nightly completed';"
                    " s.dispatchEvent(new Event('input')); })()")  # fmt: skip
        browser.until(f"{MARKS} === 1")
        assert browser.run(ROWS) == [f"{table.commits[-1]}/commit"]
        assert browser.text("#count").startswith("1 found, 63 of 63")
        table.commit(extra={RUN_KEY: "nightly/load/-1/run=r3"})
        browser.until(f"{MARKS} === 2")
        assert browser.errors == []
        server.shutdown()


@pytest.mark.full
def test_older_instants_are_read_again_where_they_changed(browser: Browser, tmp_path: Path) -> None:
    table = WrittenTimeline.create(tmp_path)
    begun = table.begin()
    table.fill(450)
    with PageServer(Page(lambda: {"orders": table.path}, examiner=Planned())) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        browser.open(server.url)
        browser.until(f"{MARKS} === 200")
        for count in (400, 451):
            browser.click("#older")
            browser.until(f"{MARKS} === {count}")
        table.commit(begun=begun)
        table.archive(table.commits[0])
        table.fill(250)
        browser.click("#refresh")
        browser.until(f"{MARKS} === 700")
        mark = f"document.querySelector('.mark[data-key=\"{begun.time}/commit\"]').ariaLabel"
        browser.until(f"{mark}.includes('completed')")
        marks = "[...document.querySelectorAll('.mark')].map((mark) => mark.dataset.key)"
        assert browser.run(marks) == sorted(f"{time}/commit" for time in table.commits[1:])
        assert browser.errors == []
        server.shutdown()


@pytest.mark.full
def test_the_strip(browser: Browser, site: Site) -> None:
    browser.open(site.url(table="all_instants"))
    browser.until("document.querySelector('#strip').innerText.includes('Due: clean')")
    tiles = browser.run(f"Object.keys({TILES})")
    assert tiles == ["write", "failures", "services", "doctor"]
    assert "usually every" not in browser.text("[data-tile=write]")  # it was written by one burst
    browser.run("document.querySelectorAll('.tile').forEach((tile) => { tile.open = true; })")
    assert EVIL in browser.text("[data-tile=services]")
    assert "plan that waits to be carried out" in browser.text("[data-tile=doctor]")
    browser.click("[data-again=doctor]")
    browser.until("document.querySelector('[data-tile=doctor]').innerText.includes('mend it')")
    assert "1 error" in browser.text("[data-tile=doctor] summary")
    assert browser.run("document.title") == "Hoodie timeline"
    browser.open(site.url(table="long"))
    browser.until("document.querySelector('[data-tile=write]')")
    browser.run("document.querySelector('[data-tile=write]').open = true")
    text = browser.text("[data-tile=write]")
    assert "usually every 1 min" in text
    assert "outside Airflow" in text
    assert "by the gaps between its writes" in text
    assert browser.errors == []


@pytest.mark.full
def test_all_tables(browser: Browser, site: Site) -> None:
    browser.open(site.server.url)
    browser.until("document.querySelector('#overview tbody tr')")
    browser.run("window.button = document.querySelector('[data-name=runs]'); window.button.focus()")
    browser.until("!document.querySelector('#overview').ariaBusy")
    assert browser.run("window.button.isConnected && document.activeElement === window.button")
    names = browser.run("[...document.querySelectorAll('#overview tbody tr')].map((r) => r.dataset.table)")
    assert sorted(names) == sorted(site.tables)
    assert names[0] == "torn"
    assert set(names[-2:]) == {"gone", "empty"}
    texts = browser.run("[...document.querySelectorAll('#overview tbody tr')].map((r) => r.innerText)")
    rows = dict(zip(names, texts, strict=True))
    assert rows["gone"].split("\t")[1].strip() == rows["empty"].split("\t")[1].strip() == "not written yet"
    grey = "getComputedStyle(document.querySelector('tr[data-table={}] .level')).color"
    assert browser.run(grey.format("gone")) != browser.run(grey.format("torn"))
    assert "outside Airflow" in rows["runs"]
    assert "restore the file" in rows["torn"]
    assert "since the last clean" in rows["long"]
    assert "clean" in rows["runs"]
    browser.click('[data-name="runs"]')
    browser.until(f"{MARKS} === 2")
    assert browser.run("document.querySelector('#overview').hidden")
    assert "table=runs" in browser.run("location.search")
    browser.run("history.back()")
    browser.until("!document.querySelector('#overview').hidden")
    assert browser.run("document.querySelector('#timeline').hidden")
    assert browser.run("document.title") == "Hoodie timeline"


@pytest.mark.full
def test_who_works_and_who_waits_for_whom(browser: Browser, tmp_path: Path) -> None:
    """In the list of all tables, with tasks and map indexes; no column is cut off on a narrow screen."""
    tables = {name: WrittenTimeline.create(tmp_path, name) for name in ("busy", "a_table_with_a_name_" * 4)}
    handle = table_at(tables["busy"].path)
    arrived = handle.storage.now_ms() - 200_000
    beats = [
        Heartbeat(handle, tables["busy"].begin().time, 60_000, 2, Work(extra={RUN_KEY: "back/load/7/run=b"})),
        Heartbeat(
            handle, f"1{arrived:013d}000001", 60_000, 2, Work(extra={RUN_KEY: "day/load/-1/run=r"}), FOLDER
        ),
        Heartbeat(handle, f"1{arrived + 9:013d}000001", 60_000, 2, folder=FOLDER),
    ]
    for beat in beats:
        beat.start()
    paths = {name: table.path for name, table in tables.items()}
    try:
        with PageServer(Page(lambda: paths, AIRFLOW, examiner=Planned())) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            browser.size(900, 600)
            browser.open(server.url)
            browser.until("document.querySelectorAll('#overview tbody tr').length === 2")
            browser.until("!document.querySelector('#overview').ariaBusy")
            cells = browser.run(
                "[...document.querySelector('tr[data-table=busy]').cells].map((cell) => cell.innerText)"
            )
            assert cells[5].startswith("back.load [7] for ")
            assert cells[6].startswith("day.load for 3 min, after back.load [7]")
            assert cells[6].endswith(" and 1 more")
            scroll = "document.querySelector('#overview .scroll')"
            assert browser.run(f"{scroll}.scrollWidth <= {scroll}.clientWidth")
            browser.size(390, 844)
            assert "waits: day.load for 3 min, after back.load [7]" in browser.text('tr[data-table="busy"]')
            assert browser.run("document.documentElement.scrollWidth") <= 390
            server.shutdown()
    finally:
        for beat in beats:
            beat.stop()
        browser.size(1280, 800)


@pytest.mark.full
def test_a_table_that_is_not_listed_leads_to_the_list(browser: Browser, site: Site) -> None:
    browser.open(site.url(table="elsewhere"))
    browser.until("!document.querySelector('#message').hidden")
    assert all(name in browser.text("#message") for name in site.tables)
    browser.until("document.querySelector('[data-name=\"runs\"]')")
    browser.until("!document.querySelector('#overview').ariaBusy")  # texts that come make lines higher
    browser.click('[data-name="runs"]')
    browser.until(f"{MARKS} === 2")
    assert browser.run("document.querySelector('#message').hidden")


@pytest.mark.full
def test_on_a_phone(browser: Browser, site: Site) -> None:
    browser.size(390, 844)
    browser.open(site.url(table="runs"))
    browser.until(MARKS)
    heads = browser.run("[...document.querySelectorAll('.list th')].map((head) => head.innerText)")
    assert heads[:4] == ["State", "Rows", "Instant", "Action"]
    assert "+2 ~1" in browser.text(".list tbody tr")
    assert browser.run("getComputedStyle(document.querySelector('.keys')).display") == "none"
    assert browser.run("document.documentElement.scrollWidth") <= 390
    browser.open(site.server.url)
    browser.until("document.querySelector('#overview tbody tr')")
    browser.until("!document.querySelector('#overview').ariaBusy")
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert "due: clean" in browser.text('tr[data-table="runs"]')


@pytest.mark.full
def test_marks_that_lie_on_one_another_count(browser: Browser, site: Site) -> None:
    browser.open(site.url(table="long"))
    browser.until(f"{MARKS} === 200")
    counts = "[...document.querySelectorAll('[data-count]')].map((mark) => Number(mark.dataset.count))"
    assert sum(browser.run(counts)) == 200
    lefts = browser.run("[...document.querySelectorAll('[data-count]')].map((mark) => mark.offsetLeft)")
    assert all(later - earlier >= 20 for earlier, later in itertools.pairwise(lefts))
    browser.run("document.querySelector('.mark[tabindex=\"0\"]').focus()")
    browser.press(*"++++++")
    assert browser.run(counts) == []
    plot = "document.querySelector('.plot')"
    browser.run(f"{plot}.scrollLeft = 0; 0")
    browser.click("#by-order")
    assert browser.run(f"{plot}.scrollLeft + {plot}.clientWidth >= {plot}.scrollWidth - 1")
    assert browser.run(f"{plot}.scrollWidth > {plot}.clientWidth")
