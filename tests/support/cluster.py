"""A standalone cluster of Spark on loopback: a master and workers, each with a folder of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from scripts.environment import spark_environment
from tests.support.server_process import await_port, free_port

_SECONDS = 120
_DAEMON = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_LOCAL_HOSTNAME": "localhost",
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


class Cluster:
    """`url` is the master's. The workers have one core each. All run `python` and the Spark of its venv."""

    def __init__(self, folder: Path, python: Path) -> None:
        self._folder, self._spark = folder, spark_environment(python.parent.parent)
        self._home = self._spark["SPARK_HOME"]
        self._workers: list[subprocess.Popen[bytes]] = []
        port, page = free_port(), free_port()
        self.url = f"spark://127.0.0.1:{port}"
        master = ("master.Master", "-h", "127.0.0.1", "-p", str(port), "--webui-port", str(page))
        self._master, log = self._start("master", *master)
        await_port(self._master, port, _SECONDS, [log])

    def add_worker(self) -> None:
        name, page = f"worker{len(self._workers)}", free_port()
        options = ("-h", "127.0.0.1", "-c", "1", "-m", "1g", "-d", str(self._folder / name / "work"))
        worker, log = self._start(name, "worker.Worker", *options, "--webui-port", str(page), self.url)
        self._workers.append(worker)
        end = time.monotonic() + _SECONDS
        while "Successfully registered with master" not in log.read_text(errors="replace"):
            if worker.poll() is not None or time.monotonic() > end:
                raise RuntimeError(log.read_text(errors="replace")[-3000:])
            threading.Event().wait(0.1)

    def kill_worker(self) -> None:
        """The one that was added last, with its executors."""
        worker = self._workers.pop()
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def submit(self, script: Path, *arguments: str, zipped: Path, conf: Mapping[str, str]) -> list[str]:
        """The command of a job, which is sent with its zip."""
        given = {
            "spark.ui.enabled": "false",
            "spark.cores.max": "2",
            "spark.driver.host": "127.0.0.1",
            **conf,
        }
        settings = [part for name, text in given.items() for part in ("--conf", f"{name}={text}")]
        memory = ("--driver-memory", "512m", "--executor-memory", "512m", "--executor-cores", "1")
        command = [f"{self._home}/bin/spark-submit", "--master", self.url, *memory, *settings]
        return [*command, "--py-files", str(zipped), str(script), *arguments]

    @property
    def environment(self) -> dict[str, str]:
        """Without what would lead a process to the package other than by its zip, or to the store."""
        left_out = ("PYTHONPATH", "SPARK_CONF_DIR")
        kept = {
            name: text
            for name, text in os.environ.items()
            if name not in left_out and not name.startswith("AWS_")
        }
        return {**kept, **self._spark, **_DAEMON, "TZ": os.environ["TZ"]}  # that of the test's own writes

    def close(self) -> None:
        for process in (*self._workers, self._master):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, name: str, kind: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
        place = self._folder / name
        (place / "tmp").mkdir(parents=True)
        (place / "work").mkdir()
        own = {"TMPDIR": str(place / "tmp"), "SPARK_LOCAL_DIRS": str(place / "tmp")}
        command = [f"{self._home}/bin/spark-class", f"org.apache.spark.deploy.{kind}", *arguments]
        with (place / "log").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=place,
                env={**self.environment, **own},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return process, place / "log"


@contextlib.contextmanager
def cluster(folder: Path, python: Path, workers: int) -> Iterator[Cluster]:
    started = Cluster(folder, python)
    try:
        for _ in range(workers):
            started.add_worker()
        yield started
    finally:
        started.close()
