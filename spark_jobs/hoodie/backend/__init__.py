"""Backend: where rows are read and written; the local engine, or a session of Spark.

A backend brings its engine, and its readers of sources and of tables. `spark=` of the API is short for the
backend of that session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from hoodie.config.plugins import Plugins
from hoodie.engine import Engine, Frame
from hoodie.errors import ConfigError, InputError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

    from hoodie.config.functions import Function
    from hoodie.engine.streams import Stream
    from hoodie.read.binding import Predicate
    from hoodie.read.query import Query
    from hoodie.read.sql_tables import SqlTable
    from hoodie.source import Source
    from hoodie.source.rejected_records import Required, Screened


class Backend(ABC):
    """A caller's own class is named as `module:Class`, wherever a request or a command names an engine."""

    #: is there a session to start, with a master and settings of its own?
    has_session: ClassVar[bool] = False
    #: whose SQL `sql` takes: sqlglot's name of it, or "" for a backend that has none
    dialect: ClassVar[str] = ""

    @classmethod
    def adopt(cls, rows: Any) -> Backend | None:
        """The backend that holds these rows; None for rows of another kind. Imports nothing large."""
        return None

    @classmethod
    @abstractmethod
    def started(
        cls, master: str | None = None, settings: Mapping[str, str] | None = None
    ) -> AbstractContextManager[Backend]:
        """A backend whose session, if it has one, is stopped at the end. None: as its environment says.

        `master` and `settings` are given to classes with a session only.
        """

    @abstractmethod
    def engine(self) -> Engine:
        """The engine of writes and services."""

    @abstractmethod
    def frame(self, rows: Any) -> Frame:
        """A frame of `engine` for rows to write. Raises InputError for what can't be written."""

    @abstractmethod
    def read_source(self, source: Source, known: pa.Schema | None) -> Any:
        """Rows of a source, after its transform, which `frame` takes; CSV and JSON take the types of `known`,
        a table's schema.

        Raises InputError for a source that is missing or can't be read, ConfigError for its options.
        """

    def screened(self, source: Source, known: pa.Schema | None, required: Required, limit: int) -> Screened:
        """The same without the records that can't be read, or lack what is required, which are beside them.

        Raises what `read_source` raises, and InputError for more than `limit` such records.
        """
        raise ConfigError(f"{type(self).__name__} finds no bad rows; leave out the error table")

    def transformed(self, rows: Any, text: str | Function) -> Any:
        """The answer of one SELECT over rows that `frame` takes, which are its table `source`, or of a
        function of record batches.

        Raises ConfigError for a text that can't be evaluated.
        """
        raise ConfigError(f"{type(self).__name__} runs no SQL over rows; leave out transform")

    @abstractmethod
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
        """Rows of a table; parameters as of `hoodie.read_table`."""

    def sql(self, text: str, tables: Mapping[str, SqlTable], rows: Mapping[str, Any] | None = None) -> Any:
        """The answer of one SELECT over tables, and over other rows by their names: what `relation` gives."""
        raise ConfigError(f"{type(self).__name__} runs no SQL over tables; read them with read_table")

    def sql_rows(
        self, text: str, tables: Mapping[str, SqlTable], rows: Mapping[str, Any] | None = None
    ) -> Any:
        """The same as rows that `frame` takes, which may be read once."""
        return self.sql(text, tables, rows)

    def alike(self, rows: Any, wanted: pa.Schema) -> pa.Schema:
        """Those of the wanted columns that rows of `sql` have in these types, so that values which are equal
        in Arrow are equal there; none where two columns have one name, and where a backend knows none.
        """
        import pyarrow as pa

        return pa.schema([])

    def held(
        self, rows: Any, wanted: pa.Schema, most: int
    ) -> AbstractContextManager[tuple[Any, pa.Table | None]]:
        """(rows of `sql` that are the same each time while the context lasts, the rows of those of the wanted
        columns that have these types, without nulls, each at least once); None where no column has its type,
        where they take more than about `most` bytes, and where a backend finds none.
        """
        return nullcontext((rows, None))

    def relation(self, rows: Any, known: pa.Schema | None = None) -> Any:
        """Rows, or those of a Source, as `sql` takes them; `known` as of `read_source`."""
        raise ConfigError(f"{type(self).__name__} runs no SQL over rows; write them into a table")

    def predicate(self, where: str, columns: Sequence[str]) -> Predicate:
        """A predicate as `read_table` takes it, of a table with these columns. Raises ConfigError for what is
        none.
        """
        raise ConfigError(f"{type(self).__name__} explains no predicates; leave out where")

    def application(self) -> dict[str, str]:
        """What a job reports about its session: `application_id`, and `spark_ui`, its address."""
        return {}


BACKENDS = Plugins(
    kind="engine",
    base=Backend,  # type: ignore[type-abstract]
    places={"local": "hoodie.backend.local:LocalBackend", "spark": "hoodie.backend.spark:SparkBackend"},
)


def arrow_rows(
    rows: Any, known: pa.Schema | None = None
) -> pa.Table | pa.RecordBatchReader | ds.Dataset | Stream:
    """Rows as an engine of Arrow takes them; `known`, errors: as of `source.rows`. Raises InputError for what
    is none.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    from hoodie.engine.streams import Stream

    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, (pa.Table, pa.RecordBatchReader, ds.Dataset, Stream)):
        return rows
    from hoodie.source.rows import arrow_form

    if (found := arrow_form(rows, known)) is not None:
        return found
    raise InputError(
        f"can't write a {type(rows).__name__}; pass a Spark DataFrame, a pyarrow Table, RecordBatchReader "
        "or Dataset, a DataFrame of pandas or polars, an object that exports an Arrow stream, or a list of "
        "dictionaries",
        type=type(rows).__name__,
    )
