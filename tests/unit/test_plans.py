"""Plans and results of services as Avro files, against the ones that Hudi wrote."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import fastavro
import pytest

from hoodie.codec import avro
from hoodie.errors import TableError
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.restore import RestoreMetadata, RestorePlan
from hoodie.timeline.models.rollback import (
    InstantInfo,
    RollbackMetadata,
    RollbackPartition,
    RollbackPlan,
    RollbackRequest,
)
from hoodie.timeline.models.savepoint import SavepointMetadata
from hoodie.timeline.time import InstantTime

PACKAGE = Path(avro.__file__).parents[1]

#: timeline files by the model they hold
MODELS = {
    ".rollback.requested": "HoodieRollbackPlan",
    ".rollback": "HoodieRollbackMetadata",
    ".clean.requested": "HoodieCleanerPlan",
    ".clean.inflight": "HoodieCleanerPlan",
    ".clean": "HoodieCleanMetadata",
    ".compaction.requested": "HoodieCompactionPlan",
    ".logcompaction.requested": "HoodieCompactionPlan",
    ".savepoint": "HoodieSavepointMetadata",
    ".restore.requested": "HoodieRestorePlan",
    ".restore": "HoodieRestoreMetadata",
    ".replacecommit.requested": "HoodieRequestedReplaceMetadata",
    ".indexing.requested": "HoodieIndexPlan",
    ".indexing": "HoodieIndexCommitMetadata",
}


def _avro_files(golden_tables: Path) -> list[tuple[Path, str]]:
    found = []
    for path in sorted(golden_tables.rglob(".hoodie/*")):
        model = MODELS.get("." + path.name.partition(".")[2])
        if model and path.is_file() and path.stat().st_size:
            found.append((path, model))
    return found


def _decoded(data: bytes) -> dict[str, object]:
    (record,) = fastavro.reader(io.BytesIO(data))
    assert isinstance(record, dict)
    return record


def test_every_golden_avro_file_reads_and_writes(golden_tables: Path) -> None:
    files = _avro_files(golden_tables)
    assert {model for _, model in files} == set(MODELS.values())
    for path, model in files:
        data = path.read_bytes()
        record = avro.read_record(model, data)
        assert record == _decoded(data), path
        assert _decoded(avro.write_record(model, record)) == record, path


def test_every_golden_rollback_restore_and_savepoint_field_by_field(golden_tables: Path) -> None:
    kinds = {
        kind.model: kind
        for kind in (RollbackPlan, RollbackMetadata, RestorePlan, RestoreMetadata, SavepointMetadata)
    }
    seen = []
    for path, model in _avro_files(golden_tables):
        if model not in kinds:
            continue
        seen.append(model)
        data = path.read_bytes()
        value = kinds[model].from_bytes(data)
        assert value.to_record() == _decoded(data), path
        assert kinds[model].from_bytes(value.to_bytes()) == value
    assert len(seen) >= 18
    assert set(seen) == set(kinds)


def test_values_of_a_golden_rollback(golden_tables: Path) -> None:
    folder = golden_tables / "0.15.0-v6" / "cow_rollback_failed" / "table" / ".hoodie"
    plan = RollbackPlan.from_bytes(next(folder.glob("*.rollback.requested")).read_bytes())
    assert plan.instant == InstantInfo(InstantTime("20261121000405552"), "commit")
    assert plan.instant.known_action is Action.COMMIT
    assert [request.partition_path for request in plan.requests] == ["us", "apac", "eu"]
    assert plan.requests[0].latest_base_instant == "20261121000405552"
    assert plan.requests[0].files_to_delete[0].endswith("_20261121000405552.parquet")
    done = RollbackMetadata.from_bytes(next(folder.glob("*.rollback")).read_bytes())
    assert done.total_files_deleted == 3
    assert done.instants == (plan.instant,)
    assert done.commits == (plan.instant.time,)
    assert done.partitions["us"].deleted == plan.requests[0].files_to_delete


def test_metadata_of_one_rolled_back_instant() -> None:
    target = InstantInfo.of(Instant(InstantTime("20260101000000000"), Action.COMMIT, State.INFLIGHT))
    parts = {
        "p": RollbackPartition("p", deleted=("/t/p/a.parquet", "/t/p/b.parquet")),
        "": RollbackPartition("", failed=("/t/c.parquet",), rollback_log_files={".x.log.2": 105}),
    }
    done = RollbackMetadata.of(InstantTime("20260101000001000"), 12, target, parts)
    assert done.total_files_deleted == 2
    assert done.commits == ("20260101000000000",)
    assert RollbackMetadata.from_bytes(done.to_bytes()) == done


def test_container_as_hudi_reads_it() -> None:
    plan = RollbackPlan(
        InstantInfo(InstantTime("1"), "commit"), (RollbackRequest("p", files_to_delete=("/t/p/f",)),)
    )
    reader = fastavro.reader(io.BytesIO(plan.to_bytes()))
    assert reader.codec == "null"
    schema = reader.writer_schema
    assert isinstance(schema, dict)
    name = schema["name"]
    assert name == "org.apache.hudi.avro.model.HoodieRollbackPlan"
    own = json.dumps(avro.schema_json("HoodieRollbackPlan"))
    assert reader.metadata["avro.schema"].count(avro.JAVA_STRING) == own.count(avro.JAVA_STRING) == 7
    assert len(list(reader)) == 1


def test_absent_parts_of_older_plans() -> None:
    old = avro.write_record("HoodieRollbackPlan", {"RollbackRequests": [{"partitionPath": "p"}]})
    plan = RollbackPlan.from_bytes(old)
    assert plan.instant is None
    assert plan.requests == (RollbackRequest("p", None, None, (), None),)
    assert RollbackPlan.from_bytes(plan.to_bytes()) == plan


@pytest.mark.parametrize("cut", [0, 3, 100, -5, -20])
def test_torn_plan(cut: int) -> None:
    data = RollbackPlan(InstantInfo(InstantTime("1"), "commit")).to_bytes()
    with pytest.raises(TableError, match=r"no whole HoodieRollbackPlan.*restore the file"):
        RollbackPlan.from_bytes(data[:cut])


def test_another_model() -> None:
    data = RollbackMetadata(InstantTime("1"), 0, 0, ()).to_bytes()
    with pytest.raises(TableError, match="HoodieRollbackPlan"):
        RollbackPlan.from_bytes(data)


def test_wrong_field_type() -> None:
    with pytest.raises(ValueError, match="RollbackRequests"):
        RollbackPlan(None, (RollbackRequest(3),)).to_bytes()  # type: ignore[arg-type]


def test_unknown_model() -> None:
    with pytest.raises(KeyError):
        avro.schema_json("HoodieNothing")


def test_every_schema_parses() -> None:
    names = [path.stem for path in (PACKAGE / "codec" / "schemas").glob("*.avsc")]
    assert len(names) > 50
    for name in names:
        assert fastavro.parse_schema(avro.schema_json(name), named_schemas={})


def test_schemas_load_out_of_a_zip(tmp_path: Path) -> None:
    archive = tmp_path / "hoodie.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for path in sorted(PACKAGE.rglob("*")):
            if path.suffix in {".py", ".avsc"}:
                out.write(path, Path("hoodie") / path.relative_to(PACKAGE))
    code = (
        "from hoodie.timeline.models.rollback import RollbackPlan, InstantInfo\n"
        "import hoodie.codec.avro as module\n"
        "assert '.zip' in module.__file__\n"
        "plan = RollbackPlan(InstantInfo('1', 'commit'))\n"
        "assert RollbackPlan.from_bytes(plan.to_bytes()) == plan"
    )
    env = {"PYTHONPATH": str(archive)}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, cwd=tmp_path, timeout=60)
