"""HBase in one JVM on loopback: ZooKeeper, master, region server and Thrift server.

Run by `tests.support.hbase.server`: `process.py THRIFT_PORT ZOOKEEPER_PORT FOLDER CLASSPATH`. It ends when
its input does.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

_LANG = ("lang", "lang.invoke", "lang.reflect")
_OPENED = (*_LANG, "io", "net", "nio", "util", "util.concurrent", "util.concurrent.atomic")
OPTIONS = [
    *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED),
    *(
        f"--add-opens=java.base/{name}=ALL-UNNAMED"
        for name in ("jdk.internal.ref", "sun.nio.ch", "sun.nio.cs")
    ),
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.net.preferIPv4Stack=true",
]
LOGGING = """log4j.rootLogger=WARN, c
log4j.appender.c=org.apache.log4j.ConsoleAppender
log4j.appender.c.layout=org.apache.log4j.PatternLayout
log4j.appender.c.layout.ConversionPattern=%d{HH:mm:ss} %p %c{1}: %m%n
"""


def settings(folder: str, zookeeper: int) -> dict[str, str]:
    return {
        "hbase.rootdir": f"file:{folder}/hbase",
        "hbase.tmp.dir": f"{folder}/tmp",
        "hbase.cluster.distributed": "false",
        "hbase.unsafe.stream.capability.enforce": "false",
        "hbase.wal.provider": "filesystem",
        "hbase.zookeeper.quorum": "127.0.0.1",
        "hbase.zookeeper.property.clientPort": str(zookeeper),
        "hbase.master.ipc.address": "127.0.0.1",
        "hbase.regionserver.ipc.address": "127.0.0.1",
        "hbase.master.hostname": "localhost",
        "hbase.unsafe.regionserver.hostname": "localhost",
        "hbase.regionserver.hostname": "localhost",
        "hbase.master.port": "0",
        "hbase.regionserver.port": "0",
        "hbase.master.info.port": "-1",
        "hbase.regionserver.info.port": "-1",
        "hbase.thrift.info.port": "-1",
        "hbase.regionserver.handler.count": "4",
        "hbase.regionserver.metahandler.count": "2",
        "hbase.master.wait.on.regionservers.mintostart": "1",
        "hbase.master.wait.on.regionservers.interval": "200",
        "hbase.procedure.store.region.max.write": "1",
        "hbase.procedure.remote.dispatcher.delay.msec": "10",
        "hbase.hconnection.threads.max": "8",
        "hbase.server.thread.wakefrequency": "200",
        "hbase.balancer.period": "300000",
        "hbase.status.published": "false",
        "hbase.client.retries.number": "3",
    }


def main(thrift: int, zookeeper: int, folder: str, classpath: str) -> None:
    Path(folder, "log4j.properties").write_text(LOGGING)
    java_home = os.environ.get("JAVA_HOME")
    with open(f"{folder}/jvm.log", "w", buffering=1) as log:
        port, token = launch_gateway(
            classpath=f"{folder}:{classpath}",
            die_on_exit=True,
            enable_auth=True,
            java_path=f"{java_home}/bin/java" if java_home else "java",
            cwd=folder,
            redirect_stdout=log,
            redirect_stderr=log,
            javaopts=[*OPTIONS, f"-Djava.io.tmpdir={folder}"],
        )
        gateway: Any = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        jvm = gateway.jvm
        hbase = jvm.org.apache.hadoop.hbase
        conf = hbase.HBaseConfiguration.create()
        for name, value in settings(folder, zookeeper).items():
            conf.set(name, value)
        quorum = hbase.zookeeper.MiniZooKeeperCluster(conf)
        quorum.setDefaultClientPort(zookeeper)
        quorum.startup(jvm.java.io.File(f"{folder}/zookeeper"))
        cluster = hbase.LocalHBaseCluster(conf, 1, 1)
        cluster.startup()
        while not (cluster.getActiveMaster() and cluster.getActiveMaster().isInitialized()):
            time.sleep(0.1)
        server = hbase.thrift.ThriftServer(conf)
        arguments = ["-b", "127.0.0.1", "-p", str(thrift), "-threadpool", "start"]
        array = gateway.new_array(jvm.java.lang.String, len(arguments))
        for number, argument in enumerate(arguments):
            array[number] = argument
        server.run(array)


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
