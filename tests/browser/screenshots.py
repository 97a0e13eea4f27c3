"""The pictures of the docs: `python -m tests.browser.screenshots [FOLDER]` writes docs/images anew.

The page of `hoodie serve` in light and dark, wide and on a phone, that of all tables, and the page in
Airflow, of tests.support.demo_table.
"""

from __future__ import annotations

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
from hoodie.serve.http import PageServer
from hoodie.serve.page import Page
from hoodie.storage.local import LocalStorage
from scripts import environment
from tests.support.browser import Browser, launch
from tests.support.demo_table import OPTIONS, START, orders, set_back, settle, write_table

CHOSEN = "[...document.querySelectorAll('.mark.deltacommit.completed')].at(-3).dataset.key"
DRAWN = "document.querySelectorAll('.mark').length && document.querySelector('#details h2')"

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
        take_plain(Browser(connection), tables, pictures, Path(folder))
        take_airflow(Browser(connection), tables, pictures, Path(folder))
    return 0


def take_plain(browser: Browser, tables: dict[str, str], pictures: Path, folder: Path) -> None:
    """The page a few minutes after the last write of the day, by a clock that is set back, too."""
    now = int((START + dt.timedelta(hours=24, minutes=9)).timestamp() * 1000)
    listed = {**tables, "items": write_hours(folder / "items", 8), "returns": "/data/returns"}
    with (
        mock.patch.object(LocalStorage, "now_ms", return_value=now),
        PageServer(Page(lambda: listed, "http://localhost:8080")) as server,
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
        browser.size(1080, 265)
        browser.open(server.url)
        browser.until("document.querySelectorAll('#overview tbody tr').length === 3")
        browser.until("!document.querySelector('#overview').ariaBusy")
        both(browser, pictures / "tables.png")
        server.shutdown()


def both(browser: Browser, path: Path) -> None:
    """A picture in light and one in dark."""
    for dark, name in ((False, path.name), (True, f"{path.stem}-dark{path.suffix}")):
        browser.dark(dark)
        browser.run("window.scrollTo(0, 0)")
        time.sleep(0.3)
        browser.screenshot(path.with_name(name))
    browser.dark(False)


def write_hours(folder: Path, hours: int) -> str:
    """A table that was written every hour until the end of the day, and cleaned; its path."""
    chance = random.Random(11)
    options = {**OPTIONS, "hoodie.table.name": "items", "hoodie.datasource.write.table.type": "COPY_ON_WRITE"}
    settled: set[str] = set()
    with set_back() as now:
        for hour in range(24 - hours, 25):
            now(START + dt.timedelta(hours=hour))
            hoodie.write_table(orders(hour, chance), str(folder), operation="upsert", options=options)
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
