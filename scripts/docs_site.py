"""What the site has beside the pages of docs/: README and the other pages of the root, the example DAGs, the
reference of public names. mkdocs calls it (`hooks` of mkdocs.yml).

Links of pages are those of the repository: to what lies outside docs/ they get the address on the site.
"""

from __future__ import annotations

import ast
import functools
import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: pages of the root by their paths on the site
ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
_LINK = re.compile(
    r"(?<=\]\()(?!\w+:|#)([^)\s#]+)|(?<=src=\")(?!\w+:)([^\"]+)|(?<=srcset=\")(?!\w+:)([^\"]+)"
)
_FENCE = re.compile(r"(^ *```.*?^ *```)", re.DOTALL | re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Adds what is generated."""
    from mkdocs.structure.files import File

    for path, text in generated().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The links of a page of docs/ to files outside."""
    source = page.file.src_uri
    return markdown if source in generated() else relinked(markdown, f"docs/{source}", source)


@functools.cache
def generated() -> dict[str, str]:
    """Markdown by its path on the site."""
    pages = {target: relinked((ROOT / name).read_text(), name, target) for name, target in ROOT_PAGES.items()}
    for file in sorted((ROOT / "dags_examples").glob("*.py")):
        pages[f"examples/{file.stem}.md"] = f"# {file.name}\n\n```python\n{file.read_text()}```\n"
    pages["reference/hoodie.md"] = reference(ROOT / "spark_jobs" / "hoodie" / "__init__.py", "hoodie")
    pages["reference/airflow_hoodie.md"] = reference(
        ROOT / "airflow_hoodie" / "__init__.py", "airflow_hoodie"
    )
    return pages


def relinked(text: str, source: str, target: str) -> str:
    """The text of the repository's file `source` with the links of the page `target`; code is left alone."""

    def link(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[0]))
        return posixpath.relpath(site_path(path), posixpath.dirname(target) or ".")

    parts = _FENCE.split(text)
    return "".join(part if number % 2 else _LINK.sub(link, part) for number, part in enumerate(parts))


def site_path(path: str) -> str:
    """Where a file of the repository is; one that is not there keeps its path, which fails a strict build."""
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    folder, _, name = path.partition("/")
    if folder == "dags_examples" and name.endswith(".py"):
        return f"examples/{name.removesuffix('.py')}.md"
    return name if folder == "docs" else f"../{path}"


def reference(init: Path, package: str) -> str:
    """A page of the public names of a package, by the modules that its `__init__` imports them from."""
    tree = ast.parse(init.read_text())
    home: dict[str, str] = {}
    public: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(package):
            home |= {item.asname or item.name: f"{node.module}.{item.name}" for item in node.names}
        if isinstance(node, ast.Assign) and any(ast.unparse(item) == "__all__" for item in node.targets):
            public = ast.literal_eval(node.value)
    names = sorted((name for name in public if name in home), key=str.lower)
    # of classes that are called, methods; operators have parameters alone
    more = "    options: {members: true}\n" if package == "hoodie" else ""
    parts = "".join(f"\n::: {home[name]}\n{more}" for name in names)
    return f"# Reference: `{package}`\n\nWhat `import {package}` has.\n{parts}"
