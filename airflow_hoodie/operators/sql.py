"""The operator of SQL statements that change a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_hoodie.arguments import is_later, is_template
from airflow_hoodie.engines import Choice, choose, size_of
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.operators.write import HoodieCommitOperator, check_source_path
from airflow_hoodie.sources import is_query
from airflow_hoodie.table import HoodieTable
from hoodie.config.statements import first_word, is_call, is_statement
from hoodie.source.fingerprint import statement_source
from hoodie.text import visible

#: what statements are written as
_QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "TABLE")
_OPERATIONS = {"upsert", "delete", "insert", "insert_overwrite", "insert_overwrite_table"}


class HoodieSQLOperator(HoodieCommitOperator):
    """Runs one DELETE, UPDATE, MERGE INTO or INSERT, in Spark's SQL on both engines (docs/python.md).

    The XCom `return_value` is the job's WriteResult, with the operation that the statement is written as. The
    worker, or Spark's driver, needs the packages of airflow-hoodie[sql], and duckdb where the engine is
    local. On Spark the text has all rights of the job's session: only the author of the DAG should write it,
    without templates of what others fill in. Other parameters: HoodieCommitOperator.

    :param sql: the statement, or the path of a .sql file with it. (templated)
    :param table: HoodieTable or its dict form: the table that the statement changes, under its name.
        (templated)
    :param tables: other tables by the names that the statement has for them: a path of a Hudi table, a
        mapping with `path`, `query`, `begin`, `end`, `as_of`, or {"source": …} as of
        UpsertOperator. (templated)
    :param options: `hoodie.*` settings of this task; they override the table's. (templated)
    """

    job = operation = "sql"

    template_fields: Sequence[str] = ("sql", "tables", *HoodieCommitOperator.template_fields)
    template_ext: Sequence[str] = (".sql",)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **HoodieCommitOperator.template_fields_renderers,
        "sql": "sql",
        "tables": "json",
    }

    def __init__(
        self,
        *,
        sql: str,
        table: HoodieTable | Mapping[str, Any],
        tables: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, options=options, **kwargs)
        self.sql = sql if is_later(sql) else _text(sql)
        self.tables: Any = tables if is_later(tables) else _named(tables)

    def described(self) -> Mapping[str, Any]:
        return statement_source(_text(self.sql), _named(self.tables))

    def auto_choice(self) -> Choice:
        limit = size_of("local_max_size", self.local_max_size)
        return choose(self.table["path"], _OPERATIONS, None, limit, self.settings(), statement=self.sql)

    def request(self) -> dict[str, Any]:
        name, tables = HoodieTable.from_dict(self.table).name, _named(self.tables)
        if name.lower() in (other.lower() for other in tables):
            raise HoodieConfigurationError(
                f"tables has {name!r}, the name of the statement's target; name others otherwise"
            )
        return {**super().request(), "sql": _text(self.sql), "name": name, "tables": tables}


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise HoodieConfigurationError(
            f"sql is {value!r}; give one statement, such as DELETE FROM orders WHERE …"
        )
    if is_template(value) or value.strip().endswith(".sql"):
        return value
    word = first_word(value)
    if is_call(value):
        raise HoodieConfigurationError(
            f"sql begins with {word}, which is the work of an operator of its own, such as IndexOperator or "
            "MaintenanceOperator; give one DELETE, UPDATE, MERGE INTO or INSERT"
        )
    if not is_statement(value):
        what = (
            "is a query, which changes nothing" if word in _QUERIES else "is no statement that changes rows"
        )
        raise HoodieConfigurationError(
            f"sql {visible(value.strip()[:60])!r} {what}; give one DELETE, UPDATE, MERGE INTO or INSERT, and "
            "for the rows of a query INSERT INTO … SELECT"
        )
    return value


def _named(value: Any) -> dict[str, Any]:
    given = {} if value is None else value
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise HoodieConfigurationError(
            f"tables are {value!r}; give names with paths, as {{'news': '/data/news'}}"
        )
    for name, item in given.items():
        if isinstance(item, Mapping) and (is_query(item) or is_query(item.get("source"))):
            raise HoodieConfigurationError(
                f"table {name!r} is a query of a connection, which only operators with a source take; load "
                "it into a table first, by UpsertOperator or InsertOverwriteOperator"
            )
        for path in _paths(item):
            check_source_path(path)
        if not isinstance(item, (str, Mapping)):
            raise HoodieConfigurationError(f"table {name!r} is {item!r}; give a path, or a mapping with one")
    return {name: item if isinstance(item, str) else dict(item) for name, item in given.items()}


def _paths(item: Any) -> list[str]:
    """Texts of an item of `tables` that are paths: its own, or those of its source."""
    if isinstance(item, Mapping) and "source" in item:
        source = item["source"]
        if isinstance(source, Mapping) and source.get("format") == "sql":
            return []
        return _paths(source)
    found = item.get("path") if isinstance(item, Mapping) else item
    several = found if isinstance(found, (list, tuple)) else [found]
    return [path for path in several if isinstance(path, str)]
