"""Forged metadata tables: each case changes the metadata table of a healthy table, which lists its files."""

from __future__ import annotations

import struct

from hoodie.format.hfile import IndexEntry
from hoodie.format.log_block import BlockType, HeaderKey
from tests.security.corpus import NEW, OUT, Case, clean, compaction, long, restore, rollback
from tests.security.corpus_files import DEEP, doubling
from tests.security.metadata_tables import (
    base,
    block,
    blooms,
    bomb,
    cut,
    deletes,
    deltacommit,
    huge,
    indexed,
    link,
    linked,
    listed,
    locations,
    log,
    logged,
    metadata,
    more,
    of_another_partition,
    partitions,
    paths,
    pipe,
    prop,
    raw,
    raw_log,
    says,
    schema,
    sizes,
    statistics,
    text,
    trailer,
)

PLACE = "metadata/.hoodie"
#: as the metadata table names what it does of its own
_CLEAN, _ROLLBACK, _COMPACTION, _RESTORE = (f"{PLACE}/{NEW}{end}" for end in ("002", "006", "001", "003"))
#: a record "eu" of its files, up to the map of names
_FILES = long(0) + long(2) + long(1)
_COUNT = 1 << 40

FORGED: dict[str, Case] = {
    # names
    "a listed file outside": more("eu", "../../victim/a.parquet"),
    "a listed file of a whole path": more("eu", "/etc/hostname"),
    "a listed file called ..": more("eu", ".."),
    "a listed file with NUL": more("eu", "a\0_1-0-0_1.parquet"),
    "a listed file of .hoodie": more(".hoodie", "hoodie.properties"),
    "a listed file of another table": more("../other/eu", "a.parquet"),
    "a listed file in a folder of the partition": more("eu", "us/f-0_1-0-1_20200101000000000.parquet"),
    "listed files of another partition": listed(of_another_partition),
    "a listed file that is not there": more("eu", "f-9_1-0-1_20200101000000000.parquet"),
    "a listed file that is a link": linked,
    "a listed partition outside": partitions("../victim"),
    "a listed partition of a whole path": partitions("/tmp"),
    "a listed partition .hoodie": partitions(".hoodie"),
    "a listed partition by an inner way": partitions("eu/../../victim"),
    "a listed partition that is not there": partitions("nowhere"),
    "listed sizes of 2**62": sizes(1 << 62),
    "listed sizes below zero": sizes(-5),
    "listed sizes of zero": sizes(0),
    # indexes
    "statistics of a file outside": statistics(fileName="../../victim/a.parquet"),
    "statistics of another column": statistics(columnName="../../x"),
    "statistics of no file": statistics(fileName=None, columnName=None),
    "statistics of counts below zero": statistics(valueCount=-5, nullCount=-9, totalSize=-1),
    "statistics of nulls only": statistics(valueCount=1, nullCount=1 << 62),
    "statistics without values": statistics(minValue=None, maxValue=None),
    "bloom filters of no text": blooms(bloomFilter=b"\xff\xfe"),
    "bloom filters of nothing": blooms(bloomFilter=b""),
    "bloom filters of another kind": blooms(type="../../x"),
    "bloom filters of a huge vector": blooms(bloomFilter=b"////" + b"A" * 400),
    "a record outside": locations(partitionName="../victim"),
    "a record of a file id that leads out": locations(fileId="../../victim/f"),
    "a record of no partition": locations(partitionName=None),
    "a record of an unknown file id": locations(fileIdEncoding=7, fileId=None),
    # HFiles
    "a block that stores 2**31 bytes": block(stored=(1 << 31) - 1),
    "a block that stores less than nothing": block(stored=-9),
    "a block of 2**31 bytes": block(size=(1 << 31) - 1),
    "a block of less than nothing": block(size=-1),
    "a block that ends behind itself": block(end=(1 << 31) - 1),
    "a block without a sum": block(chunk=0),
    "a block of sums of one byte": block(chunk=1),
    "a block of unknown sums": block(checksum=9),
    "an index behind the end": trailer(load_on_open=1 << 40),
    "an index of 2**31 blocks": trailer(data_entries=(1 << 31) - 1),
    "2**62 cells": trailer(cells=1 << 62),
    "an index of 16 levels": trailer(levels=16),
    "an index of 2**31 levels": trailer(levels=(1 << 31) - 1),
    "an index in itself": indexed(lambda place: [IndexEntry(place, 100, b"")]),
    "an index of leaves in themselves": indexed(lambda place: [IndexEntry(place, 105, b"")], levels=2),
    "an index of leaves in leaves": indexed(lambda place: [IndexEntry(place, 105, b"")], levels=16),
    "an index of a block of 2**31 bytes": indexed(lambda _: [IndexEntry(0, (1 << 31) - 1, b"")]),
    "an index of a block below the start": indexed(lambda _: [IndexEntry(-4096, 100, b"")]),
    "an index of a block at 2**62": indexed(lambda _: [IndexEntry(1 << 62, 100, b"")]),
    "a block that becomes longer than it says": bomb(512, 1 << 20),
    "a block that becomes a GiB": bomb(1024, 1 << 30),
    "a block of 64 MiB of zeros": bomb(64, 64 << 20),
    "a base file of 2**40 bytes": huge(base),
    "a base file that is cut": cut(base, 0.5),
    "an empty base file": cut(base, 0),
    "a pipe as a base file of the list": pipe(base),
    # Avro
    "a record of 2**40 names": raw(_FILES + long(_COUNT)),
    "a record of names without end": raw(_FILES + long(-_COUNT) + long(_COUNT)),
    "a name of 2**40 bytes": raw(_FILES + long(1) + long(_COUNT)),
    "a record of 2**40 nulls": raw(
        long(0) + long(2) + long(_COUNT) + long(0),
        schema(filesystemMetadata={"type": "array", "items": "null"}),
    ),
    "a record of no kind": raw(long(0) + long(2) + long(77)),
    "a record of another key than its cell": raw(long(9) + b"../victim" + long(2) + long(1) + long(0)),
    "a key of no UTF-8": raw(_FILES + long(0), key=b"\xff\xfe"),
    "records whose keys are numbers": raw(long(0) + long(2), key=b"7", schema=schema(key="long")),
    "records whose files are a text": raw(
        long(0) + long(2) + long(1) + b"x", schema(filesystemMetadata="string")
    ),
    "records whose sizes are texts": raw(
        long(0) + long(2) + long(1) + long(1) + b"x" + long(1) + b"y" + long(0),
        schema(filesystemMetadata={"type": "map", "values": "string"}),
    ),
    "records without files": raw(long(0) + long(2), schema(filesystemMetadata=None)),
    "records of a schema that doubles": raw(_FILES, doubling()),
    "records of a schema of deep JSON": raw(_FILES, DEEP),
    "records of no schema": raw(_FILES, ""),
    # logs
    "a log of the list that is cut": cut(log, 0.6),
    "an empty log of the list": cut(log, 0),
    "a pipe as a log of the list": pipe(log),
    "a log of the list of one endless block": raw_log(b"#HUDI#" + struct.pack(">q", 1 << 62)),
    "a log of the list of 2**31 headers": raw_log(
        b"#HUDI#" + struct.pack(">qiii", 64, 3, 2, (1 << 31) - 1) + b"\0" * 64
    ),
    "a log of the list of another version": raw_log(
        b"#HUDI#" + struct.pack(">qiii", 28, 99, 4, 0) + struct.pack(">qiq", 0, 0, 34)
    ),
    "a log of the list that is no HFile": logged(BlockType.HFILE_DATA, b"x" * 5000),
    "a log of the list of Avro": logged(BlockType.AVRO_DATA, struct.pack(">ii", 3, (1 << 31) - 1)),
    "a log of the list of no schema": logged(BlockType.HFILE_DATA, b"", {HeaderKey.SCHEMA: DEEP}),
    "a log of the list that deletes a partition": logged(BlockType.DELETE, deletes("eu")),
    "a log of the list that deletes keys outside": logged(BlockType.DELETE, deletes("../victim", "\0")),
    "a log of the list that takes the last commit back": logged(BlockType.COMMAND, b"", undo=True),
    "a log of the list of an instant that leads out": logged(
        BlockType.DELETE, deletes("eu"), {HeaderKey.INSTANT_TIME: OUT}
    ),
    # the timeline of the metadata table
    "a clean of the list outside": clean({"../../../victim": [".f_1.log.1_0-0-0"]}, at=_CLEAN),
    "a begun clean of the list outside": clean(
        {"../../../victim": [".f_1.log.1_0-0-0"]}, inflight=True, at=_CLEAN
    ),
    "a clean of the list of a whole path": clean({"/tmp": ["f-0_1-0-1_1.hfile"]}, at=_CLEAN),
    "a clean of the list of the data": clean({"../../eu": ["f-0_1-0-1_1.hfile"]}, at=_CLEAN),
    "a compaction of the list outside": compaction(
        at=_COMPACTION, partitionPath="../../../victim", deltaFilePaths=[".f_1.log.1_0-0-0"]
    ),
    "a compaction of the list of other files": compaction(
        at=_COMPACTION, partitionPath="files", deltaFilePaths=["../../../victim/.f_1.log.1_0-0-0"]
    ),
    "a rollback of the list outside": rollback(
        NEW,
        {
            "partitionPath": "../../../victim",
            "fileId": "f",
            "latestBaseInstant": "1",
            "filesToBeDeleted": [".f_1.log.1_0-0-0"],
            "logBlocksToBeDeleted": {"a": 1},
        },
        at=_ROLLBACK,
    ),
    "a rollback of an instant of the list that leads out": rollback(OUT, at=_ROLLBACK, inflight=True),
    "a restore of the list": restore(OUT, at=_RESTORE),
    "a deltacommit of the list outside": paths("../../../victim/a.parquet"),
    "a deltacommit of the list of a whole path": paths("/etc/hostname"),
    "a deltacommit of the list of nothing": says(dict.clear),
    "a deltacommit of the list of deep JSON": text(deltacommit, DEEP),
    "a deltacommit of the list of 2**40 bytes": huge(deltacommit),
    "a pipe as a deltacommit of the list": pipe(deltacommit),
    "a deltacommit of the list that is not the table's": lambda lake: lake.write(
        f"{PLACE}/{NEW}.deltacommit", '{"partitionToWriteStats": {"../../victim": []}}'
    ),
    # its properties
    "a metadata table of version 99": prop("hoodie.table.version", "99"),
    "a metadata table that is copy on write": prop("hoodie.table.type", "COPY_ON_WRITE"),
    "a metadata table of another archive": prop("hoodie.archivelog.folder", "../../../victim"),
    "a metadata table of another format": prop("hoodie.table.base.file.format", "../x"),
    "a metadata table of a payload of Python code": prop(
        "hoodie.compaction.payload.class", "victim_module:Payload"
    ),
    "properties of the metadata table of 2**40 bytes": huge(
        lambda lake: metadata(lake) / ".hoodie/hoodie.properties"
    ),
    "a pipe as properties of the metadata table": pipe(
        lambda lake: metadata(lake) / ".hoodie/hoodie.properties"
    ),
    "a metadata table of partitions outside": lambda lake: lake.property(
        "hoodie.table.metadata.partitions", "files,../../../victim,column_stats"
    ),
    # links
    "a metadata table that links elsewhere": link("", "victim/moved"),
    "a list that links elsewhere": link("files", "moved"),
    "a timeline of the list that links elsewhere": link(".hoodie", "moved"),
    "a base file of the list that links elsewhere": lambda lake: lake.linked(
        base(lake), lake.path / "moved.hfile"
    ),
    "a log of the list that links elsewhere": lambda lake: lake.linked(log(lake), lake.path / "moved.log"),
}
#: one of each kind
FAST = (
    "a listed file outside",
    "a listed partition outside",
    "statistics of a file outside",
    "a block of 2**31 bytes",
    "an index of leaves in themselves",
    "a record of 2**40 nulls",
    "a log of the list of another version",
    "a clean of the list outside",
    "a list that links elsewhere",
)
