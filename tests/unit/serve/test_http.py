"""`hoodie serve`: a server for this machine, for the tables on its list, until it is stopped."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hoodie.errors import ConfigError
from hoodie.serve import page as page_module
from hoodie.serve.http import PageServer
from hoodie.serve.page import HEADERS, STATIC, Page
from hoodie.serve.tables import allow_list, parse_tables
from tests.airflow.timelines import WrittenTimeline

#: a server looks so often, in seconds, whether it is to end
POLL = 0.01


@pytest.fixture
def table(tmp_path: Path) -> WrittenTimeline:
    made = WrittenTimeline.create(tmp_path)
    made.commit()
    return made


@pytest.fixture
def server(table: WrittenTimeline) -> Iterator[PageServer]:
    with PageServer(Page(lambda: {"orders": table.path})) as made:
        threading.Thread(target=made.serve_forever, args=(POLL,), daemon=True).start()
        yield made
        made.shutdown()


def ask(
    server: PageServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Sends the path as it is, `..` included."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, text in headers.items():
            connection.putheader(name, text)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def test_the_page_and_its_files_come_with_the_package(server: PageServer) -> None:
    status, headers, body = ask(server, "/?table=orders")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert {name: headers[name] for name in HEADERS} == HEADERS
    text = body.decode()
    assert set(re.findall(r'(?:src|href)="([^"]+)"', text)) <= set(STATIC)
    assert re.findall(r"https?://", text) == []
    folder = Path(page_module.__file__).parent / "static"
    assert {name for name, _ in STATIC.values()} == {file.name for file in folder.iterdir()}
    for name in STATIC:
        status, headers, body = ask(server, f"/{name}")
        assert (status, len(body)) == (200, int(headers["Content-Length"]))


def test_the_page_is_free_of_addresses_and_inline_code() -> None:
    """What the Content-Security-Policy would refuse, and what would ask another host."""
    folder = Path(page_module.__file__).parent / "static"
    for file in folder.iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert re.findall(r"https?://[\w.]+|innerHTML|outerHTML|\beval\(", text) == [], file.name
    page = (folder / "index.html").read_text()
    assert re.findall(r"<style|<script(?! type=\"module\" src)| style=| on\w+=", page) == []


def test_requests(server: PageServer) -> None:
    status, headers, body = ask(server, "/tables/orders/instants?limit=5")
    assert (status, headers["Cache-Control"]) == (200, "no-store")
    assert json.loads(body)["total"] == 1
    status, headers, body = ask(server, "/tables", "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 0
    for method in ("POST", "PUT", "DELETE", "<SCRIPT>"):
        status, headers, body = ask(server, "/tables", method)
        assert (status, json.loads(body)["error"]["code"]) == (501, "http")
        assert {name: headers[name] for name in HEADERS} == HEADERS
    assert ask(server, f"/{'x' * 70_000}")[0] == 414


def test_a_request_without_a_thread_is_refused(
    server: PageServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The server goes on."""

    def none(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none)
        status, headers, body = ask(server, "/tables")
        assert (status, json.loads(body)["error"]["code"], headers["Connection"]) == (503, "busy", "close")
        assert {name: headers[name] for name in HEADERS} == HEADERS
        assert ask(server, "/tables", "HEAD")[::2] == (503, b"")
    assert ask(server, "/tables")[0] == 200
    assert capfd.readouterr() == ("", "")


def test_a_bug_is_told_in_the_log(server: PageServer, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> dict[str, str]:
        raise RuntimeError("secret\n\x1b[2Jforged")

    object.__setattr__(server.page, "allowed", broken)
    status, headers, body = ask(server, "/tables")
    assert (status, json.loads(body)["error"]["code"], b"secret" in body) == (500, "internal", False)
    assert {name: headers[name] for name in HEADERS} == HEADERS
    [message] = caplog.messages
    assert "secret" in message
    assert ("\x1b" in message, "\nforged" in message) == (False, False)


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/static/../page.py", "/.hoodie",
     "/tables/orders/../../etc/instants", "/tables/..%2f..%2fetc/instants", "/tables/orders/instants/..%2f1"],
)  # fmt: skip
def test_nothing_but_the_list(server: PageServer, path: str) -> None:
    status, _, body = ask(server, path)
    assert status == 404
    assert "error" in json.loads(body)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:80", 200),
        ("evil.example", 421),
        ("", 421),
        ("[", 421),
    ],
)
def test_other_names_are_refused(server: PageServer, host: str, status: int) -> None:
    """A page of another site whose name leads to this machine reads nothing."""
    assert ask(server, "/tables", Host=host)[0] == status


def test_a_server_for_others_takes_addresses_and_the_names_it_is_given(table: WrittenTimeline) -> None:
    """Anybody's name may be made to lead here, and the page behind it to read the answers."""
    page = Page(lambda: {"orders": table.path})
    with PageServer(page, "0.0.0.0", hosts=["lake.example"]) as server:
        threading.Thread(target=server.serve_forever, args=(POLL,), daemon=True).start()
        assert ask(server, "/tables", Host="lake.example")[0] == 200
        assert ask(server, "/tables", Host="10.1.2.3:8642")[0] == 200
        assert ask(server, "/tables", Host="evil.example")[0] == 421
        server.shutdown()


def test_a_port_that_is_taken(server: PageServer) -> None:
    with pytest.raises(ConfigError, match="choose another --host or --port"):
        PageServer(server.page, port=server.server_address[1])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["/data/orders"], "is not NAME=PATH"),
        (["a b=/x"], "table name 'a b'"),
        (["..=/x"], r"table name '\.\.'"),
        (["=/x"], "table name ''"),
        (["a="], "has the path ''"),
        (["a=/x", "a=/y"], "two tables have the name 'a'"),
    ],
)
def test_wrong_lists(texts: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_tables(texts)


def test_lists() -> None:
    assert parse_tables(["a=/x/../y", "b.c-d=file:/z"]) == {"a": "/y", "b.c-d": "/z"}
    with pytest.raises(ConfigError, match="has the path 3"):
        allow_list({"a": 3})  # type: ignore[dict-item]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_the_command(table: WrittenTimeline, number: signal.Signals, code: int) -> None:
    command = [sys.executable, "-m", "hoodie.cli", "serve", "--table", f"orders={table.path}", "--port", "0"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored, as behind nohup
    process = subprocess.Popen(
        [*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
    )
    signal.signal(signal.SIGINT, before)
    assert process.stderr is not None
    line = process.stderr.readline()
    found = re.search(r"timeline of 1 table at (http://127\.0\.0\.1:(\d+)/)$", line.strip())
    assert found, line + process.stderr.read()
    connection = http.client.HTTPConnection("127.0.0.1", int(found[2]), timeout=30)
    connection.request("GET", "/tables/orders/instants")
    assert json.loads(connection.getresponse().read())["total"] == 1
    connection.close()
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == code
    if code == 0:
        assert json.loads(out) == {"url": found[1], "tables": {"orders": table.path}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--table", "orders"], "is not NAME=PATH"),
        (["--table", "a=/x", "--airflow", "there"], "is no address"),
    ],
)
def test_the_command_line_is_checked(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from hoodie.cli import main

    assert main(["serve", *arguments]) == 1
    assert message in capsys.readouterr().err
