"""A predicate is one expression on a row: nothing else that is put into its text is run, on either engine."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError
from hoodie.read import duckdb_predicate, spark_predicate
from hoodie.read.binding import Where

ROWS = pa.table(
    {
        "id": ["a", "b", "c"],
        "n": [1, 2, 3],
        "d": pa.array(["2024-01-01", "2024-01-02", None]).cast(pa.date32()),
        "s": [{"x": 1, "y": "u"}, {"x": 2, "y": "v"}, None],
        "l": [[1, 2], [], None],
    }
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("predicates") / "t")
    hoodie.write_table(ROWS, path, options={"hoodie.datasource.write.recordkey.field": "id"})
    return path


def found(table: str, where: str) -> str:
    return "".join(sorted(hoodie.read_table(table, where=where).column("id").to_pylist()))


REFUSED = {
    "1=1; COPY (SELECT 42) TO '{file}'": "more than one statement",
    "1=1; SELECT 1": "more than one statement",
    "(SELECT count(*) FROM read_text('/etc/hostname')) > 0": "a subquery",
    "EXISTS (FROM '/etc/hostname')": "a subquery",
    "n IN (VALUES (1))": "a subquery",
    "n = ANY (TABLE stored)": "a subquery",
    "n = 1 AND CASE WHEN NOT (id = 'a') THEN list_contains([1], (SELECT 1)) END": "a subquery",
    "getenv('HOME') <> ''": "the function getenv",
    "id = 'a' OR current_setting('memory_limit') = '1'": "the function current_setting",
    "system.main.GETENV('HOME') <> ''": "the function getenv",
    "sleep_ms(1) IS NULL": "the function sleep_ms",
    "length(repeat('x', 3000000000)) > 1": "the function repeat",
    "sum(n) > 1": "the function sum",
    "row_number() OVER () = 1": "a window function",
    "COLUMNS(*) = 1": "has *",
    "n = $1": "a parameter",
    "1=1) UNION ALL SELECT * FROM stored WHERE (1=1": "can't be evaluated",
    "n = 1 LIMIT 1": "can't be evaluated",
    "n = 1 UNION SELECT 1": "can't be evaluated",
    "n = 1 WINDOW w AS (PARTITION BY (SELECT 1))": "can't be evaluated",
    "n = 1 QUALIFY true": "can't be evaluated",
    "||".join(["id"] * 2000): "can't be evaluated",
    "1=1; CREATE MACRO length(x) AS getenv('HOME')": "more than one statement",
    "1=1; PRAGMA database_list": "more than one statement",
    "1=1; ATTACH '/etc/hostname'": "more than one statement",
    "n = (PRAGMA database_list)": "can't be evaluated",
    "n IN (FROM read_csv('/etc/passwd'))": "a subquery",
    "id IN (FROM glob('/etc/*'))": "a subquery",
    "read_csv('/etc/passwd') IS NULL": "the function read_csv",
    "[glob('/etc/*')] IS NULL": "the function glob",
    "list_filter(l, lambda x: length(getenv('HOME')) > x) IS NULL": "the function getenv",
    "id.getenv() = 'x'": "the function getenv",
    "\"GetEnv\"/**/('HOME') = 'x'": "the function getenv",
    "\uff47etenv('HOME') = 'x'": "the function \uff47etenv",
    "getvariable('a') IS NULL": "the function getvariable",
    "query('SELECT 1') = 1": "the function query",
    "current_query() <> ''": "the function current_query",
    "json_execute_serialized_sql('x') IS NULL": "the function json_execute_serialized_sql",
    "error('x') IS NULL": "the function error",
    "TRY(error('x')) IS NULL": "the function error",
    "#1 = 1": "positional reference",
    "stored.n = 1": "can't be evaluated",
    "'x'::read_csv IS NULL": "can't be evaluated",
    "'/etc/hostname'": "can't be evaluated",
    "": "it is empty",
    " -- ": "can't be evaluated",
}


@pytest.mark.parametrize("where", REFUSED)
def test_what_is_no_predicate_is_refused(table: str, tmp_path: Path, where: str) -> None:
    file = tmp_path / "made.csv"
    asked = where.format(file=file) if "{file}" in where else where
    with pytest.raises(ConfigError) as error:
        hoodie.read_table(table, where=asked)
    assert REFUSED[where] in error.value.message
    assert repr(asked) in error.value.message or not asked
    assert not file.exists()


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("n = 1", "a"),
        ("n = 1 -- the first", "a"),
        ("n BETWEEN 2 AND 3 AND id LIKE 'b%' OR NOT (n < 3)", "bc"),
        ("id IN ('a', 'c') AND d IS NOT NULL", "a"),
        ("d > DATE '2024-01-01' AND d < current_date", "b"),
        ("d + INTERVAL 1 DAY = '2024-01-02'", "a"),
        ("extract(day FROM d) = 2 AND date_trunc('month', d) = '2024-01-01'", "b"),
        ("n::VARCHAR = '2' AND CAST(n AS DECIMAL(10, 2)) = 2.00", "b"),
        ("s.x = 1 OR s['y'] = 'v'", "ab"),
        ("list_contains(l, 2) AND l[1] = 1 AND len(l) = 2", "a"),
        ("len(list_filter(l, lambda x: x > 1)) = 1", "a"),
        ("id.upper() = 'A' OR upper(id) || 'x' = 'Bx'", "ab"),
        ("CASE WHEN n = 1 THEN id ELSE NULL END IS NOT DISTINCT FROM 'a'", "a"),
        ("coalesce(s.x, n) = 3 AND nullif(n, 3) IS NULL AND if(n = 3, true, false)", "c"),
        ("regexp_matches(id, '^[ab]$') AND id ~ 'b' AND id COLLATE NOCASE = 'B'", "b"),
        ("id = 'SELECT 1; --' OR \"id\" = 'c'", "c"),
        (f"n IN ({', '.join(map(str, range(2, 2000)))})", "bc"),
        (" OR ".join(f"n = {number}" for number in range(1000)), "abc"),
    ],
)
def test_what_is_one_is_answered(table: str, where: str, ids: str) -> None:
    assert found(table, where) == ids


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("reflect('java.lang.System', 'getenv', 'HOME') <> ''", "the function reflect"),
        ("system . builtin.`Java_Method` ('java.lang.System', 'exit')", "the function java_method"),
        ("IDENTIFIER('refl' || 'ect')('java.lang.System', 'getenv') = ''", "the function identifier"),
        ("from_protobuf(b, 'm', '/etc/hostname') IS NULL", "the function from_protobuf"),
        ("'${env:HOME}' = 'x'", "a variable"),
        ("(SELECT count(*) FROM text.`/etc/hostname`) > 0", "a subquery"),
        ("(\u017felect 1) > 0", "a subquery"),
        ("EXISTS (FROM t SELECT 1)", "a subquery"),
        ("n IN (\n TABLE t)", "a subquery"),
        ("n IN ((VALUES 1, 2))", "a subquery"),
        ("n IN (VALUES (1))", "a subquery"),
        ("(WITH t AS (TABLE u) TABLE t) = 1", "a subquery"),
        ("(MAP id USING 'cat' FROM t) = 1", "a script transformation"),
        ("n = 1 /* (select 1) */", "a comment"),
        ("n = 1 -- '\n OR (select 1) = 1 --'", "a comment"),
        ("n = 1; DROP TABLE t", "';'"),
        ("'\\'' = (SELECT '\\'')", "a subquery"),
        ("r'\\' = (SELECT 1) OR 'a' = ''", "a subquery"),
        ("(MAP id, 1. USING 'cat' AS (a) FROM t) = 'x'", "a script transformation"),
        ("(REDUCE id, 1.USING 'cat' AS (a) FROM t) = 'x'", "a script transformation"),
        ("abs((FROM range(1))) = 0", "a subquery"),
        ("CASE WHEN true THEN (((FROM LATERAL range(1)))) END = 0", "a subquery"),
        ("(FROM`text`.`/etc/hostname`) <> ''", "a subquery"),
        ("(from(range(1))) = 0", "a subquery"),
        ("transform(l, x -> reflect('java.lang.System', 'getenv', id))[0] = ''", "the function reflect"),
        ("try_reflect\u00a0('java.lang.System', 'getenv', 'HOME') = ''", "the function try_reflect"),
        ("nvl(upper(reflect('java.lang.System', 'getenv', 'HOME')), '') = ''", "the function reflect"),
        ("\"reflect\"('java.lang.System', 'getenv', 'HOME') = ''", "the function reflect"),
        ("from_xml(id, 'a INT', map('rowValidationXSDPath', '/etc/hostname')).a = 1", "function from_xml"),
        (
            "schema_of_xml('<a/>', map('rowValidationXSDPath', '/etc/hostname')) = ''",
            "function schema_of_xml",
        ),
        ("from_avro(b, '\"int\"', map('avroSchemaUrl', 'file:///etc/hostname')) = 1", "function from_avro"),
        ("schema_of_avro('1', map('avroSchemaUrl', 'file:///etc/hostname')) = ''", "function schema_of_avro"),
        (" ", "is empty"),
    ],
)
def test_spark_is_not_asked_for_more_than_a_predicate(where: str, what: str) -> None:
    with pytest.raises(ConfigError, match=r"^where ") as error:
        spark_predicate.check(where)
    assert what in error.value.message


@pytest.mark.parametrize(
    "where",
    [
        "n = 1 AND exists(l, x -> x > 1) AND `select` = 'reflect(1)' AND t.using = 'it''s; --'",
        "name = 'select' OR name = \"(select 1)\" OR name RLIKE r'\\d+' OR name = '\\'; (select'",
        "extract(day FROM at) = 2 AND substring(id FROM 1 FOR 2) = 'x' AND abs(values) > 1 AND table = 'x'",
        "map('a', 1)['a'] = n AND my_own_udf(n) AND at >= DATE'2024-01-01' - INTERVAL 1 DAY",
        "reflect = 1 AND n = 2",
        "t . using = 1. AND n1.using = 2 AND `1`.using = 3 AND s.from = 1",
        "current_user() = owner AND input_file_name() LIKE '%x%' AND raise_error('x') IS NULL",
    ],
)
def test_spark_decides_on_all_other_predicates(where: str) -> None:
    spark_predicate.check(where)


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("id = 'n d s' AND N > 1", {"id", "n"}),
        ("s.x = 1 OR l[1] = 2", {"s", "l"}),
        ("snapshot.n = 1", {"n"}),
        ("len(list_filter(l, lambda x: x > 1)) = 1", {"l"}),
        ("\"ID\" = 'a' -- n", {"id"}),
        ("row_to_json(snapshot)::VARCHAR <> 's'", {"id", "n", "d", "s", "l"}),
    ],
)
def test_columns_that_a_predicate_names_are_read(where: str, names: set[str]) -> None:
    with duckdb_predicate.connection() as connection:
        predicate = duckdb_predicate.parsed(connection, where)
    assert set(predicate.columns(ROWS.schema)) == names


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("id = 'n d s' AND N > 1", {"id", "n"}),
        ("s.x = 1 OR l[0] = 2", {"s", "l"}),
        ("`Id` = 'a' AND exists(l, x -> x > 1)", {"id", "l"}),
        ('"d" = id', {"id", "d"}),
        ("n * 2 > 1", {"n"}),
        ("hash(*) > 1", {"id", "n", "d", "s", "l"}),
        ("to_json(struct(n, *)) <> ''", {"id", "n", "d", "s", "l"}),
    ],
)
def test_columns_that_spark_is_asked_about_are_read(where: str, names: set[str]) -> None:
    tokens = spark_predicate.check(where)
    found = Where(where, names=spark_predicate.names_in(tokens))
    assert set(found.columns(ROWS.schema)) == names


@pytest.mark.parametrize("where", ["n * n > 0", "CAST(s AS TINYINT) > 0"])
def test_a_value_that_can_not_be_computed_behind_many_rows(tmp_path: Path, where: str) -> None:
    many = 150_000
    rows = {
        "id": [*map(str, range(many))],
        "n": [1] * (many - 1) + [1 << 62],
        "s": ["1"] * (many - 1) + ["1000"],
    }
    path = str(tmp_path / "t")
    options = {"hoodie.datasource.write.recordkey.field": "id"}
    hoodie.write_table(pa.table(rows), path, operation="bulk_insert", options=options)
    with pytest.raises(ConfigError, match=r"can't be evaluated: (Out of Range|Conversion) Error"):
        hoodie.read_table(path, where=where)
