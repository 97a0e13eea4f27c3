"""Features of tables that not every part of this package handles yet."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from enum import Enum

from hoodie.config.key import is_known, keys
from hoodie.errors import ConfigError
from hoodie.table import later_names, properties
from hoodie.table.properties import TableProperties

_TABLE_FORMAT = "hoodie.table.format"
_SEVERAL_BASE_FORMATS = "hoodie.table.multiple.base.file.formats.enable"


class Feature(Enum):
    NO_META_COLUMNS = "no meta columns"
    PARTITION_COLUMNS_DROPPED = "partition columns dropped"
    OTHER_BASE_FILES = "base files other than Parquet"
    OTHER_MERGING = "merging by rules of later releases"
    OTHER_KEYS = "an unknown key generator"
    OTHER_FORMAT = "another table format"
    UNKNOWN_PROPERTY = "a property that no release is known to have"


#: without which rows can be read from files and written to others
ROWS = tuple(Feature)
#: without which nothing of the table is understood
UNKNOWN = (Feature.OTHER_FORMAT, Feature.UNKNOWN_PROPERTY)


def features(props: TableProperties) -> dict[Feature, str]:
    """The features that a table has, with the setting that asks for each."""
    base_files = props.base_file_format
    found = {
        Feature.OTHER_MERGING: props.merge_rule.problem,
        Feature.OTHER_KEYS: later_names.key_generator_problem(props.texts),
        Feature.OTHER_FORMAT: _other_format(props.texts),
        Feature.UNKNOWN_PROPERTY: unknown_property(props.texts),
    }
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
    known = {feature: setting for feature, setting, present in has if present}
    return known | {feature: setting for feature, setting in found.items() if setting}


def _other_format(texts: Mapping[str, str]) -> str | None:
    if (texts.get(_TABLE_FORMAT) or "native").lower() != "native":
        return f"{_TABLE_FORMAT}={texts[_TABLE_FORMAT]}"
    several = (texts.get(_SEVERAL_BASE_FORMATS) or "").lower() == "true"
    return f"{_SEVERAL_BASE_FORMATS}=true" if several else None


def unknown_property(texts: Mapping[str, str]) -> str | None:
    """The first property of Apache Hudi's that neither this package nor a release that it knows has."""
    names = (name for name in texts if name.startswith("hoodie.") and not is_known(name))
    return next((f"{name}={texts[name]}" for name in names if name not in keys()), None)


class UnknownProperty(UserWarning):
    """A table has a property that no release is known to have: its rows may mean something else."""


def warn_of_unknown(props: TableProperties) -> None:
    """For queries: writes are refused."""
    if (setting := unknown_property(props.texts)) is not None:
        warnings.warn(
            f"table {props.name!r} has {setting}, which is not known here: what it asks of readers is not "
            "done",
            UnknownProperty,
            stacklevel=2,
        )


def keeps_changes(props: TableProperties) -> bool:
    """Do writes to the table log change data."""
    return (props.get(properties.CDC_ENABLED) or "").lower() == "true"


def check_features(props: TableProperties, verb: str, done: str, *unsupported: Feature) -> None:
    """Raises ConfigError, "which is not <done> here yet; <verb> it with Apache Hudi", for one of these."""
    for feature, setting in features(props).items():
        if feature in unsupported:
            raise ConfigError(
                f"table {props.name!r} has {setting}, which is not {done} here yet; {verb} it with Apache "
                "Hudi",
                table=props.name,
            )
