"""Properties that come with a table and must not lead out of it, or run code (SECURITY.md)."""

from __future__ import annotations

from hoodie.errors import TableError

#: what names classes, and what names a folder below `.hoodie`
_CLASSES = (
    "hoodie.compaction.payload.class",
    "hoodie.table.keygenerator.class",
    "hoodie.bootstrap.index.class",
)
_FOLDER = "hoodie.archivelog.folder"
#: an expression, and what it is searched in: a table could have both such that the search never ends
_PATTERN = "hoodie.keygen.timebased.input.dateformat.list.delimiter.regex"
_SEARCHED = "hoodie.keygen.timebased.input.dateformat"
_LONGEST_PATTERN, _LONGEST_SEARCHED, _MOST_REPEATS = 30, 1000, 2


def checked_properties(texts: dict[str, str], base_path: str) -> dict[str, str]:
    """The texts of hoodie.properties. Raises TableError for a Python class, which only a caller may name,
    for an archive that is not below `.hoodie`, and for an expression that could be searched without end.
    """
    for name in _CLASSES:
        if ":" in texts.get(name, ""):
            raise TableError(
                f"{base_path} names Python code, {name}={texts[name]!r}; a table can't have code run. Give a "
                "class of your own in the options of the call, and correct the table's property",
                path=base_path,
                setting=name,
                value=texts[name],
            )
    folder = texts.get(_FOLDER, "")
    if folder.startswith("/") or "\0" in folder or not {"..", "."}.isdisjoint(folder.split("/")):
        raise TableError(
            f"{base_path} has its archive outside .hoodie, {_FOLDER}={folder!r}; correct that property",
            path=base_path,
            setting=_FOLDER,
            value=folder,
        )
    pattern = texts.get(_PATTERN, "")
    repeats = sum(map(pattern.count, "*+{?"))
    if (
        "(" in pattern
        or repeats > _MOST_REPEATS
        or len(pattern) > _LONGEST_PATTERN
        or len(texts.get(_SEARCHED, "")) > _LONGEST_SEARCHED
    ):
        raise TableError(
            f"{base_path} has an expression that may take for ever, {_PATTERN}={pattern[:100]!r}; a plain "
            "one, such as a comma, is enough: correct that property",
            path=base_path,
            setting=_PATTERN,
            value=pattern,
        )
    return texts
