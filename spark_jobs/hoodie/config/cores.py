"""How many processors this process may use: in a container fewer than the machine has."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator
from pathlib import Path


@functools.cache
def usable_cores() -> int:
    """At least one: the processors that the process may run on, as far as the CPU quotas of its control
    groups allow. Looked up once a process.
    """
    return cores_within(_scheduled(), Path("/"))


def cores_within(scheduled: int, root: Path) -> int:
    """Of so many processors as many as the quotas allow; `root` contains Linux's `proc` and `sys`."""
    return max(1, min([scheduled, *map(math.ceil, _quotas(root))]))


def _scheduled() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float]:
    """Processors' worth of time of each control group that the process belongs to, where it is limited."""
    mount = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            for folder in _upwards(mount, path):
                yield from _quota(*_text(folder / "cpu.max").split())
        elif "cpu" in controllers.split(","):
            # the folder has the name of all controllers of the hierarchy, and a link the one of each
            for folder in _upwards(mount / "cpu", path):
                yield from _quota(
                    *_text(folder / "cpu.cfs_quota_us").split(), *_text(folder / "cpu.cfs_period_us").split()
                )


def _quota(*found: str) -> Iterator[float]:
    """Of quota and period in microseconds; a quota of `max` or -1 is none."""
    if len(found) == 2 and all(text.isdigit() and int(text) for text in found):
        yield int(found[0]) / int(found[1])


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    """The group's folder and those above it. A container may see its own group as the mount, while its path
    is that on the host: what is not there has no quota.
    """
    place = mount.joinpath(*(part for part in path.split("/") if part not in ("", "..")))
    while place != mount:
        yield place
        place = place.parent
    yield mount


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
