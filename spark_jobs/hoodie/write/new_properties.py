"""hoodie.properties of a table that a write makes, of the version that settings ask for."""

from __future__ import annotations

from hoodie.config import versions
from hoodie.config.key import Config
from hoodie.config.versions import LayoutVersion
from hoodie.errors import ConfigError
from hoodie.format.cdc import LOGGING_MODE
from hoodie.index import Index, PlacingIndex
from hoodie.keygen import KEY_GENERATORS, KeyGenerator
from hoodie.keygen.settings import PARTITIONPATH_FIELD
from hoodie.merge import MERGERS
from hoodie.merge.settings import DELETE_FIELD, DELETE_MARKER, MERGE_MODE, PAYLOAD_CLASS, PRECOMBINE_FIELD
from hoodie.table import later_names, properties
from hoodie.table.merge_rule import MergeRule
from hoodie.table.new_merging import NewMerging
from hoodie.write.settings import (
    ARCHIVE_FOLDER,
    CDC_ENABLED,
    CDC_MODE,
    DATABASE_NAME,
    TABLE_TYPE,
    TABLE_VERSION,
    TIMELINE_ZONE,
)


def new_properties(
    config: Config, name: str, keys: KeyGenerator, payload: str, index: Index | None
) -> dict[str, str]:
    """`payload`: the class name of the merger. Raises ConfigError as `new_merge_rule`."""
    texts = {
        properties.NAME: name,
        properties.DATABASE: config[DATABASE_NAME] or "",
        properties.TYPE: config[TABLE_TYPE].value,
        properties.VERSION: str(config[TABLE_VERSION]),
        properties.RECORD_KEY_FIELDS: ",".join(keys.record_key_fields),
        properties.TIMELINE_TIMEZONE: config[TIMELINE_ZONE].value,
        **keys.persisted(),
        **(index.persisted if isinstance(index, PlacingIndex) else {}),
    }
    if config[CDC_ENABLED]:
        texts |= {properties.CDC_ENABLED: "true", LOGGING_MODE: config[CDC_MODE].value}
    if is_later(config):
        if keys.java_class == KEY_GENERATORS.name("custom"):
            fields: tuple[str, ...] = config[PARTITIONPATH_FIELD]
            texts[properties.PARTITION_FIELDS] = ",".join(fields)
        if config.given(ARCHIVE_FOLDER):  # which nothing reads in these versions
            texts[properties.ARCHIVE_FOLDER] = config[ARCHIVE_FOLDER]
        return later_names.newer_names(texts) | _merging(config, payload)
    texts |= {properties.ARCHIVE_FOLDER: config[ARCHIVE_FOLDER], properties.PAYLOAD_CLASS: payload}
    if config[PRECOMBINE_FIELD]:
        texts[properties.PRECOMBINE_FIELD] = config[PRECOMBINE_FIELD] or ""
    return texts


def check_version(config: Config) -> None:
    """Raises ConfigError for a version that no table is made of here."""
    number = config[TABLE_VERSION]
    made = [known for known in versions.OF_NEW_TABLES if versions.is_writable(known)]
    if number not in made:
        why = "are no longer made" if number < versions.EARLIEST.number else "are read and not written here"
        raise ConfigError(
            f"a new table can't be made with {TABLE_VERSION.name}={number}: tables of this version {why}. "
            f"Give {' or '.join(map(str, made))}, or make the table with Apache Hudi",
            value=str(number),
        )


def is_later(config: Config) -> bool:
    """Is a new table of a version that says by a mode how rows merge."""
    return not versions.is_of_layout(config[TABLE_VERSION], LayoutVersion.ONE)


def new_merge_rule(config: Config) -> MergeRule | None:
    """Of a new table, where its mode says all; None where a payload class does. Raises ConfigError for
    settings that contradict one another.
    """
    if not is_later(config) or _is_own(config):
        return None
    rule = MergeRule.of({properties.VERSION: str(config[TABLE_VERSION]), **_merging(config)})
    return rule if rule.by_mode else None


def _is_own(config: Config) -> bool:
    """Is the payload a class of the caller's own, `module:Class`?"""
    return ":" in (config[PAYLOAD_CLASS] or "")


def _merging(config: Config, own: str = "") -> dict[str, str]:
    named = config[PAYLOAD_CLASS]
    asked = NewMerging(
        mode=config[MERGE_MODE],
        payload=own if _is_own(config) else MERGERS.name(named) if named else None,
        ordering_fields=tuple(filter(None, map(str.strip, (config[PRECOMBINE_FIELD] or "").split(",")))),
        delete_field=config[DELETE_FIELD] or None,
        delete_marker=config[DELETE_MARKER] or None,
    )
    try:
        return asked.properties(config[TABLE_VERSION])
    except ValueError as error:
        raise ConfigError(
            f"{MERGE_MODE.name}={config.text(MERGE_MODE.name)} contradicts {PAYLOAD_CLASS.name}: {error}; "
            "give one of the two.",
            value=str(config.text(MERGE_MODE.name)),
        ) from None
