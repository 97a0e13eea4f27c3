"""A real YARN for tests, whose applications have the folders of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from scripts import environment
from tests.support.jars import jars_of, missing_jar, missing_java
from tests.support.server_process import JavaServer, free_port

#: that of HDFS has all of Hadoop's servers
_JARS = "HDFS"
_PROPERTY = "<property><name>{}</name><value>{}</value></property>"


def missing() -> str | None:
    """What keeps YARN from starting here, or None."""
    return missing_jar(_JARS) or missing_java("YARN")


class Yarn(JavaServer):
    """`port` is that of the ResourceManager's REST API."""

    start_seconds = 180.0
    stop_seconds = 20.0
    logs = ("process.log", "jvm.log")

    def command(self) -> list[str]:
        prefix = "yarn.resourcemanager"
        names = ("address", "scheduler.address", "resource-tracker.address", "admin.address")
        self._addresses = {f"{prefix}.{name}": f"127.0.0.1:{free_port()}" for name in names}
        self._addresses[f"{prefix}.webapp.address"] = f"127.0.0.1:{self.port}"
        scheduler = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
        settings = {
            **self._addresses,
            **{f"yarn.nodemanager.{name}address": "127.0.0.1:0" for name in ("", "localizer.", "webapp.")},
            "yarn.resourcemanager.scheduler.class": scheduler,  # the others need a file with queues
            **{f"yarn.nodemanager.{name}-dirs": str(self.folder / name) for name in ("local", "log")},
            "yarn.nodemanager.resource.memory-mb": "4096",
            "hadoop.tmp.dir": str(self.folder / "tmp"),
            "yarn.scheduler.minimum-allocation-mb": "256",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        }
        classpath = os.pathsep.join(map(str, jars_of(_JARS)))
        module = (sys.executable, "-m", "tests.support.yarn.process")
        arguments = (json.dumps(settings), str(self.folder), classpath)
        return ["env", f"PYTHONPATH={environment.ROOT}", *module, *arguments]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def await_node(self) -> None:
        """Until a NodeManager takes containers."""
        end = time.monotonic() + self.start_seconds
        while True:
            with urllib.request.urlopen(f"{self.address}/ws/v1/cluster/metrics") as answer:
                if json.load(answer)["clusterMetrics"]["activeNodes"]:
                    return
            if time.monotonic() > end:
                raise RuntimeError("\n".join((self.folder / name).read_text()[-3000:] for name in self.logs))
            threading.Event().wait(0.1)

    @contextlib.contextmanager
    def configured(self) -> Iterator[Path]:
        """The environment leads Spark to this YARN, and to a folder of this machine as its storage."""
        conf = self.folder / "conf"
        conf.mkdir(exist_ok=True)
        for name, values in (("yarn", self._addresses), ("core", {"fs.defaultFS": "file:///"})):
            text = "".join(_PROPERTY.format(*item) for item in values.items())
            (conf / f"{name}-site.xml").write_text(f"<configuration>{text}</configuration>")
        with mock.patch.dict(os.environ, {"HADOOP_CONF_DIR": str(conf)}):
            yield conf
