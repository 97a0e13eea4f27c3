"""AWS Glue as moto has it, in this process on loopback; it notes requests, and answers some otherwise."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

SECRETS = ("AKIAPLANTED7EXAMPLE0", "planted/secret+of=glue")
REGION = "eu-west-1"

#: the body of a request -> status and answer, None for moto's own
Answer = Callable[[dict[str, Any]], "tuple[int, Any] | None"]


@dataclass
class Glue:
    port: int = 0
    #: operations and bodies, in their order
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        return options_at(self.endpoint)

    def operations(self) -> list[str]:
        """Of the requests since the last call."""
        found = [name for name, _ in self.requests]
        self.requests.clear()
        return found

    @contextlib.contextmanager
    def answering(self, operation: str, answer: Answer) -> Iterator[None]:
        self.answers[operation] = answer
        try:
            yield
        finally:
            del self.answers[operation]

    def failing(self, operation: str, status: int, code: str, text: str = "no") -> Any:
        return self.answering(operation, lambda body: (status, {"__type": code, "message": text}))

    def client(self) -> Any:
        import boto3

        return boto3.session.Session().client(
            "glue",
            region_name=REGION,
            endpoint_url=self.endpoint,
            aws_access_key_id=SECRETS[0],
            aws_secret_access_key=SECRETS[1],
        )


def options_at(endpoint: str) -> dict[str, str]:
    return {
        "hoodie.meta.sync.client.tool.class": "glue",
        "hoodie.aws.glue.region": REGION,
        "hoodie.aws.glue.endpoint": endpoint,
        "hoodie.aws.access.key": SECRETS[0],
        "hoodie.aws.secret.key": SECRETS[1],
    }


@contextlib.contextmanager
def served() -> Iterator[Glue]:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Silent(WSGIRequestHandler):
        def log(self, type: str, message: str, *args: Any) -> None:
            pass

    glue = Glue()
    moto: Any = cast("Any", DomainDispatcherApplication)(create_backend_app)

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        operation = environ.get("HTTP_X_AMZ_TARGET", "").partition(".")[2]
        text = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(text)
        body = json.loads(text or b"{}")
        glue.requests.append((operation, body))
        other = glue.answers.get(operation)
        answer = None if other is None else other(body)
        if answer is None:
            found: Iterable[bytes] = moto(environ, start_response)
            return found
        start_response(f"{answer[0]} .", [("Content-Type", "application/x-amz-json-1.1")])
        return [json.dumps(answer[1]).encode()]

    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Silent)
    glue.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield glue
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
