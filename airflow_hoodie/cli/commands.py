"""What the commands of `airflow hoodie` do: those about a table run `hoodie`'s own, in another process."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_hoodie.arguments import is_absolute
from airflow_hoodie.compat.task_sdk import look_up_as_server
from airflow_hoodie.exceptions import HoodieException
from airflow_hoodie.hooks.hoodie import (
    DEFAULT_CONN,
    DEFAULT_SPARK_CONN,
    HoodieHook,
    Warehouse,
    connection_help,
)
from airflow_hoodie.hooks.spark import HoodieSparkSubmitHook
from hoodie.bundle import package_folder
from hoodie.text import lines, visible

#: plugins of this provider, and what is lost without them
_PLUGINS = {
    "hoodie_commits": "after a crash of the triggerer the events of its last seconds may come again",
    "hoodie_timeline": "the page of timelines is missing, to which tasks link",
}


Finding = dict[str, str]


def doctor(args: Any) -> None:
    """Airflow's side is looked at here, and Spark, Java and the table by `hoodie doctor`, in the environment
    in which the hook would start a job; it prints all. Exits with 1 where something is wrong.
    """
    look_up_as_server()
    found, conn = _connection(args.conn_id)
    findings = [*_plugins(), *found]
    spark, submit, environment = _spark(args.spark_conn_id or (conn.spark_conn_id if conn else None))
    findings += spark
    command = ["doctor", *(["--spark-submit", submit] if submit else [])]
    try:
        command += ["--table", _located(args.table, conn, args.conn_id)] if args.table else []
    except HoodieException as error:
        findings.append(_finding("table", "error", str(error)))
    flags = [*_options(args), *(["--deep"] if args.deep else []), *(["--json"] if args.json else [])]
    sys.exit(_hoodie([*command, "--known", json.dumps(findings), *flags], environment))


def timeline(args: Any) -> None:
    _pass_on("timeline", args, *(["--archived"] if args.archived else []))


def files(args: Any) -> None:
    _pass_on("files", args, *_options(args))


def services(args: Any) -> None:
    _pass_on(
        "services", args, *(["--only", args.only] if args.only else []), *_options(args), action=("plan",)
    )


def _options(args: Any) -> list[str]:
    return [text for option in args.option for text in ("--option", option)]


def _pass_on(command: str, args: Any, *more: str, action: Sequence[str] = ()) -> None:
    look_up_as_server()
    try:
        path = _located(args.table, None, args.conn_id)
    except HoodieException as error:
        if args.json:
            print(json.dumps({"error": {"code": error.code or "configuration", "message": str(error)}}))
        else:
            print(f"hoodie: {visible(error)}", file=sys.stderr)
        sys.exit(1)
    flags = ["--json"] if args.json else []
    sys.exit(_hoodie([command, *action, "--table", path, *more, *flags], {}))


def _located(path: str, conn: Warehouse | None, conn_id: str | None) -> str:
    if conn is not None:
        return conn.locate(path)
    return path if is_absolute(path) else HoodieHook(conn_id or DEFAULT_CONN).get_conn().locate(path)


def _hoodie(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run `hoodie` with this Python and the package that this provider uses; its exit code."""
    folder = str(package_folder().parent)
    path = os.pathsep.join(item for item in (folder, os.environ.get("PYTHONPATH")) if item)
    # with -m the working directory, which any user may write to, would come first on the path
    boot = "import sys, runpy; sys.path[:] = filter(None, sys.path); "
    boot += "runpy.run_module('hoodie.cli', run_name='__main__', alter_sys=True)"
    run = subprocess.run(
        [sys.executable, "-c", boot, *arguments],
        env={**os.environ, **environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    print(run.stdout, end="", flush=True)
    print(lines(run.stderr), end="", file=sys.stderr, flush=True)
    return run.returncode


# Airflow's side ------------------------------------------------------------------------------------


def _plugins() -> list[Finding]:
    """Is the provider listed, and are its plugins at work?"""
    from airflow import plugins_manager
    from airflow.providers_manager import ProvidersManager

    findings = []
    if "airflow-hoodie" in ProvidersManager().providers:  # type: ignore[no-untyped-call]
        version = importlib.metadata.version("airflow-hoodie")
        findings.append(_finding("provider", "ok", f"airflow-hoodie {version}"))
    else:
        text = "Airflow does not list airflow-hoodie: no connection type, links and commands"
        findings.append(
            _finding(
                "provider",
                "error",
                text,
                "install the wheel of airflow-hoodie with Airflow's own Python, which adds its entry points",
            )
        )
    loaded = {info["name"] for info in plugins_manager.get_plugin_info(["name"])}
    for name, lost in _PLUGINS.items():
        if name in loaded:
            findings.append(_finding("plugin", "ok", name))
        else:
            remedy = "see `airflow plugins`; it comes with airflow-hoodie as an entry point"
            findings.append(_finding("plugin", "warning", f"{name} is not loaded: {lost}", remedy))
    return findings


def _connection(conn_id: str | None) -> tuple[list[Finding], Warehouse | None]:
    """The hoodie connection; that the default one is missing is no fault."""
    name = conn_id or DEFAULT_CONN
    hook = HoodieHook(name)
    try:
        conn = hook.get_conn()
    except HoodieException as error:
        if conn_id is None and "is not defined" in str(error):
            text = f"{name} is not defined, which is fine where tables have absolute paths"
            return [_finding("connection", "note", text, connection_help(name))], None
        return [_finding("connection", "error", str(error))], None
    good, text = hook.test_connection()
    return [_finding("connection", "ok" if good else "error", text)], conn


def _spark(conn_id: str | None) -> tuple[list[Finding], str | None, dict[str, str]]:
    """Findings, the spark-submit that the hook would start, and the environment it would start it in."""
    name = conn_id or DEFAULT_SPARK_CONN
    try:
        hook = HoodieSparkSubmitHook(conn_id=name)
        finding = _finding("spark connection", "ok", f"{name}: master {hook.master}")
    except HoodieException as error:
        # the default one: tasks with `master=`, and services on the worker, do without
        status = "error" if conn_id or "is not defined" not in str(error) else "warning"
        return [_finding("spark connection", status, str(error))], None, {}
    try:
        binary, environment = hook.launcher()
    except HoodieException as error:
        return [finding, _finding("spark", "error", str(error))], None, {}
    return [finding], binary, environment


def _finding(check: str, status: str, text: str, remedy: str = "") -> Finding:
    """As of `hoodie doctor`: status is ok, note, warning or error."""
    return {"check": check, "status": status, "text": text, "remedy": remedy}
