"""Looks that end in time, also where tables hang, and where few threads or none can be started."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hoodie.errors import JobError, StorageError
from hoodie.serve.page import Page
from hoodie.serve.tables import Bounded
from tests.airflow.timelines import WrittenTimeline

#: for calls that hang; enough for others on a busy machine
SECONDS = 2


def look_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("hoodie-look")]


@dataclass
class Limit:
    """`most`: so many threads of looks may live at once."""

    most: int = 100


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limit:
    found, original = Limit(), threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("hoodie-look") and len(look_threads()) >= found.most:
            raise RuntimeError("can't start new thread")
        original(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    return found


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """What calls that hang wait for; they end with the test."""
    event = threading.Event()
    yield event
    event.set()
    for thread in look_threads():
        thread.join()


def calls(held: threading.Event, names: str) -> dict[str, Callable[[], str]]:
    """One for each letter; capital ones hang."""
    return {name: lambda name=name: held.wait() if name.isupper() else name for name in names}  # type: ignore[misc]


def said(answers: dict[str, Future[Any]]) -> str:
    """A letter for each answer: its own, `-` where it came too late, `!` where there was no thread for it."""
    kinds = {StorageError: "-", JobError: "!"}
    errors = {name: answer.exception() for name, answer in answers.items()}
    return "".join(
        answers[name].result() if error is None else kinds[type(error)]  # type: ignore[index]
        for name, error in sorted(errors.items(), key=lambda item: item[0].lower())
    )


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_each_call_is_answered_by_as_few_threads_as_there_are(
    most: int, limit: Limit, held: threading.Event
) -> None:
    limit.most = most
    assert said(Bounded(30).run_all(calls(held, "abcdefghijkl"), 4)) == "abcdefghijkl"


@pytest.mark.parametrize(
    ("names", "most", "expected"),
    [
        pytest.param("AbcDefGhij", 100, "-bc-ef-hij", id="others have the threads that are left"),
        pytest.param(
            "ABCDefGhij", 100, "----ef-hij", id="others get threads when those that hang are given up"
        ),
        pytest.param("AbcDefGhij", 4, "-bc-ef-hij", id="all but one are held"),
        pytest.param("abCdef", 1, "ab-!!!", id="the only one is held"),
        pytest.param("abcdef", 0, "!!!!!!", id="there is none"),
    ],
)
def test_calls_that_hang_hold_their_threads_and_nothing_else(
    names: str, most: int, expected: str, limit: Limit, held: threading.Event
) -> None:
    limit.most = most
    started = time.monotonic()
    assert said(Bounded(SECONDS).run_all(calls(held, names), 4)) == expected
    assert time.monotonic() - started < 20


def test_what_no_thread_was_there_for_is_looked_at_later(limit: Limit, tmp_path: Path) -> None:
    """The list and a table at a glance say why there is no answer, and have one once there is a thread."""
    tables = {name: WrittenTimeline.create(tmp_path, name).path for name in ("a", "b")}
    page = Page(lambda: tables)

    def ask(path: str) -> Any:
        reply = page.get(path)
        assert reply.status == 200, reply.body
        return json.loads(reply.body)

    limit.most = 0
    errors = {item["name"]: item["error"] for item in ask("tables")["tables"]}
    assert {name: error["code"] for name, error in errors.items()} == {"a": "job", "b": "job"}
    assert "no thread can be started to look at table b;" in errors["b"]["message"]
    assert "no thread can be started" in ask("tables/a/health")["reasons"][0]
    limit.most = 100
    assert ["error" in item for item in ask("tables")["tables"]] == [False, False]
    assert "error" not in ask("tables/a/health")


def test_calls_of_others_are_shared(held: threading.Event) -> None:
    """Also those that wait for a thread."""
    bounded, begun, joined = Bounded(90), threading.Event(), threading.Event()
    made: list[str] = []
    found: list[str] = []

    def slow() -> str:
        begun.set()
        held.wait()
        made.append("a")
        return "a"

    def call(name: str, event: threading.Event | None = None) -> Callable[[], str]:
        def noted() -> str:
            made.append(name)
            if event is not None:
                event.set()
            return name

        return noted

    def ask(asked: dict[str, Callable[[], str]]) -> threading.Thread:
        thread = threading.Thread(target=lambda: found.append(said(bounded.run_all(asked, 1))), daemon=True)
        thread.start()
        return thread

    first = ask({"a": slow, "b": call("b")})
    assert begun.wait(90)
    second = ask({"a": call("a"), "b": call("b"), "c": call("c", joined)})
    assert joined.wait(90)
    held.set()
    first.join()
    second.join()
    assert (sorted(found), made) == (["ab", "abc"], ["c", "a", "b"])


def test_a_call_that_is_known_to_hang_is_not_waited_for_again(held: threading.Event) -> None:
    bounded = Bounded(SECONDS)
    with pytest.raises(StorageError, match="table a did not answer within 2 s"):
        bounded.run("a", held.wait)
    started = time.monotonic()
    with pytest.raises(StorageError):
        bounded.run("a", held.wait)
    assert time.monotonic() - started < SECONDS
    assert len(look_threads()) == 1
