"""What tables of versions below 6 lack, and version 6 has (Apache Hudi 0.15.0, ZeroToOneUpgradeHandler to
FiveToSixUpgradeHandler; 1.2.0 has the same).

0. Apache Hudi makes the markers of failed writes again. Here failed writes are rolled back first.
1. Key and partition columns come from the writer's settings. A table without them is refused here.
2. The key generator, and how partitions are named, come from the settings. Partitions that contradict them
   are refused here. The metadata table is dropped.
3. The checksum and the database are added. The metadata table is dropped here; Apache Hudi keeps it.
4. A partition `default` is refused. Since 0.12 its name is `__HIVE_DEFAULT_PARTITION__`.
5. Copies of plans of pending compactions in `.hoodie/.aux` are deleted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa

from hoodie.errors import ConfigError
from hoodie.format.names import DEFAULT_PARTITION
from hoodie.keygen import key_generator
from hoodie.keygen.settings import HIVE_STYLE, PARTITIONPATH_FIELD, URL_ENCODE
from hoodie.merge.settings import PRECOMBINE_FIELD
from hoodie.services.service_table import ServiceTable
from hoodie.table import properties
from hoodie.table.table_schema import TableSchema
from hoodie.timeline.active import meta_path
from hoodie.timeline.instant import Action, State
from hoodie.timeline.layouts.one import ONE
from hoodie.write.settings import DATABASE_NAME, SKIP_DEFAULT_PARTITION

#: the first version that says all
COMPLETE_SINCE = 6

#: of rows without a value, in tables of Apache Hudi before 0.12
_OLD_DEFAULT, _NEW_DEFAULT_SINCE = "default", 5
_ENCODED = re.compile("%[0-9A-Fa-f]{2}")
_AUXILIARY = ".aux"


def missing_properties(target: ServiceTable) -> dict[str, str]:
    """Those that the table lacks, of the settings and of what new tables have.

    Raises ConfigError where the settings do not say them, or partitions contradict what they say.
    """
    props, config = target.props, target.config
    partitions = target.table.listing().partitions()
    _check_default_partition(target, partitions)
    found = {properties.BASE_FILE_FORMAT: "PARQUET", **_of_keys(target, partitions)}
    if config[DATABASE_NAME]:
        found[properties.DATABASE] = str(config[DATABASE_NAME])
    if config[PRECOMBINE_FIELD]:
        found[properties.PRECOMBINE_FIELD] = str(config[PRECOMBINE_FIELD])
    return {name: text for name, text in found.items() if name not in props.texts}


def _of_keys(target: ServiceTable, partitions: list[str]) -> dict[str, str]:
    """What says how keys and partitions of rows are named."""
    props, config = target.props, target.config
    named = (
        properties.KEY_GENERATOR,
        properties.RECORD_KEY_FIELDS,
        properties.PARTITION_FIELDS,
        properties.HIVE_STYLE,
        properties.URL_ENCODE,
    )
    if all(name in props.texts for name in named):
        return {}
    parted = [partition for partition in partitions if partition]
    if parted and not config[PARTITIONPATH_FIELD]:
        raise _unsaid(target, PARTITIONPATH_FIELD.name, "the columns that make the partition", parted[0])
    columns = TableSchema.load(target.timeline(), target.storage, props).columns
    found = key_generator(config, columns or pa.schema([])).persisted()
    if properties.HIVE_STYLE not in props.texts:
        _check_hive_style(target, found[properties.PARTITION_FIELDS], parted)
    if properties.URL_ENCODE not in props.texts and not config.given(URL_ENCODE):
        encoded = next(filter(_ENCODED.search, parted), None)
        if encoded is not None:
            raise _unsaid(target, URL_ENCODE.name, "whether names of partitions are encoded", encoded)
    return found


def _check_hive_style(target: ServiceTable, fields: str, parted: list[str]) -> None:
    """Raises ConfigError for partitions named otherwise than the settings say."""
    config = target.config
    start = f"{fields.partition(',')[0]}="
    other = next((name for name in parted if name.startswith(start) is not config[HIVE_STYLE]), None)
    if other is not None and (config[HIVE_STYLE] or not config.given(HIVE_STYLE)):
        raise _unsaid(target, HIVE_STYLE.name, f"whether names of partitions begin with {start!r}", other)


def _unsaid(target: ServiceTable, setting: str, what: str, partition: str) -> ConfigError:
    given = target.config.text(setting)
    said = f"{setting}={given}" if given is not None else "hoodie.properties does not say"
    return ConfigError(
        f"{target.base_path} has table version {target.props.version} and the partition {partition!r}: "
        f"{said} {'is otherwise' if given is not None else what}. Give {setting}"
        f"{'' if given is None else f', {what},'} as the table's writers have it",
        path=target.base_path,
        setting=setting,
        partition=partition,
    )


def _check_default_partition(target: ServiceTable, partitions: Iterable[str]) -> None:
    """Raises ConfigError for a partition of rows without a value that later writes would put elsewhere."""
    if target.props.version >= _NEW_DEFAULT_SINCE or target.config[SKIP_DEFAULT_PARTITION]:
        return
    for partition in partitions:
        if _OLD_DEFAULT in (step.rpartition("=")[2] for step in partition.split("/")):
            raise ConfigError(
                f"{target.base_path} has the partition {partition!r}: Apache Hudi before 0.12 wrote rows "
                f"without a value there, and later ones go to {DEFAULT_PARTITION!r}, so that a key would be "
                "in both. Read its rows, delete the partition (operation delete_partition) and write them "
                f"again, or give {SKIP_DEFAULT_PARTITION.name}=true if {_OLD_DEFAULT!r} is a value",
                path=target.base_path,
                partition=partition,
            )


def delete_plan_copies(target: ServiceTable) -> None:
    """Of compactions, in `.hoodie/.aux`: nothing reads them where the timeline has the plan."""
    folder = f"{meta_path(target.base_path)}/{_AUXILIARY}"
    found = {name: ONE.parse(name) for name in sorted(target.storage.names(folder))}
    target.storage.delete_many(
        [
            f"{folder}/{name}"
            for name, item in found.items()
            if item is not None and item.action is Action.COMPACTION and item.state is State.REQUESTED
        ]
    )
