"""The queries of a statement: their forms by the list, or a ConfigError that names what is not on it.

DuckDB sees names of this module only: relations r1, r2, … and columns c1, c2, …, each once in a statement, so
that no rule of names of either engine counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import pyarrow as pa
from sqlglot import exp

from hoodie.errors import ConfigError
from hoodie.statements.local import operators
from hoodie.statements.local.expressions import bind, only, sorted_by
from hoodie.statements.local.functions import AGGREGATES, FUNCTIONS, WITHOUT_PARENTHESES
from hoodie.statements.local.operators import boolean
from hoodie.statements.local.types import (
    GROUPED,
    VOID,
    Bound,
    field_of,
    guarded,
    named,
    of_arrow,
    quoted,
    refused,
)
from hoodie.statements.parser import DIALECT, OWN
from hoodie.text import argument

#: what the page says of queries
FORMS = (
    "`SELECT [DISTINCT] … FROM …`, with `*`, `t.*`, columns, fields of structs, and expressions",
    "tables of `tables=`, subqueries and `VALUES` in FROM, with other names for them and their columns",
    "`[INNER]`, `CROSS`, `LEFT`, `RIGHT` and `FULL JOIN … ON …`",
    "`WHERE`, `GROUP BY` of expressions, `HAVING`, `ORDER BY`, `LIMIT`",
    "`UNION [ALL]`, `INTERSECT`, `EXCEPT`; several kinds of them in parentheses",
    "`WITH … AS (…)` that is not recursive",
    "subqueries as values and in `EXISTS`, also with outer columns; in `IN` as a condition",
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A query: its text, and its columns by the statement's names with what they are called in the text."""

    text: str
    names: tuple[str, ...]
    columns: tuple[Bound, ...]


@dataclass(frozen=True, kw_only=True)
class _Relation:
    """A part of FROM, by the name that the statement has for it."""

    name: str
    text: str
    names: tuple[str, ...]
    columns: tuple[Bound, ...]


def answer(query: exp.Expr, schemas: Mapping[str, pa.Schema]) -> Answer:
    """`schemas`: of the tables, by names in lower case. Raises ConfigError for what is not on the list."""
    try:
        return _Queries(schemas).query(query, _Around())
    except RecursionError:
        raise refused("a query that is nested so deeply") from None


def text(query: exp.Expr, schemas: Mapping[str, pa.Schema]) -> str:
    """DuckDB's text of a query, whose columns have the statement's names."""
    made = answer(query, schemas)
    columns = (f"{item.text} AS {named(name)}" for name, item in zip(made.names, made.columns, strict=True))
    return f"SELECT {', '.join(columns)} FROM ({made.text}) AS r0"


@dataclass(frozen=True, kw_only=True)
class _Around:
    """What a query stands in: names of WITH, and the scope whose columns it may use."""

    known: Mapping[str, Answer] = field(default_factory=dict)
    scope: _Scope | None = None


@dataclass(kw_only=True)
class _Scope:
    """The names that an expression may use: columns of FROM, then the SELECT's own names of values before
    it, then what is around.
    """

    queries: _Queries
    around: _Around
    relations: list[_Relation] = field(default_factory=list)
    made: dict[str, Bound] = field(default_factory=dict)
    #: values with subqueries that others use by name, which DuckDB takes from FROM only
    beside: list[str] = field(default_factory=list)

    def column(self, node: exp.Column) -> Bound:
        only(node, "this", "table", "db", "catalog")
        names = [part.name for part in node.parts]
        found = self._found(names)
        if len(found) > 1:
            raise ConfigError(
                f"column {node.sql(DIALECT)} is one of several tables; write the table's name before it",
                column=node.name,
            )
        if found:
            return found[0]
        if len(names) == 1 and names[0].lower() in self.made:
            return self.made[names[0].lower()]
        if self.around.scope is not None:
            return self.around.scope.column(node)
        if len(names) == 1 and names[0].lower() in WITHOUT_PARENTHESES:
            return FUNCTIONS[names[0].lower()].bind(names[0].lower(), [])
        raise ConfigError(
            f"there is no column {node.sql(DIALECT)}; columns are {', '.join(self._all()) or 'none'}",
            column=node.name,
        )

    def _found(self, names: Sequence[str]) -> list[Bound]:
        """Columns of a name, which a table's may stand before, and those of structs behind."""
        found = list(self._columns("", names))
        if len(names) > 1:
            found = list(self._columns(names[0], names[1:])) or found
        return found

    def _columns(self, table: str, names: Sequence[str]) -> Iterator[Bound]:
        for relation in self.relations:
            if table.lower() in ("", relation.name.lower()):
                for known, item in zip(relation.names, relation.columns, strict=True):
                    if known.lower() == names[0].lower() and (made := _field(item, names[1:])) is not None:
                        yield made

    def _all(self) -> list[str]:
        return [
            f"{item.name}.{name}" if item.name else name for item in self.relations for name in item.names
        ]

    def scalar(self, query: exp.Expr) -> Bound:
        made = self._inner(query)
        if len(made.columns) != 1:
            raise ConfigError(
                f"the subquery {query.sql(DIALECT)} has {len(made.columns)} columns; give it one"
            )
        return Bound(text=f"({made.text})", type=made.columns[0].type)

    def exists(self, query: exp.Expr) -> str:
        return f"({self._inner(query).text})"

    def _inner(self, query: exp.Expr) -> Answer:
        while isinstance(query, exp.Subquery):
            only(query, "this")
            query = query.this
        return self.queries.query(query, _Around(known=self.around.known, scope=self))


class _Queries:
    def __init__(self, schemas: Mapping[str, pa.Schema]) -> None:
        self._schemas = schemas
        self._numbers = count(1)
        self._kinds: dict[type[exp.Expr], Callable[..., Answer]] = {
            exp.Select: self._select,
            exp.Subquery: self._in_parentheses,
            exp.Union: self._combined,
            exp.Intersect: self._combined,
            exp.Except: self._combined,
        }

    def query(self, node: exp.Expr, around: _Around) -> Answer:
        made = self._kinds.get(type(node))
        if made is None:
            raise refused(f"{node.key.upper()} as a query")
        if (ctes := node.args.get("with_")) is not None:
            only(ctes, "expressions")
            for item in ctes.expressions:
                only(item, "this", "alias")
                inner = self.query(item.this, around)
                found = _renamed(inner, item.args["alias"])
                around = _Around(known={**around.known, item.alias.lower(): found}, scope=around.scope)
        return made(node, around)

    def _in_parentheses(self, node: exp.Subquery, around: _Around) -> Answer:
        only(node, "this", "with_")
        return self.query(node.this, around)

    def _select(self, node: exp.Select, around: _Around) -> Answer:
        only(
            node, "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset",
            "distinct", "with_",
        )  # fmt: skip
        scope = _Scope(queries=self, around=around)
        parts = [self._from(node, scope)] if node.args.get("from_") is not None else []
        if (where := node.args.get("where")) is not None:
            parts.append(f"WHERE {boolean(bind(where.this, scope), 'WHERE')}")
        names, values, columns = self._columns(node.expressions, scope)
        parts[1:1] = scope.beside
        if (group := node.args.get("group")) is not None:
            only(group, "expressions")
            keys = [_grouped(bind(item, scope), "GROUP BY") for item in group.expressions]
            parts.append(f"GROUP BY {', '.join(keys)}")
        if (having := node.args.get("having")) is not None:
            parts.append(f"HAVING {boolean(bind(having.this, scope), 'HAVING')}")
        if (distinct := node.args.get("distinct")) is not None:
            only(distinct)
            for item in values:
                _grouped(item, "DISTINCT", constant=True)
        listed = ", ".join(
            f"{item.text} AS {column.text}" for item, column in zip(values, columns, strict=True)
        )
        body = f"SELECT {'DISTINCT ' * (distinct is not None)}{listed} {' '.join(parts)}"
        return self._ordered(node, Answer(text=body, names=names, columns=columns), scope)

    def _ordered(self, node: exp.Query, made: Answer, scope: _Scope) -> Answer:
        """With ORDER BY, whose names are those of the answer first, and LIMIT."""
        parts = [made.text]
        if (order := node.args.get("order")) is not None:
            only(order, "expressions")
            answered = _Relation(name="", text="", names=made.names, columns=made.columns)
            outer = _Around(known=scope.around.known, scope=scope)
            own = _Scope(queries=self, around=outer, relations=[answered])
            parts.append(f"ORDER BY {', '.join(sorted_by(item, own) for item in order.expressions)}")
        for name in ("limit", "offset"):
            if (found := node.args.get(name)) is not None:
                only(found, "expression")
                rows = found.expression
                if not isinstance(rows, exp.Literal) or not rows.name.isdigit():
                    raise refused(f"{name.upper()} {rows.sql(DIALECT)}", "write a whole number")
                parts.append(f"{name.upper()} {rows.name}")
        return Answer(text=" ".join(parts), names=made.names, columns=made.columns)

    def _columns(
        self, given: Sequence[exp.Expr], scope: _Scope
    ) -> tuple[tuple[str, ...], list[Bound], tuple[Bound, ...]]:
        """Names, values, and what the values are called."""
        names: list[str] = []
        values: list[Bound] = []
        columns: list[Bound] = []
        for item in given:
            for name, value in _listed(item, scope):
                column = Bound(text=f"_hoodie_c{next(self._numbers)}", type=value.type)
                if item.meta.get(OWN) and item.find(exp.Query) is not None:
                    _check_of_one_row(item)
                    lateral = f"(SELECT {value.text} AS {column.text}) AS r{next(self._numbers)}"
                    scope.beside.append(f"CROSS JOIN LATERAL {lateral}")
                    value = column
                names.append(name)
                values.append(value)
                columns.append(column)
                if isinstance(item, exp.Alias):
                    scope.made[name.lower()] = column
        return tuple(names), values, tuple(columns)

    def _from(self, node: exp.Select, scope: _Scope) -> str:
        first = self._relation(node.args["from_"].this, scope)
        scope.relations.append(first)
        parts = [f"FROM {first.text}"]
        for join in node.args.get("joins") or ():
            only(join, "this", "on", "side", "kind")
            kind = " ".join(str(join.args.get(name) or "").upper() for name in ("side", "kind")).strip()
            if kind not in _JOINS:
                raise refused(f"{kind} JOIN")
            found = self._relation(join.this, scope)
            scope.relations.append(found)
            on = join.args.get("on")
            if on is None:
                if kind not in ("", "INNER", "CROSS"):
                    raise refused(f"{kind} JOIN without ON")
                parts.append(f"CROSS JOIN {found.text}")
            else:
                condition = boolean(bind(on, scope), "ON")
                parts.append(f"{'INNER' if kind == 'CROSS' else kind} JOIN {found.text} ON {condition}")
        return " ".join(parts)

    def _relation(self, node: exp.Expr, scope: _Scope) -> _Relation:
        around = _Around(known=scope.around.known, scope=scope.around.scope)
        if isinstance(node, exp.Table):
            return self._table(node, around)
        if isinstance(node, exp.Subquery):
            only(node, "this", "alias", "with_")
            made = self.query(node.this, around)
        elif isinstance(node, exp.Values):
            only(node, "expressions", "alias")
            made = self._values(node, _Scope(queries=self, around=around))
        else:
            raise refused(f"{node.key.upper()} in FROM")
        return self._named(_renamed(made, node.args.get("alias")), node.alias)

    def _named(self, made: Answer, name: str) -> _Relation:
        place = f"r{next(self._numbers)}"
        columns = (Bound(text=f"{place}.{item.text}", type=item.type) for item in made.columns)
        return _Relation(
            name=name, text=f"({made.text}) AS {place}", names=made.names, columns=tuple(columns)
        )

    def _table(self, node: exp.Table, around: _Around) -> _Relation:
        if not isinstance(node.this, exp.Identifier):
            raise refused(f"the function {node.name or node.this.name} in FROM")
        only(node, "this", "alias")
        alias = node.args.get("alias")
        if (known := around.known.get(node.name.lower())) is not None:
            return self._named(_renamed(known, alias), node.alias_or_name)
        schema = self._schemas.get(node.name.lower())
        if schema is None:
            given = argument("tables=", "--table")
            raise ConfigError(f"{node.name} is not among {given}; name each table of the text there")
        place = f"r{next(self._numbers)}"
        columns = tuple(_stored(place, item) for item in schema)
        made = _renamed(Answer(text="", names=tuple(schema.names), columns=columns), alias)
        return _Relation(
            name=node.alias_or_name, text=f"{named(node.name)} AS {place}", names=made.names, columns=columns
        )

    def _values(self, node: exp.Values, scope: _Scope) -> Answer:
        rows = [
            [bind(item, scope) for item in (row.expressions if isinstance(row, exp.Tuple) else [row])]
            for row in node.expressions
        ]
        if len({len(row) for row in rows}) != 1:
            raise ConfigError("VALUES has rows of different lengths; give each one the same columns")
        made = [operators.unified(items, "VALUES") for items in zip(*rows, strict=True)]
        columns = tuple(Bound(text=f"_hoodie_c{next(self._numbers)}", type=kind) for _, kind in made)
        lines = ", ".join(
            f"({', '.join(items)})" for items in zip(*(texts for texts, _ in made), strict=True)
        )
        place = f"r{next(self._numbers)}({', '.join(item.text for item in columns)})"
        return Answer(
            text=f"SELECT * FROM (VALUES {lines}) AS {place}",
            names=tuple(f"col{number}" for number in range(1, len(columns) + 1)),
            columns=columns,
        )

    def _combined(self, node: exp.SetOperation, around: _Around) -> Answer:
        only(node, "this", "expression", "distinct", "with_", "order", "limit", "offset")
        for side in (node.this, node.expression):
            if isinstance(side, exp.SetOperation) and type(side) is not type(node):
                raise refused(f"{node.key.upper()} with {side.key.upper()}", "set one of them in parentheses")
        left, right = (self.query(side, around) for side in (node.this, node.expression))
        if len(left.columns) != len(right.columns):
            raise ConfigError(
                f"{node.key.upper()} has queries of {len(left.columns)} and of {len(right.columns)} columns"
            )
        pairs = zip(left.columns, right.columns, strict=True)
        made = [operators.unified(pair, node.key.upper()) for pair in pairs]
        columns = tuple(Bound(text=f"_hoodie_c{next(self._numbers)}", type=kind) for _, kind in made)
        distinct = bool(node.args.get("distinct"))
        if distinct or not isinstance(node, exp.Union):
            for item in columns:
                _grouped(item, node.key.upper())
        sides = []
        for place, side in enumerate((left, right)):
            listed = ", ".join(
                f"{texts[place]} AS {item.text}" for (texts, _), item in zip(made, columns, strict=True)
            )
            sides.append(f"(SELECT {listed} FROM ({side.text}) AS r{next(self._numbers)})")
        body = f" {node.key.upper()} {'' if distinct else 'ALL '}".join(sides)
        whole = f"SELECT * FROM ({body}) AS r{next(self._numbers)}"
        return self._ordered(
            node, Answer(text=whole, names=left.names, columns=columns), _Scope(queries=self, around=around)
        )


_JOINS = (
    "", "INNER", "CROSS", "LEFT", "LEFT OUTER", "RIGHT", "RIGHT OUTER", "FULL", "FULL OUTER",
)  # fmt: skip


def _check_of_one_row(item: exp.Expr) -> None:
    """Raises ConfigError for a value that is computed of several rows of FROM."""
    for node in item.walk(prune=lambda node: isinstance(node, exp.Query)):
        if isinstance(node, exp.Window) or (
            node.name.lower() in AGGREGATES and isinstance(node, exp.Anonymous)
        ):
            raise refused(f"{node.sql(DIALECT)} in a condition with a subquery", "use one of them")


def _listed(node: exp.Expr, scope: _Scope) -> Iterator[tuple[str, Bound]]:
    """(name, value) of one item of a SELECT: of * of several."""
    whole = isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
    if not whole and not isinstance(node, exp.Star):
        if isinstance(node, exp.Alias):
            only(node, "this", "alias")
        yield (
            node.alias_or_name or node.sql(DIALECT),
            bind(node.this if isinstance(node, exp.Alias) else node, scope),
        )
        return
    star = node.this if isinstance(node, exp.Column) else node
    only(star)
    table = node.table if isinstance(node, exp.Column) else ""
    found = [item for item in scope.relations if table.lower() in ("", item.name.lower())]
    if not found:
        raise ConfigError(f"{node.sql(DIALECT)} is of no table of FROM")
    for relation in found:
        yield from zip(relation.names, relation.columns, strict=True)


def _field(value: Bound, names: Sequence[str]) -> Bound | None:
    """A field of structs; None where there is none."""
    for name in names:
        if (found := field_of(value.type, name)) is None:
            return None
        value = Bound(text=f"struct_extract({value.text}, {quoted(found[0])})", type=found[1])
    return value


def _grouped(value: Bound, what: str, *, constant: bool = False) -> str:
    if value.type.name not in (*GROUPED, VOID.name):
        raise refused(f"{what} of {value.type}")
    if value.constant is not None and not constant:
        raise refused(f"{what} of a literal", "name a column")
    return value.text


def _renamed(made: Answer, alias: exp.Expr | None) -> Answer:
    """With the names of columns that an alias has."""
    names = tuple(item.name for item in alias.args.get("columns") or ()) if alias is not None else ()
    if not names:
        return made
    if len(names) != len(made.names):
        raise ConfigError(f"{len(names)} names are given to {len(made.names)} columns: {', '.join(names)}")
    return Answer(text=made.text, names=names, columns=made.columns)


def _stored(place: str, item: pa.Field[pa.DataType]) -> Bound:
    kind, other = of_arrow(item.type)
    column = f"{place}.{named(item.name)}"
    text = f"CAST({column} AS {kind.duckdb})" if other else column
    if item.type == pa.timestamp("ns"):
        said = f"column {item.name} has nanoseconds, which no table has"
        text = guarded(f"epoch_ns({column}) % 1000 <> 0", said, column, text, kind)
    return Bound(text=text, type=kind)
