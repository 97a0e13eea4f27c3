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


def checked_properties(texts: dict[str, str], base_path: str) -> dict[str, str]:
    """The texts of hoodie.properties. Raises TableError for a Python class, which only a caller may name,
    and for an archive that is not below `.hoodie`.
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
    return texts
