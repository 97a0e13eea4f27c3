"""The pictures of the README: `python -m tests.browser.screenshots [FOLDER]` writes docs/images anew.

The page of `hoodie serve` in light and dark, and the page in Airflow, of tests.support.demo_table.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from hoodie.serve.http import PageServer
from hoodie.serve.page import Page
from scripts import environment
from tests.support.browser import Browser, launch
from tests.support.demo_table import write_table

CHOSEN = "[...document.querySelectorAll('.mark.deltacommit.completed')].at(-3).dataset.key"
DRAWN = "document.querySelectorAll('.mark').length && document.querySelector('#details h2')"


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
        take_airflow(Browser(connection), tables, pictures, Path(folder))
    return 0


def take_plain(browser: Browser, tables: dict[str, str], pictures: Path) -> None:
    with PageServer(Page(lambda: tables, "http://localhost:8080")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.size(1280, 760)
        browser.open(server.url)
        browser.until("document.querySelectorAll('.mark').length")
        browser.click(f'.mark[data-key="{browser.run(CHOSEN)}"]')
        browser.until(DRAWN)
        tidy(browser, "document")
        for dark, name in ((False, "timeline.png"), (True, "timeline-dark.png")):
            browser.dark(dark)
            browser.run("window.scrollTo(0, 0)")
            time.sleep(0.2)
            browser.screenshot(pictures / name)
        server.shutdown()


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
        tidy(browser, page)
        time.sleep(0.5)
        browser.screenshot(pictures / "timeline-airflow.png")


if __name__ == "__main__":
    sys.exit(main())
