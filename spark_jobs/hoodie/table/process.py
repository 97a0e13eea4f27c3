"""Which process is which, across machines, containers and time."""

from __future__ import annotations

import functools
import hashlib
import os
import socket


def this_process() -> str:
    """A text that no other process has: not one of another machine or container, nor one that had the number
    before.
    """
    pid = os.getpid()
    place = hashlib.sha256(f"{machine()}/{start_time(pid)}".encode()).hexdigest()[:12]
    return f"{pid} on {socket.gethostname()} ({place})"


@functools.cache
def machine() -> str:
    """Where process numbers mean the same: one boot of one kernel, one process namespace.

    A host name is not enough: containers share one, and their processes are separate.
    """
    boot = namespace = ""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        pass
    return f"{socket.gethostname()}/{boot}/{namespace}"


def start_time(pid: int) -> str:
    """Identity of a process beyond its number, which is used again; "" when it is not known."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        return ""


def gone(pid: int, started: str) -> bool:
    """Only what is certain: the number is free, or another process has it now, or it is a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    if not started:
        return False
    return os.path.exists(f"/proc/{pid}/stat") and start_time(pid) != started
