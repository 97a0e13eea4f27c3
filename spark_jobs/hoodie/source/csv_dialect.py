"""What a text of CSV is: its options, and which texts are not CSV."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import pc
from hoodie.errors import ConfigError
from hoodie.source import Source

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


def refuse_lines_in_values(source: Source) -> None:
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
