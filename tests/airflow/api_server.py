"""`airflow api-server` in a process group of its own, with this project's plugins."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any

from tests.support.browser import Browser
from tests.support.server_process import free_port

#: entry points of group airflow.plugins -> module and class
PLUGINS = {
    "hoodie_commits": ("airflow_hoodie.plugins.commits", "HoodieCommitsPlugin"),
    "hoodie_timeline": ("airflow_hoodie.plugins.timeline", "HoodieTimelinePlugin"),
}
USER, PASSWORD = "admin", "wonderland"


def plugins_folder(folder: Path) -> Path:
    """A folder of plugins with those of ours that the environment's entry points do not have yet."""
    made = folder / "plugins"
    made.mkdir()
    installed = importlib.metadata.entry_points(group="airflow.plugins").names
    for name, (module, plugin) in PLUGINS.items():
        if name not in installed:
            (made / f"{name}_plugin.py").write_text(f"from {module} import {plugin}\n")
    return made


@dataclass(frozen=True)
class ApiServer:
    """`url` is Airflow's base address, with a trailing slash."""

    url: str

    def get(self, path: str, token: str | None = None) -> tuple[int, Message, bytes]:
        """Status, headers and body of a GET below the base address; redirects are not followed."""
        request = urllib.request.Request(self.url + path)
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        return _open(request)

    def token(self) -> str:
        """A signed-in user's."""
        body = json.dumps({"username": USER, "password": PASSWORD}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}auth/token", body, headers)
        return str(json.loads(_open(request)[2])["access_token"])


def sign_in(browser: Browser, server: ApiServer, path: str = "") -> None:
    """Through Airflow's own form."""
    browser.open(server.url + path)
    browser.until("document.querySelector('input[type=password]')")
    for selector, text in (("input[name=username]", USER), ("input[type=password]", PASSWORD)):
        browser.click(selector)
        browser.send("Input.insertText", text=text)
    browser.press("Enter")
    browser.until("!location.pathname.includes('login')")


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        return None


def _open(request: urllib.request.Request) -> tuple[int, Message, bytes]:
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


@contextlib.contextmanager
def serve(folder: Path, tables: Mapping[str, str], path: str = "") -> Iterator[ApiServer]:
    """An API server that answers, over the database of the environment, with `[hoodie] tables`.

    `path` is the part of Airflow's address after the host, such as "/airflow".
    """
    port = free_port()
    passwords = folder / "passwords.json"
    passwords.write_text(json.dumps({USER: PASSWORD}))
    server = ApiServer(f"http://127.0.0.1:{port}{path}/")
    environ = {
        **os.environ,
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins_folder(folder)),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__API__BASE_URL": server.url,
        "AIRFLOW__API__SECRET_KEY": "a secret of the tests",
        "AIRFLOW__API_AUTH__JWT_SECRET": "another secret of the tests, long enough for its algorithm",
        "AIRFLOW__HOODIE__TABLES": json.dumps(dict(tables)),
    }
    log = folder / "api-server.log"
    command = [sys.executable, "-m", "airflow", "api-server", "--host", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--workers", "1"], env=environ, stdout=out, stderr=out, start_new_session=True
        )
    try:
        _await(server, process, log)
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _await(server: ApiServer, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            if server.get("api/v2/version")[0] == 200:
                return
        time.sleep(0.2)
    raise RuntimeError(f"the API server does not answer: {log.read_text(errors='replace')[-3000:]}")
