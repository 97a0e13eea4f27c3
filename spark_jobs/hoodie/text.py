"""Texts for people: those out of tables and files, numbers, sizes.

A terminal obeys control characters, and a log's reader takes a line for a message. Here, and nowhere else,
they are made visible: `\\x1b` for an escape. A backslash stays as it is, so that a visible text is its own
visible form.
"""

from __future__ import annotations

import contextlib
import contextvars
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

#: C0, DEL, C1; marks, overrides and isolates of the direction of writing; separators of lines and
#: paragraphs; halves of characters, by which Python stands for bytes that are no text
_CONTROL = "\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff"
_ANY = re.compile(f"[{_CONTROL}]")
_IN_LINES = re.compile(f"(?![\\n\\t])[{_CONTROL}]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(value: object) -> str:
    """The text of a value on one line: control characters as `\\n`, `\\x1b` or `\\u202e`."""
    return _ANY.sub(_shown, str(value))


def lines(text: str) -> str:
    """A text of several lines: as `visible`, but newlines and tabs stay."""
    return _IN_LINES.sub(_shown, text)


def visible_in(value: Any) -> Any:
    """A copy of a document whose texts, keys included, are `visible`."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible_in(name): visible_in(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [visible_in(item) for item in value]
    return value


def ascii_controls(json_text: str) -> str:
    """The same JSON with control characters as `\\u001b`; outside of its texts it must have none."""
    return _ANY.sub(lambda match: f"\\u{ord(match[0]):04x}", json_text)


def size(count: int) -> str:
    """Bytes for people: 868 B, 848.0 KiB, 1.2 GiB."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def period(milliseconds: float) -> str:
    """A length of time for people: 12 s, 5 min, 3 h 20 min, 2 d 4 h."""
    seconds = int(milliseconds // 1000)
    if seconds < 60:
        return f"{seconds} s"
    minutes = seconds // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def plural(count: int, noun: str) -> str:
    """1 file, 1,200 files."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


#: the packages of the extras, which indexes of packages have under these names
_LOCAL = "pyarrow numpy fastavro"
_PACKAGES = {
    "local": f"{_LOCAL} duckdb",
    "spark": f"pyspark pandas {_LOCAL}",
    "sql": "sqlglot",
    "hbase": "happybase",
    **dict.fromkeys(("s3", "gcs", "azure"), "obstore"),
    "zookeeper": "kazoo",
    "hive-metastore": "thriftpy2",
    **dict.fromkeys(("dynamodb", "glue"), "boto3"),
    "kafka": "confluent-kafka",
    "pulsar": "pulsar-client",
}


def install(extra: str) -> str:
    """The command that installs what an extra of airflow-hoodie has."""
    return f"pip install {_PACKAGES[extra]}"


def nearest(name: str, known: Iterable[str]) -> str:
    """`, did you mean 'upsert'?` of the known name that is most like this one; "" where none is like it."""
    import difflib  # for errors only

    names = {item.lower(): item for item in known}
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    return f", did you mean {names[near[0]]!r}?" if near else ""


_FLAGS = contextvars.ContextVar("flags", default=False)


@contextlib.contextmanager
def arguments_as_flags() -> Iterator[None]:
    """`argument` names flags of the command line inside, for errors that its user reads."""
    token = _FLAGS.set(True)
    try:
        yield
    finally:
        _FLAGS.reset(token)


def argument(name: str, flag: str = "") -> str:
    """An argument of the Python API as the caller writes it: as_of, or --as-of on the command line. `flag`:
    of one that has another name there.
    """
    return (flag or f"--{name.replace('_', '-')}") if _FLAGS.get() else name


def _shown(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    return _SHORT.get(char) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
