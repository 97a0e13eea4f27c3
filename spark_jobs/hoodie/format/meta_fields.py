"""The meta columns that open every file of a table (format.md 6.1; Apache Hudi 0.15.0 HoodieRecord)."""

from __future__ import annotations

import pyarrow as pa

from hoodie.errors import InputError

COMMIT_TIME = "_hoodie_commit_time"
COMMIT_SEQNO = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"
#: optional sixth meta column of change-log tables; no table written here has it
OPERATION = "_hoodie_operation"
#: an ordinary boolean column of the user's rows: true deletes the row
IS_DELETED = "_hoodie_is_deleted"

#: names in file order
META_COLUMNS = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
META_FIELDS = tuple(pa.field(name, pa.string()) for name in META_COLUMNS)

#: what a file has in all its rows alike: a rewrite of the rows need not read it
_OF_THE_FILE = (PARTITION_PATH, FILE_NAME)

_META = frozenset((*META_COLUMNS, OPERATION))


def with_meta(schema: pa.Schema) -> pa.Schema:
    """`schema` with the five meta columns first, whatever meta columns it had; metadata is dropped."""
    return pa.schema([*META_FIELDS, *without_meta(schema)])


def without_meta(schema: pa.Schema) -> pa.Schema:
    """`schema` without meta columns (`_hoodie_operation` included, `_hoodie_is_deleted` is the user's)."""
    return pa.schema([field for field in schema if field.name not in _META])


def carried(schema: pa.Schema, *others: str) -> list[str]:
    """The columns of stored rows that go into another file with them, and these others, in their order."""
    return [name for name in schema.names if name not in _OF_THE_FILE or name in others]


def check_reserved(schema: pa.Schema) -> None:
    """InputError when incoming rows have a column that only the writer may fill."""
    taken = [name for name in schema.names if name.lower() in _META]
    if taken:
        raise InputError(
            f"the input has reserved columns {', '.join(taken)}: the writer fills them; drop or rename them, "
            f"e.g. read the source with meta columns left out",
            columns=", ".join(taken),
        )
    for field in schema:
        if field.name == IS_DELETED and not pa.types.is_boolean(field.type):
            raise InputError(
                f"column {IS_DELETED} has type {field.type}; it marks deleted rows: cast it to boolean",
                column=IS_DELETED,
            )
