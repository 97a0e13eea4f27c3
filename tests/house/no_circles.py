"""An import-linter contract: no module imports itself through others.

Imports inside functions count, and those for type checkers only, which the other contracts leave out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from grimp import ImportGraph, build_graph
from importlinter import Contract, ContractCheck, fields, output


class NoCircles(Contract):
    type_name = "no_circles"

    packages = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        packages = cast("list[str]", self.packages)
        graph = build_graph(*packages, exclude_type_checking_imports=False, cache_dir=None)
        inside = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
        found = [sorted(circle) for circle in circles(inside)]
        return ContractCheck(kept=not found, metadata={"found": sorted(found), "imports": inside})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for circle in check.metadata["found"]:
            output.print_error(f"{len(circle)} modules import one another:", bold=False)
            for module in circle:
                for imported in sorted(check.metadata["imports"][module] & set(circle)):
                    output.print_error(f"    {module} imports {imported}", bold=False)


def circles(imports: dict[str, set[str]]) -> Iterator[set[str]]:
    """The largest sets of modules each of which reaches all the others (Kosaraju)."""
    order: list[str] = []
    seen: set[str] = set()
    for start in sorted(imports):
        order += _reached(start, imports, seen)
    importers: dict[str, set[str]] = {module: set() for module in imports}
    for module, imported in imports.items():
        for other in imported & set(imports):
            importers[other].add(module)
    seen = set()
    for start in reversed(order):
        together = set(_reached(start, importers, seen))
        if len(together) > 1 or start in imports[start]:
            yield together


def _reached(start: str, edges: dict[str, set[str]], seen: set[str]) -> list[str]:
    """What is reached from a module and not seen yet, each after all that it leads to."""
    if start in seen:
        return []
    seen.add(start)
    done: list[str] = []
    todo = [(start, iter(sorted(edges[start])))]
    while todo:
        module, others = todo[-1]
        following = next((other for other in others if other in edges and other not in seen), None)
        if following is None:
            done.append(module)
            todo.pop()
        else:
            seen.add(following)
            todo.append((following, iter(sorted(edges[following]))))
    return done
