"""Nothing of a job survives its task: not the JVM, not the driver below it, not a worker in its own group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_hoodie.exceptions import HoodieJobKilledError
from airflow_hoodie.hooks import process_group
from airflow_hoodie.hooks.spark import HoodieSparkSubmitHook
from airflow_hoodie.operators.write import UpsertOperator
from tests.support.tiers import full_but

from .conftest import FakeSubmit, guarded

#: spark-submit -> driver -> worker in a group of its own (as pyspark's daemon); each writes its pid
FAMILY = """
    import textwrap
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    WORKER = "import os, sys, time; os.setpgid(0, 0); "
    WORKER += "open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
    DRIVER = textwrap.dedent('''
        import os, signal, subprocess, sys, time
        folder = sys.argv[1]
        def leave(number, frame):
            open(folder + "/cleaned", "w").write("driver")
            {on_term}
        signal.signal(signal.SIGTERM, leave)
        worker = subprocess.Popen([sys.executable, "-c", sys.argv[2], folder + "/worker.pid"])
        open(folder + "/driver.pid", "w").write(str(os.getpid()))
        print("driver is up", flush=True)
        while True:
            time.sleep(0.05)
    ''')
    open(folder + "/submit.pid", "w").write(str(os.getpid()))
    subprocess.Popen([sys.executable, "-c", DRIVER, folder, WORKER], stdout={output}, stderr={output})
    {submit}
"""


#: spark-submit ends by SIGKILL, as for lack of memory, once its family is up
DIES = """
    def written(file):
        return os.path.exists(file) and os.path.getsize(file) > 0
    while not (written(folder + "/worker.pid") and written(folder + "/driver.pid")):
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def family(
    on_term: str = "worker.kill(); sys.exit(1)", submit: str = "time.sleep(60)", output: str = "None"
) -> str:
    """FAMILY with the driver's answer to SIGTERM, what spark-submit does, and the driver's stdout."""
    return FAMILY.replace("{on_term}", on_term).replace("{submit}", submit).replace("{output}", output)


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"still waiting for {what}"
        time.sleep(0.02)


def pids(folder: Path) -> list[int]:
    """Of the family, once all three are up."""
    files = [folder / f"{name}.pid" for name in ("submit", "driver", "worker")]
    wait_for(lambda: all(file.exists() and file.read_text() for file in files), "the family to start")
    return [int(file.read_text()) for file in files]


def alive(pid: int) -> bool:
    return process_group._session_of(pid) is not None


def kill_while_running(hook: HoodieSparkSubmitHook, folder: Path) -> list[int]:
    """Calls on_kill from another thread once the family is up, amid the read of its output."""
    seen: list[int] = []

    def later() -> None:
        seen.extend(pids(folder))
        hook.on_kill()

    thread = threading.Thread(target=later)
    thread.start()
    with pytest.raises(HoodieJobKilledError, match="because the task was"):
        hook.submit("job.py")
    thread.join()
    assert len(set(seen)) == 3
    return seen


def hook_of(fake: FakeSubmit, grace: float) -> HoodieSparkSubmitHook:
    return HoodieSparkSubmitHook(master="local[2]", spark_binary=str(fake.path), kill_grace_seconds=grace)


def test_on_kill_lets_the_driver_clean_up_and_ends_all(fake: FakeSubmit, tmp_path: Path) -> None:
    fake.body(family())
    family_pids = kill_while_running(hook_of(fake, grace=20), tmp_path)
    assert (tmp_path / "cleaned").read_text() == "driver"
    assert not any(alive(pid) for pid in family_pids)


def test_who_ignores_sigterm_is_killed_after_the_grace(fake: FakeSubmit, tmp_path: Path) -> None:
    fake.body(family(on_term="pass"))
    started = time.monotonic()
    family_pids = kill_while_running(hook_of(fake, grace=0.5), tmp_path)
    assert time.monotonic() - started > 0.5
    assert not any(alive(pid) for pid in family_pids)


def test_the_driver_does_not_outlive_a_dead_spark_submit(fake: FakeSubmit, tmp_path: Path) -> None:
    """SIGKILL of the JVM alone: a driver that prints nothing more would go on writing unseen."""
    fake.body(family(submit=DIES, output="subprocess.DEVNULL"))
    with pytest.raises(HoodieJobKilledError, match="killed by signal 9"):
        hook_of(fake, grace=20).submit("job.py")
    assert not any(alive(pid) for pid in pids(tmp_path))
    assert (tmp_path / "cleaned").exists()


@pytest.mark.full
@pytest.mark.parametrize("after_on_kill", full_but({True}, [False, True]))
def test_the_job_ends_when_the_task_process_is_killed(
    after_on_kill: bool, fake: FakeSubmit, tmp_path: Path
) -> None:
    """Airflow sends SIGKILL five seconds after SIGTERM, or the worker runs out of memory."""
    fake.body(family(on_term="pass" if after_on_kill else "worker.kill(); sys.exit(1)"))
    code = """
import os, signal, sys
from airflow_hoodie.hooks.spark import HoodieSparkSubmitHook
hook = HoodieSparkSubmitHook(master="local[2]", spark_binary=sys.argv[1], kill_grace_seconds=1)
signal.signal(signal.SIGTERM, lambda number, frame: hook.on_kill())
hook.submit("job.py")
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(fake.path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as task:
        family_pids = pids(tmp_path)
        wait_for(lambda: guarded(family_pids[0]), "the guard to start")
        if after_on_kill:
            task.send_signal(signal.SIGTERM)
            wait_for(lambda: (tmp_path / "cleaned").exists(), "SIGTERM to reach the driver")
        task.kill()
    wait_for(lambda: not any(alive(pid) for pid in family_pids), "the family to end")
    assert (tmp_path / "cleaned").exists()


def test_an_execution_timeout_ends_the_job(fake: FakeSubmit, tmp_path: Path) -> None:
    """Airflow raises in the middle of the read; the exception passes once nothing is left."""

    class Timeout(Exception):
        pass

    def ring(number: int, frame: object) -> None:
        raise Timeout

    def send() -> None:
        pids(tmp_path)
        os.kill(os.getpid(), signal.SIGUSR1)

    fake.body(family())
    hook = hook_of(fake, grace=20)
    before = signal.signal(signal.SIGUSR1, ring)
    thread = threading.Thread(target=send)
    thread.start()
    try:
        with pytest.raises(Timeout):
            hook.submit("job.py")
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert not any(alive(pid) for pid in pids(tmp_path))


def test_nothing_is_started_after_on_kill(fake: FakeSubmit) -> None:
    hook = hook_of(fake, grace=1)
    hook.on_kill()
    with pytest.raises(HoodieJobKilledError, match="before spark-submit started"):
        hook.submit("job.py")
    assert not Path(f"{fake.path}.json").exists()


def test_on_kill_after_the_end_sends_no_signal(fake: FakeSubmit, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = hook_of(fake, grace=1)
    hook.submit("job.py")
    monkeypatch.delattr(os, "killpg")
    hook.on_kill()


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_nothing_is_started_after_on_kill_of_the_operator(
    engine: str, fake: FakeSubmit, tmp_path: Path
) -> None:
    """Which is killed before it has a hook."""
    source = tmp_path / "rows.csv"
    source.write_text("id\n1\n")
    task = UpsertOperator(
        task_id="write", table={"name": "t", "path": str(tmp_path / "t"), "record_keys": ["id"]},
        source=str(source), engine=engine, master="local[2]", spark_binary=str(fake.path), token="a",
    )  # fmt: skip
    task.on_kill()
    with pytest.raises(HoodieJobKilledError, match=r"the task was killed before .* started"):
        task.execute({})
    assert not Path(f"{fake.path}.json").exists()
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("result", [False, True])
def test_spark_submit_ends_well_although_it_is_killed(result: bool, fake: FakeSubmit, tmp_path: Path) -> None:
    """As it was about to end: what its job has done counts, and else the task does not go on."""
    fake.body(f"""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open({str(tmp_path / "up")!r}, "w").close()
        while not os.path.exists({str(tmp_path / "killed")!r}):
            time.sleep(0.02)
        if {result}:
            say("RESULT", {{"status": "committed"}})
    """)
    hook = hook_of(fake, grace=90)

    def kill() -> None:
        wait_for((tmp_path / "up").exists, "spark-submit to start")
        hook.on_kill()
        (tmp_path / "killed").touch()

    thread = threading.Thread(target=kill)
    thread.start()
    if result:
        hook.submit("job.py")
        assert hook.result == {"status": "committed"}
    else:
        with pytest.raises(HoodieJobKilledError, match="because the task was") as caught:
            hook.submit("job.py")
        assert caught.value.exit_code == 0
    thread.join()


def test_on_kill_of_an_operator_without_a_job() -> None:
    table = {"name": "t", "path": "/t", "record_keys": ["id"]}
    before = children()
    UpsertOperator(task_id="write", table=table, source="/in").on_kill()
    assert children() <= before


def test_the_job_has_its_own_session_and_the_guard_leaves(fake: FakeSubmit, tmp_path: Path) -> None:
    fake.body(f"open({str(tmp_path / 'sid')!r}, 'w').write(str(os.getsid(0)))")
    hook = hook_of(fake, grace=20)
    before = children()
    hook.submit("job.py")
    assert int((tmp_path / "sid").read_text()) == fake.call()["pid"] != os.getsid(0)
    assert hook._guard is None
    assert children() <= before


def children() -> set[int]:
    """Processes that this one has started and not yet waited for."""
    return {
        int(status.parent.name)
        for status in Path("/proc").glob("[0-9]*/stat")
        if (text := _read(status)) and int(text.rpartition(")")[2].split()[1]) == os.getpid()
    }


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it has ended
        return ""
