"""CSV on the Spark engine: it takes and refuses the same files as the local engine, with the same rows."""

from __future__ import annotations

import base64
import gzip
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import HoodieError
from hoodie.source import Source
from hoodie.source.arrow import read
from tests.spark.answers import Servers
from tests.spark.test_spark_sources import rows
from tests.support.odd_csv import Odd, odd_files

pytestmark = [pytest.mark.spark, pytest.mark.full]

OPTIONS = {"hoodie.datasource.write.recordkey.field": "id"}


def _local(odd: Odd, path: str) -> pa.Table | str:
    """The rows, or the error's code."""
    try:
        return rows(read(Source.of({"path": path, "options": odd.options}), odd.known))
    except HoodieError as error:
        return error.code


@pytest.mark.parametrize(
    ("mode", "part_bytes", "chosen"),
    [
        ("classic", "128m", slice(0, None, 6)),
        ("classic", "64", slice(3, None, 6)),
        ("connect", "64", slice(1, None, 18)),
    ],
    ids=["whole", "parts", "connect"],
)
def test_both_engines_take_and_refuse_the_same(
    servers: Servers, tmp_path: Path, mode: str, part_bytes: str, chosen: slice
) -> None:
    """Some of the files each. A later part of a file has no header, and its lines are counted from there."""
    files = list(odd_files())[chosen]
    asked = []
    for number, odd in enumerate(files):
        path = tmp_path / f"{number}.csv"
        path.write_bytes(odd.text)
        known = "" if odd.known is None else base64.b64encode(odd.known.serialize()).decode()
        asked.append(
            [{"path": str(path), "options": dict(odd.options)}, known, str(tmp_path / f"{number}.parquet")]
        )
    errors = []
    for begin in range(0, len(asked), 5):  # each within the time that an answer may take
        errors += servers.ask("sources", mode, asked[begin : begin + 5], part_bytes)["errors"]
    servers.ask("sources", mode, [])
    wrong: list[Any] = []
    for number, (odd, (kind, text)) in enumerate(zip(files, errors, strict=True)):
        place = str(tmp_path / f"{number}.csv")
        ours = _local(odd, place)
        if kind:
            refused = kind.endswith(("InputError", "ConfigError", "SourceNotFound")) or "InputError: " in text
            if not refused or not isinstance(ours, str) or not (place in text or "more than once" in text):
                wrong.append((odd.name, kind, text[-300:], str(ours)[-100:]))
            continue
        written = pq.read_table(tmp_path / f"{number}.parquet")
        if not written.num_columns and mode == "connect" and not isinstance(ours, str) and not ours.num_rows:
            continue  # Connect's toArrow gives a result without rows no columns
        theirs = rows(pq.read_table(tmp_path / f"{number}.parquet"))
        if isinstance(ours, str) or not odd.kept(
            theirs.select(pq.read_table(tmp_path / f"{number}.parquet").column_names)
        ):
            wrong.append((odd.name, str(theirs.to_pylist()[-2:]), ours if isinstance(ours, str) else ""))
        elif [str(kind) for kind in ours.schema.types] != [str(kind) for kind in theirs.schema.types]:
            wrong.append((odd.name, str(ours.schema), str(theirs.schema)))
    assert wrong == []


def test_files_of_different_columns_and_folders(servers: Servers, tmp_path: Path) -> None:
    for name, text in (
        ("year=2024/a.csv", "id,v\n1,1.50\n"),
        ("year=2023/b.csv", "v,w,id\nx,14:05,2\n"),
        ("year=2023/c.csv.gz", "id\n3\n"),
    ):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    source = {"path": str(tmp_path / "in"), "format": "csv"}
    ours = rows(read(Source.of(source)))
    out = str(tmp_path / "rows.parquet")
    assert servers.ask("sources", "classic", [[source, "", out]])["errors"] == [["", ""]]
    theirs = rows(pq.read_table(out))
    assert theirs.to_pylist() == ours.to_pylist()
    assert theirs.schema.types == ours.schema.types
    assert [row["v"] for row in ours.to_pylist()] == ["1.50", "x", None]
    (tmp_path / "in" / "year=2024" / "d.csv").write_bytes(b"")
    (tmp_path / "cut.csv.gz").write_bytes(
        gzip.compress("".join(f"{n},{n * 7}\n" for n in range(9999)).encode())[:-900]
    )
    own: dict[str, Any] = {"path": str(tmp_path / "latin.csv"), "options": {"dateFormat": "dd.MM.yyyy"}}
    (tmp_path / "latin.csv").write_bytes("id,v\n1,é\n".encode("latin-1"))
    asked = [[path, "", out] for path in (source, str(tmp_path / "*.csv.gz"), own)]
    (_, empty), (kind, cut), (other, latin) = servers.ask("sources", "classic", asked)["errors"]
    assert "d.csv is empty" in empty
    assert kind == other == "InputError"
    assert str(tmp_path / "cut.csv.gz") in cut
    assert "latin.csv as csv: line 2: the text is not UTF-8 (byte 0xe9)" in latin
    own["options"] |= {"encoding": "ISO-8859-1"}
    assert servers.ask("sources", "classic", [[own, "", out]])["errors"] == [["", ""]]
    assert pq.read_table(out)["v"].to_pylist() == ["é"]


def test_lines_that_are_no_csv_are_rows_of_the_error_table(servers: Servers, tmp_path: Path) -> None:
    table, errors = str(tmp_path / "t"), str(tmp_path / "errors")
    hoodie.write_table(pa.table({"id": [0], "n": [0]}), table, options=OPTIONS)
    lines = ['2,2,"5 inch', '3,3,"a', 'b,4,c"', "4,5", "5,x,y", "6,7,M\ufffdller", ",8,x"]
    text = "id,n,v\n1,1,x\n" + "\n".join(lines) + '\n9,9,"a ""b"""\n'
    (tmp_path / "a.csv").write_bytes(text.encode().replace("\ufffd".encode(), b"\xfc"))
    source: dict[str, Any] = {"path": str(tmp_path / "a.csv")}
    asked: list[Any] = [[source, table, {"options": OPTIONS, "error_table": errors}]]
    [result] = servers.ask("ingestion", "classic", asked)["results"]
    assert result["num_bad_rows"] == len(lines)
    taken = hoodie.read_table(table, columns=["id", "v"]).to_pylist()
    assert sorted((row["id"], row["v"]) for row in taken) == [(0, None), (1, "x"), (9, 'a "b"')]
    found = [row["record"] for row in hoodie.read_table(errors).to_pylist()]
    assert sorted(found) == sorted([*lines[:-1], '{"id": null, "n": 8, "v": "x"}'])
    asked[0][0]["options"] = {"multiLine": "true"}
    asked[0][1] = str(tmp_path / "other")
    [refused] = servers.ask("ingestion", "classic", asked)["results"]
    assert "it is not known where a bad record of CSV ends" in refused["message"]


def test_an_upsert_names_the_value_that_does_not_fit(servers: Servers, tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    hoodie.write_table(pa.table({"id": [0], "n": pa.array([0], pa.int32())}), table, options=OPTIONS)
    (tmp_path / "a.csv").write_text("id,n\n1,2\n2,3000000000\n")
    asked = [[{"path": str(tmp_path / "a.csv")}, table, {"options": OPTIONS}]]
    [result] = servers.ask("ingestion", "classic", asked)["results"]
    assert re.search(r"a\.csv as csv: column 'n': row 3: .*'3000000000'", result["message"])
    assert hoodie.read_table(table, columns=["n"])["n"].to_pylist() == [0]
