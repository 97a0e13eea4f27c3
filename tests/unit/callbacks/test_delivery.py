"""Each commit is delivered once and in order: also when the server was down, hung, or the writer died."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import hoodie
from hoodie.callbacks import MessageCallback
from hoodie.callbacks.delivery import Delivery, Outbox, Sender
from hoodie.config.key import Config
from hoodie.errors import ConfigError, TableNotFound
from hoodie.hooks import Hooks
from hoodie.table.handle import Table
from tests.support.at_once import OPTIMISTIC
from tests.support.cli import Run
from tests.support.faults import Change, Faults, injected
from tests.support.processes import all_forked, forked
from tests.support.receiver import Receiver
from tests.support.stores import timeline_at

PREFIX = "hoodie.write.commit.callback."
TABLE = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.table.name": "t"}


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoodie.callbacks.http._PAUSE_S", 0.01)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("delivery") / "t"
    hoodie.write_table(pa.table({"id": ["z"], "v": [0]}), str(path), options=TABLE)
    return path


@pytest.fixture
def table(template: Path, tmp_path: Path) -> str:
    return str(shutil.copytree(template, tmp_path / "t"))


def to(url: str, **more: str) -> dict[str, str]:
    return {f"{PREFIX}on": "true", f"{PREFIX}http.url": url, f"{PREFIX}http.timeout.seconds": "5", **more}


def write(table: str, options: dict[str, str]) -> Any:
    more = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
    return hoodie.write_table(pa.table({"id": ["a"], "v": [1]}), table, options={**TABLE, **more, **options})


def commits(table: str) -> list[str]:
    """Instants but the template's, oldest first."""
    found = (entry for entry in hoodie.instants(table) if entry["state"] == "completed")
    return [entry["instant"] for entry in found if entry["action"] == "commit"][1:]


def notes(table: str) -> list[str]:
    folder = Path(table) / ".hoodie/.aux/callbacks"
    return sorted(path.name.partition(".")[0] for path in folder.glob("*.json"))


@contextlib.contextmanager
def no_server() -> Iterator[str]:
    yield "http://127.0.0.1:9/discard"


def test_each_commit_once_in_order_also_when_the_server_was_down(table: str, receiver: Receiver) -> None:
    with receiver.listening() as url:
        assert write(table, to(url)).warnings == []
    first, second = (write(table, to(url)) for _ in range(2))  # the port is free by now
    one, two, three = commits(table)
    assert (receiver.instants, notes(table)) == ([one], [two, three])
    (warning,) = first.warnings
    assert warning.startswith(
        f"the rows are committed, but the message of {two} was not delivered: {url} is out"
    )
    assert warning.endswith("It is kept; the next commit sends it again, or `hoodie callbacks resend`")
    assert "It is kept, with 1 later one;" in second.warnings[0]
    with receiver.listening() as url:
        assert write(table, to(url)).warnings == []
    assert receiver.instants == commits(table)
    assert notes(table) == []


@pytest.mark.parametrize("how", ["hangs", pytest.param("drips", marks=pytest.mark.full)])
def test_a_server_that_does_not_answer_costs_one_time_out(table: str, receiver: Receiver, how: str) -> None:
    setattr(receiver, how, True)
    with receiver.listening() as url:
        started = time.monotonic()
        for kept in (1, 2):  # however many messages are kept
            warnings = write(table, to(url, **{f"{PREFIX}http.timeout.seconds": "0.2"})).warnings
            assert "did not take it within 0.2 s" in warnings[0]
            assert len(notes(table)) == kept
        assert time.monotonic() - started < 2 * 0.2 + 1.2
        setattr(receiver, how, False)
        assert write(table, to(url)).warnings == []
    assert receiver.instants == commits(table)


class Stuck(MessageCallback):
    """Looks a name up that never comes, and can't be interrupted."""

    timeout_s = 0.1
    place = "nowhere"
    done: ClassVar[threading.Event] = threading.Event()

    def __init__(self, *, config: Config) -> None:
        pass

    def send(self, message: str, table: str, seconds: float) -> None:
        self.done.wait(10)
        raise OSError("no")


def test_what_does_not_end_by_itself_is_left(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoodie.callbacks.hook._GRACE_S", 0.1)
    options = {f"{PREFIX}on": "true", f"{PREFIX}class": f"{__name__}:Stuck"}
    (warning,) = write(table, options).warnings
    Stuck.done.set()
    assert warning == "the rows are committed, but the commit callback did not end within 0.2 s"
    assert notes(table) == commits(table)


def test_a_refused_message_is_kept_with_those_after_it(table: str, receiver: Receiver) -> None:
    with receiver.listening() as url:
        for refused in (True, True, False):
            receiver.statuses = [413] if refused else []
            warnings = write(table, to(url)).warnings
            assert bool(warnings) == refused
    assert receiver.instants == commits(table)


def test_secrets_are_hidden_in_warnings(table: str, receiver: Receiver) -> None:
    receiver.statuses, receiver.answer = [401], b"hunter-2 is no key, letmein no team"
    more = {f"{PREFIX}http.api.key": "hunter-2", f"{PREFIX}http.custom.headers": "X-Team:letmein"}
    with receiver.listening() as url:
        (warning,) = write(table, to(url, **more)).warnings
    assert "answered 401: ****** is no key, ****** no team" in warning


def in_callbacks(change: Change) -> bool:
    """What changes for callbacks, and the publishing."""
    return "/.aux/callbacks" in change.path or change.path.endswith(".commit")


def dies(table: str, url: str, faults: Faults) -> None:
    with contextlib.suppress(Exception), injected(faults):
        write(table, to(url))


def sweep(template: Path, folder: Path, receiver: Receiver, faults: Any) -> int:
    """A writer dies at each change, and the next one goes on; returns how many changes there were."""
    for number in range(1, 200):
        table, receiver.messages = str(shutil.copytree(template, folder / f"{number}" / "t")), []
        with receiver.listening() as url:
            plan: Faults = faults(number)
            dies(table, url, plan)
            if not plan.tripped:
                assert receiver.instants == commits(table)
                return number
            before = len(receiver.messages)
            assert write(table, to(url)).warnings == []
        assert notes(table) == [], plan
        told = receiver.instants
        assert list(dict.fromkeys(told)) == commits(table), plan
        # one that died between the delivery and the end of its note is delivered twice
        assert len(told) <= len(commits(table)) + before, plan
    raise AssertionError("the writer never ends")


@pytest.mark.full
def test_a_writer_that_dies_at_what_it_does_for_callbacks(
    template: Path, tmp_path: Path, receiver: Receiver
) -> None:
    """Its note, the publishing, the beginning and the end of the delivery."""
    assert sweep(template, tmp_path, receiver, lambda at: Faults(at=at, of=in_callbacks)) == 6


@pytest.mark.full
def test_a_writer_that_dies_anywhere(template: Path, tmp_path: Path, receiver: Receiver) -> None:
    assert sweep(template, tmp_path, receiver, lambda at: Faults(at=at)) > 12


@pytest.mark.full
def test_a_storage_that_fails_for_a_moment(template: Path, tmp_path: Path, receiver: Receiver) -> None:
    for number in range(1, 6):
        table, receiver.messages = str(shutil.copytree(template, tmp_path / f"{number}" / "t")), []
        with receiver.listening() as url:
            dies(table, url, Faults(at=number, of=in_callbacks, once=True))
            write(table, to(url))
        assert list(dict.fromkeys(receiver.instants)) == commits(table)


def test_a_commit_that_was_withdrawn_is_not_announced(
    table: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    with receiver.listening() as url:
        with monkeypatch.context() as patched:
            patched.setattr("hoodie.write.commit.create_instant", fails)
            with pytest.raises(OSError, match="full"):
                write(table, to(url))
        assert len(notes(table)) == 1
        assert write(table, to(url)).warnings == []
    assert receiver.instants == commits(table)
    assert (len(receiver.instants), notes(table)) == (1, [])


def test_a_note_of_a_writer_that_has_not_published_yet_is_left(table: str, receiver: Receiver) -> None:
    """Another one commits between the note of the first and its commit, as writers at once do."""
    pending = "29990101000000000"
    meta, timeline = Path(table) / ".hoodie", timeline_at(table)
    (meta / ".aux/callbacks").mkdir(parents=True)
    message = json.dumps({"commitTime": pending})
    (meta / f".aux/callbacks/{pending}.commit.json").write_text(message)
    for name in (f"{pending}.commit.requested", f"{pending}.inflight"):
        (timeline / name).touch()
    sender = Sender(callback=Kept(config=Config.of({})), config=Config.of({}))
    Kept.messages.clear()
    assert sender.deliver(Table.open(table)) == Delivery()
    assert notes(table) == [pending]
    shutil.copy(next(timeline.glob("*.commit")), timeline / f"{pending}.commit")
    assert sender.deliver(Table.open(table)) == Delivery(delivered=(pending,))
    assert Kept.messages == [message]


class Kept(MessageCallback):
    place = "a list"
    messages: ClassVar[list[str]] = []

    def __init__(self, *, config: Config) -> None:
        pass

    def send(self, message: str, table: str, seconds: float) -> None:
        assert table == "t"
        assert 0 < seconds <= self.timeout_s
        time.sleep(0.001)
        self.messages.append(message)


def test_several_processes_deliver_each_message_once(table: str) -> None:
    (first,) = hoodie.instants(table)
    folder = Path(table) / ".hoodie/.aux/callbacks"
    folder.mkdir(parents=True)
    times = [f"{int(first['instant']) - 50 + number}" for number in range(50)]  # archived by now
    for each in times:
        (folder / f"{each}.commit.json").write_text(each)
    Kept.messages.clear()
    sender = Sender(callback=Kept(config=Config.of({})), config=Config.of({}))
    threads = [threading.Thread(target=sender.deliver, args=(Table.open(table),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Kept.messages == times


def test_a_message_that_comes_while_another_process_delivers(table: str) -> None:
    """The other one looks once more when it has ended."""
    (first,) = hoodie.instants(table)
    opened = Table.open(table)
    folder = Path(table) / ".hoodie/.aux/callbacks"
    folder.mkdir(parents=True)
    (folder / f"{first['instant']}.commit.json").write_text("1")

    class Interrupted(Kept):
        def send(self, message: str, table: str, seconds: float) -> None:
            super().send(message, table, seconds)
            if message == "1":
                (folder / f"{first['instant']}.deltacommit.json").write_text("2")
                assert Sender(callback=self, config=Config.of({})).deliver(opened) == Delivery(busy=True)

    Kept.messages.clear()
    callback = Interrupted(config=Config.of({}))
    assert len(Sender(callback=callback, config=Config.of({})).deliver(opened).delivered) == 2
    assert Kept.messages == ["1", "2"]


def test_services_where_a_setting_asks(table: str, receiver: Receiver) -> None:
    more = {f"{PREFIX}services": "true"}
    with receiver.listening() as url:
        written = write(table, to(url)).instant
        hoodie.savepoint_table(table, options=to(url))
        assert len(receiver.messages) == 1
        hoodie.delete_savepoint(table, written, options=to(url, **more))
        rolled_back = hoodie.rollback_table(table, written, options=to(url, **more))
    assert rolled_back.warnings == []
    actions = [message["commitActionType"]["value"] for message in receiver.messages]
    assert actions[-1] == "rollback"
    assert receiver.messages[-1]["hoodieWriteStat"] == []


def test_services_inside_of_a_write(table: str, receiver: Receiver) -> None:
    """Each instant once: the write's message goes before those of its inline services."""
    inline = {
        f"{PREFIX}services": "true",
        "hoodie.clean.automatic": "true",
        "hoodie.cleaner.commits.retained": "1",
        "hoodie.clean.max.commits": "0",
    }
    with receiver.listening() as url:
        for _ in range(3):
            assert write(table, to(url, **inline)).warnings == []
    entries = [entry for entry in hoodie.instants(table) if entry["state"] == "completed"][1:]
    assert "clean" in [entry["action"] for entry in entries]
    assert receiver.instants == [entry["instant"] for entry in entries]


def test_resending(table: str, receiver: Receiver, run: Run) -> None:
    with no_server() as url:
        for _ in range(2):
            write(table, to(url))
        arguments = ["callbacks", "resend", "--table", table]
        for name, value in to(url).items():
            arguments += ["--option", f"{name}={value}"]
        code, text, _ = run(*arguments)
        assert code == 1
        assert "is out of reach" in text
    one, two = commits(table)
    planned = hoodie.resend_callbacks(table, dry_run=True)
    assert (planned.status, planned.left, planned.delivered) == ("planned", [one, two], [])
    with receiver.listening() as url:
        arguments = [f"{PREFIX}http.url={url}" if "http.url" in each else each for each in arguments]
        assert run(*arguments)[:2] == (0, f"Sent 2 messages: {one}, {two}\n")
        assert receiver.instants == [one, two]
        assert run(*arguments)[:2] == (0, "Nothing to send: every message is delivered\n")
        assert json.loads(run(*arguments, "--json")[1])["status"] == "skipped"


def test_resending_what_keeps_no_messages(table: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"needs hoodie\.write\.commit\.callback\.http\.url"):
        hoodie.resend_callbacks(table)
    with pytest.raises(ConfigError, match="keeps no messages"):
        hoodie.resend_callbacks(table, options={f"{PREFIX}class": "tests.contract.test_plugins:Told"})
    with pytest.raises(TableNotFound):
        hoodie.resend_callbacks(str(tmp_path / "none"), options={f"{PREFIX}http.url": "http://host"})


def test_a_storage_without_folders(receiver: Receiver) -> None:
    pytest.importorskip("obstore")
    table = "memory://callbacks/t"
    with no_server() as url:
        write(table, to(url))
    assert len(Outbox(Table.open(table)).due()) == 1
    with receiver.listening() as url:
        assert write(table, to(url)).warnings == []
    assert receiver.instants == [entry["instant"] for entry in hoodie.instants(table)]
    assert Outbox(Table.open(table)).due() == []


@pytest.mark.full
def test_processes_that_write_at_once(tmp_path: Path, receiver: Receiver) -> None:
    """Each commit once, whichever process sends it."""
    path, (processes, each) = str(tmp_path / "t"), (4, 4)
    options = {**TABLE, **OPTIMISTIC, "hoodie.datasource.write.partitionpath.field": "p"}
    hoodie.write_table(pa.table({"id": ["z"], "p": ["z"]}), path, options=options)

    def writes(place: int) -> int:
        rows = pa.table({"id": [f"{place}"], "p": [f"{place}"]})
        told = [hoodie.write_table(rows, path, options={**options, **to(url)}).warnings for _ in range(each)]
        return len([warning for warnings in told for warning in warnings])

    with receiver.listening() as url:
        assert all_forked(partial(writes, place) for place in range(processes)) == [0] * processes
    assert sorted(receiver.instants) == commits(path)
    assert (len(receiver.instants), notes(path)) == (processes * each, [])


class Killed(Kept):
    def send(self, message: str, table: str, seconds: float) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("when", ["right after the commit", "in the delivery"])
def test_a_process_that_is_killed(
    table: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    options = {f"{PREFIX}on": "true", f"{PREFIX}class": f"{__name__}:Killed"}
    if when == "right after the commit":
        monkeypatch.setattr(Hooks, "run", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    assert forked(lambda: write(table, options) and 0) == -signal.SIGKILL
    monkeypatch.undo()
    assert notes(table) == commits(table)
    with receiver.listening() as url:
        assert write(table, to(url)).warnings == []
    assert receiver.instants == commits(table)
    assert (len(receiver.instants), notes(table)) == (2, [])
