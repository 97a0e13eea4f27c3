"""What the job script runs: one write or service, described by `--request`, reported on stdout.

`--request @file` reads the request, a JSON object, from a file, `--request -` from standard input. As JSON on
the command line it works, too, but other users of the machine see it there.

Request of a write: {"table": path, "operation": name, "source": {"path", "format", "options"},
"transform": one SELECT over `source`, or package.module:function (optional),
"described": what the token's fingerprint is made of in place of the source (optional),
"options": {settings}, "extra_metadata": {texts}, "token": text, "force": bool, "dry_run": bool,
"engine": "spark" (default) or "local"}; only table and source are required. A write whose token has a commit
of the same source is done already (hoodie.timeline.tokens), whatever its engine was.
Request of `delete_partition`: {"table": path, "operation": "delete_partition", "partitions": [paths],
"missing_ok": bool, "options", "extra_metadata", "token", "force", "dry_run"}; table and partitions are
required.
Request of `ingest`: {"table": path, "operation": "ingest", "source": as of a write, "write_operation":
"upsert" (default), "insert" or "bulk_insert", "max_files", "max_bytes", "lookback_s", "start_after",
"transform", "error_table", "max_bad_rows", "max_bad_files": as of hoodie.ingest, "options",
"extra_metadata", "dry_run", "engine"}; table and source are required.
Request of `sql`: {"table": path, "operation": "sql", "sql": statement, "name": what the statement calls the
table, "tables": {other names: paths, or as of hoodie.sql}, "options", "extra_metadata", "token", "force",
"dry_run", "engine"}; table, sql and name are required.
Request of a table service: {"table": path, "operation": name, "options": {settings}, "dry_run": bool} and
what the service's description has (hoodie.services.registry), such as "mode", "instant", for compactions
and clusterings "extra_metadata": {texts} and "engine", as of a write.
Request of `services`: {"table": path, "operation": "services", "services": [names], "engine": "spark" or
"local" (default), "options": {settings}, "extra_metadata": {texts}, "dry_run": bool}; only table is required.
Spark starts when a service has work for it. The exit code is 0, and the result names the services that
failed.
Jobs whose engine is local, and those that distribute no work, need no Spark: they run as well as
`python -m hoodie.jobs.run clean --request JSON`.

Any request may have a "nonce": a text that each HOODIE_* line carries, as in `HOODIE_RESULT:nonce {json}`.
The hooks make one up for each job, and take no other line for the job's. And it may have a "result_tag", by
which the result or the error is kept in the table (hoodie.timeline.job_reports), for a task that does not see
the lines. A job that finds a result of its tag has nothing to do: a cluster started it twice. With
"detached", the seconds that it may clean up when it is to end, it gives life signs there besides
(hoodie.timeline.running_jobs).

Lines on stdout, each `MARKER {json}`, without the request's secrets (hoodie.mask):
    HOODIE_PROGRESS {"step", "text"}     any number; that of Spark's application has its "application_id" and,
                                         if it has one, the address of its "spark_ui"
    HOODIE_RESULT   WriteResult or the service's result    once, after the commit; exit code 0. Its "summary"
                                         is the text that the command line prints
    HOODIE_ERROR    {"code", "message", "values"}    once instead; exit code 1
SIGTERM ends the job with exit code 143 after the write was withdrawn; a job that is killed otherwise leaves
a pending instant, which the next write rolls back.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import partial
from typing import Any

import hoodie
from hoodie.backend import BACKENDS, Backend
from hoodie.cli import write
from hoodie.cli.maintenance import run_text
from hoodie.errors import ConfigError, HoodieError, JobError
from hoodie.jobs._output import Output, earlier_result, pulse_of, report_of, request_text
from hoodie.progress import ProgressCallback
from hoodie.services.registry import Service, public
from hoodie.signals import terminated_by_signal
from hoodie.source import Source
from hoodie.source.fingerprint import partition_source, statement_source, token_metadata, transform_source
from hoodie.source.target import target_schema
from hoodie.statements.words import is_call, is_statement
from hoodie.text import visible_in
from hoodie.timeline.running_jobs import KILLED, SUCCEEDED
from hoodie.write.operation import Operation

#: what Python says where there is no memory for a stack
_NO_THREAD = "can't start new thread"
_NONCE = re.compile(r"[A-Za-z0-9]{0,64}")


def main(operation: str, arguments: Sequence[str] | None = None) -> int:
    """Run a job, "" for the one that the request names; the exit code. Raises nothing but SystemExit, on
    SIGTERM.
    """
    parser = argparse.ArgumentParser(description=f"{operation or 'job of'} a table; see hoodie.jobs._main")
    parser.add_argument("--request", required=True, help="JSON, @file, or - for standard input")
    given: str = parser.parse_args(arguments).request
    out, read = Output(), dict[str, Any]()
    with terminated_by_signal():
        try:
            read = read_request(request_text(given))
            out.mask.learn(read)
            out.nonce = _nonce(read)
            out.kept = report_of(read)
            if (pulse := pulse_of(read, out.kept, out.mask)) is not None:
                pulse.start()
                out.pulse = pulse
            request = parse_request(read, operation or str(read.get("operation") or ""))
            if out.kept is not None and (done := earlier_result(out.kept)) is not None:
                out.emit("RESULT", done)
                out.end(SUCCEEDED)
                return 0
            with _chosen(request).started() as backend:
                tell_application(backend, out)
                result = run(backend, request, out.progress)
        except HoodieError as error:
            out.error(error.to_dict())
            return 1
        except SystemExit:
            out.end(KILLED)
            raise
        except Exception as error:  # noqa: BLE001  whatever it is, the caller reads it from the last line
            if isinstance(error, MemoryError) or _NO_THREAD in str(error):
                out.error(_out_of_memory(error, read).to_dict())
                return 1
            out.traceback(traceback.format_exc())
            out.error(JobError(f"the job failed: {type(error).__name__}: {error}").to_dict())
            return 1
    out.result({**_without_files(result), "summary": _summary(request["operation"], result)})
    return 0


def _summary(operation: str, result: Mapping[str, Any]) -> str:
    """The text of a result. The job's work is done by now, so that a defect of the text fails no job."""
    try:
        return text_of(operation, result)
    except Exception as error:  # noqa: BLE001
        return f"{operation} is done; its text failed: {type(error).__name__}: {error}"


def read_request(text: str) -> dict[str, Any]:
    """Raises ConfigError for what is no JSON object."""
    try:
        request = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--request is no JSON: {error}") from None
    if not isinstance(request, dict):
        raise ConfigError("--request is no JSON object; give table, source, options")
    return request


def _nonce(request: dict[str, Any]) -> str:
    """Take the nonce out of the request."""
    nonce = request.pop("nonce", "")
    if not isinstance(nonce, str) or not _NONCE.fullmatch(nonce):
        raise ConfigError("the request's nonce is none; give up to 64 letters and digits, or leave it out")
    return nonce


def parse_request(request: Mapping[str, Any], operation: str) -> dict[str, Any]:
    """The request with defaults. Raises ConfigError where it lacks a field or has an unknown one."""
    kind = _kind(operation)
    if unknown := sorted(set(request) - set(kind.fields)):
        raise ConfigError(
            f"the request has unknown fields {', '.join(unknown)}; there are {', '.join(kind.fields)}"
        )
    for name in kind.required:
        if not request.get(name):
            raise ConfigError(f"the request has no {name}; it needs {' and '.join(kind.required)}")
    for name in ("options", "extra_metadata"):
        if not isinstance(request.get(name) or {}, dict):
            raise ConfigError(f"the request's {name} are {request[name]!r}; give names and values")
    if request.get("operation", operation) != operation:
        raise ConfigError(f"the request asks for {request['operation']!r}, this job does {operation!r}")
    return {**kind.defaults, **request, "operation": operation}


@dataclass(frozen=True)
class Kind:
    """Jobs with one form of request; `run` does it on a backend and returns a dict.

    The backend is the request's `engine` if the job is `distributed`, else the local one.
    """

    fields: tuple[str, ...]
    required: tuple[str, ...]
    defaults: Mapping[str, Any]
    run: Callable[[Backend, Mapping[str, Any], ProgressCallback], dict[str, Any]]
    distributed: bool = True


def run(backend: Backend, request: Mapping[str, Any], progress: ProgressCallback) -> dict[str, Any]:
    """Do what a parsed request describes; the result as a dict. Raises HoodieError."""
    return _kind(request["operation"]).run(backend, request, progress)


def _write(backend: Backend, request: Mapping[str, Any], progress: ProgressCallback) -> dict[str, Any]:
    options = request["options"] or {}
    source = Source.of(request["source"], options, request["transform"])
    progress("source", f"{source.format.value} {source}")
    described = request["described"] or request["source"]
    if not isinstance(described, Mapping):
        described = {"path": described}
    if source.transform:
        described = {**described, **transform_source(str(source.transform))}
    token = token_metadata(request["token"], request["operation"], described, options)
    rows = backend.read_source(source, target_schema(request["table"], options))
    return hoodie.write_table(
        rows,
        request["table"],
        spark=backend,
        operation=request["operation"],
        options=options,
        extra_metadata={**(request["extra_metadata"] or {}), **token},
        force=bool(request["force"]),
        dry_run=bool(request["dry_run"]),
        progress=progress,
    ).to_dict()


def _ingest(backend: Backend, request: Mapping[str, Any], progress: ProgressCallback) -> dict[str, Any]:
    return hoodie.ingest(
        request["source"],
        request["table"],
        spark=backend,
        operation=request["write_operation"],
        **{name: request[name] for name in _OF_INGESTION if request[name] is not None},
        options=request["options"] or {},
        extra_metadata=request["extra_metadata"] or {},
        dry_run=bool(request["dry_run"]),
        progress=progress,
    ).to_dict()


def _delete_partition(
    backend: Backend, request: Mapping[str, Any], progress: ProgressCallback
) -> dict[str, Any]:
    described = partition_source(request["partitions"])
    return hoodie.delete_partitions(
        request["table"],
        request["partitions"],
        missing_ok=bool(request["missing_ok"]),
        options=request["options"] or {},
        extra_metadata={
            **(request["extra_metadata"] or {}),
            **token_metadata(request["token"], request["operation"], described),
        },
        force=bool(request["force"]),
        dry_run=bool(request["dry_run"]),
        progress=progress,
    ).to_dict()


def _sql(backend: Backend, request: Mapping[str, Any], progress: ProgressCallback) -> dict[str, Any]:
    text, others, options = request["sql"], request["tables"] or {}, request["options"] or {}
    if not isinstance(text, str) or not is_statement(text) or is_call(text):
        raise ConfigError(
            "the sql job runs one DELETE, UPDATE, MERGE INTO or INSERT; services have jobs of their own, and "
            "a SELECT changes nothing"
        )
    described = statement_source(text, others)
    result: dict[str, Any] = hoodie.sql(
        text,
        tables={**others, request["name"]: request["table"]},
        spark=backend,
        options=options,
        extra_metadata={
            **(request["extra_metadata"] or {}),
            **token_metadata(request["token"], request["operation"], described, options),
        },
        force=bool(request["force"]),
        dry_run=bool(request["dry_run"]),
        progress=progress,
    ).to_dict()
    return result


def _services(backend: Backend, request: Mapping[str, Any], progress: ProgressCallback) -> dict[str, Any]:
    kind = _backend(str(request["engine"]))
    with contextlib.ExitStack() as stack:

        def started() -> Backend:
            return stack.enter_context(kind.started())

        return hoodie.run_services(
            request["table"],
            only=request["services"],
            options=request["options"] or {},
            extra_metadata=request["extra_metadata"] or {},
            dry_run=bool(request["dry_run"]),
            spark=started,
            progress=progress,
        ).to_dict()


_WRITES = Kind(
    (
        *("table", "operation", "source", "transform", "described", "options", "extra_metadata"),
        *("token", "force", "dry_run", "engine"),
    ),
    ("table", "source"),
    {
        "transform": None,
        "described": None,
        "options": {},
        "extra_metadata": {},
        "token": "",
        "force": False,
        "dry_run": False,
        "engine": "spark",
    },
    _write,
)
_OF_INGESTION = (
    "max_files",
    "max_bytes",
    "lookback_s",
    "start_after",
    "transform",
    "error_table",
    "max_bad_rows",
    "max_bad_files",
)
_OTHERS = {
    "ingest": Kind(
        (
            *("table", "operation", "source", "write_operation", *_OF_INGESTION),
            *("options", "extra_metadata", "dry_run", "engine"),
        ),
        ("table", "source"),
        {
            "write_operation": "upsert",
            **dict.fromkeys(_OF_INGESTION),
            "options": {},
            "extra_metadata": {},
            "dry_run": False,
            "engine": "spark",
        },
        _ingest,
    ),
    "delete_partition": Kind(
        (
            *("table", "operation", "partitions", "missing_ok", "options", "extra_metadata"),
            *("token", "force", "dry_run"),
        ),
        ("table", "partitions"),
        {
            "missing_ok": False,
            "options": {},
            "extra_metadata": {},
            "token": "",
            "force": False,
            "dry_run": False,
        },
        _delete_partition,
        distributed=False,
    ),
    "sql": Kind(
        (
            *("table", "operation", "sql", "name", "tables", "options", "extra_metadata"),
            *("token", "force", "dry_run", "engine"),
        ),
        ("table", "sql", "name"),
        {
            "tables": {},
            "options": {},
            "extra_metadata": {},
            "token": "",
            "force": False,
            "dry_run": False,
            "engine": "spark",
        },
        _sql,
    ),
    "services": Kind(
        ("table", "operation", "services", "engine", "options", "extra_metadata", "dry_run"),
        ("table",),
        {"services": None, "engine": "local", "options": {}, "extra_metadata": {}, "dry_run": False},
        _services,
        distributed=False,
    ),
}


def operations() -> list[str]:
    """The names of all jobs."""
    return sorted({*(item.value for item in Operation), *_OTHERS, *public()})


def _kind(operation: str) -> Kind:
    """Raises ConfigError for what is no job."""
    if operation not in operations():
        raise ConfigError(f"there is no job {operation!r}; use one of {', '.join(operations())}")
    service = public().get(operation)
    return _of_service(service) if service else _OTHERS.get(operation, _WRITES)


def _of_service(service: Service) -> Kind:
    own = service.request.own()
    extra: dict[str, Any] = {"extra_metadata": {}, "engine": "spark"} if service.needs_engine else {}
    return Kind(
        ("table", "operation", *own, "options", "dry_run", *extra),
        ("table", *(name for name, item in own.items() if item.default is MISSING)),
        {
            **{name: item.default for name, item in own.items() if item.default is not MISSING},
            "options": {},
            "dry_run": False,
            **extra,
        },
        partial(_run_service, service),
        service.needs_engine,
    )


def _run_service(
    service: Service, backend: Backend, request: Mapping[str, Any], progress: ProgressCallback
) -> dict[str, Any]:
    given: dict[str, Any] = {name: request[name] for name in service.request.own()}
    if service.needs_engine:
        given["extra_metadata"] = request["extra_metadata"] or {}
        given["engine"] = backend.engine
    asked = service.request(
        table=request["table"],
        options=request["options"] or {},
        dry_run=bool(request["dry_run"]),
        progress=progress,
        **given,
    )
    return service.run(asked).to_dict()


def text_of(operation: str, result: Mapping[str, Any]) -> str:
    """The result for people, as the command line says it, its texts visible; of a dry run the first line."""
    known: dict[str, Callable[[dict[str, Any]], str]] = {"ingest": write.ingested, "services": run_text}
    service = public().get(operation)
    text = (service.text if service else known.get(operation, write.summary))(
        visible_in({**result, "warnings": []})
    )
    return text.partition("\n")[0] if result.get("dry_run") or result["status"] == "planned" else text


def _without_files(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result as a job prints it: there may be thousands of names of files, and the timeline has them."""
    left = {name: value for name, value in result.items() if name not in ("files", "voided")}
    if isinstance(left.get("services"), Mapping):
        left["services"] = {name: _without_files(own) for name, own in left["services"].items()}
    return left


def _chosen(request: Mapping[str, Any]) -> type[Backend]:
    return _backend(str(request["engine"]) if _kind(request["operation"]).distributed else "local")


def _backend(name: str) -> type[Backend]:
    return BACKENDS.find("engine", name)


def _out_of_memory(error: Exception, request: Mapping[str, Any]) -> JobError:
    """No traceback: what failed to get memory says little of what holds it."""
    more = "; give the job more of it, or run it on Spark" if request.get("engine") == "local" else ""
    return JobError(
        f"the job ran out of memory ({str(error) or type(error).__name__}){more}", out_of_memory=True
    )


def tell_application(backend: Backend, out: Output) -> None:
    """Progress that names the application of the backend's session and its UI, if there are any."""
    about = backend.application()
    if about:
        text = f"application {about['application_id']}"
        text += f", UI {about['spark_ui']}" if "spark_ui" in about else ""
        out.emit("PROGRESS", {"step": "spark", "text": text, **about})
