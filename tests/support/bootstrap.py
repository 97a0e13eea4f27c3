"""Tables that Apache Hudi bootstrapped (`tests/data/bootstrap`), placed where a test wants them."""

from __future__ import annotations

import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).parents[1] / "data" / "bootstrap" / "tables.tar.gz"
BASE_PATH = "hoodie.bootstrap.base.path"


def unpacked(folder: Path) -> Path:
    """All tables: `<name>/{source,table,expected,meta.json}`, with the sources' new places in them."""
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(folder, filter="data")
    for table in folder.iterdir():
        point(table / "table", table / "source")
    return folder


def point(table: Path, source: Path) -> None:
    """Tell a table where the files are that it was bootstrapped from."""
    properties = table / ".hoodie" / "hoodie.properties"
    lines = [
        f"{BASE_PATH}={source}" if line.startswith(f"{BASE_PATH}=") else line
        for line in properties.read_text("latin-1").splitlines()
    ]
    properties.write_text("\n".join(lines) + "\n", "latin-1")


def allowed(table: Path) -> dict[str, str]:
    """The option by which a call may read the files that a table was bootstrapped from."""
    lines = (table / ".hoodie" / "hoodie.properties").read_text("latin-1").splitlines()
    places = [line.partition("=")[2] for line in lines if line.startswith(f"{BASE_PATH}=")]
    return {"hoodie.storage.allowed.folders": places[0]} if places else {}
