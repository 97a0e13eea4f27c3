"""Sources of the Spark engine without the records that can't be written. No pyspark import.

Tasks part the rows, all columns at hand: Spark reads a record of text again for each choice of columns, and a
value of a column that is left out is not known to be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import array, places
from hoodie.errors import HoodieError, InputError
from hoodie.source import Source
from hoodie.source.bad_rows import SCHEMA, BadRows, Required, Screened, record_texts
from hoodie.source.spark import CORRUPT, FILE, explained, read_permissive
from hoodie.source.text_tasks import local_path

_BAD = "file string, position bigint, record string, error string"


def screened(source: Source, spark: Any, known: pa.Schema | None, required: Required, limit: int) -> Screened:
    """As hoodie.source.screening does it. Positions are not known, nor the text of a record that could be
    read: it is shown as JSON.
    """
    if source.transform:
        required = Required()
    frame = read_permissive(source, spark, known)
    names = [name for name in frame.columns if name not in (CORRUPT, FILE)]
    if not names:
        raise InputError(f"no record of {source} can be read; mend the files", source=str(source))
    plain = frame.select(*(f"`{name.replace('`', '``')}`" for name in names)).schema
    located = frame if FILE in frame.columns else frame.selectExpr("*", f"_metadata.file_path as {FILE}")
    try:
        found = located.mapInArrow(_Bad(required), _BAD).limit(limit + 1).collect()
    except HoodieError:
        raise
    except Exception as error:
        raise explained(source, error) from error
    bad = BadRows(limit)
    for row in sorted(found, key=lambda row: (row["file"] or "", row["record"])):
        bad.add(local_path(row["file"] or ""), None, row["record"], row["error"])
    rows = located.mapInArrow(_Good(required, tuple(names)), plain)
    if source.transform:
        from hoodie.source.transform import spark_transformed

        rows = spark_transformed(spark, rows, source.transform)
    return Screened(rows, bad.table())


@dataclass(frozen=True)
class _Bad:
    required: Required

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            problems = _problems(rows, self.required)
            plain = rows.drop_columns([name for name in (CORRUPT, FILE) if name in rows.column_names])
            texts = record_texts(plain, list(problems))
            corrupt = rows.column(CORRUPT) if CORRUPT in rows.column_names else None
            items = [
                {
                    "file": rows.column(FILE)[number].as_py(),
                    "position": None,
                    "record": (corrupt[number].as_py() if corrupt is not None else None) or text,
                    "error": error,
                }
                for (number, error), text in zip(problems.items(), texts, strict=True)
            ]
            yield from pa.Table.from_pylist(items, SCHEMA).to_batches()


@dataclass(frozen=True)
class _Good:
    required: Required
    names: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            problems = list(_problems(rows, self.required))
            if problems:
                kept = np.ones(rows.num_rows, np.bool_)
                kept[problems] = False
                rows = rows.filter(array(kept))
            yield from rows.select(list(self.names)).to_batches()


def _problems(rows: pa.Table, required: Required) -> dict[int, str]:
    found = dict(required.problems(rows))
    if CORRUPT in rows.column_names:
        bad = places(rows.column(CORRUPT).is_valid())
        found |= dict.fromkeys(bad, "the record can't be read in the types of its columns")
    return found
