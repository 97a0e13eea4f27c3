"""The timeline page over malicious tables, by HTTP: one server lists them all, and each question gets an
answer in strict JSON, soon, in bounded memory, from the table that was asked for.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hoodie.serve.page import HEADERS
from tests.security.corpus import CASES, NEW
from tests.security.pages import NAMES, PAGES, forge

SECONDS = 10
#: of address space, the interpreter and its libraries included
MEBIBYTES = 768
#: codes of errors that are the server's own, whatever a table is
OWN = ("internal", "job")


@dataclass(frozen=True)
class Served:
    """`secret` are texts of tables that are not listed."""

    port: int
    secret: set[str]

    def ask(self, path: str) -> tuple[int, Any, str]:
        """Status, document, text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        return answer.status, strict(body), body.decode("ascii")


def strict(body: bytes) -> Any:
    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is no JSON")

    return json.loads(body, parse_constant=refuse)


@contextlib.contextmanager
def serving(folder: Path, names: Iterable[str], stack: int | None = None) -> Iterator[Served]:
    """`stack`: of each thread, in MiB of address space."""
    folders, secret = forge(folder, names)
    tables = [f"--table={NAMES[name]}={path}/table" for name, path in folders.items()]

    def limited() -> None:
        for kind, mebibytes in ((resource.RLIMIT_STACK, stack), (resource.RLIMIT_AS, MEBIBYTES)):
            if mebibytes is not None:
                resource.setrlimit(kind, (mebibytes << 20, resource.getrlimit(kind)[1]))

    process = subprocess.Popen(
        [sys.executable, "-m", "hoodie.cli", "serve", "--port", "0", *tables],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=limited,
    )
    assert process.stderr is not None
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stderr.readline())
    assert found
    try:
        yield Served(int(found[1]), secret)
    finally:
        process.kill()
        log = process.communicate()[1]
    assert log == ""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("lakes"), PAGES) as found:
        yield found


@pytest.fixture(scope="module")
def served_corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("corpus"), CASES) as found:
        yield found


def test_the_list(served: Served) -> None:
    check_list(served)


def test_the_list_where_few_threads_can_be_started(tmp_path: Path) -> None:
    """One for the request and one or two for its tables."""
    with serving(tmp_path, PAGES, stack=MEBIBYTES // 4) as found:
        check_list(found)


@pytest.mark.parametrize("name", PAGES)
def test_each_question_is_answered(served: Served, name: str) -> None:
    check(served, name)


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_each_question_about_the_corpus_is_answered(served_corpus: Served, name: str) -> None:
    check(served_corpus, name)


def own_error(document: Any) -> bool:
    return document.get("error", {}).get("code") in OWN


def check_list(served: Served) -> None:
    status, document, _ = served.ask("/tables")
    assert status == 200, document
    assert {item["name"] for item in document["tables"]} == {NAMES[name] for name in PAGES}
    assert [item for item in document["tables"] if own_error(item)] == []


def check(served: Served, name: str) -> None:
    table = f"/tables/{NAMES[name]}/instants"
    glance = f"/tables/{NAMES[name]}/health"
    asked = {glance: served.ask(glance)}
    for archived in ("false", "true"):
        path = f"{table}?archived={archived}"
        _, document, _ = asked[path] = served.ask(path)
        times = {f"{item['instant']}?action={item['action']}&" for item in document.get("instants", ())}
        for time in sorted(times | {f"{NEW}?"}):
            path = f"{table}/{time}archived={archived}"
            asked[path] = served.ask(path)
    assert {
        path: (status, said)
        for path, (status, document, said) in asked.items()
        if not 200 <= status < 500 or own_error(document)
    } == {}
    for path, (_, _, text) in asked.items():
        assert [word for word in served.secret if word in text] == [], path
        assert not re.search("[<>\x00-\x1f]", text)
