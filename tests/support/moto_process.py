"""Moto's server, which answers one request of DynamoDB, and one conditional write of S3, at a time: it looks
at a condition and puts the item in two steps, so that of two requests at once both may find the item as they
want it. DynamoDB and S3 do not.

    python -m tests.support.moto_process PORT
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from typing import Any

from moto.moto_server import werkzeug_app
from moto.server import main

_DYNAMODB = "DynamoDB"
_CONDITIONS = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH")


class OneAtATime(werkzeug_app.DomainDispatcherApplication):
    _turn = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        writes = environ["REQUEST_METHOD"] == "PUT" and any(name in environ for name in _CONDITIONS)
        if not writes and not environ.get("HTTP_X_AMZ_TARGET", "").startswith(_DYNAMODB):
            return super().__call__(environ, start_response)  # type: ignore[no-any-return]
        with self._turn:
            return list(super().__call__(environ, start_response))


if __name__ == "__main__":
    import moto.server

    vars(moto.server)["DomainDispatcherApplication"] = OneAtATime
    main(["-H", "127.0.0.1", "-p", sys.argv[1]])
