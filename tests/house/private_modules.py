"""An import-linter contract: a module with a leading underscore is imported inside its own package only."""

from __future__ import annotations

from typing import Any

from importlinter import Contract, ContractCheck, output


class PrivateModules(Contract):
    type_name = "private_modules"

    def check(self, graph: Any, verbose: bool) -> Any:
        found = []
        for module in sorted(graph.modules):
            package, _, name = module.rpartition(".")
            if not name.startswith("_") or name.startswith("__"):
                continue
            found += [
                (importer, module)
                for importer in sorted(graph.find_modules_that_directly_import(module))
                if not importer.startswith(f"{package}.") and importer != package
            ]
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: Any) -> None:
        for importer, module in check.metadata["found"]:
            output.print_error(f"{importer} imports {module}, which is private to its package", bold=False)
