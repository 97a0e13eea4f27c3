"""HDFS in one JVM on loopback: two name nodes, of which the first is active, and a data node.

Run by `tests.support.hdfs.server`: `process.py RPC HTTP RPC HTTP FOLDER CLASSPATH`, the ports of the name
nodes. A line of its input is a command (`Cluster`), after which it makes the file `done-N` in the folder. It
ends when its input does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

_LANG = ("lang", "lang.invoke", "lang.reflect")
_OPENED = (*_LANG, "io", "net", "nio", "util", "util.concurrent", "util.concurrent.atomic")
OPTIONS = [
    *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED),
    *(
        f"--add-opens=java.base/{name}=ALL-UNNAMED"
        for name in ("jdk.internal.ref", "sun.nio.ch", "sun.nio.cs", "sun.security.action")
    ),
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.net.preferIPv4Stack=true",
]
LOGGING = """log4j.rootLogger=WARN, c
log4j.appender.c=org.apache.log4j.ConsoleAppender
log4j.appender.c.layout=org.apache.log4j.PatternLayout
log4j.appender.c.layout.ConversionPattern=%d{HH:mm:ss} %p %c{1}: %m%n
"""


def settings(folder: str) -> dict[str, str]:
    return {
        "hdfs.minidfs.basedir": f"{folder}/dfs",
        "dfs.webhdfs.enabled": "true",
        "dfs.permissions.enabled": "true",
        "dfs.namenode.rpc-bind-host": "127.0.0.1",
        "dfs.namenode.fs-limits.min-block-size": "1024",
        "dfs.datanode.hostname": "127.0.0.1",
        "dfs.ha.standby.checkpoints": "false",
        "dfs.ha.tail-edits.period": "1",
        "dfs.namenode.safemode.extension": "0",
        # else a client waits 400 ms where the name node has not yet heard of a block
        "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "10",
    }


class Cluster:
    def __init__(self, ports: list[int], folder: str, classpath: str) -> None:
        java_home = os.environ.get("JAVA_HOME")
        log = open(f"{folder}/jvm.log", "w", buffering=1)  # noqa: SIM115  the JVM's, until it ends
        port, token = launch_gateway(
            classpath=f"{folder}:{classpath}",
            die_on_exit=True,
            enable_auth=True,
            java_path=f"{java_home}/bin/java" if java_home else "java",
            cwd=folder,
            redirect_stdout=log,
            redirect_stderr=log,
            javaopts=[*OPTIONS, f"-Djava.io.tmpdir={folder}", f"-Dtest.build.data={folder}/data"],
        )
        gateway: Any = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        self.hdfs = gateway.jvm.org.apache.hadoop.hdfs
        conf = self.hdfs.HdfsConfiguration()
        for name, value in settings(folder).items():
            conf.set(name, value)
        service = self.hdfs.MiniDFSNNTopology.NSConf("lake")
        for number in (0, 1):
            node = self.hdfs.MiniDFSNNTopology.NNConf(f"nn{number}")
            rpc, http = ports[2 * number : 2 * number + 2]
            service.addNN(node.setIpcPort(rpc).setHttpPort(http))
        builder = self.hdfs.MiniDFSCluster.Builder(conf).numDataNodes(1)
        self.cluster = builder.nnTopology(self.hdfs.MiniDFSNNTopology().addNameservice(service)).build()
        self.cluster.transitionToActive(0)
        self.cluster.waitActive(0)

    def safe_mode(self, on: str) -> None:
        """`on` or `off`."""
        action = self.hdfs.protocol.HdfsConstants.SafeModeAction
        chosen = action.SAFEMODE_ENTER if on == "on" else action.SAFEMODE_LEAVE
        self.cluster.getFileSystem(0).setSafeMode(chosen)

    def activate(self, number: str) -> None:
        """Of the name nodes this one."""
        self.cluster.transitionToStandby(1 - int(number))
        self.cluster.transitionToActive(int(number))


def main(ports: list[int], folder: str, classpath: str) -> None:
    Path(folder, "log4j.properties").write_text(LOGGING)
    cluster = Cluster(ports, folder, classpath)
    for number, line in enumerate(sys.stdin):
        name, *arguments = line.split()
        if name != "ready":
            getattr(cluster, name)(*arguments)
        Path(folder, f"done-{number}").touch()
    os._exit(0)


if __name__ == "__main__":
    main([int(port) for port in sys.argv[1:5]], sys.argv[5], sys.argv[6])
