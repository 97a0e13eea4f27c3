"""Python functions that a call names as `package.module:function`. Standard library only; nothing is imported
but by `loaded`.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import re
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any, TypeAlias

from hoodie.errors import ConfigError

Function: TypeAlias = Callable[[Any], Any]

_WORD = r"[^\W\d]\w*"
_NAME = re.compile(rf"{_WORD}(?:\.{_WORD})*:{_WORD}(?:\.{_WORD})*")


def is_function_name(text: Any) -> bool:
    """No SQL is one."""
    return isinstance(text, str) and _NAME.fullmatch(text.strip()) is not None


def shown(function: str | Function) -> str:
    """A function in words, for messages."""
    if isinstance(function, str):
        return function.strip()
    return f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', repr(function))}"


def name_of(function: Function) -> str | None:
    """By which another process imports it; None for a lambda, a closure, a method of a value, and what is in
    a module that only this process has: a script, or the file of a DAG.
    """
    name = shown(function)
    module, _, path = name.partition(":")
    if not is_function_name(name) or module == "__main__" or _spec(module) is None:
        return None
    found: Any = sys.modules.get(module)
    for step in path.split("."):
        found = getattr(found, step, None)
    return name if found is function else None


def loaded(name: str) -> Function:
    """Raises ConfigError for what can't be imported or called."""
    module, _, path = name.strip().partition(":")
    try:
        found: Any = importlib.import_module(module)
        for step in path.split("."):
            found = getattr(found, step)
    except Exception as error:
        raise ConfigError(
            f"the function {name} can't be imported ({type(error).__name__}: {error}); put its module where "
            "this process finds it, on Spark with --py-files",
            function=name,
        ) from error
    if not callable(found):
        raise ConfigError(f"{name} is a {type(found).__name__}, no function", function=name)
    function: Function = found
    return function


def identity(name: str) -> str:
    """The name and a hash of the function's source text, or of its module's where the function is not defined
    there by `def`. What it calls is not looked at. Raises ConfigError where this process finds no source.
    """
    module, _, path = name.strip().partition(":")
    text = _source(module)
    if text is None:
        raise ConfigError(
            f"the module of {name} is not found here, or has no source text, so that a retry could not know "
            "the function again; install it, or add its folder to PYTHONPATH",
            function=name,
        )
    own = _defined(text, path.split("."))
    return f"{name.strip()} {hashlib.sha256((own or text).encode()).hexdigest()[:32]}"


def folder_of(name: str) -> str | None:
    """The entry of this process's path below which the module is, for another process."""
    module = name.strip().partition(":")[0].split(".")[0]
    for folder in sys.path:
        if folder and PathFinder.find_spec(module, [folder]) is not None:
            return folder
    return None


def _spec(module: str) -> ModuleSpec | None:
    """Found by its name on the path, not among the modules that are loaded."""
    path, spec, so_far = None, None, ""
    for step in module.split("."):
        so_far = f"{so_far}.{step}" if so_far else step
        spec = PathFinder.find_spec(so_far, path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or [])
    return spec


def _source(module: str) -> str | None:
    spec = _spec(module)
    loader: Any = spec.loader if spec is not None else None
    try:
        text: str | None = loader.get_source(module) if hasattr(loader, "get_source") else None
    except (ImportError, OSError, SyntaxError):
        return None
    return text


def _defined(text: str, path: list[str]) -> str | None:
    try:
        body: Any = ast.parse(text).body
    except (SyntaxError, ValueError):
        return None
    found: Any = None
    for step in path:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        named = [node for node in body if isinstance(node, kinds) and node.name == step]
        if len(named) != 1:
            return None
        found = named[0]
        body = found.body
    first = min([found.lineno, *(item.lineno for item in found.decorator_list)])
    return "\n".join(text.splitlines()[first - 1 : found.end_lineno])
