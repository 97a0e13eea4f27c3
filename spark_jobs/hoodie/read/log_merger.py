"""Which merger the logs of a table have in a query, and whether their rows can be merged."""

from __future__ import annotations

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.errors import ConfigError, TableError
from hoodie.format.meta_fields import OPERATION
from hoodie.format.schema import from_avro
from hoodie.merge import MERGERS, Merger, merger
from hoodie.merge.by_mode import ByMode
from hoodie.merge.settings import PAYLOAD_CLASS
from hoodie.table import properties
from hoodie.table.features import Feature, check_features
from hoodie.table.properties import TableProperties


def table_merger(props: TableProperties, config: Config, schema: pa.Schema) -> Merger:
    """The merger of a table's logs. `schema` is that of its data columns.

    A payload class of the config is one's own (`module:Class`) for the class name that the table persists.
    Raises ConfigError for a payload class that is not known here, or another one than the table's, and for
    rules of merging that are not followed here.
    """
    check_features(props, "read", "merged", Feature.OTHER_MERGING)
    stored = props.merge_rule.merger or ""  # what has none is refused above
    given, rule = config[PAYLOAD_CLASS], props.merge_rule
    own = {None, stored, rule.legacy_payload_class}
    if rule.by_mode and (MERGERS.name(given) if given else None) in own:
        return ByMode.of(rule, schema)
    made = merger(
        Config.of({**config.texts, PAYLOAD_CLASS.name: given or stored}), props.precombine_field, schema
    )
    if given and made.java_class != stored:
        raise ConfigError(
            f"{PAYLOAD_CLASS.name}={given!r} is {made.java_class}, but the table's logs are merged by "
            f"{stored}; leave it out",
            value=given,
        )
    return made.of_later() if rule.later else made


def check_mergeable(base_path: str, props: TableProperties, text: str | None) -> None:
    """TableError for logs whose rows have no keys, or whose deletes are in a column not read here."""
    why = ""
    if not props.populate_meta_fields:
        why = f"keeps no record keys ({properties.POPULATE_META_FIELDS}=false)"
    elif text and OPERATION in from_avro(text).names:
        why = f"keeps a change log ({OPERATION})"
    if why:
        raise TableError(
            f"{base_path} has log files and {why}, which is not supported; compact it with Apache Hudi, or "
            "query it read_optimized",
            path=base_path,
        )
