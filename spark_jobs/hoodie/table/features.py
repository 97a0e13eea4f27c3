"""Features of tables that not every part of this package handles yet."""

from __future__ import annotations

from enum import Enum

from hoodie.errors import ConfigError
from hoodie.table import properties
from hoodie.table.properties import TableProperties


class Feature(Enum):
    NO_META_COLUMNS = "no meta columns"
    PARTITION_COLUMNS_DROPPED = "partition columns dropped"
    OTHER_BASE_FILES = "base files other than Parquet"


#: without which rows can be read from files and written to others
ROWS = (Feature.NO_META_COLUMNS, Feature.PARTITION_COLUMNS_DROPPED, Feature.OTHER_BASE_FILES)


def features(props: TableProperties) -> dict[Feature, str]:
    """The features that a table has, with the setting that asks for each."""
    base_files = props.base_file_format
    has = (
        (Feature.NO_META_COLUMNS, f"{properties.POPULATE_META_FIELDS}=false", not props.populate_meta_fields),
        (
            Feature.PARTITION_COLUMNS_DROPPED,
            f"{properties.DROP_PARTITION_COLUMNS}=true",
            props.drop_partition_columns,
        ),
        (
            Feature.OTHER_BASE_FILES,
            f"{properties.BASE_FILE_FORMAT}={base_files}",
            base_files != "PARQUET",
        ),
    )
    return {feature: setting for feature, setting, present in has if present}


def keeps_changes(props: TableProperties) -> bool:
    """Do writes to the table log change data."""
    return (props.get(properties.CDC_ENABLED) or "").lower() == "true"


def refuse(props: TableProperties, verb: str, done: str, *unsupported: Feature) -> None:
    """Raises ConfigError, "which is not <done> here yet; <verb> it with Apache Hudi", for one of these."""
    for feature, setting in features(props).items():
        if feature in unsupported:
            raise ConfigError(
                f"table {props.name!r} has {setting}, which is not {done} here yet; {verb} it with Apache "
                "Hudi",
                table=props.name,
            )
