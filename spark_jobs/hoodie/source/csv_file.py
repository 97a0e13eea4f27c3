"""CSV files for the local engine: this module decides which texts are CSV, by which options, and which
values they have; Arrow parses them.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from hoodie.codec.arrays import pc
from hoodie.errors import ConfigError
from hoodie.source import Source
from hoodie.source.arrow_files import in_memory
from hoodie.source.text import TextFile, line_end, text_blocks

_ENDS = r"\r\n"


@dataclass(frozen=True)
class Dialect:
    """A value begins with a quote and ends with one, or a quote in it is a letter. In quotes, a quote is
    doubled, or, where there is an escape character, has that before it.

    A record is a line unless `multiline` says that values in quotes may hold line ends.
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    multiline: bool = False
    encoding: str = "utf-8"

    @classmethod
    def of(cls, source: Source) -> Dialect:
        """Raises ConfigError."""
        options = source.options
        delimiter = options.get("sep", options.get("delimiter", ","))
        quote, escape = options.get("quote", '"'), options.get("escape", "")
        delimiter = "\t" if delimiter == r"\t" else delimiter
        for name, text in (("sep", delimiter), ("quote", quote), ("escape", escape)):
            empty = not text and name == "sep"
            if empty or len(text) > 1 or not text.isascii() or text in ("\r", "\n", "\0"):
                raise ConfigError(
                    f"source option {name}={text!r}: one letter of ASCII that is no line end", option=name
                )
        if quote == delimiter or escape == delimiter:
            raise ConfigError(
                f"source option sep={delimiter!r} is the quote or the escape, too", option="sep"
            )
        encoding = options.get("encoding", "utf-8")
        try:
            encoding = codecs.lookup(encoding).name
        except LookupError:
            raise ConfigError(
                f"source option encoding={encoding!r} is not known", option="encoding"
            ) from None
        escape = "" if escape == quote or not quote else escape
        return cls(delimiter, quote, escape, source.flag("multiLine", False), encoding)

    def problem(self, text: bytes) -> tuple[int, str] | None:
        """Of whole records, in UTF-8: the line of the first that is not one, from 0, and what is wrong. None
        where the text is CSV.
        """
        if not text.isascii():
            try:
                codecs.utf_8_decode(text, "strict", True)
            except UnicodeDecodeError as error:
                value = text[error.start : error.start + 1]
                return _line(text, error.start), (
                    f"the text is not UTF-8 (byte 0x{value.hex()}); set the source option encoding, such as "
                    "encoding=windows-1252"
                )
        marks = [mark.encode() for mark in (self.quote, self.escape) if mark]
        if not any(mark in text for mark in marks):
            return None
        begin = len(codecs.BOM_UTF8) if text.startswith(codecs.BOM_UTF8) else 0
        plain = text[begin:]
        whole = rf"\A(?:{self._value}[{self._comma}{_ENDS}])*{self._value}\z"
        if pc.match_substring_regex(pa.array([plain], pa.large_binary()), whole)[0].as_py():
            return None
        return self._found(plain)

    def torn(self, lines: pa.Array[Any]) -> Any:
        """Mask of the lines, in themselves CSV, that may be parts of one record: an odd number of quotes, of
        which one is where a value ends; others are letters.
        """
        if not self.quote:
            return pc.equal(pc.binary_length(lines), -1)
        if self.escape:
            lines = pc.replace_substring(lines, (self.escape + self.quote).encode(), b"")
        quote = re.escape(self.quote)
        odd = pc.bit_wise_and(pc.count_substring(lines, self.quote), 1)
        return pc.and_(pc.equal(odd, 1), pc.match_substring_regex(lines, f"{quote}({self._comma}|\r|\n|$)"))

    def _found(self, text: bytes) -> tuple[int, str]:
        """As `problem`, of a text that has one: record by record."""
        value, comma = self._value, f"[{self._comma}]"
        record = re.compile(f"{value}(?:{comma}{value})*(?:\r\n|\r|\n|\\Z)".encode("latin-1"))
        field = re.compile(f"{value}{comma}".encode("latin-1"))
        at = 0
        while (match := record.match(text, at)) and match.end() > at:
            at = match.end()
        line, number = _line(text, at), 1
        while match := field.match(text, at):
            at, number = match.end(), number + 1
        place = f"value {number}: "
        if self.escape and text[at : at + 1] != self.quote.encode():
            return line, f"{place}the escape {self.escape} is not before a quote in a value in quotes"
        if re.compile(self._quoted.encode("latin-1")).match(text, at):
            return line, (
                f"{place}the value in quotes goes on after the quote that ends it; double quotes in a value"
            )
        end = "file" if self.multiline else "line"
        advice = "" if self.multiline else "set the source option multiLine=true for values with line ends, "
        return line, (
            f"{place}the quote that begins it does not end in the {end}; {advice}mend the {end}, or set the "
            "option quote"
        )

    @cached_property
    def _comma(self) -> str:
        return re.escape(self.delimiter)

    @cached_property
    def _quoted(self) -> str:
        quote, ends = re.escape(self.quote), "" if self.multiline else _ENDS
        if not self.escape:
            return f"{quote}[^{quote}{ends}]*(?:{quote}{quote}[^{quote}{ends}]*)*{quote}"
        escape = re.escape(self.escape)
        return f"{quote}(?:[^{quote}{escape}{ends}]|{escape}{quote})*{quote}"

    @cached_property
    def _value(self) -> str:
        """A pattern of all values, the empty one included."""
        no = f"{self._comma}{_ENDS}{re.escape(self.escape)}"
        return f"(?:{self._quoted}|[^{re.escape(self.quote)}{no}][^{no}]*|)" if self.quote else f"[^{no}]*"


def _line(text: bytes, at: int) -> int:
    return text.count(b"\n", 0, at) or text.replace(b"\r\n", b"\n").count(b"\r", 0, at)


def check_no_lines_in_values(source: Source) -> None:
    """Raises ConfigError where bad records are to be found among records of several lines."""
    if source.flag("multiLine", False):
        raise ConfigError(
            "with multiLine=true it is not known where a bad record of CSV ends; leave out the error "
            "table, or the line ends in values",
            option="multiLine",
        )


def record_end(dialect: Dialect) -> Callable[[bytes], int]:
    """The end of the last record in a text whose values may hold line ends, in quotes.

    A quote is one only where a value begins, else a letter: no end is looked for in a text with such letters.
    """
    if dialect.escape:
        return lambda text: 0  # a quote may be escaped: the file is one block
    quote = ord(dialect.quote)
    before_value = np.frombuffer(f"{dialect.delimiter}{dialect.quote}\r\n".encode(), dtype=np.uint8)

    def end(text: bytes) -> int:
        letters = np.frombuffer(text, dtype=np.uint8)
        ends = np.flatnonzero(letters == ord("\n"))
        quotes = np.flatnonzero(letters == quote)
        begins = quotes[::2]
        begins = begins[begins > (len(codecs.BOM_UTF8) if text.startswith(codecs.BOM_UTF8) else 0)]
        if not np.isin(letters[begins - 1], before_value).all():
            return 0
        outside = ends[np.searchsorted(quotes, ends) % 2 == 0]
        return int(outside[-1]) + 1 if len(outside) else 0

    return end


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
