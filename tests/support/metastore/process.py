"""A Hive metastore on loopback, from the jars of pyspark, with an embedded Derby: port, folder, jars.

Its own `main` listens on all addresses. Ends when standard input does.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

#: what Java 17 asks for, as Spark passes it
_OPEN = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
    "sun.security.action", "sun.util.calendar",
)  # fmt: skip


def main(port: int, folder: str, jars: str, java: str, silence: str) -> None:
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "NONE",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"file:{folder}/warehouse",
        # without it nobody takes a lock from a holder that is silent
        "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
        "hive.support.concurrency": "true",
        "hive.timedout.txn.reaper.start": "1s",
        "hive.timedout.txn.reaper.interval": "1s",
        "hive.txn.timeout": silence,
        "derby.system.home": folder,
        "derby.stream.error.file": f"{folder}/derby.log",
        "derby.system.durability": "test",
        "java.io.tmpdir": folder,
    }
    options = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPEN]
    options += [f"-D{name}={value}" for name, value in settings.items()]
    options += ["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    with open(f"{folder}/jvm.log", "w") as log:
        gateway, token = launch_gateway(
            classpath=f"{jars}/*", javaopts=options, die_on_exit=True, java_path=java, cwd=folder,
            redirect_stdout=log, redirect_stderr=log, enable_auth=True,
        )  # fmt: skip
    jvm: Any = JavaGateway(gateway_parameters=GatewayParameters(port=gateway, auth_token=token)).jvm
    threading.Thread(target=serve, args=(jvm, port), daemon=True).start()
    sys.stdin.read()


def serve(jvm: Any, port: int) -> None:
    conf = jvm.org.apache.hadoop.hive.conf.HiveConf()
    metastore, thrift = jvm.org.apache.hadoop.hive.metastore, jvm.org.apache.thrift
    metastore.txn.TxnDbUtil.prepDb(conf)  # the tables of locks
    base = metastore.HiveMetaStore.HMSHandler("metastore", conf, False)
    handler = metastore.HiveMetaStore.newRetryingHMSHandler(base, conf)
    jvm.org.apache.hadoop.hive.ql.txn.AcidHouseKeeperService().start(conf)
    socket = thrift.transport.TServerSocket(jvm.java.net.InetSocketAddress("127.0.0.1", port))
    arguments = thrift.server.TThreadPoolServer.Args(socket)
    arguments.processor(metastore.TSetIpAddressProcessor(handler))
    arguments.transportFactory(thrift.transport.TTransportFactory())
    arguments.protocolFactory(thrift.protocol.TBinaryProtocol.Factory())
    arguments.minWorkerThreads(2).maxWorkerThreads(64)
    thrift.server.TThreadPoolServer(arguments).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:6])
