"""What a job reads and prints: its request, and HOODIE_* lines without secrets."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hoodie.errors import ConfigError
from hoodie.mask import Mask

#: free texts of a result; its other fields are names and numbers, which stay as they are
_TEXTS = ("warnings", "reason", "comments", "error")


@dataclass
class Output:
    """Prints a job's lines.

    nonce: text that each line carries, so that its reader knows it from a line that data or another library
    printed; "" for a job that a person started.
    mask: hides the request's secrets.
    """

    nonce: str = ""
    mask: Mask = field(default_factory=Mask)

    def emit(self, kind: str, value: Mapping[str, Any]) -> None:
        """One line, in one piece: the JVM writes to the same pipe."""
        marker = f"HOODIE_{kind}:{self.nonce}" if self.nonce else f"HOODIE_{kind}"
        sys.stdout.flush()
        sys.stdout.buffer.write(f"{marker} {json.dumps(value, ensure_ascii=False, default=str)}\n".encode())
        sys.stdout.buffer.flush()

    def progress(self, step: str, text: str) -> None:
        self.emit("PROGRESS", {"step": step, "text": self.mask.text(text)})

    def result(self, value: Mapping[str, Any]) -> None:
        self.emit("RESULT", self._shown(value))

    def error(self, value: Mapping[str, Any]) -> None:
        self.emit("ERROR", self.mask.value(value))

    def traceback(self, text: str) -> None:
        print(self.mask.text(text), file=sys.stderr, flush=True)

    def _shown(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """The result with its free texts masked, those of the services in it, too."""
        return {
            name: self.mask.value(item)
            if name in _TEXTS
            else {key: self._shown(own) for key, own in item.items()}
            if name == "services" and isinstance(item, Mapping)
            else item
            for name, item in value.items()
        }


def request_text(given: str) -> str:
    """The request that `--request` gives: itself, `@file`, or `-` for standard input. Raises ConfigError."""
    try:
        if given == "-":
            return sys.stdin.buffer.read().decode()
        if given.startswith("@"):
            return Path(given[1:]).read_bytes().decode()
    except OSError as error:
        raise ConfigError(f"can't read the request {given}: {error.strerror}; give JSON or @file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"the request {given} is no UTF-8 ({error.reason}); give JSON") from None
    return given
