"""Arguments, errors and exit codes of `hoodie`.

Exit codes: 0 done; 1 it failed, the message says why and what to do; 2 the command line is wrong;
130 interrupted, 143 terminated (a write was withdrawn).
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import hoodie
from hoodie.cli import show
from hoodie.cli.output import Answer, to_json
from hoodie.errors import HoodieError
from hoodie.jobs._main import terminated_by_signal

_EPILOG = """\
exit codes: 0 done; 1 failed, with a message that says why; 2 wrong command line

hoodie upsert --table /data/orders --source 'new/*.parquet' \\
    --option hoodie.datasource.write.recordkey.field=id \\
    --option hoodie.datasource.write.precombine.field=updated_at
hoodie compact --table /data/orders --option hoodie.compact.inline.max.delta.commits=1
hoodie clean --table /data/orders --dry-run
hoodie read --table /data/orders --where "status = 'open'" --columns id,status
"""

_WRITES = {
    "upsert": "update the rows whose key the table holds, insert the others",
    "insert": "insert rows, packed into small files, without looking for their keys",
    "bulk-insert": "insert rows into new files: the fastest first load",
}

#: packages that come with an extra
_EXTRAS = {"pyarrow": "local", "numpy": "local", "fastavro": "local", "duckdb": "local", "pyspark": "spark"}


class Usage(Exception):
    """The command line is wrong; `text` says how, after the usage of the parser that saw it."""

    def __init__(self, text: str, usage: str) -> None:
        super().__init__(text)
        self.text = text
        self.usage = usage


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Usage(message, self.format_usage())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. With --json stdout holds one JSON document, errors included."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    try:
        args = parser().parse_args(given)
        as_json = args.json
        run: Callable[[argparse.Namespace], Answer] = args.run
        with terminated_by_signal():
            answer = run(args)
        answer.print(as_json)
    except Usage as error:
        if as_json:
            _report({"code": "usage", "message": error.text})
        else:
            print(f"{error.usage}hoodie: {error.text}", file=sys.stderr)
        return 2
    except HoodieError as error:
        return _failed(error.to_dict(), as_json)
    except KeyboardInterrupt:
        _failed({"code": "interrupted", "message": "interrupted; nothing was committed"}, as_json)
        return 130
    except BrokenPipeError:  # `hoodie read ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        return _failed(
            {"code": "storage", "message": f"{error.filename or 'storage'}: {error.strerror}"}, as_json
        )
    except Exception as error:  # noqa: BLE001  a bug; still one document
        if missing := _not_installed(error):
            return _failed(missing, as_json)
        traceback.print_exc()
        return _failed({"code": "internal", "message": f"{type(error).__name__}: {error}"}, as_json)
    return 0


def parser() -> Parser:
    """The whole command line."""
    common = Parser(add_help=False)
    common.add_argument("--json", action="store_true", help="print one JSON document")
    table = Parser(add_help=False)
    table.add_argument("--table", required=True, metavar="PATH", help="the table's folder")

    top = Parser(
        prog="hoodie",
        description="Apache Hudi tables, without a Hudi jar.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"hoodie {hoodie.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in _WRITES.items():
        _add_write(commands.add_parser(name, help=text, description=text, parents=[table, common]))
    text = "rows of the newest snapshot, of an earlier time, or written in a period"
    _add_read(commands.add_parser("read", help=text, description=text, parents=[table, common]))
    text = "merge the logs of a merge-on-read table into its base files"
    _add_compact(commands.add_parser("compact", help=text, description=text, parents=[table, common]))
    text = "delete file slices that are older than what the cleaner's settings keep"
    clean = _add(commands, "clean", text, _clean, table, common)
    clean.add_argument(
        "--mode",
        choices=("schedule", "execute", "run"),
        default="run",
        help="schedule: make a plan if one is due; execute: carry out pending plans, oldest first; "
        "run: both (default)",
    )
    text = "move old instants from the active into the archived timeline"
    archive = _add(commands, "archive", text, _archive, table, common)
    for command in (clean, archive):
        command.add_argument("--dry-run", action="store_true", help="print the plan, change nothing")
        _add_options(command)
    text = "instants, oldest first, and what they wrote"
    timeline = _add(commands, "timeline", text, show.timeline, table, common)
    timeline.add_argument("--archived", action="store_true", help="those that were archived")
    _add(commands, "files", "file groups and their slices, newest first", show.files, table, common)
    log = _add(commands, "log", "blocks of one log file of a merge-on-read table", _log, common)
    log.add_argument("file", metavar="FILE", help="a log file, .<file id>_<instant>.log.<version>_<token>")
    log.add_argument("--records", action="store_true", help="the rows and deleted keys, too")
    listing = _add(commands, "config", "every setting: name, default, meaning", show.config, common)
    listing.add_argument("name", nargs="?", default="", help="only settings with this in their name")
    return top


def _add(
    commands: Any, name: str, text: str, run: Callable[..., Answer], *parents: Parser
) -> argparse.ArgumentParser:
    added: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=text, parents=list(parents)
    )
    added.set_defaults(run=run)
    return added


def _add_read(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add(
        "--query",
        metavar="TYPE",
        help="snapshot (default), read_optimized: base files only, incremental: rows written after --begin, "
        "or time_travel: the table --as-of a time",
    )
    add("--begin", metavar="T", help="rows written after this instant, or 'earliest'")
    add("--end", metavar="T", help="up to this instant, as they were then (default: the newest commit)")
    add(
        "--as-of",
        metavar="T",
        help="an instant, yyyy-MM-dd or 'yyyy-MM-dd HH:mm:ss[.SSS]' in the time zone of the timeline",
    )
    add("--columns", metavar="A,B", help="columns, in this order (default: all)")
    add("--where", metavar="PREDICATE", help="SQL predicate, as after WHERE")
    add("--no-meta", action="store_true", help="without the _hoodie_* columns")
    add(
        "--limit",
        type=_count,
        metavar="N",
        help="at most N rows (default: 20 on screen, all with --json or --output)",
    )
    add("--output", metavar="FILE.parquet", help="write the rows to a Parquet file")
    pair: dict[str, Any] = {"action": "append", "default": [], "type": _pair, "metavar": "KEY=VALUE"}
    add("--option", help="a setting for reading, such as hoodie.memory.merge.max.size; repeatable", **pair)
    command.set_defaults(run=show.read)


def _add_write(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add(
        "--source",
        required=True,
        action="append",
        metavar="PATH_OR_GLOB",
        help="file, folder or glob; repeatable",
    )
    add(
        "--format",
        choices=("parquet", "csv", "json", "table", "sql"),
        help="default: by suffix, else parquet",
    )
    pair: dict[str, Any] = {"action": "append", "default": [], "type": _pair, "metavar": "KEY=VALUE"}
    add("--source-option", help="option of the CSV, JSON or Parquet reader, such as sep=;", **pair)
    _add_settings(command)
    command.set_defaults(run=_write)


def _add_compact(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--mode",
        choices=("schedule", "execute", "run"),
        default="run",
        help="schedule: make a plan if one is due; execute: run pending plans, oldest first; "
        "run: both (default)",
    )
    command.add_argument("--instant", metavar="T", help="with --mode execute: this pending plan only")
    _add_settings(command)
    command.set_defaults(run=_compact)


def _add_options(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    pair: dict[str, Any] = {"action": "append", "default": [], "type": _pair, "metavar": "KEY=VALUE"}
    add("--properties", metavar="FILE", help="Java properties file with settings")
    add("--option", help="a setting, over those of --properties; repeatable", **pair)


def _add_settings(command: argparse.ArgumentParser) -> None:
    _add_options(command)
    add = command.add_argument
    pair: dict[str, Any] = {"action": "append", "default": [], "type": _pair, "metavar": "KEY=VALUE"}
    add("--engine", choices=("local", "spark"), default="local", help="default: local, without a JVM")
    add("--master", metavar="URL", help="Spark master (default local[*])")
    add("--conf", help="a Spark setting, such as spark.driver.memory=4g", **pair)


def _write(args: argparse.Namespace) -> Answer:
    from hoodie.cli.write import write

    return write(args)


def _log(args: argparse.Namespace) -> Answer:
    from hoodie.cli.log import log

    return log(args)


def _compact(args: argparse.Namespace) -> Answer:
    from hoodie.cli.services import compact

    return compact(args)


def _clean(args: argparse.Namespace) -> Answer:
    from hoodie.cli.services import clean

    return clean(args)


def _archive(args: argparse.Namespace) -> Answer:
    from hoodie.cli.services import archive

    return archive(args)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return name.strip(), value


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rows")
    return int(text)


def _failed(error: dict[str, Any], as_json: bool) -> int:
    if as_json:
        _report(error)
    else:
        print(f"hoodie: {error['message']}", file=sys.stderr)
    return 1


def _report(error: dict[str, Any]) -> None:
    print(to_json({"error": error}), flush=True)


def _not_installed(error: Exception) -> dict[str, Any] | None:
    """What to say when a package of an extra is missing; None for any other error."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package not in _EXTRAS:
        return None
    remedy = f"pip install 'airflow-hoodie[{_EXTRAS[package]}]'"
    return {"code": "not_installed", "message": f"this needs {package}, which is not installed; {remedy}"}
