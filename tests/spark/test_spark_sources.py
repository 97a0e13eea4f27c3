"""Sources of the Spark engine: the same rows and types as the local engine reads."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import InputError
from hoodie.source import Source
from hoodie.source import arrow as local
from tests.house.test_docs import PAGES, blocks
from tests.spark.answers import Servers
from tests.spark.sources import source_of
from tests.support.arrow import arrow_schema
from tests.support.parquet_files import ENCRYPTIONS, encrypted, enums
from tests.support.record_files import FULL, NONE, avro_file, orc_file
from tests.unit.test_docs import KEYS, orders
from tests.unit.test_source_arrow import ARRAYS, CSV, LONG_JSON, NESTED

pytestmark = [pytest.mark.spark, pytest.mark.full]

KNOWN = arrow_schema(
    [
        ("id", pa.int32()),
        ("price", pa.decimal128(9, 2)),
        ("a", pa.list_(pa.float64())),
        ("day", pa.date32()),
        ("s", pa.struct([("c", pa.float64()), ("e", pa.struct([("x", pa.int64())]))])),
        ("l", pa.list_(pa.struct([("x", pa.int64())]))),
    ]
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "a.csv").write_text(CSV)
    (folder / "none.csv").write_text("id,n\n")
    (folder / "zero.csv").write_text("")
    (folder / "bad.parquet").write_text("no parquet")
    (folder / "text.csv").write_text("id,price\nx,1\n")
    (folder / "a.json").write_text(
        '{"id": 1, "a": [1], "s": {"x": 1}, "z": null, "day": "2024-02-29",'
        ' "at": "2024-01-01T02:00:00+02:00"}\n'
        '{"id": 2, "a": [], "s": {"x": 2.5}, "day": null}\n'
    )
    (folder / "new.json").write_text(NESTED)
    (folder / "arrays.json").write_text(ARRAYS["lines"])
    (folder / "one.json").write_text(ARRAYS["one"])
    (folder / "long.json").write_text(LONG_JSON)
    (folder / "in_avro").mkdir()
    avro_file(folder / "in_avro" / "a.avro", [FULL])
    avro_file(folder / "in_avro" / "b.avro", [NONE])
    (folder / "in_orc").mkdir()
    orc_file(folder / "in_orc" / "a.orc")
    halves: Any = pa.array([1.5, None], pa.float16())
    json: Any = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', None]))
    odd = pa.table({"id": [1, 2], "v": ["FOO", None], "h": halves, "j": json})
    enums(folder / "odd.parquet", odd)
    for kind in ENCRYPTIONS:
        (folder / kind).mkdir()
        pq.write_table(pa.table({"id": [1], "v": ["x"]}), folder / kind / "a.parquet")
        encrypted(folder / kind / "b.parquet", kind, pa.table({"id": [1], "v": ["x"]}))
    (folder / "empty").mkdir()
    (folder / "united").mkdir()
    pq.write_table(pa.table({"id": [1], "a": ["x"]}), folder / "united" / "1.parquet")
    pq.write_table(pa.table({"id": [2], "b": [1.5]}), folder / "united" / "2.parquet")
    return folder


def rows(frame: Any) -> pa.Table:
    """Rows of either engine in one form: microseconds in UTC, columns by name, rows by id."""
    found = frame if isinstance(frame, pa.Table) else frame.to_table()
    fields = []
    for field in found.schema:
        dtype = pa.timestamp("us", "UTC") if pa.types.is_timestamp(field.type) else field.type
        fields.append(pa.field(field.name, dtype))
    found = found.cast(pa.schema(fields))
    return found.select(sorted(found.column_names)).sort_by("id")


def kind_of(dtype: pa.DataType) -> str:
    """Without the names of what lists and maps hold."""
    return re.sub(r" \('\w+'\)", "", str(dtype).replace("element:", "item:"))


class Refused(Exception):
    """The name and the text of the error on Spark's side."""


def distributed(servers: Servers, folder: Path, source: Any, known: pa.Schema | None = None) -> pa.Table:
    """What Spark reads. Raises Refused."""
    schema = "" if known is None else base64.b64encode(known.serialize()).decode()
    out = folder / "rows.parquet"
    [(kind, text)] = servers.ask("sources", "classic", [[source, schema, str(out)]])["errors"]
    if kind:
        raise Refused(f"{kind}: {text}")
    return pq.read_table(out)


@pytest.mark.parametrize("kind", ["avro", "orc"])
def test_both_engines_read_the_same_records(kind: str, servers: Servers, data: Path, tmp_path: Path) -> None:
    ours = rows(local.read(Source.of(str(data / f"in_{kind}"))))
    theirs = rows(distributed(servers, tmp_path, str(data / f"in_{kind}")))
    assert [*map(kind_of, ours.schema.types)] == [*map(kind_of, theirs.schema.types)]
    assert ours.to_pylist() == theirs.to_pylist()
    assert ours.num_rows == 2


@pytest.mark.parametrize("kind", ["avro", "orc"])
def test_a_damaged_file_of_records_is_named(kind: str, servers: Servers, data: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    [whole] = (data / f"in_{kind}").glob("a.*")
    (tmp_path / "in" / whole.name).write_bytes(whole.read_bytes())
    (tmp_path / "in" / f"b.{kind}").write_bytes(whole.read_bytes()[:100])
    with pytest.raises(Refused, match=rf"InputError.*b\.{kind}"):
        distributed(servers, tmp_path, str(tmp_path / "in"))


@pytest.mark.parametrize("name", ["arrays.json", "one.json", "long.json"])
def test_both_engines_read_the_same_json(name: str, servers: Servers, data: Path, tmp_path: Path) -> None:
    ours = rows(local.read(Source.of(str(data / name))))
    theirs = rows(distributed(servers, tmp_path, str(data / name)))
    kinds = [str(kind).replace("element:", "item:") for kind in theirs.schema.types]
    assert [str(kind) for kind in ours.schema.types] == kinds
    assert ours.to_pylist() == theirs.to_pylist()


@pytest.mark.parametrize("kind", ENCRYPTIONS)
def test_an_encrypted_file_is_refused_by_name(
    kind: str, servers: Servers, data: Path, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match=f"InputError: .*{kind}.*ncrypt"):
        distributed(servers, tmp_path, str(data / kind))


@pytest.mark.parametrize("name", ["a.csv", "none.csv", "a.json", "new.json", "united", "odd.parquet"])
@pytest.mark.parametrize("known", [pytest.param(None, id="no table"), pytest.param(KNOWN, id="a table")])
def test_both_engines_read_the_same(
    name: str, known: pa.Schema | None, servers: Servers, data: Path, tmp_path: Path
) -> None:
    source = str(data / name)
    if name == "a.json" and known is not None:
        known = pa.schema([field for field in known if field.name != "price"])
    ours = rows(local.read(Source.of(source), known))
    theirs = rows(distributed(servers, tmp_path, source, known))
    assert ours.column_names == theirs.column_names
    assert [str(kind) for kind in ours.schema.types] == [
        str(kind).replace("element:", "item:") for kind in theirs.schema.types
    ]
    assert ours.to_pylist() == theirs.to_pylist()


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_some_files_and_a_transform(servers: Servers, tmp_path: Path, suffix: str) -> None:
    files = [tmp_path / "in" / f"day={number}" / f"1.{suffix}" for number in (1, 2, 3)]
    for number, file in enumerate(files):
        file.parent.mkdir(parents=True)
        values = pa.table({"id": [f"a{number}", "b"], "n": [number, 7]})
        pq.write_table(values, file) if suffix == "parquet" else pyarrow.csv.write_csv(values, file)
    given = {"path": str(tmp_path / "in"), "only": [str(file) for file in files[:2]], "format": suffix}
    text = "select id, cast(sum(n) as bigint) as n, max(day) as day from source group by id"
    found = rows(distributed(servers, tmp_path, {**given, "transform": text}))
    wanted = [("a0", 0, 1), ("a1", 1, 2), ("b", 14, 2)]
    assert [(row["id"], row["n"], row["day"]) for row in found.to_pylist()] == wanted
    ours = local.read(source_of({**given, "transform": text}))
    assert isinstance(ours, pa.RecordBatchReader)
    assert rows(ours.read_all()).to_pylist() == found.to_pylist()


def test_a_transform_that_is_wrong(servers: Servers, data: Path) -> None:
    for text in ("select nosuch from source", "select from where"):
        with pytest.raises(
            Refused, match=r"ConfigError: the transform can't be evaluated: .*columns of source"
        ):
            distributed(servers, data, {"path": str(data / "united"), "transform": text})


@pytest.mark.parametrize("name", ["nosuch.parquet", "no*.json", "empty", "zero.csv"])
def test_no_such_source(name: str, servers: Servers, data: Path) -> None:
    with pytest.raises(Refused, match="SourceNotFound: no such source") as caught:
        distributed(servers, data, str(data / name))
    assert str(data / name) in str(caught.value)


def test_what_can_not_be_read_says_why_in_one_line(servers: Servers, data: Path) -> None:
    with pytest.raises(
        Refused, match=r"InputError: can't read .*bad\.parquet as parquet: .*not a Parquet file"
    ) as caught:
        distributed(servers, data, str(data / "bad.parquet"))
    assert "\n" not in str(caught.value)
    with pytest.raises(Refused, match="InputError: can't read SELECT FROM WHERE as sql"):
        distributed(servers, data, {"path": "SELECT FROM WHERE", "format": "sql"})


def test_a_malformed_value_is_no_null(servers: Servers, data: Path) -> None:
    with pytest.raises(Refused, match=r"InputError: .*text\.csv.*column 'id': row 2: .*'x'"):
        distributed(servers, data, str(data / "text.csv"), KNOWN)


def test_queries_and_tables(servers: Servers, tmp_path: Path) -> None:
    query = {"path": "SELECT 1 AS id, 'x' AS t", "format": "sql"}
    assert distributed(servers, tmp_path, query).to_pylist() == [{"id": 1, "t": "x"}]
    path = str(tmp_path / "t")
    given = pa.table({"id": [1, 2], "t": ["a", "b"]})
    hoodie.write_table(given, path, options={"hoodie.datasource.write.recordkey.field": "id"})
    assert rows(distributed(servers, tmp_path, {"path": path, "format": "table"})) == given
    with pytest.raises(Refused, match="is a Hudi table; read it with the source format 'table'"):
        distributed(servers, tmp_path, path)


def test_the_examples_of_the_docs_run(servers: Servers, tmp_path: Path) -> None:
    table = str(tmp_path / "orders")
    hoodie.write_table(orders(), table, options=KEYS)
    texts = [text for page in PAGES for text in blocks(page, "python") if "=spark" in text]
    assert texts
    asked = [text.replace("/data/orders", table) for text in texts]
    assert servers.ask("examples", "classic", asked)["counts"] == [3] * len(texts)


def test_records_that_can_not_be_written_are_rows_of_the_error_table(
    servers: Servers, tmp_path: Path
) -> None:
    folder, table, errors = tmp_path / "in", str(tmp_path / "t"), str(tmp_path / "errors")
    folder.mkdir()
    first = pa.table({"id": ["a"], "n": pa.array([1], pa.int32()), "s": ["x"]})
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "n",
    }
    hoodie.write_table(first, table, options=options)
    (folder / "b 1.json").write_text(
        '{"id":"b","n":2,"s":"x"}\n{"id":"c","n":"x"}\n{"id":\n{"n":5}\n{"id":"f","s":"y"}\n'
    )
    (folder / "2.csv").write_text("id,n,s\ng,7,x\nh,x,y\ni,9\n,1,x\n")
    pq.write_table(pa.table({"id": ["j", None], "n": [10, 11], "s": ["x", "y"]}), folder / "3.parquet")
    asked: list[Any] = []
    for format in ("json", "csv", "parquet"):
        source = {"path": f"{folder}/*.{format}", "format": format}
        asked.append([source, table, {"options": options, "error_table": errors, "max_bad_rows": 4}])
        asked.append([source, table, {"options": options, "error_table": errors}])
    (folder / "4.txt").write_text("id,n,s\nk,12,x\nl,x,x\nm,x,x\n")
    source = {"path": f"{folder}/4.txt", "format": "csv"}
    asked.append([source, table, {"options": options, "error_table": errors, "max_bad_rows": 1}])
    *results, refused = servers.ask("ingestion", "classic", asked)["results"]
    assert [item.get("num_bad_rows", item) for item in results] == [4, 0, 3, 0, 1, 0]
    assert "more than 1 rows of the source are bad" in refused["message"]
    assert sorted(hoodie.read_table(table)["id"].to_pylist()) == ["a", "b", "g", "j"]
    found = hoodie.read_table(errors).to_pylist()
    assert sorted((Path(row["file"]).name, row["record"]) for row in found) == sorted(
        [
            ("2.csv", '{"id": null, "n": 1, "s": "x"}'),
            ("2.csv", "h,x,y"),
            ("2.csv", "i,9"),
            ("3.parquet", '{"id": null, "n": 11, "s": "y"}'),
            ("b 1.json", '{"id": "f", "n": null, "s": "y"}'),
            ("b 1.json", '{"id": null, "n": 5, "s": null}'),
            ("b 1.json", '{"id":"c","n":"x"}'),
            ("b 1.json", '{"id":'),
        ]
    )


def test_functions_of_batches(servers: Servers, tmp_path: Path) -> None:
    found = pa.table({"id": ["a", "b", "c"], "n": pa.array([1, 2, None], pa.int64())})
    pq.write_table(found, tmp_path / "a.parquet")
    module, path = "tests.support.functions", str(tmp_path / "a.parquet")

    def called(name: str) -> list[Any]:
        found = distributed(servers, tmp_path, {"path": path, "transform": f"{module}:{name}"})
        return found.sort_by("id").to_pylist()

    assert called("doubled") == [{"id": "a", "n": 2, "text": "2"}, {"id": "b", "n": 4, "text": "4"}]
    assert [row["n"] for row in called("needs_rows")] == [1, 1, 1]
    assert called("nothing") == []
    for name, text in (
        ("wrong", f"the transform {module}:wrong returned a dict"),
        (
            "fails",
            rf"{module}:fails raised ValueError: no such country \(in fails, .*functions.py, line \d+\)",
        ),
        ("nosuch", f"{module}:nosuch can't be imported"),
    ):
        with pytest.raises(Refused, match=text):
            called(name)


ODD_JSON = {
    "two on a line": '{"id": 1}{"id": 2}\n',
    "nulls first": '{"id": 1, "v": [null, 1], "s": {"a": null}}\n{"id": 2, "v": [], "s": {"a": 1}}\n',
    "nulls alone": '{"id": 1, "v": null, "l": [], "s": {"a": null}}\n',
    "quotes": "{'id': 1}\n",
    "a comment": '{"id": 1} // more\n',
    "no double": '{"id": 1, "s": {"v": 9007199254740993}}\n{"id": 2, "s": {"v": 1.5}}\n',
    "no double in an array": '{"id": 1, "v": [9007199254740993, 1.5]}\n',
    "beyond a double": '{"id": 1, "v": 1e400}\n',
    "beyond a float": '{"id": 1, "f": 1e300}\n',
    "a long decimal": '{"id": 1, "d": 1.005}\n',
    "nanoseconds": '{"id": 1, "t": "2024-01-01T10:00:00.123456789Z"}\n',
    "a time for a day": '{"id": 1, "day": "2024-01-01T10:00:00"}\n',
    "bytes": '{"id": 1, "x": "YWJj"}\n',
    "half a pair": '{"id": 1, "v": "\\ud83d"}\n',
}
ODD_KNOWN = arrow_schema(
    [
        ("id", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.decimal128(9, 2)),
        ("t", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("x", pa.binary()),
    ]
)


def content(found: pa.Table) -> tuple[list[str], list[dict[str, Any]]]:
    """Types and values by the columns' names: their order is not the same in all."""
    found = found.select(sorted(found.column_names))
    return [str(kind).replace("element:", "item:") for kind in found.schema.types], found.to_pylist()


def taken(path: Path, known: pa.Schema | None) -> pa.Table | str:
    """What the local engine reads of a file, or why it does not."""
    try:
        return rows(local.read(Source.of(str(path)), known))
    except InputError as error:
        return error.message.partition(": ")[2].partition(";")[0]


def all_read(servers: Servers, folder: Path, sources: Any, known: pa.Schema | None = None) -> list[Any]:
    """What Spark reads, or the text of its refusal, of each source."""
    schema = "" if known is None else base64.b64encode(known.serialize()).decode()
    asked = [[source, schema, str(folder / f"{number}.out")] for number, source in enumerate(sources)]
    errors = servers.ask("sources", "classic", asked)["errors"]
    return [
        text if kind else pq.read_table(out) for (kind, text), (_, _, out) in zip(errors, asked, strict=True)
    ]


def test_both_engines_take_and_refuse_the_same_json(servers: Servers, tmp_path: Path) -> None:
    paths = []
    for number, text in enumerate(ODD_JSON.values()):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(text)
    theirs = all_read(servers, tmp_path, map(str, paths), ODD_KNOWN)
    for name, path, found in zip(ODD_JSON, paths, theirs, strict=True):
        ours = taken(path, ODD_KNOWN)
        if isinstance(ours, str):
            assert isinstance(found, str), name
            assert ours in found
        else:
            assert not isinstance(found, str), (name, found)
            assert content(ours) == content(found), name


def test_folders_are_the_same_columns_on_both_engines(servers: Servers, tmp_path: Path) -> None:
    def file(folder: Path, kind: str) -> None:
        folder.mkdir(parents=True)
        if kind == "csv":
            (folder / "a.csv").write_text("id\n1\n")
        elif kind == "json":
            (folder / "a.json").write_text('{"id": 1}\n')
        elif kind == "orc":
            orc_file(folder / "a.orc", pa.table({"id": [1]}))
        else:
            pq.write_table(pa.table({"id": [1]}), folder / "a.parquet")

    sources = []
    for kind in ("csv", "json", "orc", "parquet"):
        for name in ("d=2024-01-01", "d=99999999999", "d=a%20b", "d=01", "d=1.50"):
            file(tmp_path / kind / name / name, kind)
            sources.append({"path": str(tmp_path / kind / name), "format": kind})
        for name in ("uneven/d=1", "uneven/x", "both/id=5"):
            file(tmp_path / kind / name, kind)
        sources += [{"path": str(tmp_path / kind / name), "format": kind} for name in ("uneven", "both")]
    for source, found in zip(sources, all_read(servers, tmp_path, sources), strict=True):
        if source["path"].endswith("both"):
            assert isinstance(found, str)
            assert "the column 'id' more than once (a folder" in found
        elif source["path"].endswith("uneven"):
            assert isinstance(found, str)
            assert f"uneven/x/a.{source['format']} lies beside folders that name the columns d" in found
        else:
            ours = rows(local.read(Source.of(source)))
            assert not isinstance(found, str), found
            assert content(ours) == content(found)


def test_times_of_avro_and_orc_are_the_same_on_both_engines(servers: Servers, tmp_path: Path) -> None:
    times = pa.array([1704067200123456000, None], pa.timestamp("ns"))
    late = pa.array([1704067200123456789, None], pa.timestamp("ns"))
    paths = [
        orc_file(tmp_path / "a.orc", pa.table({"id": [1, 2], "t": times, "b": pa.array([1, 2], pa.int8())})),
        orc_file(tmp_path / "b.orc", pa.table({"id": [1, 2], "t": late})),
        str(tmp_path / "a.avro"),
    ]
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    schema = {"type": "record", "name": "r", "fields": [{"name": "t", "type": millis}]}
    with open(paths[2], "wb") as file:
        fastavro.writer(file, schema, [{"t": 1704067200123}])
    whole, cut, avro = all_read(servers, tmp_path, paths)
    assert str(whole["t"][0].as_py()) == "2024-01-01 00:00:00.123456"
    assert "b.orc as orc: Casting from timestamp[ns] to timestamp[us] would lose data" in cut
    assert str(avro["t"][0].as_py()) == "2024-01-01 00:00:00.123000+00:00"
