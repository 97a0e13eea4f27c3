"""Every parser of a table's bytes over mutations of real ones: an answer or a HoodieError, in bounded time
and memory. What this finds becomes a case of the corpus, or a test beside the parser.

HOODIE_FUZZ_EXAMPLES in the environment is the number of examples of each parser (the long form: 20000), and
HOODIE_FUZZ_FROM the number of the first one.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import mmap
import os
import random
import resource
import signal
import sys
import tempfile
import traceback
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie.codec.avro import read_record, write_record
from hoodie.config.key import Config
from hoodie.errors import HoodieError
from hoodie.format import names
from hoodie.format.base_file import BaseFileFormat, BaseFileReader, KeySummary
from hoodie.format.bloom import BloomFilter
from hoodie.format.hfile import HFileReader
from hoodie.format.internal_schema import InternalSchema, parse_history
from hoodie.format.java_properties import parse_properties
from hoodie.format.key_range import in_range
from hoodie.format.log_block import BlockType
from hoodie.format.log_data import carried_columns, read_data_block, read_delete_block, record_count
from hoodie.format.log_file import LogFileReader
from hoodie.format.schema import from_avro
from hoodie.format.settings import BloomType
from hoodie.jobs._main import parse_request, read_request
from hoodie.storage import Storage, storage_for
from hoodie.table import properties, table_schema
from hoodie.table.heartbeat import read_heartbeats
from hoodie.table.markers import Marker, read_markers
from hoodie.timeline.active import Timeline
from hoodie.timeline.archive.archive import commit_record, entry_record
from hoodie.timeline.archive.log_archive import archive_version, encode_archive, read_file
from hoodie.timeline.archive.lsm_archive import LsmArchive
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.commit_details import CommitDetails
from hoodie.timeline.instant import Action, Instant, State, is_time
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.layouts.two import TWO
from hoodie.timeline.models.clean import CleanMetadata, CleanPlan
from hoodie.timeline.models.clustering import RequestedReplace
from hoodie.timeline.models.compaction import CompactionPlan
from hoodie.timeline.models.restore import RestoreMetadata, RestorePlan
from hoodie.timeline.models.rollback import RollbackMetadata, RollbackPlan
from hoodie.timeline.models.savepoint import SavepointMetadata
from hoodie.timeline.time import InstantTime
from hoodie.timeline.token_index import interval_of
from hoodie.timeline.token_store import TokenStore
from hoodie.timeline.tokens import TaskRun, TokenCommit
from tests.security import fuzzing
from tests.support.handles import table_at
from tests.support.later_tables import new_tables_of
from tests.support.processes import forked, share_arenas
from tests.unit.log.reference import OneFile
from tests.unit.services.clean_support import MANUAL, MOR, written
from tests.unit.test_hfile import GZIP, NONE, hfile

EXAMPLES = int(os.environ.get("HOODIE_FUZZ_EXAMPLES") or 40)
FIRST = int(os.environ.get("HOODIE_FUZZ_FROM") or 0)
#: of processor time for one example
SECONDS, MEBIBYTES = 5, 512
WRONG = 3
INSTANT = "20240101000000000"

KEYS = pa.array(["a", "k00029"])

Make = Callable[[random.Random], Any]
Parse = Callable[[Any], object]
MODELS: dict[str, Any] = {
    "HoodieRollbackPlan": RollbackPlan,
    "HoodieRollbackMetadata": RollbackMetadata,
    "HoodieCleanerPlan": CleanPlan,
    "HoodieCleanMetadata": CleanMetadata,
    "HoodieCompactionPlan": CompactionPlan,
    "HoodieRequestedReplaceMetadata": RequestedReplace,
    "HoodieRestorePlan": RestorePlan,
    "HoodieRestoreMetadata": RestoreMetadata,
    "HoodieSavepointMetadata": SavepointMetadata,
}


class Seeds:
    """A table of version 6 of each type, and the bytes in them that the mutations begin with."""

    def __init__(self, folder: Path, later: Sequence[Path]) -> None:
        """`later`: tables of versions 8 and 9 that Apache Hudi wrote."""
        self.cow, self.mor = folder / "cow", folder / "mor"
        with new_tables_of(6):
            written(self.cow, 2, MANUAL)
            written(self.mor, 3, MOR)
            written(folder / "parquet", 2, {**MOR, "hoodie.logfile.data.block.format": "parquet"})
        self.place = folder / "fuzzed"
        self.commits = self._all("cow/.hoodie/*.commit", "mor/.hoodie/*.deltacommit", folder=folder)
        self.properties = self._all("*/.hoodie/hoodie.properties", folder=folder)
        self.bases = self._all("cow/*/*.parquet", folder=folder)[:2]
        self.logs = self._all("mor/*/.*.log.*", "parquet/*/.*.log.*", folder=folder)
        commit = CommitMetadata.parse(self.commits[0])
        self.schema = (commit.schema_text() or "").encode()
        record = {
            "commitTime": INSTANT,
            "actionType": "commit",
            "actionState": "COMPLETED",
            "stateTransitionTime": INSTANT,
            "version": None,
            "hoodieCommitMetadata": commit_record(commit),
        }
        self.archive = encode_archive([record, record], 1)
        with BaseFileReader(OneFile(self.bases[0]), "f.parquet") as reader:
            self.bloom = (reader.bloom() or BloomFilter.create()).to_string().encode()
        self.internal = InternalSchema.of(from_avro(self.schema.decode())).to_json().encode()
        rows = [(b"%03d" % number, b"value %d" % number) for number in range(40)]
        self.hfiles = [hfile(rows, codec) for codec in (NONE, GZIP)]
        self.later_commits = self._of_later(later, ".hoodie/timeline/*_*commit")
        self.later_plans = self._of_later(later, ".hoodie/timeline/*.c*.requested")
        self.later_logs = self._of_later(later, "*/.*.log.*_*-*")
        self.later_hfiles = self._of_later(later, ".hoodie/metadata/*/*.hfile")
        self.later_metadata_logs = self._of_later(later, ".hoodie/metadata/*/.*.log.*_*-*")
        self.lsm_files = self._of_later(later, ".hoodie/timeline/history/*.parquet")
        self.manifests = self._of_later(later, ".hoodie/timeline/history/manifest_*")

    @staticmethod
    def _of_later(tables: Sequence[Path], pattern: str) -> list[bytes]:
        """The smallest of each table, without the sums of Hadoop."""
        found = [[path for path in table.glob(pattern) if path.suffix != ".crc"] for table in tables]
        small = [sorted(paths, key=lambda path: (path.stat().st_size, path))[:12] for paths in found]
        return [data for paths in small for path in paths if (data := path.read_bytes())]

    @staticmethod
    def _all(*patterns: str, folder: Path) -> list[bytes]:
        return [path.read_bytes() for pattern in patterns for path in sorted(folder.glob(pattern))]


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory, later_tables: Path, later_more: Path) -> Seeds:
    names = (
        "1.2.0-v9/mor_archived",
        "1.2.0-v9/mdt_full_mor",
        "1.2.0-v8/cow_clustered",
        "1.2.0-v9/mdt_1x_indexes",
    )
    more = ("more/sql_partial_updates2", "more/multi_ordering_mor", "more/secondary_index_cow")
    later = [later_tables / name / "table" for name in names] + [later_more / name / "table" for name in more]
    return Seeds(tmp_path_factory.mktemp("seeds"), later)


def _bytes(data: Sequence[bytes], make: Callable[..., bytes] = fuzzing.mutated) -> Make:
    return lambda chance: make(chance, data)


def _names(text: bytes) -> None:
    name = text.decode("utf-8", "surrogatepass")
    parse: Callable[[str], object]
    for parse in (ONE.parse, is_time, names.BaseFileName.parse, names.LogFileName.parse, Marker.parse):
        parse(name)
    for parse in (TaskRun.parse, interval_of, archive_version):
        parse(name)
    for check in (names.relative_path, names.file_name, names.file_id, names.instant_time):
        with contextlib.suppress(HoodieError):
            check(name, "name")


def _commit(data: bytes) -> None:
    CommitDetails.parse(data)
    commit = CommitMetadata.parse(data)
    commit.to_json()
    _ = commit.schema_text(), commit.num_writes, commit.partitions, commit.file_groups
    TokenCommit.of(Instant(InstantTime(INSTANT), Action.COMMIT, State.COMPLETED), commit)
    TaskRun.of(commit.extra_metadata)


def _later_names(text: bytes) -> None:
    name = text.decode("utf-8", "surrogatepass")
    TWO.parse(name)
    instants, _ = TWO.instants([name, "20240101000000000_20240101000001000.commit"])
    for instant in instants:
        TWO.name(instant)


def _later_commit(data: bytes) -> None:
    """As `_commit`, of Avro."""
    for action in (Action.COMMIT, Action.REPLACECOMMIT):
        value = partial(TWO.commit_value, action)
        CommitDetails.parse(data, value)
        with contextlib.suppress(HoodieError):
            commit = CommitMetadata.completed(data, "a.commit", value)
            _ = commit.schema_text(), commit.num_writes, commit.partitions, commit.file_groups
            TokenCommit.of(Instant(InstantTime(INSTANT), action, State.COMPLETED), commit)
            TWO.content(commit)


def _later_plan(data: bytes) -> None:
    for model in (RequestedReplace, CompactionPlan, CleanPlan):
        with contextlib.suppress(HoodieError):
            model.from_bytes(data)


def _later_log(data: bytes) -> None:
    """Blocks of changed columns, and deletes with one or several ordering values."""
    orderings = (None, pa.int64(), pa.struct([("ts", pa.int64()), ("val", pa.float64())]))
    with LogFileReader(OneFile(data), "f.log.1") as reader:
        for block in reader.blocks():
            content = reader.content(block)
            if block.type is BlockType.DELETE:
                for ordering in orderings:
                    with contextlib.suppress(HoodieError):
                        read_delete_block(content, ordering)
            elif block.type not in (BlockType.COMMAND, BlockType.CORRUPT):
                with contextlib.suppress(HoodieError):
                    carried_columns(block, ["id", "ts"])
                with contextlib.suppress(HoodieError):
                    read_data_block(block, content, partial=True)


def _lsm(storage: Storage, base_path: str) -> None:
    """The archive of layout two, whose one file is what was placed, or whose manifest is."""
    folder = f"{base_path}/.hoodie/timeline/history"
    archive = LsmArchive(storage, folder)
    for look in (archive.instants, archive.files, lambda: list(archive.entries())):
        with contextlib.suppress(HoodieError):
            look()


def _lsm_file(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = Path(folder) / ".hoodie/timeline/history"
        history.mkdir(parents=True)
        (history / "1_2_0.parquet").write_bytes(data)
        named = {"files": [{"fileName": "1_2_0.parquet", "fileLen": len(data)}]}
        (history / "manifest_1").write_text(json.dumps(named))
        (history / "_version_").write_text("1")
        _lsm(storage_for(folder), folder)


def _archived(data: bytes) -> None:
    """What the archiver does with a commit."""
    instant = Instant(InstantTime(INSTANT), Action.COMMIT, State.COMPLETED)
    encode_archive([entry_record(instant, data, InstantTime(INSTANT))], 1)


def _log(data: bytes) -> None:
    with LogFileReader(OneFile(data), "f.log.1") as reader:
        for block in reader.blocks():
            content = reader.content(block)
            with contextlib.suppress(HoodieError):
                record_count(block, content)
            with contextlib.suppress(HoodieError):
                if block.type is BlockType.DELETE:
                    read_delete_block(content, pa.int64())
                elif block.type not in (BlockType.COMMAND, BlockType.CORRUPT):
                    read_data_block(block, content)


def _base(data: bytes) -> None:
    format_ = BaseFileFormat.of(Config.of({}))
    with BaseFileReader(OneFile(data), "f-0_0-0-0_20240101000000000.parquet") as reader:
        _ = reader.schema, reader.footer
        for look in (
            lambda: _summarized(reader.summary(format_)),
            reader.key_column_bytes,
            lambda: list(reader.record_keys(1000)),
            lambda: list(reader.record_keys()),
            lambda: list(reader.batches()),
        ):
            with contextlib.suppress(HoodieError):
                look()


def _summarized(summary: KeySummary | None) -> None:
    if summary is not None:
        in_range(KEYS, summary.low, summary.high)
        summary.add(KEYS)


def _bloom(data: bytes) -> None:
    for kind in BloomType:
        with contextlib.suppress(HoodieError):
            bloom = BloomFilter.from_string(data.decode("utf-8", "replace"), kind.value)
            bloom.might_contain(KEYS)
            bloom.add(KEYS)
            bloom.to_string()


def _hfile(data: bytes) -> None:
    look: Callable[[], object]
    with HFileReader.of_bytes(data, "f.hfile") as reader:
        _ = reader.info
        looks = (
            lambda: list(reader.get([b"a", b"eu"])),
            lambda: list(reader.get_prefixes([b"key 0"])),
            lambda: list(reader.scan()),
        )
        for look in looks:
            with contextlib.suppress(HoodieError):
                look()
        reader.meta(b"bloom")


def _text(parse: Callable[[str], object]) -> Parse:
    return lambda data: parse(data.decode("utf-8", "replace"))


def _model(model: str, seed: bytes) -> tuple[Make, Parse]:
    def make(chance: random.Random) -> bytes:
        data = write_record(model, fuzzing.record(chance, model))
        return fuzzing.mutated(chance, [data]) if chance.random() < 0.5 else data

    def parse(data: bytes) -> object:
        if model in MODELS:
            return MODELS[model].from_bytes(data).to_bytes()
        return read_record(model, data)

    return make, parse


def _placed(seeds: Seeds, name: str, parse: Callable[[Storage, str], object]) -> Parse:
    """A parser of a file in a table, which `name` is below `.hoodie`."""

    def run(data: bytes) -> None:
        path = seeds.place / ".hoodie" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        parse(storage_for(str(seeds.place)), str(seeds.place))

    return run


def _beats(storage: Storage, base_path: str) -> None:
    for beat in read_heartbeats(table_at(base_path, storage)):
        _ = beat.alive(1000, 2), beat.owner


def _token(storage: Storage, base_path: str) -> None:
    timeline = Timeline.load(base_path, storage)
    store = TokenStore(timeline, storage)
    store.find("t")
    store.later("d/t/-1/2024-01-01/2024-01-02", ["eu"])
    list(store.unsettled())


def _indexed(parse: Parse) -> Parse:
    """A node of the index of tokens, whole as far as its checksum tells."""

    def run(data: bytes) -> None:
        packed = zlib.compress(data)
        parse(b"airflow-hoodie token index 1\n" + hashlib.sha256(packed).digest() + packed)

    return run


def _schemas(storage: Storage, base_path: str) -> None:
    found = table_schema.newest(Timeline.load(base_path, storage), storage)
    if found is not None:
        parse_history(found.text)


def _targets(seeds: Seeds) -> dict[str, tuple[Make, Parse]]:
    place = seeds.place / ".hoodie"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{INSTANT}.commit").write_bytes(seeds.commits[0])
    token_name = f".aux/airflow-tokens/{hashlib.sha256(b't').hexdigest()}.json"
    token = b'{"token":"t","instant":"20240101000000000","action":"commit","fingerprint":"a",'
    token += b'"operation":"upsert","totals":{}}'
    root_name = ".aux/airflow-tokens/index/roots/1"
    node = (
        b'{"children":{},"facts":{"token t":'
        + token
        + b',"aware d/t":{"token":"d/t/-1/2024-01-01T00:00:00Z"}}}'
    )
    beat = b'{"host":"a","machine":"b","pid":1,"started":"1","token":"t","toleranceMs":5,"service":""}'
    lines = b"eu/f-0_0-0-0_20240101000000000.parquet.marker.CREATE\neu/.f-0_1.log.1_0-0-0.marker.APPEND\n"
    name_seeds = [b"20240101000000000.commit", b"20240101000000000.replacecommit.requested", b"eu/2024/01"]
    name_seeds += [b"f-0_0-0-0_20240101000000000.parquet", b".f-0_20240101000000000.log.1_0-0-0", lines[:50]]
    name_seeds += [b".commits_.archive.1_1-0-1", b"dag/task/-1/2024-01-01T00:00:00+00:00/2024-01-02"]
    request = b'{"table": "/t", "source": {"path": "/s", "format": "parquet"}, "options": {"a": "b"}}'
    many = fuzzing.mutated_json
    found: dict[str, tuple[Make, Parse]] = {
        "names": (_bytes(name_seeds, fuzzing.mutated_text), _names),
        "properties": (_bytes(seeds.properties), parse_properties),
        "stored properties": (_bytes(seeds.properties), _placed(seeds, "hoodie.properties", properties_of)),
        "commits": (_bytes(seeds.commits, many), _commit),
        "commits that are archived": (_bytes(seeds.commits, many), _archived),
        "archive files": (_bytes([seeds.archive]), lambda data: list(read_file(OneFile(data), "a"))),
        "logs": (_bytes(seeds.logs), _log),
        "base files": (_bytes(seeds.bases), _base),
        "ends of base files": (_bytes(seeds.bases, _end_mutated), _base),
        "bloom filters": (_bytes([seeds.bloom[:4000], seeds.bloom]), _bloom),
        "schemas": (_bytes([seeds.schema], many), _text(from_avro)),
        "schemas by id": (_bytes([seeds.internal], many), _text(InternalSchema.parse)),
        "markers": (_bytes([lines]), _placed(seeds, f".temp/{INSTANT}/MARKERS0", _markers)),
        "heartbeats": (_bytes([beat], many), _placed(seeds, f".heartbeat/{INSTANT}", _beats)),
        "tokens": (_bytes([token], many), _placed(seeds, token_name, _token)),
        "token indexes": (_bytes([node], many), _indexed(_placed(seeds, root_name, _token))),
        "schema commits": (
            _bytes([b'{"schemas":[' + seeds.internal + b"]}"], many),
            _placed(seeds, f".schema/{INSTANT}.schemacommit", _schemas),
        ),
        "requests": (
            _bytes([request], many),
            lambda data: parse_request(read_request(data.decode("utf-8", "replace")), "upsert"),
        ),
    }
    later_seeds = [b"20240101000000000_20240101000001000.commit", b"20240101000000000.clustering.requested"]
    later_seeds += [b"20240101000000000_20240101000001000.replacecommit", b"20240101000000000.inflight"]
    found |= {
        "names of later versions": (_bytes(later_seeds, fuzzing.mutated_text), _later_names),
        "commits of later versions": (_bytes(seeds.later_commits), _later_commit),
        "plans of later versions": (_bytes(seeds.later_plans), _later_plan),
        "logs of later versions": (_bytes(seeds.later_logs), _later_log),
        "archive files of later versions": (_bytes(seeds.lsm_files), _lsm_file),
        "manifests": (
            _bytes(seeds.manifests, many),
            _placed(seeds, "timeline/history/manifest_1", _lsm),
        ),
        "HFiles of later versions": (_bytes(seeds.later_hfiles), _hfile),
        "logs of later metadata tables": (_bytes(seeds.later_metadata_logs), _log),
    }
    if seeds.hfiles:
        found["HFiles"] = (_bytes(seeds.hfiles), _hfile)
    for model in (*MODELS, "HoodieArchivedMetaEntry"):
        found[model] = _model(model, b"")
    return found


def properties_of(storage: Storage, base_path: str) -> object:
    loaded = properties.load(storage, base_path, rounds=1)
    return [loaded.name, loaded.table_type, loaded.version, loaded.record_key_fields, loaded.archive_folder]


def _markers(storage: Storage, base_path: str) -> object:
    (Path(base_path) / ".hoodie/.temp" / INSTANT / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    return read_markers(table_at(base_path, storage), InstantTime(INSTANT))


def _end_mutated(chance: random.Random, data: Sequence[bytes]) -> bytes:
    """Changes to the part of a footer behind the filter and in front of the schema, where sizes are told."""
    seed = chance.choice(data)
    at = seed.rfind(b"org.apache.hudi.bloomfilter")
    begin = len(seed) - 8 - int.from_bytes(seed[-8:-4], "little")
    footer = bytearray(fuzzing.mutated(chance, [seed[begin:at]]))
    rest = seed[at:-8]
    return seed[:begin] + bytes(footer) + rest + (len(footer) + len(rest)).to_bytes(4, "little") + b"PAR1"


LATER = [
    *("names of later versions", "commits of later versions", "plans of later versions"),
    *("logs of later versions", "archive files of later versions", "manifests"),
    *("HFiles of later versions", "logs of later metadata tables"),
]
TARGETS = [
    *LATER,
    *("names", "properties", "stored properties", "commits", "commits that are archived", "archive files"),
    *("logs", "base files", "ends of base files", "bloom filters", "schemas", "schemas by id", "markers"),
    *(
        "heartbeats",
        "tokens",
        "token indexes",
        "schema commits",
        "requests",
        "HFiles",
        *MODELS,
        "HoodieArchivedMetaEntry",
    ),
]


@pytest.mark.parametrize("target", TARGETS)
def test_bytes_that_are_almost_right(seeds: Seeds, target: str) -> None:
    make, parse = _targets(seeds)[target]
    told = mmap.mmap(-1, 4096)
    code = forked(lambda: _run(target, make, parse, told))
    number = int.from_bytes(told[:8], "little")
    why = told[8:].rstrip(b"\0").decode("utf-8", "replace") or f"ended by {code}"
    assert not code, f"{target}, example {number}: {why}"


def _run(target: str, make: Make, parse: Parse, told: mmap.mmap) -> int:
    share_arenas()
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEBIBYTES * 2**20,) * 2)
    sys.stderr = io.StringIO()
    for number in range(FIRST, FIRST + EXAMPLES):
        told[:8] = number.to_bytes(8, "little")
        data = b""
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            data = make(random.Random(f"{target} {number}"))
            parse(data)
        except HoodieError as error:
            str(error)
        except Exception as error:  # noqa: BLE001  that is what is looked for
            where = "".join(traceback.format_exception(error)[-3:])
            text = f"{type(error).__name__}: {error}"[:300] + "\n" + where[-1500:] + repr(data[:300])
            told[8 : 8 + 4000] = text.encode("utf-8", "replace")[:4000].ljust(4000, b"\0")
            return WRONG
        signal.setitimer(signal.ITIMER_PROF, 0)
    return 0
