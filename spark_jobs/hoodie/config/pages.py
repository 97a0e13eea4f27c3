"""The settings reference, made from the declared keys: for `hoodie config` and for docs/settings.md.

`python -m hoodie.config.pages` prints the Markdown.
"""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Sequence
from typing import Any

from hoodie.config.key import Key, declared
from hoodie.config.unsupported import UNSUPPORTED

#: groups in the order of the page; others follow by name
_TITLES = {
    "table": "Table",
    "keys": "Keys and partitions",
    "write": "Writes",
    "merge": "Merging",
    "index": "Indexes",
    "storage": "Files",
    "read": "Queries",
    "memory": "Memory",
    "concurrency": "Concurrency",
    "aws": "Credentials of AWS",
}


def describe(key: Key[Any]) -> dict[str, Any]:
    """JSON-able description of a key; `default` is null where a setting is unset by default."""
    out: dict[str, Any] = {
        "name": key.name,
        "default": default_text(key),
        "meaning": " ".join(key.doc.split()),
        "group": key.group,
        "since": key.since,
    }
    if isinstance(key.default, enum.Enum):
        out["choices"] = [str(member.value) for member in type(key.default)]
    if key.minimum is not None:
        out["minimum"] = key.minimum
    if key.aliases:
        out["aliases"] = list(key.aliases)
    return out


def default_text(key: Key[Any]) -> str | None:
    """The default as a user would write it."""
    value = key.default
    if value in (None, (), "", {}):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def text(keys: Sequence[Key[Any]], width: int = 100) -> str:
    """For a terminal."""
    blocks: list[str] = []
    for group, members in _grouped(keys).items():
        blocks.append(f"{_title(group)}\n{'=' * len(_title(group))}")
        for key in members:
            about = describe(key)
            default = "unset by default" if about["default"] is None else f"default {about['default']}"
            blocks.append(
                f"{key.name}  ({default})\n"
                + textwrap.fill(_meaning(about), width, initial_indent="    ", subsequent_indent="    ")
            )
    return "\n\n".join(blocks)


def markdown(keys: Sequence[Key[Any]]) -> str:
    """docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "<!-- Made by `python -m hoodie.config.pages > docs/settings.md`; a test keeps it fresh. -->",
        "",
        "Pass settings as `options=` of the Python API and of the operators, or on the command line",
        "with `--option NAME=VALUE` and `--properties FILE`. All of them are checked before anything is",
        "written: a malformed value or an unknown `hoodie.*` name is an error, which gives the nearest",
        "known name. A name that Apache Hudi knows and that has no effect here is accepted with a",
        "warning in the result, or [refused](#refused) where ignoring it would do harm.",
    ]
    for group, members in _grouped(keys).items():
        lines += ["", f"## {_title(group)}", "", "| Name | Default | Meaning |", "|---|---|---|"]
        for key in members:
            about = describe(key)
            default = "" if about["default"] is None else f"`{about['default']}`"
            meaning = _meaning(about).replace("|", "\\|")
            lines.append(f"| `{key.name}` | {default} | {meaning} |")
    lines += [
        "",
        "## Refused",
        "",
        "Settings of Apache Hudi that are not supported and can't be ignored. Values that ask for what is",
        "done here anyway are accepted. Those marked * make a table: another value is accepted where the",
        "table has it already.",
        "",
        "| Name | Accepted | Why not others, and what instead |",
        "|---|---|---|",
    ]
    for name, rule in sorted(UNSUPPORTED.items()):
        accepted = ", ".join(f"`{value}`" for value in rule.accepted)
        lines.append(f"| `{name}`{'*' if rule.stored_as else ''} | {accepted} | {rule.instead} |")
    return "\n".join(lines) + "\n"


def _meaning(about: dict[str, Any]) -> str:
    text: str = about["meaning"]
    if "choices" in about and len(about["choices"]) > 1:
        text += f" One of {', '.join(about['choices'])}."
    if "minimum" in about:
        text += f" At least {about['minimum']:g}."
    if "aliases" in about:
        text += f" Also {', '.join(about['aliases'])}."
    return text


def _grouped(keys: Sequence[Key[Any]]) -> dict[str, list[Key[Any]]]:
    order = [*_TITLES, *sorted({key.group for key in keys} - set(_TITLES))]
    groups = {group: [key for key in keys if key.group == group] for group in order}
    return {group: members for group, members in groups.items() if members}


def _title(group: str) -> str:
    return _TITLES.get(group, group.replace("_", " ").capitalize())


if __name__ == "__main__":
    print(markdown(declared()), end="")
