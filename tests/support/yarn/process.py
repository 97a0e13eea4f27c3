"""YARN in one JVM on loopback: a ResourceManager and a NodeManager, whose containers this user runs.

Run by `tests.support.yarn.server`: `process.py SETTINGS FOLDER CLASSPATH`, the settings as a JSON object. It
ends when its input does.
"""

from __future__ import annotations

import json
import os
import sys

from tests.support.hdfs.process import jvm


def main(settings: dict[str, str], folder: str, classpath: str) -> None:
    hadoop = jvm(folder, classpath)
    hadoop.metrics2.lib.DefaultMetricsSystem.setMiniClusterMode(True)  # for two servers in one JVM
    servers = hadoop.yarn.server
    conf = hadoop.yarn.conf.YarnConfiguration()
    for name, value in settings.items():
        conf.set(name, value)
    for server in (servers.resourcemanager.ResourceManager(), servers.nodemanager.NodeManager()):
        server.init(conf)
        server.start()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2], sys.argv[3])
