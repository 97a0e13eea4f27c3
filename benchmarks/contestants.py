"""Who takes part, in which virtual environment, with which settings."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OURS_VENV, PEERS_VENV = ".venv", ".venv-hudi"
CODEC = "snappy"


class Unavailable(Exception):
    """A contestant cannot run here; the message is reported in its row of the result."""


@dataclass(frozen=True)
class Contestant:
    """`kind` names the worker module; contestants of one `table` can start from the same base table, which
    the contestant `maker` makes, if it is another one."""

    name: str
    kind: str
    venv: str
    table: str
    options: dict[str, str] = field(default_factory=dict)
    jars: tuple[str, ...] = ()
    engine: str = "spark"
    maker: str = ""

    @property
    def interpreter(self) -> Path:
        path = ROOT / self.venv / "bin" / "python"
        if not path.exists():
            raise Unavailable(
                f"{self.name}: no interpreter {self.venv}/bin/python; create that environment first"
            )
        return path

    def environment(self) -> dict[str, str]:
        """The worker's environment: this venv's own Spark and Python, loopback only, UTC."""
        spark = next((ROOT / self.venv).glob("lib/python*/site-packages/pyspark"), None)
        if spark is None:
            raise Unavailable(f"{self.name}: {self.venv} has no pyspark; install it there")
        python = str(self.interpreter)
        dropped = ("SPARK_", "PYSPARK_", "PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        return kept | {
            "SPARK_HOME": str(spark),
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "spark_jobs")]),
            "TZ": "UTC",
        }

    def jar_files(self) -> list[str]:
        return [str(_jar(coordinates)) for coordinates in self.jars]


def _jar(coordinates: str) -> Path:
    """The jar in Maven's local repository, fetched there with `mvn dependency:get` when it is missing."""
    group, artifact, version = coordinates.split(":")
    home = Path(os.environ.get("MAVEN_REPOSITORY", Path.home() / ".m2" / "repository"))
    path = home / group.replace(".", "/") / artifact / version / f"{artifact}-{version}.jar"
    if not path.exists():
        mvn = shutil.which("mvn")
        if mvn is None:
            raise Unavailable(
                f"no jar of {coordinates} in Maven's local repository and no mvn to fetch it with"
            )
        command = [mvn, "-q", "-B", "dependency:get", f"-Dartifact={coordinates}", "-Dtransitive=false"]
        fetched = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        if fetched.returncode or not path.exists():
            raise Unavailable(f"mvn could not fetch {coordinates}: {fetched.stdout.strip()[-300:]}")
    return path


#: a day of 200,000 rows is some 23 MB
_BUCKETS = {"hoodie.bucket.index.num.buckets": "4"}


def _ours(
    name: str,
    venv: str = OURS_VENV,
    engine: str = "spark",
    table: str = "ours",
    maker: str = "",
    **options: str,
) -> Contestant:
    """Its tables are of version 6, as those of Apache Hudi 0.15.0, unless options or `maker` say more."""
    if not maker:
        options = {"write_table_version": "6", **options}
    return Contestant(name, "ours", venv, table=table, options=_named(options), engine=engine, maker=maker)


def _named(options: dict[str, str]) -> dict[str, str]:
    return {f"hoodie.{key.replace('_', '.')}": value for key, value in options.items()}


def _hudi(version: str, index: str, suffix: str = "", **more: str) -> Contestant:
    """With a suffix: on a table of its own, with more options."""
    bucketed = index == "bucket"
    options = {"hoodie.index.type": index.upper(), **(_BUCKETS if bucketed else {}), **_named(more)}
    if not version.startswith("0."):
        # 1.x writes table version 9 by itself; the same layout for all keeps the comparison on one format.
        options |= {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false"}
    own = suffix or ("-bucket" if bucketed else "")
    return Contestant(
        f"hudi-{version}{suffix or f'-{index}'}",
        "hudi",
        PEERS_VENV,
        table=f"hudi-{version}{own}",
        options=options,
        jars=_bundle(version),
    )


def _hudi_later(name: str, **options: str) -> Contestant:
    """Apache Hudi 1.2.0 with table version 9, its own."""
    return Contestant(name, "hudi", PEERS_VENV, table=name, options=_named(options), jars=_bundle("1.2.0"))


def _bundle(version: str) -> tuple[str, ...]:
    return (f"org.apache.hudi:hudi-spark3.5-bundle_2.12:{version}",)


#: indexes of the metadata table
_RECORDS = {"metadata_enable": "true", "metadata_record_index_enable": "true"}
_STATISTICS = {"metadata_enable": "true", "metadata_index_column_stats_enable": "true"}
_INDEXES = _RECORDS | _STATISTICS
_FILTERS = {
    **_STATISTICS,
    "metadata_index_bloom_filter_enable": "true",
    "bloom_index_use_metadata": "true",
}

#: version 9 with what Apache Hudi makes by itself, and the record index
_LATER = {"metadata_enable": "true", "metadata_global_record_level_index_enable": "true"}
_NINE = {"write_table_version": "9"}
#: the indexes that Apache Hudi 1.2.0 makes by itself
_DEFAULTS = {**_STATISTICS, "metadata_index_partition_stats_enable": "true"}
_MADE = {"table": "hudi-1.2.0-later", "maker": "hudi-1.2.0-later"}

_ALL = (
    _ours("ours"),
    _ours("ours-3.5", PEERS_VENV),
    _ours("ours-bloom", index_type="BLOOM"),
    _ours("ours-simple", index_type="SIMPLE"),
    _ours("ours-bucket", table="ours-bucket", index_type="BUCKET", bucket_index_num_buckets="4"),
    _ours("ours-frame", engine="frame"),
    _ours("ours-sql", engine="sql"),
    _ours("ours-computed", engine="computed"),
    _ours("ours-function", engine="function"),
    _ours("ours-joined", engine="joined"),
    _ours("ours-udf", engine="udf"),
    *(
        _ours(f"ours-{kind}-staged", engine=f"{kind}-staged")
        for kind in ("frame", "computed", "function", "joined", "udf")
    ),
    _ours("ours-local", engine="local"),
    _ours("ours-plain", table="ours-plain", metadata_enable="false"),
    _ours("ours-files", table="ours-files", metadata_enable="true"),
    _ours("ours-indexed", table="ours-indexed", read_record_index="true", **_INDEXES),
    _ours("ours-indexed-local", engine="local", table="ours-indexed", read_record_index="true", **_INDEXES),
    _ours("ours-record-index", table="ours-record-index", index_type="RECORD_INDEX", **_RECORDS),
    _ours("ours-metadata-bloom", table="ours-metadata-bloom", index_type="BLOOM", **_FILTERS),
    *(_hudi(version, index) for version in ("0.15.0", "1.2.0") for index in ("bloom", "simple")),
    _hudi("0.15.0", "bucket"),
    _hudi("0.15.0", "simple", "-plain", metadata_enable="false"),
    _hudi("0.15.0", "simple", "-indexed", **_INDEXES),
    _hudi("0.15.0", "record_index", "-record-index", **_RECORDS),
    _hudi("0.15.0", "bloom", "-metadata-bloom", **_FILTERS),
    _hudi_later("hudi-1.2.0-later", **_LATER),
    _hudi_later("hudi-1.2.0-9"),
    _ours("ours-9", table="ours-9", **_NINE, **_DEFAULTS),
    _ours("ours-9-files", table="ours-9-files", **_NINE),
    _ours("ours-9-plain", table="ours-9-plain", **_NINE, metadata_enable="false"),
    _ours("ours-9-local", engine="local", table="ours-9", **_NINE, **_DEFAULTS),
    _ours("ours-9-plain-local", engine="local", table="ours-9-plain", **_NINE, metadata_enable="false"),
    _ours("ours-later", **_MADE, read_record_index="true"),
    _ours("ours-later-local", engine="local", **_MADE, read_record_index="true"),
    Contestant(
        "delta",
        "delta",
        PEERS_VENV,
        table="delta",
        jars=("io.delta:delta-spark_2.12:3.3.2", "io.delta:delta-storage:3.3.2"),
    ),
    Contestant("spark-floor", "floor", OURS_VENV, table=""),
    Contestant("spark-floor-3.5", "floor", PEERS_VENV, table=""),
)
CONTESTANTS = {contestant.name: contestant for contestant in _ALL}


def chosen(names: list[str]) -> list[Contestant]:
    unknown = [name for name in names if name not in CONTESTANTS]
    if unknown:
        raise SystemExit(f"unknown contestant {', '.join(unknown)}; known: {', '.join(CONTESTANTS)}")
    return [CONTESTANTS[name] for name in names]
