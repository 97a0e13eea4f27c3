"""Prints the sum of pytest's closing lines, one a log, in pytest's own form. Standard library only.

closing_line.py LOG...
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ORDER = ("failed", "errors", "passed", "skipped", "xfailed", "xpassed", "warnings")
CLOSING = re.compile(r"^(?:=+ )?((?:\d+ [a-z]+(?:, )?)+) in ([0-9.]+)s\b", re.MULTILINE)
EMPTY = re.compile(r"^(?:=+ )?()no tests ran in ([0-9.]+)s\b", re.MULTILINE)
PLURALS = {"error": "errors", "warning": "warnings"}


def total(logs: list[str]) -> str:
    """The closing line of all logs together; a log without one is said to have ended before pytest."""
    counts: dict[str, int] = dict.fromkeys(ORDER, 0)
    seconds, ended = 0.0, True
    for log in logs:
        found = CLOSING.findall(log) or EMPTY.findall(log)
        if not found:
            ended = False
            continue
        outcomes, took = found[-1]
        seconds += float(took)
        for outcome in filter(None, outcomes.split(", ")):
            number, word = outcome.split()
            word = PLURALS.get(word, word)
            if word != "deselected":  # each run leaves out what the other one runs
                counts[word] = counts.get(word, 0) + int(number)
    if not ended:
        counts["errors"] += 1
    singular = {word: name for name, word in PLURALS.items()}
    parts = [
        f"{number} {singular.get(word, word) if number == 1 else word}"
        for word, number in counts.items()
        if number
    ]
    clock = f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"
    line = f" {', '.join(parts) or 'no tests ran'} in {seconds:.2f}s ({clock}) "
    return line.center(80, "=") if ended else f"a run ended before pytest did\n{line.center(80, '=')}"


if __name__ == "__main__":
    said = total([Path(name).read_text(errors="replace") for name in sys.argv[1:]])
    print(said)
    sys.exit("\n" in said)
