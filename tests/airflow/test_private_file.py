"""What a job is told lies in a file that others can't read, and that goes with the job."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import tempfile
import threading
import time
from pathlib import Path

import pytest

from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieJobError, HoodieJobKilledError
from airflow_hoodie.hooks.spark import HoodieSparkSubmitHook
from airflow_hoodie.secrets import private_file, private_folder

from .conftest import FakeSubmit, guarded


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files lie."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"hoodie-jobs-{os.getuid()}"


def hook_of(fake: FakeSubmit) -> HoodieSparkSubmitHook:
    return HoodieSparkSubmitHook(
        master="local[2]", spark_binary=str(fake.path), kill_grace_seconds=5, request={"table": "t"}
    )


def test_only_this_user_reads_it(folder: Path) -> None:
    before = os.umask(0)
    try:
        with private_file(b"secret", ".json") as path:
            assert path.parent == folder
            assert path.read_bytes() == b"secret"
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            with private_file(b"another", ".json") as other:
                assert path.exists()
            assert not other.exists()
    finally:
        os.umask(before)
    assert list(folder.iterdir()) == []


def test_what_a_killed_process_left_is_swept(folder: Path) -> None:
    child = os.fork()
    if child == 0:
        with private_file(b"secret", ".json"):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(list(folder.iterdir())) == 1
    with private_file(b"mine", ".json") as path:
        assert list(folder.iterdir()) == [path]


def test_a_folder_of_a_killed_process_is_swept_with_its_rows(folder: Path) -> None:
    child = os.fork()
    if child == 0:
        with private_folder() as path:
            (path / "rows.parquet").write_bytes(b"rows")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (left,) = folder.iterdir()
    assert (left / "rows.parquet").exists()
    with private_folder() as mine:
        assert stat.S_IMODE(mine.stat().st_mode) == 0o700
        (mine / "rows.parquet").write_bytes(b"rows")
        with private_file(b"x", ".json"):
            assert mine.exists()
            assert not left.exists()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("how", ["link", "open to others"])
def test_a_folder_that_others_made(how: str, folder: Path, tmp_path: Path) -> None:
    if how == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.mkdir()
        folder.chmod(0o755)
    with pytest.raises(HoodieConfigurationError, match="closed to others"), private_file(b"x", ".json"):
        pass


@pytest.mark.parametrize(
    "ending", ["sys.exit(1)", "say('RESULT', {'instant': '1'})", "os.kill(os.getpid(), 9)"]
)
def test_the_request_goes_with_the_job(ending: str, fake: FakeSubmit, folder: Path) -> None:
    fake.body(ending)
    hook = hook_of(fake)
    with contextlib.suppress(HoodieJobError):
        hook.submit("job.py")
    assert fake.request() == {"table": "t"}
    given = fake.option("--request")
    assert given.startswith(f"@{folder}/")
    assert list(folder.iterdir()) == []


def test_the_request_goes_with_a_killed_task(fake: FakeSubmit, folder: Path) -> None:
    fake.body("time.sleep(600)")
    hook = hook_of(fake)

    def kill() -> None:
        wait_for(Path(f"{fake.path}.json").exists)
        hook.on_kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(HoodieJobKilledError):
        hook.submit("job.py")
    killer.join()
    assert list(folder.iterdir()) == []


def test_the_request_goes_with_a_worker_that_dies(fake: FakeSubmit, folder: Path) -> None:
    fake.body("time.sleep(600)")
    worker = os.fork()
    if worker == 0:
        try:
            hook_of(fake).submit("job.py")
        finally:
            os._exit(1)
    wait_for(Path(f"{fake.path}.json").exists)
    wait_for(lambda: guarded(fake.call()["pid"]))
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    wait_for(lambda: not list(folder.iterdir()))


def wait_for(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
