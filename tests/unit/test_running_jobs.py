"""Life signs of detached jobs in their table, on disks and on object stores."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hoodie.errors import ConfigError
from hoodie.mask import MASKED, Mask
from hoodie.storage import storage_for
from hoodie.timeline import running_jobs
from hoodie.timeline.running_jobs import FAILED, RUNNING, LifeSign, Pulse, RunningJob, last_output
from tests.support.objects import stored

SIGN = LifeSign(host="h", pid=7, state=RUNNING, log="é\n")


@pytest.fixture(params=["file", "objects"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningJob]:
    """Of a table that is not there yet."""
    if request.param == "file":
        yield RunningJob(path=f"{tmp_path}/t", options={}, tag="hoodie-1")
    else:
        with stored(tmp_path) as bucket:
            yield RunningJob(path=f"{bucket}/t", options={}, tag="hoodie-1")


def test_a_sign_is_read_and_deleted(job: RunningJob) -> None:
    assert (job.read(), job.is_to_end()) == (None, False)
    job.write(LifeSign(host="other", pid=1, state=RUNNING, log=""))
    job.write(SIGN)
    found = job.read()
    assert found is not None
    assert (found.host, found.pid, found.state, found.log) == ("h", 7, RUNNING, "é\n")
    assert not found.died
    job.ask_to_end()
    assert job.is_to_end()
    for _ in range(2):
        job.delete()
    assert (job.read(), job.is_to_end()) == (None, False)
    assert list(storage_for(job.path).names(f"{job.path}/.hoodie/.aux/airflow-jobs")) == []


def test_a_silent_job_has_died(tmp_path: Path) -> None:
    job = RunningJob(path=str(tmp_path), options={}, tag="hoodie-1")
    job.write(SIGN)
    long_ago = time.time() - running_jobs.SILENT_MS / 1000 - 60
    os.utime(tmp_path / ".hoodie/.aux/airflow-jobs/hoodie-1.json", (long_ago, long_ago))
    found = job.read()
    assert found is not None
    assert found.died
    job.write(LifeSign(host="h", pid=7, state=FAILED, log=""))
    os.utime(tmp_path / ".hoodie/.aux/airflow-jobs/hoodie-1.json", (long_ago, long_ago))
    found = job.read()
    assert found is not None
    assert not found.died, "one that has ended says nothing more"


def test_a_tag_is_no_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="letters, digits and dashes"):
        RunningJob(path=str(tmp_path), options={}, tag="../x").read()


def test_a_pulse_tells_the_output_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_jobs, "last_output", lambda: "opened with abcdefgh\n")
    job = RunningJob(path=str(tmp_path), options={}, tag="hoodie-1")
    pulse = Pulse(job, Mask({"fs.s3a.secret.key": "abcdefgh"}), 1)
    pulse.start()
    found = job.read()
    assert found is not None
    assert (found.state, found.pid, found.log) == (RUNNING, os.getpid(), f"opened with {MASKED}\n")
    pulse.end(FAILED)
    found = job.read()
    assert found is not None
    assert found.state == FAILED


def test_the_end_of_the_output_is_told_in_whole_lines(tmp_path: Path) -> None:
    code = """
from hoodie.timeline import running_jobs
running_jobs.LOG_BYTES = 25
print("first line\\nsecond line\\nthird line", flush=True)
import sys
sys.stderr.write(running_jobs.last_output())
"""
    with (tmp_path / "out").open("w+b") as out:
        command = [sys.executable, "-c", code]
        shown = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, check=True).stderr
    assert shown == b"second line\nthird line\n"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as piped:
        assert piped.communicate()[1] == b"", "a pipe can't be read again"


def test_a_descriptor_that_is_closed_has_no_output() -> None:
    assert last_output(987654) == ""
