"""Writes spark_jobs/hoodie/config/hudi_settings.tsv: every setting that Apache Hudi declares.

    .venv/bin/python -m scripts.hudi_settings

asks the classes of both Spark bundles (scripts/setup fetches them) by reflection. A line is a name, its
default, and the releases that know it. Bare texts count, too, unless they only begin other names.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from scripts import environment

RELEASES = ("0.15.0", "1.2.0")
TARGET = environment.ROOT / "spark_jobs" / "hoodie" / "config" / "hudi_settings.tsv"
#: constants that look like settings: files in `.hoodie`
_FILES = ("hoodie.properties", "hoodie.properties.backup", "hoodie.properties.updated")


def declared(release: str) -> dict[str, str]:
    """Names and defaults of one release."""
    artifact = "hudi-spark3.5-bundle_2.12"
    folder = environment.maven_repository() / "org/apache/hudi" / artifact / release
    bundle = folder / f"{artifact}-{release}.jar"
    spark = Path(environment.spark_environment(environment.HUDI)["SPARK_HOME"]) / "jars" / "*"
    command = ["java", "-cp", f"{bundle}:{spark}", str(Path(__file__).with_name("HudiSettings.java"))]
    done = subprocess.run([*command, str(bundle)], check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, str] = {}
    texts: set[str] = set()
    for kind, name, default in (line.split("\t") for line in done.stdout.splitlines()):
        if kind == "text":
            texts.add(name)
        else:
            found[name] = found.get(name) or default
    every = {*texts, *found}
    for name in texts - set(found) - set(_FILES):
        if not any(other.startswith(f"{name}.") for other in every):
            found[name] = ""
    return found


def main() -> None:
    known = {release: declared(release) for release in RELEASES}
    lines = []
    for name in sorted(set().union(*known.values())):
        releases = [release for release in RELEASES if name in known[release]]
        lines.append(f"{name}\t{known[releases[0]][name]}\t{','.join(releases)}\n")
    TARGET.write_text("".join(lines))
    print(f"{len(lines)} settings in {os.path.relpath(TARGET)}")


if __name__ == "__main__":
    main()
