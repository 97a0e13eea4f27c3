"""`airflow hoodie ...`: the commands, as Airflow's command line lists them. Loaded at each start of it."""

from __future__ import annotations

from typing import Any

from airflow.cli import cli_config
from airflow.cli.cli_config import ActionCommand, CLICommand, GroupCommand, lazy_load_command

_COMMANDS = "airflow_hoodie.cli.commands"

Arg: Any = cli_config.Arg  # it has no types

_TABLE_HELP = "the table's folder; in the warehouse of --conn-id if it is relative"
ARG_TABLE = Arg(("--table",), help=_TABLE_HELP, metavar="PATH", required=True, type=str)
ARG_SOME_TABLE = Arg(("--table",), help=f"look at this table, too: {_TABLE_HELP}", metavar="PATH", type=str)
ARG_CONN_ID = Arg(
    ("--conn-id",), help="connection of type hoodie (default: hoodie_default, if there is one)", type=str
)
ARG_SPARK_CONN_ID = Arg(
    ("--spark-conn-id",),
    help="connection of type spark (default: that of the hoodie connection, else spark_default)",
    type=str,
)
ARG_JSON = Arg(("--json",), help="print one JSON document", action="store_true")
ARG_ARCHIVED = Arg(("--archived",), help="the archived ones, too", action="store_true")
ARG_DEEP = Arg(("--deep",), help="open the table's files, and read them", action="store_true")
ARG_OPTION = Arg(
    ("--option",), help="a setting; repeatable", metavar="KEY=VALUE", action="append", default=[]
)
ARG_ONLY = Arg(("--only",), help="these services only, such as clean,archive", metavar="A,B", type=str)


def get_hoodie_cli_commands() -> list[CLICommand]:
    """Provider info's `cli` names this function."""
    return [
        GroupCommand(
            name="hoodie",
            help="Apache Hudi tables: check what their tasks need, and look at them",
            subcommands=(
                ActionCommand(
                    name="doctor",
                    help="Check connections, Spark, Java and a table, and say what to do",
                    func=lazy_load_command(f"{_COMMANDS}.doctor"),
                    args=(ARG_SOME_TABLE, ARG_DEEP, ARG_OPTION, ARG_CONN_ID, ARG_SPARK_CONN_ID, ARG_JSON),
                    epilog="exit codes: 0 nothing is wrong, warnings apart; 1 something is",
                ),
                ActionCommand(
                    name="timeline",
                    help="Show a table's instants and what they wrote",
                    func=lazy_load_command(f"{_COMMANDS}.timeline"),
                    args=(ARG_TABLE, ARG_CONN_ID, ARG_ARCHIVED, ARG_JSON),
                ),
                ActionCommand(
                    name="files",
                    help="Show a table's file groups and their slices",
                    func=lazy_load_command(f"{_COMMANDS}.files"),
                    args=(ARG_TABLE, ARG_CONN_ID, ARG_OPTION, ARG_JSON),
                ),
                ActionCommand(
                    name="services",
                    help="Show which services of a table are due, what they would do, and why",
                    func=lazy_load_command(f"{_COMMANDS}.services"),
                    args=(ARG_TABLE, ARG_CONN_ID, ARG_ONLY, ARG_OPTION, ARG_JSON),
                ),
            ),
        )
    ]
