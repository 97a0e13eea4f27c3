"""What a refusal of a source says: the file, and the row and column where there is one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc

import hoodie
from hoodie.errors import InputError

OPTIONS = {"hoodie.datasource.write.recordkey.field": "id"}


def refusal(path: Path, **how: Any) -> str:
    """Of an ingestion of the folder `source`; the files are named by their names alone."""
    with pytest.raises(InputError) as caught:
        hoodie.ingest(str(path / "source"), str(path / "table"), options=OPTIONS, **how)
    return caught.value.message.replace(f"{path / 'source'}/", "")


def laid(path: Path, **files: bytes | str) -> None:
    """Files in the folder `source`; two underscores are a dot."""
    (path / "source").mkdir()
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (path / "source" / name.replace("__", ".")).write_bytes(data)


def avro(*keys: int | None) -> bytes:
    fields = [{"name": "id", "type": ["null", "long"]}]
    data = io.BytesIO()
    fastavro.writer(data, {"type": "record", "name": "r", "fields": fields}, [{"id": key} for key in keys])
    return data.getvalue()


def orc_keys(*keys: int | None) -> bytes:
    data = io.BytesIO()
    orc.write_table(pa.table({"id": pa.array(keys, pa.int64())}), data)
    return data.getvalue()


KEYLESS: dict[str, tuple[bytes, bytes]] = {
    "csv": (b"id,v\n1,2\n", b"id,v\n,3\n"),
    "json": (b'{"id": 1, "v": 2}\n', b'{"id": null, "v": 3}\n{"id": 4}\n'),
    "avro": (avro(1), avro(None)),
    "orc": (orc_keys(1), orc_keys(None)),
}


@pytest.mark.parametrize("kind", KEYLESS)
def test_a_refused_row_names_its_file(tmp_path: Path, kind: str) -> None:
    good, bad = KEYLESS[kind]
    laid(tmp_path, **{f"a__{kind}": good, f"b__{kind}": bad})
    said = refusal(tmp_path)
    assert "record key column 'id' is null" in said
    assert f"(read from b.{kind}" in said


def test_of_few_files_that_were_read_at_once_each_is_named(tmp_path: Path) -> None:
    laid(tmp_path, a__csv="id,v\n1,2\n", b__csv="id,v\n,3\n", c__csv="id,v\n4,3\n")
    assert refusal(tmp_path).endswith("(read from c.csv, or from b.csv, or from a.csv)")


def test_of_many_the_last_is_named(tmp_path: Path) -> None:
    laid(tmp_path, **{f"{number}__csv": f"id,v\n{number or ''},2\n" for number in range(8)})
    assert refusal(tmp_path).endswith("(read from 7.csv, or from 7 files before it)")
