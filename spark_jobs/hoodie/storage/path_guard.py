"""Which paths a table's storage may touch: those below the table's folder, through real folders only.

A table is untrusted input: names in its metadata may lead out of it (`..`), and so may a link in
it. Links to folders that the caller allows are followed (Access). The check is of names and of
folders as they are at that moment; a process that changes folders while a job runs is not held off
(SECURITY.md).
"""

from __future__ import annotations

import errno
import os
import stat

from hoodie.errors import TableError
from hoodie.storage import Access, is_below

#: names that mean another folder than the one they lie in, or that
_FOLDERS = frozenset({"", ".", ".."})
_SETTING = "hoodie.storage.allowed.folders"


class Contained:
    """The paths below `root`. The root itself may be a link: the caller chose it."""

    def __init__(self, root: str, access: Access = Access()) -> None:  # noqa: B008  a tuple
        self.root = root
        self._access = access
        self._below = root.rstrip("/") + "/"
        self._real: set[str] = {root}

    def check(self, path: str) -> None:
        """Raises TableError for a path outside, or with a link among the folders above it."""
        folder, _, name = path.rpartition("/")
        known = folder in self._real
        if path == self.root or (known and name not in _FOLDERS and "\0" not in name):
            return
        check_name(path, self.root)
        if not known:
            self._walk(folder)

    def check_folder(self, path: str) -> None:
        """As `check`, of a folder that is going to be listed or deleted: it may be no link, either."""
        self.check(path)
        if path not in self._real:
            self._walk(path)

    def check_not_root(self, path: str) -> None:
        """Raises TableError for the table's folder and `.hoodie`, which are never deleted as a whole."""
        check_not_root(path, self.root)

    def follows(self, link: str) -> bool:
        """May a link be taken for the folder that it leads to?

        The caller allows that folder, and it neither is in the table nor has it inside. The link is in the
        table itself: links in folders that others lead to could make a circle.
        """
        if not self._access.admits(link):
            return False
        target, top = os.path.realpath(link), os.path.realpath(self.root)
        apart = not is_below(target, [top]) and not is_below(top, [target])
        return apart and os.path.isdir(target) and is_below(os.path.realpath(os.path.dirname(link)), [top])

    def _walk(self, folder: str) -> None:
        steps, place = folder[len(self._below) :].split("/"), self.root
        for step in steps:
            place = f"{place.rstrip('/')}/{step}"
            if place in self._real:
                continue
            try:
                mode = os.lstat(place).st_mode
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
                    raise
                return
            if not stat.S_ISDIR(mode):
                if not stat.S_ISLNK(mode):
                    return
                if not self.follows(place):
                    raise special(place, mode)
            self._real.add(place)


def check_name(path: str, root: str) -> None:
    """Raises TableError for a path that, as a name, is neither the root nor below it."""
    below = root.rstrip("/") + "/"
    if path != root and (not path.startswith(below) or "\0" in path or _leads_out(path[len(below) :])):
        raise TableError(
            f"{path!r} lies outside the table {root}; the table's metadata names it and is damaged "
            "or forged: nothing was read, written or deleted there. Restore the file that names it",
            path=path,
            table=root,
        )


def check_not_root(path: str, root: str) -> None:
    """Raises TableError for the table's folder and `.hoodie`, which are never deleted as a whole."""
    if path.rstrip("/") in (root, f"{root.rstrip('/')}/.hoodie"):
        raise TableError(f"{path} holds all of the table and is not deleted as a folder", path=path)


def special(path: str, mode: int) -> TableError:
    """The error for a link, pipe, socket or device in a table."""
    linked = stat.S_ISLNK(mode)
    kind = "a link" if linked else "no regular file"
    step = f" (of a folder that is linked on purpose, name the target in {_SETTING})" if linked else ""
    return TableError(
        f"{path!r} is {kind}; below a table there may be regular files and real folders only. Remove it, or "
        f"put the file itself there{step}",
        path=path,
    )


def shared(path: str) -> TableError:
    """The error for a file that is going to be overwritten and has another name, maybe outside the table."""
    return TableError(
        f"{path!r} is there already and has another name (a hard link), whose content would be overwritten; "
        "remove it",
        path=path,
    )


def _leads_out(relative: str) -> bool:
    return "." in relative and not {".", ".."}.isdisjoint(relative.split("/"))
