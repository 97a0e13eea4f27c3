"""Privates of other packages: one module per package uses them (`airflow_hoodie/compat`, `engine/session`).

A private is a name with a leading underscore, and what a package has outside its public interface.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
import tomllib

from scripts.environment import ROOT
from tests.house.test_walls import GLUE, HOODIE, modules
from tests.support.parsed import parsed

OWN = ("airflow_hoodie", "hoodie")
COMPAT = GLUE / "compat"
PRIVATE = re.compile(r"_(?!_)\w+")
#: of named tuples and of the standard library, which documents them
DOCUMENTED = {"_replace", "_asdict", "_fields", "_make", "_exit"}
#: parts of Airflow that are no interface for providers -> where they may be imported
INTERNAL = {
    "airflow.sdk.execution_time": COMPAT,
    "airflow.providers.apache.spark": COMPAT,
    # these run in the API server and the triggerer's main process, beside Airflow's own code
    "airflow.models": GLUE / "plugins",
    "airflow.settings": GLUE / "plugins",
    "airflow.state": GLUE / "plugins",
    "airflow.utils": GLUE / "plugins",
    "airflow.api_fastapi": GLUE / "plugins",
}
#: the privates of Airflow that the package uses, by module, which the upper bound of apache-airflow is for
OF_AIRFLOW = {
    "compat/shared_stream.py": {
        "import of airflow.triggers.shared_stream._reject_context",
        "window.group._outstanding",
    },
    "compat/task_sdk.py": {
        "airflow.sdk.execution_time.comms.DagRunResult",
        "airflow.sdk.execution_time.comms.GetDagRun",
        "airflow.sdk.execution_time.context.InletEventsAccessor",
        "airflow.sdk.execution_time.context.InletEventsAccessors",
        "airflow.sdk.execution_time.task_runner.SUPERVISOR_COMMS",
        "getattr(store, '_by_name', {})",
        "getattr(store, '_by_uri', {})",
    },
    "plugins/state.py": {
        "airflow.models.asset.AssetModel",
        "airflow.settings",
        "airflow.state.AssetScope",
        "airflow.state.get_state_backend",
        "airflow.state.metastore.MetastoreBackend",
    },
    "plugins/timeline_app.py": {
        "airflow.api_fastapi.core_api.security.requires_access_asset",
        "airflow.models.asset.AssetModel",
        "airflow.utils.session.create_session",
    },
}
#: the other packages of Airflow of which it uses privates, and where
OF_PROVIDERS = {
    "apache-airflow-providers-apache-spark": "compat/spark_provider.py",
    "apache-airflow-providers-databricks": "compat/databricks_provider.py",
}
#: what has no public name: plans of Spark as trees, without which they are left to Spark, Hadoop's settings,
#: and rows as Arrow before pyspark 4
GRANTED = {
    "spark_jobs/hoodie/engine/session.py": {
        "context._jsc",
        "frame._collect_as_arrow",
        "frame.select('*')._jdf",
        "frame.sparkSession._jvm",
        "frame._explain_string",
    }
}


def sources() -> Iterator[Path]:
    for package in (GLUE, HOODIE):
        yield from (file for file in sorted(package.rglob("*.py")) if COMPAT not in file.parents)


def is_private(name: object) -> bool:
    return isinstance(name, str) and PRIVATE.fullmatch(name) is not None and name not in DOCUMENTED


def defined(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that a module of these nodes gives to something of its own."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return found


def imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The dotted names that a module of these nodes imports."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def strange(tree: ast.AST) -> Iterator[str]:
    """Privates that a module takes from others: imported, of an object that is not its own, or by getattr."""
    nodes = list(ast.walk(tree))
    own = defined(nodes)
    for node in nodes:
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not _of_self(node.value):
            if node.attr not in own:
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.args[1] if node.func.id in ("getattr", "hasattr", "setattr") else None
            if isinstance(name, ast.Constant) and is_private(name.value):
                yield ast.unparse(node)
    for imported in imports(nodes):
        package, *rest = imported.split(".")
        if package not in (*OWN, "__future__") and any(map(is_private, rest)):
            yield f"import of {imported}"


def _of_self(node: ast.expr) -> bool:
    """Checked with the bases of the class."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id == "super"
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


@cache
def privates(cls: type) -> frozenset[str]:
    """The private names that a class itself has: methods, attributes, and what its methods set."""
    try:
        text = inspect.getsource(cls)
    except (OSError, TypeError):
        text = ""
    stored = re.findall(r"\b(?:self|cls)\.(\w+)\b", text)
    return frozenset(name for name in (*vars(cls), *stored) if is_private(name))


def inherited(cls: type) -> set[str]:
    """Privates of the bases of other packages that a class mentions."""
    foreign = [base for base in cls.__mro__ if base.__module__.partition(".")[0] not in (*OWN, *STANDARD)]
    names = {name for base in foreign for name in privates(base)}
    if not names:
        return set()
    nodes = list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(cls)))))
    return names & (defined(nodes) | {node.attr for node in nodes if isinstance(node, ast.Attribute)})


STANDARD = {builtins.__name__, "abc", "enum", "typing", "typing_extensions", "collections", "types"}


def test_the_check_finds_what_it_should() -> None:
    text = """
from pkg._inner import thing
from hoodie.keygen._text import text
class A(B):
    def _own(self, other):
        self._x, other._own(), other._theirs, getattr(other, "_by_name", {}), other.__dict__
"""
    assert sorted(strange(ast.parse(text))) == [
        "getattr(other, '_by_name', {})",
        "import of pkg._inner.thing",
        "other._theirs",
    ]


@pytest.mark.parametrize("package", [GLUE, HOODIE], ids=lambda path: path.name)
def test_no_module_takes_a_private_of_another_package(package: Path) -> None:
    files = [file for file in sources() if package in file.parents]
    found = {str(file.relative_to(ROOT)): set(strange(parsed(file))) for file in files}
    taken = {name: more for name, names in found.items() if (more := names - GRANTED.get(name, set()))}
    assert taken == {}


@pytest.mark.airflow
def test_no_class_uses_a_private_that_it_inherits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("airflow.sdk")
    found = {}
    for name in modules(GLUE):
        if name.startswith("airflow_hoodie.compat"):
            continue
        for cls in vars(importlib.import_module(name)).values():
            if isinstance(cls, type) and cls.__module__ == name and (used := inherited(cls)):
                found[f"{name}.{cls.__name__}"] = used
    assert found == {}


def test_the_compatibility_modules_do() -> None:
    """Else the test above proves nothing."""
    pytest.importorskip("airflow.sdk")
    from airflow_hoodie.compat.spark_provider import SubmitHook

    assert {"_resolve_connection", "_submit_sp"} <= inherited(SubmitHook)
    assert "operator._archives" in set(strange(parsed(COMPAT / "spark_provider.py")))


def test_internals_of_airflow_are_imported_where_they_may_be() -> None:
    found = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in sorted(GLUE.rglob("*.py"))
        for name in imports(ast.walk(parsed(file)))
        for internal, home in INTERNAL.items()
        if f"{name}.".startswith(f"{internal}.") and home not in file.parents
    ]
    assert found == []


def test_versions_are_told_apart_in_the_compatibility_modules() -> None:
    """`except ImportError`, which tells one version of a package from another, stands nowhere else."""
    texts = {file: file.read_text() for file in sources()}
    assert [str(file) for file, text in texts.items() if GLUE in file.parents and "ImportError" in text] == []
    session = HOODIE / "engine" / "session.py"
    kinds = [file for file, text in texts.items() if ".sparkContext" in text or "pyspark.sql.pandas" in text]
    assert kinds == [session]


def test_packages_of_airflow_are_bounded_for_the_privates_that_are_used() -> None:
    """And no others: what is public does not end with a version."""
    used: dict[str, set[str]] = {}
    for file in sorted(GLUE.rglob("*.py")):
        tree = parsed(file)
        internal = (f"{name}." for name in imports(ast.walk(tree)))
        names = {name[:-1] for name in internal if name.startswith(tuple(f"{part}." for part in INTERNAL))}
        if found := names | (set(strange(tree)) if COMPAT in file.parents else set()):
            used[str(file.relative_to(GLUE))] = found
    assert all(used.pop(home) for home in OF_PROVIDERS.values())
    assert used == OF_AIRFLOW
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = {text for texts in extras.values() for text in texts if "airflow" in text}
    bounded = {text.partition(">")[0] for text in asked if "<" in text}
    assert bounded == {"apache-airflow", *OF_PROVIDERS}
