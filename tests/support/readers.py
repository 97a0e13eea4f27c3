"""hudi-rs and Daft as judges of a table, and what each is known not to do (hudi 0.5.0, daft 0.7.26)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

HUDI_RS_GAPS = {
    "drop partition columns": "hudi-rs refuses tables whose files lack the partition columns",
    "local timestamp": "hudi-rs panics on the Avro type local-timestamp-micros in a commit's schema",
    "pending compaction": "hudi-rs does not merge log files of a new base instant with the previous slice",
    "nested log timestamp": "hudi-rs can't reconcile a timestamp in a map of structs of an Avro log block",
    "partial payload": "hudi-rs refuses PartialUpdateAvroPayload and merger classes of one's own",
    "late overwrite": "hudi-rs merges OverwriteWithLatestAvroPayload by commit time inside a log too",
    "archived incremental": "hudi-rs answers an incremental query from the active timeline only",
    "partition from path": "hudi-rs gives the partition column of the file, Hudi 0.15.0 that of the path",
}
"""Feature -> what hudi-rs does with it, for strict xfails."""

DAFT_GAPS = {
    "inflight": "Daft shows files of commits that are not completed",
    "replaced files": "Daft ignores replacecommits: rows of replaced file groups stay visible",
    "two-level list of structs": "Daft panics on the two-level list<struct> that Hudi writes by default",
    "uneven statistics": "Daft fails where a column is all null in one file and not in another",
    "empty latest commit": "Daft takes the schema from the latest commit's first file: no file, no columns",
    "failed write": "Daft opens the empty file of a write that failed",
    "drop partition columns": "Daft refuses tables whose files lack the partition columns",
    "merge on read": "Daft reads copy-on-write tables only",
    "partition from path": "Daft gives the partition column of the file, Hudi 0.15.0 that of the path",
}
"""Feature -> what Daft does with it, for strict xfails."""


class ReaderError(Exception):
    """A reader failed, be it by an error or by a Rust panic (which is no Exception in Python)."""


def read_hudi_rs(
    path: str | Path,
    *,
    columns: Sequence[str] = (),
    as_of: str | None = None,
    begin: str | None = None,
    end: str | None = None,
) -> pa.Table:
    """What hudi-rs answers: a snapshot, as of an instant, or with `begin` the rows changed in (begin, end].

    Meta columns are in it. ReaderError where hudi-rs fails.
    """
    from hudi import HudiQueryType, HudiReadOptions, HudiTableBuilder

    options = HudiReadOptions()
    if columns:
        options = options.with_projection(list(columns))
    if as_of is not None:
        options = options.with_as_of_timestamp(as_of)
    if begin is not None:
        options = options.with_query_type(HudiQueryType.Incremental).with_start_timestamp(begin)
    if end is not None:
        options = options.with_end_timestamp(end)
    try:
        table = HudiTableBuilder.from_base_uri(str(path)).build()
        batches = [pa.record_batch(batch) for batch in table.read(options)]
        schema = batches[0].schema if batches else pa.schema(table.get_schema_with_meta_fields())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a Rust panic is a BaseException
        raise ReaderError(f"hudi-rs: {error}") from error
    return pa.Table.from_batches(batches, schema).replace_schema_metadata(None)


def read_daft(path: str | Path) -> pa.Table:
    """Daft's snapshot of a copy-on-write table. ReaderError where Daft fails."""
    os.environ.setdefault("DAFT_PROGRESS_BAR", "0")
    os.environ.setdefault("DAFT_ANALYTICS_ENABLED", "0")
    import daft

    try:
        return daft.read_hudi(str(path)).to_arrow()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a Rust panic is a BaseException
        raise ReaderError(f"Daft: {error}") from error
