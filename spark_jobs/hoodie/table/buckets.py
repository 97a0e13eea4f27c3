"""Tables of the BUCKET index, in which a key's hash alone says which file group it lives in.

The properties of Apache Hudi's tables do not name the index: it is known by the file ids of the simple kind,
which begin with the bucket's number (format.md 5.2), and the folder of the consistent kind (format.md 5.4). A
row put into any other file group is never found again by Apache Hudi.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from hoodie.errors import ConfigError
from hoodie.format.names import join
from hoodie.storage import Storage
from hoodie.table.hash_ring import FOLDER
from hoodie.table.listing import FileListing, StorageListing
from hoodie.table.properties import TableProperties
from hoodie.table.view import TimelineView, file_slices
from hoodie.timeline.active import Timeline, meta_path

#: of numbers of buckets by partition (Apache Hudi 1.x)
_BY_PARTITION = ".bucket_index/partition_bucket_index_meta"
_SETTING = "hoodie.index.type"
_NUMBERED = re.compile(r"(([0-9]{8})-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})-[0-9]+")
#: file ids that random UUIDs give less often are looked at in the whole table, or are bucket numbers
_SUSPECT, _CERTAIN = 1e-3, 1e-6


def check_no_buckets(
    storage: Storage, props: TableProperties, timeline: Timeline, snapshot: TimelineView
) -> None:
    """Raises ConfigError for a table of the BUCKET index. Looks at what is at hand: the listing of `.hoodie`
    and the newest commit that wrote files.
    """
    if (props.get(_SETTING) or "").strip().upper() == "BUCKET":
        raise _refusal(timeline.base_path, f"its {_SETTING} says so")
    check_no_hash_rings(storage, timeline)
    for instant in reversed(timeline.commits()):
        first = timeline.head(instant, storage).first_file_id
        if first is not None and _NUMBERED.fullmatch(first):
            file_ids = [stat.file_id or "" for stat in timeline.commit(instant, storage).write_stats]
            listing = StorageListing(storage, timeline.base_path)
            check_no_bucket_numbers(listing, timeline.base_path, snapshot, file_ids)
        if first is not None:
            break


def check_no_hash_rings(storage: Storage, timeline: Timeline, *, ringed: bool = False) -> None:
    """Raises ConfigError for a table whose buckets are numbered otherwise than by the simple kind. `ringed`:
    its hash rings are known.
    """
    path = timeline.base_path
    if not ringed and has_rings(storage, timeline):
        raise ConfigError(
            f"{path} is a table of the BUCKET index with hash rings ({FOLDER}), in which another index would "
            "put rows into file groups where they are not looked for. Write it with hoodie.index.type=BUCKET "
            "and hoodie.index.bucket.engine=CONSISTENT_HASHING",
            path=path,
        )
    if _holds(storage, timeline, _BY_PARTITION):
        raise ConfigError(
            f"{path} is a table of the BUCKET index with numbers of buckets by partition ({_BY_PARTITION}), "
            "to which rows can't be written here: all partitions have one number of buckets here, as in "
            "Apache Hudi 0.15.0. Write and cluster it with the Apache Hudi that made it; reading, deleting "
            "partitions, compaction, cleaning and archiving work here",
            path=path,
        )


def has_rings(storage: Storage, timeline: Timeline) -> bool:
    """Is it a table of consistent hashing."""
    return _holds(storage, timeline, FOLDER)


def _holds(storage: Storage, timeline: Timeline, folder: str) -> bool:
    path = join(meta_path(timeline.base_path), folder)
    return timeline.holds(folder.partition("/")[0]) and storage.exists(path) and bool(storage.names(path))


def check_no_bucket_numbers(
    listing: FileListing, base_path: str, snapshot: TimelineView, file_ids: Iterable[str]
) -> None:
    """Raises ConfigError when these file ids, and then those of the whole table, are bucket numbers.

    One UUID in 43 begins with eight decimal digits, so the number of ids and their size count: an ordinary
    table of one file is taken for a bucketed one once in a million, one of more files practically never.
    """
    if _chance(file_ids) > _SUSPECT:
        return
    partitions = listing.partitions()
    every = set(
        itertools.chain.from_iterable(file_slices(snapshot, listing.files, item) for item in partitions)
    )
    numbered = [file_id for file_id in every if _NUMBERED.fullmatch(file_id)]
    if 2 * len(numbered) > len(every) and _chance(numbered) <= _CERTAIN:
        raise _refusal(base_path, f"file ids such as {min(numbered)} begin with a bucket's number")


def _chance(file_ids: Iterable[str]) -> float:
    """About how likely random UUIDs all begin with decimal numbers as small as these; 1 for no ids.

    Files of a bulk insert share their UUID, and count as one.
    """
    numbers: dict[str, int] = {}
    for file_id in set(file_ids):
        match = _NUMBERED.fullmatch(file_id)
        if match is None:
            return 1.0
        numbers[match.group(1)] = int(match.group(2))
    return float(((max(numbers.values(), default=0) + 1) / 16**8) ** len(numbers))


def _refusal(base_path: str, why: str) -> ConfigError:
    return ConfigError(
        f"{base_path} is a table of the BUCKET index ({why}), in which another index, or a clustering, would "
        "put rows into file groups where they are not looked for. Write it with hoodie.index.type=BUCKET and "
        "the hoodie.bucket.index.num.buckets that it was made with; it can't be clustered",
        path=base_path,
    )
