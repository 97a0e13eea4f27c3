"""How results look in a shell and in a notebook: a title, and a line for each field that has a value.

What a table says comes from whoever may write into it: control characters are made visible, and HTML is
escaped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsIndex, TypeVar, overload

from hoodie.text import visible

T = TypeVar("T")

#: characters of a value that are shown
_LONGEST = 200
#: records of a field that are shown, and the first and last ones of a list
_NESTED, _ENDS = 10, 10
_STYLE = ' style="text-align: left"'


class Shown:
    """A dataclass with `repr=False` that is shown in several lines, and in notebooks as a table.

    Fields that are empty, and counts of 0, are left out.
    """

    def __repr__(self) -> str:
        return text_of(type(self).__name__, facts_of(self))

    def _repr_html_(self) -> str:
        return html_of(type(self).__name__, facts_of(self))


class Records(list[T]):
    """A list of dataclasses that is shown as a table. A slice of it is one, too."""

    @overload
    def __getitem__(self, place: SupportsIndex) -> T: ...

    @overload
    def __getitem__(self, place: slice) -> Records[T]: ...

    def __getitem__(self, place: SupportsIndex | slice) -> T | Records[T]:
        if isinstance(place, slice):
            return Records(super().__getitem__(place))
        return super().__getitem__(place)

    def __repr__(self) -> str:
        return text_of_rows(*self._shown()) if self else "[]"

    def _repr_html_(self) -> str:
        return html_of_rows(*self._shown()) if self else "[]"

    def _shown(self) -> tuple[str, list[str], list[list[object]]]:
        """Title, names of columns, rows."""
        title = f"list of {len(self)} {type(self[0]).__name__}"
        if len(self) <= 2 * _ENDS:
            return (title, *_columns(self))
        names, rows = _columns([*self[:_ENDS], *self[-_ENDS:]])
        return title, names, [*rows[:_ENDS], ["…"] * len(names), *rows[_ENDS:]]


def facts_of(record: Any) -> dict[str, object]:
    """The fields of a dataclass, or the items of a mapping, that have a value."""
    return {str(name): value for name, value in _items(record).items() if value}


def text_of(title: str, facts: Mapping[str, object]) -> str:
    """The title, and one line for each fact, their values below each other. Records of a value are indented
    below it.
    """
    width = max((len(name) for name in facts), default=0) + 1
    lines = [visible(title)]
    for name, value in facts.items():
        records = _records(value)
        said = len(records) if records else value
        lines.append(f"  {_short(name) + ':':<{width}} {_short(_plain(said))}")
        lines += [f"    {_short(_plain(facts_of(item)))}" for item in records[:_NESTED]]
        if len(records) > _NESTED:
            lines.append(f"    and {len(records) - _NESTED} more")
    return "\n".join(lines)


def html_of(title: str, facts: Mapping[str, object]) -> str:
    """The same as an HTML table, with a table in the cell of records."""
    rows = "".join(
        f"<tr><th{_STYLE}>{_escaped(name)}</th><td{_STYLE}>{_cell(value)}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table><caption>{_escaped(title)}</caption><tbody>{rows}</tbody></table>"


def text_of_rows(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The title, and below it rows in columns with their names."""
    cells = [[_short(_plain(value)) for value in row] for row in (names, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in cells]
    return "\n".join([visible(title), *(f"  {line.rstrip()}" for line in lines)])


def html_of_rows(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The same as an HTML table."""
    head = "".join(f"<th{_STYLE}>{_escaped(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td{_STYLE}>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows
    )
    caption, head = f"<caption>{_escaped(title)}</caption>", f"<thead><tr>{head}</tr></thead>"
    return f"<table>{caption}{head}<tbody>{body}</tbody></table>"


def _items(record: Any) -> Mapping[str, object]:
    if isinstance(record, Mapping):
        return record
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def _columns(records: Sequence[Any]) -> tuple[list[str], list[list[object]]]:
    """The names of which any record has a value, in the order of its fields, and the values."""
    facts = [facts_of(record) for record in records]
    known = dict.fromkeys(str(name) for record in records for name in _items(record))
    names = [name for name in known if any(name in fact for fact in facts)]
    return names, [[fact.get(name, "") for name in names] for fact in facts]


def _records(value: object) -> list[Any]:
    """The records of a value: dataclasses or mappings in a list, or in a mapping by name."""
    if isinstance(value, Mapping) and value and all(isinstance(item, Mapping) for item in value.values()):
        return [{"": name, **facts_of(item)} for name, item in value.items()]
    if isinstance(value, (list, tuple)) and all(_is_record(item) for item in value):
        return list(value)
    return []


def _is_record(value: object) -> bool:
    return isinstance(value, Mapping) or (dataclasses.is_dataclass(value) and not isinstance(value, type))


def _plain(value: object) -> str:
    """A value on one line."""
    if _is_record(value):
        facts = facts_of(value)
        return ", ".join(f"{name}={_plain(item)}" if name else _plain(item) for name, item in facts.items())
    if isinstance(value, (list, tuple)):
        return str(len(value)) if _records(value) else ", ".join(map(_plain, value))
    return str(value)


def _cell(value: object) -> str:
    records = _records(value)
    if not records:
        return _escaped(_plain(value))
    names, rows = _columns(records[:_NESTED])
    more = len(records) - _NESTED
    return html_of_rows(f"and {more} more" if more > 0 else "", names, rows)


def _short(text: str) -> str:
    found = visible(text[: _LONGEST + 1])
    return found if len(found) <= _LONGEST else f"{found[:_LONGEST]}…"


def _escaped(text: str) -> str:
    import html

    return html.escape(_short(text))
