"""Queries of tables of versions 8 and 9 that Apache Hudi 1.2.0 and 1.0.2 wrote: the rows that Hudi answered.

Where Hudi's answer is not right, a test says why.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import HoodieError
from tests.support.later import TABLES
from tests.support.rows import assert_same_rows
from tests.support.tiers import full_but

#: Hudi answers this column from the partition path, which does not hold the value; the files do
FROM_PATH = {"cow_tskeygen": "ev"}
#: rules of merging that are refused -> what the refusal says
REFUSED = {
    "delete_marker": "hoodie.payload.delete.field",
    "h102_v8_sql_merge": "changed columns only",
    "mor_partial_payload": "IGNORE_DEFAULTS",
    "multi_ordering_mor": "hoodie.table.ordering.fields=ts,val",
    "payload_custom": "ReverseOrderHoodieRecordPayload",
    "payload_event_time": "EventTimeAvroPayload",
    "payload_nondefaults": "IGNORE_DEFAULTS",
    "payload_postgres_debezium": "FILL_UNAVAILABLE",
    "sql_mor_merge": "changed columns only",
    "sql_partial_updates2": "changed columns only",
}
#: a table of each feature; the others are of the full tier
FEATURES = {
    "1.2.0-v8/mor_compacted",
    "1.2.0-v9/cow_delete_partition",
    "1.2.0-v9/mor_clustered",
    "1.2.0-v9/mor_late_overwrite",
    "1.2.0-v9/mor_logcompaction",
    "1.2.0-v9/mor_pending_compaction",
    "1.2.0-v9/mor_rollback_failed",
    "1.2.0-v9/mor_types_flat",
    "more/h102_v8_mor",
    "more/nbcc_compaction_between",
    "more/up_6to9_mor",
}


def asked(file: str) -> dict[str, Any] | None:
    """The query that Hudi answered with this file; None for those that go by completion times."""
    kind, *times = file.split("_")
    queries: dict[str, dict[str, Any]] = {
        "snapshot": {},
        "ro": {"query": "read_optimized"},
        "asof": {"as_of": times[0] if times else ""},
    }
    return queries.get(kind)


@pytest.mark.parametrize("name", full_but(FEATURES, TABLES))
def test_rows_are_those_of_hudi(later_tables: Path, later_more: Path, name: str) -> None:
    folder = (later_more if name.startswith("more") else later_tables) / name
    table, short = str(folder / "table"), name.partition("/")[2]
    answers = sorted((folder / "expected").glob("*.parquet"))
    assert answers
    for file in answers:
        query = asked(file.stem)
        if query is None or (short in REFUSED and file.stem != "snapshot"):
            continue
        if short in REFUSED:
            with pytest.raises(HoodieError, match=REFUSED[short]):
                hoodie.read_table(table)
            continue
        got, expected = hoodie.read_table(table, **query), pq.read_table(file)
        assert_same_rows(
            got, expected, ignore=[FROM_PATH[short]] if short in FROM_PATH else [], what=file.stem
        )
