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
    yarn = jvm(folder, classpath).yarn
    conf = yarn.conf.YarnConfiguration()
    for name, value in settings.items():
        conf.set(name, value)
    cluster = yarn.server.MiniYARNCluster("yarn", 1, 1, 1)
    cluster.init(conf)
    cluster.start()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2], sys.argv[3])
