"""CSV files for the local engine: what their values are is decided here; Arrow parses them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.csv

from hoodie.codec.arrays import pc
from hoodie.source.arrow_files import in_memory
from hoodie.source.csv_dialect import Dialect, record_end
from hoodie.source.text import TextFile, line_end, text_blocks

#: whole numbers up to here are doubles, too
_EXACT = 1 << 53
#: stands for the type of whole numbers of which doubles do not hold all
_LONG = pa.uint64()
#: what in a text may be a number to Arrow, whose sign or base a number does not show
_MARKS = {pa.int64(): (b"0x", b"0X"), pa.float64(): (b"+",)}
_MOMENT = r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d"
#: types that Arrow infers, in the order in which it gives up one for the next, that take all values of one
#: another
_WIDER = (
    (pa.int64(), _LONG),
    (pa.int64(), pa.float64()),
    (pa.date32(), pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us")),
    (pa.timestamp("s", "UTC"), pa.timestamp("ns", "UTC"), pa.timestamp("us", "UTC")),
)


class CsvFile(TextFile):
    def whole_blocks(self) -> Iterator[bytes]:
        dialect = self.dialect
        encoding = "utf8" if dialect.encoding == "utf-8" else dialect.encoding
        many = dialect.multiline and dialect.quote
        last = b""
        for block in text_blocks(self, encoding, record_end(dialect) if many else line_end):
            if last and not last.isspace():
                yield last
                last = b""
            last += block
        yield last if last.endswith((b"\n", b"\r")) else last + b"\n"

    def lines(self, block: bytes) -> list[bytes]:
        return block.splitlines(keepends=True)

    def begun(self, first: bytes) -> tuple[TextFile, int]:
        lines = self.lines(first)
        head = next((number for number, line in enumerate(lines) if line.strip(b"\r\n")), 0)
        size = sum(map(len, lines[: head + 1]))
        self.vet(first[:size], 1)
        return replace(self, names=self._header(first[:size])), size

    def vet(self, block: bytes, line: int) -> None:
        if (found := self.dialect.problem(block)) is not None:
            raise self.unreadable(f"line {line + found[0]}: {found[1]}")

    def checked(self, text: bytes, count: int) -> pa.Table:
        if (found := self.dialect.problem(text)) is not None:
            raise pa.ArrowInvalid(found[1])
        if pc.any(self.dialect.torn(pa.array(self.lines(text), pa.binary()))).as_py():
            raise pa.ArrowInvalid("the line may be the end of a value whose quote begins in another line")
        rows = self.inferred(text, first=False)
        if rows.num_rows != count:
            raise pa.ArrowInvalid("a line is not one record")
        self.kinds(text, rows, first=False)
        rows.validate(full=True)
        return rows

    def inferred(self, block: bytes, first: bool) -> pa.Table:
        return self._table(block, first, self._given(block, first))

    def named(self, error: pa.ArrowException, block: bytes, first: bool, line: int) -> pa.ArrowException:
        """Arrow knows the row where one thread reads."""
        try:
            self._table(block, first, self._given(block, first), serial=True)
        except pa.ArrowInvalid as again:
            text = re.sub(r"Row #(\d+)", lambda found: f"row {int(found[1]) + line - 1}", str(again))
            names = self.names or self._header(block)
            text = re.sub(r"In CSV column #(\d+)", lambda found: f"column {names[int(found[1])]!r}", text)
            text = text.replace("CSV parse error: ", "").replace("CSV conversion error", "no value")
            return pa.ArrowInvalid(text)
        return error

    def kinds(self, block: bytes, rows: pa.Table, first: bool) -> pa.Schema:
        """The types of the values as they stand in the file. Raises ArrowInvalid for a value that is no
        timestamp in a column that is one in the table.
        """
        given = self._given(block, first)
        columns = dict(zip(rows.column_names, rows.columns, strict=True))
        found = {name: column.type if name in given else _kind(column) for name, column in columns.items()}
        types = {column.type for name, column in columns.items() if name not in given}
        marked = {kind for kind in types & {*_MARKS} if any(_has(block, mark) for mark in _MARKS[kind])}
        odd = [
            name
            for name, column in columns.items()
            if name not in given and (found[name] is None or column.type in marked)
        ]
        if odd:
            texts = self._table(block, first, dict.fromkeys(odd, pa.string()), odd)
            found |= {name: _kind_of(texts.column(name), columns[name]) for name in odd}
        for name, kind in given.items():
            if pa.types.is_floating(kind) and name in columns and pc.any(pc.is_inf(columns[name])).as_py():
                given_as = self._table(block, first, {name: pa.string()}, [name]).column(name)
                beyond = pc.and_(pc.is_inf(columns[name]), pc.match_substring_regex(given_as, r"\d"))
                lost: Any = given_as.filter(beyond)
                if len(lost):
                    raise pa.ArrowInvalid(f"column {name!r}: {lost[0].as_py()!r} is beyond a {kind}")
        for name in self._moments:
            kind = found.get(name) or pa.null()
            if not _is_moment(kind):
                raise pa.ArrowInvalid(f"column {name!r}: {_no_moment(columns[name])!r} is no timestamp")
        return pa.schema([(name, kind or pa.string()) for name, kind in found.items()])

    def settled(self, found: Sequence[pa.Schema]) -> TextFile:
        types = [_common(schema.types[place] for schema in found) for place in range(len(self.names))]
        return replace(self, types=tuple(types))

    def agreed(self, files: list[TextFile]) -> list[TextFile]:
        types: dict[str, set[pa.DataType]] = {}
        for file in files:
            for name, kind in zip(file.names, file.types, strict=True):
                types.setdefault(name, set()).add(kind)
        common = {name: self._final(name, _common(kinds)) for name, kinds in types.items()}
        return [replace(file, types=tuple(common[name] for name in file.names)) for file in files]

    def _final(self, name: str, kind: pa.DataType) -> pa.DataType:
        if kind == _LONG:
            return pa.int64()
        if name in self._moments and pa.types.is_date(kind):
            return pa.timestamp("us")
        if name in self._moments and pa.types.is_null(kind):
            return self._moments[name]
        return kind

    def rows(self, block: bytes, first: bool) -> pa.Table:
        return self._table(block, first, dict(zip(self.names, self.types, strict=True)))

    @property
    def _moments(self) -> dict[str, pa.DataType]:
        """The columns that are timestamps in the table: left to inference, which distinguishes those with a
        zone from those without.
        """
        return {item.name: item.type for item in self.known or () if pa.types.is_timestamp(item.type)}

    def typed(self, found: pa.Schema) -> pa.Schema:
        """Types that were inferred without names, with those that the table's columns give.

        Raises InputError for a column that is a timestamp in the table and has other values.
        """
        given = self._known
        for name, kind in zip(self.names, found.types, strict=True):
            if name in self._moments and not _is_moment(kind):
                raise self.unreadable(f"column {name!r}: a value is no timestamp")
        return pa.schema(
            [(name, given.get(name, kind)) for name, kind in zip(self.names, found.types, strict=True)]
        )

    def numbered(self, text: bytes) -> tuple[str, ...]:
        """Some names for the columns of a text without a header."""
        text = text.lstrip(b"\r\n")
        line = text[: text.index(b"\n") + 1]
        head = pa.csv.ReadOptions(autogenerate_column_names=True)
        with pa.csv.open_csv(in_memory(line), head, self._parse) as stream:
            return tuple(stream.schema.names)

    @property
    def _known(self) -> dict[str, pa.DataType]:
        """The types that the table's columns give."""
        return {
            item.name: item.type
            for item in self.known or ()
            if not (pa.types.is_nested(item.type) or pa.types.is_timestamp(item.type))
        }

    def _given(self, block: bytes, first: bool) -> dict[str, pa.DataType]:
        """The types that are not inferred."""
        known = self._known
        if self.source.flag("inferSchema", True):
            return known
        names = self._header(block) if first else self.names
        return {**{name: pa.string() for name in names if name not in self._moments}, **known}

    def _header(self, text: bytes) -> tuple[str, ...]:
        """The names of the columns in the beginning of a file."""
        if not self.dialect.multiline:
            line = re.match(rb"[\r\n]*[^\r\n]*[\r\n]*", text)
            text = line[0] if line else text
        with pa.csv.open_csv(in_memory(text), self._head(first=True), self._parse) as stream:
            return tuple(stream.schema.names)

    def _table(
        self,
        block: bytes,
        first: bool,
        types: dict[str, pa.DataType],
        columns: Sequence[str] = (),
        serial: bool = False,
    ) -> pa.Table:
        null = self.source.options.get("nullValue")
        convert = pa.csv.ConvertOptions(
            column_types=types,
            null_values=[""] if null is None else ["", null],
            strings_can_be_null=True,
            include_columns=list(columns),
            true_values=["true", "True", "TRUE"],
            false_values=["false", "False", "FALSE"],
        )
        return pa.csv.read_csv(in_memory(block), self._head(first, serial), self._parse, convert)

    def _head(self, first: bool, serial: bool = False) -> pa.csv.ReadOptions:
        if first:
            header = self.source.flag("header", True)
            return pa.csv.ReadOptions(autogenerate_column_names=not header, use_threads=not serial)
        return pa.csv.ReadOptions(column_names=list(self.names), use_threads=not serial)

    @cached_property
    def dialect(self) -> Dialect:
        return Dialect.of(self.source)

    @property
    def _parse(self) -> pa.csv.ParseOptions:
        dialect = self.dialect
        return pa.csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote or False,
            escape_char=dialect.escape or False,
            newlines_in_values=dialect.multiline,
        )


def _has(block: bytes, mark: bytes) -> bool:
    """Zeros are many, and an x is quickly found to be missing."""
    return mark[-1:] in block and mark in block


def _kind(column: pa.ChunkedArray[Any]) -> pa.DataType | None:
    """The type of values from which this one was inferred; None where their texts tell."""
    kind: pa.DataType = column.type
    if pa.types.is_time(kind):
        return pa.string()  # no column of a table holds it
    if pa.types.is_string(kind):
        first = pc.first(column).as_py()
        return None if first is not None and re.match(_MOMENT, first) else kind
    if kind not in (pa.int64(), pa.float64()) or not pc.any(_large(column)).as_py():
        return kind
    return _LONG if kind == pa.int64() else None


def _large(column: pa.ChunkedArray[Any]) -> Any:
    """Mask of the numbers next to which others are the same double."""
    return pc.or_(pc.greater_equal(column, _EXACT), pc.less_equal(column, -_EXACT))


def _kind_of(texts: pa.ChunkedArray[Any], column: pa.ChunkedArray[Any]) -> pa.DataType:
    """As `_kind`, by the texts. A number that is not all of its text, or not its value, is a text."""
    kind = column.type
    if pa.types.is_string(kind):
        return next((moment for moment in (_WIDER[2][-1], _WIDER[3][-1]) if _fits(texts, moment)), kind)
    changed = pc.match_substring_regex(texts, r"^\s*\+|[xX]")
    if kind == pa.float64():
        digits = pc.match_substring_regex(texts, r"^\s*-?[\d.]")
        whole = pc.match_substring_regex(texts, r"^\s*-?\d{16,}(\.\d*)?\s*$")
        lost = pc.or_(pc.and_(_large(column), whole), pc.and_(pc.is_inf(column), digits))
        changed = pc.or_(changed, lost)
    return pa.string() if pc.any(changed).as_py() else _kind(column) or kind


def _is_moment(kind: pa.DataType) -> bool:
    return pa.types.is_null(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)


def _fits(texts: pa.ChunkedArray[Any], kind: pa.DataType) -> bool:
    try:
        texts.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _no_moment(column: pa.ChunkedArray[Any]) -> Any:
    """The first value of a column that is no timestamp."""
    texts = column.cast(pa.string()).drop_null()
    others = texts.filter(pc.invert(pc.match_substring_regex(texts, _MOMENT)))
    return (others if len(others) else texts)[0].as_py()


def _common(kinds: Iterable[pa.DataType]) -> pa.DataType:
    """The type that values together have, of which parts have these types: else they are texts."""
    types = {*kinds} - {pa.null()} or {pa.null()}
    if len(types) == 1:
        return next(iter(types))
    orders = (order for order in _WIDER if types <= {*order})
    return next((max(types, key=order.index) for order in orders), pa.string())
