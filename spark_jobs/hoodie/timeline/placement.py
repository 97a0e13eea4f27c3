"""Where the instants of a table lie: which layout counts, also while the table's version changes.

Standard library only.
"""

from __future__ import annotations

import contextlib
import re
from typing import NamedTuple

from hoodie.config import versions
from hoodie.errors import HalfUpgraded, TableBusy
from hoodie.format.names import META_FOLDER
from hoodie.storage import Storage
from hoodie.timeline.layout import Layout
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.layouts.two import TWO

#: in `.hoodie` while the version changes (`table.version_change`): hoodie.properties says which instants
#: count, those of the other layout are copies. It contains the former version and the next one
VERSION_CHANGE = "version_change"
#: in `.hoodie`, that of layout two
LATER_FOLDER = TWO.folder.rpartition("/")[2]
#: listings while the version changes
_ROUNDS = 5
_VERSION = re.compile(rb"^hoodie\.table\.version\s*=\s*(\d+)", re.MULTILINE)
_CHANGE = re.compile(rb"(\d{1,2}) (\d{1,2})")
_ZONE = re.compile(rb"^hoodie\.table\.timeline\.timezone\s*=\s*utc\s*$", re.MULTILINE | re.IGNORECASE)


class Placed(NamedTuple):
    """The `layout` that counts, the names in its folder, and `beside` them in `.hoodie`; whether the instants
    are UTC. `stamp`: of hoodie.properties, which no other content of it has, where a listing tells it.
    """

    layout: Layout
    names: frozenset[str]
    beside: frozenset[str]
    utc: bool = False
    stamp: str = ""


def placed_in_one(storage: Storage, base_path: str) -> Placed:
    """What is in `.hoodie`, as if layout one counted."""
    folder = f"{base_path}/{META_FOLDER}"
    found = storage.versions(folder)
    names = frozenset(found)
    return Placed(ONE, names, names, stamp=stamp_of(found.get("hoodie.properties", "")))


def looked_up(
    storage: Storage,
    base_path: str,
    former: Placed | None,
    *,
    empty: Layout,
    beside: bool,
    known: tuple[int, bool] | None,
) -> Placed:
    """Where the instants are now, given where they were: see `placed`, and `Timeline.load`."""
    if empty is not TWO and (former is None or former.layout is not TWO):
        one = placed_in_one(storage, base_path)
        if one == former and one.names and VERSION_CHANGE not in one.names:
            return former
        if LATER_FOLDER not in one.names:
            return one
    elif not beside and (former is None or former.layout is TWO):
        if former is None:
            former = Placed(TWO, frozenset(), frozenset((LATER_FOLDER,)), bool(known and known[1]))
        names = frozenset(storage.names(f"{base_path}/{TWO.folder}"))
        if names or former.names:
            return former._replace(names=names)
    return placed(storage, base_path, empty, known)


def stamp_of(version: str) -> str:
    """A version of a file: stores put it into quotes, or not."""
    return version.strip('"')


def placed(storage: Storage, base_path: str, empty: Layout, known: tuple[int, bool] | None = None) -> Placed:
    """Where the instants are.

    A listing that began and ended with one version is whole. So the version is read, then the folders are
    listed, `.hoodie` last, which shows a change that went on meanwhile: by VERSION_CHANGE, or by instants of
    the other layout. Only then the version is read again. Downgraded tables of Apache Hudi keep the folder of
    layout two, without instants. `empty` is the layout of a table without instants and properties. `known`:
    the version and whether the instants are UTC, as the properties said at any time before. A change since
    shows in the listings, too. Raises UnsupportedVersion where the version is not read, HalfUpgraded where
    the instants have another layout than the version's.
    """
    version, utc = known or _version(storage, base_path)
    for _ in range(_ROUNDS):
        later = frozenset(storage.names(f"{base_path}/{TWO.folder}"))
        one = placed_in_one(storage, base_path)
        beside = one.beside
        there = {ONE: any(map(ONE.parse, beside)), TWO: any(map(TWO.parse, later))}
        former, layout = version, layout_of(version)
        other = ONE if layout is TWO else TWO
        changing = VERSION_CHANGE in beside
        if changing or there[other] or not there[layout]:
            version, utc = _version(storage, base_path)
            if version != former:
                continue
        if not changing and there[TWO] and layout is ONE:
            continue  # a change may have ended between the first two steps
        if not there[layout] and not changing:
            layout = other if there[other] else layout if version else empty
        if layout is TWO:
            versions.check_readable(version, base_path)
            return Placed(TWO, later, beside, utc, one.stamp)
        return one
    names = " or ".join(str(item.number) for item in versions.VERSIONS.values() if item.layout is TWO.version)
    raise HalfUpgraded(
        f"instants of {base_path} lie in {base_path}/{TWO.folder}, where table version {names} keeps them, "
        f"but hoodie.properties has version {version or '(none)'}: an upgrade by Apache Hudi 1.x is going on "
        "or failed half-way. Let Apache Hudi 1.x finish the upgrade, which its next write does; or restore "
        ".hoodie from a copy",
        path=base_path,
        version=version,
    )


def version_change(storage: Storage, base_path: str) -> tuple[int, int] | None:
    """The former version and the next one of a change that is under way, or was killed; None where there is
    none, or the file says none.
    """
    with contextlib.suppress(FileNotFoundError):
        found = _CHANGE.fullmatch(storage.read(f"{base_path}/{META_FOLDER}/{VERSION_CHANGE}"))
        return (int(found[1]), int(found[2])) if found else None
    return None


def layout_of(version: int) -> Layout:
    """The layout of a table version."""
    return ONE if versions.is_of_layout(version, ONE.version) else TWO


def check_layout(storage: Storage, base_path: str, layout: Layout) -> None:
    """Raises TableBusy where a table that was listed in one layout has another by now."""
    version, _ = _version(storage, base_path)
    if version and layout_of(version) is not layout:
        raise TableBusy(
            f"the version of {base_path} became {version} while it was read; read it again",
            path=base_path,
            version=version,
        )


def _version(storage: Storage, base_path: str) -> tuple[int, bool]:
    """The version in hoodie.properties, 0 for none, and whether the instants are UTC."""
    texts = b""
    for name in ("hoodie.properties", "hoodie.properties.backup"):
        with contextlib.suppress(FileNotFoundError):
            texts = texts or storage.read(f"{base_path}/{META_FOLDER}/{name}")
    found = _VERSION.search(texts)
    return int(found[1][:9]) if found else 0, _ZONE.search(texts) is not None
