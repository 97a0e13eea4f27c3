"""Which of two rows with the same key survives: base class, registry.

A merger is a class of a module of this folder, which MERGERS names, or a caller's own. Apache Hudi's payload
class names name the mergers.

Format: spec section 1 "Payloads / merge modes"; behaviour of Apache Hudi 0.15.0's payload classes, with the
order of equal ordering values in a batch fixed: the later row wins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from hoodie.config.key import Config
from hoodie.config.plugins import Plugins
from hoodie.errors import ConfigError
from hoodie.merge.settings import MERGE_MODE, PAYLOAD_CLASS, PRECOMBINE_FIELD, MergeMode
from hoodie.table.merge_rule import PAYLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Column: TypeAlias = pa.Array[Any] | pa.ChunkedArray[Any]

DELETED_COLUMN = "_hoodie_is_deleted"


@dataclass(frozen=True)
class Outcome:
    """Decision for n aligned pairs of a stored and an incoming row.

    take[i]: the incoming row (or row i of `rows`) replaces the stored one; otherwise the stored row stays as
    it is, with its commit time. delete[i]: the record disappears; implies take[i]. rows: the merged rows of
    all n pairs, in the incoming rows' schema, or None when a row is taken whole.
    """

    take: npt.NDArray[np.bool_]
    delete: npt.NDArray[np.bool_]
    rows: pa.Table | None = None


class Merger(ABC):
    """Pure and picklable; built once on the driver, used on executors.

    A caller's own class is called with the keyword arguments `config`, `ordering_field` and `schema`, that of
    the incoming rows.
    """

    #: the payload class name that the table persists
    java_class: ClassVar[str] = ""
    #: columns of merged rows of logs, beside the table's, that `merge` looks at where they are there
    marks: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def columns(self, schema: pa.Schema) -> tuple[str, ...] | None:
        """Top-level columns that `merge` looks at, of both sides; None: all of them."""

    def deciding_columns(self, schema: pa.Schema) -> tuple[str, ...] | None:
        """Those of `columns` that `take` and `delete` of a merge go by; None: all columns."""
        return self.columns(schema)

    @abstractmethod
    def combine(self, rows: pa.Table, keys: Column | Sequence[Column]) -> pa.Table:
        """One row per key, in arrival order of the surviving rows.

        `keys` is aligned with the rows: one array, or several that together are the key (record key,
        partition path). Raises InputError for a null ordering value.
        """

    @abstractmethod
    def merge(self, stored: pa.Table, incoming: pa.Table) -> Outcome:
        """n aligned pairs: row i of both has the same key. At least `columns` are there."""

    @abstractmethod
    def deleted(self, rows: pa.Table | pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Which incoming rows are deletes."""

    def check(self, rows: pa.Table) -> None:
        """Sees all rows that will be combined, before anything is written.

        Raises InputError for rows that can't be.
        """
        return

    def combine_columns(self, schema: pa.Schema) -> tuple[str, ...] | None:
        """Top-level columns that `combine` looks at; None: all of them."""
        return None

    @property
    def folds(self) -> bool:
        """Are rows of logs merged by `fold`, and not by `combine` of all rows of a key at once?"""
        return type(self).fold is not Merger.fold

    def fold(self, earlier: pa.Table, later: pa.Table) -> pa.Table:
        """One row of each of n aligned pairs of rows of a log.

        Of a later row that is `deleted` it keeps nothing earlier, no ordering value either.
        """
        raise NotImplementedError(f"{type(self).__name__} does not fold")

    def of_later(self) -> Merger:
        """As tables of versions 8 and 9 have it."""
        return self

    def fills(self, rows: pa.Table) -> bool:
        """Does `merge` make rows out of these and stored ones, column by column, whatever `columns` are?"""
        return False

    def outlives(self, rows: pa.Table, ordering: Column) -> npt.NDArray[np.bool_]:
        """Which rows stay, of n aligned pairs of a row in a log and a later delete of its key, which has an
        ordering value or null."""
        import numpy as np

        return np.zeros(rows.num_rows, np.bool_)

    @property
    def ordering(self) -> str | None:
        """The ordering column, by which `combine` chooses."""
        return None

    @property
    def delete_ordering(self) -> tuple[str, ...]:
        """The columns by which a logged delete is compared with other rows; none: it always wins."""
        return ()

    def wins_always(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """Which incoming rows are deletes that win, although deletes are compared."""
        import numpy as np

        return np.zeros(rows.num_rows, np.bool_)

    @property
    def fills_always(self) -> bool:
        """True where any two rows fill one another, whatever `columns` are: a late row is no loss."""
        return False

    @property
    def keeps_newer(self) -> bool:
        """False where an incoming row may replace a stored one that is newer by its ordering value, so that
        batches must be written in their order."""
        return True

    @property
    def takes_whole_rows(self) -> bool:
        """True where every merged row is one of those that it is made of."""
        return False

    @property
    def ignores_stored(self) -> bool:
        """True where `merge` takes every incoming row whole."""
        return False


_JAVA = "org.apache.hudi.common.model."
_NON_DEFAULTS = "OverwriteNonDefaultsWithLatestAvroPayload"
MERGERS = Plugins(
    kind="payload",
    base=Merger,  # type: ignore[type-abstract]
    places={
        _JAVA + "DefaultHoodieRecordPayload": "hoodie.merge.event_time:EventTime",
        _JAVA + "OverwriteWithLatestAvroPayload": "hoodie.merge.commit_time:CommitTime",
        _JAVA + _NON_DEFAULTS: "hoodie.merge.overwrite_non_defaults:OverwriteNonDefaults",
        _JAVA + "PartialUpdateAvroPayload": "hoodie.merge.partial_update:PartialUpdate",
    },
    aliases={
        _JAVA + "DefaultHoodieRecordPayload": ("event_time", "DefaultHoodieRecordPayload"),
        _JAVA + "OverwriteWithLatestAvroPayload": ("commit_time", "OverwriteWithLatestAvroPayload"),
        _JAVA + _NON_DEFAULTS: (
            "overwrite_non_defaults",
            _NON_DEFAULTS,
        ),
        _JAVA + "PartialUpdateAvroPayload": ("partial_update", "PartialUpdateAvroPayload"),
    },
)


def merger(config: Config, ordering_field: str | None, schema: pa.Schema) -> Merger:
    """The configured merger, checked against the columns of the incoming rows.

    Raises ConfigError for settings that don't fit each other or an ordering column of no order, InputError
    for an ordering column that isn't there.
    """
    name, mode = config[PAYLOAD_CLASS], config[MERGE_MODE]
    if mode is MergeMode.CUSTOM and not name:
        raise ConfigError(
            f"{MERGE_MODE.name}=CUSTOM needs {PAYLOAD_CLASS.name}.", setting=MERGE_MODE.name, value=mode.value
        )
    if mode is MergeMode.EVENT_TIME_ORDERING and not ordering_field:
        raise ConfigError(
            f"{MERGE_MODE.name}={mode.value} needs {PRECOMBINE_FIELD.name}.",
            setting=MERGE_MODE.name,
            value=mode.value,
        )
    if mode is None and not name:
        mode = MergeMode.EVENT_TIME_ORDERING if ordering_field else MergeMode.COMMIT_TIME_ORDERING
    by_mode = PAYLOADS.get(mode) if mode else None
    if by_mode and name and MERGERS.name(name) != by_mode:
        raise ConfigError(_contradiction(str(mode and mode.value), name), value=name)
    make = MERGERS.load(PAYLOAD_CLASS.name, name or by_mode or "")
    made = make(config=config, ordering_field=ordering_field, schema=schema)
    if not made.java_class:
        raise ConfigError(
            f"{PAYLOAD_CLASS.name}={name!r} is no payload: its java_class, which the table persists, is "
            "empty.",
            setting=PAYLOAD_CLASS.name,
            value=str(name),
        )
    return made


def keeps_values(made: Merger) -> bool:
    """Is every value of a merged row one of the rows that it is made of; so it is with the mergers here."""
    return type(made).__module__.startswith(f"{__name__}.")


def _contradiction(mode: str, name: str) -> str:
    return f"{MERGE_MODE.name}={mode} contradicts {PAYLOAD_CLASS.name}={name!r}; give one of the two."
