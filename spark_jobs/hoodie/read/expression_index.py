"""A predicate over the results of an expression that an index of the metadata table has (format.md 15.12).

Apache Hudi computed the results by Spark, in a session that is not known. So only those functions are used
whose results are the same in each session and in each engine, and texts of one case with a list of what
other sessions may have made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import pyarrow as pa

from hoodie.metadata.index_definitions import V1, V2, IndexDefinition
from hoodie.metadata.partitions.expression_index import FILTERS, STATISTICS
from hoodie.read import functions
from hoodie.read.predicate import (
    ANY,
    And,
    Comparison,
    Computed,
    Expression,
    Field,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Path,
    Step,
    with_conditions,
)

#: the results, as a column of the tree; no column of a table has this name
RESULT: Path = ("", "result")
_IDENTITY = "identity"
_CASES = {"lower": functions.LOWER, "upper": functions.UPPER}
_PARTS = {"year": functions.YEAR, "month": functions.MONTH, "day": functions.DAY_OF_MONTH}
#: what a letter may have become instead: in Turkish, and by Java that keeps the dot of a great i
_OTHERS: dict[str, dict[str, tuple[str, ...]]] = {
    "lower": {"i": ("i", "i\u0307", "\u0131")},
    "upper": {"I": ("I", "\u0130")},
}
#: texts that one text may have become, at most
_MOST_TEXTS = 243
#: functions whose results depend on the zone of a session, or on its parser of times
_OF_SESSIONS = frozenset(
    (
        "date_add",
        "date_format",
        "date_sub",
        "from_unixtime",
        "hour",
        "to_date",
        "to_timestamp",
        "unix_timestamp",
    )
)


class Unusable(Exception):
    """An index can't be used for a predicate; the text says why."""


@dataclass(frozen=True)
class Indexed:
    """A predicate's tree with the expression as the column `result`. `column` has the name of the column that
    the expression is of, as records of the index have it.
    """

    node: Node
    result: Field
    column: str


def indexed(node: Node, definition: IndexDefinition) -> Indexed:
    """Raises Unusable."""
    if definition.kind not in (STATISTICS, FILTERS):
        raise Unusable(f"its type {definition.kind[:100]!r} is not known here")
    if definition.version not in (V1, V2):
        raise Unusable(f"its version {definition.version[:100]!r} is not known here")
    if len(definition.source_fields) != 1:
        raise Unusable(f"it is of {len(definition.source_fields)} columns, and only those of one are known")
    (column,) = definition.source_fields
    maker = _Rewriter(definition, tuple(column.split(".")))
    tree = with_conditions(node, maker.condition)
    if maker.result is None:
        raise Unusable(maker.why_not())
    if definition.kind == FILTERS and not pa.types.is_string(maker.result.type):
        raise Unusable(f"its filters are of {maker.result.type}, and only those of texts are known")
    return Indexed(tree, maker.result, column)


class _Rewriter:
    def __init__(self, definition: IndexDefinition, source: Path) -> None:
        self._function = definition.function
        self._source = source
        self._case = _OTHERS.get(definition.function)
        self._step = _step(definition)
        #: the results, once the expression was met
        self.result: Field | None = None
        self._met = False

    def condition(self, node: Comparison | In | Like | IsNull) -> Node:
        if self._case is not None:
            return self._of_case(node)
        if isinstance(node, Comparison):
            return replace(node, left=self._value(node.left), right=self._value(node.right))
        return replace(node, value=self._value(node.value))

    def why_not(self) -> str:
        column = ".".join(self._source)[:100]
        name = column if self._function == _IDENTITY else f"{self._function}({column})"
        if self._met:
            return f"{name} must equal ASCII texts that have few letters of several cases"
        return f"the predicate has no condition on {name}"

    def _value(self, value: Expression) -> Expression:
        found = self._met_as(value)
        if found is None:
            return value
        self.result = Field(RESULT, found)
        return self.result

    def _met_as(self, value: Expression) -> pa.DataType | None:
        """The type of the results, where the value is the expression."""
        if self._step is None:
            return value.type if isinstance(value, Field) and self._is_source(value) else None
        if not (isinstance(value, Computed) and value.step == self._step):
            return None
        of = value.argument
        if not (isinstance(of, Field) and self._is_source(of)):
            return None
        wanted = pa.types.is_date32 if self._function in _PARTS else pa.types.is_string
        return value.type if wanted(of.type) else None

    def _is_source(self, field: Field) -> bool:
        return field.path == self._source and not field.slack

    def _of_case(self, node: Node) -> Node:
        """The results of the index are among the texts that the engine's result may be in another session. In
        a row with one of them the engine may have another result.
        """
        if isinstance(node, Comparison):
            value: Expression = node.left
            literals = [node.right] if node.sign in ("=", "<=>") else []
            texts = [item.value for item in literals if isinstance(item, Literal)]
        elif isinstance(node, In):
            value, texts = node.value, list(node.members)
        else:
            return node
        kind = self._met_as(value)
        if kind is None:
            return node
        self._met = True
        variants = frozenset().union(*(self._variants(text) for text in texts)) if texts else frozenset()
        if not variants or not all(self._variants(text) for text in texts):
            return node
        self.result = Field(RESULT, kind)
        null = isinstance(node, In) and node.null
        return And((In(self.result, (), null, True, tuple(sorted(variants)), variants), ANY))

    def _variants(self, text: object) -> frozenset[str]:
        assert self._case is not None
        if not isinstance(text, str) or not text.isascii():
            return frozenset()
        several = sum(letter in self._case for letter in text)
        if max(map(len, self._case.values())) ** several > _MOST_TEXTS:
            return frozenset()
        return frozenset(map("".join, product(*(self._case.get(letter, (letter,)) for letter in text))))


def _step(definition: IndexDefinition) -> Step | None:
    """What `binding` makes of the function; None for the column itself. Raises Unusable."""
    function, options = definition.function, definition.options
    known: dict[str, Callable[[], Step | None]] = {
        _IDENTITY: lambda: None,
        "substring": lambda: functions.substring(int(options["pos"]), int(options["len"])),
        **{name: lambda step=step: step for name, step in {**_CASES, **_PARTS}.items()},  # type: ignore[misc]
    }
    if function in _OF_SESSIONS:
        raise Unusable(f"the results of {function} depend on the session that computed them: its time zone")
    if function not in known:
        raise Unusable(f"its function {function[:100]!r} is not known here")
    try:
        return known[function]()
    except (LookupError, ValueError):
        raise Unusable(f"the options of {function} lack whole numbers pos and len") from None
