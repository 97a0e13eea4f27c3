"""A session of Spark, classic or Connect; pyspark is imported by `engine.spark` and `engine.session` only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hoodie.backend import Backend, arrow_rows
from hoodie.engine.session import sees_files, spark_context, spark_session
from hoodie.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from hoodie.config.functions import Function
    from hoodie.engine import Engine, Frame
    from hoodie.read.binding import Predicate
    from hoodie.read.query import Query
    from hoodie.read.sql_tables import SqlTable
    from hoodie.source import Source
    from hoodie.source.rejected_records import Required, Screened


#: the one that YARN's pages lead to; Spark has no setting of its own for others
_HISTORY_SERVER = "spark.yarn.historyServer.address"


class SparkBackend(Backend):
    has_session = True
    dialect = "spark"

    def __init__(self, session: Any) -> None:
        self._session = session

    @classmethod
    def adopt(cls, rows: Any) -> Backend | None:
        return cls(rows.sparkSession) if hasattr(rows, "sparkSession") else None

    @classmethod
    @contextlib.contextmanager
    def started(
        cls, master: str | None = None, settings: Mapping[str, str] | None = None
    ) -> Iterator[SparkBackend]:
        with spark_session(master, settings) as session:
            yield cls(session)

    def engine(self) -> Engine:
        from hoodie.engine.spark import SparkEngine

        return SparkEngine(self._session)

    def frame(self, rows: Any) -> Frame:
        """A DataFrame as it is; executors read a Dataset of Parquet files themselves."""
        from hoodie.engine.gather import FewRows

        if hasattr(rows, "sparkSession") or isinstance(rows, FewRows):
            return rows
        import pyarrow.dataset as ds

        from hoodie.engine.files import FileFrame

        given = arrow_rows(rows)
        files = FileFrame.of(given) if isinstance(given, ds.Dataset) else None
        if files is None:
            raise InputError(
                "with spark, pass a DataFrame or an unfiltered pyarrow Dataset of Parquet files, not a "
                f"{type(rows).__name__}",
                type=type(rows).__name__,
            )
        return self.engine().scan(files)

    def read_source(self, source: Source, known: pa.Schema | None) -> Any:
        from hoodie.engine.gather import FewRows
        from hoodie.source import spark
        from hoodie.source.few import few_rows

        read = partial(spark.read, source, self._session, known)
        rows = few_rows(source, known, local=sees_files(self._session))
        return read() if rows is None else FewRows(rows, read)

    def screened(self, source: Source, known: pa.Schema | None, required: Required, limit: int) -> Screened:
        from hoodie.source.spark import screened

        return screened(source, self._session, known, required, limit)

    def transformed(self, rows: Any, text: str | Function) -> Any:
        from hoodie.source.transform import spark_transformed

        if not hasattr(rows, "sparkSession"):
            raise InputError(
                f"with spark, a transform takes a DataFrame, not a {type(rows).__name__}; read the files by "
                "the session, or leave out spark",
                type=type(rows).__name__,
            )
        return spark_transformed(self._session, rows, text)

    def read_table(
        self,
        path: str,
        *,
        query: Query,
        columns: Sequence[str] | None,
        where: str | None,
        meta: bool,
        options: Mapping[str, Any],
    ) -> Any:
        from hoodie.read.spark import read_frame

        return read_frame(
            self._session, path, query=query, columns=columns, where=where, meta=meta, options=options
        )

    def predicate(self, where: str, columns: Sequence[str]) -> Predicate:
        from hoodie.read import spark_predicate

        return spark_predicate.parsed(where, self._session)

    def sql(self, text: str, tables: Mapping[str, SqlTable], rows: Mapping[str, Any] | None = None) -> Any:
        from hoodie.read.spark_sql import sql_frame

        return sql_frame(self._session, text, tables, rows)

    def alike(self, rows: Any, wanted: pa.Schema) -> pa.Schema:
        import pyarrow as pa

        from hoodie.engine.session import to_spark_schema

        if len({name.lower() for name in rows.columns}) < len(rows.columns):
            return pa.schema([])
        # the name of a type has its collation, if values are equal by one
        kinds = {field.name: field.dataType.simpleString() for field in rows.schema}
        asked = zip(wanted, to_spark_schema(wanted), strict=True)
        return pa.schema(
            [field for field, kind in asked if kinds.get(field.name) == kind.dataType.simpleString()]
        )

    @contextlib.contextmanager
    def held(self, rows: Any, wanted: pa.Schema, most: int) -> Iterator[tuple[Any, pa.Table | None]]:
        from hoodie.engine.repeatable import is_constant
        from hoodie.engine.session import few_cached_partitions, plan_text
        from hoodie.engine.values import distinct_rows

        alike = self.alike(rows, wanted)
        if not alike.names:
            yield rows, None
            return
        engine = self.engine()
        if is_constant(plan_text(rows, "extended")):
            yield rows, distinct_rows(engine, rows, alike, most)
            return
        with few_cached_partitions(self._session):
            kept = rows.persist()
        try:
            yield kept, distinct_rows(engine, kept, alike, most)
        finally:
            kept.unpersist()

    def relation(self, rows: Any, known: pa.Schema | None = None) -> Any:
        from hoodie.source import Source, spark

        if isinstance(rows, Source):
            return spark.read(rows, self._session, known, files=False)
        if hasattr(rows, "sparkSession"):
            return rows
        raise InputError(
            f"Spark SQL takes no {type(rows).__name__}; pass a DataFrame, or {{'source': path}}",
            type=type(rows).__name__,
        )

    def application(self) -> dict[str, str]:
        """Nothing with Spark Connect, which has no context.

        `application_id`; `spark_ui` if it has one; `event_log` if it writes one; `history_server` if its
        settings name one.
        """
        context = spark_context(self._session)
        if context is None:
            return {}
        settings = context.getConf()
        found = {
            "application_id": context.applicationId,
            "spark_ui": context.uiWebUrl,
            "event_log": "true" if settings.get("spark.eventLog.enabled", "false") == "true" else None,
            "history_server": settings.get(_HISTORY_SERVER, None),
        }
        return {name: str(value) for name, value in found.items() if value and "${" not in str(value)}
