"""Privates of Airflow's streams that triggers share."""

from __future__ import annotations

from airflow_hoodie.compat.airflow_version import needs

needs("CommitEventTrigger")

from airflow.triggers.shared_stream import (  # noqa: E402  not there before Airflow 3.3
    AdvanceItem,
    SharedStreamProducer,
    _reject_context,
)

__all__ = ["AdvanceItem", "SharedStreamProducer", "waits_for_the_event"]


def waits_for_the_event() -> bool:
    """Whether what a trigger takes from its stream counts as handled only once its last event is stored.

    For `filter_shared_stream`, where it goes on after a yield. Airflow binds an event to the item that it was
    made of just before, but lets one pass unbound when the stream has ended, be it by an error or because the
    triggerer ends: then the item counts as handled although the event may never be stored. True without a
    stream.
    """
    window = _reject_context.get()
    if window is None:
        return True
    outstanding = window.group._outstanding.get(window.event_id)
    binding = None if outstanding is None else outstanding.bindings.get(window.trigger_id)
    return binding is not None and bool(binding.unconfirmed_seqs)
