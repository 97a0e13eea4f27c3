"""Runs in an interpreter of its own: one Spark session, with which programs of this folder work.

Argument: mode (classic or connect). Each line of stdin is a JSON list of a program's name, the arguments of
its `answer(spark, ...)`, and how many bytes of files the driver may read for the steps of a write; a line
ANSWER or FAILED with JSON answers it.
"""

from __future__ import annotations

import importlib
import json
import socket
import sys
import traceback

from pyspark.sql import SparkSession

from hoodie.write.settings import DRIVER_BYTES


def session(mode: str) -> SparkSession:
    builder = SparkSession.builder.config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.driver.memory", "1g")
    if mode == "connect":
        from pyspark.sql.connect.client import DefaultChannelBuilder

        port = _free_port()
        DefaultChannelBuilder.default_port = staticmethod(lambda: port)  # type: ignore[method-assign]
        builder = builder.config("spark.connect.grpc.binding.port", str(port))
        return builder.remote("local[2]").getOrCreate()
    return builder.master("local[2]").getOrCreate()


def _free_port() -> int:
    """The server's default port may be taken by a server whose test process was killed."""
    with socket.create_server(("localhost", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def main() -> None:
    spark = session(sys.argv[1])
    for line in sys.stdin:
        program, arguments, most = json.loads(line)
        object.__setattr__(DRIVER_BYTES, "default", most)
        try:
            found = importlib.import_module(f"tests.spark.{program}").answer(spark, *arguments)
            answer = "ANSWER " + json.dumps({"version": spark.version, **found})
        except Exception:  # noqa: BLE001  the test that asked shows it
            answer = "FAILED " + json.dumps(traceback.format_exc())
        print("\n" + answer, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
