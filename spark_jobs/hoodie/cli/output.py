"""Answers for people and for machines."""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any

from hoodie.text import ascii_controls, lines, visible, visible_in

#: of rows in files and on stdout, by their suffixes
FORMATS = ("parquet", "csv", "json", "jsonl")
_CELL = 36
#: the end of the year 9999; files may have any time
_LAST_MS = 253_402_300_800_000


@dataclass(frozen=True)
class Answer:
    """What a command says: `document` for --json, `text` for people; `code` is the exit code. `printed`: the
    command has printed all itself.
    """

    document: Mapping[str, Any]
    text: str
    code: int = 0
    printed: bool = False

    @classmethod
    def of(cls, document: Mapping[str, Any], text: Callable[[Any], str], code: int = 0) -> Answer:
        """`text` describes the document for people; the texts that it is given have no control characters."""
        return cls(document, text(visible_in(document)), code)

    def print(self, as_json: bool) -> None:
        if not self.printed:
            print(to_json(self.document) if as_json else lines(self.text))
        sys.stdout.flush()


def to_json(document: Mapping[str, Any]) -> str:
    """One line. Decimals are texts, dates and times ISO 8601, bytes base64, NaN and infinities texts; control
    characters are escaped.
    """
    return fragment(document)


def fragment(value: Any) -> str:
    """A value as JSON on one line, as `to_json` has it."""
    return ascii_controls(json.dumps(_plain(value), ensure_ascii=False, allow_nan=False))


def plain_text(value: Any) -> str:
    """A value as a text: JSON of nested ones, else without quotes."""
    found = _plain(value)
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def grid(heads: Sequence[str], rows: Sequence[Sequence[Any]], cell: int | None = None) -> str:
    """Aligned columns; numbers to the right. `cell` cuts longer texts."""
    heads = [visible(head) for head in heads]
    texts = [[_cell(value, cell) for value in row] for row in rows]
    widths = [max([len(head), *(len(row[i]) for row in texts)]) for i, head in enumerate(heads)]
    right = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(heads))]

    def line(row: Sequence[str]) -> str:
        parts = (
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(row, widths, right, strict=True)
        )
        return "  ".join(parts).rstrip()

    return "\n".join([line(heads), line(["-" * width for width in widths]), *map(line, texts)])


def rows_grid(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """`grid` for a table's rows: long values are cut, nulls shown."""
    shown = [["null" if value is None else value for value in row] for row in rows]
    return grid(heads, shown, _CELL)


def _is_number(value: Any) -> bool:
    return value in (None, "", "null") or (
        isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    )


def _cell(value: Any, limit: int | None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, datetime):
        text = value.isoformat(sep=" ")
    elif isinstance(value, (Mapping, list, tuple, bytes)):
        text = json.dumps(_plain(value), ensure_ascii=False)
    else:
        text = str(value)
    text = visible(text)
    return text[: limit - 1] + "…" if limit and len(text) > limit else text


def moment(millis: int | None) -> str:
    """Epoch milliseconds in UTC, to the second; "" for none, and for what no calendar has."""
    if millis is None or not 0 <= millis < _LAST_MS:
        return ""
    return datetime.fromtimestamp(millis / 1000, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
