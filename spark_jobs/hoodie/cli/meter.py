"""Steps of a command on stderr, and how far a write is in the last line of a terminal."""

from __future__ import annotations

import sys
import threading
import time

from hoodie.progress import ProgressMeter
from hoodie.text import plural, visible

#: seconds between two looks of the line
_EVERY_S = 0.2
#: less of the work than this says nothing about the rest
_LEAST = 0.01


def show_step(step: str, text: str) -> None:
    print(visible(f"{step}: {text}"), file=sys.stderr, flush=True)


def clear_line() -> None:
    """Makes room for a message where a terminal may show how far a write is."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")


class Meter(ProgressMeter):
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._expected: tuple[int, int | None] = (0, None)
        self._files = self._rows = 0
        self._began = time.monotonic()
        self._shown: float | None = None

    def __call__(self, step: str, text: str) -> None:
        clear_line()
        show_step(step, text)

    def expect(self, files: int, rows: int | None) -> None:
        with self._lock:
            self._expected = (files, rows)
            self._files = self._rows = 0
            self._began, self._shown = time.monotonic(), None

    def advance(self, files: int, rows: int) -> None:
        with self._lock:
            self._files += files
            self._rows += rows
            now = time.monotonic()
            if self._shown is None or now - self._shown >= _EVERY_S:
                self._shown = now
                clear_line()
                sys.stderr.write(self._line(now - self._began))
                sys.stderr.flush()

    def _line(self, elapsed: float) -> str:
        files, rows = self._expected
        of = f"{self._files:,} of {plural(max(files, self._files), 'file')}"
        line = f"write: {of}, {self._rows:,}{f' of {rows:,}' if rows else ''} rows"
        done = self._rows / rows if rows else self._files / files if files else 0.0
        if _LEAST <= done < 1:
            line += f", about {elapsed / done * (1 - done):.0f} s left"
        return line
