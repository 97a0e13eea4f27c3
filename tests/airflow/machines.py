"""What runs the jobs of platforms in tests: this machine, by the files that a job was submitted with."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hoodie.storage import normalize, storage_for

#: as Spark starts a Python application; the local engine does Spark's steps
_DRIVER = """\
import runpy, sys
package, script, *arguments = sys.argv[1:]
sys.path.insert(0, package)
from hoodie.backend.local import LocalBackend
from hoodie.backend.spark import SparkBackend
assert SparkBackend.__module__ and sys.modules["hoodie"].__file__.startswith(package)
SparkBackend.started = LocalBackend.started
sys.argv = [script, *arguments]
runpy.run_path(script, run_name="__main__")
"""


@functools.cache
def unpacked(package: str) -> str:
    """A folder with what is in the zip. Python compiles it once for all jobs."""
    folder = tempfile.mkdtemp(prefix="hoodie-platforms-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    zipfile.ZipFile(package).extractall(folder)
    return folder


def local(address: str, folder: Path) -> str:
    """The path of an address on this machine; what is on an object store is fetched, as Spark does."""
    if not address.startswith("s3"):
        return re.sub("^file:/+", "/", address)
    path = normalize(address)
    parent, _, name = path.rpartition("/")
    (folder / name).write_bytes(storage_for(parent).read(path))
    return str(folder / name)


@dataclass
class Machines:
    """What runs jobs. `spark`: by the real spark-submit, in this environment; else the local engine does."""

    folder: Path
    spark: dict[str, str] | None = None
    jobs: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(
        self, script: str, arguments: Sequence[str], package: str, conf: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """The driver. The package is what the submission named, and no other."""
        zipped = local(package, self.folder)
        words = [unpacked(zipped) if self.spark is None else zipped, local(script, self.folder), *arguments]
        environ = {name: text for name, text in os.environ.items() if not name.startswith("AIRFLOW")}
        if self.spark is None:
            command = [sys.executable, "-c", _DRIVER, *words]
        else:
            given = [word for name, text in conf.items() for word in ("--conf", f"{name}={text}")]
            submit = f"{self.spark['SPARK_HOME']}/bin/spark-submit"
            command = [submit, "--master", "local[1]", *given, "--py-files", *words]
            environ |= {**self.spark, "PYSPARK_PYTHON": sys.executable}
            if zipped.endswith(".whl"):  # is installed on all machines
                command[-len(words) - 1 :] = words[1:]
                environ["PYTHONPATH"] = unpacked(zipped)
        path = self.folder / f"job-{len(self.jobs)}.log"
        with path.open("wb") as log:
            job = subprocess.Popen(
                command, cwd=self.folder, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self.jobs.append(job)
        return job

    def log(self, job: subprocess.Popen[bytes]) -> list[str]:
        path = self.folder / f"job-{self.jobs.index(job)}.log"
        return path.read_text(errors="replace").splitlines()

    def end(self) -> None:
        for job in self.jobs:
            kill(job)


def kill(job: subprocess.Popen[bytes]) -> None:
    """The job's processes, at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(job.pid, 9)
    job.wait()


@dataclass
class Platform:
    """A stand-in. `engine` and `options`: of an operator. `described`: all that the platform was told of its
    jobs, and would show. `broken`: is it out of reach?
    """

    machines: Machines
    engine: str
    options: dict[str, Any] = field(default_factory=dict)
    described: list[Any] = field(default_factory=list)
    broken: bool = False
