"""Pending plans taken off the timeline: a rollback (services.rollback) of a plan, described."""
