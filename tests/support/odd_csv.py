"""CSV files as they are in the wild, and what a reader of texts says of them."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import io
import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from tests.support.arrow import arrow_schema

_VALUES = [
    "x", "Müller", "", " ", " x ", "5", " 5", "5 ", "-0", "+5", "007", "1_000", "1,5", "0x1F", "1d", "2F",
    "1e5", "1e400", "NaN", "nan", "inf", "-Infinity", "NULL", "null", "NA", "true", "TRUE", "yes",
    "9223372036854775807", "9223372036854775808", "-9223372036854775809", "10000000000000000001",
    "9007199254740993", "12345678901234567.89", "0.1", ".5", "5.", "1.50", "1e-400", "14:05", "14:05:59.5",
    "2024-01-02", "2024-02-30", "0001-01-01", "10000-01-01", "2024-01-02 10:00", "2024-01-02T10:00:00",
    "2024-01-02 10:00:00.123456", "9999-12-31 23:59:59.999999", "2024-01-02T10:00:00Z",
    "2024-01-02T10:00:00+02:00", "01/02/2024", '5" disk', '"', '""', 'a"', "C:\\dir\\", "\\", "'", "#x", ";",
    "\t", "a\0b", "\ufeffx", "\u2028", "😀", "__", "=1+1",
]  # fmt: skip
KNOWN = arrow_schema(
    [
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.int32()),
        ("m", pa.decimal128(9, 2)),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("day", pa.date32()),
    ]
)


class Odd(NamedTuple):
    name: str
    text: bytes
    options: Mapping[str, str] = MappingProxyType({})
    known: pa.Schema | None = None

    def records(self) -> list[list[str]] | None:
        """Header and rows as texts, by Python's reader in strict mode; None for what is no CSV."""
        options = self.options
        try:
            text = self.text.decode(options.get("encoding", "utf-8")).removeprefix("\ufeff")
            quote = options.get("quote", '"')
            escape = options.get("escape", "")
            found = csv.reader(
                io.StringIO(text, newline=""),
                strict=True,
                delimiter=options.get("sep", ","),
                quotechar=quote or None,
                quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
                escapechar=escape or None,
                doublequote=not escape,
            )
            rows = [row for row in found if row]
        except (UnicodeDecodeError, csv.Error):
            return None
        return rows if rows and all(len(row) == len(rows[0]) for row in rows) else None

    def kept(self, found: pa.Table) -> bool:
        """Are these rows, in any order, all values of the text?"""
        records = self.records()
        if records is None or found.column_names != records[0] or found.num_rows != len(records) - 1:
            return False
        rows = [[row[name] for name in records[0]] for row in found.sort_by("id").to_pylist()]
        texts = sorted(records[1:], key=lambda row: (len(row[0]), row[0]))
        return all(
            _same(value, text, exact=self.known is None)
            for row, line in zip(rows, texts, strict=True)
            for value, text in zip(row, line, strict=True)
        )


def odd_files() -> Iterator[Odd]:
    """Each value is in a small file and in the last line of a longer one, some in columns of a table."""
    yield from _structures()
    for number, value in enumerate(_VALUES):
        quoted = '"' + value.replace('"', '""') + '"'
        yield Odd(f"v{number}", f"id,v\n1,{value}\n".encode())
        yield Odd(f"q{number}", ("id,v\n" + "1,7\n" * 40 + f"2,{quoted}").encode())
        if number % 5 == 0:
            for name in KNOWN.names:
                yield Odd(f"k{number}{name}", f"id,{name}\n1,{quoted}\n".encode(), {}, KNOWN)


def _structures() -> Iterator[Odd]:
    lines = "".join(f"{number},v{number}\n" for number in range(40))
    texts: dict[str, tuple[str, dict[str, str]]] = {
        "plain": (f"id,v\n{lines}", {}),
        "stray": (f'id,v\n{lines}41,"5 inch\n{lines}', {}),
        "lines": (f'id,v\n{lines}41,"a\nb,c"\n', {}),
        "multi": (f'id,v\n{lines}41,"a\nb,c"\n42,"a\r\nb"', {"multiLine": "true"}),
        "open": (f'id,v\n{lines}41,"a\nb,c\n', {"multiLine": "true"}),
        "double": (f'id,v\n{lines}41,"a ""b"", c"\n42,5" x\n43,C:\\dir\\\n44,"C:\\"\n', {}),
        "after": (f'id,v\n{lines}41,"a" b\n', {}),
        "escape": ('id,v\n41,"a \\"b\\", c"\n', {"escape": "\\"}),
        "escaped": ("id,v\n41,C:\\dir\n", {"escape": "\\"}),
        "no quote": ('id,v\n41,"a\n42,b"\n', {"quote": ""}),
        "quote": ("id,v\n1,'a,b'\n2,\"x\"\n", {"quote": "'"}),
        "sep": ("id;v\n1;a,b\n", {"sep": ";"}),
        "tab": ("id\tv\n1\ta,b\n", {"sep": "\t"}),
        "header": ("id,v", {}),
        "bom": ('\ufeff"id",v\n1,2\n', {}),
        "crlf": ("id,v\r\n1,2\r\n\r\n3,4", {}),
        "cr": ("id,v\r1,2\r3,4\r", {}),
        "ends": ("id,v\n1,2\r3,4\r\n5,6\n", {}),
        "blank": ("\n\n", {}),
        "blanks": ("\n\nid,v\n1,2\n\n\n3,4\n" + "\n" * 99, {}),
        "ragged": ("id,v\n1,2,3\n", {}),
        "short": ("id,v\n" + "1,2\n" * 40 + "1\n", {}),
        "twice": ("id,id\n1,2\n", {}),
        "one": ("id\n1\n\n2\n", {}),
        "mixed": ("id,v\n1,2024-01-01\n2,x\n", {}),
        "dates": ("id,v\n1,2024-01-01\n" + "2,2024-01-02 10:00:00\n" * 20, {}),
        "zones": ("id,v\n1,2024-01-01 00:00:00\n" + "2,2024-01-02T10:00:00Z\n" * 20, {}),
        "fraction": ("id,v\n1,9007199254740993\n" + "2,1.5\n" * 40, {}),
        "bools": ("id,v\n1,true\n" + "2,1\n" * 40, {}),
        "names": ("id,a`b,a.b,Ü\n1,2,3,4\n", {}),
        "texts": ("id,v\n007,1.50\n", {"inferSchema": "false"}),
    }
    for name, (text, options) in texts.items():
        yield Odd(name, text.encode(), options)
    yield Odd("latin", f"id,v\n{lines}41,Müller\n".encode("latin-1"))
    yield Odd("latin-1", f"id,v\n{lines}41,Müller\n".encode("latin-1"), {"encoding": "ISO-8859-1"})
    yield Odd("cp1252", "id,v\n1,5 €\n".encode("cp1252"), {"encoding": "windows-1252"})
    yield Odd("no cp1252", b"id,v\n1,\x81\n", {"encoding": "windows-1252"})
    yield Odd("utf-16", f"id,v\n{lines}41,Müller\n".encode("utf-16"), {"encoding": "utf-16"})
    yield Odd("empty", b"")


def _same(value: Any, text: str, exact: bool) -> bool:
    """Is the value that was read the one of the text, nothing of it lost?"""
    if value is None or isinstance(value, str):
        return (value or "") == text
    plain = text.strip()
    if isinstance(value, bool):
        return plain.lower() == str(value).lower()
    if isinstance(value, float):
        number = float(plain)
        lost = exact and plain.lstrip("-").isdigit() and int(plain) != value
        return not lost and ((math.isnan(value) and math.isnan(number)) or value == number)
    if isinstance(value, int):
        return plain.lstrip("-").isdigit() and int(plain) == value
    if isinstance(value, decimal.Decimal):
        return decimal.Decimal(plain) == value
    if isinstance(value, dt.datetime):
        found = dt.datetime.fromisoformat(plain.replace("Z", "+00:00"))
        zone = dt.timezone.utc
        return (found if found.tzinfo else found.replace(tzinfo=zone)) == (
            value if value.tzinfo else value.replace(tzinfo=zone)
        )
    return str(value) == plain
