"""Text of java.util.Properties: hoodie.properties and `.hoodie_partition_metadata` (format.md 1.1)."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone

#: files of at most so many bytes are parsed once as long as their content stays
_KNOWN_FILES, _KNOWN_BYTES = 16, 1 << 16
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
_BLANK = " \t\f"
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def parse_properties(data: bytes) -> dict[str, str]:
    """Bytes of a Java properties file -> texts, in file order (java.util.Properties.load).

    Raises ValueError for a malformed `\\uXXXX` escape.
    """
    return dict(_known(data)) if len(data) <= _KNOWN_BYTES else _parsed(data)


def _parsed(data: bytes) -> dict[str, str]:
    texts: dict[str, str] = {}
    for line in _logical_lines(data.decode("iso-8859-1")):
        match = _KEY.match(line)
        key = match.group() if match else ""
        rest = line[len(key) :].lstrip(_BLANK)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANK)
        texts[_unescape(key)] = _unescape(rest)
    return texts


#: a write reads the properties of its table again before each step that depends on them
_known = functools.lru_cache(_KNOWN_FILES)(_parsed)


def format_properties(texts: Mapping[str, str], comment: str, moment: datetime) -> bytes:
    """Texts -> bytes of a Java properties file with comment and date lines (java.util.Properties.store)."""
    utc = moment.astimezone(timezone.utc)
    date = f"{_DAYS[utc.weekday()]} {_MONTHS[utc.month - 1]} {utc.day:02d} {utc:%H:%M:%S} UTC {utc.year}"
    lines = [f"#{comment}", f"#{date}"]
    lines += [f"{_escape(key, every_blank=True)}={_escape(value)}" for key, value in texts.items()]
    return ("\n".join(lines) + "\n").encode("ascii")


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blanks, continuations joined, leading blanks dropped."""
    pending: str | None = None
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANK)
        if pending is None:
            if not line or line[0] in "#!":
                continue
        else:
            line = pending + line
            pending = None
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = line[:-1]
        else:
            yield line
    if pending is not None:
        yield pending


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_unescape_one, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape_one(match: re.Match[str]) -> str:
    body = match.group(1)
    if body == "u":
        raise ValueError(f"malformed \\uXXXX escape in {match.string!r}")
    return chr(int(body[1:], 16)) if len(body) > 1 else _ESCAPES.get(body, body)


def _escape(text: str, every_blank: bool = False) -> str:
    out: list[str] = []
    for index, char in enumerate(text):
        if char in _UNESCAPES:
            out.append(_UNESCAPES[char])
        elif char in "\\=:#!" or (char == " " and (every_blank or index == 0)):
            out.append("\\" + char)
        elif " " <= char <= "~":
            out.append(char)
        else:
            units = char.encode("utf-16-be", "surrogatepass")
            out += [f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2)]
    return "".join(out)
