"""Values that a predicate names: those of a column in every row for which it is true, and record keys."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from hoodie.format.meta_fields import RECORD_KEY
from hoodie.read.predicate import TRUE, And, Answers, Comparison, Constant, Field, In, Literal, Node, Or, Path
from hoodie.read.pruning import fields_of
from hoodie.table.properties import TableProperties

#: key generators whose record keys are the texts of the key's one field; of the first group later releases
#: put its name before
_PLAIN = re.compile(r"\.(?:(Complex)|Simple|Non[pP]artitioned|TimestampBased)(?:Avro)?KeyGenerator$")


def candidate_keys(node: Node, props: TableProperties) -> frozenset[str] | None:
    """Every row for which the bound tree is true has one of these record keys; None: any."""
    found = values_of(node, (RECORD_KEY,))
    keys = None if found is None else frozenset(map(str, found))
    plain = _PLAIN.search(props.keygenerator_class or "")
    if len(props.record_key_fields) != 1 or plain is None:
        return keys
    (name,) = props.record_key_fields
    texts = texts_of(node, (name,))
    if texts is None or "" in texts:  # some generators have another text for the empty one
        return keys
    if plain[1]:
        texts |= {f"{name}:{text}" for text in texts}
    return texts if keys is None else keys & texts


def texts_of(node: Node, path: Path) -> frozenset[str] | None:
    """`values_of` a column of texts or whole numbers, as texts; None: any."""
    field = fields_of(node).get(path)
    if field is None or not (pa.types.is_string(field.type) or pa.types.is_integer(field.type)):
        return None
    values = values_of(node, path)
    if values is None:
        return None
    numbers = (value for value in values if not isinstance(value, str) and value == int(value))
    return frozenset([*map(str, map(int, numbers)), *(value for value in values if isinstance(value, str))])


def values_of(node: Node, path: Path) -> frozenset[Any] | None:
    """The values of the column in rows for which the tree is true; None: any."""
    if isinstance(node, Constant):
        return None if node.answers & TRUE else frozenset()
    if isinstance(node, And):
        found = [values for term in node.terms if (values := values_of(term, path)) is not None]
        return frozenset.intersection(*found) if found else None
    if isinstance(node, Or):
        every = [values_of(term, path) for term in node.terms]
        known = [values for values in every if values is not None]
        return frozenset().union(*known) if len(known) == len(every) else None
    if isinstance(node, Answers):
        return values_of(node.term, path) if node.among == TRUE else None
    if isinstance(node, Comparison):
        named = isinstance(node.left, Field) and node.left.path == path and node.sign in ("=", "<=>")
        return frozenset([node.right.value]) if named and isinstance(node.right, Literal) else None
    if isinstance(node, In):
        return node.members if isinstance(node.value, Field) and node.value.path == path else None
    return None
