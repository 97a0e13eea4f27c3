"""Import pandas only where something uses it, in a process that runs one command or job.

pyarrow imports pandas with the first value that it converts, to know whether the value is one of pandas, and
pandas is a third of the modules of a small command. There is no such value before something else imports
pandas; until then pyarrow finds no pandas here.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: what pyarrow.lib calls its view of pandas; private, and tests/unit/test_later_pandas.py holds what it does
_SHIM = "_pandas_api"


def later_pandas() -> None:
    """pyarrow finds pandas once something imports it, or duckdb: rows of a query may have nanoseconds, for
    which pandas alone has a type. Does nothing where pyarrow or pandas is imported already.
    """
    if "pyarrow" not in sys.modules and "pandas" not in sys.modules:
        sys.meta_path.insert(0, _PandasLater())


def with_nanoseconds(dtype: Any) -> None:
    """Import pandas, if it is installed, where values of this Arrow type are values of pandas."""
    if "[ns" in str(dtype):
        _import_pandas()


def _import_pandas() -> None:
    with contextlib.suppress(ImportError):
        importlib.import_module("pandas")


class _PandasLater(MetaPathFinder):
    """Finds no pandas while pyarrow looks for it, which it does once it is imported."""

    def __init__(self) -> None:
        self._hidden_from: int | None = None
        self._after: dict[str, Callable[[], None]] = {
            "pyarrow": self._look,
            "pandas": self._tell,
            "duckdb": _import_pandas,
        }

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pandas" and self._hidden_from == threading.get_ident():
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")
        if fullname not in self._after:
            return None
        for finder in sys.meta_path:
            found = None if finder is self else finder.find_spec(fullname, path, target)
            if found is not None and found.loader is not None:
                found.loader = _Followed(found.loader, self._after[fullname])
                return found
        return None

    def _look(self) -> None:
        """pyarrow looks for pandas now, and never again by itself."""
        if "pandas" in sys.modules or not hasattr(sys.modules["pyarrow"].lib, _SHIM):
            return
        self._hidden_from = threading.get_ident()
        try:
            sys.modules["pyarrow"].scalar(0)
        finally:
            self._hidden_from = None

    @staticmethod
    def _tell() -> None:
        """pyarrow looks again where its answer is needed."""
        if "pyarrow" in sys.modules and hasattr(sys.modules["pyarrow"].lib, _SHIM):
            _ = getattr(sys.modules["pyarrow"].lib, _SHIM).pd


class _Followed(Loader):
    """A module's loader; calls `after` when the module is imported."""

    def __init__(self, loader: Loader, after: Callable[[], None]) -> None:
        self._loader, self._after = loader, after

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._after()
