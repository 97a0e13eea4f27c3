from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from typing import Any, TextIO, cast

from .contestant import OPERATIONS, Worker

Message = dict[str, Any]


def _answer(worker: Worker, request: Message) -> Message:
    match request["command"]:
        case operation if operation in OPERATIONS:
            start = time.perf_counter()
            result = getattr(worker, operation)(request["source"], request["table"], request["options"])
            return {"seconds": time.perf_counter() - start, "result": result}
        case "rows":
            return {"files": worker.rows(request["table"], request["out"])}
        case other:
            raise ValueError(f"unknown command {other!r}")


def _setup(request: Message) -> tuple[Worker, Message]:
    module = importlib.import_module(f"{__package__}.{request['kind']}")
    worker = cast(Worker, module.create(request["session"], request["options"], request["engine"]))
    return worker, {"versions": worker.versions()}


def serve(requests: TextIO, answers: TextIO) -> None:
    worker: Worker | None = None
    for line in requests:
        request = json.loads(line)
        if request["command"] == "exit":
            break
        try:
            if worker is None:
                worker, body = _setup(request)
            else:
                body = _answer(worker, request)
            answer = {"ok": True, **body}
        except Exception as error:  # noqa: BLE001 (reported to the parent, whatever it is)
            traceback.print_exc()
            answer = {"ok": False, "error": f"{type(error).__name__}: {str(error).strip()[:600]}"}
        print(json.dumps(answer), file=answers, flush=True)
    if worker is not None:
        worker.stop()


if __name__ == "__main__":
    # Spark and its JVM print to file descriptor 1: keep a private copy for the answers.
    private = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, private)
