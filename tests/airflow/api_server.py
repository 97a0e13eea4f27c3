"""`airflow api-server` in a process group of its own, with this project's plugins; or the page and Airflow's
signing in as an application in this process.
"""

from __future__ import annotations

import contextlib
import dataclasses
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
from pathlib import Path
from typing import Any, Protocol

import pytest

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


#: status, headers and body
Answer = tuple[int, Any, bytes]


class Signing(Protocol):
    """Who serves the page to users that sign in."""

    def get(self, path: str, token: str | None = None) -> Answer:
        """Status, headers and body of a GET below the base address; redirects are not followed."""

    def token(self) -> str:
        """A signed-in user's."""


@dataclass(frozen=True)
class ApiServer:
    """`url` is Airflow's base address, with a trailing slash."""

    url: str

    def get(self, path: str, token: str | None = None) -> Answer:
        request = urllib.request.Request(self.url + path)
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        return _open(request)

    def token(self) -> str:
        body = json.dumps({"username": USER, "password": PASSWORD}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}auth/token", body, headers)
        return str(json.loads(_open(request)[2])["access_token"])


@dataclass(frozen=True)
class AppHere:
    """The plugin's applications beside Airflow's own of signing in, without the rest of its API."""

    client: Any

    def get(self, path: str, token: str | None = None) -> Answer:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        answer = self.client.get(path, headers=headers, follow_redirects=False)
        return answer.status_code, answer.headers, answer.content

    def token(self) -> str:
        answer = self.client.post("auth/token", json={"username": USER, "password": PASSWORD})
        return str(answer.json()["access_token"])


@contextlib.contextmanager
def serve_here(folder: Path, tables: Mapping[str, str], path: str) -> Iterator[AppHere]:
    """As `serve`, without a process of its own."""
    from airflow import plugins_manager
    from airflow.api_fastapi import app as airflow_app
    from airflow.api_fastapi.core_api.routes.public.auth import auth_router
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    from airflow_hoodie.plugins import timeline_app
    from airflow_hoodie.plugins.timeline import HoodieTimelinePlugin

    url = f"http://127.0.0.1{path}/"
    with pytest.MonkeyPatch.context() as patched:
        for name, value in _environment(folder, url, tables).items():
            patched.setenv(name, value)
        patched.setattr(plugins_manager, "_get_plugins", lambda: ([HoodieTimelinePlugin], {}))
        uncached = plugins_manager.get_fastapi_plugins.__wrapped__
        patched.setattr(plugins_manager, "get_fastapi_plugins", uncached)
        patched.setattr(airflow_app._AuthManagerState, "instance", None)
        patched.setattr(timeline_app, "page", dataclasses.replace(timeline_app.page, airflow=path))
        app = FastAPI(root_path=path)
        airflow_app.init_plugins(app)
        airflow_app.init_auth_manager(app)
        app.include_router(auth_router, prefix="/api/v2")
        with TestClient(app, base_url=url) as client:
            yield AppHere(client)


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


def _open(request: urllib.request.Request) -> Answer:
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
    server = ApiServer(f"http://127.0.0.1:{port}{path}/")
    environ = {
        **os.environ,
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins_folder(folder)),
        **_environment(folder, server.url, tables),
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


def _environment(folder: Path, url: str, tables: Mapping[str, str]) -> dict[str, str]:
    passwords = folder / "passwords.json"
    passwords.write_text(json.dumps({USER: PASSWORD}))
    return {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__SECRET_KEY": "a secret of the tests",
        "AIRFLOW__API_AUTH__JWT_SECRET": "another secret of the tests, that is as long as its algorithm asks",
        "AIRFLOW__HOODIE__TABLES": json.dumps(dict(tables)),
    }


def _await(server: ApiServer, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            if server.get("api/v2/version")[0] == 200:
                return
        time.sleep(0.2)
    raise RuntimeError(f"the API server does not answer: {log.read_text(errors='replace')[-3000:]}")
