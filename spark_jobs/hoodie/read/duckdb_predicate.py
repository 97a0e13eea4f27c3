"""Predicates that DuckDB evaluates: one expression on the columns of a row, and the tree of it.

DuckDB's own parser takes a predicate apart before it is run. Its answer is JSON (`json_serialize_sql`).
Accepted are comparisons, AND, OR, NOT, IN, BETWEEN, CASE, casts, lambdas and the functions listed here,
which compute a value from their arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, TypeAlias

from hoodie.errors import ConfigError
from hoodie.read.binding import Where, checked_text, folded
from hoodie.read.functions import date_of_text, moment_of_text
from hoodie.read.predicate import (
    ANY,
    DEPTH,
    FALSE,
    NULL,
    TRUE,
    And,
    Answers,
    Call,
    Column,
    Expression,
    Function,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    Node,
    Not,
    between,
    comparison,
    condition,
    disjunction,
    membership,
)

Json: TypeAlias = Mapping[str, Any]

#: what the predicate's row is a row of
TABLE = "snapshot"

_SIGNS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_NOT_DISTINCT_FROM": "<=>",
    "COMPARE_DISTINCT_FROM": "<=>",
}
_BITS = {
    **dict.fromkeys(("TINYINT", "INT1"), 8),
    **dict.fromkeys(("SMALLINT", "INT2", "SHORT"), 16),
    **dict.fromkeys(("INTEGER", "INT", "INT4", "SIGNED"), 32),
    **dict.fromkeys(("BIGINT", "INT8", "LONG"), 64),
}
_BOOLEANS = frozenset({"BOOLEAN", "BOOL"})
_TEXTS = frozenset({"VARCHAR", "TEXT", "STRING"})
_MOMENTS = frozenset({"TIMESTAMP", "DATETIME", "TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE"})
_PARTS = {
    "year": Function.YEAR,
    "quarter": Function.QUARTER,
    "month": Function.MONTH,
    "day": Function.DAY,
}


class _Unknown(Exception):
    """An expression that has no place in a tree."""


def tree(item: Json, depth: int = DEPTH) -> Node:
    """The tree of a parsed expression; ANY for what it does not know."""
    if depth == 0:
        return ANY
    try:
        return _node(item, depth - 1)
    except (_Unknown, KeyError, TypeError, ValueError, IndexError, AttributeError, InvalidOperation):
        return ANY


def _node(item: Json, depth: int) -> Node:
    kind, type_ = item["class"], item["type"]
    if kind == "CONJUNCTION":
        terms = [tree(child, depth) for child in item["children"]]
        return And(tuple(terms)) if type_ == "CONJUNCTION_AND" else disjunction(terms)
    if kind == "COMPARISON":
        return _comparison(item, type_, depth)
    if kind == "BETWEEN":
        return between(_expression(item["input"]), _expression(item["lower"]), _expression(item["upper"]))
    if kind == "OPERATOR":
        return _operator(type_, item["children"], depth)
    if kind == "FUNCTION":
        return _function(item)
    if kind == "CAST" and _type_name(item) in _BOOLEANS and item["child"]["class"] != "CONSTANT":
        return tree(item["child"], depth)
    return condition(_expression(item))


def _comparison(item: Json, type_: str, depth: int) -> Node:
    sign, left, right = _SIGNS[type_], item["left"], item["right"]
    differs = type_ == "COMPARE_DISTINCT_FROM"
    truth = _constant(right) if right["class"] == "CONSTANT" else None
    if sign == "<=>" and truth is not None and truth.kind is LiteralKind.BOOLEAN:
        found: Node = Answers(tree(left, depth), TRUE if truth.value else FALSE)
    else:
        found = comparison(sign, _expression(left), _expression(right))
    return Not(found) if differs else found


def _operator(type_: str, children: Sequence[Json], depth: int) -> Node:
    first = children[0]
    if type_ == "OPERATOR_NOT":
        return Not(tree(first, depth))
    if type_ in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
        try:
            found: Node = IsNull(_expression(first))
        except _Unknown:
            found = Answers(tree(first, depth), NULL)
        return Not(found) if type_ == "OPERATOR_IS_NOT_NULL" else found
    if type_ not in ("COMPARE_IN", "COMPARE_NOT_IN"):
        return ANY
    found = membership(_expression(first), [_expression(child) for child in children[1:]])
    return Not(found) if type_ == "COMPARE_NOT_IN" else found


def _function(item: Json) -> Node:
    name, arguments = _call(item)
    if name not in ("~~", "!~~", "like", "starts_with", "prefix", "^@"):
        return condition(_expression(item))
    value, pattern = _expression(arguments[0]), _expression(arguments[1])
    if not isinstance(pattern, Literal) or pattern.kind is not LiteralKind.TEXT:
        return ANY
    text = str(pattern.value)
    if name in ("~~", "!~~", "like"):
        return Not(Like(value, text)) if name == "!~~" else Like(value, text)
    return ANY if "%" in text or "_" in text else Like(value, text + "%")


def _expression(item: Json) -> Expression:
    kind = item["class"]
    if kind == "COLUMN_REF":
        return _column(item["column_names"])
    if kind == "CONSTANT":
        return _constant(item)
    if kind == "CAST":
        return _cast(item)
    if kind != "FUNCTION":
        raise _Unknown
    name, arguments = _call(item)
    if name in _PARTS and len(arguments) == 1:
        return Call(_PARTS[name], _expression(arguments[0]))
    values = [_expression(argument) for argument in arguments]
    return _FUNCTIONS[name](*values)


def _column(path: Sequence[str]) -> Column:
    if len(path) > 1 and path[0].lower() == TABLE:
        raise _Unknown  # the table's name, or a column of structs
    return Column(tuple(path))


def _call(item: Json) -> tuple[str, list[Json]]:
    """A function's name and arguments, of DuckDB 1 or 2."""
    elsewhere = item.get("schema") not in ("", "main") or item.get("catalog")
    if elsewhere or item.get("filter") or item.get("distinct"):
        raise _Unknown
    if "arguments" in item:
        if any(argument["name"] for argument in item["arguments"]):
            raise _Unknown
        return item["function_name"].lower(), [argument["expression"] for argument in item["arguments"]]
    return item["function_name"].lower(), list(item["children"])


def _text(value: Expression) -> str:
    if not isinstance(value, Literal) or value.kind is not LiteralKind.TEXT:
        raise _Unknown
    return str(value.value)


def _count(value: Expression, least: int) -> int:
    if not isinstance(value, Literal) or not isinstance(value.value, int) or value.value < least:
        raise _Unknown
    return value.value


def _substring(value: Expression, start: Expression, length: Expression | None = None) -> Expression:
    size = None if length is None else _count(length, 0)
    return Call(Function.SUBSTRING, value, (_count(start, 1), size))


_FUNCTIONS: Mapping[str, Callable[..., Expression]] = {
    "date_part": lambda part, value: Call(_PARTS[_text(part).lower()], value),
    "datepart": lambda part, value: Call(_PARTS[_text(part).lower()], value),
    "date_trunc": lambda unit, value: Call(Function.TRUNCATE, value, (_text(unit).lower(),)),
    "datetrunc": lambda unit, value: Call(Function.TRUNCATE, value, (_text(unit).lower(),)),
    "substring": _substring,
    "substr": _substring,
    "left": lambda value, length: Call(Function.SUBSTRING, value, (1, _count(length, 0))),
    **dict.fromkeys(("lower", "lcase"), lambda value: Call(Function.LOWER, value)),
    **dict.fromkeys(("upper", "ucase"), lambda value: Call(Function.UPPER, value)),
}


def _cast(item: Json) -> Expression:
    value, name = _expression(item["child"]), _type_name(item)
    if isinstance(value, Literal):
        return _cast_literal(value, name)
    if name == "DATE":
        return Call(Function.TO_DATE, value)
    if name in _TEXTS:
        return Call(Function.TO_TEXT, value)
    return Call(Function.TO_INTEGER, value, (_BITS[name],))


def _cast_literal(value: Literal, name: str) -> Literal:
    if value.kind is LiteralKind.TEXT and name in _TEXTS:
        return value
    if name in _BOOLEANS:
        return Literal(LiteralKind.BOOLEAN, {"t": True, "f": False}[_text(value)])
    if name == "DATE":
        return Literal(LiteralKind.DATE, date_of_text(_text(value)))
    if name in _MOMENTS:
        return Literal(LiteralKind.MOMENT, moment_of_text(_text(value)))
    raise _Unknown


def _type_name(item: Json) -> str:
    """A type without parameters, of DuckDB 1 or 2."""
    if "type_expr" in item:
        named = item["type_expr"]
        if named.get("children") or named.get("schema") or named.get("catalog"):
            raise _Unknown
        return str(named["type_name"]).upper()
    named = item["cast_type"]
    return str(named["id"] if named.get("type_info") is None else "").upper()


def _constant(item: Json) -> Literal:
    if "literal" in item:
        kind, text = item["literal"]["kind"], item["literal"]["text"]
        if kind == "STRING":
            return Literal(LiteralKind.TEXT, text)
        if kind == "BOOLEAN":
            return Literal(LiteralKind.BOOLEAN, {"true": True, "false": False}[text.lower()])
        if kind == "INTEGER":
            return Literal(LiteralKind.NUMBER, int(text))
        if kind == "NUMERIC" and not set(text) - set("0123456789.-"):
            return Literal(LiteralKind.NUMBER, Decimal(text))
        if kind != "NULL_LITERAL":
            raise _Unknown
        return Literal(LiteralKind.NULL, None)
    return _value(item["value"])


def _value(item: Json) -> Literal:
    """A constant of DuckDB 1."""
    if item["is_null"]:
        return Literal(LiteralKind.NULL, None)
    kind, value = item["type"]["id"], item["value"]
    if kind == "VARCHAR" and item["type"].get("type_info") is None:
        return Literal(LiteralKind.TEXT, str(value))
    if kind == "BOOLEAN":
        return Literal(LiteralKind.BOOLEAN, bool(value))
    if kind in ("INTEGER", "BIGINT"):
        return Literal(LiteralKind.NUMBER, int(value))
    if kind == "DECIMAL" and isinstance(value, int):
        scale = int(item["type"]["type_info"]["scale"])
        return Literal(LiteralKind.NUMBER, Decimal(value).scaleb(-scale))
    raise _Unknown


if TYPE_CHECKING:
    import duckdb

#: what the connection may do besides: no files, no network, no extensions, no change of these settings.
#: Rows stream through it, so that the memory is for values that a predicate makes.
_SETTINGS = (
    "SET TimeZone = 'UTC'",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET memory_limit = '1GiB'",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_EXPRESSIONS = """
    BETWEEN CASE CAST COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA OPERATOR TYPE
"""
_WHAT = {"SUBQUERY": "a subquery", "WINDOW": "a window function", "STAR": "*", "PARAMETER": "a parameter"}
#: DuckDB's functions that need nothing but their arguments (and the clock, and chance), without those whose
#: argument is the size of what they make
_COMPUTING = """
    abs acos acosh add age aggregate ago alias apply array_aggr array_aggregate array_append array_apply
    array_cat array_concat array_contains array_cosine_distance array_cosine_similarity
    array_cross_product array_distance array_distinct array_dot_product array_extract array_filter
    array_grade_up array_has array_has_all array_has_any array_indexof array_inner_product
    array_intersect array_length array_negative_dot_product array_negative_inner_product array_pop_back
    array_pop_front array_position array_prepend array_push_back array_push_front array_reduce
    array_reverse array_reverse_sort array_select array_slice array_sort array_to_json array_to_string
    array_to_string_comma_default array_transform array_unique array_value array_where array_zip ascii
    asin asinh atan atan2 atanh base64 bin binom bit_count bit_length bit_position cardinality cast cbrt
    ceil ceiling century char_length character_length chr concat concat_ws contains cos cosh cot
    current_date current_localtime current_localtimestamp current_time current_timestamp
    damerau_levenshtein date_add date_diff date_part date_sub date_trunc datediff datepart datesub
    datetrunc day dayname dayofmonth dayofweek dayofyear days_in_month decade decode degrees divide
    editdist3 element_at encode ends_with enum_code enum_first enum_last enum_range enum_range_boundary
    epoch epoch_ms epoch_ns epoch_us era even exp factorial fdiv filter flatten floor fmod format
    format_bytes from_base64 from_binary from_hex from_json from_json_strict gamma gcd gen_random_uuid
    get_bit get_current_time get_current_timestamp grade_up greatest greatest_common_divisor hamming
    hash hex hive_partition_component hour if ifnull ilike_escape instr isfinite isinf isnan isodow
    isoyear jaccard jaro_similarity jaro_winkler_similarity json json_array json_array_length
    json_contains json_deep_merge json_exists json_extract json_extract_path json_extract_path_text
    json_extract_string json_insert json_keys json_merge_patch json_merge_patch_diff json_normalize
    json_object json_pretty json_quote json_remove json_replace json_set json_strip_nulls json_structure
    json_transform json_transform_strict json_type json_valid json_value julian last_day lcase lcm least
    least_common_multiple left left_grapheme len length length_grapheme levenshtein lgamma like_escape
    list_aggr list_aggregate list_any_value list_append list_apply list_approx_count_distinct list_avg
    list_bit_and list_bit_or list_bit_xor list_bool_and list_bool_or list_cat list_concat list_contains
    list_cosine_distance list_cosine_similarity list_count list_distance list_distinct list_dot_product
    list_element list_entropy list_extract list_filter list_first list_grade_up list_has list_has_all
    list_has_any list_histogram list_indexof list_inner_product list_intersect list_kurtosis
    list_kurtosis_pop list_last list_mad list_max list_median list_min list_mode
    list_negative_dot_product list_negative_inner_product list_pack list_position list_prepend
    list_product list_reduce list_reverse list_reverse_sort list_select list_sem list_skewness
    list_slice list_sort list_stddev_pop list_stddev_samp list_string_agg list_sum list_transform
    list_unique list_value list_var_pop list_var_samp list_where list_zip ln localtime localtimestamp
    log log10 log2 lower lpad ltrim make_date make_time make_timestamp make_timestamp_ms
    make_timestamp_ns make_timestamptz map map_concat map_contains map_contains_entry map_contains_value
    map_entries map_extract map_extract_value map_from_entries map_keys map_values md5 md5_number
    md5_number_lower md5_number_upper microsecond millennium millisecond minute mismatches mod month
    monthname multiply nanosecond nextafter nfc_normalize not_ilike_escape not_like_escape now nullif
    nvl2 octet_length ord overlay parse_dirname parse_dirpath parse_filename parse_formatted_bytes
    parse_path path_join pi position pow power prefix printf quarter radians random reduce regexp_escape
    regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace
    regexp_split_to_array replace reverse right right_grapheme round round_even roundbankers row
    row_to_json rpad rtrim second set_bit sha1 sha256 sign signbit sin sinh split split_part sqrt
    starts_with str_split str_split_regex strftime string_split string_split_regex string_to_array
    strip_accents strlen strpos strptime struct_concat struct_contains struct_extract struct_extract_at
    struct_has struct_indexof struct_insert struct_keys struct_pack struct_position struct_update
    struct_values substr substring substring_grapheme subtract suffix switch tan tanh time_bucket
    timezone timezone_hour timezone_minute to_base to_base64 to_binary to_centuries to_days to_decades
    to_hex to_hours to_json to_microseconds to_millennia to_milliseconds to_minutes to_months
    to_quarters to_seconds to_timestamp to_weeks to_years today transaction_timestamp translate trim
    trunc try_strptime typeof ucase unbin unhex unicode union_extract union_tag union_value upper
    url_decode url_encode uuid uuid_extract_timestamp uuid_extract_version uuidv4 variant_array_length
    variant_contains variant_exists variant_extract variant_extract_string variant_keys variant_type
    variant_typeof week weekday weekofyear xor year yearweek
"""
_CLASSES = frozenset(_EXPRESSIONS.split())
_KNOWN_FUNCTIONS = frozenset(_COMPUTING.split())
#: errors of values, as Arrow raises them while rows stream
_STREAMED = re.compile(r"(Conversion|Out of Range) Error: ")


def connection(folder: str = "", *more: str) -> duckdb.DuckDBPyConnection:
    """A database in memory that reaches nothing but what is registered with it, and the folder, to which it
    spills. `more` are settings.
    """
    import duckdb

    quoted = folder.replace("'", "''")
    made = duckdb.connect()
    for setting in (f"SET temp_directory = '{quoted}'", *more, *_SETTINGS):
        made.execute(setting)
    return made


class NoPredicate(Exception):
    """Says why a text is no predicate, or none that is allowed."""


def parsed(made: duckdb.DuckDBPyConnection, where: str) -> Where:
    """The predicate as a tree. Raises NoPredicate for a text that is not one predicate, or that calls other
    functions.
    """
    import duckdb

    if not checked_text(where).strip():
        raise NoPredicate("it is empty; leave it out for all rows")
    try:
        # within parentheses and without them: a text that closes them itself fails as one of the two
        if len(made.extract_statements(f"SELECT 1 WHERE {where}")) != 1:
            raise _refused("more than one statement")
        whole = _parsed(made, f"SELECT 1 WHERE (\n{where}\n)")
        plain = _parsed(made, "SELECT 1 WHERE (\nTRUE\n)")
    except (duckdb.Error, ValueError) as error:
        raise NoPredicate(str(error)) from None
    predicate = whole.pop("where_clause", None)
    plain.pop("where_clause")
    if whole != plain:
        raise _refused("more than one expression")
    pending, paths = [predicate], set[tuple[str, ...]]()
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            if (what := _not_allowed(item)) is not None:
                raise _refused(what)
            if item.get("class") == "COLUMN_REF":
                paths.add(tuple(folded(name) for name in item["column_names"]))
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
    names = None if (TABLE,) in paths else frozenset(name for path in paths for name in path)
    return Where(where, tree(predicate), names=names)


def of_text(error: Exception) -> bool:
    """Is the error of DuckDB one of the text that it evaluates, and not of what it reads."""
    import duckdb

    kinds = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)
    values = (duckdb.ConversionException, duckdb.OutOfRangeException)
    return isinstance(error, (*kinds, *values)) or _STREAMED.match(str(error)) is not None


def wrong(where: str, why: str, columns: Sequence[str]) -> ConfigError:
    """The error for a predicate that can't be parsed or evaluated, or may not be."""
    return ConfigError(
        f"--where {where!r} can't be evaluated: {why.splitlines()[0]}; columns are {', '.join(columns)}",
        where=where,
    )


def _refused(what: str) -> NoPredicate:
    return NoPredicate(
        f"it has {what}, which is not allowed: it takes one predicate on a row's columns, as after WHERE, "
        "without subqueries and without functions that need more than their arguments"
    )


def _not_allowed(item: dict[str, Any]) -> str | None:
    kind = item.get("class")
    if not isinstance(kind, str):
        return None
    if kind not in _CLASSES:
        return _WHAT.get(kind, kind.lower().replace("_", " "))
    name = str(item.get("function_name", ""))
    if kind == "FUNCTION" and re.search(r"\w", name) and name.lower() not in _KNOWN_FUNCTIONS:
        return f"the function {name}"
    return None


def _parsed(made: duckdb.DuckDBPyConnection, text: str) -> dict[str, Any]:
    """The tree of one SELECT, without places in the text. Raises ValueError."""
    quoted = text.replace("'", "''")
    [(tree,)] = made.execute(f"SELECT json_serialize_sql('{quoted}')").fetchall()
    try:
        answer = json.loads(tree, object_hook=_without_places)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if answer["error"]:
        raise ValueError(answer["error_message"])
    statements = answer["statements"]
    return dict(statements[0]["node"]) if len(statements) == 1 else {}


def _without_places(item: dict[str, Any]) -> dict[str, Any]:
    item.pop("query_location", None)
    item.pop("query_location_length", None)
    return item
