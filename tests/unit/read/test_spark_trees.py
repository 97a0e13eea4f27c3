"""Trees of Spark's predicates, without Spark: how a text is taken apart, and what is left alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from hoodie.errors import ConfigError
from hoodie.read import spark_predicate
from hoodie.read.bounds import UNKNOWN, Bounds, outcomes
from hoodie.read.predicate import ANY, FALSE, NULL, TRUE
from tests.support.predicates import SCHEMA

KNOWN: dict[str, Any] = {
    "t": "a",
    "u": "2024-01-01",
    "i": 7,
    "d": "2024-02-29",
    "f": True,
    "m": "2024-02-29T10:30:00Z",
}
ROW = {name: pa.array([value]).cast(SCHEMA.field(name).type)[0].as_py() for name, value in KNOWN.items()} | {
    "n": None
}


def session(zone: str = "UTC", replaced: str = "", missing: str = "", legacy: str = "false") -> Any:
    """What is asked of a session."""
    settings = {
        "spark.sql.session.timeZone": zone,
        "spark.sql.legacy.typeCoercion.datetimeToString.enabled": legacy,
    }
    package = "org.apache.spark.sql.catalyst.expressions."

    def function(name: str) -> Any:
        if name == missing:
            raise RuntimeError(name)
        return SimpleNamespace(className=("mine." if name == replaced else package) + name)

    return SimpleNamespace(
        conf=SimpleNamespace(get=lambda name, default=None: settings.get(name, default)),
        catalog=SimpleNamespace(getFunction=function),
    )


def answers(where: str, schema: pa.Schema = SCHEMA, **of_session: str) -> int:
    tree = spark_predicate.parsed(where, session(**of_session)).bound(schema)
    known: dict[tuple[str, ...], Bounds] = {(name,): Bounds.of(value) for name, value in ROW.items()}
    return outcomes(tree, lambda path: known.get(path, UNKNOWN))


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("t = 'a'", TRUE),
        ("`T` == 'b' OR ('b' > t AND NOT i != 7)", TRUE),
        ("i BETWEEN 1 AND 6 OR i NOT BETWEEN 8 AND 9 AND t <> 'b'", TRUE),
        ("NOT i = 7 AND t = 'a' OR f IS NOT TRUE", FALSE),
        ("i IN (1, 7) AND t NOT IN ('b', 'c') AND i in ('7')", TRUE),
        ("n <=> NULL AND n IS NULL AND NOT n <=> 7 AND (n = 7) IS UNKNOWN", TRUE),
        ("n = 7", NULL),
        ("u >= DATE'2023-12-31' AND d = date '2024-02-29' AND d < TIMESTAMP '2024-02-29 00:00:01'", TRUE),
        ("year(d) = 2024 AND EXTRACT(MONTH FROM d) = 2 AND date_part('DAY', d) = 29", TRUE),
        ("trunc(d, 'MM') = '2024-02-01' AND date_trunc('WEEK', m) = '2024-02-26'", TRUE),
        ("CAST(u AS DATE) < to_date(m) AND CAST(i AS STRING) = '7' AND int(left(u, 4)) = 2024", TRUE),
        ("substring(u, 1, 7) LIKE '2024-%' AND u NOT LIKE '%-02'", TRUE),
        ("((f)) AND NOT (NOT f) AND f IS DISTINCT FROM false", TRUE),
        ("i > -8 AND i < 7.5 AND i >= .5", TRUE),
        ("m = '2024-02-29 10:30:00' OR m IN (DATE '2024-01-01')", TRUE),
        # nothing is known of these
        *(
            (where, ANY.answers)
            for where in ("t = 'a' 'b'", "t = 'a\\'", 't = "a"', "t = r'a'", "t LIKE 'a\\%'")
        ),
        *(
            (where, ANY.answers)
            for where in ("i = 7L", "i = 7e0", "i + 0 = 7", "i = 7 = f", "!f", "t LIKE ANY ('a')")
        ),
        *(
            (where, ANY.answers)
            for where in ("m IN ('2024-01-01')", "t COLLATE UTF8_LCASE = 'b'", "t RLIKE 'b'")
        ),
        *(
            (where, ANY.answers)
            for where in ("CASE WHEN f THEN t = 'b' END", "t IN ('b', 7)", "f alias", "s.t = 'b'")
        ),
        *(
            (where, ANY.answers)
            for where in ("CAST(i AS DECIMAL(10, 2)) = 8", "CAST(t AS STRING COLLATE UTF8_LCASE) = 'A'")
        ),
        ("CASE WHEN n = 1 THEN f ELSE t = 'b' AND i = 8 END AND t = 'b'", FALSE),
        ("CASE WHEN n = 1 AND t = 'b' AND f THEN true ELSE true END", ANY.answers),
    ],
)
def test_what_is_known_of_a_row(where: str, found: int) -> None:
    assert answers(where) == found


def test_a_zone_moves_points_in_time_by_up_to_a_day() -> None:
    for zone in ("Europe/Berlin", "+18:00", "America/New_York"):
        assert answers("m > '2024-02-28' AND m < '2024-03-02'", zone=zone) == TRUE
        assert answers("m > '2024-02-29'", zone=zone) == TRUE | FALSE
        assert answers("year(m) = 2024 AND CAST(m AS DATE) > '2024-02-27'", zone=zone) == TRUE
        assert answers("d = '2024-02-29' AND year(d) = 2024", zone=zone) == TRUE
        assert answers("d > TIMESTAMP '2024-02-29 00:00:00'", zone=zone) == TRUE | FALSE


def test_a_session_may_mean_something_else() -> None:
    """Functions of its own under Spark's names; dates compared as texts; columns named as keywords."""
    assert answers("year(d) = 2023 AND t = 'b'", replaced="year") == ANY.answers
    assert answers("CAST(u AS DATE) = '2023-01-01' AND t = 'b'", replaced="year") == FALSE
    assert answers("year(d) = 2023 AND t = 'b'", missing="year") == ANY.answers
    assert answers("my_own(d) = 2023 AND t = 'b'", missing="my_own") == FALSE
    assert answers("m = '2024-01-01'", legacy="true") == ANY.answers
    named = pa.schema([*SCHEMA, pa.field("End", pa.int32())])
    assert answers("t = 'b'", named) == FALSE
    assert answers("CASE WHEN end > 1 AND t = 'b' AND f THEN true ELSE true END", named) == ANY.answers
    assert answers("`end` = 1 OR t = 'a'", named) == TRUE
    twice = pa.schema([*SCHEMA, pa.field("T", pa.string())])
    assert answers("t = 'b'", twice) == ANY.answers


def test_the_cost_is_bounded() -> None:
    assert answers(f"i IN ({', '.join(map(str, range(8, 2_500)))})") == FALSE
    assert answers(" OR ".join(f"i = {number}" for number in range(8, 2_500))) == FALSE
    assert answers("(" * 150 + "t = 'b'" + ")" * 150) == ANY.answers
    for where in ("(" * 2_000 + "t = 'b'" + ")" * 2_000, "NOT " * 10_000 + "f", "- " * 10_000 + "i = 7"):
        with pytest.raises(ConfigError, match="nests more than 200 levels"):
            answers(where)
    assert answers("abs(" * 150 + "i" + ")" * 150 + " = 8") == ANY.answers
