"""Errors and exit codes of `hoodie`.

Exit codes: 0 done; 1 it failed, the message says why and what to do; 2 the command line is wrong;
130 interrupted, 143 terminated (a write was withdrawn).
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from hoodie.cli.arguments import parser
from hoodie.cli.later_pandas import later_pandas
from hoodie.cli.meter import clear_line
from hoodie.cli.output import Answer, to_json
from hoodie.cli.parsing import Usage
from hoodie.errors import HoodieError
from hoodie.signals import terminated_by_signal
from hoodie.text import arguments_as_flags, install, lines, visible

__all__ = ["main", "parser"]

#: packages that come with an extra
_EXTRAS = {"pyarrow": "local", "numpy": "local", "fastavro": "local", "duckdb": "local", "pyspark": "spark"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. With --json stdout holds one JSON document, errors included.

    Without arguments the command is the process's own, which ends with it.
    """
    if arguments is not None:
        return _run(list(arguments))
    later_pandas()
    try:
        return _run(sys.argv[1:])
    finally:
        gc.freeze()  # so that the end of the process collects nothing


def _run(given: list[str]) -> int:
    as_json = "--json" in given
    try:
        args = parser().parse_args(given)
        as_json = args.json
        run: Callable[[argparse.Namespace], Answer] = args.run
        for note in args.notes:
            _warned(note)
        with terminated_by_signal(), arguments_as_flags(), warnings.catch_warnings():
            warnings.showwarning = _warned
            answer = run(args)
        answer.print(as_json)
        return answer.code
    except Usage as error:
        if as_json:
            _report({"code": "usage", "message": error.text})
        else:
            print(f"{lines(error.usage)}hoodie: {visible(error.text)}", file=sys.stderr)
        return 2
    except HoodieError as error:
        return _failed(error.to_dict(), as_json)
    except KeyboardInterrupt:
        _failed({"code": "interrupted", "message": "interrupted; nothing was committed"}, as_json)
        return 130
    except BrokenPipeError:  # `hoodie read ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        message = f"{error.filename or 'storage'}: {error.strerror or error}"
        return _failed({"code": "storage", "message": message}, as_json)
    except Exception as error:  # noqa: BLE001  a bug; still one document
        if missing := _not_installed(error):
            return _failed(missing, as_json)
        print(textwrap.indent(lines(traceback.format_exc()), "  "), end="", file=sys.stderr)
        return _failed({"code": "internal", "message": f"{type(error).__name__}: {error}"}, as_json)


def _warned(message: Warning | str, *_: Any, **__: Any) -> None:
    clear_line()
    print(f"hoodie: warning: {visible(str(message))}", file=sys.stderr)


def _failed(error: dict[str, Any], as_json: bool) -> int:
    if as_json:
        _report(error)
    else:
        clear_line()
        print(f"hoodie: {visible(error['message'])}", file=sys.stderr)
    return 1


def _report(error: dict[str, Any]) -> None:
    print(to_json({"error": error}), flush=True)


def _not_installed(error: Exception) -> dict[str, Any] | None:
    """What to say when a package of an extra is missing; None for any other error."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package not in _EXTRAS:
        return None
    remedy = install(_EXTRAS[package])
    return {"code": "not_installed", "message": f"this needs {package}, which is not installed; {remedy}"}
