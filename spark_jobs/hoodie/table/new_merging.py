"""What a new table says of how its rows merge, by its version.

Stdlib only. Source: Apache Hudi 1.2.0, HoodieTableConfig (inferMergingConfigsForPreV9Table,
inferMergingConfigsForV9TableCreation); format.md 15.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from hoodie.config import versions
from hoodie.table.merge_rule import (
    BY_PAYLOAD,
    DELETE_FIELD,
    DELETE_MARKER,
    LEGACY_PAYLOAD_CLASS,
    MERGE_MODE,
    MERGE_STRATEGY,
    ORDERING_FIELDS,
    PARTIAL_UPDATE_MODE,
    PAYLOAD_CLASS,
    PAYLOADS,
    STRATEGIES,
    UNAVAILABLE,
    MergeMode,
    PartialUpdateMode,
    mode_of,
)

_MODEL = "org.apache.hudi.common.model."
_DEBEZIUM = _MODEL + "debezium."
_CHANGES = {DELETE_FIELD: "_change_operation_type", DELETE_MARKER: "d"}
#: since version 9 the payload classes that are a mode, and what is said beside it
BUILT_IN: dict[str, tuple[MergeMode, dict[str, str]]] = {
    PAYLOADS[MergeMode.EVENT_TIME_ORDERING]: (MergeMode.EVENT_TIME_ORDERING, {}),
    _MODEL + "EventTimeAvroPayload": (MergeMode.EVENT_TIME_ORDERING, {}),
    PAYLOADS[MergeMode.COMMIT_TIME_ORDERING]: (MergeMode.COMMIT_TIME_ORDERING, {}),
    _MODEL + "OverwriteNonDefaultsWithLatestAvroPayload": (
        MergeMode.COMMIT_TIME_ORDERING,
        {PARTIAL_UPDATE_MODE: PartialUpdateMode.IGNORE_DEFAULTS.value},
    ),
    _MODEL + "PartialUpdateAvroPayload": (
        MergeMode.EVENT_TIME_ORDERING,
        {PARTIAL_UPDATE_MODE: PartialUpdateMode.IGNORE_DEFAULTS.value},
    ),
    _MODEL + "AWSDmsAvroPayload": (
        MergeMode.COMMIT_TIME_ORDERING,
        {DELETE_FIELD: "Op", DELETE_MARKER: "D"},
    ),
    _DEBEZIUM + "PostgresDebeziumAvroPayload": (
        MergeMode.EVENT_TIME_ORDERING,
        {
            **_CHANGES,
            ORDERING_FIELDS: "_event_lsn",
            PARTIAL_UPDATE_MODE: PartialUpdateMode.FILL_UNAVAILABLE.value,
            UNAVAILABLE: "__debezium_unavailable_value",
        },
    ),
    _DEBEZIUM + "MySqlDebeziumAvroPayload": (
        MergeMode.EVENT_TIME_ORDERING,
        {**_CHANGES, ORDERING_FIELDS: "_event_bin_file,_event_pos"},
    ),
}


@dataclass(frozen=True)
class NewMerging:
    """What was asked for: a mode, a payload class by its full name, ordering fields, the delete marker."""

    mode: MergeMode | None
    payload: str | None
    ordering_fields: tuple[str, ...]
    delete_field: str | None = None
    delete_marker: str | None = None

    def properties(self, version: int) -> dict[str, str]:
        """Those of a table of version 8 or 9. ValueError for a mode that the payload class is not."""
        found = self._of_payloads() if version >= versions.PAYLOADS_ARE_MODES_SINCE else self._of_modes()
        given = {
            ORDERING_FIELDS: ",".join(self.ordering_fields),
            DELETE_FIELD: self.delete_field or "",
            DELETE_MARKER: self.delete_marker or "",
        }
        return {name: text for name, text in ({**given, **found}).items() if text}

    def _of_payloads(self) -> dict[str, str]:
        if self.payload in BUILT_IN:
            mode, said = BUILT_IN[self.payload]
            self._check(mode)
            return {MERGE_MODE: mode.value, LEGACY_PAYLOAD_CLASS: self.payload, **said}
        if self.payload:
            self._check(MergeMode.CUSTOM)
            return self._custom(self.payload)
        return {MERGE_MODE: self._inferred().value}

    def _of_modes(self) -> dict[str, str]:
        mode = mode_of(self.payload) if self.payload else self._inferred()
        self._check(mode)
        if mode is MergeMode.CUSTOM:
            return self._custom(self.payload or "")
        return {
            MERGE_MODE: mode.value,
            PAYLOAD_CLASS: self.payload or PAYLOADS[mode],
            MERGE_STRATEGY: STRATEGIES[mode],
        }

    def _custom(self, payload: str) -> dict[str, str]:
        return {
            MERGE_MODE: MergeMode.CUSTOM.value,
            PAYLOAD_CLASS: payload,
            MERGE_STRATEGY: BY_PAYLOAD,
        }

    def _inferred(self) -> MergeMode:
        by_fields = MergeMode.EVENT_TIME_ORDERING if self.ordering_fields else MergeMode.COMMIT_TIME_ORDERING
        return self.mode or by_fields

    def _check(self, mode: MergeMode) -> None:
        if self.mode is not None and self.mode is not mode:
            raise ValueError(f"{self.payload} is {mode.value}")
