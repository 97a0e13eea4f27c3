"""The commands of `hoodie`, their arguments and the texts of their help."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import hoodie
from hoodie.backend import BACKENDS
from hoodie.cli import show
from hoodie.cli.output import FORMATS, Answer
from hoodie.cli.parsing import Parser, TopParser
from hoodie.cli.services import add_fields, run
from hoodie.services.registry import Lazy, Service, public

_EPILOG = """\
exit codes: 0 done; 1 failed, with a message that says why; 2 wrong command line

hoodie upsert /data/orders --source 'new/*.parquet' --key id --ordering updated_at
hoodie explain upsert /data/orders --source day.parquet
hoodie compact /data/orders --option hoodie.compact.inline.max.delta.commits=1
hoodie clean /data/orders --dry-run
hoodie read /data/orders --where "status = 'open'" --columns id,status
"""

_WRITES = {
    "upsert": "update the rows whose key the table holds, insert the others",
    "insert": "insert rows, packed into small files, without looking for their keys",
    "bulk-insert": "insert rows into new files: the fastest first load",
    "delete": "delete the rows whose key the source has; it needs the columns of key and partition only",
    "insert-overwrite": "replace the partitions that the source has rows for",
    "insert-overwrite-table": "replace all partitions: without rows the table is emptied",
}


class _Version(argparse.Action):
    """Looks for the version when it is asked for: that takes longer than all else here."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        print(f"hoodie {hoodie.__version__}")
        parser.exit()


def parser() -> Parser:
    """The whole command line."""
    common = Parser(add_help=False)
    common.add_argument("--json", action="store_true", help="print one JSON document")
    table = Parser(add_help=False)
    _add_table(table)

    top = TopParser(
        prog="hoodie",
        description="Apache Hudi tables, without a Hudi jar.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action=_Version, nargs=0, help="show program's version number and exit")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    for name, text in _WRITES.items():
        _add_write(commands.add_parser(name, help=text, description=text, parents=[table, common]))
    _add_whole_table(commands.choices["insert-overwrite"])
    text = "upsert the files of a folder, prefix or glob that are new since the last run, by one commit"
    _add_ingest(_add(commands, "ingest", text, _at("write:ingest"), table, common))
    _add_explain(commands, table, common)
    text = "delete whole partitions; their files go when the cleaner takes them"
    _add_delete_partition(
        _add(commands, "delete-partitions", text, _at("write:delete_partition"), table, common)
    )
    text = "rows of the newest snapshot, of an earlier time, or written in a period"
    _add_read(commands.add_parser("read", help=text, description=text, parents=[table, common]))
    text = "one SELECT over tables, of which it reads the columns and rows that it needs, or one statement "
    text += "that changes a table"
    _add_sql(_add(commands, "sql", text, _at("sql:sql"), common))
    for service in public().values():
        command = _add(commands, service.command or service.name, service.doc, partial(run, service), common)
        _add_service(command, service)
    _add_services(commands, table, common)
    _add_callbacks(commands, table, common)
    text = "is this machine fit for jobs, and is a table in order: what is wrong, and what to do"
    _add_doctor(_add(commands, "doctor", text, _at("doctor:doctor"), common))
    text = "instants, oldest first, and what they wrote"
    timeline = _add(commands, "timeline", text, show.timeline, table, common)
    timeline.add_argument("--archived", action="store_true", help="the archived ones, too")
    text = "file groups and their slices, newest first"
    _add_option(_add(commands, "files", text, show.files, table, common))
    text = "a page with the timelines of tables, in a browser"
    _add_serve(_add(commands, "serve", text, _at("serve:serve"), common))
    text = "blocks of one log file of a merge-on-read table"
    _add_log(_add(commands, "log", text, _at("log:log"), common))
    text = "what spark-submit sends to a cluster: this package, and the packages that it needs"
    _add_bundle(_add(commands, "bundle", text, _at("bundle:bundle"), common))
    listing = _add(commands, "config", "every setting: name, default, meaning", show.config, common)
    listing.add_argument("name", nargs="?", default="", help="only settings with this in their name")
    return top


def _at(name: str) -> Lazy:
    """`module:function` of this package, imported when it is called."""
    module, _, function = name.partition(":")
    return Lazy(f"hoodie.cli.{module}", function)


def _add(
    commands: Any, name: str, text: str, run: Callable[..., Answer], *parents: Parser
) -> argparse.ArgumentParser:
    added: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=text, parents=list(parents)
    )
    added.set_defaults(run=run)
    return added


def _add_doctor(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    _add_table(command, needed=False)
    add("--deep", action="store_true", help="open the table's files, and read them")
    add("--spark-submit", metavar="FILE", help="instead of the one found")
    add("--known", default="[]", help=argparse.SUPPRESS)  # findings of the calling process, as JSON
    _add_option(command)


def _add_table(command: argparse.ArgumentParser, *, needed: bool = True) -> None:
    """The table's path, with and without a flag; it follows the other positional arguments."""
    text = "the table's folder" if needed else "a table's folder: look at this table, too"
    command.add_argument("path", nargs="?", metavar="PATH", help=text)
    flags = ("--table", "--path", "--table-path")
    command.add_argument(*flags, dest="table", metavar="PATH", help="the same, as a flag")
    command.set_defaults(needs_table=needed)


def _add_keys(command: argparse.ArgumentParser) -> None:
    """The words of the Python API and of the operators for what the first write of a table needs."""
    names: dict[str, Any] = {"action": "extend", "type": _names, "metavar": "A,B"}
    add = command.add_argument
    add("--key", "--keys", "--record-key", dest="keys", help="columns that identify a record", **names)
    add("--partition-by", "--partition-path", help="columns of the partition path", **names)
    text = "of two rows with one key the greater value of these columns wins"
    add("--ordering", "--precombine", help=text, **names)


def _add_option(command: argparse.ArgumentParser) -> None:
    pair: dict[str, Any] = {"action": "append", "default": [], "type": _pair, "metavar": "KEY=VALUE"}
    command.add_argument("--option", help="a setting, such as hoodie.storage.allowed.folders", **pair)


def _add_log(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "file", metavar="FILE", help="a log file, .<file id>_<instant>.log.<version>_<token>"
    )
    command.add_argument("--records", action="store_true", help="the rows and deleted keys, too")


def _add_serve(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    text = "a table to show; its name is that of its folder unless one is given"
    add("tables", nargs="*", metavar="[NAME=]PATH", help=text)
    add("--table", action="append", default=[], metavar="NAME=PATH", help="the same, as a flag; repeatable")
    add("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    add("--port", type=int, default=8642, help="default 8642; 0 takes a free one")
    add(
        "--host-name",
        action="append",
        default=[],
        help="a name that browsers know this machine by; repeatable",
    )
    add("--airflow", metavar="URL", help="where Airflow's UI is, so that task runs become links")


def _add_bundle(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("folder", nargs="?", default=".", metavar="FOLDER", help="where the files go (default: this one)")
    add("--with-dependencies", action="store_true", help="an archive for --archives, too: pyarrow and others")
    add("--python", metavar="X.Y", help="the cluster's (default: this one's)")
    add(
        "--platform",
        metavar="TAG",
        help="of the wheels, such as manylinux2014_x86_64 (default: this machine's)",
    )
    text = "packages of an extra, such as s3; repeatable (spark's are there, without Spark itself)"
    add("--extra", action="append", default=[], metavar="NAME", help=text)
    add("--constraint", metavar="FILE", help="versions of packages, as of pip install --constraint")


def _add_read(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    _add_query(command)
    add("--columns", metavar="A,B", help="columns, in this order (default: all)")
    add("--no-meta", action="store_true", help="without the _hoodie_* columns")
    _add_rows(command)
    command.set_defaults(run=show.read)


def _add_query(command: argparse.ArgumentParser) -> None:
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
    add("--where", metavar="PREDICATE", help="SQL predicate, as after WHERE")


def _add_rows(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add(
        "--limit",
        type=partial(_count, "rows"),
        metavar="N",
        help="at most N rows (default: 20 on screen, all with --json or --output)",
    )
    add("--output", metavar="FILE", help="write the rows to a file: .parquet, .csv, .json or .jsonl")
    add(
        "--format",
        choices=FORMATS,
        help="of --output, instead of its suffix; without --output all rows are printed in this format: "
        "json is one array, jsonl one object a line",
    )
    pair: dict[str, Any] = {"action": "append", "default": [], "type": _pair, "metavar": "KEY=VALUE"}
    add("--option", help="a setting for reading, such as hoodie.memory.merge.max.size; repeatable", **pair)


def _add_sql(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add(
        "text",
        metavar="TEXT",
        help="one SELECT in DuckDB's SQL over the tables by their names, or one DELETE, "
        "UPDATE, MERGE, INSERT or CALL in Spark's",
    )
    pair: dict[str, Any] = {"action": "append", "default": [], "type": _pair}
    add("--table", required=True, metavar="NAME=PATH", help="a table of the text; repeatable", **pair)
    add("--source", metavar="NAME=PATH", help="other rows: Parquet, CSV or JSON files; repeatable", **pair)
    add("--dry-run", action="store_true", help="of a statement: say what would be written, write nothing")
    add("--query", metavar="NAME=TYPE", help="of a table, as of `hoodie read`; repeatable", **pair)
    add("--begin", metavar="NAME=T", help="rows of a table written after this instant; repeatable", **pair)
    add("--end", metavar="NAME=T", help="up to this instant; repeatable", **pair)
    add("--as-of", metavar="NAME=T", help="a table as of this instant; repeatable", **pair)
    _add_rows(command)


def _add_explain(commands: Any, *parents: Parser) -> None:
    text = "what a write would do and cost, and which index fits; what a query would read"
    kinds = commands.add_parser("explain", help=text, description=text).add_subparsers(
        dest="operation", required=True, metavar="OPERATION"
    )
    for name, what in _WRITES.items():
        _add_source(_add(kinds, name, what, _at("explain:explain"), *parents))
    _add_whole_table(kinds.choices["insert-overwrite"])
    text = "which files a query would read, and what left out the others"
    read = _add(kinds, "read", text, _at("explain:explain_read"), *parents)
    _add_query(read)
    _add_option(read)


def _add_whole_table(command: argparse.ArgumentParser) -> None:
    """The former flag of insert-overwrite-table."""
    command.add_argument("--whole-table", action="store_true", help=argparse.SUPPRESS)


def _add_write(command: argparse.ArgumentParser) -> None:
    _add_source(command)
    command.add_argument(
        "--dry-run", action="store_true", help="say what would be written and replaced, write nothing"
    )
    command.set_defaults(run=_at("write:write"))


def _add_source(command: argparse.ArgumentParser) -> None:
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
        choices=("parquet", "csv", "json", "avro", "orc", "table", "sql"),
        help="default: by suffix, else parquet",
    )
    pair: dict[str, Any] = {"action": "append", "default": [], "type": _pair, "metavar": "KEY=VALUE"}
    add(
        "--transform",
        metavar="SELECT",
        help="one SELECT over the rows, as the table source; its answer is written (DuckDB's SQL, with "
        "--engine spark Spark's); or a Python function of Arrow batches, as module:function",
    )
    add("--source-option", help="option of the CSV, JSON or Parquet reader, such as sep=;", **pair)
    _add_keys(command)
    _add_settings(command)


def _add_ingest(command: argparse.ArgumentParser) -> None:
    _add_source(command)
    add = command.add_argument
    add(
        "--write-operation",
        choices=("upsert", "insert", "bulk-insert"),
        default="upsert",
        help="what is done with the rows (default: upsert)",
    )
    files, size = partial(_count, "files"), partial(_count, "bytes")
    add("--max-files", type=files, metavar="N", help="files of one run, the oldest first (default: all)")
    add("--max-bytes", type=size, metavar="N", help="bytes of one run; one file at least")
    add(
        "--lookback",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="take files, too, that appear so much later than their modification time (default 0)",
    )
    add(
        "--start-after",
        type=int,
        metavar="MS",
        help="of a source that the table does not know: files after this time, in epoch milliseconds",
    )
    add("--error-table", metavar="PATH", help="table that gets the records that can't be written")
    rows = partial(_count, "rows")
    add("--max-bad-rows", type=rows, metavar="N", help="fail with more of them (default 1000)")
    add("--max-bad-files", type=files, metavar="N", help="leave out so many files that can't be written")
    add("--dry-run", action="store_true", help="say what would be written, write nothing")


def _add_delete_partition(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add(
        "--partition",
        required=True,
        action="append",
        metavar="P",
        help="partition path, such as 2024-01-31 or country=de; * stands for any text; repeatable",
    )
    add("--missing-ok", action="store_true", help="partitions that are not there are no error")
    add("--dry-run", action="store_true", help="say what would be replaced, write nothing")
    _add_options(command)


def _add_service(command: argparse.ArgumentParser, service: Service) -> None:
    add_fields(command, service)
    _add_table(command)
    command.add_argument("--dry-run", action="store_true", help="print the plan, change nothing")
    (_add_settings if service.needs_engine else _add_options)(command)


def _add_services(commands: Any, *parents: Parser) -> None:
    text = "all services of a table: which are due and why, and one run of them"
    actions = commands.add_parser("services", help=text, description=text).add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    text = "which services are due, what each would do, and why"
    plan = _add(actions, "plan", text, _at("maintenance:plan"), *parents)
    _add_options(plan)
    text = "roll back failed writes, finish what is stuck, run what is due"
    run = _add(actions, "run", text, _at("maintenance:run"), *parents)
    run.add_argument("--dry-run", action="store_true", help="print the plans, change nothing")
    _add_settings(run)
    for command in (plan, run):
        command.add_argument(
            "--only", type=_names, metavar="A,B", help="these services only, such as clean,archive"
        )


def _add_callbacks(commands: Any, *parents: Parser) -> None:
    text = "messages of commits that a commit callback could not deliver"
    actions = commands.add_parser("callbacks", help=text, description=text).add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    resend = _add(actions, "resend", "deliver them, oldest first", _at("callbacks:resend"), *parents)
    resend.add_argument("--dry-run", action="store_true", help="say which are kept, send nothing")
    _add_options(resend)


def _add_options(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    pair: dict[str, Any] = {"action": "append", "default": [], "type": _pair, "metavar": "KEY=VALUE"}
    add("--properties", metavar="FILE", help="Java properties file with settings")
    add("--option", help="a setting, over those of --properties; repeatable", **pair)


def _add_settings(command: argparse.ArgumentParser) -> None:
    _add_options(command)
    add = command.add_argument
    pair: dict[str, Any] = {"action": "append", "default": [], "type": _pair, "metavar": "KEY=VALUE"}
    add("--engine", choices=tuple(BACKENDS.places), default="local", help="default: local, without a JVM")
    add("--master", metavar="URL", help="Spark master (default local[*])")
    add("--conf", help="a Spark setting, such as spark.driver.memory=4g", **pair)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return name.strip(), value


def _count(what: str, text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of {what}")
    return int(text)
