"""Columns by id: Apache Hudi's own texts read and written byte for byte, and ids for new columns."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie.errors import TableError
from hoodie.format.internal_schema import InternalSchema, inherited, parse_history, schema_at
from hoodie.format.meta_fields import with_meta
from hoodie.format.schema import from_avro
from hoodie.timeline.time import InstantTime
from tests.support.evolved import commits

TABLES = ["evolved_cow", "evolved_mor"]


def _extra(table: Path, instant: str) -> dict[str, str]:
    (file,) = (file for file in table.glob(f".hoodie/{instant}.*commit"))
    metadata: dict[str, str] = json.loads(file.read_text())["extraMetadata"]
    return metadata


@pytest.mark.parametrize("name", TABLES)
def test_texts_of_apache_hudi_come_out_as_they_went_in(evolved_tables: Path, name: str) -> None:
    table = evolved_tables / name
    seen = 0
    for instant in commits(table):
        latest = _extra(table, instant).get("latest_schema")
        if latest is None:
            continue
        seen += 1
        assert InternalSchema.parse(latest).to_json() == latest
        text = (table / f".hoodie/.schema/{instant}.schemacommit").read_text()
        history = parse_history(text)
        again = ""
        for schema in history:
            again = inherited(schema, again)
        assert again == text
        assert history[-1].to_json() == latest
    assert seen > 10


@pytest.mark.parametrize("name", TABLES)
def test_a_new_schema_has_the_ids_that_apache_hudi_gives(evolved_tables: Path, name: str) -> None:
    """Its conversion of the first commit's Avro schema is the oldest schema of the history."""
    table = evolved_tables / name
    first, *_, last = commits(table)
    history = parse_history((table / f".hoodie/.schema/{last}.schemacommit").read_text())
    stored = with_meta(from_avro(_extra(table, first)["schema"]))
    assert InternalSchema.of(stored).to_json() == history[0].to_json()
    assert schema_at(history, InstantTime(first)) is history[0]
    assert schema_at(history, InstantTime(last)) is history[-1]


@pytest.mark.parametrize("name", TABLES)
def test_nothing_changes_where_the_avro_schema_is_the_same(evolved_tables: Path, name: str) -> None:
    table = evolved_tables / name
    for instant in commits(table)[1:]:
        extra = _extra(table, instant)
        known = InternalSchema.parse(extra["latest_schema"])
        assert known.extended(with_meta(from_avro(extra["schema"]))) is known


def test_new_columns_get_new_ids_and_known_ones_keep_theirs() -> None:
    before = pa.schema([("a", pa.int32()), ("s", pa.struct([("x", pa.int32())])), ("d", pa.decimal128(9, 2))])
    known = InternalSchema.of(before, 7)
    nested = pa.struct([("x", pa.int64()), ("z", pa.list_(pa.string()))])
    more = pa.map_(pa.string(), pa.struct([("m", pa.bool_())]))
    now = known.extended(
        pa.schema([("a", pa.int32()), ("s", nested), ("d", pa.decimal128(9, 2)), ("n", more)])
    )
    assert (known.max_id, now.max_id, now.version) == (3, 9, 7)
    assert json.loads(now.to_json())["fields"] == [
        {"id": 0, "name": "a", "optional": True, "type": "int"},
        {
            "id": 1,
            "name": "s",
            "optional": True,
            "type": {
                "type": "record",
                "fields": [
                    {"id": 3, "name": "x", "optional": True, "type": "long"},
                    {
                        "id": 5,
                        "name": "z",
                        "optional": True,
                        "type": {
                            "type": "array",
                            "element_id": 6,
                            "element": "string",
                            "element_optional": True,
                        },
                    },
                ],
            },
        },
        {"id": 2, "name": "d", "optional": True, "type": "decimal(9, 2)"},
        {
            "id": 4,
            "name": "n",
            "optional": True,
            "type": {
                "type": "map",
                "key_id": 7,
                "key": "string",
                "value_id": 8,
                "value": {
                    "type": "record",
                    "fields": [{"id": 9, "name": "m", "optional": True, "type": "boolean"}],
                },
                "value_optional": True,
            },
        },
    ]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"fields":[{"id":"a"}]}', '{"fields":[{"id":1}]}'])
def test_torn_texts_are_named(text: str) -> None:
    with pytest.raises(TableError, match=r"restore the commit's file"):
        InternalSchema.parse(text)
    with pytest.raises(TableError, match=r"restore the commit's file"):
        parse_history(text)
