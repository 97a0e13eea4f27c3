"""New secondary indexes and indexes of expressions: their definitions, and the order in which they are made.

1. The table's properties name the index as begun. Readers do without it.
2. Its definition is written (hoodie.metadata.index_definitions).
3. It is made (hoodie.write.participants.metadata.initialization), and named as ready.
4. The properties name it as begun no more.
After a kill the next writer makes an index that has a definition, and forgets one without
(hoodie.write.participants.metadata_table). Only the process that has the table for itself calls this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.metadata.index_definitions import IndexDefinition, define, new_version
from hoodie.metadata.partitions.expression_index import (
    EXPRESSION,
    FILTERS,
    IDENTITY,
    STATISTICS,
    strange_options,
    unknown,
)
from hoodie.metadata.settings import (
    EXPRESSION_INDEX_COLUMN,
    EXPRESSION_INDEX_OPTIONS,
    EXPRESSION_INDEX_TYPE,
    INDEX_NAME,
    SECONDARY_INDEX_COLUMN,
)
from hoodie.metadata.state import begun_indexes
from hoodie.metadata.table import DEFINED, EXPRESSION_INDEX, SECONDARY_INDEX
from hoodie.progress import ProgressCallback
from hoodie.table import properties
from hoodie.table.handle import Table
from hoodie.write.participants.metadata import CannotFollow, expression_index, secondary_index
from hoodie.write.participants.metadata.initialization import make_partitions, take_out
from hoodie.write.participants.metadata.registry import partitions_of

SECONDARY = "secondary_index"
KINDS = (SECONDARY, STATISTICS, FILTERS)
_NAME = re.compile(r"\w{1,200}", re.ASCII)
_PAIR = re.compile(r"""\s*(\w+)\s*=\s*(?:'([^']*)'|"([^"]*)"|([^,'"]*))\s*(?:,|$)""")


def new_definition(
    table: Table, name: str, column: str, kind: str, options: Mapping[str, str]
) -> IndexDefinition:
    """Of an index that is to be made. `name` may lack the begin of the partition's name; "" for the column's.
    `options`: the function `expr` and what it needs. Raises ConfigError.
    """
    prefix = SECONDARY_INDEX if kind == SECONDARY else EXPRESSION_INDEX
    full = (name or column).removeprefix(prefix)
    if kind not in KINDS:
        raise ConfigError(f"there is no index of type {kind!r}; use one of {', '.join(KINDS)}", using=kind)
    if not _NAME.fullmatch(full) or full.startswith(DEFINED):
        raise ConfigError(
            f"{full[:200]!r} is no name of an index of type {kind}; use letters, digits and _",
            indexes=full[:200],
        )
    function = options.get(EXPRESSION, IDENTITY)
    found = IndexDefinition(
        name=f"{prefix}{full}",
        kind=kind,
        function=function,
        source_fields=(column,),
        version=new_version(table),
        options=dict(options),
    )
    why = "it has no function" if kind == SECONDARY and options else ""
    if kind == STATISTICS and function == IDENTITY:
        why = "statistics of a column itself are those of the index column_stats"
    if kind != SECONDARY:
        why = why or unknown(found)
        if not why and (strange := strange_options(found)):
            why = f"its function has no option {', '.join(strange)}"[:300]
    if why:
        raise ConfigError(f"index {found.name} of {table.base_path} can't be made: {why}", indexes=found.name)
    return found


def options_of(text: str) -> dict[str, str]:
    """Of a text as of Apache Hudi's setting: pairs key='value', with commas between them. One word is the
    function. Raises ConfigError.
    """
    if _NAME.fullmatch(text.strip()):
        return {EXPRESSION: text.strip()}
    found, place = dict[str, str](), 0
    while place < len(text):
        match = _PAIR.match(text, place)
        if match is None:
            raise ConfigError(
                f"{text[:200]!r} are no options of an index; write expr='substring',pos='1',len='3'",
                expression=text[:200],
            )
        key, *values = match.groups()
        found[key] = next((value for value in values if value is not None), "").strip()
        place = match.end()
    return found


def configured(table: Table, config: Config) -> list[IndexDefinition]:
    """The definitions of the indexes that the settings ask for. Raises ConfigError."""
    found = []
    name = config[INDEX_NAME] or ""
    if column := config[SECONDARY_INDEX_COLUMN]:
        found.append(new_definition(table, name, column, SECONDARY, {}))
    if column := config[EXPRESSION_INDEX_COLUMN]:
        kind = (config[EXPRESSION_INDEX_TYPE] or "").lower()
        options = options_of(config[EXPRESSION_INDEX_OPTIONS] or "")
        found.append(new_definition(table, name, column, kind, options))
    return found


def unfollowed(table: Table, definition: IndexDefinition) -> str:
    """Why an index of the definition can't be kept for the table; "" where it can, with a record index for a
    secondary one.
    """
    if not table.layout.has_completion_time:
        return "a table before version 8 has none in Apache Hudi; change its version (hoodie upgrade)"
    if definition.kind == SECONDARY:
        return secondary_index.unfollowed(table, definition)
    return expression_index.unfollowed(table, definition)


def make_defined(
    table: Table, config: Config, definition: IndexDefinition, progress: ProgressCallback
) -> None:
    """Steps 1 to 4. Raises ConfigError where a file can't be followed, with nothing left of the index."""
    name = definition.name
    begun = begun_indexes(table.read_properties())
    _name_begun(table, [*begun, name])
    define(table, definition)
    try:
        make_partitions(table, config, partitions_of([name]), progress)
    except CannotFollow as error:
        take_out(table, [name], begun)
        raise ConfigError(
            f"index {name} of {table.base_path} can't be made: {error.why}", indexes=name
        ) from None
    _name_begun(table, begun)


def _name_begun(table: Table, names: list[str] | tuple[str, ...]) -> None:
    changes = {properties.METADATA_PARTITIONS_INFLIGHT: ",".join(dict.fromkeys(names)) or None}
    properties.update(table.storage, table.base_path, changes)
    table.reopen()
