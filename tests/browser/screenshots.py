"""The pictures of the docs: `python -m tests.browser.screenshots [FOLDER]` writes docs/images anew.

The page of `hoodie serve` in light and dark, wide and on a phone, that of all tables, and the page in
Airflow, of tests.support.demo_table.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from unittest import mock

import hoodie
from airflow_hoodie.assets.hoodie import asset_uri
from hoodie.concurrency.queue import FOLDER
from hoodie.serve.http import PageServer
from hoodie.serve.page import Page
from hoodie.storage.local import LocalStorage
from hoodie.table.heartbeat import Heartbeat, Work
from hoodie.timeline.tokens import RUN_KEY
from scripts import environment
from tests.browser.test_producers import InAirflow, run
from tests.support.browser import Browser, launch
from tests.support.demo_table import OPTIONS, START, orders, set_back, settle, task, write_table
from tests.support.handles import table_at

CHOSEN = "[...document.querySelectorAll('.mark.deltacommit.completed')].at(-3).dataset.key"
DRAWN = "document.querySelectorAll('.mark').length && document.querySelector('#details h2')"

#: when the pictures are taken, by the storage's clock
SHOWN_MS = int((START + dt.timedelta(hours=24, minutes=9)).timestamp() * 1000)
LOOKED = (
    "document.querySelectorAll('.mark').length && document.querySelector('[data-tile=services]')"
    " && !document.querySelector('#strip').innerText.includes('looking')"
)


def main() -> int:
    pictures = Path(sys.argv[1]) if len(sys.argv) > 1 else environment.ROOT / "docs" / "images"
    pictures.mkdir(parents=True, exist_ok=True)
    found = environment.browser()
    if found is None:
        print("no Chromium on PATH: scripts/setup browser", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="hoodie-pictures-") as folder, launch(found) as connection:
        tables = {"orders": write_table(Path(folder))}
        take_plain(Browser(connection), tables, pictures)
        take_states(Browser(connection), tables, pictures, Path(folder))
        take_airflow(Browser(connection), tables, pictures, Path(folder))
    return 0


def take_plain(browser: Browser, tables: dict[str, str], pictures: Path) -> None:
    """The page a few minutes after the last write of the day, by a clock that is set back, too."""
    with (
        mock.patch.object(LocalStorage, "now_ms", return_value=SHOWN_MS),
        PageServer(Page(lambda: tables, "http://localhost:8080")) as server,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.size(1280, 760)
        browser.open(f"{server.url}?table=orders")
        browser.until(LOOKED)
        browser.click(f'.mark[data-key="{browser.run(CHOSEN)}"]')
        browser.until(DRAWN)
        tidy(browser, "document")
        both(browser, pictures / "timeline.png")
        browser.size(390, 700)
        browser.open(f"{server.url}?table=orders")
        browser.until(LOOKED)
        tidy(browser, "document")
        both(browser, pictures / "timeline-phone.png")
        server.shutdown()


def both(browser: Browser, path: Path) -> None:
    """A picture in light and one in dark."""
    for dark, name in ((False, path.name), (True, f"{path.stem}-dark{path.suffix}")):
        browser.dark(dark)
        browser.run("window.scrollTo(0, 0)")
        time.sleep(0.3)
        browser.screenshot(path.with_name(name))
    browser.dark(False)


def take_states(browser: Browser, tables: dict[str, str], pictures: Path, folder: Path) -> None:
    """All tables: two whose last run failed, one of them never written, a late one, one that is waited for,
    one that is well and one that nobody has written; wide and on a phone.
    """
    last = {"payments": 25, "refunds": 0, "clicks": 19, "sessions": 25, "items": 25, "returns": 0}
    found = {name: write_hours(folder / name, last[name] - 8, last[name]) for name in last if last[name]}
    listed = {**tables, **{name: found.get(name, f"/data/{name}") for name in last}}
    page = InAirflow(
        lambda: listed,
        "",
        asset=asset_uri,
        tasks={asset_uri(path): [("shop_hourly", name)] for name, path in listed.items()},
        runs={
            ("shop_hourly", "payments"): [run("failed", 2)],
            ("shop_hourly", "refunds"): [run("up_for_retry", 4)],
        },
    )
    waited_for = table_at(listed["sessions"])
    ticket = f"1{SHOWN_MS - 90_000:013d}000001"
    holder, hourly = {RUN_KEY: "shop_backfill/sessions/3/run=b"}, {RUN_KEY: "shop_hourly/sessions/-1/run=r"}
    beats = (
        Heartbeat(waited_for, "20260310000900000", 60_000, 2, Work(extra=holder)),
        Heartbeat(waited_for, ticket, 60_000, 2, Work(extra=hourly), FOLDER),
    )
    with (
        mock.patch.object(LocalStorage, "now_ms", return_value=SHOWN_MS),
        PageServer(page) as server,
        contextlib.ExitStack() as beating,
    ):
        for beat in beats:
            beat.start()
            beating.callback(beat.stop)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for width, height, name in ((1280, 470, "tables.png"), (390, 620, "tables-phone.png")):
            browser.size(width, height)
            browser.open(server.url)
            browser.until(f"document.querySelectorAll('#overview tbody tr').length === {len(listed)}")
            browser.until("!document.querySelector('#overview').ariaBusy")
            both(browser, pictures / name)
        server.shutdown()


def write_hours(folder: Path, first: int, end: int) -> str:
    """A table that was written every hour from `first` until before `end`, and cleaned; its path."""
    chance = random.Random(11)
    options = {
        **OPTIONS,
        "hoodie.table.name": folder.name,
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    }
    settled: set[str] = set()
    with set_back() as now:
        for hour in range(first, end):
            now(START + dt.timedelta(hours=hour))
            hoodie.write_table(
                orders(hour, chance),
                str(folder),
                operation="upsert",
                options=options,
                extra_metadata=task(hour, "shop_hourly", folder.name),
            )
            settle(str(folder), settled, chance)
    return str(folder)


def tidy(browser: Browser, page: str) -> None:
    """The table's folder is this machine's own, and nothing has the focus."""
    about = f"{page}.querySelector('#about').firstChild"
    browser.run(f"{about}.data = {about}.data.replace(/^\\S+/, '/data/orders')")
    browser.run(f"{page}.activeElement.blur()")


def take_airflow(browser: Browser, tables: dict[str, str], pictures: Path, folder: Path) -> None:
    os.environ.update(
        AIRFLOW_HOME=str(folder / "airflow"),
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{folder / 'airflow.db'}",
    )
    from tests.airflow.api_server import serve, sign_in

    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True, capture_output=True)
    with serve(folder, tables) as server:
        browser.size(1440, 800)
        sign_in(browser, server)
        browser.open(f"{server.url}plugin/hoodie-timeline")
        page = "document.querySelector('iframe').contentDocument"
        browser.until(f"{page}?.querySelectorAll('.mark').length")
        browser.run(f"{page}.querySelector('#archived').click()")
        browser.until(f"{page}.querySelector('.mark.archived')")
        mark = CHOSEN.replace("document", page)
        browser.run(f"{page}.querySelector(`.mark[data-key='${{{mark}}}']`).click()")
        browser.until(DRAWN.replace("document", page))
        browser.until(LOOKED.replace("document", page))
        tidy(browser, page)
        time.sleep(0.5)
        browser.screenshot(pictures / "timeline-airflow.png")


if __name__ == "__main__":
    sys.exit(main())
