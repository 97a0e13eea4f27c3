"""An import-linter contract: in a folder of plugins, only the folder's own __init__ imports a plugin.

A module with a leading underscore, and one named in `shared`, is no plugin but what several plugins share.
"""

from __future__ import annotations

from typing import Any

from importlinter import Contract, ContractCheck, fields, output


class PluginFolders(Contract):
    type_name = "plugin_folders"

    folders: Any = fields.ListField(subfield=fields.StringField())
    shared: Any = fields.SetField(subfield=fields.StringField(), required=False, default=set())

    def check(self, graph: Any, verbose: bool) -> Any:
        found = []
        for folder in self.folders:
            if folder not in graph.modules:
                continue
            members = graph.find_children(folder)
            plugins = {
                member
                for member in members - set(self.shared)
                if not member.rpartition(".")[2].startswith("_")
            }
            found += [
                (importer, plugin)
                for importer in sorted(members)
                for plugin in sorted(plugins - {importer})
                if graph.direct_import_exists(importer=importer, imported=plugin, as_packages=True)
            ]
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: Any) -> None:
        for importer, plugin in check.metadata["found"]:
            output.print_error(f"{importer} imports the plugin {plugin}", bold=False)
